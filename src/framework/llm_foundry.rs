//! llm-foundry: Composer's MPT modules under PyTorch's first FSDP.

use super::{
    AllocatorRules, DataParallel, Defaults, Experts, Gate, Layout, LossRules, ModelParallelism, Modules, Overlap,
    PointwiseAct, Profile, RmsNorm, Rope, Softmax, SplitHeads, Support, rule, transformers,
};
use crate::plan::keywords::{Engine, Framework, Loss, ModelType};

const ATTENTION: &str = "llm-foundry, llmfoundry/models/layers/attention.py";
const FFN: &str = "llm-foundry, llmfoundry/models/layers/ffn.py";
const MPT: &str = "llm-foundry, llmfoundry/models/mpt/modeling_mpt.py";
const SPLITS: &[ModelParallelism] = &[ModelParallelism::Tensor, ModelParallelism::Expert];
const SPLIT_BY: &str =
    "llm-foundry, llmfoundry/models/utils/tp_strategy.py, ffn_tp_strategy, and models/layers/ffn.py, moe_world_size";
const FSDP: &str = "Composer, composer/distributed/dist_strategy.py, prepare_fsdp_module";

pub(super) const PROFILE: Profile = Profile {
    framework: Framework::LlmFoundry,
    modules: Modules {
        block: rule(Layout::Transformers, "llm-foundry, llmfoundry/models/layers/blocks.py, MPTBlock"),
        rms_norm: rule(RmsNorm::Fused, "llm-foundry, llmfoundry/models/layers/norm.py"),
        rope: rule(Rope::Eager, ATTENTION),
        gate: rule(Gate::Eager, FFN),
        act: rule(PointwiseAct::Fused, FFN),
        heads: rule(SplitHeads::Views, ATTENTION),
        softmax: rule(Softmax::Separate, ATTENTION),
        global_buffer: rule(false, ATTENTION),
        experts: rule(Experts::Grouped, FFN),
        fused_projections: rule(false, ATTENTION),
        vocab_multiple: rule(1, MPT),
        autocast: rule(false, "Composer, composer/distributed/mosaic_parallelism.py, get_mixed_precision"),
        fused_sinks: rule(false, ATTENTION),
        repeated_kv: rule(false, ATTENTION),
        grows_cache: rule(true, ATTENTION),
        logits_held: rule(false, MPT),
        prediction: rule(false, MPT),
        inplace_relu: rule(false, FFN),
        position_tables: rule(false, MPT),
        masks: rule(false, MPT),
        python_names: rule(false, MPT),
        family_classes: rule(false, MPT),
        ..transformers::MODULES
    },
    data_parallel: DataParallel {
        engines: rule(&[Engine::Ddp, Engine::Fsdp1, Engine::Fsdp2], FSDP),
        replicated: rule(Engine::Ddp, "Composer, composer/distributed/dist_strategy.py, prepare_ddp_module"),
        zero1: rule(Engine::Ddp, "PyTorch 2.9, torch/distributed/optim/zero_redundancy_optimizer.py"),
        sharded: rule(Engine::Fsdp1, FSDP),
        sharded_with_masters: rule(Engine::Fsdp1, FSDP),
        casts_shards: rule(true, "Composer, composer/distributed/mosaic_parallelism.py, get_mixed_precision"),
        accumulates_whole: rule(
            false,
            "Composer, composer/trainer/trainer.py, _train_microbatch (ddp_sync_context is DistributedDataParallel's)",
        ),
        ..transformers::PROFILE.data_parallel
    },
    loss: LossRules {
        full: rule(Loss::Plain, "llm-foundry, llmfoundry/models/mpt/modeling_mpt.py, compute_loss_from_logits"),
        ..transformers::PROFILE.loss
    },
    overlap: Overlap {
        offloads: rule(
            false,
            "Composer, composer/distributed/dist_strategy.py, prepare_fsdp_module (offload_wrapper); PyTorch 2.9, \
             torch/autograd/graph.py, save_on_cpu (`packed.copy_(tensor)` waits, and comes back in the stream of the passes)",
        ),
        ..transformers::PROFILE.overlap
    },
    allocator: AllocatorRules {
        replayed: rule(false, "Composer, composer/trainer/trainer.py: modules are FSDP's on one GPU as well"),
        ..transformers::PROFILE.allocator
    },
    support: Support {
        kinds: rule(
            &[ModelType::TransformerDecoder, ModelType::TransformerEncoderDecoder],
            "llm-foundry, llmfoundry/models/mpt/modeling_mpt.py, models/hf/hf_causal_lm.py and models/hf/hf_t5.py",
        ),
        splits: rule(SPLITS, SPLIT_BY),
        serves_in: rule(SPLITS, SPLIT_BY),
        experts_in_tensor: rule(false, SPLIT_BY),
        compile: rule(false, "Composer, composer/trainer/trainer.py, compile_config (off in llm-foundry's recipes)"),
        user_loop: rule(false, "Composer, composer/trainer/trainer.py, _train_microbatch"),
        ..transformers::SUPPORT
    },
    defaults: Defaults {
        gradient_clipping: rule(
            false,
            "llm-foundry 0.22, llmfoundry/command_utils/train.py, algorithms are those of the file",
        ),
        loss: rule(Loss::Plain, "llm-foundry, llmfoundry/models/mpt/modeling_mpt.py, compute_loss_from_logits"),
        ..transformers::PROFILE.defaults
    },
    ..transformers::PROFILE
};
