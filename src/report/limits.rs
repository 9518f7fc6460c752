//! How large a plan's batch and context may get on its GPUs.

use serde_json::{Value, json};

use crate::predict::Prediction;
use crate::units::Bytes;

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

impl MaxBatch {
    /// In words, on the device of a prediction.
    pub(super) fn words(self, on: &Prediction) -> String {
        let (capacity, used) = (on.capacity.bytes, on.device_used_name());
        let each = if on.on_cpu { "" } else { " on each GPU" };
        match self {
            Self::NothingFits => format!("largest batch that fits: none, not even one sample{each}"),
            Self::Fits { micro_batch_size, batch_size, device_used } => format!(
                "largest batch that fits: {micro_batch_size}{each} at a time, {batch_size} in a step \
                 ({device_used} of {capacity} {used})"
            ),
        }
    }

    /// As the report's JSON says it.
    pub(super) fn json(self) -> Value {
        match self {
            Self::NothingFits => json!({"micro_batch_size": 0, "batch_size": 0, "device_used": null}),
            Self::Fits { micro_batch_size, batch_size, device_used } => json!({
                "micro_batch_size": micro_batch_size,
                "batch_size": batch_size,
                "device_used": device_used.0,
            }),
        }
    }
}

impl MaxSequence {
    /// In words, on the device of a prediction.
    pub(super) fn words(self, on: &Prediction) -> String {
        let (capacity, used) = (on.capacity.bytes, on.device_used_name());
        match self {
            Self::NothingFits => "longest context that fits: none, not even one token".to_owned(),
            Self::Fits { sequence_length, device_used } => format!(
                "longest context that fits: {sequence_length} tokens a request, at the plan's batch \
                 ({device_used} of {capacity} {used})"
            ),
        }
    }

    /// As the report's JSON says it; null throughout for a plan that answers no requests.
    pub(super) fn json(found: Option<Self>) -> Value {
        let (tokens, used) = match found {
            None => (None, None),
            Some(Self::NothingFits) => (Some(0), None),
            Some(Self::Fits { sequence_length, device_used }) => (Some(sequence_length), Some(device_used.0)),
        };
        json!({"sequence_length": tokens, "device_used": used})
    }
}
