//! A prediction for those who are not at the dashboard: as text for a terminal, as
//! the JSON object that scripts hold on to, as a row of CSV; and measured cases held
//! against their predictions.

pub mod counted;
pub mod csv;
pub mod drawing;
pub mod explain;
pub mod hooked;
pub mod json;
pub mod layer;
mod limits;
mod measured_spread;
pub mod metrics;
pub mod page;
pub mod plot;
pub mod plots;
pub mod recording;
pub mod roofline;
#[cfg(test)]
pub mod sample;
pub mod schema;
pub mod search;
pub mod setup;
pub mod sweep;
pub mod table;
pub mod text;
pub mod validate;

use crate::advise::Advice;
use crate::predict::Prediction;
use crate::units::Fraction;

pub use limits::{MaxBatch, MaxSequence};
pub use measured_spread::MeasuredSpread;

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The plan's file, or its name where it has none.
    pub plan: &'a str,
    /// What was predicted for it.
    pub prediction: &'a Prediction,
    /// What it was predicted of: batch, degrees, links; none for a prediction whose plan is not at hand.
    pub setup: Option<&'a setup::Setup>,
    /// How much of a lone GPU's speed each of its GPUs keeps; none on one GPU.
    pub scaling: Option<Fraction>,
    /// How large its batch may get, where that was asked.
    pub max_batch: Option<MaxBatch>,
    /// What holds it back, where that is wanted.
    pub advice: Option<&'a Advice>,
    /// How long its requests may get, where that was asked of an inference plan.
    pub max_sequence: Option<MaxSequence>,
    /// What its only layer holds in the backward pass, and on which GPUs it runs, where that was asked.
    pub layer: Option<&'a layer::LayerReport>,
    /// How far measured runs like its lie from it, where its plan is at hand and trains.
    pub spread: Option<MeasuredSpread>,
    /// The short report (`analysis.basic_mode`).
    pub basic: bool,
}

impl<'a> Report<'a> {
    /// Steps of the whole training. None where there is no such figure.
    #[must_use]
    pub fn total_steps(&self) -> Option<f64> {
        let a_step = self.setup.filter(|setup| setup.tokens > 0)?.tokens as f64;
        // Tokens come of hours and a rate: what is whole but for their rounding is whole.
        self.prediction.time.total_tokens().map(|tokens| (tokens / a_step - 1e-6).ceil())
    }

    /// A report of a prediction alone.
    #[must_use]
    pub const fn of(plan: &'a str, prediction: &'a Prediction) -> Self {
        Self {
            plan,
            prediction,
            setup: None,
            scaling: None,
            max_batch: None,
            advice: None,
            max_sequence: None,
            layer: None,
            spread: None,
            basic: false,
        }
    }
}
