//! Megatron-LM: fields between bars, ` iteration 11/50000 | elapsed time per iteration (ms): 52.1 | …`
//! (`training_log` in megatron/training/training.py; older releases and Megatron-DeepSpeed write
//! seconds, `samples per second` and `TFLOPs`; GPT-NeoX begins the line with `samples/sec: 7.8 |` and
//! writes `lm_loss`).

use super::super::facts::{LineFacts, LineFormat, named_number, of_total};
use crate::reading::LogFormat;
use crate::units::{FlopsPerSec, Seconds};

pub struct Megatron;

impl LineFormat for Megatron {
    fn name(&self) -> LogFormat {
        LogFormat::Megatron
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let (before, from_step) = line.split_once("iteration ")?;
        let mut fields = from_step.split('|');
        let (step, total) = of_total(fields.next()?)?;
        let mut facts = LineFacts { step: Some(step), total_steps: Some(total), ..LineFacts::default() };
        let mut known = false;
        for field in fields.chain(before.split('|')) {
            let Some((name, number)) = named_number(field, ':') else { continue };
            known |= take(&mut facts, name, number);
        }
        known.then_some(facts)
    }
}

/// Takes in one field; whether it is one of Megatron's own.
fn take(facts: &mut LineFacts, name: &str, number: f64) -> bool {
    let positive = Some(number).filter(|number| number.is_finite() && *number > 0.0);
    match name {
        "elapsed time per iteration (ms)" => facts.step_time = positive.map(|time| Seconds(time / 1000.0)),
        "elapsed time per iteration (s)" => facts.step_time = positive.map(Seconds),
        "throughput per GPU (TFLOP/s/GPU)" | "throughput (TFLOP/sec/GPU)" | "TFLOPs" | "approx flops per GPU" => {
            facts.model_flops_per_gpu = positive.map(FlopsPerSec::from_tera);
        }
        "samples per second" | "samples/sec" => facts.samples_per_s = positive,
        "tokens-per-second-per-gpu" | "tokens per gpu per second (tgs)" | "tokens/s/GPU" => {
            facts.tokens_per_s_per_gpu = positive;
        }
        // The first loss is the model's; others are of auxiliary heads and of expert balance.
        "lm loss" | "lm_loss" | "loss" | "masked lm loss" => facts.loss = Some(number),
        "grad norm" => facts.grad_norm = Some(number),
        _ => return false,
    }
    true
}
