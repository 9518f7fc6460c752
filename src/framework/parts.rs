//! The parts of a profile beside modules and engines.

use super::Rule;
use crate::plan::keys;
use crate::plan::keywords::{
    Attention, CpuOffload, Fp8Recipe, Framework, Loss, Mode, ModelType, Optimizer, Precision, RecomputeWord, Sharding,
};

/// Pipeline stages.
#[derive(Debug, PartialEq)]
pub struct PipelineRules {
    /// Each stage has buffers for what its neighbours send, one a micro batch, and its weights stay gathered from the
    /// first forward to the last backward pass.
    pub buffers_per_micro_batch: Rule<bool>,
    /// Each chunk keeps the hidden state that it was sent last, and its gradient, until the next step.
    pub keeps_last_received: Rule<bool>,
    /// Each stage loads only what it reads.
    pub loads_by_stage: Rule<bool>,
    /// Tensor-parallel ranks that hold the same activations each send a part of them.
    pub sends_parts: Rule<bool>,
    /// A stage sends and receives one tensor after the other, not in both directions at once.
    pub sends_one_by_one: Rule<bool>,
    /// How micro batches go round through the chunks of the interleaved schedule.
    pub interleaved: Rule<InterleavedRounds>,
    /// Layers that do not come out even over the stages are refused where no layout deals them out.
    pub even: Rule<bool>,
    /// A rank's batch is cut into as many micro batches as there are stages, where nothing says otherwise.
    pub cuts_batch: Rule<bool>,
}

/// How micro batches go round through the chunks of the interleaved schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterleavedRounds {
    /// In groups of as many as there are stages, the last of which may be larger.
    StageGroups,
    /// In as many equal rounds as leave each at least as many as there are stages.
    EqualRounds,
}

/// The optimizer step.
#[derive(Debug, PartialEq)]
pub struct OptimizerRules {
    /// `adamw` is the fused kernel: the framework chooses it.
    pub always_fused: Rule<bool>,
    /// The fused kernel counts steps on the host, not in device memory.
    pub counts_on_host: Rule<bool>,
    /// Whose 8-bit AdamW it is.
    pub eight_bit: Rule<EightBit>,
    /// 16-bit main gradients are copied to fp32 until the next step begins.
    pub copies_gradients: Rule<bool>,
}

/// Whose 8-bit AdamW it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EightBit {
    /// bitsandbytes': one kernel a tensor.
    Bitsandbytes,
    /// torchao's: compiled for each parameter, with fp32 temporaries.
    Torchao,
}

/// The loss.
#[derive(Debug, PartialEq)]
pub struct LossRules {
    /// The cross-entropy that keeps all logits.
    pub full: Rule<Loss>,
    /// The one that saves memory over the default.
    pub fused: Rule<Loss>,
    /// In so many parts one that keeps no logits takes the tokens, each with its backward pass through the head, whose
    /// gradient goes to the matrix at once. None: by Liger's law, in one function that keeps that gradient.
    pub parts: Rule<Option<u64>>,
    /// One that takes the logits in parts is compiled, whether or not the model is.
    pub compiles_parts: Rule<bool>,
    /// Over several tensor-parallel ranks logits stay sharded.
    pub sharded_logits: Rule<bool>,
    /// A training loop can hold on to what the model returned.
    pub returns_outputs: Rule<bool>,
    /// Where that stands, where it is neither transformers' nor PyTorch's own.
    pub cross_entropy: Option<&'static str>,
}

/// What runs beside what.
#[derive(Debug, PartialEq)]
pub struct Overlap {
    /// Gradients are reduced and weights gathered beside the passes, without being asked.
    pub by_itself: Rule<bool>,
    /// A plan that is silent on overlap in FP8, or on how experts are reached, means what NVIDIA's recipes do.
    pub nvidia_recipes: Rule<bool>,
    /// Saved tensors go to the host and come back beside the passes.
    pub offloads: Rule<bool>,
}

/// The caching allocator under it.
#[derive(Debug, PartialEq)]
pub struct AllocatorRules {
    /// One GPU's step is followed tensor by tensor: modules run as PyTorch runs them, in one stream.
    pub replayed: Rule<bool>,
    /// Segments expand, and each stream of FSDP's collectives has a pool.
    pub stream_pools: Rule<bool>,
}

/// What a process holds on a GPU beside PyTorch's allocator.
#[derive(Debug, PartialEq)]
pub struct ProcessRules {
    /// Its PyTorch is of before 1.13: CUDA loads every kernel at the start.
    pub loads_all_kernels: Rule<bool>,
    /// Ranks of a pipeline talk in groups beside those of the degrees: all of them, those of a replica, and those of a
    /// stage that send each other parts of activations.
    pub pipeline_groups: Rule<bool>,
}

/// What may be offloaded beside a pipeline and recomputation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadRules {
    /// Whatever a plan says.
    Anything,
    /// Weights stay; activations go neither along a pipeline nor beside recomputation.
    Megatron,
}

impl OffloadRules {
    /// Whether `offload` goes with a pipeline of so many stages and with what is recomputed.
    #[must_use]
    pub const fn allows(self, offload: CpuOffload, pipeline: u64, recomputes: bool) -> bool {
        match (self, offload) {
            (Self::Anything, _) | (Self::Megatron, CpuOffload::None | CpuOffload::Optimizer) => true,
            (Self::Megatron, CpuOffload::Parameters) => false,
            (Self::Megatron, CpuOffload::Activations) => pipeline == 1 && !recomputes,
        }
    }
}

/// How a model is cut, beside what data-parallel ranks share out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelParallelism {
    /// Each matrix.
    Tensor,
    /// Layers, by stages.
    Pipeline,
    /// Each sequence.
    Context,
    /// Experts.
    Expert,
}

impl ModelParallelism {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::Tensor, Self::Pipeline, Self::Context, Self::Expert];

    /// The plan's key of its degree.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tensor => keys::distribution::tensor_parallel,
            Self::Pipeline => keys::distribution::pipeline_parallel,
            Self::Context => keys::distribution::context_parallel,
            Self::Expert => keys::distribution::expert_parallel,
        }
    }

    /// As sentences call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Pipeline => "pipeline",
            Self::Context => "context",
            Self::Expert => "expert",
        }
    }
}

/// What may stand together, and what is worth trying.
#[derive(Debug, PartialEq)]
pub struct Support {
    /// Kinds of models that it has modules of, or trains whatever class they are of.
    pub kinds: Rule<&'static [ModelType]>,
    /// Its decoders are GPT-2's alone: learned positions, LayerNorm, GELU, as many KV heads as heads, no experts.
    pub only_gpt2: Rule<bool>,
    /// Its encoder-decoders are of one class with learned positions.
    pub learned_positions: Rule<bool>,
    /// How its own scripts cut a model that trains.
    pub splits: Rule<&'static [ModelParallelism]>,
    /// The same of a model that serves.
    pub serves_in: Rule<&'static [ModelParallelism]>,
    /// Experts are divided over tensor-parallel ranks, which have the same tokens, and over no others.
    pub experts_in_tensor: Rule<bool>,
    /// What its own scripts share out over data-parallel ranks. An engine that a plan names may do more.
    pub shards: Rule<&'static [Sharding]>,
    /// Plan keys that only this framework reads.
    pub own_keys: Rule<&'static [&'static str]>,
    /// Tensor-parallel ranks may be more than the model has KV heads.
    pub shares_kv_heads: Rule<bool>,
    /// Encoders and encoder-decoders are split by tensor parallelism too.
    pub splits_encoders: Rule<bool>,
    /// `torch.compile` is a switch of the framework's.
    pub compile: Rule<bool>,
    /// Partial recomputation, as the framework calls it.
    pub selective: Rule<RecomputeWord>,
    /// Optimizer, adapters and stored types can be swapped, as in any PyTorch script: 8-bit AdamW, an optimizer step in
    /// the backward pass, LoRA, pure 16 bit.
    pub swappable_parts: Rule<bool>,
    /// fp32 weights under autocast.
    pub autocast: Rule<bool>,
    /// The type of main gradients can be chosen.
    pub gradient_dtype: Rule<bool>,
    /// Norms and dropouts can be split along the sequence by a flag.
    pub sequence_parallel: Rule<bool>,
    /// States can be shared out within groups of ranks.
    pub shard_groups: Rule<bool>,
    /// Batches come padded, and loops keep a model's outputs, unless the user takes care.
    pub user_loop: Rule<bool>,
    /// What may be offloaded.
    pub offload: Rule<OffloadRules>,
    /// A model is written in stages by hand: nobody is told to cut one into a pipeline.
    pub stages_by_hand: Rule<bool>,
    /// The fork that trains models with ALiBi, where the framework itself has no such attention.
    pub alibi_by: Rule<Option<Framework>>,
}

impl Support {
    /// How a model is cut in `mode`.
    #[must_use]
    pub const fn splits_in(&self, mode: Mode) -> &'static [ModelParallelism] {
        match mode {
            Mode::Train => self.splits.is,
            Mode::Inference => self.serves_in.is,
        }
    }
}

/// What absent keys mean.
#[derive(Debug, PartialEq)]
pub struct Defaults {
    /// `training.precision`
    pub precision: Rule<Precision>,
    /// `training.optimizer`
    pub optimizer: Rule<Optimizer>,
    /// `training.attention`
    pub attention: Rule<Attention>,
    /// `training.loss`
    pub loss: Rule<Loss>,
    /// `training.fp8_recipe`
    pub fp8_recipe: Rule<Fp8Recipe>,
    /// `distribution.sequence_parallel`, under tensor parallelism.
    pub sequence_parallel: Rule<bool>,
    /// FP8 training keeps 16-bit weights with fp32 masters, not fp32 weights.
    pub fp8_masters: Rule<bool>,
    /// `training.moe_grouped_gemm`
    pub grouped_experts: Rule<bool>,
    /// `training.gradient_accumulation_fusion`
    pub gradient_accumulation_fusion: Rule<bool>,
    /// `training.launch_blocking`
    pub launch_blocking: Rule<bool>,
    /// `training.gradient_clipping`
    pub gradient_clipping: Rule<bool>,
    /// `training.dropout`; absent: what the model's configuration says.
    pub dropout: Rule<Option<f64>>,
}
