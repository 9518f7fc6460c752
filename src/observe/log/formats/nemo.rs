//! NeMo 2, on Lightning: `Training epoch 0, iteration 121/149 | lr: 3e-05 | consumed_samples: 122 |
//! global_batch_size: 1 | global_step: 121 | reduced_train_loss: 1.288 | train_step_timing in s: 0.03163`
//! (`nemo/lightning/pytorch/callbacks/progress_printer.py`; steps are counted from 0 there).

use super::super::facts::{LineFacts, LineFormat, count, leading_number, of_total};
use crate::reading::LogFormat;
use crate::units::Seconds;

pub struct Nemo;

impl LineFormat for Nemo {
    fn name(&self) -> LogFormat {
        LogFormat::Lightning
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let (_, rest) = line.split_once("Training epoch ")?;
        let (epoch, rest) = rest.split_once(", iteration ")?;
        let (done, last) = of_total(rest)?;
        let mut facts = LineFacts {
            step: done.checked_add(1),
            total_steps: last.checked_add(1),
            epoch: epoch.trim().parse().ok(),
            ..LineFacts::default()
        };
        for (name, value) in rest.split(" | ").filter_map(|field| field.split_once(": ")) {
            let number = leading_number(value);
            match name.trim() {
                "global_step" => facts.step = number.and_then(count).map(|before| before + 1),
                "reduced_train_loss" => facts.loss = number,
                "train_step_timing in s" => facts.step_time = number.filter(|time| *time > 0.0).map(Seconds),
                _ => {}
            }
        }
        facts.loss.is_some().then_some(facts)
    }
}
