//! What a plan says of its model, of what is kept of its activations and of what is trained of it.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::plan::keywords::{Activation, Framework, ModelType, Norm, Position, RecomputeModule, TransformerImpl};
use crate::plan::traced::TracedModel;

/// A Hugging Face (or diffusers) configuration, inline or by path.
#[derive(Debug, Clone, PartialEq)]
pub enum HfConfig {
    /// A path, as written: relative to the plan file. Whoever loads the plan reads it and puts `Inline` here.
    Path(String),
    /// Its keys.
    Inline(Map<String, Value>),
}

/// A traced model, by path or as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelTrace {
    /// A path, as written: relative to the plan file. Whoever loads the plan reads it and puts `Read` here.
    Path(String),
    /// What it holds.
    Read(Arc<TracedModel>),
}

/// `model:` what is trained.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelPart {
    /// `trace`
    pub trace: Option<ModelTrace>,
    /// `hf_config`
    pub hf_config: Option<HfConfig>,
    /// `preset`
    pub preset: Option<String>,
    /// `architecture`; an empty one (`{}`) is as good as absent
    pub architecture: Option<ArchitecturePart>,
    /// `size_billions`
    pub size_billions: Option<f64>,
    /// `type`
    pub model_type: Option<ModelType>,
    /// `batch_size`: global batch in samples per optimizer step
    pub batch_size: Option<u64>,
    /// `sequence_length` in tokens per sample
    pub sequence_length: Option<u64>,
    /// `decoder_sequence_length` in tokens
    pub decoder_sequence_length: Option<u64>,
    /// `encoder_sequence_length` in tokens
    pub encoder_sequence_length: Option<u64>,
    /// `image_size` in pixels a side
    pub image_size: Option<u64>,
    /// `framework`
    pub framework: Option<Framework>,
    /// `transformer_impl`
    pub transformer_impl: Option<TransformerImpl>,
}

/// `model.architecture:` explicit fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArchitecturePart {
    /// `hidden_size`
    pub hidden_size: Option<u64>,
    /// `num_layers`
    pub num_layers: Option<u64>,
    /// `num_attention_heads`
    pub num_attention_heads: Option<u64>,
    /// `num_kv_heads`
    pub num_kv_heads: Option<u64>,
    /// `head_dim`
    pub head_dim: Option<u64>,
    /// `intermediate_size`
    pub intermediate_size: Option<u64>,
    /// `vocab_size`
    pub vocab_size: Option<u64>,
    /// `vocab_padding_multiple`
    pub vocab_padding_multiple: Option<u64>,
    /// `max_position_embeddings`
    pub max_position_embeddings: Option<u64>,
    /// `tie_embeddings`
    pub tie_embeddings: Option<bool>,
    /// `position`
    pub position: Option<Position>,
    /// `activation`
    pub activation: Option<Activation>,
    /// `norm`
    pub norm: Option<Norm>,
    /// `linear_bias`
    pub linear_bias: Option<bool>,
    /// `qkv_bias`
    pub qkv_bias: Option<bool>,
    /// `norm_bias`
    pub norm_bias: Option<bool>,
    /// `qk_norm`
    pub qk_norm: Option<bool>,
    /// `parallel_block`
    pub parallel_block: Option<bool>,
    /// `sliding_window` in tokens
    pub sliding_window: Option<u64>,
    /// `logit_softcap`
    pub logit_softcap: Option<f64>,
    /// `moe`
    pub moe: Option<MoePart>,
    /// `mla`
    pub mla: Option<MlaPart>,
    /// `num_encoder_layers`
    pub num_encoder_layers: Option<u64>,
    /// `mtp_layers`
    pub mtp_layers: Option<u64>,
    /// `pooler`
    pub pooler: Option<bool>,
    /// `adaptive_norm`
    pub adaptive_norm: Option<String>,
    /// `learn_sigma`
    pub learn_sigma: Option<bool>,
    /// `image_size` in pixels a side
    pub image_size: Option<u64>,
    /// `patch_size` in pixels a side
    pub patch_size: Option<u64>,
    /// `channels`
    pub channels: Option<u64>,
    /// `stages`: blocks in each stage of a convolutional network
    pub stages: Option<Vec<u64>>,
    /// `num_classes`
    pub num_classes: Option<u64>,
}

/// `model.architecture.moe:`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MoePart {
    /// `num_experts`
    pub num_experts: Option<u64>,
    /// `experts_per_token`
    pub experts_per_token: Option<u64>,
    /// `intermediate_size` of one expert
    pub intermediate_size: Option<u64>,
    /// `shared_intermediate_size`
    pub shared_intermediate_size: Option<u64>,
    /// `first_dense_layers`
    pub first_dense_layers: Option<u64>,
    /// `layer_frequency`
    pub layer_frequency: Option<u64>,
}

/// `model.architecture.mla:`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MlaPart {
    /// `q_lora_rank`
    pub q_lora_rank: Option<u64>,
    /// `kv_lora_rank`
    pub kv_lora_rank: Option<u64>,
    /// `qk_nope_head_dim`
    pub qk_nope_head_dim: Option<u64>,
    /// `qk_rope_head_dim`
    pub qk_rope_head_dim: Option<u64>,
    /// `v_head_dim`
    pub v_head_dim: Option<u64>,
}

/// `training.activation_checkpointing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpointing {
    /// Everything saved.
    None,
    /// The attention core recomputed.
    Selective,
    /// torchtitan's: every second matrix multiplication kept.
    SelectiveOp,
    /// Each block recomputed.
    Full,
    /// Each K-th block recomputed.
    Every(u64),
    /// Megatron's list of recomputed modules.
    Modules(Vec<RecomputeModule>),
}

impl std::fmt::Display for Checkpointing {
    /// As a plan has it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.pad("none"),
            Self::Selective => f.pad("selective"),
            Self::SelectiveOp => f.pad("selective-op"),
            Self::Full => f.pad("full"),
            Self::Every(blocks) => f.pad(&format!("{{every: {blocks}}}")),
            Self::Modules(modules) => {
                let names: Vec<&str> = modules.iter().map(|module| module.name()).collect();
                f.pad(&format!("{{modules: [{}]}}", names.join(", ")))
            }
        }
    }
}

/// `training.lora:`
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoraPart {
    /// `rank`
    pub rank: Option<u64>,
    /// `targets`
    pub targets: Option<Vec<String>>,
    /// `dropout`
    pub dropout: Option<f64>,
    /// `base_bits`: 4 or 8 for QLoRA
    pub base_bits: Option<u64>,
    /// `double_quant`
    pub double_quant: Option<bool>,
}
