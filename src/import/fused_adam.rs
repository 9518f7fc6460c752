//! Transformer Engine's `FusedAdam` where a recipe names it: masters and moments have types of their own
//! (`transformer_engine/pytorch/optimizers/fused_adam.py`).

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::precision_aware::short;
use super::rows::not_modelled;
use super::settings::Settings;
use crate::plan::keys;

const FRAMEWORK: &str = "Transformer Engine 2.1";

/// Whether a class is that optimizer.
pub fn is_meant(target: &str) -> bool {
    target.starts_with("transformer_engine") && target.ends_with("FusedAdam")
}

/// Sets what is held beside weights in bf16, by the settings in a section; gradients are passed in the weights' type.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, section: &str) {
    let of = |name: &str| format!("{section}.{name}");
    let in_bf16 = imported.get(keys::training::precision).is_some_and(|found| found.value == "bf16");
    if !in_bf16 {
        return;
    }
    let by_default = |option: &str| Origin::Default { framework: FRAMEWORK, option: option.to_owned() };
    let told = |name: &str| {
        let found = settings.text(&of(name)).map(|found| found.map(|word| short(&word)));
        found.unwrap_or_else(|| Setting::new("fp32", by_default(&format!("{name} torch.float32"))))
    };
    let (first, second) = (told("exp_avg_dtype"), told("exp_avg_sq_dtype"));
    if first.value == second.value {
        imported.set(keys::training::optimizer_state_dtype, Some(first));
    } else {
        not_modelled(imported, &format!("{}: moments in two types", first.origin));
    }
    let remainders = settings.on(&of("store_param_remainders")).map(|found| found.map(|_| "int16"));
    let whole = told("master_weight_dtype");
    if let Some(masters) = settings.on(&of("master_weights")) {
        imported.say(keys::training::precision, "bf16-fp32-master", masters.origin.clone());
        imported.say(keys::training::gradient_dtype, "bf16", masters.origin);
        imported.set(keys::training::master_dtype, Some(remainders.unwrap_or(whole)));
    }
}
