//! Keys that are read and have no effect on the figures: said, never silently ignored.

use super::storage::has_typed_masters;
use super::training::recomputes_blocks;
use super::{Degrees, Notes};
use crate::framework::Profile;
use crate::model::{Architecture, Input, ModelShape};
use crate::plan::keys;
use crate::plan::keywords::{CpuOffload, Mode, Precision, Sharding};
use crate::plan::{Checkpointing, ModelPart, Plan, TrainingPart};

/// What is said of a key that would change the prediction and does not.
pub(in crate::predict) const NOT_MODELLED: &str = "not modelled, the prediction leaves it out";

/// Keys of an architecture that the plan gives beside another that decides: the first in the order of
/// [`architecture::of_plan`](super::architecture::of_plan).
fn beside_the_model(model: &ModelPart) -> Vec<String> {
    let ways = [
        (keys::model::trace, model.trace.is_some()),
        (keys::model::hf_config, model.hf_config.is_some()),
        (keys::model::preset, model.preset.is_some()),
        (keys::model::layers, model.layers.is_some()),
        ("model.architecture", model.architecture.is_some()),
        (keys::model::size_billions, model.size_billions.is_some()),
    ];
    let mut given = ways.into_iter().filter(|(_, given)| *given).map(|(key, _)| key);
    let Some(first) = given.next() else { return Vec::new() };
    given.map(|key| format!("{key}: has no effect beside {first}, which the plan gives")).collect()
}

/// Names every key of the plan that is given and changes nothing.
pub(super) fn note(
    plan: &Plan,
    (profile, degrees): (&Profile, &Degrees),
    architecture: &Architecture,
    notes: &mut Notes,
) {
    let image = architecture.image().is_some();
    let sees = architecture.sight().is_some();
    let both = matches!(architecture.input(), Input::Pair(..));
    let text = both || matches!(architecture.shape, ModelShape::Unet(_));
    let layers = matches!(architecture.shape, ModelShape::Layers(_));
    let plain = layers || matches!(architecture.shape, ModelShape::ResidualNet(_));
    let (t, d, m) = (&plan.training, &plan.distribution, &plan.model);
    let reads = |key: &str| profile.support.own_keys.is.contains(&key);
    let inference = t.mode == Some(Mode::Inference);
    let latent = matches!(&architecture.shape, ModelShape::Decoder(decoder) if decoder.mla.is_some());
    let engine = profile.modules.transformer_engine.is;
    let defers = reads("training.defer_embedding_wgrad");
    let in_fp8 = t.precision == Some(Precision::Fp8Mixed) && !inference;
    let shards_in_fp8 = in_fp8 && profile.modules.fp8_shards.is;
    let masters = [Precision::Bf16Fp32Master, Precision::Fp16Fp32Master, Precision::Fp8Mixed];
    let has_masters = has_typed_masters(degrees.engine, t.optimizer)
        && !inference
        && t.precision.is_none_or(|precision| masters.contains(&precision));
    let stacked = matches!(
        architecture.shape,
        ModelShape::Decoder(_) | ModelShape::Encoder(_) | ModelShape::EncoderDecoder(_) | ModelShape::Traced(_)
    );
    if !stacked && t.frozen.as_ref().is_some_and(|parts| !parts.is_empty()) {
        let kind = architecture.kind();
        notes.fault(keys::training::frozen, format!("is for decoders and encoders only, not for a {kind}"));
    }
    let other = t.cpu_offload.is_some_and(|offload| offload != CpuOffload::Activations);
    let given = [
        (m.encoder_sequence_length.is_some() && !text, "model.encoder_sequence_length"),
        (m.decoder_sequence_length.is_some() && !both, "model.decoder_sequence_length"),
        (
            m.architecture.as_ref().is_some_and(|a| a.mtp_layers.is_some()) && !profile.modules.prediction.is,
            "model.architecture.mtp_layers",
        ),
        (m.input_gradient.is_some() && !layers, "model.input_gradient"),
        (
            m.image_size.is_some() && !image && !sees && !matches!(architecture.shape, ModelShape::Traced(_)),
            "model.image_size",
        ),
        (m.images.is_some() && !sees, "model.images"),
        (!sees && t.lora.as_ref().is_some_and(|lora| lora.vision_tower == Some(true)), "training.lora.vision_tower"),
        (m.sequence_length.is_some() && image, "model.sequence_length"),
        (m.transformer_impl.is_some() && !reads("model.transformer_impl"), "model.transformer_impl"),
        (t.use_cache.is_some() && !inference, "training.use_cache"),
        (t.kv_cache_dtype.is_some() && !inference, "training.kv_cache_dtype"),
        (
            t.cache_latents == Some(true) && !(inference && latent && t.use_cache != Some(false)),
            "training.cache_latents",
        ),
        (
            t.use_reentrant == Some(true) && (!recomputes_blocks(t) || profile.modules.reruns_all.is),
            "training.use_reentrant",
        ),
        (t.keep_outputs == Some(true) && (!profile.loss.returns_outputs.is || inference), "training.keep_outputs"),
        (d.reduce_dtype.is_some() && degrees.sharding != Sharding::Zero3, "distribution.reduce_dtype"),
        (t.master_dtype.is_some() && !has_masters, "training.master_dtype"),
        (t.fp8_recipe.is_some() && t.precision != Some(Precision::Fp8Mixed), "training.fp8_recipe"),
        (t.fp8_param_gather == Some(true) && !shards_in_fp8, "training.fp8_param_gather"),
        (t.defer_embedding_wgrad == Some(true) && !defers, "training.defer_embedding_wgrad"),
        (t.offload_modules.is_some() && !reads("training.offload_modules"), "training.offload_modules"),
        (t.offload_layers.is_some() && !reads("training.offload_layers"), "training.offload_layers"),
        (t.offload_modules.is_some() && other, "training.offload_modules (beside another cpu_offload)"),
        (t.offload_layers.is_some() && other, "training.offload_layers (beside another cpu_offload)"),
        (t.moe_grouped_gemm.is_some() && !reads("training.moe_grouped_gemm"), "training.moe_grouped_gemm"),
        (
            t.reference_model == Some(true) && t.lora.is_some() && !inference,
            "training.reference_model (adapters: the base is the reference)",
        ),
        (t.reference_model == Some(true) && inference, "training.reference_model (inference)"),
        (
            t.distributed_optimizer.is_some() && !reads("training.distributed_optimizer"),
            "training.distributed_optimizer",
        ),
        (
            t.generation_beside.is_some() && t.generation_memory.is_none(),
            "training.generation_beside (needs training.generation_memory)",
        ),
        (inference && t.frozen_models_billions.is_some(), "training.frozen_models_billions (inference)"),
        (inference && t.critic_model == Some(true), "training.critic_model (inference)"),
        (inference && t.generation_memory.is_some(), "training.generation_memory (inference)"),
        (inference && t.optimizer.is_some(), "training.optimizer (inference)"),
        (inference && t.loss.is_some(), "training.loss (inference)"),
        (inference && t.activation_checkpointing.is_some(), "training.activation_checkpointing (inference)"),
        (
            d.sync_each_micro_batch.is_some() && !(degrees.engine.is_fsdp() && degrees.sharding == Sharding::Zero3),
            "distribution.sync_each_micro_batch",
        ),
        (d.cp_comm.is_some() && !reads("distribution.cp_comm"), "distribution.cp_comm"),
    ];
    for (_, key) in given.iter().filter(|(is, _)| *is) {
        notes.assumptions.push(format!("{key}: given, has no effect on the prediction yet"));
    }
    for line in beside_the_model(m) {
        notes.assumptions.push(line);
    }
    let recomputes = t.activation_checkpointing.as_ref().is_some_and(|kind| *kind != Checkpointing::None);
    let answers = inference && matches!(architecture.shape, ModelShape::EncoderDecoder(_));
    let left_out = [
        (answers && t.use_cache != Some(false), keys::training::use_cache),
        (plain && recomputes && !inference, keys::training::activation_checkpointing),
        (t.moe_capacity_factor.is_some_and(|room| room < 1.0), keys::training::moe_capacity_factor),
    ];
    for (_, key) in left_out.iter().filter(|(is, _)| *is) {
        notes.assumptions.push(format!("{key}: {NOT_MODELLED}"));
    }
    if t.moe_capacity_factor.is_some_and(|room| room >= 1.0) {
        notes.assume(
            keys::training::moe_capacity_factor,
            "tokens are taken to be spread evenly: none is dropped, no room padded",
        );
    }
    if m.image_size.is_some() && !image && matches!(architecture.shape, ModelShape::Traced(_)) {
        notes.fault(
            keys::model::image_size,
            "the trace is sized by model.sequence_length, its tokens (a latent diffusion transformer's: pixels a side / 16, \
             squared)",
        );
    }
    for (_, line) in nothing_to_count(t).iter().filter(|(given, _)| *given) {
        notes.assumptions.push((*line).to_owned());
    }
    if t.reference_model == Some(true) && !inference && t.lora.is_none() {
        let line =
            "training.reference_model: its forward pass is in the step's time and not among the roofline's operators";
        notes.assumptions.push(line.to_owned());
    }
    let companions = companions_left_out(t);
    for (_, line) in companions.iter().filter(|(given, _)| *given && !inference) {
        notes.assumptions.push((*line).to_owned());
    }
    if t.cuda_graph.is_some() {
        notes
            .assumptions
            .push("training.cuda_graph: changes the speed only; its pools are left out of memory".to_owned());
    }
    overlaps(plan, degrees, notes);
    if t.deterministic == Some(true) {
        let line = "training.deterministic: of slower kernels only flash-attn's backward pass is counted";
        notes.assumptions.push(line.to_owned());
    }
    if t.precision == Some(Precision::Fp8Mixed) && !inference && !engine {
        let line = "training.precision: fp8-mixed saves what 16 bit does, as torchao's linear layers do";
        notes.assumptions.push(line.to_owned());
    }
    if defers && t.defer_embedding_wgrad == Some(true) {
        let line =
            "training.defer_embedding_wgrad: two micro-batches are deferred, as in Megatron's own configurations";
        notes.assumptions.push(line.to_owned());
    }
}

/// Says what a plan's overlap needs and the plan does not have.
fn overlaps(plan: &Plan, degrees: &Degrees, notes: &mut Notes) {
    let told = plan.distribution.overlap_tensor_parallel == Some(true);
    if told && degrees.tensor > 1 && !degrees.sequence_parallel {
        let line = "distribution.overlap_tensor_parallel: no effect without distribution.sequence_parallel \
                    (Megatron-LM refuses it)";
        notes.assumptions.push(line.to_owned());
    }
    // PyTorch's FSDPs gather ahead and reduce behind without a switch.
    let distribution = &plan.distribution;
    let told = [
        (distribution.overlap_param_gather == Some(false), keys::distribution::overlap_param_gather),
        (distribution.overlap_grad_reduce == Some(false), keys::distribution::overlap_grad_reduce),
    ];
    for (_, key) in told.iter().filter(|(is, _)| *is && degrees.engine.is_fsdp() && degrees.sharding == Sharding::Zero3)
    {
        notes.assumptions.push(format!("{key}: no effect under FSDP, which overlaps by itself"));
    }
}

/// What is not counted of other models and engines on the same GPUs.
fn companions_left_out(t: &TrainingPart) -> [(bool, &'static str); 3] {
    [
        (
            t.frozen_models_billions.is_some(),
            "training.frozen_models_billions: weights are counted; what their passes hold and take is not",
        ),
        (
            t.critic_model == Some(true),
            "training.critic_model: its states are counted; its own steps are not in the time",
        ),
        (
            t.generation_memory.is_some(),
            "training.generation_memory: the step is the update; the time in which answers are generated is not counted",
        ),
    ]
}

/// Settings that change what runs but not which bytes there are, with the reason.
fn nothing_to_count(t: &TrainingPart) -> [(bool, &'static str); 2] {
    [
        (
            t.gradient_clipping == Some(true),
            "training.gradient_clipping: gradients are scaled in place; only a norm of 4 B a tensor is made",
        ),
        (
            t.attention_softmax_fp32.is_some(),
            "training.attention_softmax_fp32: fused kernels compute in fp32 and keep 16 bit either way",
        ),
    ]
}
