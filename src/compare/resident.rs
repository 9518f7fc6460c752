//! What a run on a CPU shows, where nobody counts tensors: the resident set of its process, and its steps.

use super::bands::Bands;
use super::evidence::Evidence;
use super::explain::{Explanation, Subject, explain};
use crate::predict::{Job, Prediction};
use crate::reading::{Absence, HookStep, Reading};
use crate::units::{Bytes, Fraction, TokensPerSec};

/// The evidence of a step of which the hook told the resident set. What the process holds without a model is taken off
/// for the tensors' part: beside some hundred MB of libraries a small model's own would tell nothing.
#[must_use]
pub fn resident_evidence(step: &HookStep, prediction: &Prediction) -> Evidence {
    let stage = prediction.largest();
    let process = stage.device_used.saturating_sub(stage.peak_reserved);
    let held = match &step.peak_allocated {
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

/// Why a run on a CPU differs from its plan; the most likely first, none where the plan itself holds. `cpu_wait` is the
/// share of its time in which it waited for a core, `data_wait` that of its steps in a data loader.
#[must_use]
pub fn explain_resident(
    subject: &Subject<'_>,
    job: &Job,
    prediction: &Prediction,
    (step, cpu_wait, data_wait): (&HookStep, Reading<Fraction>, Reading<Fraction>),
) -> Vec<Explanation> {
    let evidence = Evidence { cpu_wait, data_wait, ..resident_evidence(step, prediction) };
    explain(subject, &evidence, &Bands::of(job))
}
