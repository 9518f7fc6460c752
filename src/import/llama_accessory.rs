//! LLaMA2-Accessory: `main_finetune.py` and `main_pretrain.py` of `accessory/` (argparse's defaults there, `model/meta.py`,
//! `configs/global_configs.py` at the last commit): FSDP around fairscale's tensor-parallel layers, what trains in fp32.

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "LLaMA2-Accessory";

/// What both programs have.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("accum_iter", DefaultValue::Whole(4)),
    ("weight_decay", DefaultValue::Number(0.02)),
    ("clip_grad", DefaultValue::Number(-1.0)),
    ("model_parallel_size", DefaultValue::Whole(1)),
    ("llama_type", DefaultValue::Text("llama")),
    ("data_parallel", DefaultValue::Text("sdp")),
    ("precision", DefaultValue::Text("bf16")),
    ("checkpointing", DefaultValue::Flag(false)),
];

const ROWS: &[SettingRow] = &[
    (&["batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["accum_iter"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["max_words"], keys::model::sequence_length, SettingKind::Whole),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["model_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Several),
];

/// Whether the program is one of its two, by options that only those have.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let named = matches!(context.program.name(), "main_finetune.py" | "main_pretrain.py");
    named && ["llama_type", "llama_config"].iter().any(|name| options.holds(name))
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("LLaMA2-Accessory");
    let own: &[(&str, DefaultValue)] = if context.program.name() == "main_finetune.py" {
        &[("batch_size", DefaultValue::Whole(16)), ("max_words", DefaultValue::Whole(1024))]
    } else {
        &[("batch_size", DefaultValue::Whole(4)), ("max_words", DefaultValue::Whole(2048))]
    };
    let given = arguments::read(&context.program.words).options;
    let settings = Settings::defaults(VERSION, DEFAULTS).with(Settings::defaults(VERSION, own)).with(given);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    shape(&mut imported, &settings, context);
    take(&mut imported, &settings, ROWS);
    precision(&mut imported, &settings);
    let word = settings.text("data_parallel").map(|found| {
        found.map(|word| match word.as_str() {
            "fsdp" => "zero3",
            "ddp" => "none",
            // ShardingStrategy.SHARD_GRAD_OP
            _ => "zero2",
        })
    });
    imported.set(keys::distribution::sharding, word);
    imported.say(keys::distribution::engine, "fsdp1", default("FullyShardedDataParallel"));
    imported.say(keys::training::optimizer, "adamw-fused", default("apex's FusedAdam, else AdamW"));
    imported.say(keys::training::attention, "flash", default("USE_FLASH_ATTENTION where flash_attn is installed"));
    let recompute = settings.flag("checkpointing").map(|found| found.map(|on| if on { "full" } else { "none" }));
    imported.set(keys::training::activation_checkpointing, recompute);
    beside(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    imported
}

/// `--llama_config` names files of sizes; the tokenizer says the vocabulary.
fn shape(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let files = settings.texts("llama_config").map(|found| found.value).unwrap_or_default();
    let origin = settings.get("llama_config").map(|found| found.origin.clone());
    settings.accept("llama_config");
    for file in files.iter().filter(|file| file.ends_with(".json")) {
        // `…/llama-2-7b/params.json`
        let folder = file.rsplit('/').nth(1).unwrap_or("");
        if let (Some(preset), Some(origin)) = (model::preset(context, folder), origin.clone()) {
            return imported.say(keys::model::preset, preset, origin);
        }
    }
    let named = files.iter().find(|file| !file.contains("configs/model/")).filter(|file| !file.contains('?'));
    let why = match named {
        Some(file) => format!("{file} says its sizes, the tokenizer its vocabulary"),
        None => "an argument of the script names the file of its sizes (--llama_config)".to_owned(),
    };
    imported.miss(keys::model::preset, why);
}

/// What trains is kept in fp32 (`promote_trainable_params_to_fp32`); FSDP's `MixedPrecision` computes and reduces in 16 bits.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("precision") else { return settings.refuse("precision") };
    let word = match found.value.as_str() {
        "bf16" => "bf16-mixed",
        "fp16" => "fp16-mixed",
        "tf32" => "tf32",
        _ => return settings.refuse("precision"),
    };
    imported.set(keys::training::precision, Some(found.map(|_| word)));
}

/// Kinds of models beside the plain one, and what sees.
fn beside(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let kind = settings.text("llama_type").unwrap_or_else(|| Setting::new("?".to_owned(), default("llama_type")));
    let what = match kind.value.as_str() {
        "llama" | "internlm" | "llama_ens" => None,
        "mixtral" | "mixtral_sparse" => Some("experts of its own, whose sizes its file says"),
        "llama_adapter" => Some("prefixes of LLaMA-Adapter in frozen layers: the plan trains the whole model"),
        word if word.contains("qformer") => Some("a Q-Former before the language model"),
        word if word.contains("peft") => {
            Some("biases, norms and adapters of its configuration are trained, the rest frozen")
        }
        _ => Some("a kind of model that is not known here"),
    };
    if let Some(what) = what {
        not_modelled(imported, &format!("{} {}: {what}", kind.origin, kind.value));
    }
    let sees = context.program.name() == "main_finetune.py" && !settings.is("no_visual");
    if sees {
        not_modelled(imported, "no --no_visual: the encoders of images and their projections");
    }
    if settings.is("quant") {
        not_modelled(imported, "--quant: frozen weights of 4 bits");
    }
    for name in ["no_visual", "quant", "dialog", "packed_data", "pretrained_type", "only_save_trainable"] {
        settings.accept(name);
    }
}
