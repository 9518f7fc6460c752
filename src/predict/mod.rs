//! From a plan to memory, flops, traffic, roofline and time: one walk over the
//! model's operators gives them all.

mod account;
mod host;
mod job;
mod largest;
mod layer;
mod layer_times;
mod memory;
mod outline;
mod prediction;
mod scaling;
mod step;
mod time;

pub use host::host_memory;
pub use job::Fragmentation;
pub use job::{
    Batch, Companions, Degrees, GenerationEngine, Hardware, Job, KnownCounts, Lora, NOTHING_GIVEN, Speed, StageLayers,
    Storage, Training,
};
pub use largest::largest;
pub use layer::{BackwardTensor, backward_tensors};
pub use layer_times::LayerTimes;
pub use outline::{Breakdown, OperatorWalk, Outline, outline, outline_as, outline_with_roofline};
pub use prediction::{
    Bottleneck, Bound, Capacity, Component, HostPass, KernelWork, Layer, LayerGroup, Params, Phase, Place, Prediction,
    Roofline, RooflineOp, StageMemory, StepFlops, StepTime, Term, TimeFormula, TimePart, TimeSource, TimeTerm,
    TimelinePoint, Traffic, Transfer, Verdict, Words, WordsPiece, lacking,
};
pub use scaling::scaling_efficiency;
pub use time::StepTimeline;
pub use time::cost::{BACKWARD_PRODUCTS, ConvolutionKernel, MatrixUnit, implicit, reached};

use std::borrow::Cow;
use std::sync::Arc;

use crate::catalog::{Catalog, Generation};
use crate::model::{ClassCount, Group, ModelShape, class_count};
use crate::plan::keywords::Mode;
use crate::plan::{Fault, HfConfig, Plan};
use crate::units::Bytes;
use memory::peak::Peak;
use memory::{StageDetail, StageRun, overhead};
use step::{StepTapes, layers, micro_batch};
use time::cost::{self, Passes};
use time::decode;
use time::terms::StepParts;

/// Resolves a plan and predicts it.
///
/// # Errors
/// Every fault of the plan.
pub fn of(plan: &Plan, catalog: &Catalog) -> Result<Prediction, Vec<Fault>> {
    Job::resolve(plan, catalog).map(|job| predict(&job))
}

/// Parameters of a plan's model where nothing else of it can be predicted: its class is known, what its modules save
/// is not.
#[must_use]
pub fn counted(plan: &Plan) -> Option<ClassCount> {
    let Some(HfConfig::Inline(config)) = &plan.model.hf_config else { return None };
    class_count(config)
}

/// Memory, flops, traffic, roofline and time of a job.
#[must_use]
pub fn predict(job: &Job) -> Prediction {
    predict_as(job, Fragmentation::Replayed)
}

/// The same with the allocator's fragmentation found as `fragmentation` says.
#[must_use]
pub fn predict_as(job: &Job, fragmentation: Fragmentation) -> Prediction {
    let detail = StageDetail { curve: true, fragmentation, replays: None };
    let step = StepTapes::of(job);
    let workspaces = overhead::of_libraries(job);
    let mut runs: Vec<StageRun> =
        job.stages.iter().enumerate().map(|(index, _)| memory::stage(job, &step, index, workspaces, detail)).collect();
    let stages: Vec<StageMemory> =
        runs.iter_mut().enumerate().map(|(index, run)| stage_memory(job, index, run)).collect();
    let largest = largest_stage(stages.iter().map(|stage| stage.device_used));
    let layers = job.stages[largest].layers();
    let ends = (largest == 0, largest + 1 == stages.len());
    let resident = &runs[largest].resident;
    let passes = Passes::of(job, &step);
    let cost = cost::of_stage(job, &step, &passes, (&layers, ends), resident);
    let timeline = StepTimeline::of(job, &step, &passes);
    let time = timeline.finish((job, &step), &cost, largest);
    let classes = cost::classes(job, &step, &passes, (&layers, ends), &cost);
    let parts = StepParts { job, step: &step, passes: &passes, classes, largest };
    let time_terms = timeline.terms(&parts, &time);
    let capacity = Capacity { bytes: job.hardware.capacity, needed: stages[largest].device_used };
    let splits = job.degrees.tensor > 1 || job.degrees.expert > 1;
    let trained = match job.training.lora.is_some() || !job.training.frozen.is_nothing() {
        // A rank walks its own share.
        true if splits => micro_batch::count(job),
        true => step.walk.count(),
        false => job.params,
    };
    Prediction {
        fragmentation: match runs[largest].reserved {
            Some(reserved) => Fragmentation::of(stages[largest].peak_allocated, Bytes(reserved)),
            None => fragmentation,
        },
        layers: layers::of_stage(job, &step, &layers, ends),
        model: job.architecture.name.clone(),
        gpu: job.hardware.gpu.name.clone(),
        gpu_short: job.hardware.gpu.short.clone(),
        on_cpu: job.hardware.gpu.generation == Generation::Cpu,
        num_gpus: job.degrees.num_gpus,
        params: Params { total: trained.total, trainable: trained.trained, active_per_token: trained.active },
        largest_stage: largest,
        capacity,
        flops: cost.flops,
        traffic: cost.traffic,
        decode: decode::of(job, largest, &layers, resident),
        time,
        time_terms,
        roofline: cost::roofline(job, &step, &passes, (&layers, ends), &cost),
        assumptions: Arc::clone(&job.assumptions),
        stages,
    }
}

/// The first of the stages that need most.
fn largest_stage(used: impl DoubleEndedIterator<Item = Bytes> + ExactSizeIterator) -> usize {
    used.enumerate().rev().max_by_key(|(_, used)| *used).map_or(0, |(index, _)| index)
}

/// What of a stage is shown; its timeline leaves `run`.
fn stage_memory(job: &Job, index: usize, run: &mut StageRun) -> StageMemory {
    let account = account::account(job, job.stages[index].count(), run);
    StageMemory {
        stage: index as u64,
        layers: job.stages[index].count(),
        peak_allocated: account.terms.iter().filter(|term| term.layer == Layer::Allocated).map(|term| term.bytes).sum(),
        peak_reserved: account.reserved,
        device_used: account.device,
        terms: account.terms,
        static_bytes: Bytes(run.static_bytes),
        activations_end_of_forward: Bytes(run.activations_end_of_forward),
        peak_phase: run.peak.phase,
        peak_cause: cause(job, &run.peak),
        timeline: std::mem::take(&mut run.timeline),
    }
}

/// What makes the peak, in words.
fn cause(job: &Job, peak: &Peak) -> Cow<'static, str> {
    if peak.phase == Phase::Optimizer {
        return Cow::Borrowed("optimizer step: weights, gradients, states and its temporaries at once");
    }
    if job.training.mode == Mode::Inference {
        let what = match (job.keeps_cache(), &job.architecture.shape) {
            (true, _) => "what the prompt's tokens pass through, over the cache",
            (false, ModelShape::Decoder(_)) => "what the prompt's tokens pass through",
            (false, _) => "what one pass holds",
        };
        return Cow::Owned(format!("{} ({}): {what}", peak.at, peak.operator));
    }
    if peak.operator == memory::START {
        return Cow::Borrowed("start of the step: what the last step left");
    }
    let most = Group::ALL.iter().max_by_key(|group| peak.groups[**group as usize]);
    let what = match most {
        Some(Group::Logits) => "copies of the logits",
        Some(Group::Attention) => "attention's saved tensors",
        Some(Group::Mlp) => "the feed-forward blocks' saved tensors",
        Some(Group::Experts) => "the experts' saved tensors",
        Some(Group::WeightGradient) => "gradients of weights",
        Some(Group::ActivationGradient) => "gradients of activations",
        _ => "saved activations",
    };
    Cow::Owned(format!("{} ({}); mostly {what}", peak.at, peak.operator))
}
