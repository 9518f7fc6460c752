//! The peak of a stage: when it is, and what is alive then.

use crate::model::GROUPS;
use crate::predict::prediction::{Phase, Place};
use crate::predict::step::play::Groups;

/// The peak of a stage, taken apart.
#[derive(Debug, Clone)]
pub(in crate::predict) struct Peak {
    pub total: u64,
    pub phase: Phase,
    pub at: Place,
    /// Where it belongs on the timeline, unless it is a point of it already.
    pub missing: Option<usize>,
    /// The operator, where one made it.
    pub operator: &'static str,
    /// Activations of this micro-batch by group.
    pub groups: Groups,
    /// Activations of micro-batches in flight.
    pub in_flight: u64,
    /// Gradients of weights that exist.
    pub gradients: u64,
    /// Unsharded weights and gradients, buckets.
    pub buffers: u64,
    /// The optimizer's temporaries.
    pub optimizer: u64,
    /// Tables that layers share.
    pub shared: u64,
    /// A block ran.
    pub in_block: bool,
    /// Head and loss ran.
    pub in_loss: bool,
}

impl Peak {
    pub const fn none() -> Self {
        Self {
            total: 0,
            phase: Phase::Forward,
            at: Place::Named(""),
            missing: None,
            operator: "",
            groups: [0; GROUPS],
            in_flight: 0,
            gradients: 0,
            buffers: 0,
            optimizer: 0,
            shared: 0,
            in_block: false,
            in_loss: false,
        }
    }
}
