//! torchtitan, and torchtune, whose modules and engine are the same.

use super::{
    AdapterType, AllocatorRules, DataParallel, Defaults, EightBit, Experts, Gate, Layout, LossRules, ModelParallelism,
    Modules, OptimizerRules, PipelineRules, PointwiseAct, Profile, ReduceType, RmsNorm, Rope, Softmax, SplitHeads,
    Support, rule, transformers,
};
use crate::plan::keywords::{Engine, Fp8Recipe, Framework, Loss, ModelType, Optimizer, RecomputeWord};

const MODEL: &str = "torchtitan, models/llama3/model/model.py";
const PARALLELIZE: &str = "torchtitan, models/llama3/infra/parallelize.py";
const LOSS: &str = "torchtitan, components/loss.py, cross_entropy_loss";
const STAGE: &str = "PyTorch 2.9, torch/distributed/pipelining/stage.py, _prepare_forward_infra";

pub(super) const PROFILE: Profile = Profile {
    framework: Framework::Torchtitan,
    modules: Modules {
        block: rule(Layout::Transformers, MODEL),
        rms_norm: rule(RmsNorm::Eager, "PyTorch before 2.9, aten/src/ATen/native/layer_norm.cpp, rms_norm (composite)"),
        rope: rule(Rope::Complex, "torchtitan, models/llama3/model/model.py, apply_rotary_emb"),
        gate: rule(Gate::Eager, "torchtitan, models/llama3/model/model.py, FeedForward"),
        act: rule(PointwiseAct::Fused, "torchtitan, models/llama3/model/model.py, FeedForward"),
        heads: rule(SplitHeads::Views, "torchtitan, models/llama3/model/model.py, Attention.forward"),
        softmax: rule(Softmax::Separate, MODEL),
        global_buffer: rule(false, MODEL),
        experts: rule(Experts::Grouped, "torchtitan, models/moe.py, GroupedExperts"),
        fused_projections: rule(false, "torchtitan, models/llama3/model/model.py, Attention.__init__"),
        split_projections: rule(
            true,
            "torchtune, models/phi3/_component_builders.py, phi3 and phi3_mlp (q_proj, k_proj, v_proj; gate_proj, up_proj)",
        ),
        vocab_multiple: rule(1, MODEL),
        autocast: rule(false, "torchtitan, models/llama3/infra/parallelize.py, MixedPrecisionPolicy"),
        fused_sinks: rule(true, "torchtitan, models/gpt_oss/model/model.py, FlexAttentionWrapper with sinks"),
        repeated_kv: rule(true, "torchtitan, models/llama3/model/model.py, repeat_kv; torchtune, modules/attention.py"),
        grows_cache: rule(
            false,
            "torchtitan has no cache: servers load its checkpoints; vLLM, vllm/attention/ops/paged_attn.py",
        ),
        logits_held: rule(
            true,
            "torchtitan, train.py (pred is deleted after loss_fn); torchtune, recipes (del logits)",
        ),
        prediction: rule(false, MODEL),
        inplace_relu: rule(false, MODEL),
        position_tables: rule(false, MODEL),
        masks: rule(false, MODEL),
        python_names: rule(false, MODEL),
        family_classes: rule(false, MODEL),
        fp8_gathers: rule(true, "torchao, float8/float8_tensor_parallel.py, PrepareFloat8ModuleInput"),
        fp8_shards: rule(true, "torchao, float8/fsdp_utils.py, WeightWithDynamicFloat8CastTensor"),
        adapters: rule(AdapterType::Model, "torchtune, modules/peft/lora.py, LoRALinear (the model's dtype)"),
        quantised_scales: rule(true, "torchao, dtypes/nf4tensor.py, to_nf4 (scales are always quantised)"),
        shares_scales: rule(true, "torchao, dtypes/nf4tensor.py, nf4_split (scales and their scales are split)"),
        restores_input_type: rule(false, "torchtune, modules/peft/lora.py, LoRALinear.forward (linear_nf4)"),
        ..transformers::MODULES
    },
    data_parallel: DataParallel {
        engines: rule(&[Engine::Ddp, Engine::Fsdp1, Engine::Fsdp2], "torchtitan, distributed/parallel_dims.py"),
        replicated: rule(Engine::Ddp, "torchtitan, models/llama3/infra/parallelize.py, apply_ddp"),
        zero1: rule(Engine::Ddp, "PyTorch 2.9, torch/distributed/optim/zero_redundancy_optimizer.py"),
        sharded: rule(Engine::Fsdp2, "torchtitan, models/llama3/infra/parallelize.py, apply_fsdp (fully_shard)"),
        sharded_with_masters: rule(Engine::Fsdp2, "torchtitan, models/llama3/infra/parallelize.py, apply_fsdp"),
        casts_shards: rule(true, "torchtitan, models/llama3/infra/parallelize.py, MixedPrecisionPolicy"),
        splits_in_full: rule(true, "torchtitan, distributed/utils.py, maybe_enable_amp"),
        reduces_in: rule(ReduceType::Stored, "torchtitan, config/job_config.py, mixed_precision_reduce: float32"),
        accumulates_whole: rule(false, "torchtitan, train.py, train_step (no set_requires_gradient_sync)"),
        ..transformers::PROFILE.data_parallel
    },
    pipeline: PipelineRules {
        buffers_per_micro_batch: rule(true, STAGE),
        keeps_last_received: rule(false, STAGE),
        loads_by_stage: rule(false, "torchtitan, train.py, forward_backward_step"),
        sends_parts: rule(false, STAGE),
        sends_one_by_one: rule(false, "PyTorch, torch/distributed/pipelining/schedules.py, _batch_p2p"),
        cuts_batch: rule(true, "torchtitan 0.1, parallelisms/pipelining_utils.py, pipeline_parallel_microbatches"),
        ..transformers::PIPELINE
    },
    optimizer: OptimizerRules {
        always_fused: rule(true, "torchtitan, components/optimizer.py, build_optimizers (implementation: fused)"),
        eight_bit: rule(
            EightBit::Torchao,
            "torchao, optim/adam.py, single_param_adam, and optim/quant_utils.py, quantize_8bit_with_qmap",
        ),
        ..transformers::OPTIMIZER
    },
    loss: LossRules {
        full: rule(Loss::Plain, LOSS),
        parts: rule(Some(8), "torchtitan, components/loss.py, ChunkedLossWrapper (num_chunks)"),
        compiles_parts: rule(false, "torchtune, training/_compile.py, compile_loss (where compile is on)"),
        sharded_logits: rule(true, "PyTorch 2.9, torch/distributed/tensor/parallel/loss.py, loss_parallel"),
        cross_entropy: Some(LOSS),
        ..transformers::PROFILE.loss
    },
    allocator: AllocatorRules {
        replayed: rule(false, "torchtitan, run_train.sh (expandable_segments)"),
        stream_pools: rule(true, "torchtitan, run_train.sh (expandable_segments)"),
    },
    support: Support {
        kinds: rule(&[ModelType::TransformerDecoder], MODEL),
        splits: rule(ModelParallelism::ALL, "torchtitan, distributed/parallel_dims.py, ParallelDims"),
        experts_in_tensor: rule(false, "torchtitan, distributed/parallel_dims.py, ParallelDims (dp_shard_mod_ep)"),
        compile: rule(true, "torchtitan, config/job_config.py, Compile"),
        selective: rule(RecomputeWord::SelectiveOp, "torchtitan, distributed/activation_checkpoint.py"),
        user_loop: rule(false, "torchtitan, train.py, forward_backward_step"),
        shard_groups: rule(true, "torchtitan, distributed/parallel_dims.py, dp_replicate"),
        splits_encoders: rule(false, PARALLELIZE),
        stages_by_hand: rule(false, "torchtitan, distributed/pipeline_parallel.py, pipeline_llm"),
        ..transformers::SUPPORT
    },
    defaults: Defaults {
        optimizer: rule(Optimizer::AdamwFused, "torchtitan, components/optimizer.py, build_optimizers"),
        loss: rule(Loss::Plain, LOSS),
        fp8_recipe: rule(
            Fp8Recipe::Tensorwise,
            "torchtitan, config/job_config.py, Float8Linear.recipe_name (None: tensorwise, scaled as it goes)",
        ),
        sequence_parallel: rule(true, "torchtitan, models/llama3/infra/parallelize.py, apply_tp (SequenceParallel)"),
        ..transformers::PROFILE.defaults
    },
    ..transformers::PROFILE
};
