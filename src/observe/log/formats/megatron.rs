//! Megatron-LM: fields between bars, ` iteration 11/50000 | elapsed time per iteration (ms): 52.1 | …`
//! (`training_log` in megatron/training/training.py; older releases and Megatron-DeepSpeed write
//! seconds, `samples per second` and `TFLOPs`; GPT-NeoX begins the line with `samples/sec: 7.8 |` and
//! writes `lm_loss`).

use super::super::facts::{LineFacts, LineFormat, named_number, of_total};
use crate::reading::LogFormat;
use crate::units::{Bytes, FlopsPerSec, Seconds};

/// `mega_bytes = 1024.0 * 1024.0`.
const MIB: f64 = 1024.0 * 1024.0;

pub struct Megatron;

impl LineFormat for Megatron {
    fn name(&self) -> LogFormat {
        LogFormat::Megatron
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        if let Some(memory) = memory(line) {
            return Some(memory);
        }
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

/// `report_memory` in megatron/training/utils.py: `[Rank 0] (after 10 iterations) memory (MB) | allocated: 20012.5 | max
/// allocated: 31051.1 | reserved: …`, in units of 1024 x 1024 bytes. One rank of each stage and tensor part writes it: the
/// first one's is taken.
fn memory(line: &str) -> Option<LineFacts> {
    let (before, fields) = line.split_once(" memory (MB) |")?;
    let rank = before.rsplit_once("[Rank ").and_then(|(_, rest)| rest.split_once(']'));
    if rank.is_some_and(|(rank, _)| rank.trim() != "0") {
        return None;
    }
    let mut facts = LineFacts::default();
    for field in fields.split('|') {
        let Some((name, held)) = named_number(field, ':') else { continue };
        let held = Some(held).filter(|held| held.is_finite() && *held > 0.0).map(|held| Bytes::from_f64(held * MIB));
        match name {
            "allocated" => facts.allocated = held,
            "max allocated" => facts.peak_allocated = held,
            "max reserved" => facts.peak_reserved = held,
            _ => {}
        }
    }
    (facts != LineFacts::default()).then_some(facts)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `report_memory`: 31 051.1 x 1 048 576 = 32 559 438 233.6 bytes.
    #[test]
    fn the_first_ranks_memory_is_read() {
        let line = "[Rank 0] (after 10 iterations) memory (MB) | allocated: 20012.5 | max allocated: 31051.1 | \
                    reserved: 33002.0 | max reserved: 33002.0";
        let facts = Megatron.read(line).unwrap();
        assert_eq!(facts.peak_allocated.unwrap().0, 32_559_438_234);
        assert_eq!(
            (facts.allocated.unwrap(), facts.peak_reserved.unwrap()),
            (Bytes(20_984_627_200), Bytes::from_mib(33_002))
        );
        assert_eq!(Megatron.read(&line.replace("Rank 0", "Rank 8")), None);
    }
}
