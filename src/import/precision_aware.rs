//! Megatron's precision-aware optimizer: Transformer Engine's `FusedAdam` holds masters and moments in the types that it
//! is told (`megatron/core/optimizer/optimizer_config.py`, `use_precision_aware_optimizer`).

use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use crate::plan::keys;

const FRAMEWORK: &str = "Transformer Engine 2.1";

/// What of a run decides where its masters are.
pub struct MegatronRunKind {
    /// Weights and what is computed in are bf16.
    pub bf16: bool,
    /// The host steps (`HybridDeviceOptimizer`), in fp32 whatever the types are.
    pub offloaded: bool,
    /// How FP8 scales are kept, where the run is in FP8.
    pub fp8_recipe: Option<String>,
    /// The Megatron that runs is from before `store_param_remainders` (core 0.12): it keeps fp32 masters.
    pub whole_masters: bool,
}

/// Sets the types of masters and moments, which `of` names the settings of.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, of: impl Fn(&str) -> String, run: &MegatronRunKind) {
    if !settings.is(&of("use_precision_aware_optimizer")) {
        return;
    }
    let told = |name: &str| settings.text(&of(name)).map(|found| found.map(|word| short(&word)));
    let (first, second, main) = (told("exp_avg_dtype"), told("exp_avg_sq_dtype"), told("main_params_dtype"));
    if run.offloaded {
        return;
    }
    let word = |found: &Option<Setting<&'static str>>| found.as_ref().map_or("fp32", |found| found.value);
    if word(&first) == word(&second) {
        imported.set(keys::training::optimizer_state_dtype, first.or(second));
    } else {
        let origin = first.or(second).map(|found| found.origin.to_string()).unwrap_or_default();
        not_modelled(imported, &format!("{origin}: moments in two types"));
    }
    let narrow = main.filter(|found| found.value != "fp32");
    let of_megatron = run.fp8_recipe.as_ref().is_some_and(|recipe| recipe != "delayed");
    if narrow.is_none() && of_megatron {
        // Megatron's own, in fp32 (`use_precision_aware_optimizer_no_fp8_or_ds_fp8`).
        return;
    }
    let (kind, why) = match run.bf16 && !run.whole_masters {
        true => ("int16", "store_param_remainders: masters are the 16 bits that bf16 weights lack"),
        false => ("fp32", "master_weight_dtype fp32"),
    };
    let by_default = || Setting::new(kind, Origin::Default { framework: FRAMEWORK, option: why.to_owned() });
    imported.set(keys::training::master_dtype, Some(narrow.unwrap_or_else(by_default)));
}

/// `torch.bfloat16` and `bfloat16` are `bf16`.
pub fn short(word: &str) -> &'static str {
    match word.rsplit('.').next().unwrap_or_default() {
        "bf16" | "bfloat16" => "bf16",
        "fp16" | "float16" | "half" => "fp16",
        "fp8" | "uint8" => "fp8",
        _ => "fp32",
    }
}

/// Copies that run beside the host's step (`core/optimizer/cpu_offloading/hybrid_optimizer.py`) hold nothing more.
pub fn overlapped(imported: &mut ImportedPlan, settings: &Settings, name: &str) {
    if settings.is(name) {
        imported.note(format!("{name}: copies to and from the host are timed one after another"));
        settings.accept(name);
    }
}
