//! A traced model holds what PyTorch ran: what a plan may change of it, and what only another trace can.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Batch, Degrees, Notes, Storage};
use crate::framework::Profile;
use crate::model::{self, Architecture, Element, ModelShape};
use crate::plan::keys;
use crate::plan::keys::recomputation::classes as CLASSES;
use crate::plan::keywords::{Attention, Engine, Loss, Mode, Precision};
use crate::plan::traced::{Segment, SizeAxis, Trace, TraceTypes, TracedModel, TracedPass};
use crate::plan::{Checkpointing, Fault, ModelTrace, Plan};
use crate::printable::printable;

/// The architecture of the trace that a plan names.
///
/// # Errors
/// Where its file has not been read.
pub(super) fn architecture(trace: &ModelTrace) -> Result<Architecture, Fault> {
    match trace {
        ModelTrace::Read(trace) => Ok(model::of_trace(trace)),
        ModelTrace::Path(path) => Err(Fault::of(keys::model::trace, format!("{path}: the file has not been read"))),
    }
}

/// Refuses what a trace cannot answer, and says what has no effect on it.
pub(super) fn check(
    plan: &Plan,
    (profile, degrees): (&Profile, &Degrees),
    architecture: &Architecture,
    notes: &mut Notes,
) {
    let ModelShape::Traced(model) = &architecture.shape else {
        if let Some(Checkpointing::Classes(_)) = &plan.training.activation_checkpointing {
            notes.fault(CLASSES, "a traced model has classes alone: say full, or {every: K}");
        }
        return;
    };
    check_classes(plan, model, notes);
    for (degree, key, instead) in [
        (degrees.tensor, "distribution.tensor_parallel", "shard it: distribution.sharding: fsdp"),
        (degrees.pipeline, "distribution.pipeline_parallel", "shard it: distribution.sharding: fsdp"),
        (degrees.context, "distribution.context_parallel", "shard it, or checkpoint its activations"),
        (degrees.expert, "distribution.expert_parallel", "shard it: distribution.sharding: fsdp"),
    ] {
        if degree > 1 {
            let why = "the traced modules run whole on each GPU: nothing says how they would be cut";
            notes.fault(key, format!("{degree}: {why}; {instead}"));
        }
    }
    if profile.modules.transformer_engine.is || profile.data_parallel.gradients_stay.is {
        notes.fault(
            keys::model::framework,
            "a traced model runs its own PyTorch modules: leave the framework out, or say pytorch",
        );
    }
    check_mode(plan, model, notes);
    let t = &plan.training;
    if t.weight_bits.is_some() {
        notes.fault(keys::training::weight_bits, "the traced modules keep their weights as they are: leave it out");
    }
    if t.lora.as_ref().is_some_and(|lora| lora.base_bits.is_some()) {
        notes.fault(
            keys::lora::base_bits,
            "the traced modules keep their weights as they are: 16 bits, or leave it out",
        );
    }
    if t.precision == Some(Precision::Fp8Mixed) {
        notes.fault(keys::training::precision, "fp8-mixed: the trace has fp32, mixed and 16-bit precision");
    }
    without_effect(plan, model, notes);
}

/// A step answers for training alone, a forward pass without gradients for inference alone.
fn check_mode(plan: &Plan, model: &TracedModel, notes: &mut Notes) {
    match (model.pass, plan.training.mode) {
        (TracedPass::Step, Some(Mode::Inference)) => notes.fault(
            keys::training::mode,
            "inference: a training step was traced, which keeps other tensors; trace the pass: memwall trace --forward",
        ),
        (TracedPass::Forward, Some(Mode::Inference)) => notes.assumptions.push(
            "training.mode: inference: model.trace holds one forward pass without gradients; no further tokens are \
             generated"
                .to_owned(),
        ),
        (TracedPass::Forward, _) => notes.fault(
            keys::training::mode,
            "train: a forward pass without gradients was traced; trace a step: memwall trace without --forward",
        ),
        (TracedPass::Step, _) => {}
    }
}

/// Blocks are recomputed by the class that the trace gives them.
fn check_classes(plan: &Plan, model: &TracedModel, notes: &mut Notes) {
    let Some(Checkpointing::Classes(named)) = &plan.training.activation_checkpointing else { return };
    let blocks = model.traces.all().flat_map(|trace| &trace.kinds).filter(|segment| segment.block);
    let there: BTreeSet<String> = blocks.map(|segment| printable(&segment.name)).collect();
    for class in named.iter().filter(|class| !there.contains(class.as_str())) {
        let known = match there.is_empty() {
            true => "it has no blocks".to_owned(),
            false => format!("its blocks are {}", there.iter().map(String::as_str).collect::<Vec<_>>().join(", ")),
        };
        notes.fault(CLASSES, format!("{}: no class of a block of model.trace; {known}", printable(class)));
    }
}

/// What is in the trace as it is, whatever the plan says, and what the tracer had to say.
fn without_effect(plan: &Plan, model: &Arc<TracedModel>, notes: &mut Notes) {
    let t = &plan.training;
    let answers = t.mode == Some(Mode::Inference);
    let given = [
        (t.attention.is_some_and(|attention| attention != Attention::Sdpa), "training.attention"),
        (t.loss.is_some_and(|loss| loss != Loss::Hf), "training.loss"),
        (t.dropout.is_some(), "training.dropout"),
        (t.padded_batch.is_some(), "training.padded_batch"),
        (t.channels_last.is_some(), "training.channels_last"),
        (t.compile == Some(true), "training.compile"),
        (answers && t.use_cache.is_some(), "training.use_cache"),
        (answers && t.kv_cache_dtype.is_some(), "training.kv_cache_dtype"),
        (plan.model.sequence_length.is_some() && !model.has(SizeAxis::Sequence), "model.sequence_length"),
    ];
    for (_, key) in given.iter().filter(|(is, _)| *is) {
        notes.assumptions.push(format!("{key}: has no effect: model.trace holds the operators that ran"));
    }
    let frozen = t.lora.is_some() || t.frozen.as_ref().is_some_and(|parts| !parts.is_empty());
    if frozen && model.traces.all().any(|trace| trace.links.is_none()) {
        notes.assumptions.push(
            "model.trace: an older tape, which does not say what its parts read of each other: where some are frozen, \
             memory may be off; trace it again"
                .to_owned(),
        );
    }
    let said = model.differences.iter().chain(&model.notes);
    let said: Vec<String> =
        said.map(|line| format!("model.trace: {}", printable(line).chars().take(200).collect::<String>())).collect();
    notes.assumptions.extend(said.into_iter().take(12));
}

/// The size of an axis that a trace holds for alone, where it holds for no others.
fn only_size(model: &TracedModel, axis: SizeAxis) -> Option<u64> {
    let point = model.points.last().filter(|_| model.fixed || !model.varies(axis))?;
    point.get(&axis).copied()
}

/// The micro-batch that a trace holds for alone.
pub(super) fn only_batch(architecture: &Architecture) -> Option<u64> {
    let ModelShape::Traced(model) = &architecture.shape else { return None };
    only_size(model, SizeAxis::Batch)
}

/// The lengths that a trace holds for alone: what the model reads, and what its decoder reads.
pub(super) fn only_lengths(architecture: &Architecture) -> (Option<u64>, Option<u64>) {
    let ModelShape::Traced(model) = &architecture.shape else { return (None, None) };
    (only_size(model, SizeAxis::Sequence), only_size(model, SizeAxis::Target))
}

/// A traced model with none but the traces that have as many segments as the run's: layers are counted by the first of
/// them, and autocast may part what is one block without it (diffusers' `AutoencoderKL`).
pub(super) fn with_own_layers(
    architecture: Arc<Architecture>,
    storage: &Storage,
    degrees: &Degrees,
) -> Arc<Architecture> {
    let ModelShape::Traced(model) = &architecture.shape else { return architecture };
    let own = model.traces.of(types_of(storage, degrees)).0;
    let Some(segments) = own.map(|trace| trace.order.len()) else { return architecture };
    if model.traces.all().all(|trace| trace.order.len() == segments) {
        return architecture;
    }
    let mut model = TracedModel::clone(model);
    model.traces.retain_segments(segments);
    Arc::new(Architecture { shape: ModelShape::Traced(Arc::new(model)), ..Architecture::clone(&architecture) })
}

/// What the job's types are to a tape.
fn types_of(storage: &Storage, degrees: &Degrees) -> TraceTypes {
    TraceTypes {
        autocast: storage.autocast,
        narrow_weights: storage.seen.bytes() < Element::F32.bytes(),
        casts_inputs: degrees.engine == Engine::Fsdp2,
    }
}

/// Sizes that only the traced batch has, and types that were not traced.
pub(super) fn check_types(
    architecture: &Architecture,
    (storage, degrees): (&Storage, &Degrees),
    batch: &Batch,
    notes: &mut Notes,
) {
    let ModelShape::Traced(model) = &architecture.shape else { return };
    let (own, name) = model.traces.of(types_of(storage, degrees));
    if own.is_none() {
        let traces = &model.traces;
        let there = [(&traces.fp32, "fp32"), (&traces.mixed, "mixed"), (&traces.half, "16-bit")];
        let there: Vec<&str> = there.iter().filter(|(trace, _)| trace.is_some()).map(|(_, name)| *name).collect();
        notes.fault(keys::training::precision, format!("{name} was not traced; model.trace has {}", there.join(", ")));
    }
    let asked = [
        (SizeAxis::Batch, "training.micro_batch_size", batch.micro),
        (SizeAxis::Sequence, "model.sequence_length", batch.sequence),
        (SizeAxis::Target, "model.decoder_sequence_length", batch.target),
        (SizeAxis::Image, "model.image_size", batch.image),
    ];
    for (axis, key, wanted) in asked {
        if let Some(traced) = only_size(model, axis).filter(|traced| *traced != wanted) {
            notes.fault(key, format!("{wanted}: the trace holds for {traced} alone; trace the step with {wanted}"));
        }
    }
}

/// Bytes of all tensors that a step of this batch makes, at eight bytes an element; 0 for a model of the catalogue.
pub(super) fn bytes_of_all(architecture: &Architecture, batch: &Batch) -> f64 {
    let ModelShape::Traced(model) = &architecture.shape else { return 0.0 };
    let sizes = model.sizes_at(|axis| match axis {
        SizeAxis::Batch => batch.micro,
        SizeAxis::Sequence => batch.sequence,
        SizeAxis::Target => batch.target,
        SizeAxis::Image => batch.image,
    });
    let size = |at: &u32| sizes.get(*at as usize).map_or(0.0, |size| *size as f64);
    let elements = |segment: &Segment| {
        let tensors = segment.tensors.iter().map(|tensor| tensor.0.iter().map(size).product::<f64>());
        tensors.chain(segment.ops.iter().map(|op| size(&op.8) + size(&op.9))).sum::<f64>()
    };
    let step = |trace: &Trace| {
        let kinds: Vec<f64> = trace.kinds.iter().map(elements).collect();
        trace.order.iter().filter_map(|kind| kinds.get(*kind as usize)).sum::<f64>()
    };
    model.traces.all().map(step).fold(0.0, f64::max) * 8.0
}
