//! A prediction for those who are not at the dashboard: as text for a terminal, as
//! the JSON object that scripts hold on to, as a row of CSV; and measured cases held
//! against their predictions.

pub mod counted;
pub mod csv;
pub mod drawing;
pub mod explain;
pub mod hooked;
pub mod json;
mod limits;
pub mod metrics;
pub mod recording;
pub mod roofline;
#[cfg(test)]
pub mod sample;
pub mod search;
pub mod sweep;
pub mod table;
pub mod text;
pub mod validate;

use crate::advise::Advice;
use crate::predict::Prediction;
use crate::units::Fraction;

pub use limits::{MaxBatch, MaxSequence};

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The plan's file, or its name where it has none.
    pub plan: &'a str,
    /// What was predicted for it.
    pub prediction: &'a Prediction,
    /// How much of a lone GPU's speed each of its GPUs keeps; none on one GPU.
    pub scaling: Option<Fraction>,
    /// How large its batch may get, where that was asked.
    pub max_batch: Option<MaxBatch>,
    /// What holds it back, where that is wanted.
    pub advice: Option<&'a Advice>,
    /// How long its requests may get, where that was asked of an inference plan.
    pub max_sequence: Option<MaxSequence>,
}
