//! The user's `efficiency.yaml` with a machine's curves in it.

use serde_yaml::{Mapping, Value, to_value};
use thiserror::Error;

use super::fitted::Fitted;
use crate::files;
use crate::units::Bytes;

/// A file that curves cannot be written to.
#[derive(Debug, Error)]
pub enum MergeError {
    /// What is there is no YAML, or no catalogue file.
    #[error("{0}")]
    Malformed(#[from] serde_yaml::Error),
    /// Its values stand in each other deeper than those of any catalogue.
    #[error("nested too deep")]
    TooDeep,
    /// It has another shape than a catalogue file.
    #[error("`{0}` is not what a catalogue file has there")]
    Shape(&'static str),
}

/// The text of a measured file.
pub struct MeasuredFile;

const HEADER: &str = "# Measured by `memwall bench`, in the form of MemWall's own configs/efficiency.yaml. Another\n\
                      # measurement of the same device replaces its entries here; delete the file to go back to the\n\
                      # bundled curves.\n";

impl MeasuredFile {
    /// The file with `fitted` in place of what it said of the same device before. `existing` is what is there.
    ///
    /// # Errors
    /// Where that is no catalogue file.
    pub fn merged(existing: Option<&str>, fitted: &Fitted) -> Result<String, MergeError> {
        let mut file = match existing.map(str::trim).filter(|text| !text.is_empty()) {
            None => Mapping::new(),
            Some(text) if files::is_deep(text) => return Err(MergeError::TooDeep),
            Some(text) => match serde_yaml::from_str(text)? {
                Value::Mapping(mapping) => mapping,
                Value::Null => Mapping::new(),
                _ => return Err(MergeError::Shape("the file")),
            },
        };
        let sources = file.entry("sources".into()).or_insert_with(|| Mapping::new().into());
        let sources = sources.as_mapping_mut().ok_or(MergeError::Shape("sources"))?;
        for (key, text) in &fitted.sources {
            sources.insert(key.as_str().into(), text.as_str().into());
        }
        let of_gpu = |entry: &Value| entry.get("gpu").and_then(Value::as_str) == Some(&fitted.name);
        let named = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(&fitted.name);
        let linked = |entry: &Value| {
            let has = |key: &str, value: Option<&str>| entry.get(key).and_then(Value::as_str) == value;
            fitted.links.iter().any(|link| has("scope", Some(&link.scope)) && has("link", link.link.as_deref()))
        };
        let devices = fitted.own.is_some().then(|| device(fitted)).into_iter().collect();
        replace(&mut file, "gpus", named, devices)?;
        replace(&mut file, "curves", of_gpu, vec![to_value(&fitted.curves)?])?;
        replace(&mut file, "stacks", of_gpu, fitted.stacks.iter().map(to_value).collect::<Result<_, _>>()?)?;
        replace(&mut file, "link_curves", linked, fitted.links.iter().map(to_value).collect::<Result<_, _>>()?)?;
        Ok(format!("{HEADER}{}", serde_yaml::to_string(&file)?))
    }
}

/// Puts `new` in the place of the entries of a list that are `old`.
fn replace(
    file: &mut Mapping,
    list: &'static str,
    old: impl Fn(&Value) -> bool,
    new: Vec<Value>,
) -> Result<(), MergeError> {
    if new.is_empty() && !file.contains_key(list) {
        return Ok(());
    }
    let entries = file.entry(list.into()).or_insert_with(|| Value::Sequence(Vec::new()));
    let entries = entries.as_sequence_mut().ok_or(MergeError::Shape(list))?;
    entries.retain(|entry| !old(entry));
    entries.extend(new);
    Ok(())
}

/// A device of the user's own, as `gpus.yaml` has one.
fn device(fitted: &Fitted) -> Value {
    let machine = &fitted.machine;
    let key = fitted.curves.matrix.source.as_str();
    let mut entry = Mapping::new();
    let mut set = |name: &str, value: Value| entry.insert(name.into(), value);
    let cited =
        |value: Value| Value::Mapping([("value".into(), value), ("source".into(), key.into())].into_iter().collect());
    let cpu = machine.is_cpu();
    set("name", fitted.name.as_str().into());
    set("short", fitted.name.trim_start_matches("NVIDIA ").chars().take(10).collect::<String>().into());
    set("vendor", if cpu { "cpu" } else { machine.vendor.as_deref().unwrap_or("nvidia") }.into());
    set("architecture", fitted.curves.architecture.as_str().into());
    set("sm_count", cited((machine.multiprocessors.round() as u64).into()));
    set("memory_gib", cited((machine.memory_bytes / Bytes::from_gib(1.0).as_f64()).into()));
    let own = fitted.own.as_ref();
    set("bandwidth_gb_s", cited((own.map_or(0.0, |own| own.bandwidth) / 1e9).into()));
    let mut peaks: Mapping = [("source".into(), key.into())].into_iter().collect();
    for (element, rate) in own.iter().flat_map(|own| &own.peaks) {
        peaks.insert(element.as_str().into(), (rate / 1e12).into());
    }
    set("peak_tflops", peaks.into());
    set("link", "pcie_4".into());
    let mut process: Mapping = [("source".into(), key.into())].into_iter().collect();
    for (library, bytes) in &fitted.processes {
        process.insert(library.as_str().into(), (bytes / Bytes::from_mib(1).as_f64()).into());
    }
    if process.contains_key("torch") {
        set("process_mib", process.into());
    }
    entry.into()
}
