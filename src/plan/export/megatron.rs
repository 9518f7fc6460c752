//! A plan as arguments of Megatron-LM (`megatron/training/arguments.py`).

use super::shape::{self, ExportDegrees};
use super::stages;
use super::{ExportedPlan, recomputation_name};
use crate::catalog::Catalog;
use crate::plan::keys::{self, ArchitecturePart, Plan};
use crate::plan::keywords::{
    Activation, Attention, CpComm, CpuOffload, Dtype, Engine, Fp8Recipe, Loss, MasterDtype, ModelType, MoeDispatcher,
    Norm, Optimizer, Position, Precision, Sharding, TransformerImpl,
};
use crate::plan::types::Checkpointing;

/// Arguments as they come together.
#[derive(Debug, Default)]
pub struct MegatronArguments {
    lines: Vec<String>,
    notes: Vec<String>,
}

impl MegatronArguments {
    pub(super) fn flag(&mut self, name: &str, on: bool) {
        if on {
            self.lines.push(format!("--{name}"));
        }
    }

    pub(super) fn value(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.lines.push(format!("--{name} {}", value.to_string()));
        }
    }

    pub(super) fn note(&mut self, line: impl Into<String>) {
        self.notes.push(line.into());
    }
}

/// The arguments, one option a line.
pub fn arguments(plan: &Plan, catalog: &Catalog) -> ExportedPlan {
    let MegatronArguments { lines, notes } = list(plan, catalog);
    ExportedPlan { text: lines.iter().map(|line| format!("{line}\n")).collect(), notes, refused: None }
}

/// The same for a command.
pub fn lines(plan: &Plan, catalog: &Catalog) -> (Vec<String>, Vec<String>) {
    let MegatronArguments { lines, notes } = list(plan, catalog);
    (lines, notes)
}

fn list(plan: &Plan, catalog: &Catalog) -> MegatronArguments {
    let mut list = MegatronArguments::default();
    let architecture = shape::architecture(plan, catalog);
    if let Some(part) = &architecture {
        model(&mut list, part);
    }
    let degrees = ExportDegrees::of(plan);
    let (micro, _, global) = shape::batch(plan, degrees.data);
    let positions = architecture.as_ref().and_then(|part| part.max_position_embeddings);
    let sequence = shape::sequence(plan, positions);
    list.value("seq-length", Some(sequence));
    // It refuses fewer positions than the sequence has (megatron/training/arguments.py, validate_args).
    let positions = positions.max(Some(sequence));
    list.value("max-position-embeddings", positions);
    list.value("micro-batch-size", micro);
    list.value("global-batch-size", global);
    training(&mut list, plan, catalog);
    distribution(&mut list, plan, degrees);
    stages::arguments(&mut list, &plan.distribution, (degrees.pipeline, architecture.as_ref()));
    unsaid(&mut list, plan);
    assumed(&mut list, plan, catalog, degrees);
    list
}

/// What Megatron takes for granted where the plan says or means something else.
fn assumed(list: &mut MegatronArguments, plan: &Plan, catalog: &Catalog, degrees: ExportDegrees) {
    let part = shape::architecture(plan, catalog);
    if let Some(kind) = plan.model.model_type.filter(|kind| *kind != ModelType::TransformerDecoder) {
        list.note(format!("model.type: {kind}; these arguments are those of a decoder, pretrain_gpt.py"));
    }
    if part.as_ref().is_some_and(|part| part.position_taken() == Position::Rope) {
        match shape::rotary_base(plan) {
            Some(base) => list.value("rotary-base", Some(base)),
            None => {
                list.note("--rotary-base: set it to the model's rope_theta, which the plan does not hold; else 10000")
            }
        }
    }
    let padding = part.as_ref().and_then(|part| part.vocab_padding_multiple);
    match padding.filter(|multiple| *multiple != PADDING * degrees.tensor) {
        Some(multiple) if multiple % degrees.tensor == 0 => {
            list.value("make-vocab-size-divisible-by", Some(multiple / degrees.tensor));
        }
        Some(multiple) => list.note(format!(
            "model.architecture.vocab_padding_multiple: {multiple}; Megatron pads to a multiple of the {} tensor ranks",
            degrees.tensor
        )),
        None => {}
    }
    let experts = part.is_some_and(|part| part.moe.is_some());
    // Predicted grouped where the plan is silent; Megatron takes them one by one (`moe_grouped_gemm: bool = False`).
    list.flag("moe-grouped-gemm", experts && plan.training.moe_grouped_gemm != Some(false));
    if experts && plan.training.moe_grouped_gemm == Some(false) {
        list.note("training.moe_grouped_gemm: false is said by leaving --moe-grouped-gemm out");
    }
    if experts && plan.distribution.moe_dispatcher.is_none() && plan.distribution.expert_parallel.unwrap_or(1) > 1 {
        list.value("moe-token-dispatcher-type", Some("alltoall"));
        list.note("distribution.moe_dispatcher: alltoall, as predicted in a node (hybridep between them)");
    }
}

/// What Megatron pads the vocabulary to, a tensor rank.
const PADDING: u64 = 128;

fn model(list: &mut MegatronArguments, part: &ArchitecturePart) {
    list.value("num-layers", part.num_layers);
    list.value("hidden-size", part.hidden_size);
    list.value("ffn-hidden-size", part.hidden_size.map(|hidden| part.intermediate_taken(hidden)));
    list.value("num-attention-heads", part.num_attention_heads);
    if let Some(groups) = part.num_kv_heads.filter(|groups| Some(*groups) != part.num_attention_heads) {
        list.flag("group-query-attention", true);
        list.value("num-query-groups", Some(groups));
    }
    list.value("kv-channels", part.head_dim);
    list.value("vocab-size", Some(part.vocabulary_taken()));
    list.flag("untie-embeddings-and-output-weights", !part.ties_embeddings());
    match part.position_taken() {
        Position::Rope => list.value("position-embedding-type", Some("rope")),
        Position::Learned => list.value("position-embedding-type", Some("learned_absolute")),
        Position::None => list.value("position-embedding-type", Some("none")),
        // Its own parser refuses the word (megatron/training/arguments.py, --position-embedding-type).
        Position::Alibi => list.note("model.architecture.position: Megatron-LM has no ALiBi"),
    }
    match part.activation {
        Some(Activation::Swiglu) => list.flag("swiglu", true),
        Some(Activation::Geglu) => list.flag("quick-geglu", true),
        Some(Activation::Relu2) => list.flag("squared-relu", true),
        Some(Activation::Relu) => list.note("model.architecture.activation: ReLU has no argument"),
        Some(Activation::Gelu) | None => {}
    }
    list.value("normalization", Some(if part.norm_taken() == Norm::Rmsnorm { "RMSNorm" } else { "LayerNorm" }));
    list.flag("disable-bias-linear", !part.has_biases());
    list.flag("add-qkv-bias", part.qkv_bias == Some(true));
    list.flag("qk-layernorm", part.qk_norm == Some(true));
    list.value("window-size", part.sliding_window.map(|tokens| format!("{},0", tokens.saturating_sub(1))));
    list.value("mtp-num-layers", part.mtp_layers);
    if let Some(moe) = &part.moe {
        list.value("num-experts", moe.num_experts);
        list.value("moe-router-topk", moe.experts_per_token);
        list.value("moe-ffn-hidden-size", moe.intermediate_size);
        list.value("moe-shared-expert-intermediate-size", moe.shared_intermediate_size.filter(|width| *width > 0));
        let dense = moe.first_dense_layers.filter(|layers| *layers > 0).zip(part.num_layers);
        let pattern = dense.map(|(dense, all)| format!("([0]*{dense}+[1]*{})", all.saturating_sub(dense)));
        list.value("moe-layer-freq", pattern.or_else(|| moe.layer_frequency.map(|every| every.to_string())));
    }
    if let Some(mla) = &part.mla {
        list.flag("multi-latent-attention", true);
        list.value("q-lora-rank", mla.q_lora_rank);
        list.value("kv-lora-rank", mla.kv_lora_rank);
        list.value("qk-head-dim", mla.qk_nope_head_dim);
        list.value("qk-pos-emb-head-dim", mla.qk_rope_head_dim);
        list.value("v-head-dim", mla.v_head_dim);
    }
}

fn training(list: &mut MegatronArguments, plan: &Plan, catalog: &Catalog) {
    let part = &plan.training;
    precision(list, plan);
    kernels(list, plan);
    states(list, plan);
    recomputation(list, plan);
    // Megatron drops a tenth where nothing is said.
    let [hidden, attention] = shape::dropout(plan, catalog);
    list.value("hidden-dropout", Some(hidden));
    list.value("attention-dropout", Some(attention));
    // Megatron decays by a hundredth where nothing is said, whatever the optimizer; a plan's SGD does not.
    let decays_nothing = matches!(part.optimizer, Some(Optimizer::Sgd | Optimizer::SgdMomentum | Optimizer::Rmsprop));
    list.value("weight-decay", part.weight_decay.or(decays_nothing.then_some(0.0)));
    list.value("clip-grad", part.gradient_clipping.map(|on| if on { "1.0" } else { "0.0" }));
    list.flag("no-gradient-accumulation-fusion", part.gradient_accumulation_fusion == Some(false));
    list.flag("attention-softmax-in-fp32", part.attention_softmax_fp32 == Some(true));
    list.flag("defer-embedding-wgrad-compute", part.defer_embedding_wgrad == Some(true));
    list.flag("deterministic-mode", part.deterministic == Some(true));
    list.value("moe-expert-capacity-factor", part.moe_capacity_factor);
    list.value("cuda-graph-impl", part.cuda_graph.map(|graph| graph.name()));
    match part.cpu_offload {
        Some(CpuOffload::Optimizer) => list.flag("optimizer-cpu-offload", true),
        Some(CpuOffload::None) | None => {}
        Some(other) => list.note(format!("training.cpu_offload: {other} has no argument")),
    }
}

/// Optimizer, attention and loss.
fn kernels(list: &mut MegatronArguments, plan: &Plan) {
    let part = &plan.training;
    match part.optimizer {
        None | Some(Optimizer::Adamw | Optimizer::AdamwFused) => {}
        Some(Optimizer::SgdMomentum) => list.value("optimizer", Some("sgd")),
        Some(Optimizer::Sgd) => {
            list.value("optimizer", Some("sgd"));
            list.value("sgd-momentum", Some("0.0"));
        }
        // Its layers' states are shared out whole (megatron-core 0.16, core/optimizer/layer_wise_optimizer.py), not by
        // --use-distributed-optimizer.
        Some(Optimizer::Muon) if shape::sharding(plan) == Sharding::Zero1 => list.value("optimizer", Some("dist_muon")),
        Some(Optimizer::Muon) => list.value("optimizer", Some("muon")),
        Some(Optimizer::Lion) => list.value("optimizer", Some("lion")),
        Some(other) => list.note(format!("training.optimizer: {other} has no argument; Adam it is")),
    }
    match part.attention {
        Some(Attention::Eager) => list.value("attention-backend", Some("unfused")),
        Some(Attention::Flash) => list.value("attention-backend", Some("flash")),
        Some(Attention::Sdpa) | None => {}
    }
    // DotProductAttention (megatron/core/transformer/dot_product_attention.py) has no fused kernels.
    if let Some(asked @ (Attention::Flash | Attention::Sdpa)) = part.attention
        && plan.model.transformer_impl == Some(TransformerImpl::Local)
    {
        list.note(format!(
            "training.attention: {asked}, which --transformer-impl local has not; its attention is unfused"
        ));
    }
    let implementation = plan.model.transformer_impl.map(|implementation| implementation.name());
    list.value("transformer-impl", implementation);
    match part.loss {
        Some(Loss::VocabParallelFused) => list.flag("cross-entropy-loss-fusion", true),
        Some(Loss::TeFused) => {
            list.flag("cross-entropy-loss-fusion", true);
            list.value("cross-entropy-fusion-impl", Some("te"));
        }
        Some(Loss::VocabParallel) | None => {}
        Some(other) => list.note(format!("training.loss: {other} has no argument")),
    }
}

/// The types of masters and of Adam's moments, which its precision-aware optimizer takes; fp32 otherwise.
fn states(list: &mut MegatronArguments, plan: &Plan) {
    let moments = plan.training.optimizer_state_dtype.filter(|kind| *kind != Dtype::Fp32);
    let masters = plan.training.master_dtype;
    if moments.is_none() && masters.is_none() {
        return;
    }
    let sharded = shape::sharding(plan) == Sharding::Zero1 && optimizer_is_adam(plan);
    if !sharded || moments == Some(Dtype::Int8) {
        for (key, kind) in [
            ("optimizer_state_dtype", moments.map(|kind| kind.name())),
            ("master_dtype", masters.map(|kind| kind.name())),
        ] {
            if let Some(kind) = kind {
                list.note(format!("training.{key}: {kind} has no argument without Adam and the distributed optimizer"));
            }
        }
        return;
    }
    list.flag("use-precision-aware-optimizer", true);
    if let Some(kind) = moments {
        list.value("exp-avg-dtype", Some(kind.name()));
        list.value("exp-avg-sq-dtype", Some(kind.name()));
    }
    // Masters of weights in FP8 that are scaled otherwise are Megatron's own, in fp32.
    let own = plan.training.precision == Some(Precision::Fp8Mixed)
        && plan.training.fp8_recipe.is_some_and(|recipe| recipe != Fp8Recipe::Delayed);
    match masters {
        Some(MasterDtype::Bf16 | MasterDtype::Fp16) => {
            list.value("main-params-dtype", masters.map(|kind| kind.name()));
        }
        Some(MasterDtype::Int16) if !own => {}
        None | Some(MasterDtype::Fp32) if own => {}
        other => {
            let kind = other.unwrap_or(MasterDtype::Fp32);
            list.note(format!("training.master_dtype: {kind} has no argument for the precision-aware optimizer"));
        }
    }
}

/// core/optimizer/optimizer_config.py asserts it of the precision-aware optimizer.
fn optimizer_is_adam(plan: &Plan) -> bool {
    matches!(plan.training.optimizer, None | Some(Optimizer::Adamw | Optimizer::AdamwFused | Optimizer::AdamwLoop))
}

fn recomputation(list: &mut MegatronArguments, plan: &Plan) {
    match &plan.training.activation_checkpointing {
        None | Some(Checkpointing::None) => {}
        Some(Checkpointing::Selective) => list.value("recompute-granularity", Some("selective")),
        Some(Checkpointing::Full) => {
            list.value("recompute-granularity", Some("full"));
            list.value("recompute-method", Some("uniform"));
            list.value("recompute-num-layers", Some(1));
        }
        Some(Checkpointing::Modules(modules)) => {
            let names: Vec<_> = modules.iter().map(|module| module.name()).collect();
            list.value("recompute-granularity", Some("selective"));
            list.value("recompute-modules", Some(names.join(" ")));
        }
        Some(other) => {
            list.note(format!("training.activation_checkpointing: {} has no argument", recomputation_name(other)))
        }
    }
}

fn precision(list: &mut MegatronArguments, plan: &Plan) {
    let part = &plan.training;
    match part.precision {
        None | Some(Precision::Bf16Fp32Master) => list.flag("bf16", true),
        Some(Precision::Fp16Fp32Master) => {
            list.flag("fp16", true);
            list.flag("accumulate-allreduce-grads-in-fp32", part.gradient_dtype != Some(Dtype::Fp16));
        }
        Some(Precision::Fp8Mixed) => {
            list.flag("bf16", true);
            list.value("fp8-format", Some("hybrid"));
            list.value("fp8-recipe", part.fp8_recipe.map(|recipe| recipe.name()));
            list.flag("fp8-param-gather", part.fp8_param_gather == Some(true));
        }
        Some(Precision::Fp32) => {}
        Some(Precision::Tf32) => {
            list.note("training.precision: tf32 has no argument; without --bf16 and --fp16 matmuls are in fp32");
        }
        Some(other @ (Precision::Fp16 | Precision::Fp16Mixed)) => {
            list.flag("fp16", true);
            list.flag("accumulate-allreduce-grads-in-fp32", part.gradient_dtype != Some(Dtype::Fp16));
            list.note(format!("training.precision: {other} has no argument; the nearest is --fp16 with fp32 masters"));
        }
        Some(other) => {
            list.flag("bf16", true);
            list.note(format!("training.precision: {other} has no argument; the nearest is --bf16 with fp32 masters"));
        }
    }
    list.flag("grad-reduce-in-bf16", part.gradient_dtype == Some(Dtype::Bf16));
}

fn distribution(list: &mut MegatronArguments, plan: &Plan, degrees: ExportDegrees) {
    let part = &plan.distribution;
    list.value("tensor-model-parallel-size", Some(degrees.tensor));
    list.value("pipeline-model-parallel-size", Some(degrees.pipeline));
    list.value("context-parallel-size", Some(degrees.context).filter(|ranks| *ranks > 1));
    list.value("expert-model-parallel-size", part.expert_parallel);
    list.value("expert-tensor-parallel-size", part.expert_tensor_parallel);
    list.flag("sequence-parallel", part.sequence_parallel == Some(true));
    let own = [Engine::Megatron, Engine::MegatronFsdp];
    if let Some(line) = shape::other_engine(plan, "Megatron", &own) {
        list.note(line);
    }
    match shape::sharding(plan) {
        Sharding::None => {}
        Sharding::Zero1 if part.engine == Some(Engine::MegatronFsdp) => {
            list.flag("use-megatron-fsdp", true);
            list.value("data-parallel-sharding-strategy", Some("optim"));
        }
        Sharding::Zero1 => list.flag("use-distributed-optimizer", plan.training.optimizer != Some(Optimizer::Muon)),
        sharding => {
            list.flag("use-megatron-fsdp", true);
            let strategy = if sharding == Sharding::Zero2 { "optim_grads" } else { "optim_grads_params" };
            list.value("data-parallel-sharding-strategy", Some(strategy));
        }
    }
    list.value("num-distributed-optimizer-instances", part.optimizer_instances);
    // validate_args asserts that Muon has neither.
    let overlaps = plan.training.optimizer != Some(Optimizer::Muon);
    list.flag("overlap-grad-reduce", overlaps && part.overlap_grad_reduce == Some(true));
    list.flag("overlap-param-gather", overlaps && part.overlap_param_gather == Some(true));
    if !overlaps && (part.overlap_grad_reduce == Some(true) || part.overlap_param_gather == Some(true)) {
        list.note("distribution.overlap_grad_reduce: Megatron refuses it for Muon, and --overlap-param-gather");
    }
    list.flag("tp-comm-overlap", part.overlap_tensor_parallel == Some(true));
    list.flag("overlap-moe-expert-parallel-comm", part.overlap_expert_parallel == Some(true));
    list.value("cp-comm-type", part.cp_comm.map(|comm| comm.name()));
    if part.cp_comm == Some(CpComm::Both) {
        let pairs = part.context_parallel.unwrap_or(1).div_ceil(2);
        list.value("hierarchical-context-parallel-sizes", Some(format!("2 {pairs}")));
    }
    match part.moe_dispatcher {
        Some(MoeDispatcher::Hybridep) => {
            list.value("moe-token-dispatcher-type", Some("flex"));
            list.value("moe-flex-dispatcher-backend", Some("hybridep"));
        }
        Some(other) => list.value("moe-token-dispatcher-type", Some(other.name())),
        None => {}
    }
}

/// Keys that have no argument.
fn unsaid(list: &mut MegatronArguments, plan: &Plan) {
    let training = &plan.training;
    for (key, set) in [
        (keys::training::lora, training.lora.is_some()),
        (keys::training::frozen, training.frozen.as_ref().is_some_and(|parts| !parts.is_empty())),
        (keys::training::compile, training.compile == Some(true)),
        (keys::training::optimizer_in_backward, training.optimizer_in_backward == Some(true)),
        (keys::distribution::shard_group, plan.distribution.shard_group.is_some()),
        (keys::distribution::async_tensor_parallel, plan.distribution.async_tensor_parallel == Some(true)),
    ] {
        if set {
            list.note(format!("{key}: no argument says it"));
        }
    }
}
