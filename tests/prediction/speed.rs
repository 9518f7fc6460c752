//! Measured step times and rates under `tests/truth` against predictions. Curves in `configs/efficiency.yaml` were
//! fitted on one half of each group: its ids sorted, every second one from the first. The bars are held by the other
//! half, and by both together.

use crate::support::{catalog, truth};
use std::collections::BTreeMap;

use memwall::plan::Document;
use memwall::predict::{self, Prediction};
use serde_json::Value;

struct Run {
    id: String,
    group: String,
    /// Runs of one model on one kind of GPU: their order can be compared.
    alike: String,
    /// Samples a second and GPU.
    measured: f64,
    predicted: f64,
    fitted: bool,
}

impl Run {
    /// The error of the published quantity, in percent of it.
    fn error(&self) -> f64 {
        let of_rate = self.predicted / self.measured;
        100.0 * if STEP_TIMES.contains(&self.group.as_str()) { 1.0 / of_rate - 1.0 } else { of_rate - 1.0 }.abs()
    }
}

/// Groups whose source states the time of a step; the others state a rate.
const STEP_TIMES: [&str; 5] = ["vtrain", "korthikanti", "simumax", "megatron-lm", "megatron-bridge-memory"];

fn prediction(plan: &Value) -> Prediction {
    let plan = Document::parse(&plan.to_string()).unwrap().plan().unwrap();
    predict::of(&plan, catalog()).unwrap()
}

/// Samples a second and GPU, from whichever quantity was measured.
fn rate(case: &Value, prediction: &Prediction) -> Option<f64> {
    let gpus = prediction.num_gpus as f64;
    let (plan, measured) = (&case["plan"]["model"], &case["measured"]);
    if let Some(step) = measured["step_time_s"].as_f64() {
        return Some(plan["batch_size"].as_f64().unwrap() / step / gpus);
    }
    let tokens = measured["tokens_per_s_per_gpu"].as_f64();
    let samples = tokens.map(|tokens| tokens / plan["sequence_length"].as_f64().unwrap());
    samples.or_else(|| measured["samples_per_s_per_gpu"].as_f64())
}

fn runs() -> Vec<Run> {
    let cases = truth::cases("published.json");
    let mut runs: Vec<Run> = cases
        .iter()
        .filter(|case| {
            ["step_time_s", "tokens_per_s_per_gpu", "samples_per_s_per_gpu"]
                .iter()
                .any(|key| case["measured"].get(key).is_some())
        })
        .map(|case| {
            let prediction = prediction(&case["plan"]);
            let mut model = case["plan"]["model"].clone();
            for key in ["batch_size", "sequence_length"] {
                model.as_object_mut().unwrap().remove(key);
            }
            Run {
                id: case["id"].as_str().unwrap().to_owned(),
                group: case["group"].as_str().unwrap().to_owned(),
                alike: format!("{} {model} {}", case["group"], case["plan"]["hardware"]),
                measured: rate(case, &prediction).unwrap(),
                predicted: prediction.time.samples_per_s / prediction.num_gpus as f64,
                fitted: false,
            }
        })
        .collect();
    runs.sort_by(|a, b| (&a.group, &a.id).cmp(&(&b.group, &b.id)));
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for run in &mut runs {
        let count = seen.entry(run.group.clone()).or_default();
        run.fitted = count.is_multiple_of(2);
        *count += 1;
    }
    runs
}

fn mean(runs: &[&Run]) -> f64 {
    runs.iter().map(|run| run.error()).sum::<f64>() / runs.len().max(1) as f64
}

/// llm-foundry's models from 1B up.
fn is_large(run: &Run) -> bool {
    ["-1b-", "-3b-", "-7b-", "-13b-"].iter().any(|size| run.id.contains(size))
}

/// A table's row: a name, its bar in percent, and which runs it holds.
type Bar = (&'static str, f64, fn(&Run) -> bool);

#[test]
fn the_half_that_nothing_was_fitted_on_is_within_the_bars() {
    let bars: [Bar; 6] = [
        ("llm-foundry from 1B", 10.0, |run| run.group == "llm-foundry" && is_large(run)),
        ("torchtitan", 12.0, |run| run.group == "torchtitan"),
        ("korthikanti", 8.0, |run| run.group == "korthikanti"),
        ("simumax", 12.0, |run| run.group == "simumax"),
        ("vtrain", 12.0, |run| run.group == "vtrain"),
        ("megatron-bridge and nemo", 20.0, |run| matches!(run.group.as_str(), "megatron-bridge" | "nemo-24.07")),
    ];
    let runs = runs();
    for (name, bar, holds) in bars {
        let all: Vec<&Run> = runs.iter().filter(|run| holds(run)).collect();
        let (fitted, other): (Vec<&Run>, Vec<&Run>) = all.iter().partition(|run| run.fitted);
        let (of_all, of_other) = (mean(&all), mean(&other));
        println!(
            "{name}: fitted {} runs {:.1} %, others {} runs {of_other:.1} %, all {of_all:.1} %",
            fitted.len(),
            mean(&fitted),
            other.len()
        );
        assert!(of_other <= bar && of_all <= bar, "{name}: {of_other} % and {of_all} %, bar {bar} %");
    }
}

/// Pairs of runs of one model and GPU whose measured speeds differ by more than a tenth, and those in the right order.
fn ordered(runs: &[Run], holds: impl Fn(&Run) -> bool) -> (usize, usize) {
    let (mut right, mut pairs) = (0, 0);
    for (at, one) in runs.iter().enumerate().filter(|(_, run)| holds(run)) {
        for other in runs[at + 1..].iter().filter(|other| other.alike == one.alike) {
            let (faster, slower) = if one.measured > other.measured { (one, other) } else { (other, one) };
            if faster.measured > 1.1 * slower.measured {
                pairs += 1;
                right += usize::from(faster.predicted > slower.predicted);
            }
        }
    }
    (right, pairs)
}

#[test]
fn the_faster_of_two_plans_is_predicted_to_be() {
    let runs = runs();
    let (right, pairs) = ordered(&runs, |run| run.group != "vtrain");
    println!("{right} of {pairs} pairs in the right order");
    assert!(right * 100 >= pairs * 95, "{right} of {pairs}");
    // vTrain's cluster ran some plans up to twice as slow as others of the same work. 39 B with two tensor-parallel
    // ranks (its rows 42, 44, 48, 51, 76) lose 3 to 10 s a step, whatever the number of micro-batches; the same groups
    // of ranks with as many bytes for each are as predicted in row 39, on half the GPUs. Its source has no reason. So
    // with vTrain's the 95 in 100 are missed.
    let (right, pairs) = ordered(&runs, |run| run.group == "vtrain");
    println!("vtrain: {right} of {pairs} pairs in the right order");
    assert!(right * 100 >= pairs * 82, "vtrain: {right} of {pairs}");
}

#[test]
fn the_parts_of_a_step_sum_to_it() {
    let cases = truth::cases("published.json");
    for case in cases.iter().filter(|case| case["measured"].get("step_time_s").is_some()) {
        let time = prediction(&case["plan"]).time;
        let parts = time.compute.0 + time.memory_bound.0 + time.communication.0 + time.bubble.0 + time.launch.0;
        assert!((parts / time.step.0 - 1.0).abs() < 1e-9, "{}: {parts} of {}", case["id"], time.step.0);
    }
}

/// Ivanov et al. 2021, "Data Movement Is All You Need" (arXiv 2007.00072), table 1: in BERT-large training on a V100
/// (batch 8, 512 tokens, mixed precision) tensor contractions are 99.80 % of the operations and 61.0 % of the time.
#[test]
fn berts_matrix_products_are_nearly_all_operations_and_three_fifths_of_the_time() {
    let plan = serde_json::json!({
        "model": {
            "hf_config": {
                "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 1024,
                "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "vocab_size": 30522,
                "max_position_embeddings": 512, "type_vocab_size": 2,
            },
            "framework": "pytorch", "batch_size": 8, "sequence_length": 512,
        },
        "training": {"precision": "fp16", "attention": "eager", "dropout": 0.1, "micro_batch_size": 8},
        "hardware": {"gpu_type": "NVIDIA V100 16GB"},
        "cluster": {"num_gpus": 1},
    });
    let ops = prediction(&plan).roofline.ops;
    let product = |name: &str| {
        name.contains("proj") || ["attention.scores", "attention.values", "head", "head.dense"].contains(&name)
    };
    let shares = [|op: &predict::RooflineOp| op.flops.0, |op: &predict::RooflineOp| op.seconds.0].map(|of| {
        let all: f64 = ops.iter().map(of).sum();
        ops.iter().filter(|op| product(&op.name)).map(of).sum::<f64>() / all
    });
    assert!((shares[0] - 0.998).abs() < 0.002, "{} of the operations", shares[0]);
    assert!((shares[1] - 0.61).abs() < 0.06, "{} of the time", shares[1]);
}
