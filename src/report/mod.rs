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
