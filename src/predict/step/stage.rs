//! One stage of the pipeline: its layers, and which ends of the model it has.

use super::StepTapes;
use crate::model::Tape;
use crate::predict::job::Job;

/// Layers and ends of a stage.
pub(in crate::predict) struct StageTapes<'a> {
    pub job: &'a Job,
    pub step: &'a StepTapes,
    pub layers: Vec<u64>,
    pub first: bool,
    pub last: bool,
}

impl StageTapes<'_> {
    /// Tapes with how often each occurs.
    pub(in crate::predict) fn tapes(&self) -> impl Iterator<Item = (&Tape, u64)> {
        let order = &self.step.walk.order;
        let mut counts = vec![0_u64; self.step.walk.kinds.len()];
        for layer in &self.layers {
            counts[order[usize::try_from(*layer).unwrap_or(0)]] += 1;
        }
        let kinds = self.step.walk.kinds.iter().zip(counts).map(|((_, tape), count)| (tape, count));
        let first = self.first.then_some((&self.step.walk.first, 1));
        let last = self.last.then_some((&self.step.walk.last, 1));
        first.into_iter().chain(kinds).chain(last)
    }
}
