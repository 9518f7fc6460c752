//! Generation: one more token for each request, from the same operators over a full cache.

use crate::model::{ModelShape, SeenImages};
use crate::predict::job::{Batch, Job};
use crate::predict::memory::resident::Resident;
use crate::predict::prediction::StepTime;
use crate::predict::step::StepTapes;
use crate::predict::time::StepTimeline;
use crate::predict::time::cost::{self, Passes};

/// The time of a token when the cache is as full as it gets: the slowest there is. None where nothing is generated,
/// or each token reads the whole prompt again.
pub(in crate::predict) fn of(job: &Job, stage: usize, layers: &[u64], resident: &Resident) -> Option<StepTime> {
    if !job.keeps_cache() || !matches!(job.architecture.shape, ModelShape::Decoder(_)) {
        return None;
    }
    let batch = job.batch;
    // All requests answer together, however many had their prompts read at a time.
    let micro = batch.micro.saturating_mul(batch.accumulation);
    let token = Batch {
        micro,
        accumulation: 1,
        sequence: 1,
        past: batch.sequence.saturating_sub(1).max(1),
        seen: SeenImages { images: 0, ..batch.seen },
        ..batch
    };
    let job = Job { batch: token, ..job.clone() };
    let step = StepTapes::of(&job);
    let ends = (stage == 0, stage + 1 == job.stages.len());
    let passes = Passes::of(&job, &step);
    let cost = cost::of_stage(&job, &step, &passes, (layers, ends), resident);
    Some(StepTimeline::of(&job, &step, &passes).finish((&job, &step), &cost, stage))
}
