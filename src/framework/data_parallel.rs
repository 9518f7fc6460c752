//! What shares states out over data-parallel ranks, and reduces gradients.

use super::Rule;
use crate::plan::keywords::{Engine, Precision, Sharding};

/// The type in which FSDP reduces gradients where nothing says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceType {
    /// That of the stored weights.
    Stored,
    /// That of the gathered ones.
    Gathered,
}

/// Plans whose buckets of gradients are summed whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeBuckets {
    /// None: each share goes to the rank that keeps it.
    None,
    /// Those that compute in bf16.
    Bf16,
    /// All.
    All,
}

/// Engines of a framework.
#[derive(Debug, PartialEq)]
pub struct DataParallel {
    /// Those that it runs under.
    pub engines: Rule<&'static [Engine]>,
    /// Where every rank holds everything.
    pub replicated: Rule<Engine>,
    /// Where optimizer states are shared out.
    pub zero1: Rule<Engine>,
    /// Where gradients or weights are too.
    pub sharded: Rule<Engine>,
    /// The same where 16-bit weights have fp32 masters beside them.
    pub sharded_with_masters: Rule<Engine>,
    /// Shardings that are worth proposing where the plan names no engine.
    pub proposed: Rule<&'static [Sharding]>,
    /// FSDP casts the shards that it gathers, on one GPU as well: there is no autocast.
    pub casts_shards: Rule<bool>,
    /// Without FSDP nothing is computed in fewer bits than it is stored in, where tensor or pipeline ranks split the model.
    pub splits_in_full: Rule<bool>,
    /// Gradients that FSDP reduces.
    pub reduces_in: Rule<ReduceType>,
    /// Main gradients lie in a buffer that stays from step to step, and each new one is added to it.
    pub gradients_stay: Rule<bool>,
    /// FSDP reduces gradients behind the last of a step's micro-batches alone, and keeps them whole until then.
    pub accumulates_whole: Rule<bool>,
    /// Where DeepSpeed's first two stages sum whole buckets of gradients on every rank, though each keeps its share alone.
    pub sums_whole_buckets: Rule<WholeBuckets>,
    /// Plans in bf16 with masters are DeepSpeed's BF16_Optimizer's, which keeps bf16 gradients beside those in fp32; plans in
    /// fp16 are its ZeRO optimizer's, which frees what it has flattened.
    pub has_bf16_optimizer: Rule<bool>,
}

impl DataParallel {
    /// The engine of a plan that names none, and where it is said.
    ///
    /// ```
    /// # use memwall_core as memwall;
    /// use memwall::framework::Profile;
    /// use memwall::plan::keywords::{Engine, Precision, Sharding};
    ///
    /// let engines = &Profile::standard().data_parallel;
    /// assert_eq!(engines.derived(Sharding::Zero3, Precision::Fp32).is, Engine::Fsdp1);
    /// assert_eq!(engines.derived(Sharding::Zero3, Precision::Bf16Fp32Master).is, Engine::Deepspeed);
    /// ```
    #[must_use]
    pub const fn derived(&self, sharding: Sharding, precision: Precision) -> Rule<Engine> {
        match (sharding, precision) {
            (Sharding::None, _) => self.replicated,
            (Sharding::Zero1, _) => self.zero1,
            (Sharding::Zero2 | Sharding::Zero3, Precision::Bf16Fp32Master | Precision::Fp16Fp32Master) => {
                self.sharded_with_masters
            }
            (Sharding::Zero2 | Sharding::Zero3, _) => self.sharded,
        }
    }
}
