//! `VeOmni`: `tasks/train_text.py CONFIG.yaml --train.… …` (`veomni/arguments/arguments_types.py`, `veomni/trainer/base.py`,
//! `veomni/distributed/torch_parallelize.py` at d9774494). Versions before it had the same settings flat, without
//! sections below `train`.

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, methods};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "VeOmni of 2026";

/// `TrainingArguments`, `DataArguments` and what they hold: those that old and new versions share.
const DEFAULTS: &[(&str, DefaultValue)] =
    &[("train.micro_batch_size", DefaultValue::Whole(1)), ("data.max_seq_len", DefaultValue::Whole(2048))];

const ROWS: &[SettingRow] = &[
    (&["data.max_seq_len"], keys::model::sequence_length, SettingKind::Whole),
    (&["train.micro_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["train.global_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["train.optimizer.weight_decay", "train.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (
        &["train.optimizer.max_grad_norm", "train.max_grad_norm"],
        keys::training::gradient_clipping,
        SettingKind::Clipped,
    ),
    (
        &["train.accelerator.ulysses_size", "train.ulysses_parallel_size"],
        keys::distribution::context_parallel,
        SettingKind::Several,
    ),
    (
        &["train.accelerator.ep_size", "train.expert_parallel_size"],
        keys::distribution::expert_parallel,
        SettingKind::Several,
    ),
    (&["train.torch_compile.enable"], keys::training::compile, SettingKind::Flag),
];

/// Whether settings are `VeOmni`'s: sections that no other has, or its flat names of before.
pub fn is_config(settings: &Settings) -> bool {
    const OWN: [&str; 7] = [
        "train.accelerator.fsdp_config",
        "train.accelerator.ulysses_size",
        "train.data_parallel_mode",
        "train.rmpad_with_pos_ids",
        "train.bsz_warmup_ratio",
        "model.ops_implementation",
        "train.ulysses_parallel_size",
    ];
    let sections = settings.holds("model") && settings.holds("data.max_seq_len");
    sections && OWN.iter().any(|name| settings.holds(name))
}

fn configuration(context: &ImportContext) -> Option<String> {
    context.program.words.first().filter(|word| word.ends_with(".yaml") || word.ends_with(".yml")).cloned()
}

/// Whether the program is one of its tasks.
pub fn runs(context: &ImportContext) -> bool {
    let path = &context.program.path;
    let task = path.contains("tasks/") && context.program.name().starts_with("train_");
    let read = |path: String| context.run.files.read(&path).ok().and_then(|text| super::text::yaml(&path, &text).ok());
    // A task's name alone is anybody's.
    let own = path.to_ascii_lowercase().contains("veomni");
    configuration(context).is_some_and(|path| task && own || read(path).is_some_and(|file| is_config(&file)))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("VeOmni");
    let file = configuration(context).and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    let options = arguments::read(&context.program.words).options;
    set(&mut imported, file.with(options), context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("VeOmni");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.say(keys::model::framework, "pytorch", Origin::Program("VeOmni's own keys".to_owned()));
    let kind = settings.text("data.data_type").map(|found| found.value).unwrap_or_default();
    if kind == "diffusion" {
        // Lengths, loss and kernels are a language model's.
        return imported.miss(keys::model::hf_config, "diffusion models of VeOmni are not read");
    }
    match settings.first_text(&["model.model_path", "model.config_path"]).filter(|found| !found.value.is_empty()) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "model.model_path is to be filled in"),
    }
    take(imported, settings, ROWS);
    if imported.get(keys::distribution::context_parallel).is_some() {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
    precision(imported, settings);
    sharding(imported, settings);
    optimizer(imported, settings);
    kernels(imported, settings);
    let recompute = settings
        .flag("train.gradient_checkpointing.enable")
        .or_else(|| settings.flag("train.enable_gradient_checkpointing"));
    let recompute = recompute.unwrap_or_else(|| Setting::new(true, default("gradient_checkpointing.enable")));
    imported.set(keys::training::activation_checkpointing, Some(recompute.map(|on| if on { "full" } else { "none" })));
    let rank = settings.first_whole(&["model.lora_config.rank", "model.lora_rank"]);
    if rank.is_some() {
        adapters::set(imported, rank, (VERSION, 8), None);
        let names = ["model.lora_config.lora_modules", "model.lora_target_modules"];
        adapters::set_targets(imported, names.iter().find_map(|name| settings.texts(name)));
        for name in ["model.lora_config.alpha", "model.lora_alpha"] {
            settings.accept(name);
        }
    }
    if settings.is("train.freeze_vit") {
        not_modelled(imported, "train.freeze_vit: the vision tower, frozen beside the language model");
    }
    if kind == "dpo" {
        methods::TrainingMethod::Dpo.apply(imported);
    }
    if context.program.name().ends_with("_rl.py") {
        not_modelled(imported, "reinforcement: what generates beside the policy");
    }
    if settings.holds("model.encoders") || settings.holds("model.decoders") || settings.holds("model.foundation") {
        not_modelled(imported, "encoders and decoders beside the language model");
    }
    for name in ["train.rmpad", "train.rmpad_with_pos_ids", "train.dyn_bsz", "train.pad_to_length", "train.init_device"]
    {
        settings.accept(name);
    }
    account_for(imported, settings);
}

/// fp32 weights under FSDP2's policy where it is on, bf16 weights and states where it is off
/// (`BaseTrainer._build_model`: `torch_dtype`).
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let section = "train.accelerator.fsdp_config.mixed_precision";
    let mixed = settings
        .flag(&format!("{section}.enable"))
        .or_else(|| settings.flag("train.enable_mixed_precision"))
        .unwrap_or_else(|| Setting::new(true, default("mixed_precision.enable")));
    let half = settings.text(&format!("{section}.param_dtype")).is_some_and(|found| found.value == "float16");
    let word = mixed.map(|on| match (on, half) {
        (true, true) => "fp16-mixed",
        (true, false) => "bf16-mixed",
        (false, _) => "bf16",
    });
    imported.set(keys::training::precision, Some(word));
    settings.accept(&format!("{section}.reduce_dtype"));
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings) {
    let mode = settings.first_text(&["train.accelerator.fsdp_config.fsdp_mode", "train.data_parallel_mode"]);
    let mode = mode.unwrap_or_else(|| Setting::new("fsdp2".to_owned(), default("fsdp_mode")));
    let engine = match mode.value.as_str() {
        "ddp" => "ddp",
        "fsdp1" => "fsdp1",
        "fsdp2" => "fsdp2",
        _ => return imported.miss(keys::distribution::sharding, format!("{} is no mode that is known", mode.value)),
    };
    let full = [
        "train.accelerator.fsdp_config.reshard_after_forward",
        "train.accelerator.fsdp_config.full_shard",
        "train.enable_full_shard",
    ];
    let full = full.iter().find_map(|name| settings.flag(name)).is_none_or(|found| found.value);
    let word = match (engine, full) {
        ("ddp", _) => "none",
        (_, true) => "zero3",
        (_, false) => "zero2",
    };
    imported.say(keys::distribution::engine, engine, mode.origin.clone());
    imported.say(keys::distribution::sharding, word, mode.origin);
    let shards = settings.first_whole(&["train.accelerator.dp_shard_size", "train.data_parallel_shard_size"]);
    imported.set(keys::distribution::shard_group, shards.filter(|found| found.value > 1 && engine != "ddp"));
    let offload = settings
        .on("train.accelerator.fsdp_config.offload")
        .or_else(|| settings.on("train.enable_fsdp_offload"))
        .map(|found| found.map(|_| "parameters"));
    imported.set(keys::training::cpu_offload, offload);
    let activations = [
        "train.accelerator.offload_config.enable_activation",
        "train.accelerator.offload.enable_activation",
        "train.enable_activation_offload",
    ];
    if activations.iter().any(|name| settings.is(name)) {
        not_modelled(imported, "activation offloading: kept inputs go to the host");
    }
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    let named = settings.first_text(&["train.optimizer.type", "train.optimizer"]);
    let found = named.unwrap_or_else(|| Setting::new("adamw".to_owned(), default("optimizer.type")));
    let name = if found.value == "adamw" { found.map(|_| "adamw_fused".to_owned()) } else { found };
    common::set_optimizer(imported, Some(name));
}

fn kernels(imported: &mut ImportedPlan, settings: &Settings) {
    let named = settings.first_text(&["model.ops_implementation.attn_implementation", "model.attn_implementation"]);
    let word = named.map(|found| {
        found.map(|name| match name.as_str() {
            "eager" => "eager",
            "sdpa" => "sdpa",
            _ => "flash",
        })
    });
    let usual = || Setting::new("flash", default("attn_implementation flash_attention_2"));
    imported.set(keys::training::attention, Some(word.unwrap_or_else(usual)));
    let loss = settings.text("model.ops_implementation.cross_entropy_loss_implementation");
    match loss {
        Some(found) if found.value == "eager" => {}
        Some(found) => imported.set(keys::training::loss, Some(found.map(|_| "fused"))),
        None if settings.holds("model.ops_implementation") => {
            imported.say(keys::training::loss, "fused", default("cross_entropy_loss_implementation liger_kernel"));
        }
        None => {}
    }
}
