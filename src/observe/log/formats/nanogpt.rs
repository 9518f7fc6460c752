//! nanoGPT: `iter 40: loss 6.2081, time 48.67ms, mfu 10.07%` (train.py; an mfu of -100 % is its
//! word for not known yet, and lines of `step 2000: train loss …` are evaluations); karpathy/llama2.c's train.py, of the same
//! loop: `40 | loss 6.2081 | lr 1.000000e-04 | 48.67ms | mfu 10.07%`.

use super::super::facts::{LineFacts, LineFormat, count_after, leading_count, number_after, positive_after};
use crate::reading::LogFormat;
use crate::units::{Fraction, Seconds};

pub struct NanoGpt;

impl LineFormat for NanoGpt {
    fn name(&self) -> LogFormat {
        LogFormat::NanoGpt
    }

    fn read(&mut self, line: &str) -> Option<LineFacts> {
        of_llama2(line).or_else(|| {
            let step = count_after(line, "iter ")?;
            let loss = number_after(line, &format!("iter {step}: loss "))?;
            Some(facts(step, loss, positive_after(line, ", time "), positive_after(line, ", mfu ")))
        })
    }
}

fn of_llama2(line: &str) -> Option<LineFacts> {
    let (step, rest) = line.split_once(" | loss ")?;
    if !step.bytes().all(|letter| letter.is_ascii_digit()) {
        return None;
    }
    let (_, behind) = rest.split_once(" | lr ")?;
    let (_, time) = behind.split_once(" | ")?;
    let time = time.split_once("ms | mfu ").and_then(|(time, _)| time.parse().ok());
    Some(facts(leading_count(step)?, number_after(line, " | loss ")?, Some(time?), positive_after(line, " | mfu ")))
}

/// The time in milliseconds and the share in percent, as both write them.
fn facts(step: u64, loss: f64, time: Option<f64>, mfu: Option<f64>) -> LineFacts {
    LineFacts {
        step: Some(step),
        loss: Some(loss),
        step_time: time.map(|time| Seconds(time / 1000.0)),
        mfu: mfu.map(|percent| Fraction(percent / 100.0)),
        ..LineFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// karpathy/llama2.c, train.py; of its evaluations' lines none is a step.
    #[test]
    fn llama2_tells_its_steps_without_a_word() {
        let facts = NanoGpt.read("40 | loss 6.2081 | lr 1.000000e-04 | 500.00ms | mfu 25.00%").unwrap();
        assert_eq!((facts.step, facts.loss, facts.step_time), (Some(40), Some(6.2081), Some(Seconds(0.5))));
        assert_eq!(facts.mfu, Some(Fraction(0.25)));
        assert_eq!(NanoGpt.read("0 | loss 10.4 | lr 0.0 | 5000.10ms | mfu -100.00%").unwrap().mfu, None);
        for line in [
            "step 2000: train loss 2.1, val loss 2.2",
            "a | loss 2.0 | lr 1.0 | 3.0ms | mfu 1.0%",
            "7 | loss 2.0 | lr 1.0",
        ] {
            assert_eq!(NanoGpt.read(line), None, "{line}");
        }
    }
}
