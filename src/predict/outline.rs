//! The figures by which many plans are compared: what [`crate::predict::predict`] says, without the terms, the curve over
//! the step and their wording, and with the walk over the operators shared by plans that agree in it.

use std::sync::{Arc, RwLock};

use super::memory::overhead;
use super::time::decode;
use super::{account, largest_stage};
use crate::plan::keywords::CpuOffload;
use crate::predict::job::{Batch, Fragmentation, Job, Training};
use crate::predict::memory::replay::Replays;
use crate::predict::memory::{self, StageDetail, StageRun};
use crate::predict::prediction::{Capacity, Component, Roofline, StepTime, Traffic};
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::predict::time::StepTimeline;
use crate::predict::time::cost::{self, Cost, Passes, Variant};
use crate::units::{Bytes, Seconds};

/// Memory against the GPU, and time, of one plan: the same figures as in its [`crate::predict::Prediction`].
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Against the GPU, for the stage that needs most.
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

/// What the memory and the DRAM traffic of the GPU that needs most are for.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakdown {
    /// Device-used bytes at the peak, in the order of [`Component::ALL`].
    pub components: [Bytes; Component::ALL.len()],
    /// DRAM traffic of a step, or of reading all prompts.
    pub traffic: Traffic,
}

/// A plan's step with what it was made of.
struct PlayedStep {
    outline: Outline,
    /// Costs of the stage that needs most.
    cost: Cost,
    /// Which that is.
    largest: usize,
    /// Its memory.
    run: StageRun,
}

/// The operators of one micro-batch, walked once for all plans that run them alike.
pub struct OperatorWalk {
    job: Job,
    step: StepTapes,
    /// One micro-batch in time, for each variant that was asked for.
    passes: RwLock<Vec<(Variant, Arc<Passes>)>>,
    /// What the allocator reserves, for each plan in which it sees something else.
    replays: Replays,
}

impl OperatorWalk {
    /// Walks the operators of `job`.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self { job: job.clone(), step: StepTapes::of(job), passes: RwLock::default(), replays: Replays::default() }
    }

    /// Whether `job` runs the same operators: it may differ in replicas, stages, what is sharded, what is offloaded
    /// but runs on the same cluster.
    #[must_use]
    pub fn serves(&self, job: &Job) -> bool {
        let own = &self.job;
        own.training.checkpointing == job.training.checkpointing
            && StepTapes::gradients_of(own) == StepTapes::gradients_of(job)
            && walks_alike(own, job)
    }

    fn passes(&self, job: &Job) -> Arc<Passes> {
        let variant = Variant::of(job);
        let find = |known: &Vec<(Variant, Arc<Passes>)>| {
            known.iter().find(|(own, _)| *own == variant).map(|(_, passes)| Arc::clone(passes))
        };
        if let Some(passes) = self.passes.read().ok().and_then(|known| find(&known)) {
            return passes;
        }
        let passes = Arc::new(Passes::of(job, &self.step));
        if let Ok(mut known) = self.passes.write() {
            known.push((variant, Arc::clone(&passes)));
        }
        passes
    }

    /// The course of a step of `job`, which this must serve, in time: a small part of the work that all its figures are.
    #[must_use]
    pub fn timeline(&self, job: &Job) -> StepTimeline {
        StepTimeline::of(job, &self.step, &self.passes(job))
    }

    /// What a step of `job` takes at least, along its course and with what it keeps in host memory.
    #[must_use]
    pub fn least_time(&self, job: &Job, timeline: &StepTimeline) -> Seconds {
        timeline.seconds() + timeline.host(job, &self.step)
    }

    /// The figures of `job`, whose course this is.
    #[must_use]
    pub fn outline(&self, job: &Job, timeline: &StepTimeline) -> Outline {
        self.played(job, timeline).outline
    }

    /// The same, and what its memory and its DRAM traffic are for.
    #[must_use]
    pub fn breakdown(&self, job: &Job, timeline: &StepTimeline) -> (Outline, Breakdown) {
        let played = self.played(job, timeline);
        let account = account::account(job, job.stages[played.largest].count(), &played.run);
        let mut components = [Bytes::ZERO; Component::ALL.len()];
        for term in &account.terms {
            components[term.component as usize] += term.bytes;
        }
        (played.outline, Breakdown { components, traffic: played.cost.traffic })
    }

    /// Whether every stage of `job` fits its GPU.
    #[must_use]
    pub fn fits(&self, job: &Job) -> bool {
        let detail = StageDetail { curve: false, fragmentation: Fragmentation::Replayed, replays: Some(&self.replays) };
        let workspaces = overhead::of_libraries(job);
        distinct_stages(job, &self.step).into_iter().all(|index| {
            let run = memory::stage(job, &self.step, index, workspaces, detail);
            account::figures(job, &run).1 <= job.hardware.capacity
        })
    }

    fn played(&self, job: &Job, timeline: &StepTimeline) -> PlayedStep {
        let replays = Some(&self.replays);
        let detail = StageDetail { curve: false, fragmentation: Fragmentation::Replayed, replays };
        of_step(job, &self.step, &self.passes(job), timeline, detail)
    }
}

impl OperatorWalk {
    /// Bytes of device memory that `job` needs at least with each of `offloads`: what stays in it in every phase of a
    /// step. No checkpointing brings a plan below that.
    #[must_use]
    pub fn least_memory(&self, job: &Job, offloads: &[CpuOffload]) -> Vec<Bytes> {
        let mut most = vec![Bytes::ZERO; offloads.len()];
        for index in distinct_stages(job, &self.step) {
            for (most, least) in most.iter_mut().zip(least(job, &self.step, index, offloads)) {
                *most = least.max(*most);
            }
        }
        let beside = overhead::of_libraries(job).saturating_add(overhead::outside(job));
        most.into_iter().map(|least| least + Bytes(beside)).collect()
    }
}

/// Whether both run the same operators, but for what recomputation and gradients of weights make of them.
pub(super) fn walks_alike(own: &Job, job: &Job) -> bool {
    let cut = |job: &Job| {
        let degrees = job.degrees;
        let context = (degrees.context, degrees.exchange, degrees.gathers_tokens, degrees.stays_gathered);
        (degrees.tensor, degrees.sequence_parallel, context, degrees.expert, degrees.expert_tensor)
    };
    let sizes = |batch: Batch| (batch.micro, batch.sequence, batch.past, batch.target, batch.image, batch.seen);
    // Weights that are cast once a step cost each pass its share of that.
    let passes =
        |job: &Job| if job.storage.fp8 && job.modules.fp8_weights_once.is { job.batch.accumulation } else { 1 };
    let (cpu_offload, checkpointing) = (own.training.cpu_offload, own.training.checkpointing.clone());
    let training = Training { cpu_offload, checkpointing, ..job.training.clone() };
    cut(own) == cut(job)
        && sizes(own.batch) == sizes(job.batch)
        && passes(own) == passes(job)
        && own.training == training
        && own.storage == job.storage
        && own.profile == job.profile
        && same(&own.modules, &job.modules)
        && own.degrees.engine == job.degrees.engine
        && same(&own.architecture, &job.architecture)
        && same(&own.hardware, &job.hardware)
        && own.speed == job.speed
}

/// The figures of one plan.
#[must_use]
pub fn outline(job: &Job) -> Outline {
    outline_as(job, Fragmentation::Replayed)
}

/// The same with the allocator's fragmentation found as `fragmentation` says.
#[must_use]
pub fn outline_as(job: &Job, fragmentation: Fragmentation) -> Outline {
    let step = StepTapes::of(job);
    let passes = Passes::of(job, &step);
    let detail = StageDetail { curve: false, fragmentation, replays: None };
    of_step(job, &step, &passes, &StepTimeline::of(job, &step, &passes), detail).outline
}

/// The same with the operators of the stage that needs most under the GPU's roofs.
#[must_use]
pub fn outline_with_roofline(job: &Job) -> (Outline, Roofline) {
    let step = StepTapes::of(job);
    let passes = Passes::of(job, &step);
    let detail = StageDetail { curve: false, fragmentation: Fragmentation::Replayed, replays: None };
    let timeline = StepTimeline::of(job, &step, &passes);
    let PlayedStep { outline, cost, largest, .. } = of_step(job, &step, &passes, &timeline, detail);
    let ends = (largest == 0, largest + 1 == job.stages.len());
    let roofline = cost::roofline(job, &step, &passes, (&job.stages[largest].layers(), ends), &cost);
    (outline, roofline)
}

/// The same value, most often at the same place.
fn same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// The figures, and the stage that needs most.
fn of_step(
    job: &Job,
    step: &StepTapes,
    passes: &Passes,
    timeline: &StepTimeline,
    detail: StageDetail<'_>,
) -> PlayedStep {
    let workspaces = overhead::of_libraries(job);
    let mut runs: Vec<(usize, StageRun)> = distinct_stages(job, step)
        .into_iter()
        .map(|index| (index, memory::stage(job, step, index, workspaces, detail)))
        .collect();
    let used: Vec<(Bytes, Bytes)> = runs.iter().map(|(_, run)| account::figures(job, run)).collect();
    let place = largest_stage(used.iter().map(|(_, device)| *device));
    let (largest, run) = runs.swap_remove(place);
    let layers = job.stages[largest].layers();
    let ends = (largest == 0, largest + 1 == job.stages.len());
    let resident = &run.resident;
    let cost = cost::of_stage(job, step, passes, (&layers, ends), resident);
    let outline = Outline {
        capacity: Capacity { bytes: job.hardware.capacity, needed: used[place].1 },
        peak_allocated: used[place].0,
        static_bytes: Bytes(run.static_bytes),
        num_gpus: job.degrees.num_gpus,
        time: timeline.finish((job, step), &cost, largest),
        decode: decode::of(job, largest, &layers, resident),
    };
    PlayedStep { outline, cost, largest, run }
}

/// What stage `index` needs at least with each of `offloads`, whatever it runs: no peak is below what is always
/// there.
fn least(job: &Job, step: &StepTapes, index: usize, offloads: &[CpuOffload]) -> Vec<Bytes> {
    let layers = job.stages[index].layers();
    let held = StageTapes { job, step, layers, first: index == 0, last: index + 1 == job.stages.len() };
    let all = held.on_card();
    let least = offloads.iter().map(|offload| {
        let resident = held.offloading(all, *offload);
        resident.lasting() + if resident.gradients_stay { resident.gradients } else { Bytes::ZERO }
    });
    least.collect()
}

/// The stages among which the one is that needs most. Of neighbours between the ends that hold the same layers the
/// first has the most micro-batches in flight, whatever the schedule.
fn distinct_stages(job: &Job, step: &StepTapes) -> Vec<usize> {
    let kinds = |stage: usize| {
        let layers = job.stages[stage].chunks.iter().flat_map(|(from, count)| *from..from.saturating_add(*count));
        layers.map(|layer| (step.kind(layer), step.is_checkpointed(layer)))
    };
    let last = job.stages.len() - 1;
    let mut distinct = vec![0];
    distinct.extend((1..last).filter(|stage| *stage == 1 || !kinds(*stage).eq(kinds(stage - 1))));
    if last > 0 {
        distinct.push(last);
    }
    distinct
}
