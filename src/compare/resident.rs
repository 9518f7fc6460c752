//! What a run on a CPU shows, where nobody counts tensors: the resident set of its process, and its steps.

use super::evidence::Evidence;
use crate::predict::Prediction;
use crate::reading::{Absence, HookStep, Reading};
use crate::units::{Bytes, TokensPerSec};

/// Tensors of less than this share of what the process holds without a model tell nothing: by a percent of that it strays
/// from run to run, and a band is some twenty percent wide.
const LOST: f64 = 0.04;

/// The evidence of a step of which the hook told the resident set. What the process holds without a model is taken off
/// for the tensors' part: beside some hundred MB of libraries a small model's own would tell nothing.
#[must_use]
pub fn resident_evidence(step: &HookStep, prediction: &Prediction) -> Evidence {
    let stage = prediction.largest();
    let process = stage.device_used.saturating_sub(stage.peak_reserved);
    let held = match &step.peak_allocated {
        _ if stage.peak_reserved.as_f64() < LOST * process.as_f64() => {
            Reading::Absent(Absence::Because("little beside what Python and its libraries hold".into()))
        }
        Reading::Known { value, at, .. } => Reading::estimated(value.saturating_sub(process), *at),
        Reading::Absent(why) => Reading::Absent(why.clone()),
    };
    let tokens = match (&step.step_time, step.tokens) {
        (Reading::Known { value, at, .. }, Some(tokens)) if value.0 > 0.0 => {
            Reading::estimated(TokensPerSec(tokens as f64 / value.0), *at)
        }
        _ => Reading::not_read(),
    };
    Evidence {
        device_used: step.peak_allocated.clone(),
        // What malloc holds is more than the tensors in it, by as much as nobody counts.
        allocated: Reading::Absent(Absence::Because("not counted on a CPU".into())),
        reserved: held,
        settled: true,
        others: step.peak_allocated.clone().map(|_| Bytes::ZERO),
        step: step.step_time.clone(),
        tokens,
        ..Evidence::default()
    }
}
