//! A prediction for those who are not at the dashboard: as text for a terminal, as
//! the JSON object that scripts hold on to, as a row of CSV; and measured cases held
//! against their predictions.

pub mod csv;
pub mod json;
#[cfg(test)]
pub mod sample;
pub mod table;
pub mod text;
pub mod validate;

use crate::predict::Prediction;
use crate::units::Bytes;

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The plan's file, or its name where it has none.
    pub plan: &'a str,
    /// What was predicted for it.
    pub prediction: &'a Prediction,
    /// How large its batch may get, where that was asked.
    pub max_batch: Option<MaxBatch>,
    /// How long its requests may get, where that was asked of an inference plan.
    pub max_sequence: Option<MaxSequence>,
}

/// The longest context that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxSequence {
    /// Not even one token a request fits.
    NothingFits,
    /// This much does, and one token more does not (or the model has no place for it).
    Fits {
        /// Tokens of a request, prompt and answer together.
        sequence_length: u64,
        /// What the GPU that needs most then uses.
        device_used: Bytes,
    },
}

/// The largest batch that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxBatch {
    /// Not even one sample a GPU fits.
    NothingFits,
    /// This much does, and one sample a GPU more does not.
    Fits {
        /// Samples per GPU per forward pass.
        micro_batch_size: u64,
        /// Samples per optimizer step over all GPUs, at the plan's own accumulation.
        batch_size: u64,
        /// What the GPU that needs most then uses.
        device_used: Bytes,
    },
}
