//! What a plan file says, key by key. A key that is absent is `None`: nothing is
//! filled in here. What absent keys come to mean is decided once, by
//! [`crate::predict::Job`].

use serde_json::{Map, Value};

use crate::plan::keywords::{
    Activation, Attention, CpComm, CpuOffload, CudaGraph, Dtype, Fp8Recipe, Framework, Loss, Mode, ModelType,
    MoeDispatcher, Norm, Optimizer, Position, Precision, RecomputeModule, Schedule, Sharding, Strategy,
    TransformerImpl,
};

/// A plan file as read: five groups of optional keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// `model:`
    pub model: ModelPart,
    /// `training:`
    pub training: TrainingPart,
    /// `hardware:`
    pub hardware: HardwarePart,
    /// `cluster:`
    pub cluster: ClusterPart,
    /// `distribution:`
    pub distribution: DistributionPart,
    /// `run:`
    pub run: RunPart,
    /// `analysis:`
    pub analysis: AnalysisPart,
}

/// A Hugging Face (or diffusers) configuration, inline or by path.
#[derive(Debug, Clone, PartialEq)]
pub enum HfConfig {
    /// A path, as written: relative to the plan file. Whoever loads the plan reads it and puts `Inline` here.
    Path(String),
    /// Its keys.
    Inline(Map<String, Value>),
}

/// `model:` what is trained.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelPart {
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
    /// torchtitan's: every second matrix product kept.
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

/// `training:` how it is trained.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainingPart {
    /// `mode`
    pub mode: Option<Mode>,
    /// `precision`
    pub precision: Option<Precision>,
    /// `optimizer`
    pub optimizer: Option<Optimizer>,
    /// `attention`
    pub attention: Option<Attention>,
    /// `activation_checkpointing`
    pub activation_checkpointing: Option<Checkpointing>,
    /// `loss`
    pub loss: Option<Loss>,
    /// `micro_batch_size`: samples per GPU per forward pass
    pub micro_batch_size: Option<u64>,
    /// `gradient_accumulation_steps`
    pub gradient_accumulation_steps: Option<u64>,
    /// `compile`
    pub compile: Option<bool>,
    /// `dropout`
    pub dropout: Option<f64>,
    /// `optimizer_in_backward`
    pub optimizer_in_backward: Option<bool>,
    /// `gradient_dtype`
    pub gradient_dtype: Option<Dtype>,
    /// `cpu_offload`
    pub cpu_offload: Option<CpuOffload>,
    /// `distributed_optimizer`
    pub distributed_optimizer: Option<bool>,
    /// `lora`
    pub lora: Option<LoraPart>,
    /// `frozen`
    pub frozen: Option<Vec<String>>,
    /// `weight_decay`
    pub weight_decay: Option<f64>,
    /// `gradient_clipping`
    pub gradient_clipping: Option<bool>,
    /// `padded_batch`
    pub padded_batch: Option<bool>,
    /// `use_cache`
    pub use_cache: Option<bool>,
    /// `kv_cache_dtype`: type of cached keys and values
    pub kv_cache_dtype: Option<Dtype>,
    /// `keep_outputs`
    pub keep_outputs: Option<bool>,
    /// `channels_last`
    pub channels_last: Option<bool>,
    /// `deterministic`
    pub deterministic: Option<bool>,
    /// `fp8_recipe`
    pub fp8_recipe: Option<Fp8Recipe>,
    /// `fp8_param_gather`
    pub fp8_param_gather: Option<bool>,
    /// `optimizer_state_dtype`
    pub optimizer_state_dtype: Option<Dtype>,
    /// `gradient_accumulation_fusion`
    pub gradient_accumulation_fusion: Option<bool>,
    /// `attention_softmax_fp32`
    pub attention_softmax_fp32: Option<bool>,
    /// `defer_embedding_wgrad`
    pub defer_embedding_wgrad: Option<bool>,
    /// `offload_modules`
    pub offload_modules: Option<Vec<String>>,
    /// `offload_layers`
    pub offload_layers: Option<u64>,
    /// `cuda_graph`
    pub cuda_graph: Option<CudaGraph>,
    /// `moe_grouped_gemm`
    pub moe_grouped_gemm: Option<bool>,
    /// `moe_capacity_factor`
    pub moe_capacity_factor: Option<f64>,
}

/// `hardware.custom:` a card of the user's own, or single figures that override the catalogue's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CustomGpu {
    /// `name`
    pub name: Option<String>,
    /// `memory_gb` (1e9 bytes a GB)
    pub memory_gb: Option<f64>,
    /// `bandwidth_gb_s`
    pub bandwidth_gb_s: Option<f64>,
    /// `peak_tflops.fp32`
    pub fp32: Option<f64>,
    /// `peak_tflops.tf32`
    pub tf32: Option<f64>,
    /// `peak_tflops.fp16`
    pub fp16: Option<f64>,
    /// `peak_tflops.bf16`
    pub bf16: Option<f64>,
    /// `peak_tflops.fp8`
    pub fp8: Option<f64>,
}

/// `hardware:` one GPU.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HardwarePart {
    /// `gpu_type`: name or alias in the catalogue
    pub gpu_type: Option<String>,
    /// `custom`; an empty one (`{}`) is as good as absent
    pub custom: Option<CustomGpu>,
    /// `memory_limit_gb` (1e9 bytes a GB)
    pub memory_limit_gb: Option<f64>,
    /// `library_workspaces`
    pub library_workspaces: Option<bool>,
    /// `power_limit_w`
    pub power_limit_w: Option<f64>,
}

/// `cluster:` how many GPUs and how they are joined.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterPart {
    /// `num_gpus`
    pub num_gpus: Option<u64>,
    /// `nodes`
    pub nodes: Option<u64>,
    /// `gpus_per_node`
    pub gpus_per_node: Option<u64>,
    /// `interconnect` within a node
    pub interconnect: Option<String>,
    /// `network` between nodes
    pub network: Option<String>,
    /// `network_gb_s_per_gpu`, each way
    pub network_gb_s_per_gpu: Option<f64>,
    /// `nvlink_domain`: GPUs that NVLink joins
    pub nvlink_domain: Option<u64>,
}

/// `distribution:` who holds and computes what.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DistributionPart {
    /// `strategy`
    pub strategy: Option<Strategy>,
    /// `data_parallel`
    pub data_parallel: Option<u64>,
    /// `tensor_parallel`
    pub tensor_parallel: Option<u64>,
    /// `pipeline_parallel`
    pub pipeline_parallel: Option<u64>,
    /// `context_parallel`
    pub context_parallel: Option<u64>,
    /// `expert_parallel`
    pub expert_parallel: Option<u64>,
    /// `expert_tensor_parallel`
    pub expert_tensor_parallel: Option<u64>,
    /// `sequence_parallel`
    pub sequence_parallel: Option<bool>,
    /// `sharding`
    pub sharding: Option<Sharding>,
    /// `pipeline_schedule`
    pub pipeline_schedule: Option<Schedule>,
    /// `virtual_pipeline`
    pub virtual_pipeline: Option<u64>,
    /// `moe_dispatcher`
    pub moe_dispatcher: Option<MoeDispatcher>,
    /// `pipeline_layout`: Megatron's string
    pub pipeline_layout: Option<String>,
    /// `first_stage_layers`
    pub first_stage_layers: Option<u64>,
    /// `last_stage_layers`
    pub last_stage_layers: Option<u64>,
    /// `pipeline_counts_embedding_and_loss`
    pub pipeline_counts_embedding_and_loss: Option<bool>,
    /// `shard_group`: ranks that share one copy (HSDP)
    pub shard_group: Option<u64>,
    /// `optimizer_instances`
    pub optimizer_instances: Option<u64>,
    /// `reduce_dtype`
    pub reduce_dtype: Option<Dtype>,
    /// `cp_comm`
    pub cp_comm: Option<CpComm>,
    /// `async_tensor_parallel`
    pub async_tensor_parallel: Option<bool>,
    /// `overlap_grad_reduce`
    pub overlap_grad_reduce: Option<bool>,
    /// `overlap_param_gather`
    pub overlap_param_gather: Option<bool>,
    /// `overlap_tensor_parallel`
    pub overlap_tensor_parallel: Option<bool>,
    /// `overlap_expert_parallel`
    pub overlap_expert_parallel: Option<bool>,
}

/// `run:` the whole training.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunPart {
    /// `total_tokens`
    pub total_tokens: Option<f64>,
    /// `price_per_gpu_hour`
    pub price_per_gpu_hour: Option<f64>,
}

/// `analysis:` what the report holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnalysisPart {
    /// `enable_bottlenecks`
    pub enable_bottlenecks: Option<bool>,
    /// `basic_mode`
    pub basic_mode: Option<bool>,
}
