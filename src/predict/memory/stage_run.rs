//! What is asked of a stage's memory, and what comes of it.

use super::peak::Peak;
use super::replay::{CompanionBytes, Replays, reserved};
use super::resident::Resident;
use crate::predict::job::{Fragmentation, Job};
use crate::predict::prediction::TimelinePoint;
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::predict::step::pipeline::received;
use crate::units::Bytes;

/// What is asked of a stage beside its peak.
#[derive(Clone, Copy)]
pub(in crate::predict) struct StageDetail<'a> {
    /// Its course over the step.
    pub curve: bool,
    /// How the allocator's fragmentation is found.
    pub fragmentation: Fragmentation,
    /// Replays of plans that run the same operators.
    pub replays: Option<&'a Replays>,
}

impl StageDetail<'_> {
    /// Reserved bytes where they are to be replayed; `allocated` is the peak of the tensors.
    pub(super) fn reserved(&self, held: &StageTapes<'_>, beside: &CompanionBytes, allocated: u64) -> Option<u64> {
        match self.replays {
            _ if self.fragmentation != Fragmentation::Replayed => None,
            Some(replays) => replays.reserved(held, beside, allocated),
            None => reserved(held, beside, allocated),
        }
    }
}

/// What stage `index` holds.
pub(in crate::predict) fn resident_of(job: &Job, step: &StepTapes, index: usize) -> Resident {
    let (first, last) = (index == 0, index + 1 == job.stages.len());
    let mut resident = StageTapes { job, step, layers: job.stages[index].layers(), first, last }.resident();
    resident.received = Bytes(received(job, step, index));
    resident
}

/// A stage over one step.
pub(in crate::predict) struct StageRun {
    pub resident: Resident,
    pub workspaces: u64,
    pub inputs: u64,
    /// What the model returned last.
    pub kept: u64,
    /// What the last block and the loss free and the loss cannot use.
    pub hole: u64,
    pub peak: Peak,
    pub activations_end_of_forward: u64,
    pub static_bytes: u64,
    pub timeline: Vec<TimelinePoint>,
    /// Reserved bytes, where they are replayed.
    pub reserved: Option<u64>,
    /// How fragmentation is found where they are not.
    pub fragmentation: Fragmentation,
}
