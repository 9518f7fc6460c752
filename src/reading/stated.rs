//! What a run's log states of its training: its header, which frameworks write before the first step.

use serde::{Deserialize, Serialize};

/// A type of numbers as logs name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatedType {
    /// `float32`.
    Fp32,
    /// `bfloat16`.
    Bf16,
    /// `float16`.
    Fp16,
}

impl StatedType {
    /// As plans write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
        }
    }
}

/// How much is computed again for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StatedCheckpointing {
    /// Nothing.
    None,
    /// A part of a block.
    Selective,
    /// Blocks.
    Full,
}

/// What a log states of the run. What it does not state is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatedSettings {
    /// Parameters of the whole model, as the log rounds them.
    pub params: Option<u64>,
    /// Half a step of the last digit that they are written with.
    pub params_within: u64,
    /// Those that are trained.
    pub trainable: Option<u64>,
    /// What matrices are multiplied in.
    pub compute: Option<StatedType>,
    /// What weights are stored in.
    pub weights: Option<StatedType>,
    /// Samples of a pass on one GPU.
    pub micro_batch: Option<u64>,
    /// Passes of an optimizer step.
    pub accumulation: Option<u64>,
    /// Samples of an optimizer step of the whole run.
    pub global_batch: Option<u64>,
    /// Tokens of a sample.
    pub sequence: Option<u64>,
    /// Tokens of an optimizer step of the whole run.
    pub tokens: Option<u64>,
    /// Optimizer steps of the run.
    pub steps: Option<u64>,
    /// Epochs of the run.
    pub epochs: Option<u64>,
    /// What is computed again.
    pub checkpointing: Option<StatedCheckpointing>,
    /// Ranks.
    pub world: Option<u64>,
    /// Ranks that share each matrix.
    pub tensor: Option<u64>,
    /// Pipeline stages.
    pub pipeline: Option<u64>,
    /// Ranks that share each sequence.
    pub context: Option<u64>,
    /// Ranks that share the experts.
    pub expert: Option<u64>,
    /// Whether data-parallel ranks share out the optimizer's states by a flag of their own.
    pub distributed_optimizer: Option<bool>,
    /// Blocks of the model.
    pub layers: Option<u64>,
    /// Width of its residual stream.
    pub hidden: Option<u64>,
}

impl StatedSettings {
    /// Whether nothing is stated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
