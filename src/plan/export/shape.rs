//! What a plan says about shape and degrees, with what follows from it filled in.

use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::plan::USUAL_PER_NODE;
use crate::plan::keys::{ArchitecturePart, MlaPart, MoePart, Plan};
use crate::plan::keywords::{Activation, Engine, Norm, Position, Sharding, Strategy};
use crate::plan::types::HfConfig;

/// GPUs and how they are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportDegrees {
    /// All of them.
    pub gpus: u64,
    /// Of one node.
    pub per_node: u64,
    /// Nodes.
    pub nodes: u64,
    /// Data parallel.
    pub data: u64,
    /// Tensor parallel.
    pub tensor: u64,
    /// Pipeline parallel.
    pub pipeline: u64,
    /// Context parallel.
    pub context: u64,
}

impl ExportDegrees {
    /// Of a plan: a degree that is absent is 1, data parallelism what the others leave.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let part = &plan.distribution;
        let asked = plan.gpus();
        let filled = |strategy: Strategy| asked.filter(|_| part.strategy == Some(strategy));
        let tensor = part.tensor_parallel.or_else(|| filled(Strategy::TensorParallel)).unwrap_or(1).max(1);
        let pipeline = part.pipeline_parallel.or_else(|| filled(Strategy::PipelineParallel)).unwrap_or(1).max(1);
        let context = part.context_parallel.unwrap_or(1).max(1);
        let model = tensor.saturating_mul(pipeline).saturating_mul(context);
        let data = part.data_parallel.unwrap_or_else(|| asked.map_or(1, |gpus| (gpus / model).max(1)));
        let gpus = asked.unwrap_or_else(|| data.saturating_mul(model));
        let per_node = plan.per_node().unwrap_or_else(|| gpus.min(USUAL_PER_NODE));
        Self {
            gpus,
            per_node,
            nodes: plan.cluster.nodes.unwrap_or_else(|| gpus.div_ceil(per_node.max(1))),
            data,
            tensor,
            pipeline,
            context,
        }
    }
}

/// What data-parallel ranks share out, however the plan says it.
pub fn sharding(plan: &Plan) -> Sharding {
    let strategy = match plan.distribution.strategy {
        Some(Strategy::Fsdp | Strategy::Zero3) => Some(Sharding::Zero3),
        Some(Strategy::Zero2) => Some(Sharding::Zero2),
        Some(Strategy::Zero1) => Some(Sharding::Zero1),
        _ => None,
    };
    let optimizer = plan.training.distributed_optimizer.filter(|on| *on).map(|_| Sharding::Zero1);
    plan.distribution
        .sharding
        .or(optimizer)
        .or(strategy)
        .unwrap_or_else(|| plan.distribution.engine.map_or(Sharding::None, Engine::by_itself))
}

/// Micro batch, accumulation steps and global batch, as far as they follow.
pub fn batch(plan: &Plan, data: u64) -> (Option<u64>, Option<u64>, Option<u64>) {
    let (micro, steps, global) =
        (plan.training.micro_batch_size, plan.training.gradient_accumulation_steps, plan.model.batch_size);
    let per_rank = |global: u64| global.checked_div(data).filter(|share| *share > 0);
    let steps = steps.or_else(|| match (global.and_then(per_rank), micro) {
        (Some(share), Some(micro)) => share.checked_div(micro).filter(|steps| *steps > 0),
        _ => None,
    });
    let micro = micro.or_else(|| global.and_then(per_rank)?.checked_div(steps.unwrap_or(1)).filter(|micro| *micro > 0));
    let global = global.or_else(|| micro?.checked_mul(steps.unwrap_or(1))?.checked_mul(data));
    (micro, steps, global)
}

/// Tokens of a sample: the plan's, or what a prediction takes where the plan is silent (`predict::Job`).
pub fn sequence(plan: &Plan, positions: Option<u64>) -> u64 {
    plan.model.sequence_length.unwrap_or_else(|| positions.map_or(2048, |most| most.clamp(1, 2048)))
}

/// Positions of the model that the plan describes, where its configuration says how many.
pub fn positions(plan: &Plan, catalog: &Catalog) -> Option<u64> {
    if let Some(part) = &plan.model.architecture {
        return part.max_position_embeddings;
    }
    first_whole(&config(plan, catalog)?, &["max_position_embeddings", "n_positions"])
}

/// The architecture as explicit fields: the plan's own, or those that a configuration of the
/// Llama family or of GPT-2 spells.
pub fn architecture(plan: &Plan, catalog: &Catalog) -> Option<ArchitecturePart> {
    if let Some(part) = &plan.model.architecture {
        return Some(part.clone());
    }
    of_config(&config(plan, catalog)?)
}

/// Dropout of hidden states and of attention: the plan's for both, else those of the configuration that it names. What is
/// given by sizes alone has none.
pub fn dropout(plan: &Plan, catalog: &Catalog) -> [f64; 2] {
    if let Some(both) = plan.training.dropout {
        return [both; 2];
    }
    let Some(config) = config(plan, catalog).filter(|_| plan.model.architecture.is_none()) else { return [0.0; 2] };
    // GPT-2's configuration class is the only one of those that can be written that drops by default.
    let default = if config.get("model_type").and_then(Value::as_str) == Some("gpt2") { 0.1 } else { 0.0 };
    [["resid_pdrop", "hidden_dropout"], ["attn_pdrop", "attention_dropout"]]
        .map(|names| names.iter().find_map(|name| config.get(*name)?.as_f64()).unwrap_or(default))
}

/// The Hugging Face configuration that the plan holds or names.
fn config(plan: &Plan, catalog: &Catalog) -> Option<Map<String, Value>> {
    if let Some(HfConfig::Inline(config)) = &plan.model.hf_config {
        return Some(config.clone());
    }
    let preset = plan.model.preset.as_deref().and_then(|name| catalog.model(name));
    preset.map(|preset| (*preset.hf_config).clone())
}

/// The base of rotary positions, where a configuration in the plan says it: no figure of a plan depends on it.
pub fn rotary_base(plan: &Plan) -> Option<u64> {
    let Some(HfConfig::Inline(config)) = &plan.model.hf_config else { return None };
    let base = config.get("rope_theta")?;
    base.as_u64().or_else(|| base.as_f64().filter(|base| *base >= 1.0 && base.fract() == 0.0).map(|base| base as u64))
}

fn of_config(config: &Map<String, Value>) -> Option<ArchitecturePart> {
    let whole = |names: &[&str]| first_whole(config, names);
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or("");
    let gpt2 = kind == "gpt2";
    let known = [
        "llama",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen2_moe",
        "qwen3_moe",
        "deepseek_v2",
        "deepseek_v3",
        "gpt2",
    ];
    if !known.contains(&kind) {
        return None;
    }
    let hidden = whole(&["hidden_size", "n_embd"])?;
    let latent = config.contains_key("kv_lora_rank");
    let inner = whole(&["intermediate_size", "n_inner"]).or_else(|| hidden.checked_mul(4));
    Some(ArchitecturePart {
        hidden_size: Some(hidden),
        num_layers: whole(&["num_hidden_layers", "n_layer"]),
        num_attention_heads: whole(&["num_attention_heads", "n_head"]),
        num_kv_heads: whole(&["num_key_value_heads"]).filter(|_| !latent),
        head_dim: whole(&["head_dim"]),
        intermediate_size: inner,
        vocab_size: whole(&["vocab_size"]),
        max_position_embeddings: whole(&["max_position_embeddings", "n_positions"]),
        // An explicit null is no tie.
        tie_embeddings: Some(config.get("tie_word_embeddings").map_or(gpt2, |tied| tied.as_bool() == Some(true))),
        position: Some(if gpt2 { Position::Learned } else { Position::Rope }),
        activation: Some(if gpt2 { Activation::Gelu } else { Activation::Swiglu }),
        norm: Some(if gpt2 { Norm::Layernorm } else { Norm::Rmsnorm }),
        linear_bias: Some(gpt2),
        qkv_bias: Some(kind.starts_with("qwen2")).filter(|on| *on),
        qk_norm: Some(kind.starts_with("qwen3")).filter(|on| *on),
        sliding_window: None,
        moe: experts(config, inner),
        mla: latent.then(|| latent_attention(config)),
        mtp_layers: whole(&["num_nextn_predict_layers"]),
        ..ArchitecturePart::default()
    })
}

fn first_whole(config: &Map<String, Value>, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| config.get(*name)?.as_u64())
}

/// Experts; `inner` is the width of a dense block, which theirs is unless it is told.
fn experts(config: &Map<String, Value>, inner: Option<u64>) -> Option<MoePart> {
    let whole = |names: &[&str]| first_whole(config, names);
    let width = whole(&["moe_intermediate_size"]);
    let shared = || whole(&["n_shared_experts"])?.checked_mul(width?);
    Some(MoePart {
        num_experts: Some(whole(&["num_local_experts", "num_experts", "n_routed_experts"])?),
        experts_per_token: whole(&["num_experts_per_tok"]),
        intermediate_size: width.or(inner),
        shared_intermediate_size: whole(&["shared_expert_intermediate_size"]).or_else(shared),
        first_dense_layers: whole(&["first_k_dense_replace"]),
        layer_frequency: None,
    })
}

fn latent_attention(config: &Map<String, Value>) -> MlaPart {
    let whole = |name: &str| first_whole(config, &[name]);
    MlaPart {
        // Where neither rank is there, DeepSeek's classes have theirs.
        q_lora_rank: whole("q_lora_rank").or((!config.contains_key("kv_lora_rank")).then_some(1536)),
        kv_lora_rank: whole("kv_lora_rank"),
        qk_nope_head_dim: whole("qk_nope_head_dim"),
        qk_rope_head_dim: whole("qk_rope_head_dim"),
        v_head_dim: whole("v_head_dim"),
    }
}

/// What is to be said where the plan names an engine that is none of a target's.
pub fn other_engine(plan: &Plan, target: &str, own: &[Engine]) -> Option<String> {
    let engine = plan.distribution.engine.filter(|engine| !own.contains(engine))?;
    let own: Vec<&str> = own.iter().map(|engine| engine.name()).collect();
    Some(format!("distribution.engine: {engine} is not what {target} configures ({})", own.join(", ")))
}
