//! What a framework does, as data: one [`Profile`] a framework, one file each.
//!
//! A profile answers every question that prediction, advice and comparison have about a framework: what its modules
//! save and fuse, which engine shares states out, how its pipeline, optimizer, loss and allocator behave, what runs
//! beside what, what may stand together, and what an absent key means. Each answer is a [`Rule`] with the file that
//! says so. Nobody else asks which framework it is; `tests` hold that.
//!
//! A new framework is a file here, its line in [`Profile::of`], a name in [`crate::plan::keywords::Framework`] and a row
//! of `stacks` in `configs/efficiency.yaml`.

mod data_parallel;
mod litgpt;
mod llm_foundry;
mod megatron;
mod megatron_deepspeed;
mod modules;
mod nanogpt;
mod parts;
mod torchtitan;
mod torchvision;
mod transformers;

pub use data_parallel::{DataParallel, ReduceType, WholeBuckets};
pub use modules::{
    AdapterType, Experts, Gate, Gather, Layout, LigerKernels, Module, Modules, PointwiseAct, RmsNorm, Rope,
    SharedSequence, Softmax, SplitHeads,
};
pub use parts::{
    AllocatorRules, Defaults, EightBit, InterleavedRounds, LossRules, ModelParallelism, OffloadRules, OptimizerRules,
    Overlap, PipelineRules, ProcessRules, Support,
};

use crate::plan::keywords::{Framework, Position, TransformerImpl};

/// A choice, and where it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule<T> {
    /// The choice.
    pub is: T,
    /// The framework's file or the paper.
    pub source: &'static str,
}

pub(crate) const fn rule<T>(is: T, source: &'static str) -> Rule<T> {
    Rule { is, source }
}

/// Everything that prediction asks about a framework.
#[derive(Debug, PartialEq)]
pub struct Profile {
    /// The name in the plan file.
    pub framework: Framework,
    /// What its modules save and fuse.
    pub modules: Modules,
    /// What shares states out over data-parallel ranks.
    pub data_parallel: DataParallel,
    /// Pipeline stages.
    pub pipeline: PipelineRules,
    /// The optimizer step.
    pub optimizer: OptimizerRules,
    /// The loss.
    pub loss: LossRules,
    /// What runs beside what.
    pub overlap: Overlap,
    /// The caching allocator under it.
    pub allocator: AllocatorRules,
    /// What a process holds beside it.
    pub process: ProcessRules,
    /// What may stand together, and what is worth trying.
    pub support: Support,
    /// What absent keys mean.
    pub defaults: Defaults,
}

impl Profile {
    /// Whether norms and dropouts can be split along the sequence, by a flag or by itself.
    #[must_use]
    pub const fn splits_sequence(&self) -> bool {
        self.support.sequence_parallel.is || self.defaults.sequence_parallel.is
    }

    /// The profile of `framework`. Only Megatron has a choice of `implementation`.
    ///
    /// ```
    /// # use memwall_core as memwall;
    /// use memwall::framework::Profile;
    /// use memwall::plan::keywords::{Framework, TransformerImpl};
    ///
    /// let megatron = Profile::of(Framework::Megatron, TransformerImpl::Local);
    /// assert!(!megatron.modules.transformer_engine.is);
    /// ```
    #[must_use]
    pub const fn of(framework: Framework, implementation: TransformerImpl) -> &'static Self {
        match (framework, implementation) {
            (Framework::Pytorch, _) => &transformers::PROFILE,
            (Framework::Megatron, TransformerImpl::TransformerEngine) => &megatron::PROFILE,
            (Framework::Megatron, TransformerImpl::Local) => &megatron::LOCAL,
            (Framework::MegatronDeepspeed, _) => &megatron_deepspeed::PROFILE,
            (Framework::Torchtitan, _) => &torchtitan::PROFILE,
            (Framework::Nanogpt, _) => &nanogpt::PROFILE,
            (Framework::LlmFoundry, _) => &llm_foundry::PROFILE,
            (Framework::Litgpt, _) => &litgpt::PROFILE,
            (Framework::Torchvision, _) => &torchvision::PROFILE,
        }
    }

    /// The names of all frameworks, as plans write them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Framework::ALL.iter().map(|one| one.name())
    }

    /// The profile that trains a model with `position`: this one, or the fork that has what this one lacks.
    ///
    /// ```
    /// # use memwall_core as memwall;
    /// use memwall::framework::Profile;
    /// use memwall::plan::keywords::{Framework, Position, TransformerImpl};
    ///
    /// let megatron = Profile::of(Framework::Megatron, TransformerImpl::Local);
    /// assert_eq!(megatron.for_position(Position::Alibi).framework, Framework::MegatronDeepspeed);
    /// assert_eq!(megatron.for_position(Position::Rope).framework, Framework::Megatron);
    /// ```
    #[must_use]
    pub fn for_position(&'static self, position: Position) -> &'static Self {
        match (position, self.support.alibi_by.is) {
            (Position::Alibi, Some(fork)) => Self::of(fork, TransformerImpl::Local),
            _ => self,
        }
    }

    /// The profile of a plan that names no framework: transformers' modules on PyTorch.
    #[must_use]
    pub const fn standard() -> &'static Self {
        &transformers::PROFILE
    }

    /// The name in the plan file.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.framework.name()
    }
}

#[cfg(test)]
mod tests;
