//! litgpt: `Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)`
//! (litgpt/pretrain.py and litgpt/finetune/; an iteration is one micro batch, `(step)` stands where the optimizer
//! stepped, and pretraining tells the last one of a step alone); lit-gpt until 2024:
//! `iter 76 step 38: loss 10.8259, iter time: 197.87ms (optimizer.step)`.

use super::super::facts::{LineFacts, LineFormat, MicroStep, count_after, number_after, positive_after};
use crate::reading::LogFormat;
use crate::units::Seconds;

pub struct LitGpt;

impl LineFormat for LitGpt {
    fn name(&self) -> LogFormat {
        LogFormat::LitGpt
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let time = positive_after(line, "iter time: ")?;
        Some(LineFacts {
            step: Some(count_after(line, " step ")?),
            loss: number_after(line, "loss train: ").or_else(|| number_after(line, ": loss ")),
            micro_step: Some(MicroStep {
                count: count_after(line, "iter ")?,
                time: Seconds(time / 1000.0),
                last: line.contains("ms (step)") || line.contains("ms (optimizer.step)"),
            }),
            ..LineFacts::default()
        })
    }
}
