//! ColossalAI: `colossalai run` around the training scripts of Colossal-LLaMA and `ColossalChat`
//! (`applications/*/train*.py`, plugins of `colossalai/booster/plugin`).

use super::adapters;
use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::LauncherKind;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "ColossalAI 0.4";

const ROWS: &[SettingRow] = &[
    (&["batch_size", "micro_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (
        &["accumulation_steps", "gradient_accumulation_steps"],
        keys::training::gradient_accumulation_steps,
        SettingKind::Whole,
    ),
    (&["max_len", "max_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["grad_clip"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["tp"], keys::distribution::tensor_parallel, SettingKind::Several),
    (&["pp"], keys::distribution::pipeline_parallel, SettingKind::Several),
    (&["sp"], keys::distribution::context_parallel, SettingKind::Several),
];

/// Whether the program is one of ColossalAI's.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let plugin = options.text("plugin").is_some_and(|found| known(&found.value).is_some());
    let named = options.holds("pretrained") || options.holds("pretrain");
    let launched = context.launchers.iter().any(|launcher| launcher.kind == LauncherKind::Colossal);
    plugin && (named || launched)
}

/// What a plugin shards: a plan's word, and what goes to the host.
fn known(plugin: &str) -> Option<(&'static str, Option<&'static str>)> {
    Some(match plugin {
        "ddp" | "torch_ddp" => ("none", None),
        "zero2" => ("zero2", None),
        "zero2_cpu" => ("zero2", Some("optimizer")),
        "gemini" | "gemini_auto" => ("zero3", None),
        "3d" => ("zero1", None),
        "fsdp" | "torch_fsdp" => ("zero3", None),
        _ => return None,
    })
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ColossalAI");
    let settings = arguments::read(&context.program.words).options;
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.first_text(&["pretrained", "pretrain", "model_path"]) {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no --pretrained"),
    }
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    imported.say(keys::training::optimizer, "adamw-fused", default("HybridAdam"));
    take(&mut imported, &settings, ROWS);
    imported.miss(keys::training::micro_batch_size, "the script's own default, which is not read");
    imported.miss(keys::model::sequence_length, "the script's own default, which is not read");
    let mixed = settings.text("mixed_precision").unwrap_or_else(|| Setting::new("fp16".to_owned(), default("fp16")));
    let plugin = settings.text("plugin");
    let ddp = plugin.as_ref().is_some_and(|found| known(&found.value).is_some_and(|(word, _)| word == "none"));
    match (mixed.value.as_str(), ddp) {
        ("bf16" | "fp16", false) => {
            imported.set(keys::training::gradient_dtype, Some(mixed.clone()));
            imported.set(keys::training::precision, Some(mixed.map(|name| format!("{name}-fp32-master"))));
        }
        ("bf16" | "fp16", true) => {
            imported.set(keys::training::precision, Some(mixed.map(|name| format!("{name}-mixed"))))
        }
        _ => settings.refuse("mixed_precision"),
    }
    if let Some(found) = plugin {
        if let Some((word, offload)) = known(&found.value) {
            imported.set(keys::training::cpu_offload, offload.map(|word| Setting::new(word, found.origin.clone())));
            if found.value.starts_with("gemini") {
                not_modelled(&mut imported, "gemini: where chunks of parameters lie as it runs; counted as zero3");
            }
            imported.set(keys::distribution::sharding, Some(found.map(|_| word)));
        } else {
            settings.refuse("plugin");
        }
    }
    let recompute = ["grad_checkpoint", "use_grad_checkpoint"].iter().find_map(|name| settings.on(name));
    let none = Setting::new("none", default("no --grad_checkpoint"));
    imported.set(keys::training::activation_checkpointing, Some(recompute.map_or(none, |found| found.map(|_| "full"))));
    let flash = settings.on("use_flash_attn").map(|found| found.map(|_| "flash"));
    imported.set(keys::training::attention, flash);
    if let Some(rank) = settings.whole("lora_rank").filter(|found| found.value > 0) {
        adapters::set(&mut imported, Some(rank), (VERSION, 8), None);
    }
    let name = context.program.name().trim_end_matches(".py");
    for kind in ["dpo", "rm", "ppo", "kto", "orpo", "simpo", "grpo", "reward_model"] {
        if name.ends_with(kind) {
            not_modelled(&mut imported, &format!("{kind}: what it holds beside the trained model"));
        }
    }
    account_for(&mut imported, &settings);
    imported
}
