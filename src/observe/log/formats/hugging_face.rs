//! Hugging Face's Trainer: `{'loss': 2.2091, 'grad_norm': 0.6, 'learning_rate': 1e-05, 'epoch': 0.09}`
//! (`ProgressCallback.on_log` in transformers/trainer_callback.py; since 5.0 the values are quoted), the
//! sums of the end, and `Total optimization steps = 1,250` from the start. Steps come from its bar.

use super::super::facts::{Facts, Format, count, count_after, leading_number};
use crate::reading::LogFormat;
use crate::units::Seconds;

pub struct HuggingFace;

impl Format for HuggingFace {
    fn name(&self) -> LogFormat {
        LogFormat::HuggingFace
    }

    fn read(&mut self, line: &str) -> Option<Facts> {
        if line.contains("Total optimization steps = ") {
            let total = count_after(line, "Total optimization steps = ")?;
            return Some(Facts { total_steps: Some(total), ..Facts::default() });
        }
        let (_, inside) = line.split_once("{'")?;
        let (inside, _) = inside.split_once('}')?;
        let mut facts = Facts::default();
        for (name, value) in inside.split(", '").filter_map(|pair| pair.split_once("':")) {
            take(&mut facts, name, leading_number(value)?);
        }
        // Evaluations have their own names, and dictionaries of other things no loss.
        (facts.loss.is_some() || facts.step_time.is_some()).then_some(facts)
    }
}

fn take(facts: &mut Facts, name: &str, number: f64) {
    let positive = Some(number).filter(|number| number.is_finite() && *number > 0.0);
    match name {
        "loss" | "train_loss" => facts.loss = Some(number),
        "epoch" => facts.epoch = Some(number),
        "step" => facts.step = count(number),
        "train_steps_per_second" => facts.step_time = positive.map(|rate| Seconds(1.0 / rate)),
        "train_samples_per_second" => facts.samples_per_s = positive,
        "train_tokens_per_second" => facts.tokens_per_s = positive,
        "tokens_per_second_per_gpu" | "tokens/train_per_sec_per_gpu" => facts.tokens_per_s_per_gpu = positive,
        _ => {}
    }
}
