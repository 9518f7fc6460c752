//! Megatron-DeepSpeed, the fork that trained BLOOM: Megatron's modules of 2022 under DeepSpeed's ZeRO and pipeline.

use super::{
    DataParallel, Defaults, Experts, InterleavedRounds, Modules, OptimizerRules, Overlap, PipelineRules, ProcessRules,
    Profile, ReduceType, Rope, SplitHeads, Support, WholeBuckets, megatron, rule, transformers,
};
use crate::plan::keywords::{Attention, Engine, Framework, Precision, Sharding};

const TRANSFORMER: &str = "bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py";
const LAYERS: &str = "bigscience-workshop/Megatron-DeepSpeed, megatron/mpu/layers.py";
const BF16_OPTIMIZER: &str =
    "DeepSpeed, runtime/bf16_optimizer.py, _setup_for_real_optimizer (fp32_groups_gradients_flat)";
const PIPE: &str = "DeepSpeed, runtime/pipe/engine.py";
const ARGUMENTS: &str = "bigscience-workshop/Megatron-DeepSpeed, megatron/arguments.py";

pub(super) const PROFILE: Profile = Profile {
    framework: Framework::MegatronDeepspeed,
    modules: Modules {
        layer_norm: Some("bigscience-workshop/Megatron-DeepSpeed, megatron/model/fused_layer_norm.py"),
        rope: rule(Rope::Eager, "bigscience-workshop/Megatron-DeepSpeed, megatron/model/positional_embeddings.py"),
        heads: rule(
            SplitHeads::Views,
            "bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py, ParallelAttention",
        ),
        gather: transformers::SAVED,
        global_buffer: rule(
            false,
            "bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py (torch.empty)",
        ),
        shared_sequence: transformers::RING,
        experts: rule(Experts::Grouped, TRANSFORMER),
        prediction: rule(false, TRANSFORMER),
        fused_sinks: rule(false, TRANSFORMER),
        transformer_engine: rule(false, TRANSFORMER),
        router_by_engine: rule(false, TRANSFORMER),
        fp8_shards: rule(false, TRANSFORMER),
        fp8_weights_once: rule(false, TRANSFORMER),
        ..megatron::MODULES
    },
    data_parallel: DataParallel {
        engines: rule(
            &[Engine::Deepspeed],
            "bigscience-workshop/Megatron-DeepSpeed, megatron/training.py, setup_model_and_optimizer",
        ),
        replicated: rule(Engine::Deepspeed, "DeepSpeed, runtime/engine.py, buffered_allreduce_fallback"),
        zero1: rule(Engine::Deepspeed, BF16_OPTIMIZER),
        sharded: rule(Engine::Deepspeed, "DeepSpeed, runtime/zero/stage_1_and_2.py and stage3.py"),
        sharded_with_masters: rule(Engine::Deepspeed, "DeepSpeed, runtime/zero/stage_1_and_2.py and stage3.py"),
        proposed: rule(
            &[Sharding::None, Sharding::Zero1],
            "DeepSpeed, runtime/pipe/engine.py (stage 2 and up refused)",
        ),
        casts_shards: rule(false, TRANSFORMER),
        splits_in_full: rule(false, TRANSFORMER),
        reduces_in: rule(ReduceType::Gathered, "DeepSpeed, runtime/engine.py, communication_data_type"),
        gradients_stay: rule(true, BF16_OPTIMIZER),
        accumulates_whole: rule(false, "DeepSpeed, runtime/engine.py: not PyTorch's FSDP"),
        sums_whole_buckets: rule(
            WholeBuckets::Bf16,
            "deepspeed 0.6.5, runtime/pipe/engine.py, _bf16_reduce_grads (buffered_allreduce_fallback); \
             runtime/zero/stage_1_and_2.py, average_tensor (dist.reduce to each share's rank)",
        ),
        has_bf16_optimizer: rule(
            true,
            "deepspeed 0.6.5, runtime/engine.py, _configure_bf16_optimizer and _configure_zero_optimizer; \
             runtime/pipe/engine.py, _exec_backward_pass (update_hp_grads(clear_lp_grads=False))",
        ),
    },
    pipeline: PipelineRules {
        buffers_per_micro_batch: rule(false, "DeepSpeed, runtime/pipe/engine.py, _reserve_pipe_buffers"),
        keeps_last_received: rule(false, PIPE),
        loads_by_stage: rule(true, "DeepSpeed, runtime/pipe/engine.py, _exec_load_micro_batch"),
        sends_parts: rule(true, "DeepSpeed, runtime/pipe/engine.py, is_pipe_partitioned"),
        sends_one_by_one: rule(
            true,
            "deepspeed 0.5.10, runtime/pipe/p2p.py (send and recv: dist.send and dist.recv, async_op refused); \
             runtime/pipe/schedule.py, TrainSchedule.steps",
        ),
        interleaved: rule(InterleavedRounds::StageGroups, "DeepSpeed, runtime/pipe/schedule.py, TrainSchedule"),
        even: rule(false, "DeepSpeed, runtime/pipe/module.py, _partition_layers (partition_balanced)"),
        cuts_batch: rule(false, "Megatron-DeepSpeed, megatron/arguments.py, --micro-batch-size"),
    },
    optimizer: OptimizerRules {
        counts_on_host: rule(true, "NVIDIA/apex, apex/optimizers/fused_adam.py, FusedAdam.step (group['step'])"),
        copies_gradients: rule(false, BF16_OPTIMIZER),
        ..megatron::PROFILE.optimizer
    },
    process: ProcessRules {
        loads_all_kernels: rule(
            true,
            "PyTorch 1.11, the newest when deepspeed 0.6.5 came out: torch/cuda/__init__.py sets no CUDA_MODULE_LOADING",
        ),
        pipeline_groups: rule(
            true,
            "deepspeed 0.6.5, runtime/pipe/topology.py, PipelineParallelGrid (ds_model_proc_group, slice_proc_group); \
             runtime/pipe/engine.py (PartitionedTensor; dist.barrier)",
        ),
    },
    overlap: Overlap {
        by_itself: rule(false, "DeepSpeed, runtime/pipe/engine.py, _exec_reduce_grads (behind the last backward pass)"),
        nvidia_recipes: rule(false, ARGUMENTS),
        offloads: rule(
            false,
            "DeepSpeed, runtime/activation_checkpointing/checkpointing.py, CheckpointFunction (cpu_checkpoint)",
        ),
    },
    support: Support {
        own_keys: rule(&[], ARGUMENTS),
        shares_kv_heads: rule(false, LAYERS),
        splits_encoders: rule(true, "bigscience-workshop/Megatron-DeepSpeed, megatron/model/bert_model.py"),
        sequence_parallel: rule(false, LAYERS),
        gradient_dtype: rule(false, ARGUMENTS),
        stages_by_hand: rule(false, "Megatron-DeepSpeed, megatron/model/gpt_model.py, GPTModelPipe"),
        alibi_by: rule(
            None,
            "bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py, _build_alibi_tensor",
        ),
        ..megatron::PROFILE.support
    },
    defaults: Defaults {
        precision: rule(
            Precision::Bf16Fp32Master,
            "bigscience-workshop/bigscience, train/tr11-176B-ml/tr11-176B-ml.slurm (--bf16)",
        ),
        attention: rule(
            Attention::Eager,
            "bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py (baddbmm, bmm)",
        ),
        dropout: rule(
            Some(0.1),
            "bigscience-workshop/Megatron-DeepSpeed, megatron/arguments.py (--attention-dropout, --hidden-dropout)",
        ),
        grouped_experts: rule(false, TRANSFORMER),
        gradient_accumulation_fusion: rule(false, LAYERS),
        launch_blocking: rule(
            true,
            "bigscience-workshop/bigscience, train/tr11-176B-ml/tr11-176B-ml.slurm (CUDA_LAUNCH_BLOCKING)",
        ),
        fp8_masters: rule(false, ARGUMENTS),
        ..megatron::PROFILE.defaults
    },
    ..megatron::PROFILE
};
