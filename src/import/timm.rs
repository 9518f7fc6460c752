//! timm's `train.py` (pytorch-image-models).

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, take};
use super::settings::Settings;
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "timm 1.0";

const ROWS: &[SettingRow] = &[
    (&["batch_size", "b"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["grad_accum_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["img_size"], keys::model::image_size, SettingKind::Whole),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["channels_last"], keys::training::channels_last, SettingKind::Flag),
    (&["grad_checkpointing"], keys::training::activation_checkpointing, SettingKind::On("full")),
];

/// Names of timm, and the catalogue's for the same shape.
const MODELS: [(&str, &str); 11] = [
    ("resnet18", "resnet-18"),
    ("resnet34", "resnet-34"),
    ("resnet50", "resnet-50"),
    ("resnet101", "resnet-101"),
    ("resnet152", "resnet-152"),
    ("vit_base_patch16_224", "vit-base"),
    ("vit_large_patch16_224", "vit-large"),
    ("vit_huge_patch14_224", "vit-huge"),
    ("vit_base_patch16_224_in21k", "vit-base"),
    ("tv_resnet50", "resnet-50"),
    ("tv_resnet101", "resnet-101"),
];

/// Words that only timm's parser has.
const OWN: [&str; 12] = [
    "amp",
    "aa",
    "reprob",
    "model_ema",
    "mixup",
    "cutmix",
    "sched",
    "opt",
    "drop_path",
    "img_size",
    "warmup_lr",
    "jsd_loss",
];

/// Whether the program is timm's.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let own = OWN.iter().filter(|name| options.holds(name)).count();
    context.program.name() == "train.py"
        && options.holds("model")
        && own >= 2
        && (options.holds("b") || options.holds("batch_size") || options.holds("sched"))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("timm");
    let settings = arguments::read(&context.program.words).options;
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.text("model") {
        Some(found) => network(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no --model"),
    }
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    imported.say(keys::training::micro_batch_size, 128, default("--batch-size 128"));
    imported.say(keys::training::weight_decay, 2e-5, default("--weight-decay 2e-5"));
    imported.say(keys::training::gradient_clipping, false, default("no --clip-grad"));
    imported.say(keys::training::activation_checkpointing, "none", default("no --grad-checkpointing"));
    imported.say(keys::distribution::sharding, "none", default("DistributedDataParallel"));
    imported.say(keys::distribution::engine, "ddp", default("DistributedDataParallel"));
    take(&mut imported, &settings, ROWS);
    precision(&mut imported, &settings);
    optimizer(&mut imported, &settings);
    let compiled = settings.get("torchcompile").map(|found| Setting::new(true, found.origin.clone()));
    settings.accept("torchcompile");
    imported.set(keys::training::compile, compiled);
    for name in
        OWN.iter().chain(&["model_ema_decay", "pretrained", "apex_amp", "drop", "smoothing", "crop_pct", "remode"])
    {
        settings.accept(name);
    }
    if settings.is("model_ema") {
        super::rows::not_modelled(&mut imported, "--model-ema: a second copy of the weights");
    }
    account_for(&mut imported, &settings);
    imported
}

fn network(imported: &mut ImportedPlan, context: &ImportContext, found: Setting<String>) {
    let plain = found.value.split('.').next().unwrap_or("").to_owned();
    match MODELS.iter().find(|(name, _)| *name == plain) {
        Some((_, preset)) => imported.set(keys::model::preset, Some(found.map(|_| (*preset).to_owned()))),
        None => match model::preset(context, &plain) {
            Some(preset) => imported.say(keys::model::preset, preset, found.origin),
            None => imported.miss(keys::model::preset, format!("{}: not in the catalogue", found.value)),
        },
    }
}

fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let half = settings.text("amp_dtype").is_some_and(|found| found.value.contains("bf"));
    let stored = settings.text("model_dtype");
    let on = settings.on("amp").or_else(|| settings.on("apex_amp")).or_else(|| settings.on("native_amp"));
    let word = match (stored, on) {
        (Some(found), _) if found.value.contains("bf") => found.map(|_| "bf16"),
        (_, Some(found)) => found.map(|_| if half { "bf16-mixed" } else { "fp16-mixed" }),
        _ => Setting::new("fp32", Origin::Default { framework: VERSION, option: "no --amp".to_owned() }),
    };
    imported.set(keys::training::precision, Some(word));
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    let usual = || Origin::Default { framework: VERSION, option: "--opt sgd".to_owned() };
    let found = settings.text("opt").unwrap_or_else(|| Setting::new("sgd".to_owned(), usual()));
    match found.value.as_str() {
        "sgd" | "nesterov" | "momentum" | "fusedsgd" => {
            imported.set(keys::training::optimizer, Some(found.map(|_| "sgd-momentum")))
        }
        "adam" | "adamw" | "fusedadam" | "fusedadamw" | "lion" | "adafactor" | "muon" => {
            common::set_optimizer(imported, Some(found));
        }
        other => {
            imported.miss(keys::training::optimizer, format!("--opt {other} has no word in a plan"));
            super::rows::not_modelled(imported, &format!("--opt {other}: its states"));
        }
    }
}
