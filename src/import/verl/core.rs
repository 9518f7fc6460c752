//! The actor of verl on Megatron's core: its degrees, what it recomputes, its adapters.

use super::{VERSION, default};
use crate::adapters;
use crate::imported::ImportedPlan;
use crate::origin::Setting;
use crate::plan::keys;
use crate::precision_aware::{self, MegatronRunKind};
use crate::recomputed;
use crate::rows::{SettingKind, SettingRow, not_modelled, take, usual};
use crate::settings::Settings;

/// What the actor has where Megatron trains it.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    const ROWS: &[SettingRow] = &[
        (
            &["actor_rollout_ref.actor.megatron.tensor_model_parallel_size"],
            keys::distribution::tensor_parallel,
            SettingKind::Whole,
        ),
        (
            &["actor_rollout_ref.actor.megatron.pipeline_model_parallel_size"],
            keys::distribution::pipeline_parallel,
            SettingKind::Whole,
        ),
        (
            &["actor_rollout_ref.actor.megatron.context_parallel_size"],
            keys::distribution::context_parallel,
            SettingKind::Several,
        ),
        (
            &["actor_rollout_ref.actor.megatron.expert_model_parallel_size"],
            keys::distribution::expert_parallel,
            SettingKind::Several,
        ),
        (
            &["actor_rollout_ref.actor.megatron.expert_tensor_parallel_size"],
            keys::distribution::expert_tensor_parallel,
            SettingKind::Whole,
        ),
        (
            &["actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size"],
            keys::distribution::virtual_pipeline,
            SettingKind::Several,
        ),
        (
            &["actor_rollout_ref.actor.megatron.use_distributed_optimizer"],
            keys::training::distributed_optimizer,
            SettingKind::Flag,
        ),
        (
            &["actor_rollout_ref.actor.megatron.sequence_parallel"],
            keys::distribution::sequence_parallel,
            SettingKind::Flag,
        ),
    ];
    imported.say(keys::model::framework, "megatron", default("actor.strategy megatron"));
    imported.say(keys::distribution::engine, "megatron", default("actor.strategy megatron"));
    imported.say(keys::training::precision, "bf16-fp32-master", default("actor.megatron.dtype bfloat16"));
    imported.say(keys::training::distributed_optimizer, true, default("use_distributed_optimizer true"));
    imported.say(keys::training::optimizer, "adamw-fused", default("megatron's adam"));
    imported.say(keys::training::attention, "flash", default("attention_backend flash"));
    take(imported, settings, ROWS);
    // `McoreEngineConfig.__post_init__` turns it off for one tensor rank (`verl/workers/config/engine.py`).
    if imported.get(keys::distribution::sequence_parallel).is_none() {
        let split = imported.whole(keys::distribution::tensor_parallel).is_some_and(|ranks| ranks > 1);
        imported.say(keys::distribution::sequence_parallel, split, default("actor.megatron.sequence_parallel true"));
    }
    accept_bf16(settings, "actor_rollout_ref.actor.megatron.dtype");
    recomputation(imported, settings);
}

/// What Megatron recomputes.
fn recomputation(imported: &mut ImportedPlan, settings: &Settings) {
    let section = "actor_rollout_ref.actor.megatron.override_transformer_config";
    let granularity = settings
        .text(&format!("{section}.recompute_granularity"))
        .or_else(|| settings.text(&format!("+{section}.recompute_granularity")));
    // Releases before it took the kind from `gradient_checkpointing_kwargs`, whose own are null
    // (`verl/single_controller/base/megatron/worker.py`, `add_optimization_config_to_tf_config`).
    let earlier = "actor_rollout_ref.model.gradient_checkpointing_kwargs.activations_checkpoint_granularity";
    let asked = settings.is("actor_rollout_ref.model.enable_gradient_checkpointing");
    let granularity = granularity.or_else(|| settings.text(earlier).filter(|_| asked));
    settings.accept("actor_rollout_ref.model.enable_gradient_checkpointing");
    let none = Setting::new("none".to_owned(), default("no recompute_granularity"));
    imported.set(keys::training::activation_checkpointing, Some(granularity.unwrap_or(none)));
    recomputed::say(imported, settings, |name| {
        let added = format!("+{section}.{name}");
        if settings.holds(&added) { added } else { format!("{section}.{name}") }
    });
}

/// Says of the type that is computed in that it is the usual one, where it is.
pub fn accept_bf16(settings: &Settings, name: &str) {
    usual(settings, name, &["bf16", "bfloat16", "torch.bfloat16"]);
}

/// Adapters of Megatron's layers have a section of their own (`verl/trainer/config/ppo_megatron_trainer.yaml`,
/// `actor_rollout_ref.model.lora`).
pub fn low_rank(imported: &mut ImportedPlan, settings: &Settings) {
    const SECTION: &str = "actor_rollout_ref.model.lora";
    const LAYERS: [&str; 4] = ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"];
    let Some(rank) = settings.whole(&format!("{SECTION}.rank")).filter(|found| found.value > 0) else { return };
    adapters::set(imported, Some(rank), (VERSION, 8), None);
    let kind = settings.text(&format!("{SECTION}.type")).filter(|found| found.value != "lora");
    if let Some(kind) = kind {
        not_modelled(imported, &format!("{}: {}: counted as LoRA on fused layers", kind.origin, kind.value));
    }
    let targets = match settings.texts(&format!("{SECTION}.target_modules")) {
        None => Setting::new(vec!["all-linear".to_owned()], default("lora.target_modules: every linear layer")),
        Some(found) if found.value.iter().all(|name| LAYERS.contains(&name.as_str())) => found,
        Some(found) => {
            return not_modelled(imported, &format!("{}: where adapters go", found.origin));
        }
    };
    adapters::set_core_targets(imported, targets);
    let dropout = settings.number(&format!("{SECTION}.dropout")).filter(|found| (0.0..1.0).contains(&found.value));
    imported.set(keys::lora::dropout, dropout);
    for name in ["alpha", "lora_A_init_method", "lora_B_init_method", "dropout_position"] {
        settings.accept(&format!("{SECTION}.{name}"));
    }
}

/// What goes to Megatron's own configuration of its optimizer, whatever the command puts before its name.
pub fn types_of_states(imported: &mut ImportedPlan, settings: &Settings, on_core: bool) {
    const SECTION: &str = "actor_rollout_ref.actor.optim.override_optimizer_config.";
    if !on_core {
        return;
    }
    let names: Vec<&str> = settings.iter().map(|(name, _)| name).collect();
    let of = |name: &str| {
        let given = names.iter().find(|given| given.trim_start_matches('+').strip_prefix(SECTION) == Some(name));
        given.map_or_else(|| format!("{SECTION}{name}"), |given| (*given).to_owned())
    };
    let run = MegatronRunKind {
        bf16: true,
        offloaded: settings.is(&of("optimizer_cpu_offload")),
        fp8_recipe: None,
        whole_masters: false,
    };
    precision_aware::set(imported, settings, of, &run);
    precision_aware::overlapped(imported, settings, &of("overlap_cpu_optimizer_d2h_h2d"));
    let part = settings.number(&of("optimizer_offload_fraction"));
    if part.is_some_and(|part| part.value >= 1.0) {
        settings.accept(&of("optimizer_offload_fraction"));
    }
}
