//! What a plan file says, key by key. A key that is absent is `None`: nothing is
//! filled in here. What absent keys come to mean is decided once, by
//! [`crate::predict::Job`].

mod model;

pub use model::{ArchitecturePart, Checkpointing, HfConfig, LoraPart, MlaPart, ModelPart, ModelTrace, MoePart};

use crate::plan::keywords::{
    Attention, CpComm, CpuOffload, CudaGraph, Dtype, Engine, Fp8Recipe, Loss, Mode, MoeDispatcher, Optimizer,
    Precision, Schedule, Sharding, Strategy,
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

/// `hardware.custom:` a GPU of the user's own, or single figures that override the catalogue's.
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
    /// `engine`: what shares states out and reduces gradients
    pub engine: Option<Engine>,
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
