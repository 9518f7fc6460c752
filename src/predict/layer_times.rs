//! Layers of one micro-batch in time, without their memory and without what stands before and behind them: all that a
//! bound on a step's time asks for.

use super::outline::walks_alike;
use crate::model::Tape;
use crate::predict::job::Job;
use crate::predict::step::play::Recompute;
use crate::predict::step::walked;
use crate::predict::time;
use crate::predict::time::cost::{DetailedPass, Kernels, Pass, Variant};
use crate::units::Seconds;

/// Each kind of layer in time, where nothing of it runs again.
pub struct LayerTimes {
    job: Job,
    variant: Variant,
    kinds: Vec<(Tape, Pass)>,
    /// The kind of each layer.
    order: Vec<usize>,
}

impl LayerTimes {
    /// Times the layers of `job`.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        let kernels = Kernels::of(job);
        let walk = walked(job);
        let pass = |tape: Tape| {
            let pass = DetailedPass::of(job, &kernels, &tape, Recompute::Nothing).pass;
            (tape, pass)
        };
        let kinds = walk.kinds.into_iter().map(|(_, tape)| pass(tape)).collect();
        Self { job: job.clone(), variant: Variant::of(job), kinds, order: walk.order }
    }

    /// Whether those of `job` are the same: it may differ in replicas, stages, what is sharded and what is offloaded.
    #[must_use]
    pub fn serve(&self, job: &Job) -> bool {
        self.variant == Variant::of(job) && walks_alike(&self.job, job)
    }

    /// Time that a micro-batch of `job` spends at least in any of its stages, their layers alone. A step is no
    /// quicker than that for each micro-batch, and once more a stage and chunk to fill the pipeline.
    #[must_use]
    pub fn least_in_a_stage(&self, job: &Job) -> Seconds {
        let each: Vec<Seconds> = self.kinds.iter().map(|(tape, pass)| time::of_layer(job, tape, pass)).collect();
        let of_layer = |layer: u64| each[self.order[usize::try_from(layer).unwrap_or(0)]];
        let in_stage = |chunks: &[(u64, u64)]| -> Seconds {
            let layers = chunks.iter().flat_map(|(from, count)| *from..from.saturating_add(*count));
            layers.map(of_layer).sum()
        };
        job.stages.iter().map(|stage| in_stage(&stage.chunks)).fold(Seconds(f64::INFINITY), Seconds::min)
    }
}
