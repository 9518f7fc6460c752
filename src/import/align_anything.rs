//! align-anything: `--module align_anything.trainers.text_to_text.dpo`, whose defaults stand in
//! `align_anything/configs/train/text_to_text/dpo.yaml` (`align_anything/utils/tools.py`,
//! `trainers/base/supervised_trainer.py`, 2025).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, take};
use super::settings::Settings;
use super::unread::account_for;
use super::{adapters, deepspeed, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "align-anything of 2025";

const ROWS: &[SettingRow] = &[
    (&["train_cfgs.per_device_train_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["train_cfgs.gradient_accumulation_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["train_cfgs.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["model_cfgs.model_max_length"], keys::model::sequence_length, SettingKind::Whole),
];

/// Whether settings are align-anything's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("train_cfgs.per_device_train_batch_size") && settings.holds("model_cfgs")
}

fn module(context: &ImportContext) -> Option<String> {
    let path = context.program.path.trim_end_matches(".py").replace('/', ".");
    path.split_once("align_anything.trainers.").map(|(_, rest)| rest.to_owned())
}

/// Whether the program is one of its trainers.
pub fn runs(context: &ImportContext) -> bool {
    module(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("align-anything");
    let name = module(context).unwrap_or_default();
    let path = format!("align_anything/configs/train/{}.yaml", name.replace('.', "/"));
    let mut settings = context.configuration(&path, &mut imported).unwrap_or_default();
    let given = arguments::read(&context.program.words).options;
    // An option goes over every setting of its name, in whatever section (`update_dict`).
    for (option, section) in given.iter().map(|(name, _)| (name.to_owned(), section(name))) {
        settings.adopt(&format!("{section}.{option}"), &given, &option);
    }
    set(&mut imported, &settings, &name, context);
    imported
}

fn section(option: &str) -> &'static str {
    match option {
        "model_name_or_path" | "model_max_length" | "trust_remote_code" => "model_cfgs",
        "use_lora" | "r" | "lora_alpha" | "lora_dropout" => "lora_cfgs",
        "output_dir" => "logger_cfgs",
        name if name.contains("template") || name.contains("dataset") || name.contains("split") => "data_cfgs",
        _ => "train_cfgs",
    }
}

/// The plan of a file alone.
pub fn of_file(settings: &Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("align-anything");
    set(&mut imported, settings, name, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, settings: &Settings, name: &str, context: &ImportContext) {
    imported.say(keys::model::framework, "pytorch", Origin::Program("align-anything's own keys".to_owned()));
    match settings.first_text(&["model_cfgs.model_name_or_path", "model_cfgs.actor_model_name_or_path"]) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "model_name_or_path is to be given"),
    }
    take(imported, settings, ROWS);
    let half = settings.on("train_cfgs.bf16").map(|found| found.map(|_| "bf16"));
    let half = half.or_else(|| settings.on("train_cfgs.fp16").map(|found| found.map(|_| "fp16")));
    if let Some(found) = &half {
        imported.say(keys::training::precision, format!("{}-fp32-master", found.value), found.origin.clone());
    }
    let recompute = settings.flag("train_cfgs.gradient_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    imported.say(keys::training::optimizer, "adamw-fused", default("FusedAdam"));
    imported.say(keys::training::gradient_clipping, true, default("gradient_clipping 1.0"));
    imported.say(keys::training::attention, "sdpa", default("from_pretrained"));
    imported.say(keys::distribution::engine, "deepspeed", default("deepspeed.initialize"));
    let file = settings.text("train_cfgs.ds_cfgs");
    let stage = file.as_ref().and_then(|found| {
        let stage: u64 = found.value.strip_prefix("ds_z")?.get(..1)?.parse().ok()?;
        Some(Setting::new(stage, found.origin.clone()))
    });
    match stage {
        Some(stage) => {
            if stage.value > 0 {
                imported.set(keys::training::gradient_dtype, half);
            }
            imported.set(keys::distribution::sharding, Some(stage.map(deepspeed::stage)));
        }
        None => imported.miss(keys::distribution::sharding, "ds_cfgs says it"),
    }
    if let Some(found) = file.filter(|found| found.value.contains("offload")) {
        imported.say(keys::training::cpu_offload, "optimizer", found.origin);
    }
    if settings.is("lora_cfgs.use_lora") {
        let bits = settings.is("bnb_cfgs.use_bnb").then(|| settings.on("bnb_cfgs.load_in_4bit")).flatten();
        adapters::set(imported, settings.whole("lora_cfgs.r"), (VERSION, 16), bits.map(|found| found.map(|_| 4)));
        adapters::set_targets(imported, settings.texts("lora_cfgs.target_modules"));
    }
    let method = name.rsplit(['.', '/']).find(|part| *part != "yaml").unwrap_or("");
    if let Some(method) = TrainingMethod::of_name(method) {
        method.apply(imported);
    }
    for (name, _) in settings.iter() {
        if ["data_cfgs", "logger_cfgs", "lora_cfgs", "bnb_cfgs", "special_tokens"]
            .iter()
            .any(|part| name.starts_with(part))
        {
            settings.accept(name);
        }
    }
    account_for(imported, settings);
}
