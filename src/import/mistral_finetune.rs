//! mistral-finetune: `torchrun -m train CONFIG.yaml` (`mistralai/mistral-finetune`, `finetune/args.py`, `train.py`,
//! `finetune/wrapped_model.py`, 2024).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, take};
use super::settings::{DefaultValue, Settings};
use super::unread::{account_for, account_for_call};
use super::{adapters, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "mistral-finetune";

/// `TrainArgs`, `OptimArgs`, `LoraArgs`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("seq_len", DefaultValue::Whole(2048)),
    ("batch_size", DefaultValue::Whole(1)),
    ("num_microbatches", DefaultValue::Whole(1)),
    ("max_norm", DefaultValue::Number(1.0)),
    ("optim.weight_decay", DefaultValue::Number(0.1)),
    ("checkpoint", DefaultValue::Flag(true)),
    ("lora.enable", DefaultValue::Flag(true)),
    ("lora.rank", DefaultValue::Whole(16)),
    ("lora.dropout", DefaultValue::Number(0.0)),
];

const ROWS: &[SettingRow] = &[
    (&["seq_len"], keys::model::sequence_length, SettingKind::Whole),
    (&["batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["num_microbatches"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["max_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["optim.weight_decay"], keys::training::weight_decay, SettingKind::Share),
];

/// Whether settings are mistral-finetune's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("data.instruct_data") && settings.holds("seq_len")
        || settings.get("model_id_or_path").is_some() && settings.holds("seq_len") && settings.holds("run_dir")
}

fn configuration(context: &ImportContext) -> Option<String> {
    let words = &context.program.words;
    let path = words.first().filter(|word| word.ends_with(".yaml"))?;
    let train = context.program.module && context.program.path == "train" || context.program.name() == "train.py";
    train.then(|| path.clone())
}

/// Whether the program is mistral-finetune's.
pub fn runs(context: &ImportContext) -> bool {
    let read = |path: String| context.run.files.read(&path).ok().and_then(|text| super::text::yaml(&path, &text).ok());
    configuration(context).and_then(read).is_some_and(|settings| is_config(&settings))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("mistral-finetune");
    let file = configuration(context).and_then(|path| context.configuration(&path, &mut imported));
    set(&mut imported, file.unwrap_or_default(), context);
    account_for_call(&mut imported, &arguments::read(&context.program.words).options, &["config"]);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("mistral-finetune");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.say(keys::model::framework, "pytorch", Origin::Program("mistral-finetune's own keys".to_owned()));
    match settings.text("model_id_or_path").filter(|found| !found.value.is_empty()) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "model_id_or_path is to be filled in"),
    }
    take(imported, settings, ROWS);
    // bf16 parameters, of which those that train have a copy in fp32 for AdamW (`finetune/mixed_precision.py`).
    imported.say(keys::training::precision, "bf16-fp32-master", default("param_dtype bfloat16, optim_dtype float32"));
    imported.say(keys::training::optimizer, "adamw", default("AdamW"));
    imported.say(keys::training::attention, "flash", default("xformers' memory_efficient_attention"));
    let recompute = settings.flag("checkpoint");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    imported.say(keys::distribution::sharding, "zero3", default("FULL_SHARD"));
    imported.say(keys::distribution::engine, "fsdp1", default("FullyShardedDataParallel"));
    if settings.is("lora.enable") {
        adapters::set(imported, settings.whole("lora.rank"), (VERSION, 16), None);
        let all = Setting::new(vec!["all-linear".to_owned()], default("LoRALinear in attention and MLP"));
        adapters::set_targets(imported, Some(all));
        imported.set(
            keys::lora::dropout,
            settings.number("lora.dropout").filter(|found| (0.0..1.0).contains(&found.value)),
        );
        settings.accept("lora.scaling");
    }
    settings.accept("model_id_or_path");
    account_for(imported, settings);
}
