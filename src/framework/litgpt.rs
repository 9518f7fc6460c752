//! LitGPT: one `GPT` class for all models, under Lightning Fabric.

use super::{
    AdapterType, DataParallel, Defaults, Experts, Gate, Layout, LossRules, ModelParallelism, Module, Modules,
    PointwiseAct, Profile, RmsNorm, Rope, SplitHeads, Support, rule, transformers,
};
use crate::plan::keywords::{Attention, Engine, Framework, Loss, ModelType, Precision};

const MODEL: &str = "litgpt 0.5, litgpt/model.py";
const ATTENTION: &str = "litgpt 0.5, litgpt/model.py, CausalSelfAttention.forward";
const MLP: &str = "litgpt 0.5, litgpt/model.py, LLaMAMLP.forward";

/// Its functions compute the cross-entropy 128 tokens at a time. The log-probabilities of every chunk stay for the
/// backward pass, and the training loop holds all logits: memory is that of a loss in one piece.
const CHUNKED: &str = "litgpt 0.5, litgpt/utils.py, chunked_cross_entropy (every chunk's log-probabilities are saved)";

/// Queries, keys and values are one matrix, `attn.qkv`; its adapters are one pair of matrices for each of the three
/// (litgpt/lora.py, `LoRAQKVLinear`: `lora_query`, `lora_key`, `lora_value`), as if it were three.
const LINEAR_LAYERS: [Module; 9] = [
    ("attention.q_proj", "attn.q_proj"),
    ("attention.k_proj", "attn.k_proj"),
    ("attention.v_proj", "attn.v_proj"),
    ("attention.o_proj", "attn.o_proj"),
    ("attention.o_proj", "attn.proj"),
    ("mlp.gate_proj", "mlp.gate_proj"),
    ("mlp.up_proj", "mlp.up_proj"),
    ("mlp.down_proj", "mlp.down_proj"),
    ("mlp.down_proj", "mlp.proj"),
];

pub(super) const PROFILE: Profile = Profile {
    framework: Framework::Litgpt,
    modules: Modules {
        block: rule(Layout::Transformers, "litgpt 0.5, litgpt/model.py, Block.forward"),
        rms_norm: rule(RmsNorm::EagerWide, "litgpt 0.5, litgpt/model.py, RMSNorm.forward"),
        rope: rule(Rope::Eager, "litgpt 0.5, litgpt/model.py, apply_rope"),
        gate: rule(Gate::Eager, MLP),
        act: rule(PointwiseAct::Fused, "litgpt 0.5, litgpt/model.py, GptNeoxMLP.forward (F.gelu)"),
        heads: rule(SplitHeads::Views, ATTENTION),
        experts: rule(Experts::Loop, "litgpt 0.5, litgpt/model.py, LLaMAMoE.forward"),
        fused_projections: rule(false, "litgpt 0.5, litgpt/lora.py, LoRAQKVLinear (counted as its three parts)"),
        split_projections: rule(
            true,
            "litgpt 0.5, litgpt/lora.py, LoRAQKVLinear; litgpt/model.py, LLaMAMLP (fc_1, fc_2)",
        ),
        vocab_multiple: rule(1, "litgpt 0.5, litgpt/config.py, padded_vocab_size of each named configuration"),
        repeated_kv: rule(true, "litgpt 0.5, litgpt/model.py, CausalSelfAttention.forward (repeat_interleave)"),
        grows_cache: rule(false, "litgpt 0.5, litgpt/model.py, KVCache (index_copy_)"),
        logits_held: rule(true, "litgpt 0.5, litgpt/finetune/lora.py, fit (logits)"),
        position_tables: rule(false, "litgpt 0.5, litgpt/model.py, GPT.max_seq_length (cosines and sines alone)"),
        masks: rule(false, ATTENTION),
        python_names: rule(false, MODEL),
        family_classes: rule(false, "litgpt 0.5, litgpt/model.py, one GPT class for all models"),
        adapters: rule(AdapterType::Model, "litgpt 0.5, litgpt/lora.py, LoRALinear (the model's own dtype)"),
        vocabulary_layers: rule(Some(&[("head", "lm_head")]), "litgpt 0.5, litgpt/lora.py, GPT (lora_head)"),
        linear_layers: rule(Some(&LINEAR_LAYERS), "litgpt 0.5, litgpt/model.py and litgpt/lora.py"),
        adapter_targets: rule(
            Some(&["q_proj", "v_proj"]),
            "litgpt 0.5, litgpt/finetune/lora.py, lora_query, lora_value",
        ),
        ..transformers::MODULES
    },
    data_parallel: DataParallel {
        engines: rule(
            &[Engine::Ddp, Engine::Fsdp1, Engine::Fsdp2],
            "litgpt 0.5, litgpt/finetune/full.py (FSDPStrategy) and litgpt/finetune/lora.py (ModelParallelStrategy)",
        ),
        replicated: rule(Engine::Ddp, "Lightning 2.5, lightning/fabric/strategies/ddp.py"),
        zero1: rule(Engine::Ddp, "PyTorch 2.9, torch/distributed/optim/zero_redundancy_optimizer.py"),
        sharded: rule(Engine::Fsdp1, "litgpt 0.5, litgpt/pretrain.py and litgpt/finetune/full.py, FSDPStrategy"),
        sharded_with_masters: rule(Engine::Fsdp1, "Lightning 2.5, lightning/fabric/plugins/precision/fsdp.py"),
        accumulates_whole: rule(
            true,
            "litgpt 0.5, litgpt/finetune/full.py, fit (no_backward_sync); Lightning 2.5, fabric/strategies/fsdp.py",
        ),
        ..transformers::PROFILE.data_parallel
    },
    loss: LossRules { full: rule(Loss::Plain, CHUNKED), cross_entropy: Some(CHUNKED), ..transformers::PROFILE.loss },
    support: Support {
        kinds: rule(&[ModelType::TransformerDecoder], "litgpt 0.5, litgpt/model.py, GPT"),
        splits: rule(&[], "litgpt 0.5, litgpt/pretrain.py and litgpt/finetune/full.py, FSDPStrategy alone"),
        serves_in: rule(
            &[ModelParallelism::Tensor, ModelParallelism::Pipeline],
            "litgpt 0.5, litgpt/generate/tp.py, tensor_parallel; litgpt/generate/sequentially.py",
        ),
        compile: rule(true, "litgpt 0.5, litgpt/pretrain.py, main (torch.compile)"),
        user_loop: rule(false, "litgpt 0.5, litgpt/finetune/lora.py, fit"),
        ..transformers::SUPPORT
    },
    defaults: Defaults {
        precision: rule(Precision::Bf16Mixed, "litgpt 0.5, litgpt/utils.py, get_default_supported_precision"),
        attention: rule(Attention::Sdpa, "litgpt 0.5, litgpt/model.py, scaled_dot_product_attention"),
        loss: rule(Loss::Plain, CHUNKED),
        ..transformers::PROFILE.defaults
    },
    ..transformers::PROFILE
};
