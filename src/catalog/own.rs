//! Reading the user's own catalogue files: an entry with a fault is left out and said, the others count.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use saphyr_parser::{Event, Parser};
use serde::de::DeserializeOwned;
use serde_yaml::Value;

use super::files::{CatalogError, File};
use super::{Catalog, names};
use crate::files;

/// An entry of a user's file that cannot be used. What it hides of the catalogue is not used in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrokenEntry {
    names: (String, Vec<String>),
    fault: String,
}

/// The lists of a file, and what one entry is read into.
const LISTS: [(&str, ReadEntry); 6] = [
    ("gpus", |entry| Ok(File { gpus: one(entry)?, ..File::default() })),
    ("interconnects", |entry| Ok(File { interconnects: one(entry)?, ..File::default() })),
    ("models", |entry| Ok(File { models: one(entry)?, ..File::default() })),
    ("curves", |entry| Ok(File { curves: one(entry)?, ..File::default() })),
    ("stacks", |entry| Ok(File { stacks: one(entry)?, ..File::default() })),
    ("link_curves", |entry| Ok(File { link_curves: one(entry)?, ..File::default() })),
];

type ReadEntry = fn(Value) -> Result<File, String>;

fn one<T: DeserializeOwned>(entry: Value) -> Result<Vec<T>, String> {
    // Read out of a text the reader says under which key the fault is, which it does not of a value.
    let in_text = |entry: &Value| serde_yaml::from_str::<T>(&serde_yaml::to_string(entry).ok()?).err();
    let fault = |error| in_text(&entry).unwrap_or(error).to_string();
    let read = serde_yaml::from_value(entry.clone()).map_err(fault);
    read.map(|entry| vec![entry]).map_err(|error| in_plain_words(&error))
}

impl Catalog {
    /// Adds what a user's own file holds, entry by entry, and returns what is wrong with the others, a line each with its
    /// place. A plan that names one of those is refused. Of a file that is no YAML nothing is added.
    ///
    /// ```
    /// use memwall_core::catalog::Catalog;
    ///
    /// let mut catalog = Catalog::embedded()?;
    /// let faults = catalog.extend_own("gpus.yaml", "gpus:\n- name: MyGPU\n");
    /// assert_eq!(faults, ["gpus.yaml:2: MyGPU: `short` is missing"]);
    /// assert!(catalog.gpu("H100").is_some());
    /// # Ok::<(), memwall_core::catalog::CatalogError>(())
    /// ```
    pub fn extend_own(&mut self, file: &str, text: &str) -> Vec<String> {
        if files::is_deep(text) {
            return vec![CatalogError::TooDeep { file: file.to_owned() }.to_string()];
        }
        let lists = match serde_yaml::from_str::<Value>(text) {
            Ok(Value::Mapping(lists)) => lists,
            Ok(Value::Null) => return Vec::new(),
            Ok(_) => return vec![format!("{file}:1: keys such as `gpus` or `models` are needed, each with a list")],
            Err(error) => return vec![format!("{file}: not YAML: {}", in_plain_words(&error.to_string()))],
        };
        let lines = entry_lines(text);
        let place = |list: &str, entry: Option<usize>| match lines.get(&(list.to_owned(), entry)) {
            Some(line) => format!("{file}:{line}"),
            None => file.to_owned(),
        };
        let mut faults = Vec::new();
        let sources = lists.get("sources").cloned().unwrap_or(Value::Mapping(Default::default()));
        let sources: BTreeMap<String, String> = serde_yaml::from_value(sources).unwrap_or_else(|error| {
            faults.push(format!("{}: sources: {}", place("sources", None), in_plain_words(&error.to_string())));
            BTreeMap::new()
        });
        for (list, entries) in lists {
            let list = list.as_str().unwrap_or_default().to_owned();
            let read = LISTS.iter().find(|(known, _)| *known == list).map(|(_, read)| read);
            match (read, entries) {
                (None, _) if list == "sources" => {}
                (None, _) => {
                    let known: Vec<&str> = LISTS.iter().map(|(known, _)| *known).collect();
                    faults.push(format!("{}: `{list}` is none of sources, {}", place(&list, None), known.join(", ")));
                }
                (Some(_), Value::Null) => {}
                (Some(read), Value::Sequence(entries)) => {
                    for (at, entry) in entries.into_iter().enumerate() {
                        let place = place(&list, Some(at));
                        faults.extend(self.add_own(entry, read, &sources, (file, &place)));
                    }
                }
                (Some(_), _) => faults.push(format!("{}: `{list}` needs a list of entries", place(&list, None))),
            }
        }
        faults
    }

    /// Adds one entry; what is wrong with it, where it cannot be used.
    fn add_own(
        &mut self,
        entry: Value,
        read: &ReadEntry,
        sources: &BTreeMap<String, String>,
        (file, place): (&str, &str),
    ) -> Option<String> {
        let names = names_of(&entry);
        let added = read(entry).and_then(|read| {
            let read = File { sources: sources.clone(), ..read };
            self.add(file, read).map_err(|error| match error {
                CatalogError::UnknownSource { key, .. } => format!("source `{key}` is not listed under `sources`"),
                other => other.to_string(),
            })
        });
        let why = added.err()?;
        let fault = match &names {
            Some((name, _)) => format!("{place}: {name}: {why}"),
            None => format!("{place}: {why}"),
        };
        if let Some(names) = names {
            Arc::make_mut(&mut self.broken).push(BrokenEntry { names, fault: fault.clone() });
        }
        Some(fault)
    }

    /// `found`, unless the user's own entry of that name cannot be used, which is meant then.
    pub(super) fn whole<T>(&self, name: &str, found: Option<T>) -> Option<T> {
        if self.broken(name).is_some() { None } else { found }
    }

    /// What is wrong with the entry of that name in the user's files; none where there is none, or it is whole.
    pub(super) fn broken(&self, name: &str) -> Option<&str> {
        if self.broken.is_empty() {
            return None;
        }
        let wanted = names::plain(name);
        let entry = self.broken.iter().find(|entry| names::has((&entry.names.0, &entry.names.1), &wanted))?;
        Some(&entry.fault)
    }
}

/// The name and the aliases that an entry says, whatever else is wrong with it.
fn names_of(entry: &Value) -> Option<(String, Vec<String>)> {
    let name = entry.get("name")?.as_str()?.to_owned();
    let aliases = entry.get("aliases").and_then(Value::as_sequence).into_iter().flatten();
    Some((name, aliases.filter_map(|alias| alias.as_str().map(str::to_owned)).collect()))
}

/// The line of each key of the file, and of each entry in the list below it.
fn entry_lines(text: &str) -> HashMap<(String, Option<usize>), usize> {
    let mut lines = HashMap::new();
    // The key that is open, and entries of its list so far.
    let (mut depth, mut key, mut entries) = (0_usize, None::<String>, 0);
    for event in Parser::new_from_str(text) {
        let Ok((event, span)) = event else { return lines };
        let is_end = matches!(event, Event::SequenceEnd | Event::MappingEnd);
        if is_end {
            depth = depth.saturating_sub(1);
            // The value of a key at the top has ended.
            key = key.filter(|_| depth > 1);
            continue;
        }
        let is_start = matches!(event, Event::SequenceStart(..) | Event::MappingStart(..));
        match (&event, depth, &key) {
            (Event::Scalar(name, ..), 1, None) => {
                lines.insert((name.to_string(), None), span.start.line());
                (key, entries) = (Some(name.to_string()), 0);
            }
            // A value that is no list.
            (Event::Scalar(..), 1, Some(_)) => key = None,
            (_, 2, Some(list)) if is_start || matches!(event, Event::Scalar(..)) => {
                lines.insert((list.clone(), Some(entries)), span.start.line());
                entries += 1;
            }
            _ => {}
        }
        depth += usize::from(is_start);
    }
    lines
}

/// What a reader of YAML says is wrong, in words of files instead of programs.
fn in_plain_words(error: &str) -> String {
    // The place in a value that was read before says nothing.
    let error = error.split(" at line ").next().filter(|_| !is_of_text(error)).unwrap_or(error);
    let (path, what) = match error.split_once(": ") {
        Some((path, what)) if !path.contains(' ') => (format!("{path}: "), what),
        _ => (String::new(), error),
    };
    let words = if let Some(key) = what.strip_prefix("missing field ") {
        format!("{key} is missing")
    } else if let Some((key, _)) = what.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", ")) {
        format!("{key} is no key of such an entry")
    } else if let Some((found, needed)) = what
        .strip_prefix("invalid type: ")
        .or_else(|| what.strip_prefix("invalid value: "))
        .and_then(|rest| rest.split_once(", expected "))
    {
        format!("{} where {} is needed", found_words(found), needed_words(needed))
    } else {
        what.to_owned()
    };
    format!("{path}{words}")
}

/// Whether the parser itself complains, whose places are those of the file.
fn is_of_text(error: &str) -> bool {
    ["invalid type", "invalid value", "missing field", "unknown field"].iter().all(|words| !error.contains(words))
}

fn found_words(found: &str) -> String {
    match found {
        "sequence" => "a list".to_owned(),
        "map" => "a group of keys".to_owned(),
        "unit value" | "Option value" => "nothing".to_owned(),
        found => {
            let bare = ["integer ", "floating point ", "boolean "].iter().find_map(|kind| found.strip_prefix(kind));
            bare.map_or_else(|| found.replace("string ", "the text "), str::to_owned)
        }
    }
}

fn needed_words(needed: &str) -> &str {
    match needed {
        "f64" | "f32" => "a number",
        "u64" | "u32" | "usize" | "i64" => "a whole number",
        "a string" | "a str" => "a text",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        needed if needed.starts_with("struct CitedValue") => "a group with `value` and `source`",
        needed if needed.starts_with("struct ") || needed == "a map" => "a group of keys",
        needed => needed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "- {name: Whole, short: W, vendor: nvidia, architecture: ada, \
                         memory_gib: {value: 12, source: bench}, bandwidth_gb_s: {value: 500, source: bench}, \
                         peak_tflops: {source: bench, bf16: 80}, link: pcie_4}\n";

    fn extended(text: &str) -> (Catalog, Vec<String>) {
        let mut catalog = Catalog::embedded().unwrap();
        let faults = catalog.extend_own("gpus.yaml", text);
        (catalog, faults)
    }

    #[test]
    fn entries_beside_a_broken_one_count() {
        let text = format!("sources: {{bench: here}}\ngpus:\n- name: MyGPU\n{WHOLE}- {{name: NVIDIA H100}}\n");
        let (catalog, faults) = extended(&text);
        assert_eq!(faults, ["gpus.yaml:3: MyGPU: `short` is missing", "gpus.yaml:5: NVIDIA H100: `short` is missing"]);
        assert_eq!(catalog.gpu("whole").unwrap().short, "W");
        assert!(catalog.gpu("A100 80GB").is_some());
        // What a person wrote anew is not to be taken for what the catalogue has of that name.
        assert!(catalog.gpu("h100").is_none() && catalog.gpu("mygpu").is_none());
        assert_eq!(catalog.no_gpu("mygpu"), "mygpu cannot be used: gpus.yaml:3: MyGPU: `short` is missing");
    }

    #[test]
    fn each_fault_is_a_plain_sentence_with_its_place() {
        let of = |text: &str| extended(text).1.join(" | ");
        assert_eq!(of("gpus: 3\n"), "gpus.yaml:1: `gpus` needs a list of entries");
        assert_eq!(of("\ngpus:\n- 3\n"), "gpus.yaml:3: `3` where a group of keys is needed");
        let said = of("gpus: [1,2\n");
        assert!(
            said.starts_with("gpus.yaml: not YAML: ") && said.contains("line") && !said.contains("struct"),
            "{said}"
        );
        let own = format!("sources: {{bench: here}}\ngpus:\n{WHOLE}");
        assert_eq!(of(&own), "");
        assert_eq!(
            of(&own.replace("memory_gib: {value: 12", "memory_gib: {value: much")),
            "gpus.yaml:3: Whole: memory_gib.value: the text \"much\" where a number is needed"
        );
        assert_eq!(of(&own.replace("short: W", "shrt: W")), "gpus.yaml:3: Whole: `shrt` is no key of such an entry");
        assert_eq!(
            of(&own.replace("{bench: here}", "{other: here}")),
            "gpus.yaml:3: Whole: source `bench` is not listed under `sources`"
        );
        assert_eq!(
            of("cards: []\n"),
            "gpus.yaml:1: `cards` is none of sources, gpus, interconnects, models, curves, stacks, link_curves"
        );
        assert_eq!(of("- a\n"), "gpus.yaml:1: keys such as `gpus` or `models` are needed, each with a list");
    }
}
