//! The figures by which many plans are compared: what [`super::predict`] says, without the terms, the curve over
//! the step and their wording, and with the walk over the operators shared by plans that agree in it.

use super::job::Job;
use super::memory::{self, StageRun};
use super::prediction::{Capacity, StepTime};
use super::step::Step;
use super::{cost, decode, largest_stage, stage_layers, terms, time, workspaces};
use crate::units::Bytes;

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

/// The figures of one plan.
#[must_use]
pub fn outline(job: &Job) -> Outline {
    of_step(job, &Step::of(job))
}

fn of_step(job: &Job, step: &Step) -> Outline {
    let workspaces = workspaces(job);
    let runs: Vec<StageRun> = job
        .stages
        .iter()
        .enumerate()
        .map(|(index, layers)| memory::stage(job, step, index, layers, workspaces))
        .collect();
    let used: Vec<(Bytes, Bytes)> = runs.iter().map(|run| terms::figures(job, run)).collect();
    let largest = largest_stage(used.iter().map(|(_, device)| *device));
    let layers = stage_layers(job, largest);
    let ends = (largest == 0, largest + 1 == runs.len());
    let resident = &runs[largest].resident;
    let cost = cost::of_stage(job, step, &layers, ends, resident);
    Outline {
        capacity: Capacity { bytes: job.hardware.capacity, needed: used[largest].1 },
        peak_allocated: used[largest].0,
        static_bytes: Bytes(runs[largest].static_bytes),
        num_gpus: job.degrees.num_gpus,
        time: time::of_step(job, step, &cost, largest),
        decode: decode::of(job, largest, &layers, resident),
    }
}
