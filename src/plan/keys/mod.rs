//! Every key of the plan file, once: its path, its kind, its line for the schema, and the field of [`Plan`] that it
//! fills. Code names a key by its constant: `keys::training::precision` is `"training.precision"`.

#[macro_use]
mod macros;

use super::keywords::{
    Activation, Attention, CpComm, CpuOffload, CudaGraph, Dtype, Engine, Fp8Recipe, Framework, GenerationBeside, Loss,
    MasterDtype, Mode, ModelHead, ModelType, MoeDispatcher, Norm, Optimizer, Position, Precision, RecomputeModule,
    RecomputeWord, Schedule, Sharding, Strategy, TransformerImpl,
};
use super::read::PlanReader;
use super::schema::{PlanKey, ValueKind};
use super::types::{Checkpointing, HfConfig, ModelTrace};

/// Upper bounds: far above any real run, and low enough for arithmetic over several of
/// them to stay within its types.
mod most {
    pub const WIDTH: u64 = 1 << 20;
    pub const LAYERS: u64 = 10_000;
    pub const TOKENS: u64 = 1 << 27;
    pub const BATCH: u64 = 1 << 24;
    pub const GPUS: u64 = 1 << 20;
    pub const VOCABULARY: u64 = 1 << 24;
    pub const EXPERTS: u64 = 1 << 14;
    pub const PIXELS: u64 = 1 << 16;
    pub const IMAGES: u64 = 1 << 12;
    /// 100 trillion parameters.
    pub const BILLIONS: f64 = 1e5;
    pub const RUN_TOKENS: f64 = 1e16;
}

section!(MODEL, model, ModelPart, "model", "what is trained", {
    trace: trace(), "a tape of memwall trace: its path";
    hf_config: hf_config(), "a Hugging Face config.json: its path, or its keys";
    preset: text(), "a model of the catalogue, by name";
    architecture: maybe_empty(architecture, ArchitecturePart), "the architecture, field by field";
    layers: texts(), "layers one behind the other: [linear:784x512, relu, linear:512x10]";
    input_gradient: flag(), "those layers stand inside of a larger model: their input needs a gradient";
    size_billions: positive(most::BILLIONS), "billions of parameters, where no architecture is known";
    model_type as "type": word(ModelType), "the kind of architecture";
    head: word(ModelHead), "what stands in place of the vocabulary's head";
    classes: whole(most::VOCABULARY), "classes of a head in place of the vocabulary's; 1 for a reward model";
    batch_size: whole(most::BATCH), "global batch: samples per optimizer step";
    sequence_length: whole(most::TOKENS), "tokens per sample";
    decoder_sequence_length: whole(most::TOKENS), "tokens per sample in the decoder";
    encoder_sequence_length: whole(most::TOKENS), "tokens per sample in the encoder";
    image_size: whole(most::PIXELS), "pixels a side; of a U-Net latents, an eighth of them";
    images: from_zero(most::IMAGES), "images (or tiles) of a sample that a language model sees";
    framework: word(Framework), "whose modules run";
    transformer_impl: word(TransformerImpl), "whose modules Megatron uses";
});

section!(ARCHITECTURE, architecture, ArchitecturePart, "model.architecture", "the architecture, field by field", {
    hidden_size: whole(most::WIDTH), "width of the residual stream";
    num_layers: whole(most::LAYERS), "blocks, of the decoder where there are two stacks";
    num_attention_heads: whole(most::WIDTH), "query heads";
    num_kv_heads: whole(most::WIDTH), "key and value heads (grouped-query attention)";
    head_dim: whole(most::WIDTH), "width of a head; default hidden_size / num_attention_heads";
    intermediate_size: whole(most::WIDTH), "width inside the MLP";
    vocab_size: whole(most::VOCABULARY), "tokens in the vocabulary";
    vocab_padding_multiple: whole(most::VOCABULARY), "the vocabulary is padded to a multiple of this; final";
    max_position_embeddings: whole(most::TOKENS), "longest sequence";
    tie_embeddings: flag(), "output layer shares the embedding's weights";
    position: word(Position), "how positions enter";
    activation: word(Activation), "the MLP's activation function";
    norm: word(Norm), "the normalisation";
    linear_bias: flag(), "linear layers have biases";
    qkv_bias: flag(), "query, key and value projections have biases";
    norm_bias: flag(), "norms have biases";
    qk_norm: flag(), "queries and keys are normalised";
    parallel_block: flag(), "attention and MLP side by side";
    sliding_window: whole(most::TOKENS), "tokens that attention sees back";
    logit_softcap: positive(1e6), "logits are squashed to within this";
    moe: section(moe, MoePart), "a mixture of experts";
    mla: section(mla, MlaPart), "multi-head latent attention";
    num_encoder_layers: whole(most::LAYERS), "blocks of the encoder";
    mtp_layers: from_zero(most::LAYERS), "multi-token prediction layers";
    pooler: flag(), "the encoder has a pooler";
    adaptive_norm: text(), "conditioning through the norms, e.g. adaln_zero (DiT)";
    learn_sigma: flag(), "the variance is predicted too (DiT)";
    image_size: whole(most::PIXELS), "pixels (or latents) a side";
    patch_size: whole(most::PIXELS), "pixels a side of a patch";
    channels: whole(most::PIXELS), "channels of the image";
    stages: wholes(most::LAYERS), "blocks in each stage of a convolutional network";
    num_classes: whole(most::VOCABULARY), "classes";
});

section!(MOE, moe, MoePart, "model.architecture.moe", "a mixture of experts", {
    num_experts: whole(most::EXPERTS), "experts in a layer";
    experts_per_token: whole(most::EXPERTS), "experts that a token visits";
    intermediate_size: whole(most::WIDTH), "width inside one expert";
    shared_intermediate_size: from_zero(most::WIDTH), "width of the expert that every token visits";
    first_dense_layers: from_zero(most::LAYERS), "layers before the first with experts";
    layer_frequency: whole(most::LAYERS), "experts in every N-th layer";
});

section!(MLA, mla, MlaPart, "model.architecture.mla", "multi-head latent attention", {
    q_lora_rank: whole(most::WIDTH), "rank of the query projection; absent: not factored";
    kv_lora_rank: whole(most::WIDTH), "rank of the latent keys and values";
    qk_nope_head_dim: whole(most::WIDTH), "part of a query and key head without rotation";
    qk_rope_head_dim: whole(most::WIDTH), "part of a query and key head with rotation";
    v_head_dim: whole(most::WIDTH), "width of a value head";
});

section!(TRAINING, training, TrainingPart, "training", "how it is trained", {
    mode: word(Mode), "training step or inference";
    precision: word(Precision), "what is stored in which type";
    autocast: flag(), "torch.autocast around weights of 16 bits, as the Trainer's bf16 has it; mixed precisions are so anyway";
    optimizer: word(Optimizer), "the optimizer and its kernels";
    embedding_states_fp32: flag(), "embeddings keep their states in fp32 beside adamw-8bit, as transformers' Trainer has it";
    attention: word(Attention), "which kernels compute attention";
    activation_checkpointing: recomputation(), "what is recomputed in the backward pass";
    use_reentrant: flag(), "it is PyTorch's reentrant checkpoint: blocks run again to their last operator";
    loss: word(Loss), "what the loss keeps of the logits";
    micro_batch_size: whole(most::BATCH), "samples per GPU per forward pass";
    gradient_accumulation_steps: whole(most::BATCH), "forward passes per optimizer step";
    compile: flag(), "torch.compile: elementwise chains fused";
    dropout: share(), "overrides the model's own";
    optimizer_in_backward: flag(), "each gradient applied and freed as it is made";
    gradient_dtype: word(Dtype), "type of the main gradients";
    cpu_offload: word(CpuOffload), "what lives in host memory";
    distributed_optimizer: flag(), "Megatron's: states sharded over data-parallel ranks";
    lora: section(lora, LoraPart), "adapters; base weights frozen";
    frozen: texts(), "parts without gradients, e.g. embeddings, or modules of a trace; vision_tower, language_model";
    weight_decay: amount(1.0), "weight decay";
    gradient_clipping: flag_or_amount(), "gradients are clipped by their norm";
    padded_batch: flag(), "a real padding mask: fused attention may not apply";
    use_cache: flag(), "keys and values are kept for later tokens (inference; default true)";
    weight_bits: choice(&[4]), "bits of the blocks' matrices that answer requests, as GPTQ and AWQ hold them (inference)";
    kv_cache_dtype: word(Dtype), "type of the KV cache: bf16, fp16, fp32, fp8, int8; default the computation's";
    cache_latents: flag(), "latent attention caches its compressed keys and values, as servers do, not each head's";
    keep_outputs: flag(), "model outputs stay alive until the next step";
    liger_kernels: texts(), "modules of transformers that Liger's kernels replace: rms_norm, rope, glu";
    channels_last: flag(), "convolutions in NHWC";
    deterministic: flag(), "deterministic kernels";
    fp8_recipe: word(Fp8Recipe), "how FP8 scales are kept";
    fp8_param_gather: flag(), "parameters are gathered in FP8";
    optimizer_state_dtype: word(Dtype), "type of the optimizer states";
    master_dtype: word(MasterDtype), "type of the masters that Transformer Engine's FusedAdam keeps (Megatron's precision-aware optimizer, or under FSDP2)";
    gradient_accumulation_fusion: flag(), "the matrix multiplication adds weight gradients into the main gradients";
    attention_softmax_fp32: flag(), "softmax of attention in fp32";
    defer_embedding_wgrad: flag(), "the output layer's weight gradient waits for the pipeline to drain";
    offload_modules: texts(), "modules whose activations go to host memory";
    offload_layers: from_zero(most::LAYERS), "layers whose activations go to host memory";
    cuda_graph: word(CudaGraph), "what is captured in CUDA graphs";
    moe_grouped_gemm: flag(), "all experts in one grouped GEMM";
    moe_capacity_factor: positive(1e3), "room an expert has, in parts of an even share";
    launch_blocking: flag(), "CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel";
    reference_model: flag(), "a frozen copy, or with adapters the base, reads each sample too (DPO, KTO)";
    frozen_models_billions: positive(most::BILLIONS), "billions of parameters of other frozen models beside it: a vision tower, a teacher";
    critic_model: flag(), "a second trained model of its size beside it, with states of its own (PPO)";
    generation_memory: share(), "part of a GPU's memory that an engine takes to generate answers (vLLM, SGLang)";
    generation_beside: word(GenerationBeside), "what stands on the GPU while that engine generates; default step";
});

/// Paths of the keys that may stand in [`training::activation_checkpointing`] instead of a word.
#[allow(non_upper_case_globals, reason = "written as in a plan")]
pub mod recomputation {
    /// Every K-th block is recomputed.
    pub const every: &str = "training.activation_checkpointing.every";
    /// Megatron's modules that are recomputed.
    pub const modules: &str = "training.activation_checkpointing.modules";
    /// Classes of a traced model's blocks that are recomputed.
    pub const classes: &str = "training.activation_checkpointing.classes";
}

const RECOMPUTATION: &[PlanKey] = &[
    PlanKey { path: recomputation::every, kind: kind!(whole(most::LAYERS)), line: "every K-th block is recomputed" },
    PlanKey {
        path: recomputation::modules,
        kind: kind!(words(RecomputeModule)),
        line: "Megatron's modules that are recomputed",
    },
    PlanKey {
        path: recomputation::classes,
        kind: kind!(texts()),
        line: "classes of a traced model's blocks that are recomputed",
    },
];

section!(LORA, lora, LoraPart, "training.lora", "adapters; base weights frozen", {
    rank: whole(most::WIDTH), "rank of the adapters";
    targets: texts(), "modules that get adapters, e.g. q_proj";
    modules_to_save: texts(), "embedding, output matrix or projector, where a copy of them trains whole beside the adapters";
    vision_tower: flag(), "layers of these names in a tower of vision and its projector get adapters too";
    dropout: share(), "dropout before the adapters";
    base_bits: choice(&[4, 8]), "base weights quantised to so many bits (QLoRA)";
    double_quant: flag(), "the quantisation's scales are quantised too";
    dtype: word(Dtype), "type of the adapters' weights; default the framework's";
    kernels: texts(), "layers that axolotl's kernels run with their adapters at once: mlp, qkv, o";
});

section!(HARDWARE, hardware, HardwarePart, "hardware", "one GPU", {
    gpu_type: text(), "a GPU of the catalogue, by name";
    custom: maybe_empty(custom, CustomGpu), "a GPU of your own, or single values over the catalogue's";
    memory_limit_gb: positive(1e5), "cap below the GPU's memory, in GB (1e9 bytes)";
    library_workspaces: flag(), "count cuBLAS and cuDNN workspaces";
    power_limit_w: positive(1e5), "power cap in watts";
});

section!(CUSTOM, custom, CustomGpu, "hardware.custom", "a GPU of your own, or single figures over the catalogue's", {
    name: text(), "its name";
    memory_gb: positive(1e5), "memory in GB (1e9 bytes)";
    bandwidth_gb_s: positive(1e6), "DRAM bandwidth in GB/s";
    fp32 as "peak_tflops.fp32": positive(1e6), "dense fp32 peak in TFLOP/s";
    tf32 as "peak_tflops.tf32": positive(1e6), "dense TF32 peak in TFLOP/s";
    fp16 as "peak_tflops.fp16": positive(1e6), "dense fp16 peak in TFLOP/s";
    bf16 as "peak_tflops.bf16": positive(1e6), "dense bf16 peak in TFLOP/s";
    fp8 as "peak_tflops.fp8": positive(1e6), "dense FP8 peak in TFLOP/s";
});

/// The section in which the peaks of [`CustomGpu`] stand.
const PEAKS: &[PlanKey] = &[PlanKey {
    path: "hardware.custom.peak_tflops",
    kind: ValueKind::Section,
    line: "dense peaks in TFLOP/s, by type",
}];

section!(CLUSTER, cluster, ClusterPart, "cluster", "how many GPUs, and how they are joined", {
    num_gpus: whole(most::GPUS), "GPUs in all";
    nodes: whole(most::GPUS), "nodes";
    gpus_per_node: whole(most::GPUS), "GPUs in a node";
    interconnect: text(), "link within a node, by name";
    network: text(), "link between nodes, by name";
    network_gb_s_per_gpu: positive(1e5), "network bandwidth of one GPU each way, in GB/s";
    nvlink_domain: whole(most::GPUS), "GPUs that NVLink joins";
});

section!(DISTRIBUTION, distribution, DistributionPart, "distribution", "who holds and computes what", {
    strategy: word(Strategy), "fills the degrees that are absent";
    data_parallel: whole(most::GPUS), "ranks that hold different samples";
    tensor_parallel: whole(most::GPUS), "ranks that share each layer";
    pipeline_parallel: whole(most::GPUS), "stages that share the layers";
    context_parallel: whole(most::GPUS), "ranks that share a sequence";
    expert_parallel: whole(most::GPUS), "ranks that share the experts";
    expert_tensor_parallel: whole(most::GPUS), "ranks that share each expert; default tensor_parallel";
    sequence_parallel: flag(), "Megatron's: norms and dropouts split along the sequence";
    sharding: word(Sharding), "what data-parallel ranks share out";
    engine: word(Engine), "what shares states out and reduces gradients";
    pipeline_schedule: word(Schedule), "order of micro batches in a pipeline";
    virtual_pipeline: whole(most::LAYERS), "pieces of the model on each stage (interleaved)";
    moe_dispatcher: word(MoeDispatcher), "how tokens reach their experts";
    pipeline_layout: text(), "Megatron's layout string";
    first_stage_layers: whole(most::LAYERS), "layers of the first stage";
    last_stage_layers: whole(most::LAYERS), "layers of the last stage";
    pipeline_counts_embedding_and_loss: flag(), "embedding and loss count as a layer in the split";
    shard_group: whole(most::GPUS), "ranks that share one copy (HSDP)";
    optimizer_instances: whole(most::GPUS), "copies of the distributed optimizer";
    reduce_dtype: word(Dtype), "type in which gradients are reduced";
    cp_comm: word(CpComm), "how context-parallel ranks exchange keys and values";
    async_tensor_parallel: flag(), "torchtitan's: matrix multiplications overlap with their communication";
    overlap_grad_reduce: flag(), "gradient reduction overlaps with the backward pass";
    overlap_param_gather: flag(), "parameter gathering overlaps with the forward pass";
    overlap_tensor_parallel: flag(), "tensor-parallel communication overlaps with matrix multiplications";
    overlap_expert_parallel: flag(), "token dispatch overlaps with computation";
    gradient_as_bucket_view: flag(), "DDP's gradients are views of its buckets: no copy beside them";
    sync_each_micro_batch: flag(), "FSDP reduces gradients behind each micro batch (Accelerate's sync_each_batch)";
});

section!(RUN, run, RunPart, "run", "the whole training", {
    total_tokens: positive(most::RUN_TOKENS), "tokens of the whole training";
    price_per_gpu_hour: amount(1e6), "price of a GPU for an hour";
    currency: text(), "currency of that price; default USD";
});

section!(ANALYSIS, analysis, AnalysisPart, "analysis", "what the report holds", {
    enable_bottlenecks: flag(), "look for bottlenecks";
    basic_mode: flag(), "the short report: the verdict, memory by component and the time of a step";
});

plan! {
    model: ModelPart, "what is trained", [MODEL, ARCHITECTURE, MOE, MLA];
    training: TrainingPart, "how it is trained", [TRAINING, RECOMPUTATION, LORA];
    hardware: HardwarePart, "one GPU", [HARDWARE, PEAKS, CUSTOM];
    cluster: ClusterPart, "how many GPUs, and how they are joined", [CLUSTER];
    distribution: DistributionPart, "who holds and computes what", [DISTRIBUTION];
    run: RunPart, "the whole training", [RUN];
    analysis: AnalysisPart, "what the report holds", [ANALYSIS];
}
