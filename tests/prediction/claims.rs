//! What a search claims, held against published sets of plans of one model and GPU: whether the plan that is predicted to be
//! the fastest of a set is as much faster than the others as predicted.

use crate::support::{catalog, truth};
use std::collections::BTreeMap;

use memwall::plan::Document;
use memwall::predict;
use serde_json::Value;

/// Logarithms of a plan's measured and predicted speed.
type Speeds = (f64, f64);

/// Plans that differ in what a search varies alone.
fn sets() -> Vec<Vec<Speeds>> {
    const FILES: [&str; 9] = [
        "published.json",
        "published2.json",
        "bridge.json",
        "llm-foundry.json",
        "megatron.json",
        "mlperf.json",
        "simumax.json",
        "torchtitan.json",
        "vtrain.json",
    ];
    let mut sets: BTreeMap<String, Vec<Speeds>> = BTreeMap::new();
    for case in FILES.into_iter().flat_map(truth::cases) {
        let Some((quantity, measured)) = speed(&case["measured"]) else { continue };
        let plan = Document::parse(&case["plan"].to_string()).unwrap().plan().unwrap();
        // Two models have no rules yet.
        let Ok(prediction) = predict::of(&plan, catalog()) else { continue };
        let time = prediction.time;
        let predicted = match quantity {
            "mfu" => time.mfu,
            "hfu" => time.hfu,
            // Of one model, batch and number of GPUs: whatever the rate's unit.
            _ => Some(1.0 / time.step.0),
        };
        let set = format!("{} {quantity} {}", case["group"], unvaried(&case["plan"]));
        sets.entry(set).or_default().push((measured, predicted.unwrap().ln()));
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

/// The first quantity of speed that was measured, and the logarithm of the speed.
fn speed(measured: &Value) -> Option<(&'static str, f64)> {
    const RATES: [&str; 4] = ["tokens_per_s_per_gpu", "samples_per_s_per_gpu", "mfu", "hfu"];
    let rate = RATES.into_iter().find_map(|name| Some((name, measured[name].as_f64()?.ln())));
    rate.or_else(|| Some(("step_time_s", -measured["step_time_s"].as_f64()?.ln())))
}

/// A plan without what a search varies.
fn unvaried(plan: &Value) -> Value {
    const KNOBS: [&str; 8] = [
        "micro_batch_size",
        "gradient_accumulation_steps",
        "activation_checkpointing",
        "cpu_offload",
        "offload_modules",
        "offload_layers",
        "distributed_optimizer",
        "gradient_dtype",
    ];
    let mut plan = plan.clone();
    plan.as_object_mut().unwrap().remove("distribution");
    if let Some(training) = plan["training"].as_object_mut() {
        training.retain(|key, _| !KNOBS.contains(&key.as_str()));
    }
    plan
}

fn fastest(set: &[Speeds]) -> Speeds {
    set.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
}

/// Were the fastest plan's lead an error that was picked, less than predicted would be measured, and its own error would lie
/// above that of the others. So `compare::claimed` leaves the gain as it is predicted.
#[test]
fn the_plan_predicted_fastest_leads_by_as_much_as_predicted() {
    let sets = sets();
    let (mut both, mut square, mut pairs) = (0.0, 0.0, 0);
    let mut own = Vec::new();
    for set in &sets {
        let best = fastest(set);
        let errors: f64 = set.iter().map(|(measured, predicted)| predicted - measured).sum();
        own.push(best.1 - best.0 - errors / set.len() as f64);
        for (measured, predicted) in set {
            both += (best.0 - measured) * (best.1 - predicted);
            square += (best.1 - predicted) * (best.1 - predicted);
            pairs += 1;
        }
    }
    let (slope, error) = (both / square, own.iter().sum::<f64>() / own.len() as f64);
    println!("{} sets, {} others: slope {slope:.3}, error of the fastest {error:+.3}", sets.len(), pairs - sets.len());
    assert!(sets.len() >= 80 && (0.9..=1.1).contains(&slope), "{} sets, slope {slope}", sets.len());
    assert!(error.abs() < 0.03, "{error}");
}
