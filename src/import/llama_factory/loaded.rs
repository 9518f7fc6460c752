//! The type that LLaMA-Factory loads a base in where nobody says one, and modules that train whole beside adapters.

use super::super::adapters;
use super::super::imported::ImportedPlan;
use super::super::liger;
use super::super::origin::Origin;
use super::super::rows::not_modelled;
use super::super::settings::Settings;
use super::super::trainer;
use super::VERSION;
use crate::plan::keys;

/// Whether weights keep the type that they are loaded in: those below adapters, and all of `pure_bf16` and of BAdam
/// (`model/adapter.py`, `init_adapter`: "remaining trainable params in half precision").
pub fn keeps_its_type(imported: &ImportedPlan, settings: &Settings) -> bool {
    imported.get(keys::lora::rank).is_some() || settings.is("pure_bf16") || settings.is("use_badam")
}

/// Where neither `bf16` nor `fp16` is asked for, such weights are loaded in their checkpoint's 16 bits, and nothing is cast
/// (`model/patcher.py`, `patch_config`; `extras/misc.py`, `infer_optim_dtype`).
pub fn loaded_type(imported: &mut ImportedPlan, settings: &Settings) {
    const KEY: &str = keys::training::precision;
    if !keeps_its_type(imported, settings)
        || !imported.is_default(KEY)
        || ["bf16", "fp16", "pure_bf16"].iter().any(|name| settings.is(name))
    {
        return;
    }
    let named = settings.text("model_name_or_path");
    match named.as_ref().and_then(|found| trainer::published(&found.value)) {
        Some(word) => {
            let word = if word == "bfloat16" { "bf16" } else { "fp16" };
            let option = "compute_dtype: the checkpoint's, infer_optim_dtype".to_owned();
            imported.say(KEY, word, Origin::Default { framework: VERSION, option });
        }
        None => imported.doubt_default(KEY, "neither bf16 nor fp16: the base is loaded in its checkpoint's type"),
    }
}

/// Modules that train whole beside the adapters. All that trains is cast to fp32 unless `pure_bf16` (`model/adapter.py`,
/// `init_adapter`): so are copies of modules.
pub fn saved(imported: &mut ImportedPlan, settings: &Settings) {
    let told = settings.texts("additional_target").filter(|found| !found.value.is_empty());
    match told {
        Some(found) if !settings.is("pure_bf16") => {
            let names = found.value.join(", ");
            not_modelled(imported, &format!("{}: {names}: modules that train whole, in fp32", found.origin));
        }
        told => adapters::take_saved(imported, told),
    }
}

/// The whole model is trained in fp32 (`v1/core/model_engine.py`: `model.to(torch.float32)`), which FSDP2 alone gathers in
/// 16 bits and reduces in fp32 (`v1/plugins/trainer_plugins/distributed/fsdp2.py`, `get_mp_policy`).
pub fn of_v1(imported: &mut ImportedPlan, settings: &Settings) {
    // Both answers of a pair stand in one sample, which is cut as a whole (`v1/trainers/dpo_trainer.py`, `v1/core/utils/batching.py`).
    if settings.text("stage").is_some_and(|found| matches!(found.value.as_str(), "dpo" | "rm")) {
        imported.set(keys::training::micro_batch_size, settings.whole("per_device_train_batch_size"));
    }
    // `v1/plugins/model_plugins/kernels/liger_kernel_ops.py`; the trainer's own loss takes logits (`v1/core/base_trainer.py`).
    let kernels = settings.text("kernel_config.name").filter(|found| found.value == "liger_kernel");
    if let Some(found) = kernels {
        liger::apply(imported, &found.map(|_| true));
    }
    // `v1/plugins/model_plugins/parallelization/ulysses.py`.
    let shared = settings.whole("cp_size").filter(|found| found.value > 1);
    if let Some(found) = shared.filter(|_| settings.text("cp_mode").is_none_or(|mode| mode.value == "ulysses")) {
        imported.say(keys::distribution::cp_comm, "a2a", found.origin);
    }
    const KEY: &str = keys::training::precision;
    let default = |option: &str| Origin::Default { framework: "LLaMA-Factory v1", option: option.to_owned() };
    let sharded = settings.text("distribution.sharding");
    let told = settings.flag("bf16");
    if let Some(found) = sharded.clone() {
        imported.say(keys::distribution::engine, "fsdp2", found.origin.clone());
        imported.set(keys::distribution::sharding, Some(found));
    }
    if settings.text("finetuning_type").is_none_or(|found| found.value != "full") || settings.holds("deepspeed") {
        return;
    }
    match (sharded, told) {
        (Some(_), told) if told.as_ref().is_none_or(|found| found.value) => {
            let origin = told.map_or_else(|| default("bf16 true"), |found| found.origin);
            imported.say(KEY, "bf16-mixed", origin);
            imported.say(keys::distribution::reduce_dtype, "fp32", default("MixedPrecisionPolicy"));
        }
        (_, told) => {
            imported.say(KEY, "fp32", told.map_or_else(|| default("full tuning in fp32"), |found| found.origin));
        }
    }
}

/// The first or the last layers alone train (`model/adapter.py`, `_setup_freeze_tuning`; the last two unless told).
pub fn freeze(imported: &mut ImportedPlan, settings: &Settings) {
    let number = settings.get("freeze_trainable_layers").or_else(|| settings.get("num_layer_trainable"));
    let layers = number.and_then(|found| found.value.as_i64()).unwrap_or(2);
    let side = if layers < 0 { "first" } else { "last" };
    let modules = settings.text("freeze_trainable_modules").filter(|found| found.value != "all");
    let of_them = modules.map_or(String::new(), |found| format!(" (of each {})", found.value));
    let extra = settings.text("freeze_extra_modules").map_or(String::new(), |found| format!(" and {}", found.value));
    let told = ["freeze_trainable_layers", "num_layer_trainable", "freeze_trainable_modules", "freeze_extra_modules"];
    told.iter().for_each(|name| settings.accept(name));
    let which = format!("the {side} {} layers{of_them}{extra}", layers.unsigned_abs());
    not_modelled(imported, &format!("finetuning_type freeze: {which} alone train; all are counted as trained"));
}

/// A full training has no use for what adapters are told.
pub fn leave_adapters(settings: &Settings) {
    for name in ["lora_rank", "lora_alpha", "lora_dropout", "lora_target"] {
        settings.accept(name);
    }
}
