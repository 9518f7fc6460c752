//! Hugging Face's Trainer: `{'loss': 2.2091, 'grad_norm': 0.6, 'learning_rate': 1e-05, 'epoch': 0.09}`
//! (`ProgressCallback.on_log` in transformers/trainer_callback.py; since 5.0 the values are quoted), the
//! sums of the end, and `Total optimization steps = 1,250` from the start. Steps come from its bar. Axolotl adds
//! memory (`AxolotlTrainer.log`), LLaMA-Factory tokens a second of the whole run, and its `trainer_log.jsonl` has
//! the same as JSON (llamafactory/train/callbacks.py).

use serde_json::{Map, Value};

use super::super::facts::{LineFacts, LineFormat, count, count_after, leading_number};
use crate::reading::LogFormat;
use crate::units::{Bytes, Seconds};

pub struct HuggingFace;

impl LineFormat for HuggingFace {
    fn name(&self) -> LogFormat {
        LogFormat::HuggingFace
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if line.contains("Total optimization steps = ") {
            let total = count_after(line, "Total optimization steps = ")?;
            return Some(LineFacts { total_steps: Some(total), ..LineFacts::default() });
        }
        let mut facts = LineFacts::default();
        if line.starts_with("{\"current_steps\":") {
            let fields: Map<String, Value> = serde_json::from_str(line).ok()?;
            for (name, value) in &fields {
                take(&mut facts, name, value.as_f64());
            }
            return Some(facts);
        }
        let (_, inside) = line.split_once("{'")?;
        let (inside, _) = inside.split_once('}')?;
        for (name, value) in inside.split(", '").filter_map(|pair| pair.split_once("':")) {
            // DeepSpeed's norm may still be a tensor: `tensor(0.61, device='cuda:0')`.
            take(&mut facts, name, leading_number(value.trim_start().trim_start_matches("tensor(")));
        }
        // Evaluations have their own names, and dictionaries of other things no loss.
        (facts.loss.is_some() || facts.step_time.is_some()).then_some(facts)
    }
}

fn take(facts: &mut LineFacts, name: &str, number: Option<f64>) {
    let positive = number.filter(|number| number.is_finite() && *number > 0.0);
    match name {
        "loss" | "train_loss" => facts.loss = number,
        "grad_norm" => facts.grad_norm = number,
        "epoch" => facts.epoch = number,
        "step" | "current_steps" => facts.step = number.and_then(count),
        "total_steps" => facts.total_steps = number.and_then(count),
        "train_steps_per_second" => facts.step_time = positive.map(|rate| Seconds(1.0 / rate)),
        "train_samples_per_second" => facts.samples_per_s = positive,
        "train_tokens_per_second" | "throughput" => facts.tokens_per_s = positive,
        "tokens_per_second_per_gpu" | "tokens/train_per_sec_per_gpu" => facts.tokens_per_s_per_gpu = positive,
        "memory/max_mem_allocated(gib)" | "memory/max_allocated (GiB)" => {
            facts.peak_allocated = positive.map(Bytes::from_gib);
        }
        "memory/device_mem_reserved(gib)" | "memory/device_reserved (GiB)" => {
            facts.peak_reserved = positive.map(Bytes::from_gib);
        }
        _ => {}
    }
}
