//! BasicSR's lines (`basicsr/utils/logger.py`, `MessageLogger`), which most work on image restoration has taken over:
//! `[EDSR_..][epoch:  0, iter:   3,000, lr:(1.000e-04,)] [eta: 1 day, 2:03:04, time (data): 0.305 (0.004)] l_pix: 3.2e-02`.

use std::sync::LazyLock;

use regex::Regex;

use super::super::facts::{LineFacts, LineFormat, leading_number, positive_after};
use super::text;
use crate::reading::LogFormat;
use crate::units::Seconds;

static POSITION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\[epoch:\s*(\d+), iter:\s*(\d[\d,]*), lr:\(").ok());

/// A loss by the name of its weight in the configuration.
static LOSS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bl_\w+: (\S+)").ok());

/// Such lines.
pub struct BasicSr;

impl LineFormat for BasicSr {
    fn name(&self) -> LogFormat {
        LogFormat::Text
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let found = (*POSITION).as_ref()?.captures(line)?;
        let mut losses =
            (*LOSS).as_ref()?.captures_iter(line).filter_map(|found| leading_number(found.get(1)?.as_str()));
        // Of several nobody says which one is trained on, or by what weights.
        let loss = losses.next().filter(|_| losses.next().is_none());
        Some(LineFacts {
            step: Some(text::counted(&found, 2)?),
            epoch: leading_number(found.get(1)?.as_str()),
            loss,
            step_time: positive_after(line, "time (data):").map(Seconds),
            ..LineFacts::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_the_runs() {
        let line = "2026-03-01 10:00:00,123 INFO: [EDSR_..][epoch:  2, iter:   3,000, lr:(1.000e-04,)] [eta: 1 day, 2:03:04, \
                    time (data): 0.305 (0.004)] l_pix: 3.2000e-02 ";
        let facts = BasicSr.read(line).unwrap();
        assert_eq!((facts.step, facts.epoch, facts.loss), (Some(3_000), Some(2.0), Some(0.032)));
        assert_eq!((facts.step_time, facts.total_steps), (Some(Seconds(0.305)), None));
        let two = BasicSr.read(&format!("{line}l_percep: 1.2000e+00 ")).unwrap();
        assert_eq!((two.step, two.loss), (Some(3_000), None));
        assert_eq!(BasicSr.read("epoch: 2, iter: 30, lr: 0.1"), None);
    }
}
