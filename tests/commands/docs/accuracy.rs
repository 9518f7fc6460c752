//! How far predictions are from measured runs, by group of cases and quantity: all of it in the topic `accuracy`,
//! ten rows in the README.

use memwall::plan::Document;
use memwall::predict;
use memwall::report::validate::{ValidationOutcome, ValidationRow, read, summaries};
use serde_json::Value;

use super::hold_part;
use crate::support::{catalog, truth};

/// The groups of the measured cases.
const GROUPS: [(&str, &str); 25] = [
    ("allocator", "steps of PyTorch models, tensor by tensor"),
    ("followed", "further ones, most of plans drawn by chance"),
    ("megatron-lm", "Megatron-LM, its own tests: A100, H100, GB200"),
    ("megatron-lm-rest", "Megatron-LM, the rest of its tests"),
    ("simumax", "Megatron-LM by SimuMax: 8 B200"),
    ("simumax-rest", "SimuMax, its other rows, context parallel among them"),
    ("megatron-bridge", "Megatron Bridge: H100, B200, GB200, up to 256"),
    ("megatron-bridge-rest", "Megatron Bridge, its other rows: to GB300, 1024"),
    ("megatron-bridge-overlap", "Megatron Bridge, how experts are reached: 16 H100"),
    ("nemo-24.07", "NeMo: 8, 16 H100"),
    ("nemo-24.07-rest", "NeMo, its other rows: up to 512 H100"),
    ("megatron-bridge-memory", "Moonlight 16B: 8 to 32 H100"),
    ("mlperf", "MLPerf: 8 to 8192 H100, H200, B200, GB200"),
    ("korthikanti", "Korthikanti et al.: up to 512 A100"),
    ("vtrain", "vTrain: 64 to 512 A100"),
    ("vtrain-rest", "vTrain, its other rows"),
    ("torchtitan", "torchtitan: A100, H100, H200, up to 256"),
    ("torchtitan-2024", "torchtitan, pipelines and context parallel: up to 512"),
    ("torchtitan-rest", "torchtitan, its other rows"),
    ("torchtune", "torchtune: one A100"),
    ("torchtune-rest", "torchtune, its other rows"),
    ("llm-foundry", "llm-foundry: A100, H100, up to 512"),
    ("llm-foundry-rest", "llm-foundry, its other rows"),
    ("hf-bert", "Hugging Face BERT of 2022: V100"),
    ("nanogpt", "nanoGPT: A100"),
];

/// What is measured of them, with the names under `measured`.
const QUANTITIES: [(&str, &[&str]); 6] = [
    ("between steps", &["static_bytes", "static_bytes_last_rank"]),
    ("activations", &["activation_bytes"]),
    ("peak allocated", &["peak_allocated_bytes", "peak_allocated_bytes_by_rank", "peak_allocated_bytes_last_rank"]),
    ("peak reserved", &["peak_reserved_bytes"]),
    ("device-used", &["device_used_bytes"]),
    ("step time or rate", &["step_time_s", "tokens_per_s_per_gpu", "samples_per_s_per_gpu"]),
];

fn rows() -> Vec<ValidationRow> {
    let catalog = catalog();
    let mut outcome = ValidationOutcome::default();
    let rest = ["megatron", "simumax", "torchtitan", "torchtune", "llm-foundry", "bridge", "mlperf", "vtrain"];
    for file in ["allocator", "ours", "published"].into_iter().chain(rest) {
        for case in read(&truth::text(&format!("{file}.json"))).unwrap() {
            outcome.add(case, |plan: &Value| {
                let plan = Document::parse(&plan.to_string()).and_then(|document| document.plan());
                predict::of(&plan.map_err(|_| "not a plan".to_owned())?, catalog).map_err(|_| "no".to_owned())
            });
        }
    }
    outcome.rows
}

/// Two digits, and no less than a tenth of a percent.
fn percent(value: Option<f64>) -> String {
    let value = value.unwrap();
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

const HEAD: &str = "| measured | quantity | cases | mean error % | median | largest |\n|---|---|--:|--:|--:|--:|\n";

/// The rows of the README: what people ask first, and where it is weak.
const TEN: [(&str, &str); 10] = [
    ("allocator", "peak allocated"),
    ("megatron-lm", "peak allocated"),
    ("simumax", "peak allocated"),
    ("torchtitan", "peak reserved"),
    ("hf-bert", "device-used"),
    ("llm-foundry", "step time or rate"),
    ("torchtitan", "step time or rate"),
    ("megatron-bridge", "step time or rate"),
    ("mlperf", "step time or rate"),
    ("megatron-bridge-memory", "step time or rate"),
];

/// Every row with its group and quantity.
fn lines() -> Vec<((&'static str, &'static str), String)> {
    let mut lines = Vec::new();
    let summaries = summaries(&rows(), |row| {
        let group = GROUPS.iter().find(|(name, _)| row.group.as_deref() == Some(name)).unwrap();
        let quantity = QUANTITIES.iter().position(|(_, names)| names.contains(&row.family()));
        (group.1, quantity)
    });
    for (group, words) in GROUPS {
        for (quantity, (name, _)) in QUANTITIES.iter().enumerate() {
            if let Some(of) = summaries.iter().find(|of| of.key == (words, Some(quantity))) {
                let [mean, median, most] = [of.mean_abs_pct, of.median_abs_pct, of.max_abs_pct].map(percent);
                lines.push(((group, *name), format!("| {words} | {name} | {} | {mean} | {median} | {most} |\n", of.n)));
            }
        }
    }
    lines
}

#[test]
fn the_pages_say_how_far_predictions_are_off() {
    let lines = lines();
    let all: String = lines.iter().map(|(_, line)| line.as_str()).collect();
    hold_part("configs/help/accuracy.md", "table of accuracy", &format!("{HEAD}{all}"));
    let ten: String = TEN.iter().map(|row| lines.iter().find(|(name, _)| name == row).unwrap().1.as_str()).collect();
    hold_part("README.md", "ten rows of accuracy", &format!("{HEAD}{ten}"));
}
