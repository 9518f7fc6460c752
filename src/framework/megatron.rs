//! Megatron-LM, with Transformer Engine's modules or its own.

use super::{
    AdapterType, AllocatorRules, DataParallel, Defaults, EightBit, Experts, Gate, Gather, InterleavedRounds, Layout,
    LossRules, ModelParallelism, Module, Modules, OffloadRules, OptimizerRules, Overlap, PipelineRules, PointwiseAct,
    Profile, ReduceType, RmsNorm, Rope, SharedSequence, Softmax, SplitHeads, Support, WholeBuckets, rule,
};
use crate::plan::keywords::{
    Attention, Engine, Fp8Recipe, Framework, Loss, ModelType, Optimizer, Precision, RecomputeWord, Sharding,
};

const CORE: &str = "megatron-core 0.16, core/transformer and core/extensions/transformer_engine.py";
const ARGUMENTS: &str = "megatron-core 0.16, megatron/training/arguments.py";
const GLOBAL_BUFFER: &str = "megatron-core 0.16, core/utils.py, GlobalMemoryBuffer (\"mpu\"), which \
    core/tensor_parallel/layers.py and core/transformer/dot_product_attention.py share";
const RERUN: &str = "megatron-core 0.16, core/tensor_parallel/random.py, CheckpointFunction.backward";
const SCHEDULES: &str =
    "megatron-core 0.16, core/pipeline_parallel/schedules.py, forward_backward_pipelining_with_interleaving";
const SINKS: &str =
    "Transformer Engine, pytorch/attention/dot_product_attention (softmax_type learnable in fused attention)";

/// megatron-core 0.16, core/transformer/attention.py, mlp.py and multi_latent_attention.py.
const LINEAR_LAYERS: [Module; 10] = [
    ("attention.qkv_proj", "self_attention.linear_qkv"),
    ("attention.o_proj", "self_attention.linear_proj"),
    ("attention.q_proj", "self_attention.linear_q_proj"),
    ("attention.q_a_proj", "self_attention.linear_q_down_proj"),
    ("attention.q_b_proj", "self_attention.linear_q_up_proj"),
    ("attention.kv_a_proj", "self_attention.linear_kv_down_proj"),
    ("attention.kv_b_proj", "self_attention.linear_kv_up_proj"),
    ("mlp.up_proj", "mlp.linear_fc1"),
    ("mlp.gate_up_proj", "mlp.linear_fc1"),
    ("mlp.down_proj", "mlp.linear_fc2"),
];

pub(super) const MODULES: Modules = Modules {
    block: rule(Layout::Megatron, CORE),
    layer_norm: Some("Transformer Engine, pytorch/module/layernorm_linear.py"),
    rms_norm: rule(RmsNorm::Fused, "Transformer Engine, pytorch/module/layernorm_linear.py"),
    rope: rule(Rope::Fused, "megatron-core 0.16, core/models/common/embeddings/rope_utils.py, apply_rope_fusion"),
    gate: rule(Gate::Fused, "megatron-core 0.16, core/fusions/fused_bias_swiglu.py, SwiGLUFunction"),
    act: rule(PointwiseAct::Fused, "megatron-core 0.16, core/fusions/fused_bias_gelu.py"),
    heads: rule(SplitHeads::Copies, "megatron-core 0.16, core/transformer/attention.py, get_query_key_value_tensors"),
    softmax: rule(Softmax::Fused, "megatron-core 0.16, core/fusions/fused_softmax.py, FusedScaleMaskSoftmax"),
    gather: rule(Gather::KeptByHead, GLOBAL_BUFFER),
    global_buffer: rule(true, GLOBAL_BUFFER),
    shared_sequence: rule(
        SharedSequence::Engine,
        "Transformer Engine 2.16, pytorch/attention/dot_product_attention/context_parallel.py",
    ),
    experts: rule(
        Experts::Weighted,
        "megatron-core 0.16, core/transformer/moe/experts.py, TEGroupedMLP (bias_act_func)",
    ),
    fused_projections: rule(true, CORE),
    split_projections: rule(false, CORE),
    vocab_multiple: rule(128, "megatron, training/tokenizer/tokenizer.py, _vocab_size_with_padding"),
    autocast: rule(false, CORE),
    fused_sinks: rule(true, SINKS),
    repeated_kv: rule(false, CORE),
    grows_cache: rule(false, "megatron-core 0.16, core/transformer/attention.py, _adjust_key_value_for_inference"),
    logits_held: rule(false, CORE),
    prediction: rule(true, "megatron-core 0.16, core/transformer/multi_token_prediction.py"),
    inplace_relu: rule(false, CORE),
    position_tables: rule(false, CORE),
    masks: rule(false, CORE),
    python_names: rule(false, CORE),
    family_classes: rule(false, CORE),
    splits_scan: rule(true, "megatron-core 0.16, core/ssm/mamba_mixer.py, MambaMixer"),
    reruns_all: rule(true, RERUN),
    transformer_engine: rule(true, "megatron-core 0.16, core/extensions/transformer_engine.py"),
    router_by_engine: rule(
        true,
        "megatron-core 0.16, core/transformer/moe/moe_utils.py, RouterGatingLinearFunction (wherever it is installed)",
    ),
    fp8_gathers: rule(false, "Transformer Engine, pytorch/distributed.py, gather_along_first_dim (by its operands)"),
    fp8_shards: rule(true, "megatron-core 0.16, megatron/training/arguments.py, --fp8-param-gather"),
    fp8_weights_once: rule(true, "Transformer Engine, pytorch/module/base.py, is_first_microbatch"),
    adapters: rule(AdapterType::Model, "NVIDIA-NeMo/Megatron-Bridge, peft/utils.py, ParallelLinearAdapter"),
    quantised_scales: rule(false, "bitsandbytes, nn/modules.py, Params4bit (compress_statistics)"),
    shares_scales: rule(false, "bitsandbytes, nn/modules.py, fix_4bit_weight_quant_state_from_module"),
    restores_input_type: rule(false, "NVIDIA-NeMo/Megatron-Bridge, peft/lora.py (no quantised base)"),
    vocabulary_layers: rule(Some(&[]), "NVIDIA-NeMo/Megatron-Bridge, peft/lora.py (the layers' four linear modules)"),
    linear_layers: rule(Some(&LINEAR_LAYERS), "megatron-core 0.16, core/transformer/attention.py and mlp.py"),
    adapter_targets: rule(
        Some(&["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]),
        "NVIDIA-NeMo/Megatron-Bridge, peft/lora.py, LoRA.target_modules",
    ),
};

/// Megatron with Transformer Engine.
pub(super) const PROFILE: Profile = Profile {
    framework: Framework::Megatron,
    modules: MODULES,
    data_parallel: DataParallel {
        engines: rule(&[Engine::Megatron, Engine::MegatronFsdp], "megatron-core 0.16, core/distributed"),
        replicated: rule(Engine::Megatron, "megatron-core 0.16, core/distributed/distributed_data_parallel.py"),
        zero1: rule(Engine::Megatron, "megatron-core 0.16, core/optimizer/distrib_optimizer.py"),
        sharded: rule(Engine::MegatronFsdp, "megatron-core 0.16, core/distributed/fsdp/src/megatron_fsdp"),
        sharded_with_masters: rule(Engine::MegatronFsdp, "megatron-core 0.16, core/distributed/fsdp/src/megatron_fsdp"),
        proposed: rule(
            &[Sharding::None, Sharding::Zero1],
            "megatron-core 0.16, megatron/training/arguments.py, --use-distributed-optimizer",
        ),
        casts_shards: rule(false, CORE),
        splits_in_full: rule(false, CORE),
        reduces_in: rule(
            ReduceType::Gathered,
            "megatron-core 0.16, core/distributed/distributed_data_parallel_config.py",
        ),
        gradients_stay: rule(true, "megatron-core 0.16, core/distributed/param_and_grad_buffer.py"),
        accumulates_whole: rule(false, "megatron-core 0.16, core/distributed/fsdp: not PyTorch's FSDP"),
        sums_whole_buckets: rule(WholeBuckets::None, "megatron-core 0.16, core/distributed/param_and_grad_buffer.py"),
        has_bf16_optimizer: rule(false, "megatron-core 0.16, core/distributed/param_and_grad_buffer.py"),
    },
    pipeline: PipelineRules {
        buffers_per_micro_batch: rule(false, SCHEDULES),
        keeps_last_received: rule(
            true,
            "megatron-core 0.16, transformer/transformer_block.py, set_input_tensor; pipeline_parallel/schedules.py, \
             input_tensor.retain_grad()",
        ),
        loads_by_stage: rule(true, "megatron, training/utils.py, get_batch_on_this_tp_rank"),
        sends_parts: rule(true, "arXiv 2104.04473, section 4.1"),
        sends_one_by_one: rule(false, "megatron-core, pipeline_parallel/p2p_communication.py, _batched_p2p_ops"),
        interleaved: rule(InterleavedRounds::StageGroups, SCHEDULES),
        even: rule(true, "megatron-core 0.16, transformer/transformer_block.py, get_num_layers_to_build"),
        cuts_batch: rule(false, "megatron-core 0.16, megatron/training/arguments.py, --micro-batch-size"),
    },
    optimizer: OptimizerRules {
        always_fused: rule(true, "Transformer Engine, pytorch/optimizers/fused_adam.py, FusedAdam"),
        counts_on_host: rule(
            true,
            "Transformer Engine, pytorch/optimizers/fused_adam.py, FusedAdam.step (group['step'])",
        ),
        eight_bit: rule(EightBit::Bitsandbytes, "bitsandbytes, optim/optimizer.py, Optimizer2State (block-wise)"),
        copies_gradients: rule(
            true,
            "megatron-core 0.16, core/optimizer/distrib_optimizer.py, _copy_model_grads_to_main_grads (.float())",
        ),
    },
    loss: LossRules {
        full: rule(Loss::Plain, "PyTorch 2.9, torch/nn/functional.py, cross_entropy"),
        fused: rule(Loss::VocabParallelFused, "megatron-core 0.16, core/fusions/fused_cross_entropy.py"),
        sharded_logits: rule(false, "megatron-core 0.16, core/tensor_parallel/cross_entropy.py"),
        returns_outputs: rule(false, "megatron-core 0.16, core/models/gpt/gpt_model.py (the loss alone)"),
        parts: rule(None, "liger_kernel/ops/fused_linear_cross_entropy.py"),
        compiles_parts: rule(false, "megatron-core 0.16, core/fusions/fused_cross_entropy.py (no loss in parts)"),
        cross_entropy: None,
    },
    overlap: Overlap {
        by_itself: rule(
            false,
            "megatron-core 0.16, megatron/training/arguments.py, --overlap-grad-reduce and --overlap-param-gather",
        ),
        nvidia_recipes: rule(
            true,
            "NVIDIA/NeMo-Framework-Launcher 24.07, launcher_scripts/conf/training (overlap_grad_sync, \
             overlap_param_sync); NVIDIA-NeMo/Megatron-Bridge, perf_recipes",
        ),
        offloads: rule(true, "Transformer Engine, pytorch/cpu_offload.py (d2h_stream, h2d_stream)"),
    },
    allocator: AllocatorRules { replayed: rule(false, CORE), stream_pools: rule(false, CORE) },
    process: super::transformers::PROCESS,
    support: Support {
        kinds: rule(
            &[
                ModelType::TransformerDecoder,
                ModelType::TransformerEncoder,
                ModelType::TransformerEncoderDecoder,
                ModelType::VisionTransformer,
            ],
            "megatron-core 0.16, core/models/gpt/gpt_model.py, core/models/bert/bert_model.py, core/models/T5/t5_model.py and \
             core/models/vision/clip_vit_model.py",
        ),
        only_gpt2: rule(false, ARGUMENTS),
        learned_positions: rule(
            true,
            "megatron-core 0.16, core/models/T5/t5_model.py, `T5Model`; relative ones are not predicted",
        ),
        splits: rule(ModelParallelism::ALL, "megatron-core 0.16, core/parallel_state.py, initialize_model_parallel"),
        serves_in: rule(ModelParallelism::ALL, "megatron-core 0.16, core/parallel_state.py, initialize_model_parallel"),
        experts_in_tensor: rule(false, "megatron-core 0.16, core/parallel_state.py, initialize_model_parallel"),
        shards: rule(
            Sharding::ALL,
            "megatron-core 0.16, megatron/training/arguments.py, --data-parallel-sharding-strategy",
        ),
        own_keys: rule(
            &[
                "model.transformer_impl",
                "training.defer_embedding_wgrad",
                "training.offload_modules",
                "training.offload_layers",
                "training.moe_grouped_gemm",
                "training.distributed_optimizer",
                "distribution.cp_comm",
            ],
            ARGUMENTS,
        ),
        shares_kv_heads: rule(
            true,
            "megatron-core 0.16, core/transformer/attention.py, SelfAttention (num_query_groups < world_size)",
        ),
        splits_encoders: rule(
            true,
            "megatron-core 0.16, core/models/bert/bert_model.py and core/models/T5/t5_model.py",
        ),
        compile: rule(false, ARGUMENTS),
        selective: rule(
            RecomputeWord::Selective,
            "megatron-core 0.16, megatron/training/arguments.py, --recompute-granularity",
        ),
        swappable_parts: rule(false, ARGUMENTS),
        autocast: rule(false, "megatron-core 0.16, core/transformer/module.py, Float16Module"),
        gradient_dtype: rule(
            true,
            "megatron-core 0.16, megatron/training/arguments.py, --accumulate-allreduce-grads-in-fp32",
        ),
        sequence_parallel: rule(true, "megatron-core 0.16, megatron/training/arguments.py, --sequence-parallel"),
        shard_groups: rule(false, ARGUMENTS),
        user_loop: rule(false, "megatron, training/training.py, train_step"),
        offload: rule(
            OffloadRules::Megatron,
            "megatron-core 0.16, core/transformer/transformer_config.py, cpu_offloading",
        ),
        stages_by_hand: rule(false, "megatron-core 0.16, transformer/transformer_block.py, get_num_layers_to_build"),
        alibi_by: rule(
            Some(Framework::MegatronDeepspeed),
            "megatron-core 0.16, megatron/training/arguments.py, --position-embedding-type (no alibi); \
             bigscience-workshop/Megatron-DeepSpeed, megatron/arguments.py, --position-embedding-type",
        ),
    },
    defaults: Defaults {
        gradient_clipping: rule(true, "megatron-core 0.16, megatron/training/arguments.py, --clip-grad 1.0"),
        dropout: rule(
            None,
            "NVIDIA-NeMo/Megatron-Bridge, models/llama/llama_bridge.py, hidden_dropout (Megatron-LM: 0.1)",
        ),
        precision: rule(Precision::Bf16Fp32Master, "megatron-core 0.16, megatron/training/arguments.py, --bf16"),
        optimizer: rule(Optimizer::AdamwFused, "Transformer Engine, pytorch/optimizers/fused_adam.py, FusedAdam"),
        attention: rule(Attention::Flash, "megatron-core 0.16, megatron/training/arguments.py, --attention-backend"),
        loss: rule(Loss::VocabParallel, "megatron-core 0.16, core/tensor_parallel/cross_entropy.py"),
        fp8_recipe: rule(Fp8Recipe::Delayed, "megatron-core 0.16, megatron/training/arguments.py, --fp8-recipe"),
        sequence_parallel: rule(false, "megatron-core 0.16, megatron/training/arguments.py, --sequence-parallel"),
        fp8_masters: rule(true, "megatron-core 0.16, megatron/training/arguments.py, --fp8-format"),
        launch_blocking: super::transformers::PROFILE.defaults.launch_blocking,
        grouped_experts: rule(true, "megatron-core 0.16, core/transformer/moe/experts.py, TEGroupedMLP"),
        gradient_accumulation_fusion: rule(
            true,
            "megatron-core 0.16, megatron/training/arguments.py, --no-gradient-accumulation-fusion",
        ),
    },
};

/// Megatron's own modules, without Transformer Engine (`--transformer-impl local`).
pub(super) const LOCAL: Profile = Profile {
    modules: Modules {
        rms_norm: rule(RmsNorm::Fused, "megatron-core 0.16, core/transformer/torch_norm.py"),
        heads: rule(SplitHeads::Views, "megatron-core 0.16, core/transformer/attention.py"),
        gather: rule(Gather::Kept, GLOBAL_BUFFER),
        fp8_shards: rule(false, "megatron-core 0.16, core/models/gpt/gpt_layer_specs.py, get_gpt_layer_local_spec"),
        transformer_engine: rule(
            false,
            "megatron-core 0.16, core/models/gpt/gpt_layer_specs.py, get_gpt_layer_local_spec",
        ),
        ..MODULES
    },
    defaults: Defaults {
        attention: rule(
            Attention::Eager,
            "megatron-core 0.16, core/transformer/dot_product_attention.py (no fused kernels), by \
             core/models/gpt/gpt_layer_specs.py, get_gpt_layer_local_spec",
        ),
        ..PROFILE.defaults
    },
    ..PROFILE
};
