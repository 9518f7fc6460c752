//! What would be if the plan were another: what would help it, the largest size that fits, sweeps of a key or two, the best of all plans.

pub(super) mod fixes;
pub(super) mod largest;
pub(super) mod search;
pub(super) mod sweep;

use thiserror::Error;

use crate::plan::Fault;

/// Why a question about other plans has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WhatIfError {
    /// There is no plan to begin with.
    #[error("the plan is not valid")]
    InvalidPlan,
    /// Nothing to vary.
    #[error("{0} has no other values to try")]
    OneValue(&'static str),
    /// No other plan is valid.
    #[error("{0}")]
    Refused(Fault),
    /// The smallest is too large already.
    #[error("nothing fits: {smallest}; f searches plans that fit")]
    NothingFits {
        /// The smallest, and what it needs.
        smallest: String,
    },
    /// The plan is as good as it gets.
    #[error("nothing holds this plan back")]
    NothingHelps,
}
