//! In which types torchtitan keeps, computes and reduces.

use super::known::VERSION;
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::rows::not_modelled;
use crate::settings::Settings;

/// The tables of converters that are not asked for say nothing (`components/quantization/`).
fn idle_tables(settings: &Settings, converted: Option<&Setting<Vec<String>>>) {
    const TABLES: [(&str, &[&str]); 2] = [
        (
            "float8",
            &[
                "enable_fsdp_float8_all_gather",
                "precompute_float8_dynamic_scale_for_fsdp",
                "recipe_name",
                "emulate",
                "moe_fqns",
            ],
        ),
        ("mx", &["recipe_name", "mxfp8_dim1_cast_kernel_choice", "moe_recipe_name", "moe_fqns"]),
    ];
    for (table, names) in TABLES {
        let asked = converted.is_some_and(|found| found.value.iter().any(|name| name.contains(table)));
        if !asked && settings.on(&format!("{table}.enable_{table}_linear")).is_none() {
            names.iter().for_each(|name| settings.accept(&format!("{table}.{name}")));
        }
    }
}

/// Says which layers a converter leaves in 16 bits beside the last one and routers (`filter_fqns`).
fn left_out(imported: &mut ImportedPlan, settings: &Settings) {
    const USUAL: [&str; 3] = ["output", "lm_head", "router.gate"];
    let Some(found) = settings.texts("float8.filter_fqns") else { return };
    let named = found.value.iter().flat_map(|names| names.split(',')).map(str::trim);
    let others: Vec<&str> = named.filter(|name| !name.is_empty() && !USUAL.contains(name)).collect();
    if !others.is_empty() {
        not_modelled(imported, &format!("{}: {} in 16 bits beside FP8", found.origin, others.join(", ")));
    }
}

/// FSDP2 keeps fp32 shards and casts what it gathers.
pub fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    const KEY: &str = "training.precision";
    let reduced = settings.text("training.mixed_precision_reduce");
    imported.set(
        keys::distribution::reduce_dtype,
        reduced.map(|found| found.map(|name| if name == "bfloat16" { "bf16" } else { "fp32" })),
    );
    let on = |name: &str| settings.on(name);
    let converters = settings.texts("model.converters");
    let converted = converters.filter(|found| {
        found.value.iter().any(|name| name.contains("float8") || name == "mx" || name.contains("mxfp8"))
    });
    idle_tables(settings, converted.as_ref());
    let fp8 = on("float8.enable_float8_linear").map(|found| found.origin).or(converted.map(|found| found.origin));
    let old = on("training.enable_fp8_linear").map(|found| found.origin);
    if let Some(origin) = fp8.or(old) {
        if settings.text("training.dtype").is_some_and(|found| found.value == "bfloat16") {
            not_modelled(imported, "training.dtype bfloat16 under float8: weights, gradients and states of 16 bits");
            return imported.miss(KEY, "training.dtype bfloat16 and float8 together have no word in a plan");
        }
        imported.say(KEY, "fp8-mixed", origin);
        let recipe = settings.text("float8.recipe_name");
        let word =
            recipe.map(|found| found.map(|name| if name.starts_with("rowwise") { "rowwise" } else { "tensorwise" }));
        let default = Origin::Default { framework: VERSION, option: "float8 tensorwise".to_owned() };
        imported.set(keys::training::fp8_recipe, word.or_else(|| Some(Setting::new("tensorwise", default))));
        // With one scale for a tensor (torchao, `float8/fsdp_utils.py`); scales that are computed at once hold nothing.
        let gathered = settings.flag("float8.enable_fsdp_float8_all_gather");
        let scaled = imported.get(keys::training::fp8_recipe).is_some_and(|found| found.value == "tensorwise");
        imported.set(keys::training::fp8_param_gather, gathered.filter(|_| scaled));
        settings.accept("float8.precompute_float8_dynamic_scale_for_fsdp");
        left_out(imported, settings);
        return;
    }
    let stored = settings.text("training.dtype").filter(|found| found.value == "bfloat16");
    let word = stored.map(|found| found.map(|_| "bf16")).or_else(|| {
        let computed = settings.text("training.mixed_precision_param")?;
        Some(computed.map(|name| if name == "bfloat16" { "bf16-mixed" } else { "fp32" }))
    });
    imported.set(KEY, word);
}

/// Without FSDP weights of fp32 are computed with under autocast, but not beside ranks of a tensor or of a pipeline
/// (`distributed/utils.py`, `maybe_enable_amp`), nor in a checkout of before it: all is fp32 there.
pub(super) fn without_shards(imported: &mut ImportedPlan, context: &ImportContext) {
    const SOURCES: [&str; 2] = ["torchtitan/distributed/utils.py", "torchtitan/utils.py"];
    let is = |key: &str, word: &str| imported.get(key).is_some_and(|found| found.value == word);
    if !is(keys::distribution::sharding, "none") || !is(keys::training::precision, "bf16-mixed") {
        return;
    }
    let several = |key: &str| imported.whole(key).is_some_and(|ranks| ranks > 1);
    let split = several(keys::distribution::tensor_parallel) || several(keys::distribution::pipeline_parallel);
    let own: Vec<String> = SOURCES.iter().filter_map(|path| context.run.files.read(path).ok()).collect();
    let before = !own.is_empty() && own.iter().all(|text| !text.contains("maybe_enable_amp"));
    if split || before {
        let why =
            if split { "tensor or pipeline ranks without FSDP" } else { "no FSDP, and no autocast in its sources" };
        imported.say(keys::training::precision, "fp32", Origin::Derived(format!("{why}: no mixed precision")));
    }
}
