//! How much of a lone GPU's speed each GPU of the cluster keeps.

use crate::plan::keywords::{CpuOffload, Schedule, Sharding};
use crate::predict::job::{Degrees, Job, StageLayers};
use crate::predict::memory;
use crate::predict::prediction::StepTime;
use crate::predict::step::StepTapes;
use crate::predict::time;
use crate::predict::time::cost::{self, Passes};
use crate::units::Fraction;

/// Samples a second of the cluster over those of as many single GPUs, were memory no limit: what one GPU would take for
/// the whole batch, with nothing split, over the GPUs' time together. Splitting costs collectives and bubbles, and
/// smaller matmuls. None for a plan on one GPU; and where it comes out above one, because what is saved (each GPU updates a
/// share of the weights, a lone GPU waits for its host at each of a layer's experts) is more than what splitting costs: it is
/// no measure of that then.
#[must_use]
pub fn scaling_efficiency(job: &Job, time: &StepTime) -> Option<Fraction> {
    let cards = job.degrees.num_gpus;
    if cards < 2 {
        return None;
    }
    let layers = job.architecture.layers();
    let mut lone = Job {
        degrees: Degrees {
            num_gpus: 1,
            data: 1,
            tensor: 1,
            pipeline: 1,
            context: 1,
            expert: 1,
            expert_tensor: 1,
            sequence_parallel: false,
            sharding: Sharding::None,
            shard_ranks: 1,
            expert_shard_ranks: 1,
            schedule: Schedule::OneFOneB,
            virtual_pipeline: 1,
            ..job.degrees
        },
        stages: vec![StageLayers { chunks: vec![(0, layers)] }],
        ..job.clone()
    };
    lone.training.cpu_offload = CpuOffload::None;
    lone.batch.accumulation = job.batch.global.div_ceil(job.batch.micro.max(1));
    let step = StepTapes::of(&lone);
    let passes = Passes::of(&lone, &step);
    let all: Vec<u64> = (0..layers).collect();
    let resident = memory::resident_of(&lone, &step, 0);
    let cost = cost::of_stage(&lone, &step, &passes, (&all, (true, true)), &resident);
    let alone = time::StepTimeline::of(&lone, &step, &passes).finish((&lone, &step), &cost, 0);
    let share = (time.samples_per_s > 0.0).then(|| time.samples_per_s / cards as f64 / alone.samples_per_s);
    share.filter(|share| *share <= 1.0).map(Fraction)
}
