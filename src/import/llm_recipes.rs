//! llm-recipes, a fork of llama-recipes with Megatron's options: `examples/finetuning.py --base-model …`
//! (`okoge-kaz/llm-recipes`, `src/llama_recipes/arguments.py`, `finetuning.py`, `utils/train_utils.py`, 2024).

use super::accelerate;
use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "llm-recipes of 2024";

/// `_add_training_args`, `_add_fsdp_args`, `_add_regularization_args`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("sharding_strategy", DefaultValue::Text("FULL_SHARD")),
    ("fsdp_activation_checkpointing", DefaultValue::Flag(false)),
    ("grad_clip_norm", DefaultValue::Number(1.0)),
    ("weight_decay", DefaultValue::Number(0.01)),
    ("optimizer", DefaultValue::Text("adam")),
];

const ROWS: &[SettingRow] = &[
    (&["seq_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["micro_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["global_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["grad_clip_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["fsdp_cpu_offload"], keys::training::cpu_offload, SettingKind::On("parameters")),
];

/// Whether the program is its own: options of Megatron beside a model of the hub.
pub fn runs(context: &ImportContext) -> bool {
    let has = |name: &str| context.program.words.iter().any(|word| word.split('=').next() == Some(name));
    context.program.name() == "finetuning.py" && has("--base-model") && (has("--seq-length") || has("--use-mpi"))
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("llm-recipes");
    let options = arguments::read(&context.program.words).options;
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(options);
    imported.say(keys::model::framework, "transformers", Origin::Program(context.program.shown()));
    if let Some(found) = settings.text("base_model") {
        model::set(&mut imported, context, found);
    }
    imported.miss(keys::model::preset, "--base-model names it");
    take(&mut imported, settings, ROWS);
    precision(&mut imported, settings);
    imported.say(keys::training::attention, "flash", default("attn_implementation flash_attention_2"));
    let adam = settings.text("optimizer").map(|found| found.map(|_| "adamw".to_owned()));
    common::set_optimizer(&mut imported, adam);
    imported.say(keys::distribution::engine, "fsdp1", default("FullyShardedDataParallel"));
    let strategy = settings.text("sharding_strategy");
    if strategy.as_ref().is_some_and(|found| found.value.contains("HYBRID")) {
        imported.note("HYBRID_SHARD: shards within a node; distribution.shard_group is the GPUs of one");
    }
    imported.set(keys::distribution::sharding, strategy.map(|found| found.map(|name| accelerate::strategy(&name))));
    let recompute = settings.flag("fsdp_activation_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    if settings.is("direct_preference_optimization") {
        TrainingMethod::Dpo.apply(&mut imported);
    }
    if settings.is("use_freeze_layers") {
        not_modelled(&mut imported, "--use-freeze-layers: layers that do not train");
    }
    if settings.is("quantization") {
        not_modelled(&mut imported, "--quantization: weights of 8 bits");
    }
    for name in ["low_cpu_fsdp", "use_mpi", "no_meta_device", "instruction_tuning", "continual_pretraining", "epoch"] {
        settings.accept(name);
    }
    account_for(&mut imported, settings);
    imported
}

/// The model is brought to `--bf16` or `--fp16` before `AdamW` takes its parameters: no fp32 copy is held, but FSDP's
/// policy of `--mixed-precision` reduces in fp32 (`policies/mixed_precision.py`).
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let half = settings.on("bf16").map(|found| found.map(|_| "bf16"));
    let half = half.or_else(|| settings.on("fp16").map(|found| found.map(|_| "fp16")));
    let loaded = || Setting::new("fp16", default("torch_dtype float16, without --bf16"));
    imported.set(keys::training::precision, Some(half.unwrap_or_else(loaded)));
    let wide =
        settings.is("mixed_precision") && settings.text("param_dtype").is_some_and(|found| found.value == "fp32");
    if wide {
        not_modelled(imported, "--param-dtype fp32: weights of 16 bits that are gathered in fp32");
    }
    settings.accept("mixed_precision");
}
