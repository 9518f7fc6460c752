//! What a loop of one's own does to its model that is not followed.

use super::OwnLoop;
use crate::imported::ImportedPlan;
use crate::origin::Origin;
use crate::plan::keys;
use crate::rows::not_modelled;
use crate::script_doubts::code;

/// accelerate's configuration of how ranks are split.
pub(super) const SPLIT: &str = "ParallelismConfig";

impl OwnLoop {
    /// Takes out what is guessed where the loop shards by itself, or computes in 8 bits, and says so.
    pub(super) fn unfollowed(&self, imported: &mut ImportedPlan) {
        let loops = |parts: &[&'static str]| {
            parts.iter().find(|part| code(&self.text).any(|line| line.contains(**part))).copied()
        };
        const SHARDS: [&str; 8] = [
            "deepspeed.initialize(",
            "FullyShardedDataParallel(",
            "FSDP(",
            "fully_shard(",
            "deepspeed_plugin",
            "fsdp_plugin",
            "FullyShardedDataParallelPlugin(",
            "megatron_lm_plugin",
        ];
        if let Some(call) = self.eight_bits {
            imported.drop(keys::training::precision);
            imported.miss(keys::training::precision, format!("{} has {call}(, which is not followed", self.path));
        }
        let guessed = |imported: &ImportedPlan, key: &str| {
            imported.get(key).is_some_and(|found| matches!(found.origin, Origin::Default { .. }))
        };
        let sharding = loops(&SHARDS).or_else(|| self.splits_ranks.then_some("ParallelismConfig("));
        if let Some(part) = sharding.filter(|_| guessed(imported, "distribution.sharding")) {
            for key in ["distribution.sharding", "distribution.engine", "training.precision"] {
                if guessed(imported, key) {
                    imported.drop(key);
                    imported.miss(key, format!("{} has {part}, which is not followed", self.path));
                }
            }
        }
        // The Trainer's `--fsdp` does nothing in a loop that wraps its model itself, in types of its own.
        let told = imported.get(keys::distribution::sharding).map(|found| found.origin.to_string());
        let unheard =
            told.is_some_and(|told| told.starts_with("--fsdp")) && !code(&self.text).any(|line| line.contains(".fsdp"));
        if let Some(part) = loops(&["FullyShardedDataParallel(", "FSDP("]).filter(|_| unheard) {
            for key in [keys::distribution::sharding, keys::distribution::engine, keys::training::precision] {
                imported.drop(key);
                imported.miss(key, format!("{} has {part}, which is not followed; it never names --fsdp", self.path));
            }
        }
        if self.splits_ranks {
            not_modelled(imported, &format!("{}: how {SPLIT}( splits its ranks is not followed", self.path));
        }
    }
}
