//! How the model is trained.

use super::Notes;
use super::companions::Companions;
use crate::framework::Profile;
use crate::model::{Architecture, DecoderOutput, Element, FROZEN_PARTS, FrozenParts, ModelShape, Part, SIGHT_PARTS};
use crate::plan::keys;
use crate::plan::keywords::{Attention, CpuOffload, Loss, Mode, Optimizer};
use crate::plan::{Checkpointing, Plan, TrainingPart};

/// Adapters on frozen weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Lora {
    /// Rank.
    pub rank: u64,
    /// Linear layers that have one, by the names of their operators.
    pub targets: Vec<&'static str>,
    /// Those of a tower of vision and its joint that have one.
    pub tower: Vec<&'static str>,
    /// The embedding and the output matrix, where they train whole beside the adapters.
    pub saved: Vec<&'static str>,
    /// Dropout before the first matrix.
    pub dropout: f64,
    /// Bits of a base weight, where it is quantised.
    pub base_bits: Option<u64>,
    /// Scales quantised as well.
    pub double_quant: bool,
    /// Type of the adapters' weights, where the plan says it.
    pub dtype: Option<Element>,
    /// Layers whose adapters run in one function with their weights.
    pub kernels: Vec<&'static str>,
}

/// How the model is trained.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// A training step, or prefill.
    pub mode: Mode,
    /// The optimizer.
    pub optimizer: Optimizer,
    /// Kernels of attention.
    pub attention: Attention,
    /// What is recomputed.
    pub checkpointing: Checkpointing,
    /// What the loss keeps.
    pub loss: Loss,
    /// Elementwise chains fused.
    pub compile: bool,
    /// Overrides the model's own.
    pub dropout: Option<f64>,
    /// Each gradient applied and freed as it is made.
    pub optimizer_in_backward: bool,
    /// What lives in host memory.
    pub cpu_offload: CpuOffload,
    /// Modules whose saved tensors go to host memory, where not all do (Megatron).
    pub offload_modules: Vec<String>,
    /// The first layers whose saved tensors go there, where not all do.
    pub offload_layers: Option<u64>,
    /// Products for the output matrix's gradient wait for the pipeline to drain (Megatron).
    pub deferred_head: bool,
    /// Embeddings' states of 8 bits are of fp32.
    pub wide_embedding_states: bool,
    /// Blocks are recomputed by PyTorch's reentrant checkpoint.
    pub reentrant: bool,
    /// Adapters.
    pub lora: Option<Lora>,
    /// Parts without gradients.
    pub frozen: FrozenParts,
    /// Weight decay.
    pub weight_decay: f64,
    /// Gradients clipped by their norm.
    pub gradient_clipping: bool,
    /// A real padding mask.
    pub padded_batch: bool,
    /// A frozen copy of the model reads each sample too (DPO's reference).
    pub reference_model: bool,
    /// Each sample is read by a reference too: that copy, or the base without its adapters (TRL, trainer/dpo_trainer.py,
    /// `null_ref_context`).
    pub reference_pass: bool,
    /// What else stands on the same GPUs.
    pub companions: Companions,
    /// Model outputs stay alive until the next step.
    pub keep_outputs: bool,
    /// Keys and values are kept for later tokens (inference).
    pub use_cache: bool,
    /// Latent attention caches its compressed keys and values.
    pub cache_latents: bool,
    /// Bits of the blocks' matrices, where they are quantised to answer requests.
    pub weight_bits: Option<u64>,
    /// Convolutions read and write NHWC tensors.
    pub channels_last: bool,
    /// The host waits for each kernel (`CUDA_LAUNCH_BLOCKING=1`).
    pub launch_blocking: bool,
    /// Deterministic algorithms.
    pub deterministic: bool,
    /// Experts' matmuls run grouped.
    pub grouped_experts: bool,
    /// Weight gradients are added to the main gradients by the matmul itself (Megatron).
    pub gradient_accumulation_fusion: bool,
}

/// Whether a traced model recomputes its blocks by itself.
fn own_recomputation(architecture: &Architecture, mode: Mode) -> bool {
    mode == Mode::Train && matches!(&architecture.shape, ModelShape::Traced(model) if model.recomputes)
}

/// Whether PyTorch's checkpoint runs whole blocks again.
pub(super) fn recomputes_blocks(part: &TrainingPart) -> bool {
    part.mode != Some(Mode::Inference)
        && matches!(
            part.activation_checkpointing,
            Some(Checkpointing::Full | Checkpointing::Every(_) | Checkpointing::Classes(_))
        )
}

/// Megatron's names of modules (core/transformer/transformer_config.py, `offload_modules`).
const OFFLOADED_MODULES: [&str; 7] =
    ["attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"];

/// Modules whose saved tensors go to the host, by names that Megatron knows.
fn offload_modules(part: &TrainingPart, profile: &Profile, notes: &mut Notes) -> Vec<String> {
    let reads = profile.support.own_keys.is.contains(&keys::training::offload_modules);
    let names = part.offload_modules.clone().filter(|_| reads).unwrap_or_default();
    for unknown in names.iter().filter(|name| !OFFLOADED_MODULES.contains(&name.as_str())) {
        let known = OFFLOADED_MODULES.join(", ");
        notes.assume(keys::training::offload_modules, format!("`{unknown}` is left out; known: {known}"));
    }
    names
}

/// Fills absent keys by the contract's defaults.
pub(super) fn resolve(
    plan: &Plan,
    (profile, architecture): (&Profile, &Architecture),
    lora: Option<Lora>,
    notes: &mut Notes,
) -> Training {
    let part = &plan.training;
    let defaults = &profile.defaults;
    let reads = |key: &str| profile.support.own_keys.is.contains(&key);
    let mode = part.mode.unwrap_or(Mode::Train);
    let (optimizer, loss) = steps(part, mode, (profile, architecture), notes);
    let offload = match mode == Mode::Train && sends_activations(part, profile) {
        true => CpuOffload::Activations,
        false => CpuOffload::None,
    };
    note_reentrant(part, profile, notes);
    wide_heads(part, architecture, notes);
    if mode == Mode::Train && lora.is_none() {
        check_frozen(part.frozen.as_deref().unwrap_or_default(), architecture, profile, notes);
    }
    let adam = !matches!(optimizer, Optimizer::Sgd | Optimizer::SgdMomentum);
    Training {
        mode,
        optimizer,
        attention: match attends(architecture) {
            true => notes.or(keys::training::attention, part.attention, defaults.attention.is),
            false => part.attention.unwrap_or(defaults.attention.is),
        },
        checkpointing: part.activation_checkpointing.clone().unwrap_or(match own_recomputation(architecture, mode) {
            true => Checkpointing::Full,
            false => Checkpointing::None,
        }),
        loss,
        // A trace holds the operators that ran.
        compile: part.compile.unwrap_or(false) && !matches!(architecture.shape, ModelShape::Traced(_)),
        dropout: dropout(part.dropout, mode, profile, notes),
        optimizer_in_backward: part.optimizer_in_backward.unwrap_or(false),
        cpu_offload: part.cpu_offload.unwrap_or(offload),
        offload_modules: offload_modules(part, profile, notes),
        offload_layers: part.offload_layers.filter(|_| reads("training.offload_layers")),
        deferred_head: reads("training.defer_embedding_wgrad") && part.defer_embedding_wgrad == Some(true),
        wide_embedding_states: part.embedding_states_fp32 == Some(true) && optimizer == Optimizer::Adamw8bit,
        reentrant: part.use_reentrant == Some(true) && recomputes_blocks(part) && !profile.modules.reruns_all.is,
        // With adapters the base itself, without them, is the reference: no copy.
        reference_model: part.reference_model == Some(true) && mode == Mode::Train && lora.is_none(),
        reference_pass: part.reference_model == Some(true) && mode == Mode::Train,
        companions: Companions::of(part, mode),
        lora,
        frozen: frozen(part.frozen.as_deref().unwrap_or_default(), architecture, notes),
        weight_decay: part.weight_decay.unwrap_or(if adam && optimizer != Optimizer::Rmsprop { 0.01 } else { 0.0 }),
        gradient_clipping: clipping(part, mode, profile, notes),
        padded_batch: part.padded_batch.unwrap_or(false),
        keep_outputs: part.keep_outputs.unwrap_or(false),
        use_cache: part.use_cache.unwrap_or(true),
        cache_latents: part.cache_latents.unwrap_or(false),
        weight_bits: weight_bits(part.weight_bits, mode, notes),
        channels_last: part.channels_last.unwrap_or(false),
        launch_blocking: launch_blocking(part, profile, notes),
        deterministic: part.deterministic.unwrap_or(false),
        grouped_experts: part.moe_grouped_gemm.unwrap_or(defaults.grouped_experts.is),
        gradient_accumulation_fusion: part
            .gradient_accumulation_fusion
            .unwrap_or(defaults.gradient_accumulation_fusion.is),
    }
}

/// flash-attn refuses wider heads (csrc/flash_attn/flash_api.cpp, `mha_fwd`: "only supports head dimension at most 256").
fn wide_heads(part: &TrainingPart, architecture: &Architecture, notes: &mut Notes) {
    let wide = architecture.block().map_or(0, |block| block.head_dim);
    if part.attention == Some(Attention::Flash) && wide > 256 {
        notes.fault(keys::training::attention, format!("flash takes heads of 256 at most, these have {wide}"));
    }
}

/// How blocks are recomputed decides what runs again, and transformers' own default changed.
fn note_reentrant(part: &TrainingPart, profile: &Profile, notes: &mut Notes) {
    if recomputes_blocks(part) && part.use_reentrant.is_none() && profile.modules.python_names.is {
        notes.assume(
            keys::training::use_reentrant,
            "false (transformers before 5 takes true: blocks' last matrices run again)",
        );
    }
}

/// Whether a model has a layer that attends. A trace holds whatever ran.
pub(super) fn attends(architecture: &Architecture) -> bool {
    match &architecture.shape {
        ModelShape::ResidualNet(_) | ModelShape::Layers(_) => false,
        ModelShape::Decoder(decoder) => decoder.attention_layers() > 0,
        _ => true,
    }
}

/// Whether a loss computes its gradient from the hidden states, without keeping logits.
const fn keeps_no_logits(loss: Loss) -> bool {
    matches!(loss, Loss::Fused | Loss::Chunked)
}

/// Whether there is such a loss for a model: Liger's and torchtune's are written for what says the next token.
fn has_logit_free_loss(architecture: &Architecture) -> bool {
    match &architecture.shape {
        ModelShape::Decoder(decoder) => decoder.says == DecoderOutput::Tokens,
        // Its loss is its own code.
        ModelShape::Traced(_) => true,
        _ => false,
    }
}

/// The optimizer and the loss. What does not run is not worth a line.
fn steps(
    part: &TrainingPart,
    mode: Mode,
    (profile, architecture): (&Profile, &Architecture),
    notes: &mut Notes,
) -> (Optimizer, Loss) {
    let (default, loss) = (profile.defaults.optimizer.is, profile.defaults.loss.is);
    let (optimizer, loss) = match mode {
        Mode::Train => (
            notes.or(keys::training::optimizer, part.optimizer, default),
            notes.or(keys::training::loss, part.loss, loss),
        ),
        Mode::Inference => (part.optimizer.unwrap_or(default), part.loss.unwrap_or(loss)),
    };
    let loss = if keeps_no_logits(loss) && !has_logit_free_loss(architecture) {
        // Whatever a framework takes else.
        let usual = profile.defaults.loss.is;
        let usual = if keeps_no_logits(usual) { Loss::Hf } else { usual };
        if mode == Mode::Train {
            let kind = architecture.kind();
            let said = format!("{usual}: {loss} is written for what says the next token, which this {kind} does not");
            notes.assume(keys::training::loss, said);
        }
        usual
    } else {
        loss
    };
    let fused = profile.optimizer.always_fused.is && optimizer == Optimizer::Adamw;
    (if fused { Optimizer::AdamwFused } else { optimizer }, loss)
}

/// Who names layers or modules means them sent.
fn sends_activations(part: &TrainingPart, profile: &Profile) -> bool {
    let reads = |key: &str| profile.support.own_keys.is.contains(&key);
    let layers = part.offload_layers.is_some_and(|layers| layers > 0);
    let modules = part.offload_modules.as_ref().is_some_and(|names| !names.is_empty());
    (layers && reads("training.offload_layers")) || (modules && reads("training.offload_modules"))
}

fn launch_blocking(part: &TrainingPart, profile: &Profile, notes: &mut Notes) -> bool {
    match profile.defaults.launch_blocking.is {
        true => notes.or(keys::training::launch_blocking, part.launch_blocking, true),
        false => part.launch_blocking.unwrap_or(false),
    }
}

/// Norms of all gradients are taken once a step: as the plan says, or as the framework does.
fn clipping(part: &TrainingPart, mode: Mode, profile: &Profile, notes: &mut Notes) -> bool {
    let given = part.gradient_clipping;
    let applied = mode == Mode::Train && part.optimizer_in_backward == Some(true);
    if applied && given == Some(true) {
        // torchtune, recipes/full_finetune_single_device.py: "Gradient clipping is not supported with optimizer in bwd."
        let words =
            "true: gradients cannot be clipped with training.optimizer_in_backward; set one of the two to false";
        notes.fault(keys::training::gradient_clipping, words);
    }
    if applied && given.is_none() && profile.defaults.gradient_clipping.is {
        notes.assume(keys::training::gradient_clipping, "false (with training.optimizer_in_backward)");
    }
    let default = profile.defaults.gradient_clipping.is && !applied;
    match mode {
        Mode::Train if default => notes.or(keys::training::gradient_clipping, given, default),
        _ => given.unwrap_or(default),
    }
}

/// What the plan says, or the framework where it asks no configuration.
fn dropout(given: Option<f64>, mode: Mode, profile: &Profile, notes: &mut Notes) -> Option<f64> {
    match profile.defaults.dropout.is {
        Some(default) if mode == Mode::Train => Some(notes.or(keys::training::dropout, given, default)),
        _ => given,
    }
}

/// Quantised matrices cannot be trained: adapters beside them have a key of their own.
fn weight_bits(given: Option<u64>, mode: Mode, notes: &mut Notes) -> Option<u64> {
    let bits = given?;
    if mode == Mode::Train {
        let why = format!("{bits}: is for training.mode: inference; training.lora.base_bits quantises below adapters");
        notes.fault(keys::training::weight_bits, why);
        return None;
    }
    let scales = "a 16-bit scale and a zero point for each 128 of a matrix's weights; kernels unpack them in registers";
    notes.assume(keys::training::weight_bits, format!("{bits} with {scales}"));
    Some(bits)
}

/// Refuses parts that the model does not have, and plans that leave nothing to train.
fn check_frozen(names: &[String], architecture: &Architecture, profile: &Profile, notes: &mut Notes) {
    let has_parts =
        matches!(architecture.shape, ModelShape::Decoder(_) | ModelShape::Encoder(_) | ModelShape::EncoderDecoder(_));
    if names.is_empty() || !has_parts {
        return;
    }
    let trained = |frozen: FrozenParts| architecture.count_with(frozen, profile, 1).trained;
    let of = |names: &[String]| frozen(names, architecture, &mut Notes::default());
    let all = trained(FrozenParts::NOTHING);
    // A head that is the embedding has none of its own.
    let lacks = |name: &&String| {
        let frozen = of(std::slice::from_ref(name));
        !frozen.is_nothing() && !frozen.has(Part::Head) && trained(frozen) == all
    };
    if let Some(name) = names.iter().find(lacks) {
        notes.fault(keys::training::frozen, format!("{name}: the model has no parameters there"));
    } else if trained(of(names)) == 0 {
        notes.fault(keys::training::frozen, "nothing is left to train: no parameter has a gradient");
    }
}

/// The parts that a plan names; modules where the model is traced, whose weights are frozen there.
fn frozen(names: &[String], architecture: &Architecture, notes: &mut Notes) -> FrozenParts {
    let traced = matches!(architecture.shape, ModelShape::Traced(_));
    let part_of = |frozen: FrozenParts, name: &str| {
        let seen = architecture.sight().and_then(|_| frozen.and_of_sight(name));
        seen.or_else(|| frozen.and(name))
    };
    names.iter().fold(FrozenParts::default(), |frozen, name| match part_of(frozen, name) {
        Some(frozen) => frozen,
        None if traced => frozen.and_modules(),
        None => {
            let sees = architecture.sight().map_or(String::new(), |_| format!(", {SIGHT_PARTS}"));
            let said = format!("`{name}` is not a part of a model; known: {FROZEN_PARTS}{sees}");
            notes.fault(keys::training::frozen, said);
            frozen
        }
    })
}
