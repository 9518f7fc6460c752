//! nanoGPT: `iter 40: loss 6.2081, time 48.67ms, mfu 10.07%` (train.py; an mfu of -100 % is its
//! word for not known yet, and lines of `step 2000: train loss …` are evaluations).

use super::super::facts::{LineFacts, LineFormat, count_after, number_after, positive_after};
use crate::reading::LogFormat;
use crate::units::{Fraction, Seconds};

pub struct NanoGpt;

impl LineFormat for NanoGpt {
    fn name(&self) -> LogFormat {
        LogFormat::NanoGpt
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        let step = count_after(line, "iter ")?;
        let loss = number_after(line, &format!("iter {step}: loss "))?;
        Some(LineFacts {
            step: Some(step),
            loss: Some(loss),
            step_time: positive_after(line, ", time ").map(|time| Seconds(time / 1000.0)),
            mfu: positive_after(line, ", mfu ").map(|percent| Fraction(percent / 100.0)),
            ..LineFacts::default()
        })
    }
}
