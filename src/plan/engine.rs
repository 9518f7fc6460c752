//! What each data-parallel engine can do, whoever runs it.

use super::keywords::{Engine, Sharding};

impl Engine {
    /// What it can share out.
    #[must_use]
    pub const fn shardings(self) -> &'static [Sharding] {
        match self {
            // ZeroRedundancyOptimizer shares states out beside it (torch/distributed/optim/zero_redundancy_optimizer.py).
            Self::Ddp => &[Sharding::None, Sharding::Zero1],
            // torch/distributed/fsdp/api.py, ShardingStrategy; _fully_shard/_fully_shard.py, reshard_after_forward.
            Self::Fsdp1 | Self::Fsdp2 => &[Sharding::Zero2, Sharding::Zero3],
            // deepspeed/runtime/zero/config.py, ZeroStageEnum.
            Self::Deepspeed => Sharding::ALL,
            // megatron-core, core/optimizer/distrib_optimizer.py.
            Self::Megatron => &[Sharding::None, Sharding::Zero1],
            // megatron-core, core/distributed/fsdp: optim, optim_grads, optim_grads_params.
            Self::MegatronFsdp => &[Sharding::Zero1, Sharding::Zero2, Sharding::Zero3],
        }
    }

    /// What it can share out beside so many pipeline stages.
    #[must_use]
    pub const fn shardings_with(self, stages: u64) -> &'static [Sharding] {
        match self {
            // deepspeed/runtime/pipe/engine.py, PipelineEngine.__init__.
            Self::Deepspeed if stages > 1 => &[Sharding::None, Sharding::Zero1],
            _ => self.shardings(),
        }
    }

    /// Whether it is one of PyTorch's FSDPs. Their second stage shares weights out as the third does, and leaves them
    /// gathered after their forward pass.
    #[must_use]
    pub const fn is_fsdp(self) -> bool {
        matches!(self, Self::Fsdp1 | Self::Fsdp2)
    }

    /// Whether it is Megatron's own, with or without its FSDP.
    #[must_use]
    pub const fn is_megatron(self) -> bool {
        matches!(self, Self::Megatron | Self::MegatronFsdp)
    }

    /// What is shared out where a plan names the engine alone.
    #[must_use]
    pub const fn by_itself(self) -> Sharding {
        match self {
            Self::Fsdp1 | Self::Fsdp2 | Self::MegatronFsdp => Sharding::Zero3,
            Self::Ddp | Self::Deepspeed | Self::Megatron => Sharding::None,
        }
    }
}
