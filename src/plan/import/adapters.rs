//! Low-rank adapters by the names that frameworks have for them.

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use crate::plan::keys;

/// Where adapters go, in a plan's words: one for all linear layers, else the modules.
pub fn set_targets(imported: &mut ImportedPlan, found: Option<Setting<Vec<String>>>) {
    let Some(found) = found.filter(|found| !found.value.is_empty()) else { return };
    let all = |name: &String| matches!(name.as_str(), "all" | "all-linear" | "all_linear");
    let names = found.map(|names| if names.iter().any(all) { vec!["all-linear".to_owned()] } else { names });
    imported.set(keys::lora::targets, Some(names));
}

/// Adapters of `rank`, with the base weights in 16 bits or `bits`.
pub fn set(
    imported: &mut ImportedPlan,
    rank: Option<Setting<u64>>,
    default: (&'static str, u64),
    bits: Option<Setting<u64>>,
) {
    let (framework, usual) = default;
    let stood_in = || Setting::new(usual, Origin::Default { framework, option: format!("rank {usual}") });
    imported.set(keys::lora::rank, Some(rank.unwrap_or_else(stood_in)));
    let bits = bits.or_else(|| imported.quantised.clone());
    imported.set(keys::lora::base_bits, bits);
}
