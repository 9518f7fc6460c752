//! Frameworks as a table: whose modules run, and what each of them keeps.
//!
//! A rule is a choice with the file that says so. The walk asks the table; nothing
//! else in the model code knows a framework by name.

use super::architecture::Family;
use crate::plan::keywords::{Framework, TransformerImpl};

/// A choice, and where it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule<T> {
    /// The choice.
    pub is: T,
    /// The framework's file or the paper.
    pub source: &'static str,
}

const fn rule<T>(is: T, source: &'static str) -> Rule<T> {
    Rule { is, source }
}

/// How an RMS norm runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RmsNorm {
    /// Six operators with an fp32 copy; the weight multiplies after the cast back.
    Eager,
    /// The same, with `1 + weight` in fp32 before the cast back.
    EagerOnePlus,
    /// One operator: saves its input and the reciprocal deviation.
    Fused,
}

/// How rotary embeddings are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rope {
    /// `x * cos + rotate_half(x) * sin`, operator by operator.
    Eager,
    /// As complex numbers in fp32, then cast back.
    Complex,
    /// One operator that saves nothing but the table.
    Fused,
}

/// How a gated activation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `act(gate) * up`: two operators; gate, its activation and up are saved.
    Eager,
    /// One operator that saves its two inputs.
    Fused,
}

/// How an activation that is written out in Python runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointwiseAct {
    /// As the class writes it.
    AsWritten,
    /// One operator that saves its input.
    Fused,
}

/// Where the attention's result is made contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitHeads {
    /// Views of the projections.
    Views,
    /// Queries, keys and values copied out of one projection.
    Copies,
}

/// How routed experts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experts {
    /// A Python loop over expert modules.
    Loop,
    /// Tokens permuted, one grouped product a matrix.
    Grouped,
}

/// What a framework's modules do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// RMS norm.
    pub rms_norm: Rule<RmsNorm>,
    /// Rotary embedding.
    pub rope: Rule<Rope>,
    /// Gated activation.
    pub gate: Rule<Gate>,
    /// Activations written in Python.
    pub act: Rule<PointwiseAct>,
    /// Queries, keys, values.
    pub heads: Rule<SplitHeads>,
    /// Routed experts.
    pub experts: Rule<Experts>,
    /// One matrix for queries, keys and values, and one for gate and up.
    pub fused_projections: Rule<bool>,
    /// The vocabulary is padded to this many rows a tensor-parallel rank.
    pub vocab_multiple: Rule<u64>,
    /// Mixed precision runs under autocast with its cache of weight copies.
    pub autocast: Rule<bool>,
    /// Dropout, bias and residual in one operator.
    pub fused_residual: Rule<bool>,
}

const HF: &str = "transformers 4.57.6, models/*/modeling_*.py";
const TITAN: &str = "torchtitan, models/llama3/model/model.py";
const MEGATRON: &str = "megatron-core 0.16, core/transformer and core/extensions/transformer_engine.py";
const NANO: &str = "karpathy/nanoGPT, model.py";
const FOUNDRY: &str = "llm-foundry, llmfoundry/models/layers";

const HUGGING_FACE: Rules = Rules {
    rms_norm: rule(RmsNorm::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaRMSNorm"),
    rope: rule(Rope::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, apply_rotary_pos_emb"),
    gate: rule(Gate::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaMLP"),
    act: rule(PointwiseAct::AsWritten, "transformers 4.57.6, activations.py"),
    heads: rule(SplitHeads::Views, HF),
    experts: rule(Experts::Loop, "transformers 4.57.6, models/mixtral/modeling_mixtral.py, MixtralSparseMoeBlock"),
    fused_projections: rule(false, HF),
    vocab_multiple: rule(1, HF),
    autocast: rule(true, "PyTorch 2.9, aten/src/ATen/autocast_mode.cpp, cached_cast"),
    fused_residual: rule(false, HF),
};

const TORCHTITAN: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, "torchtitan, models/llama3/model/model.py, nn.RMSNorm"),
    rope: rule(Rope::Complex, "torchtitan, models/llama3/model/model.py, apply_rotary_emb"),
    gate: rule(Gate::Eager, TITAN),
    act: rule(PointwiseAct::Fused, TITAN),
    heads: rule(SplitHeads::Views, TITAN),
    experts: rule(Experts::Grouped, "torchtitan, models/moe.py, GroupedExperts"),
    fused_projections: rule(false, TITAN),
    vocab_multiple: rule(1, TITAN),
    autocast: rule(false, "torchtitan, models/llama3/infra/parallelize.py, MixedPrecisionPolicy"),
    fused_residual: rule(false, TITAN),
};

const MEGATRON_TE: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, "Transformer Engine, pytorch/module/layernorm_linear.py"),
    rope: rule(Rope::Fused, "megatron-core 0.16, core/models/common/embeddings/rope_utils.py, apply_rope_fusion"),
    gate: rule(Gate::Fused, "megatron-core 0.16, core/fusions/fused_bias_swiglu.py, SwiGLUFunction"),
    act: rule(PointwiseAct::Fused, "megatron-core 0.16, core/fusions/fused_bias_gelu.py"),
    heads: rule(SplitHeads::Copies, "megatron-core 0.16, core/transformer/attention.py, get_query_key_value_tensors"),
    experts: rule(Experts::Grouped, "megatron-core 0.16, core/transformer/moe/experts.py, TEGroupedMLP"),
    fused_projections: rule(true, MEGATRON),
    vocab_multiple: rule(128, "megatron, training/tokenizer/tokenizer.py, _vocab_size_with_padding"),
    autocast: rule(false, MEGATRON),
    fused_residual: rule(true, "megatron-core 0.16, core/fusions/fused_bias_dropout.py"),
};

const MEGATRON_LOCAL: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, "megatron-core 0.16, core/transformer/torch_norm.py"),
    heads: rule(SplitHeads::Views, "megatron-core 0.16, core/transformer/attention.py"),
    ..MEGATRON_TE
};

const NANOGPT: Rules = Rules {
    act: rule(PointwiseAct::Fused, NANO),
    heads: rule(SplitHeads::Views, NANO),
    experts: rule(Experts::Loop, NANO),
    rms_norm: rule(RmsNorm::Fused, NANO),
    ..HUGGING_FACE
};

const LLM_FOUNDRY: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, FOUNDRY),
    rope: rule(Rope::Eager, FOUNDRY),
    gate: rule(Gate::Eager, FOUNDRY),
    act: rule(PointwiseAct::Fused, FOUNDRY),
    heads: rule(SplitHeads::Views, FOUNDRY),
    experts: rule(Experts::Grouped, FOUNDRY),
    fused_projections: rule(false, FOUNDRY),
    vocab_multiple: rule(1, FOUNDRY),
    autocast: rule(false, "llm-foundry, FSDP MixedPrecision (fsdp_config mixed_precision)"),
    fused_residual: rule(false, FOUNDRY),
};

impl Rules {
    /// The rules of a framework for a family of models.
    #[must_use]
    pub const fn of(framework: Framework, implementation: TransformerImpl, family: Family) -> Self {
        match framework {
            Framework::Pytorch | Framework::Torchvision => Self::hugging_face(family),
            Framework::Megatron => match implementation {
                TransformerImpl::TransformerEngine => MEGATRON_TE,
                TransformerImpl::Local => MEGATRON_LOCAL,
            },
            Framework::Torchtitan => TORCHTITAN,
            Framework::Nanogpt => NANOGPT,
            Framework::LlmFoundry => LLM_FOUNDRY,
        }
    }

    const fn hugging_face(family: Family) -> Self {
        match family {
            Family::Gemma | Family::Gemma2 | Family::Gemma3Text => Self {
                rms_norm: rule(
                    RmsNorm::EagerOnePlus,
                    "transformers 4.57.6, models/gemma/modeling_gemma.py, GemmaRMSNorm",
                ),
                ..HUGGING_FACE
            },
            Family::GptOss => Self {
                experts: rule(
                    Experts::Grouped,
                    "transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py, GptOssExperts",
                ),
                ..HUGGING_FACE
            },
            _ => HUGGING_FACE,
        }
    }
}
