//! The figures by which many plans are compared: what [`super::predict`] says, without the terms, the curve over
//! the step and their wording, and with the walk over the operators shared by plans that agree in it.

use super::job::Job;
use super::memory::{self, StageRun};
use super::prediction::{Capacity, StepTime};
use super::step::Step;
use super::{cost, decode, largest_stage, stage_layers, terms, time, workspaces};
use crate::units::{Bytes, Seconds};

/// Memory against the card, and time, of one plan: the same figures as in its [`super::Prediction`].
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Against the card, for the stage that needs most.
    pub capacity: Capacity,
    /// Tensors of that stage at the peak.
    pub peak_allocated: Bytes,
    /// Allocated there between steps.
    pub static_bytes: Bytes,
    /// GPUs in all.
    pub num_gpus: u64,
    /// Time: of an optimizer step, or of reading the prompts of all requests.
    pub time: StepTime,
    /// Time of one more token for each request (inference with a cache).
    pub decode: Option<StepTime>,
    /// The optimizer's part of the step.
    pub optimizer: Seconds,
}

/// The operators of one micro-batch, walked once for all plans that run them alike.
pub struct Walked {
    job: Job,
    step: Step,
}

impl Walked {
    /// Walks the operators of `job`.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self { job: job.clone(), step: Step::of(job) }
    }

    /// Whether `job` runs the same operators: it may differ in replicas, stages, what is sharded, what is offloaded
    /// and in the cluster.
    #[must_use]
    pub fn serves(&self, job: &Job) -> bool {
        let own = &self.job;
        let cut = |job: &Job| {
            let degrees = job.degrees;
            let context = (degrees.context, degrees.exchange);
            (degrees.tensor, degrees.sequence_parallel, context, degrees.expert, degrees.expert_tensor)
        };
        let batch =
            |job: &Job| (job.batch.micro, job.batch.sequence, job.batch.past, job.batch.target, job.batch.image);
        let mut training = job.training.clone();
        training.cpu_offload = own.training.cpu_offload;
        cut(own) == cut(job)
            && batch(own) == batch(job)
            && Step::gradients_of(own) == Step::gradients_of(job)
            && own.training == training
            && own.storage == job.storage
            && own.framework == job.framework
            && own.transformer_impl == job.transformer_impl
            && own.rules == job.rules
            && own.architecture == job.architecture
    }

    /// The figures of `job`. Where it does not run the operators that were walked, its own are.
    #[must_use]
    pub fn outline(&self, job: &Job) -> Outline {
        if self.serves(job) { of_step(job, &self.step) } else { of_step(job, &Step::of(job)) }
    }
}

impl Walked {
    /// Seconds that a micro-batch of `job` spends at least in any of its stages, their layers alone. A step is no
    /// quicker than that for each micro-batch, and once more a stage and chunk to fill the pipeline.
    #[must_use]
    pub fn least_in_a_stage(&self, job: &Job) -> Seconds {
        let order = &self.step.walk.order;
        let mut each: Vec<Option<f64>> = vec![None; self.step.walk.kinds.len()];
        let mut of_layer = |layer: u64| {
            let kind = order[usize::try_from(layer).unwrap_or(0)];
            *each[kind].get_or_insert_with(|| time::of_layer(job, &self.step, layer))
        };
        let stages = (0..job.stages.len()).map(|stage| stage_layers(job, stage).into_iter().map(&mut of_layer).sum());
        Seconds(stages.fold(f64::INFINITY, f64::min))
    }

    /// Bytes of device memory that `job` needs at least: what stays in it in every phase of a step. No checkpointing
    /// and no micro batch brings a plan below that.
    #[must_use]
    pub fn least_memory(&self, job: &Job) -> Bytes {
        let workspaces = workspaces(job);
        let least = (0..job.stages.len()).map(|index| memory::least(job, &self.step, index, workspaces)).max();
        Bytes(least.unwrap_or(0).saturating_add(terms::outside(job)))
    }
}

/// The figures of one plan.
#[must_use]
pub fn outline(job: &Job) -> Outline {
    of_step(job, &Step::of(job))
}

fn of_step(job: &Job, step: &Step) -> Outline {
    let workspaces = workspaces(job);
    let runs: Vec<(usize, StageRun)> = distinct_stages(job, step)
        .into_iter()
        .map(|index| (index, memory::stage(job, step, index, workspaces, false)))
        .collect();
    let used: Vec<(Bytes, Bytes)> = runs.iter().map(|(_, run)| terms::figures(job, run)).collect();
    let place = largest_stage(used.iter().map(|(_, device)| *device));
    let (largest, run) = &runs[place];
    let largest = *largest;
    let layers = stage_layers(job, largest);
    let ends = (largest == 0, largest + 1 == job.stages.len());
    let resident = &run.resident;
    let cost = cost::of_stage(job, step, &layers, ends, resident);
    Outline {
        capacity: Capacity { bytes: job.hardware.capacity, needed: used[place].1 },
        peak_allocated: used[place].0,
        static_bytes: Bytes(run.static_bytes),
        num_gpus: job.degrees.num_gpus,
        time: time::of_step(job, step, &cost, largest),
        decode: decode::of(job, largest, &layers, resident),
        optimizer: cost.optimizer,
    }
}

/// The stages among which the one is that needs most. Of neighbours between the ends that hold the same layers the
/// first has the most micro-batches in flight, whatever the schedule.
fn distinct_stages(job: &Job, step: &Step) -> Vec<usize> {
    let kinds = |stage: usize| -> Vec<(usize, bool)> {
        let layers = stage_layers(job, stage);
        let kind = |layer: u64| step.walk.order[usize::try_from(layer).unwrap_or(0)];
        layers.into_iter().map(|layer| (kind(layer), step.is_checkpointed(layer))).collect()
    };
    let last = job.stages.len() - 1;
    let mut distinct = vec![0];
    let mut before: Option<Vec<(usize, bool)>> = None;
    for stage in 1..last {
        let own = kinds(stage);
        if before.as_ref() != Some(&own) {
            distinct.push(stage);
            before = Some(own);
        }
    }
    if last > 0 {
        distinct.push(last);
    }
    distinct
}
