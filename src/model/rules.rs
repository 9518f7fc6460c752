//! What a family's own classes do otherwise than their framework's usual ones.

use super::architecture::Family;
use crate::framework::{Experts, Modules, Profile, RmsNorm, Rule};

/// What a class of transformers writes otherwise than Llama's (4.57.6, `models/*/modeling_*.py`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassRules {
    /// Its tensor-parallel plan cuts each matrix of its layers, and gathers nothing within them.
    pub cut_by_plan: bool,
    /// Its norm.
    pub norm: ClassNorm,
    /// Queries and keys are rotated in fp32 and cast back.
    pub wide_rotation: bool,
    /// Norms over queries and keys stand behind the rotation (`HunYuanDenseV1Attention`).
    pub norms_rotated: bool,
    /// Queries and keys are rotated as complex numbers (`apply_rotary_emb` of Llama 4).
    pub complex_rotation: bool,
    /// Layers that see every position have no rotation and no norm over queries and keys; their queries are scaled by how
    /// far the position is (`Llama4TextAttention`).
    pub bare_full_layers: bool,
    /// Every expert reads all tokens, those that are not its own times 0 (`Llama4TextMoe`).
    pub experts_read_all: bool,
    /// Rotary tables that each layer makes and keeps (`repeat_interleave` of the model's).
    pub layer_tables: u64,
    /// Gate and up projection of an expert are one matrix, where experts run in a loop (`GraniteMoeParallelExperts`).
    pub joined_experts: bool,
    /// Each sample of a batch has tables of its own, of three kinds of position (`apply_multimodal_rotary_pos_emb`).
    pub sample_tables: bool,
    /// Samples attend one after the other, and what they give is joined by a `cat`, outside flash-attn's kernels
    /// (`Qwen2_5_VLVisionAttention`).
    pub joined_samples: bool,
    /// What attention and feed-forward give is scaled by a number a channel before it is added (`InternVLVisionLayer.lambda_1`).
    pub layer_scale: bool,
    /// A windowed layer attends within blocks of a window each.
    pub window_blocks: bool,
    /// The loss reads a copy of the logits, without each sample's last (`NemotronHForCausalLM`).
    pub copies_logits: bool,
    /// Keys and values are repeated before any kernel.
    pub repeats_kv: bool,
    /// Scores are written out, of queries and keys in fp32: the class has no fused kernel.
    pub wide_scores: bool,
    /// Scores are written out, whatever attention is asked for: the class has no other.
    pub written_scores: bool,
    /// Where scores are written out, queries and keys are multiplied in fp32 without autocast
    /// (`reorder_and_upcast_attn` of GPT-2).
    pub upcast_scores: bool,
    /// Where scores are written out, their softmax is taken in fp32, whatever the family's is (`GPTBigCodeAttention`).
    pub wide_softmax: bool,
    /// No dropout stands behind attention (`DistilBERT`'s `TransformerBlock`).
    pub undropped_attention: bool,
    /// No dropout stands behind the feed-forward block (`AlbertLayer`).
    pub undropped_mlp: bool,
    /// All layers have the same weights (`AlbertTransformer`).
    pub shared_layers: bool,
    /// The first layer has no norm before its attention (`ModernBertEncoderLayer`).
    pub unnormed_first: bool,
    /// Rotary tables have the type of what they turn, not the stream's (`ModernBertRotaryEmbedding`).
    pub own_tables: bool,
    /// Every layer is handed a mask, whatever it hides (`ModernBertModel._update_attention_mask`).
    pub always_masked: bool,
    /// The model makes that once, in the stream's type (`PaliGemmaModel._update_causal_mask`).
    pub typed_mask: bool,
    /// What its layers have as buffers.
    pub buffer: LayerBuffer,
}

/// A norm that is no operator of PyTorch's, or not that of the framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassNorm {
    /// As the framework has it.
    Usual,
    /// RMS, multiplied by the weight before the cast back (`Olmo2RMSNorm`, `HeliumRMSNorm`).
    Wide,
    /// A layer norm written out in fp32, without a bias (`CohereLayerNorm`).
    ComposedLayer,
    /// A layer norm by 1 + weight, in autocast's type (`NemotronLayerNorm1P`).
    OnePlusLayer,
}

/// What layers register as buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerBuffer {
    /// Nothing of size.
    No,
    /// A causal mask of one byte an element over all positions, and a scalar.
    Mask,
    /// Nothing of its own; the model has one causal mask of one byte an element (`GPTBigCodeModel`).
    SharedMask,
    /// Sines and cosines of all positions.
    Sinusoids,
}

impl ClassRules {
    /// As Llama's class.
    pub const USUAL: Self = Self {
        cut_by_plan: false,
        norm: ClassNorm::Usual,
        wide_rotation: false,
        norms_rotated: false,
        complex_rotation: false,
        bare_full_layers: false,
        experts_read_all: false,
        layer_tables: 0,
        joined_experts: false,
        sample_tables: false,
        joined_samples: false,
        layer_scale: false,
        window_blocks: false,
        copies_logits: false,
        repeats_kv: false,
        wide_scores: false,
        written_scores: false,
        upcast_scores: false,
        wide_softmax: false,
        undropped_attention: false,
        undropped_mlp: false,
        shared_layers: false,
        unnormed_first: false,
        own_tables: false,
        always_masked: false,
        typed_mask: false,
        buffer: LayerBuffer::No,
    };
}

const QWEN3_NEXT_NORM: Rule<RmsNorm> = Rule {
    is: RmsNorm::EagerOnePlus,
    source: "transformers 4.57.6, models/qwen3_next/modeling_qwen3_next.py, Qwen3NextRMSNorm",
};

/// The modules of `profile` for a family of models.
#[must_use]
pub const fn modules_of(profile: &Profile, family: Family) -> Modules {
    let usual = profile.modules;
    if !usual.family_classes.is {
        return usual;
    }
    match family {
        Family::Qwen3Next | Family::Qwen35 => Modules { rms_norm: QWEN3_NEXT_NORM, ..usual },
        Family::Qwen35Moe => Modules {
            rms_norm: QWEN3_NEXT_NORM,
            experts: Rule {
                is: Experts::Grouped,
                source: "transformers 5.3, integrations/moe.py, grouped_mm_experts_forward",
            },
            ..usual
        },
        Family::Gemma | Family::Gemma2 | Family::Gemma3Text => Modules {
            rms_norm: Rule {
                is: RmsNorm::EagerOnePlus,
                source: "transformers 4.57.6, models/gemma/modeling_gemma.py, GemmaRMSNorm",
            },
            ..usual
        },
        Family::GptOss => Modules {
            rms_norm: Rule {
                is: RmsNorm::EagerWide,
                source: "transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py, GptOssRMSNorm",
            },
            ..usual
        },
        _ => usual,
    }
}
