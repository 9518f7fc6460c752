//! The pretraining scripts of `GaLore`, APOLLO and `ReLoRA`: `torchrun_main.py`, `main_pretrain.py` (`jiaweizzhao/GaLore`
//! `torchrun_main.py`, `zhuhanqing/APOLLO` `utils/argparse.py`, `Guitaricet/relora` `torchrun_main.py`, 2023 to 2025).

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "GaLore's torchrun_main.py";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("max_length", DefaultValue::Whole(256)),
    ("optimizer", DefaultValue::Text("adam")),
    ("dtype", DefaultValue::Text("bfloat16")),
    ("weight_decay", DefaultValue::Number(0.0)),
    ("grad_clipping", DefaultValue::Number(0.0)),
    ("activation_checkpointing", DefaultValue::Flag(false)),
];

/// What `ReLoRA`'s script has otherwise.
const RELORA: &[(&str, DefaultValue)] =
    &[("max_length", DefaultValue::Whole(512)), ("clip_grad_norm", DefaultValue::Number(1.0))];

const ROWS: &[SettingRow] = &[
    (&["batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["total_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["gradient_accumulation"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["max_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["clip_grad_norm", "grad_clipping"], keys::training::gradient_clipping, SettingKind::Clipped),
];

/// Whether settings are one of `ReLoRA`'s training configurations.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("relora") && settings.holds("total_batch_size") && settings.holds("batch_size")
}

/// Whether the program is such a script.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let whole = options.holds("total_batch_size") || options.holds("gradient_accumulation");
    context.program.python
        && (options.holds("model_config") && options.holds("batch_size") && whole
            || (context.program.name() == "torchrun_main.py" && options.holds("training_config")))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("GaLore");
    let given = arguments::read(&context.program.words).options;
    let file = given.text("training_config").and_then(|path| context.configuration(&path.value, &mut imported));
    set(&mut imported, file.unwrap_or_default().with(given), context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("GaLore");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, given: Settings, context: &ImportContext) {
    let relora = given.holds("relora") || given.holds("use_peft") || given.holds("training_config");
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    if relora {
        "ReLoRA".clone_into(&mut imported.tool);
        settings.over(Settings::defaults("ReLoRA's torchrun_main.py", RELORA));
    }
    let settings = &settings.with(given);
    imported.say(keys::model::framework, "pytorch", Origin::Program("the options of GaLore's scripts".to_owned()));
    match settings.first_text(&["model_name_or_path", "model_config"]) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no --model_config"),
    }
    take(imported, settings, ROWS);
    // The whole model is in that type: weights, gradients and states (`model.to(dtype=torch.bfloat16)`).
    let half = |name: &str| ["bf16", "bfloat16"].contains(&name);
    let dtype = settings.text("dtype").map(|found| found.map(|name| if half(&name) { "bf16" } else { "fp32" }));
    imported.set(keys::training::precision, dtype);
    optimizer(imported, settings);
    let recompute = settings.flag("activation_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    imported.say(keys::training::attention, "sdpa", default("scaled_dot_product_attention"));
    imported.say(keys::distribution::sharding, "none", default("DistributedDataParallel"));
    imported.say(keys::distribution::engine, "ddp", default("DistributedDataParallel"));
    if let Some(found) = settings.text("distributed_type").filter(|found| found.value == "fsdp") {
        not_modelled(imported, &format!("{}: fsdp, its wrapping and types are the script's", found.origin));
        for key in ["distribution.sharding", "distribution.engine"] {
            imported.drop(key);
            imported.miss(key, "FSDP as the script wraps it");
        }
    }
    if settings.is("use_peft") {
        not_modelled(
            imported,
            "ReLoRA: adapters of every block, which are merged again and again; embeddings, norms and head train beside \
             them, and the plan trains the whole model",
        );
        for name in ["lora_r", "lora_alpha", "relora", "force_keep_original", "use_peft"] {
            settings.accept(name);
        }
    }
    for name in ["weight_quant", "proj_quant"] {
        if settings.is(name) {
            not_modelled(imported, &format!("--{name}: weights or projections of 8 bits"));
        }
    }
    for name in ["single_gpu", "rank", "unset_wandb", "scale_front", "training_config"] {
        settings.accept(name);
    }
    account_for(imported, settings);
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("optimizer") else { return };
    let name = found.value.to_lowercase();
    if name == "adam_zero" {
        not_modelled(imported, &format!("{}: states are shared out by ZeroRedundancyOptimizer", found.origin));
    }
    if name.contains("per_layer") {
        not_modelled(imported, &format!("{}: each layer is updated in its backward pass", found.origin));
    }
    let projected = name.contains("galore") || name.contains("apollo");
    if let (true, Some(rank)) = (projected, settings.whole("rank")) {
        imported.note(format!("{}: states of rank {}", found.origin, rank.value));
    }
    common::set_optimizer(imported, Some(Setting::new(name, found.origin)));
}
