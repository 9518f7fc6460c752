//! The time of a step as a list of named terms.

use super::time_formulas::{TimeFormula, TimeSource};
use crate::units::{Bytes, Seconds};

/// What a part of the step's time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimePart {
    /// Kernels of one class.
    Kernels,
    /// A collective, or sends between stages.
    Communication,
    /// Waiting for other pipeline stages.
    Bubble,
    /// The GPU waiting for the host to launch kernels.
    Host,
    /// Host memory and the update that the host computes.
    Offload,
}

impl TimePart {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Communication => "communication",
            Self::Bubble => "bubble",
            Self::Host => "host",
            Self::Offload => "offload",
        }
    }
}

/// What a collective moves in a step, on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// Bytes of the whole tensors, of all runs together.
    pub bytes: Bytes,
    /// How often it runs.
    pub count: f64,
    /// Ranks that talk.
    pub ranks: u64,
    /// The slowest link between them.
    pub link: String,
}

/// A named part of the time of a step on the GPU that needs most memory.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeTerm {
    /// What it is.
    pub name: String,
    /// What sort of time it is.
    pub part: TimePart,
    /// How long the step waits for it. The terms of a step sum to its time.
    pub seconds: Seconds,
    /// How long it runs beside kernels, which the step does not wait for.
    pub hidden: Seconds,
    /// Share of the peak or of the link's rate that is reckoned with; none where there is no such share.
    pub efficiency: Option<f64>,
    /// How it was computed, with the numbers.
    pub formula: TimeFormula,
    /// Where the rule or the efficiency comes from.
    pub source: TimeSource,
    /// What is moved, of a collective.
    pub transfer: Option<Transfer>,
}
