//! NeMo-RL's workers on Megatron-Core: the section `policy.megatron_cfg`.

use super::default;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::precision_aware::{self, MegatronRunKind};
use crate::rows::{SettingKind, SettingRow, not_modelled, take};
use crate::settings::Settings;
use crate::{adapters, bridge, common};

const MEGATRON: &[SettingRow] = &[
    (&["policy.megatron_cfg.optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["policy.megatron_cfg.tensor_model_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Whole),
    (&["policy.megatron_cfg.pipeline_model_parallel_size"], keys::distribution::pipeline_parallel, SettingKind::Whole),
    (&["policy.megatron_cfg.context_parallel_size"], keys::distribution::context_parallel, SettingKind::Whole),
    (&["policy.megatron_cfg.expert_model_parallel_size"], keys::distribution::expert_parallel, SettingKind::Several),
    (
        &["policy.megatron_cfg.expert_tensor_parallel_size"],
        keys::distribution::expert_tensor_parallel,
        SettingKind::Whole,
    ),
    (
        &["policy.megatron_cfg.num_layers_in_first_pipeline_stage"],
        keys::distribution::first_stage_layers,
        SettingKind::Whole,
    ),
    (
        &["policy.megatron_cfg.num_layers_in_last_pipeline_stage"],
        keys::distribution::last_stage_layers,
        SettingKind::Whole,
    ),
    (&["policy.megatron_cfg.sequence_parallel"], keys::distribution::sequence_parallel, SettingKind::Flag),
    (
        &["policy.megatron_cfg.optimizer.use_distributed_optimizer"],
        keys::training::distributed_optimizer,
        SettingKind::Flag,
    ),
    (
        &["policy.megatron_cfg.distributed_data_parallel_config.overlap_grad_reduce"],
        keys::distribution::overlap_grad_reduce,
        SettingKind::Flag,
    ),
    (
        &["policy.megatron_cfg.distributed_data_parallel_config.overlap_param_gather"],
        keys::distribution::overlap_param_gather,
        SettingKind::Flag,
    ),
];

/// Sets what `policy.megatron_cfg` says.
pub(super) fn set(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::model::framework, "megatron", Origin::Program("policy.megatron_cfg".to_owned()));
    imported.say(keys::distribution::engine, "megatron", Origin::Program("policy.megatron_cfg".to_owned()));
    take(imported, settings, MEGATRON);
    imported.say(keys::training::precision, "bf16-fp32-master", default("policy.megatron_cfg.optimizer.bf16 true"));
    // The type of the model's weights (`nemo_rl/models/megatron/setup.py`, `_apply_precision_config`).
    if settings.text("policy.precision").is_some_and(|found| !found.value.starts_with("bf")) {
        settings.refuse("policy.precision");
    }
    in_fp8(imported, settings);
    match settings.text("policy.megatron_cfg.optimizer.optimizer").filter(|found| found.value != "adam") {
        Some(found) => common::set_optimizer(imported, Some(found)),
        None => {
            imported.say(
                keys::training::optimizer,
                "adamw-fused",
                default("policy.megatron_cfg.optimizer.optimizer adam"),
            );
        }
    }
    let on = settings.flag("policy.megatron_cfg.activation_checkpointing");
    let granularity = settings.text("policy.megatron_cfg.recompute_granularity").map(|found| found.value);
    let word = match granularity.as_deref() {
        Some("selective") => "selective",
        _ => "full",
    };
    imported
        .set(keys::training::activation_checkpointing, on.map(|found| found.map(|on| if on { word } else { "none" })));
    precision_aware(imported, settings);
    dispatcher(imported, settings);
    repeated(settings);
    let part = settings.number("policy.megatron_cfg.optimizer.optimizer_offload_fraction");
    if part.is_some_and(|part| part.value >= 1.0 || part.value <= 0.0) {
        settings.accept("policy.megatron_cfg.optimizer.optimizer_offload_fraction");
    }
    if settings.is("policy.megatron_cfg.optimizer.optimizer_cpu_offload") {
        imported.set(
            keys::training::cpu_offload,
            settings.on("policy.megatron_cfg.optimizer.optimizer_cpu_offload").map(|found| found.map(|_| "optimizer")),
        );
    }
    router(imported, settings);
    low_rank(imported, settings);
    logits(imported, settings);
    // What FSDP shards and what fp8 leaves out is told whether they are on or not.
    let sharded = ["use_megatron_fsdp", "use_custom_fsdp"]
        .iter()
        .any(|name| settings.is(&format!("policy.megatron_cfg.distributed_data_parallel_config.{name}")));
    let eight = settings.is("policy.megatron_cfg.fp8_cfg.enabled");
    const OF_FP8: [&str; 4] =
        ["fp8_cfg.", "first_last_layers_bf16", "layers_at_start_in_bf16", "layers_at_end_in_bf16"];
    for (name, _) in settings.iter() {
        let other = name.starts_with("policy.dtensor_cfg") || name.contains("megatron_cfg.scheduler");
        let stored = name.starts_with("policy.megatron_cfg.checkpoint.");
        let strategy = !sharded && name.ends_with("data_parallel_sharding_strategy");
        if other || stored || strategy || (!eight && OF_FP8.iter().any(|part| name.contains(part))) {
            settings.accept(name);
        }
    }
}

/// How tokens reach the ranks of their experts, and whether those multiply in one kernel (`nemo_rl/models/megatron/setup.py`).
fn dispatcher(imported: &mut ImportedPlan, settings: &Settings) {
    imported.set(keys::training::moe_grouped_gemm, settings.flag("policy.megatron_cfg.moe_grouped_gemm"));
    const DISPATCHER: &str = "policy.megatron_cfg.moe_token_dispatcher_type";
    let several = imported.whole(keys::distribution::expert_parallel).is_some_and(|degree| degree > 1);
    let word = settings.text(DISPATCHER).and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "allgather" => Some("allgather"),
            "alltoall" => Some("alltoall"),
            _ => None,
        })
    });
    match word {
        Some(found) if several => imported.set(keys::distribution::moe_dispatcher, Some(found)),
        Some(_) => {}
        // `flex` is DeepEP's or HybridEP's, whichever another setting names.
        None if !several => settings.accept(DISPATCHER),
        None => {}
    }
}

/// Transformer Engine's FP8, in the format and by the recipe that are told; parameters that are kept in it are not counted so
/// (`nemo_rl/models/megatron/setup.py`, `_apply_performance_config`).
fn in_fp8(imported: &mut ImportedPlan, settings: &Settings) {
    let of = |name: &str| format!("policy.megatron_cfg.fp8_cfg.{name}");
    let Some(on) = settings.on(&of("enabled")) else { return };
    let known = settings.text(&of("fp8")).is_some_and(|found| matches!(found.value.as_str(), "e4m3" | "hybrid"));
    let recipe = settings.text(&of("fp8_recipe"));
    let recipe = recipe.filter(|found| ["delayed", "tensorwise", "blockwise", "mxfp8"].contains(&found.value.as_str()));
    if known && recipe.is_some() {
        imported.say(keys::training::precision, "fp8-mixed", on.origin);
        imported.set(keys::training::fp8_recipe, recipe);
    }
    let param = of("fp8_param");
    if settings.is(&param) {
        not_modelled(imported, &format!("{param}: parameters kept in FP8"));
    }
    settings.accept(&param);
}

/// What the optimizer's own section says that its name and its types have said.
fn repeated(settings: &Settings) {
    let of = |name: &str| format!("policy.megatron_cfg.optimizer.{name}");
    let adam = settings.text(&of("optimizer")).is_none_or(|found| found.value != "sgd");
    let usual = [
        ("sgd_momentum", adam),
        ("bf16", settings.is(&of("bf16"))),
        ("params_dtype", settings.text(&of("params_dtype")).is_some_and(|found| found.value == "float32")),
    ];
    for (name, _) in usual.iter().filter(|(_, usual)| *usual) {
        settings.accept(&of(name));
    }
}

/// Adapters of Megatron-Bridge's (`nemo_rl/models/megatron/setup.py`, `setup_model_and_optimizer`). Where no layers are named
/// all linear ones have some, the last among them (`peft/module_matcher.py`, `ModuleMatcher.match`).
fn low_rank(imported: &mut ImportedPlan, settings: &Settings) {
    const SECTION: &str = "policy.megatron_cfg.peft";
    // How they are scaled, filled and cut to shards.
    const DETAILS: [&str; 9] = [
        "enabled",
        "alpha",
        "dropout",
        "dropout_position",
        "exclude_modules",
        "lora_A_init_method",
        "lora_B_init_method",
        "a2a_experimental",
        "target_modules",
    ];
    let own = settings.below(SECTION);
    if own.is("enabled") {
        let targets = own.get("target_modules");
        let every = targets.filter(|found| found.value.as_array().is_some_and(Vec::is_empty));
        bridge::low_rank(imported, &own, "LoRA");
        if let Some(found) = every {
            adapters::set_targets(imported, Some(Setting::new(vec!["all-linear".to_owned()], found.origin.clone())));
            not_modelled(imported, &format!("{SECTION}: the adapter of the output matrix"));
            if has_experts(imported) {
                not_modelled(
                    imported,
                    &format!("{SECTION}: layers of state spaces have adapters as well, and experts none"),
                );
            }
        }
        if let Some(found) = own.texts("exclude_modules").filter(|found| !found.value.is_empty()) {
            not_modelled(imported, &format!("{}: modules without adapters", found.origin));
        }
    }
    let known = |name: &str| !own.is("enabled") || DETAILS.contains(&name);
    own.iter().filter(|(name, _)| known(name)).for_each(|(name, _)| settings.accept(&format!("{SECTION}.{name}")));
}

/// Whether a model's name tells a size and another for each token: `30b-a3b`.
fn has_experts(imported: &ImportedPlan) -> bool {
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default();
    preset.split('-').any(|word| word.starts_with('a') && word.ends_with('b'))
}

/// Moments and masters in the types that are told.
fn precision_aware(imported: &mut ImportedPlan, settings: &Settings) {
    let of = |name: &str| format!("policy.megatron_cfg.optimizer.{name}");
    let fp8 = "policy.megatron_cfg.fp8_cfg";
    let recipe = settings.text(&format!("{fp8}.fp8_recipe")).map(|found| found.value);
    let run = MegatronRunKind {
        bf16: settings.text("policy.precision").is_none_or(|found| found.value.starts_with("bf")),
        offloaded: settings.is(&of("optimizer_cpu_offload")),
        fp8_recipe: recipe.filter(|_| settings.is(&format!("{fp8}.enabled"))),
        whole_masters: false,
    };
    precision_aware::set(imported, settings, of, &run);
    let main = settings.text(&of("main_grads_dtype")).filter(|found| !found.value.contains("32"));
    if let Some(main) = main {
        not_modelled(imported, &format!("{}: main gradients in {}", main.origin, main.value));
    }
}

/// The model's logits are raised to fp32 unless that is put off, and log-probabilities and their exponentials stand beside
/// them in fp32 (`nemo_rl/models/megatron/train.py`, `model_forward`; `nemo_rl/distributed/model_utils.py`,
/// `DistributedLogprob`): 12 bytes a logit for a moment. The nearest that a plan has are Megatron's fused kernels, with 10.
fn logits(imported: &mut ImportedPlan, settings: &Settings) {
    const DEFERRED: &str = "policy.megatron_cfg.defer_fp32_logits";
    if !settings.is(DEFERRED) {
        imported.say(
            keys::training::loss,
            "vocab_parallel_fused",
            default("DistributedLogprob: fp32 logits and log-probabilities"),
        );
        imported.note("fp32 logits and log-probabilities: 12 bytes a logit stand there for a moment, 10 are counted");
    }
    settings.accept(DEFERRED);
}

/// A frozen router keeps a few parameters in a thousand from being trained, and a dense model has none
/// (`nemo_rl/models/megatron/setup.py`, `freeze_moe_router`).
fn router(imported: &mut ImportedPlan, settings: &Settings) {
    const FROZEN: &str = "policy.megatron_cfg.freeze_moe_router";
    let unnamed = imported.get(keys::model::preset).is_none();
    if settings.is(FROZEN) && (unnamed || has_experts(imported)) {
        imported.note("freeze_moe_router: the routers' weights are counted as trained");
    }
    settings.accept(FROZEN);
}
