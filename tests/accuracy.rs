//! The bands that comparisons are drawn with are what the measured cases say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;

use memwall::catalog::Catalog;
use memwall::compare::Bands;
use memwall::plan::Document;
use memwall::plan::keywords::Framework;
use memwall::predict;
use memwall::report::validate::{Outcome, read};
use serde_json::Value;

const MEMORY: [&str; 3] = ["peak_allocated_bytes", "peak_reserved_bytes", "device_used_bytes"];
const TIME: [&str; 3] = ["step_time_s", "tokens_per_s_per_gpu", "samples_per_s_per_gpu"];

/// Absolute errors in percent of memory and time, by framework; all of them under "".
fn errors() -> BTreeMap<String, [Vec<f64>; 2]> {
    let catalog = Catalog::embedded().unwrap();
    let mut by: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    let mut files: Vec<_> = std::fs::read_dir(format!("{}/tests/truth", env!("CARGO_MANIFEST_DIR")))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    for file in files {
        for case in read(&std::fs::read_to_string(file).unwrap()).unwrap() {
            let mut framework = String::new();
            let mut outcome = Outcome::default();
            outcome.add(case, |plan: &Value| {
                let plan = Document::parse(&plan.to_string()).and_then(|document| document.plan());
                let plan = plan.map_err(|_| "not a plan".to_owned())?;
                plan.model.framework.unwrap_or(Framework::Pytorch).name().clone_into(&mut framework);
                predict::of(&plan, &catalog).map_err(|_| "not predicted".to_owned())
            });
            for row in &outcome.rows {
                let Some(error) = row.error_pct.map(f64::abs) else { continue };
                let which = match row.family() {
                    name if MEMORY.contains(&name) => 0,
                    name if TIME.contains(&name) => 1,
                    _ => continue,
                };
                for name in [framework.as_str(), ""] {
                    by.entry(name.to_owned()).or_default()[which].push(error);
                }
            }
        }
    }
    by
}

fn within(errors: &mut [f64]) -> f64 {
    errors.sort_by(f64::total_cmp);
    let place = (0.68 * errors.len() as f64).ceil() as usize;
    errors.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// A band that has moved by less than this is still told right.
const SLACK: f64 = 0.5;

#[test]
fn the_bands_are_the_measured_cases_own() {
    let mut wanted = String::new();
    let mut right = true;
    let path = format!("{}/configs/accuracy.yaml", env!("CARGO_MANIFEST_DIR"));
    let table: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (framework, errors) in errors() {
        let name = if framework.is_empty() { String::new() } else { format!("framework: {framework}, ") };
        let row = table.as_array().unwrap().iter().find(|row| row["framework"].as_str().unwrap_or("") == framework);
        let mut figures = Vec::new();
        for (key, mut errors) in ["memory", "time"].into_iter().zip(errors) {
            let (cases, percent) = (errors.len(), within(&mut errors));
            figures.push(format!("{key}: {{cases: {cases}, within_pct: {percent:.1}}}"));
            right &= row.is_some_and(|row| {
                let said = row[key]["within_pct"].as_f64().unwrap();
                row[key]["cases"].as_u64() == Some(cases as u64) && (said - percent).abs() <= SLACK
            });
        }
        wanted += &format!("- {{{name}{}}}\n", figures.join(", "));
    }
    assert!(right, "configs/accuracy.yaml should hold:\n{wanted}");
}

#[test]
fn every_framework_has_a_band() {
    for framework in Framework::ALL {
        let bands = Bands::of(*framework);
        assert!(bands.memory > 0.0 && bands.memory < 0.2, "{framework}: {bands:?}");
        assert!(bands.time > 0.0, "{framework}: {bands:?}");
    }
}
