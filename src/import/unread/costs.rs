//! Settings for which a plan has no key and which change what a step holds or how long it takes: by name and value,
//! with what is to be said of them. Other values of theirs are what is counted anyway.

use serde_json::Value;

use super::cost_table::{COSTS, on};
use crate::imported::ImportedPlan;
use crate::origin::Setting;
use crate::plan::keys;
use crate::rows::not_modelled;

/// Whose settings a cost is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    Everything,
    /// A base of 4 or 8 bits beneath adapters.
    QuantisedBase,
    Fsdp,
    Ddp,
    Zero3,
    Fp8,
    /// Attention whose scores are in memory.
    Eager,
    /// An MLP with a gate, or of a kind that is not told.
    Gated,
    /// Several ranks share each layer.
    SharedLayers,
    Gpus,
    /// A model with experts.
    Experts,
    /// A loss that has all logits before it.
    WholeLogits,
}

/// What a setting costs.
pub(super) struct Cost {
    /// Its last word; with dots, the end of its name; behind `=`, the whole of it.
    pub names: &'static [&'static str],
    /// Whether a value has that cost.
    pub costs: fn(&Value) -> bool,
    pub under: Under,
    /// Whether it changes the prediction; if not, it may.
    pub weighs: bool,
    pub what: &'static str,
}

/// Says what a setting costs that a plan has no key for, and sets the one of a setting that all tools mean alike; whether it
/// is one of these.
pub fn say(imported: &mut ImportedPlan, name: &str, found: &Setting<Value>, shown: &str) -> bool {
    let lower = name.trim_start_matches(['-', '+']).to_lowercase().replace('-', "_");
    let last = lower.rsplit('.').next().unwrap_or(&lower);
    // `transformers/trainer_utils.py`, `enable_full_determinism`; Megatron's `deterministic_mode`.
    let deterministic = ["full_determinism", "use_deterministic_algorithms"].contains(&last) && on(&found.value);
    if deterministic && imported.get(keys::training::deterministic).is_none() {
        imported.set(keys::training::deterministic, Some(Setting::new(true, found.origin.clone())));
    }
    let fits = |pattern: &str| match pattern.strip_prefix('=') {
        Some(whole) => lower == whole,
        None if pattern.contains('.') => {
            lower.strip_suffix(pattern).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        }
        None => last == pattern,
    };
    let mut known = deterministic;
    for cost in COSTS.iter().filter(|cost| cost.names.iter().any(|pattern| fits(pattern))) {
        known = true;
        if (cost.costs)(&found.value) && is_under(imported, cost.under) {
            let said = format!("{shown}: {}", cost.what);
            if cost.weighs { not_modelled(imported, &said) } else { imported.note(said) }
        }
    }
    known
}

/// Whether a model may have experts: by its shape, by its degrees, or by the name of its preset.
pub(super) fn has_experts(imported: &ImportedPlan) -> bool {
    const FAMILIES: &str = "moe mixtral deepseek-v gpt-oss kimi minimax dbrx grok glm-4 llama-4 jamba nemotron";
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default();
    // `30b-a3b`: of a size and another for each token.
    let active = preset.split('-').any(|word| word.starts_with('a') && word.ends_with('b'));
    let several = imported.whole(keys::distribution::expert_parallel).is_some_and(|degree| degree > 1);
    preset.is_empty() || several || active || FAMILIES.split(' ').any(|family| preset.contains(family))
}

fn is_under(imported: &ImportedPlan, under: Under) -> bool {
    let word = |key: &str| imported.get(key).and_then(|found| found.value.as_str()).unwrap_or_default();
    match under {
        Under::Everything => true,
        Under::QuantisedBase => imported.get(keys::lora::base_bits).is_some(),
        Under::Fsdp => word(keys::distribution::engine).starts_with("fsdp"),
        Under::Ddp => word(keys::distribution::engine) == "ddp",
        Under::Zero3 => word(keys::distribution::sharding) == "zero3",
        Under::Fp8 => word(keys::training::precision).starts_with("fp8"),
        Under::Eager => word(keys::training::attention) == "eager",
        Under::Gated => {
            let activation = word(keys::architecture::activation);
            activation.is_empty() || activation.contains("glu")
        }
        Under::SharedLayers => imported.whole(keys::distribution::tensor_parallel).is_some_and(|ranks| ranks > 1),
        Under::Experts => has_experts(imported),
        Under::Gpus => word(keys::hardware::gpu_type) != "cpu",
        Under::WholeLogits => !["fused", "chunked"].contains(&word(keys::training::loss)),
    }
}
