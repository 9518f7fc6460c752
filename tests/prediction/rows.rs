//! The rows of a file of measured cases, each beside what is predicted.

use crate::support::{catalog, truth};
use std::collections::BTreeMap;

use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::Value;

pub struct Case {
    pub id: String,
    pub group: String,
    pub plan: Value,
    pub measured: serde_json::Map<String, Value>,
}

pub fn cases(file: &str) -> Vec<Case> {
    truth::cases(file)
        .into_iter()
        .map(|case| Case {
            id: case["id"].as_str().unwrap().to_owned(),
            group: case["group"].as_str().unwrap().to_owned(),
            plan: case["plan"].clone(),
            measured: case["measured"].as_object().unwrap().clone(),
        })
        .collect()
}

pub fn predicted(case: &Case) -> Result<Prediction, String> {
    let join =
        |faults: Vec<memwall::plan::Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let plan = Document::parse(&case.plan.to_string()).map_err(join)?.plan().map_err(join)?;
    predict::of(&plan, catalog()).map_err(join)
}

/// What the prediction says of a measured quantity.
pub fn quantity(name: &str, prediction: &Prediction) -> Option<f64> {
    let stages = &prediction.stages;
    let most = |of: fn(&memwall::predict::StageMemory) -> memwall::units::Bytes| {
        stages.iter().map(|stage| of(stage).0).max().unwrap() as f64
    };
    let last = stages.last().unwrap();
    Some(match name {
        "params" => prediction.params.total as f64,
        "trainable_params" => prediction.params.trainable as f64,
        "peak_allocated_bytes" => most(|stage| stage.peak_allocated),
        "peak_allocated_bytes_last_rank" => last.peak_allocated.as_f64(),
        "peak_reserved_bytes" => most(|stage| stage.peak_reserved),
        "device_used_bytes" => most(|stage| stage.device_used),
        "static_bytes" => most(|stage| stage.static_bytes),
        "static_bytes_last_rank" => last.static_bytes.as_f64(),
        "activation_bytes" => most(|stage| stage.activations_end_of_forward),
        "flops_forward" => prediction.flops.forward.0,
        "flops_backward" => prediction.flops.backward.0,
        "step_time_s" => prediction.time.step.0,
        "tokens_per_s_per_gpu" => prediction.time.tokens_per_s_per_gpu?,
        "samples_per_s_per_gpu" => prediction.time.samples_per_s / prediction.num_gpus as f64,
        "mfu" => prediction.time.mfu?,
        "hfu" => prediction.time.hfu?,
        _ => return None,
    })
}

pub struct Row {
    pub id: String,
    pub group: String,
    pub quantity: String,
    pub error: f64,
    pub predicted: f64,
    pub measured: f64,
}

pub fn rows(file: &str) -> (Vec<Row>, Vec<(String, String)>) {
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for case in cases(file) {
        match predicted(&case) {
            Err(error) => failed.push((case.id, error)),
            Ok(prediction) => {
                if std::env::var("TRUTH_TERMS").is_ok_and(|wanted| case.id.contains(&wanted)) {
                    for stage in &prediction.stages {
                        println!(
                            "{} stage {} layers {} peak {} static {} cause {}",
                            case.id,
                            stage.stage,
                            stage.layers,
                            stage.peak_allocated.0,
                            stage.static_bytes.0,
                            stage.peak_cause
                        );
                        for term in &stage.terms {
                            println!("    {:32} {:>16}  {}", term.name, term.bytes.0, term.formula);
                        }
                        for point in &stage.timeline {
                            println!("      {:?} {} {}", point.phase, point.at, point.allocated.0);
                        }
                    }
                }
                for (name, value) in &case.measured {
                    if let (Some(predicted), Some(measured)) = (quantity(name, &prediction), value.as_f64()) {
                        rows.push(Row {
                            id: case.id.clone(),
                            group: case.group.clone(),
                            quantity: name.clone(),
                            error: 100.0 * (predicted / measured - 1.0),
                            predicted,
                            measured,
                        });
                    }
                }
            }
        }
    }
    (rows, failed)
}

pub struct Summary {
    pub n: usize,
    pub mean: f64,
    pub median: f64,
    pub worst: f64,
    pub worst_id: String,
}

pub fn summaries(rows: &[Row]) -> BTreeMap<(String, String), Summary> {
    let mut by: BTreeMap<(String, String), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by.entry((row.group.clone(), row.quantity.clone())).or_default().push(row);
    }
    by.into_iter()
        .map(|(key, rows)| {
            let mut errors: Vec<f64> = rows.iter().map(|row| row.error.abs()).collect();
            errors.sort_by(f64::total_cmp);
            let worst = rows.iter().max_by(|a, b| a.error.abs().total_cmp(&b.error.abs())).unwrap();
            let summary = Summary {
                n: errors.len(),
                mean: errors.iter().sum::<f64>() / errors.len() as f64,
                median: errors[errors.len() / 2],
                worst: worst.error,
                worst_id: worst.id.clone(),
            };
            (key, summary)
        })
        .collect()
}

pub fn print(file: &str) -> (Vec<Row>, Vec<(String, String)>) {
    let (rows, failed) = rows(file);
    for ((group, quantity), s) in summaries(&rows) {
        println!(
            "{group:22} {quantity:32} n {:3}  mean {:7.3} %  median {:7.3} %  worst {:8.3} %  {}",
            s.n, s.mean, s.median, s.worst, s.worst_id
        );
    }
    if let Ok(wanted) = std::env::var("TRUTH_ROWS") {
        for row in rows.iter().filter(|row| format!("{} {} {}", row.group, row.id, row.quantity).contains(&wanted)) {
            println!(
                "  {:80} {:28} {:8.3} %  {:>16.4e} for {:>16.4e}",
                row.id, row.quantity, row.error, row.predicted, row.measured
            );
        }
    }
    for (id, error) in &failed {
        println!("  not predicted: {id}: {error}");
    }
    (rows, failed)
}

/// Mean and largest absolute error in percent of a group's quantity.
pub fn held(rows: &[Row], group: &str, quantity: &str) -> (usize, f64, f64) {
    let errors: Vec<f64> =
        rows.iter().filter(|row| row.group == group && row.quantity == quantity).map(|row| row.error.abs()).collect();
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (errors.len(), mean, errors.iter().copied().fold(0.0, f64::max))
}

/// Every case has a walk.
pub fn all_predicted(failed: &[(String, String)]) {
    assert!(failed.is_empty(), "{failed:?}");
}
