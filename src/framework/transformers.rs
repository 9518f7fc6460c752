//! transformers' modules on PyTorch, with accelerate or DeepSpeed under them.

use super::{
    AdapterType, AllocatorRules, DataParallel, Defaults, EightBit, Experts, Gate, Gather, InterleavedRounds, Layout,
    LossRules, ModelParallelism, Modules, OffloadRules, OptimizerRules, Overlap, PipelineRules, PointwiseAct,
    ProcessRules, Profile, ReduceType, RmsNorm, Rope, Rule, SharedSequence, Softmax, SplitHeads, Support, WholeBuckets,
    rule,
};
use crate::plan::keywords::{
    Attention, Engine, Fp8Recipe, Framework, Loss, ModelType, Optimizer, Precision, RecomputeWord, Sharding,
};

const MODELING: &str = "transformers 4.57.6, models/llama/modeling_llama.py";
const EARLY_STOP: &str = "PyTorch 2.9, torch/utils/checkpoint.py, set_checkpoint_early_stop";
const TRAINER: &str = "transformers 4.57.6, training_args.py and trainer.py";
const PEFT: &str = "peft 0.21.2, tuners/lora/layer.py and tuners/tuners_utils.py";

pub(super) const SAVED: Rule<Gather> = rule(
    Gather::Saved,
    "PyTorch 2.9, torch/distributed/tensor/_redistribute.py (Redistribute.forward makes the gathered tensor, which the \
     matrix multiplication saves)",
);

pub(super) const RING: Rule<SharedSequence> = rule(
    SharedSequence::Gathered,
    "PyTorch 2.9, torch/distributed/tensor/experimental/_context_parallel/_attention.py, _templated_ring_attention",
);

pub(super) const MODULES: Modules = Modules {
    block: rule(Layout::Transformers, MODELING),
    layer_norm: None,
    rms_norm: rule(RmsNorm::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaRMSNorm"),
    rope: rule(Rope::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, apply_rotary_pos_emb"),
    gate: rule(Gate::Eager, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaMLP"),
    act: rule(PointwiseAct::AsWritten, "transformers 4.57.6, activations.py"),
    heads: rule(SplitHeads::Views, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaAttention.forward"),
    softmax: rule(Softmax::Separate, "transformers 4.57.6, models/llama/modeling_llama.py, eager_attention_forward"),
    gather: SAVED,
    global_buffer: rule(false, MODELING),
    shared_sequence: RING,
    experts: rule(Experts::Loop, "transformers 4.57.6, models/mixtral/modeling_mixtral.py, MixtralSparseMoeBlock"),
    fused_projections: rule(false, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaAttention.__init__"),
    split_projections: rule(false, "transformers 4.57.6, models/phi3/modeling_phi3.py, Phi3Attention.__init__"),
    vocab_multiple: rule(1, "transformers 4.57.6, modeling_utils.py, resize_token_embeddings (on demand only)"),
    autocast: rule(true, "PyTorch 2.9, aten/src/ATen/autocast_mode.cpp, cached_cast"),
    fused_sinks: rule(false, "transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py, eager_attention_forward"),
    repeated_kv: rule(false, "transformers 4.57.6, integrations/sdpa_attention.py, use_gqa_in_sdpa"),
    grows_cache: rule(true, "transformers 4.57.6, cache_utils.py, DynamicLayer.update (torch.cat)"),
    logits_held: rule(
        true,
        "transformers 4.57.6, models/llama/modeling_llama.py, LlamaForCausalLM.forward (its locals)",
    ),
    prediction: rule(
        false,
        "transformers 4.57.6, models/deepseek_v3/modeling_deepseek_v3.py (its weights are ignored)",
    ),
    inplace_relu: rule(false, "transformers 4.57.6, models/resnet/modeling_resnet.py, ResNetConvLayer"),
    position_tables: rule(true, "transformers 4.57.6, models/gpt2/modeling_gpt2.py, register_buffer"),
    masks: rule(true, "transformers 4.57.6, masking_utils.py, create_causal_mask"),
    python_names: rule(true, "transformers 4.57.6, models/llama/modeling_llama.py, LlamaModel.forward (its locals)"),
    family_classes: rule(true, "transformers 4.57.6, models/*/modeling_*.py, a file for each family"),
    splits_scan: rule(false, "transformers 4.57.6, models/mamba2/modeling_mamba2.py, Mamba2Mixer"),
    reruns_all: rule(false, EARLY_STOP),
    transformer_engine: rule(false, MODELING),
    router_by_engine: rule(false, MODELING),
    fp8_gathers: rule(false, MODELING),
    fp8_shards: rule(false, MODELING),
    fp8_weights_once: rule(false, "torchao, float8/float8_linear.py, matmul_with_hp_or_float8_args"),
    adapters: rule(
        AdapterType::Fp32,
        "peft 0.21.2, tuners/tuners_utils.py, cast_adapter_dtype (autocast_adapter_dtype)",
    ),
    quantised_scales: rule(false, "bitsandbytes, nn/modules.py, Params4bit (compress_statistics)"),
    shares_scales: rule(false, "bitsandbytes, nn/modules.py, fix_4bit_weight_quant_state_from_module"),
    restores_input_type: rule(
        true,
        "bitsandbytes, nn/modules.py, Linear4bit.forward (.to(inp_dtype)); peft, tuners/lora/bnb.py (result.clone())",
    ),
    vocabulary_layers: rule(None, "transformers 4.57.6, models/*/modeling_*.py; peft, tuners/lora/layer.py, Embedding"),
    linear_layers: rule(None, "transformers 4.57.6, models/*/modeling_*.py"),
    adapter_targets: rule(None, PEFT),
};

pub(super) const PIPELINE: PipelineRules = PipelineRules {
    buffers_per_micro_batch: rule(false, TRAINER),
    keeps_last_received: rule(false, TRAINER),
    loads_by_stage: rule(false, TRAINER),
    sends_parts: rule(false, TRAINER),
    sends_one_by_one: rule(false, TRAINER),
    interleaved: rule(
        InterleavedRounds::EqualRounds,
        "PyTorch 2.9, torch/distributed/pipelining/schedules.py, ScheduleInterleaved1F1B",
    ),
    even: rule(false, "torchtitan, distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part"),
    cuts_batch: rule(false, TRAINER),
};

pub(super) const OPTIMIZER: OptimizerRules = OptimizerRules {
    always_fused: rule(false, "PyTorch 2.9, torch/optim/optimizer.py, _default_to_fused_or_foreach"),
    counts_on_host: rule(false, "PyTorch 2.9, torch/optim/adam.py, _fused_adam (device_state_steps)"),
    eight_bit: rule(EightBit::Bitsandbytes, "transformers 4.57.6, trainer.py, get_optimizer_cls_and_kwargs"),
    copies_gradients: rule(false, "PyTorch 2.9, torch/optim/adam.py"),
};

pub(super) const SUPPORT: Support = Support {
    kinds: rule(ModelType::ALL, "transformers 4.57.6, models/auto/modeling_auto.py; diffusers, models/unets/"),
    only_gpt2: rule(false, MODELING),
    learned_positions: rule(false, MODELING),
    splits: rule(
        ModelParallelism::ALL,
        "accelerate 1.15, parallelism_config.py, ParallelismConfig; DeepSpeed, runtime/pipe/engine.py; transformers \
         4.57.6, integrations/tensor_parallel.py",
    ),
    serves_in: rule(ModelParallelism::ALL, "transformers 4.57.6, integrations/tensor_parallel.py"),
    experts_in_tensor: rule(true, "transformers 4.57.6, modeling_utils.py, tp_plan (enable_expert_parallel)"),
    shards: rule(Sharding::ALL, "accelerate 1.10, utils/dataclasses.py, DistributedType"),
    own_keys: rule(&[], TRAINER),
    shares_kv_heads: rule(
        false,
        "transformers 4.57.6, models/llama/modeling_llama.py, LlamaAttention (`view(hidden_shape)`; huggingface/transformers issue 48307); torchtitan's is the same",
    ),
    splits_encoders: rule(false, "transformers 4.57.6, models/bert/configuration_bert.py (no base_model_tp_plan)"),
    compile: rule(true, "transformers 4.57.6, training_args.py, torch_compile"),
    selective: rule(
        RecomputeWord::Selective,
        "PyTorch 2.9, torch/utils/checkpoint.py, create_selective_checkpoint_contexts",
    ),
    swappable_parts: rule(true, "transformers 4.57.6, training_args.py, OptimizerNames; peft 0.21.2"),
    autocast: rule(true, "transformers 4.57.6, training_args.py, bf16"),
    gradient_dtype: rule(false, TRAINER),
    sequence_parallel: rule(false, TRAINER),
    shard_groups: rule(true, "PyTorch 2.9, torch/distributed/fsdp/api.py, ShardingStrategy.HYBRID_SHARD"),
    user_loop: rule(true, "transformers 4.57.6, data/data_collator.py and utils/generic.py, ModelOutput"),
    offload: rule(OffloadRules::Anything, "accelerate 1.10, utils/dataclasses.py, FullyShardedDataParallelPlugin"),
    stages_by_hand: rule(
        true,
        "DeepSpeed, runtime/pipe/module.py, PipelineModule; PyTorch 2.9, torch/distributed/pipelining",
    ),
    alibi_by: rule(None, "transformers 4.57.6, models/bloom/modeling_bloom.py, build_alibi_tensor"),
};

/// What a process of today's PyTorch holds.
pub(super) const PROCESS: ProcessRules = ProcessRules {
    loads_all_kernels: rule(false, "PyTorch 1.13, torch/cuda/__init__.py, _lazy_init (CUDA_MODULE_LOADING=LAZY)"),
    pipeline_groups: rule(false, "PyTorch 2.9, torch/distributed/device_mesh.py (a group for each dimension)"),
};

/// Prediction of transformers' modules.
pub(super) const PROFILE: Profile = Profile {
    framework: Framework::Pytorch,
    modules: MODULES,
    data_parallel: DataParallel {
        engines: rule(
            &[Engine::Ddp, Engine::Fsdp1, Engine::Fsdp2, Engine::Deepspeed],
            "accelerate 1.10, utils/dataclasses.py, DistributedType",
        ),
        replicated: rule(Engine::Ddp, "accelerate 1.10, accelerator.py, prepare_model (DistributedDataParallel)"),
        zero1: rule(Engine::Deepspeed, "deepspeed, runtime/zero/stage_1_and_2.py: FSDP has no such stage"),
        sharded: rule(
            Engine::Fsdp1,
            "accelerate 1.10, utils/dataclasses.py, FullyShardedDataParallelPlugin.fsdp_version: 1 by default",
        ),
        sharded_with_masters: rule(
            Engine::Deepspeed,
            "deepspeed, runtime/zero/stage3.py: only DeepSpeed keeps fp32 masters beside 16-bit weights",
        ),
        proposed: rule(Sharding::ALL, "accelerate 1.10, utils/dataclasses.py, DistributedType"),
        casts_shards: rule(false, "transformers 4.57.6, trainer.py, autocast_smart_context_manager"),
        splits_in_full: rule(false, "transformers 4.57.6, trainer.py, autocast_smart_context_manager"),
        reduces_in: rule(
            ReduceType::Gathered,
            "PyTorch 2.9, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, foreach_reduce",
        ),
        gradients_stay: rule(false, "PyTorch 2.9, torch/optim/optimizer.py, zero_grad (set_to_none)"),
        accumulates_whole: rule(
            true,
            "transformers 4.57.6, trainer.py, _inner_training_loop (accelerator.no_sync but for the last micro-batch)",
        ),
        sums_whole_buckets: rule(
            WholeBuckets::All,
            "deepspeed, runtime/zero/config.py, use_multi_rank_bucket_allreduce: true by default; \
             stage_1_and_2.py, allreduce_and_scatter",
        ),
        has_bf16_optimizer: rule(false, "deepspeed, runtime/zero/stage_1_and_2.py, reduce_ready_partitions"),
    },
    pipeline: PIPELINE,
    optimizer: OPTIMIZER,
    loss: LossRules {
        full: rule(Loss::Hf, "transformers 4.57.6, loss/loss_utils.py, ForCausalLMLoss"),
        fused: rule(Loss::Fused, "Liger-Kernel, transformers/monkey_patch.py"),
        parts: rule(None, "liger_kernel/ops/fused_linear_cross_entropy.py"),
        compiles_parts: rule(true, "axolotl, monkeypatch/loss/chunked.py, _build_chunked_ce_loss_fn (torch.compile)"),
        sharded_logits: rule(false, "transformers 4.57.6, models/llama/configuration_llama.py, base_model_tp_plan"),
        returns_outputs: rule(true, "transformers 4.57.6, modeling_outputs.py, CausalLMOutputWithPast"),
        cross_entropy: None,
    },
    overlap: Overlap {
        by_itself: rule(true, "PyTorch 2.9, torch/nn/parallel/distributed.py and torch/distributed/fsdp"),
        nvidia_recipes: rule(false, TRAINER),
        offloads: rule(true, "TRL, models/activation_offloading.py, OffloadActivations (use_streams)"),
    },
    allocator: AllocatorRules {
        replayed: rule(true, "PyTorch 2.9, c10/cuda/CUDACachingAllocator.cpp"),
        stream_pools: rule(
            false,
            "PyTorch 2.9, c10/cuda/CUDAAllocatorConfig.h (expandable_segments is off by default)",
        ),
    },
    process: PROCESS,
    support: SUPPORT,
    defaults: Defaults {
        gradient_clipping: rule(true, "transformers 4.57, training_args.py, max_grad_norm 1.0"),
        dropout: rule(None, "transformers 4.57.6, models/*/configuration_*.py"),
        precision: rule(Precision::Bf16Mixed, "transformers 4.57.6, training_args.py, bf16"),
        optimizer: rule(Optimizer::Adamw, "PyTorch 2.9, torch/optim/optimizer.py, _default_to_fused_or_foreach"),
        attention: rule(
            Attention::Sdpa,
            "transformers 4.57.6, modeling_utils.py, _check_and_adjust_attn_implementation",
        ),
        loss: rule(Loss::Hf, "transformers 4.57.6, loss/loss_utils.py, ForCausalLMLoss"),
        fp8_recipe: rule(
            Fp8Recipe::Delayed,
            "accelerate 1.12, utils/transformer_engine.py, apply_fp8_autowrap (te_recipe.DelayedScaling)",
        ),
        sequence_parallel: rule(false, "transformers 4.57.6, models/llama/configuration_llama.py, base_model_tp_plan"),
        fp8_masters: rule(false, "torchao, float8/float8_linear.py (weights stay in high precision)"),
        launch_blocking: rule(false, "PyTorch 2.9, c10/cuda/CUDAMiscFunctions.cpp, get_cuda_check_suffix"),
        grouped_experts: rule(false, "transformers 4.57.6, models/mixtral/modeling_mixtral.py, MixtralSparseMoeBlock"),
        gradient_accumulation_fusion: rule(false, "PyTorch 2.9, torch/csrc/autograd/functions/accumulate_grad.h"),
    },
};
