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
    /// The same; the weight multiplies before the cast back.
    EagerWide,
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

/// How attention that is written out treats its scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Softmax {
    /// Scaled, masked, softmax in fp32, cast back: one operator each.
    Separate,
    /// One kernel that keeps its output in the scores' type.
    Fused,
}

/// How routed experts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Experts {
    /// A Python loop over expert modules.
    Loop,
    /// Tokens permuted, one grouped product a matrix.
    Grouped,
    /// The same, each token weighted by its probability before the last product, not after it.
    Weighted,
}

/// Where sequence parallel's gathered input of a matrix lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// In a tensor that autograd saves.
    Saved,
    /// The output matrix's in a buffer that stays.
    KeptByHead,
    /// Every matrix's in the same buffer that stays.
    Kept,
}

/// How attention runs where ranks share a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedSequence {
    /// Transformer Engine's functions, by the plan's `cp_comm`.
    Engine,
    /// PyTorch's: keys and values gathered, results in fp32.
    Gathered,
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
    /// The softmax of attention that is written out.
    pub softmax: Rule<Softmax>,
    /// Sequence parallel's gathered inputs.
    pub gather: Rule<Gather>,
    /// Attention under context parallel.
    pub shared_sequence: Rule<SharedSequence>,
    /// Routed experts.
    pub experts: Rule<Experts>,
    /// One matrix for queries, keys and values, and one for gate and up.
    pub fused_projections: Rule<bool>,
    /// The vocabulary is padded to this many rows a tensor-parallel rank.
    pub vocab_multiple: Rule<u64>,
    /// Mixed precision runs under autocast with its cache of weight copies.
    pub autocast: Rule<bool>,
    /// Its fused attention takes a learned sink.
    pub fused_sinks: Rule<bool>,
    /// Keys and values repeated to the number of query heads before attention.
    pub repeated_kv: Rule<bool>,
    /// The logits, and the hidden state that they are made of, are held until the loss is there.
    pub logits_held: Rule<bool>,
    /// Modules behind the last layer predict further tokens, where the model has some.
    pub prediction: Rule<bool>,
    /// ReLU overwrites its input.
    pub inplace_relu: Rule<bool>,
    /// Modules register tables and masks as buffers.
    pub buffers: Rule<bool>,
    /// A block that is recomputed runs to its end again, not only as far as anything is saved.
    pub reruns_all: Rule<bool>,
}

const HF: &str = "transformers 4.57.6, models/*/modeling_*.py";
const TITAN: &str = "torchtitan, models/llama3/model/model.py";
const MEGATRON: &str = "megatron-core 0.16, core/transformer and core/extensions/transformer_engine.py";
const GLOBAL_BUFFER: &str = "megatron-core 0.16, core/utils.py, GlobalMemoryBuffer (\"mpu\"), which \
    core/tensor_parallel/layers.py and core/transformer/dot_product_attention.py share";
const RERUN: &str = "megatron-core 0.16, core/tensor_parallel/random.py, CheckpointFunction.backward";
const EARLY_STOP: &str = "PyTorch 2.9, torch/utils/checkpoint.py, set_checkpoint_early_stop";
const NANO: &str = "karpathy/nanoGPT, model.py";
const FOUNDRY: &str = "llm-foundry, llmfoundry/models/layers";

const SAVED: Rule<Gather> = rule(
    Gather::Saved,
    "PyTorch 2.9, torch/distributed/tensor/_redistribute.py (Redistribute.forward makes the gathered tensor, which the \
     product saves)",
);

const RING: Rule<SharedSequence> = rule(
    SharedSequence::Gathered,
    "PyTorch 2.9, torch/distributed/tensor/experimental/_context_parallel/_attention.py, _templated_ring_attention",
);

const HUGGING_FACE: Rules = Rules {
    rms_norm: rule(RmsNorm::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaRMSNorm"),
    rope: rule(Rope::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, apply_rotary_pos_emb"),
    gate: rule(Gate::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaMLP"),
    act: rule(PointwiseAct::AsWritten, "transformers 4.57.6, activations.py"),
    heads: rule(SplitHeads::Views, HF),
    softmax: rule(Softmax::Separate, "transformers 4.57.6, models/llama/modeling_llama.py, eager_attention_forward"),
    gather: SAVED,
    shared_sequence: RING,
    experts: rule(Experts::Loop, "transformers 4.57.6, models/mixtral/modeling_mixtral.py, MixtralSparseMoeBlock"),
    fused_projections: rule(false, HF),
    vocab_multiple: rule(1, HF),
    autocast: rule(true, "PyTorch 2.9, aten/src/ATen/autocast_mode.cpp, cached_cast"),
    fused_sinks: rule(false, "transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py, eager_attention_forward"),
    repeated_kv: rule(false, HF),
    logits_held: rule(
        true,
        "transformers 4.57.6, models/llama/modeling_llama.py, LlamaForCausalLM.forward (its locals)",
    ),
    prediction: rule(
        false,
        "transformers 4.57.6, models/deepseek_v3/modeling_deepseek_v3.py (its weights are ignored)",
    ),
    inplace_relu: rule(false, "transformers 4.57.6, models/resnet/modeling_resnet.py, ResNetConvLayer"),
    buffers: rule(true, "transformers 4.57.6, models/gpt2/modeling_gpt2.py, register_buffer"),
    reruns_all: rule(false, EARLY_STOP),
};

const TORCHTITAN: Rules = Rules {
    rms_norm: rule(RmsNorm::Eager, "PyTorch before 2.9, aten/src/ATen/native/layer_norm.cpp, rms_norm (composite)"),
    rope: rule(Rope::Complex, "torchtitan, models/llama3/model/model.py, apply_rotary_emb"),
    gate: rule(Gate::Eager, TITAN),
    act: rule(PointwiseAct::Fused, TITAN),
    heads: rule(SplitHeads::Views, TITAN),
    softmax: rule(Softmax::Separate, TITAN),
    gather: SAVED,
    shared_sequence: RING,
    experts: rule(Experts::Grouped, "torchtitan, models/moe.py, GroupedExperts"),
    fused_projections: rule(false, TITAN),
    vocab_multiple: rule(1, TITAN),
    autocast: rule(false, "torchtitan, models/llama3/infra/parallelize.py, MixedPrecisionPolicy"),
    fused_sinks: rule(true, "torchtitan, models/gpt_oss/model/model.py, FlexAttentionWrapper with sinks"),
    repeated_kv: rule(true, "torchtitan, models/llama3/model/model.py, repeat_kv; torchtune, modules/attention.py"),
    logits_held: rule(true, "torchtitan, train.py (pred is deleted after loss_fn); torchtune, recipes (del logits)"),
    prediction: rule(false, TITAN),
    inplace_relu: rule(false, TITAN),
    buffers: rule(false, TITAN),
    reruns_all: rule(false, EARLY_STOP),
};

const MEGATRON_TE: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, "Transformer Engine, pytorch/module/layernorm_linear.py"),
    rope: rule(Rope::Fused, "megatron-core 0.16, core/models/common/embeddings/rope_utils.py, apply_rope_fusion"),
    gate: rule(Gate::Fused, "megatron-core 0.16, core/fusions/fused_bias_swiglu.py, SwiGLUFunction"),
    act: rule(PointwiseAct::Fused, "megatron-core 0.16, core/fusions/fused_bias_gelu.py"),
    heads: rule(SplitHeads::Copies, "megatron-core 0.16, core/transformer/attention.py, get_query_key_value_tensors"),
    softmax: rule(Softmax::Fused, "megatron-core 0.16, core/fusions/fused_softmax.py, FusedScaleMaskSoftmax"),
    gather: rule(Gather::KeptByHead, GLOBAL_BUFFER),
    shared_sequence: rule(
        SharedSequence::Engine,
        "Transformer Engine 2.16, pytorch/attention/dot_product_attention/context_parallel.py",
    ),
    experts: rule(
        Experts::Weighted,
        "megatron-core 0.16, core/transformer/moe/experts.py, TEGroupedMLP (bias_act_func)",
    ),
    fused_projections: rule(true, MEGATRON),
    vocab_multiple: rule(128, "megatron, training/tokenizer/tokenizer.py, _vocab_size_with_padding"),
    autocast: rule(false, MEGATRON),
    fused_sinks: rule(
        true,
        "Transformer Engine, pytorch/attention/dot_product_attention (softmax_type learnable in fused attention)",
    ),
    repeated_kv: rule(false, MEGATRON),
    logits_held: rule(false, MEGATRON),
    prediction: rule(true, "megatron-core 0.16, core/transformer/multi_token_prediction.py"),
    inplace_relu: rule(false, MEGATRON),
    buffers: rule(false, MEGATRON),
    reruns_all: rule(true, RERUN),
};

const MEGATRON_LOCAL: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, "megatron-core 0.16, core/transformer/torch_norm.py"),
    heads: rule(SplitHeads::Views, "megatron-core 0.16, core/transformer/attention.py"),
    gather: rule(Gather::Kept, GLOBAL_BUFFER),
    ..MEGATRON_TE
};

const NANOGPT: Rules = Rules {
    act: rule(PointwiseAct::Fused, NANO),
    heads: rule(SplitHeads::Views, NANO),
    experts: rule(Experts::Loop, NANO),
    rms_norm: rule(RmsNorm::Fused, NANO),
    buffers: rule(false, NANO),
    ..HUGGING_FACE
};

const LLM_FOUNDRY: Rules = Rules {
    rms_norm: rule(RmsNorm::Fused, FOUNDRY),
    rope: rule(Rope::Eager, FOUNDRY),
    gate: rule(Gate::Eager, FOUNDRY),
    act: rule(PointwiseAct::Fused, FOUNDRY),
    heads: rule(SplitHeads::Views, FOUNDRY),
    softmax: rule(Softmax::Separate, FOUNDRY),
    gather: SAVED,
    shared_sequence: RING,
    experts: rule(Experts::Grouped, FOUNDRY),
    fused_projections: rule(false, FOUNDRY),
    vocab_multiple: rule(1, FOUNDRY),
    autocast: rule(false, "llm-foundry, FSDP MixedPrecision (fsdp_config mixed_precision)"),
    fused_sinks: rule(false, FOUNDRY),
    repeated_kv: rule(false, FOUNDRY),
    logits_held: rule(false, FOUNDRY),
    prediction: rule(false, FOUNDRY),
    inplace_relu: rule(false, FOUNDRY),
    buffers: rule(false, FOUNDRY),
    reruns_all: rule(false, EARLY_STOP),
};

impl Rules {
    /// The same modules under `torch.compile`: chains of elementwise operators are one kernel.
    #[must_use]
    pub const fn compiled(self) -> Self {
        const INDUCTOR: &str = "PyTorch, torch/_inductor: elementwise chains and reductions fuse into one kernel";
        Self {
            rms_norm: rule(RmsNorm::Fused, INDUCTOR),
            rope: rule(Rope::Fused, INDUCTOR),
            gate: rule(Gate::Fused, INDUCTOR),
            act: rule(PointwiseAct::Fused, INDUCTOR),
            softmax: rule(Softmax::Fused, INDUCTOR),
            ..self
        }
    }

    /// The rules of a framework for a family of models.
    #[must_use]
    pub const fn of(framework: Framework, implementation: TransformerImpl, family: Family) -> Self {
        match framework {
            Framework::Torchvision => Self {
                inplace_relu: rule(true, "torchvision 0.24, models/resnet.py, nn.ReLU(inplace=True)"),
                ..Self::hugging_face(family)
            },
            Framework::Pytorch => Self::hugging_face(family),
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
                rms_norm: rule(
                    RmsNorm::EagerWide,
                    "transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py, GptOssRMSNorm",
                ),
                ..HUGGING_FACE
            },
            _ => HUGGING_FACE,
        }
    }
}
