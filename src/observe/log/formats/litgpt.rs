//! litgpt: `Epoch 1 | iter 2 step 1 | loss train: 1.660, val: n/a | iter time: 548.72 ms (step)`
//! (litgpt/pretrain.py and litgpt/finetune/; an iteration is one micro batch, `(step)` stands
//! where the optimizer stepped).

use super::super::facts::{Facts, Format, count_after, number_after, positive_after};
use crate::reading::LogFormat;
use crate::units::Seconds;

pub struct LitGpt;

impl Format for LitGpt {
    fn name(&self) -> LogFormat {
        LogFormat::LitGpt
    }

    fn read(&mut self, line: &str) -> Option<Facts> {
        let time = positive_after(line, "iter time: ")?;
        Some(Facts {
            step: Some(count_after(line, " step ")?),
            loss: number_after(line, "loss train: "),
            micro_step: Some((Seconds(time / 1000.0), line.contains("ms (step)"))),
            ..Facts::default()
        })
    }
}
