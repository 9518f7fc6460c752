//! `ModelCenter`: its examples' `finetune_*.py` and `pretrain_*.py` over `BMTrain` (`model_center/arguments.py`, `examples/*/`,
//! `model_center/layer/blocks.py`; `BMTrain`'s `block_layer.py`, `optim/adam_offload.py`): weights in half precision,
//! shared out over all ranks and gathered block by block, blocks recomputed, states and main weights on the host.

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "ModelCenter 1.0";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("batch_size", DefaultValue::Whole(32)),
    ("clip_grad", DefaultValue::Number(1.0)),
    ("weight_decay", DefaultValue::Number(0.01)),
];

const ROWS: &[SettingRow] = &[
    (&["batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
];

/// Whether the program is one of its examples: such a name, and an option that those alone have.
pub fn runs(context: &ImportContext) -> bool {
    let name = context.program.name();
    let named = name.starts_with("finetune_") || name.starts_with("pretrain_");
    let options = arguments::read(&context.program.words).options;
    context.program.python && named && options.holds("model_config") && options.holds("inspect_iters")
        || named && options.holds("model_config") && options.holds("base_path") && options.holds("lr_decay_style")
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ModelCenter");
    let given = arguments::read(&context.program.words).options;
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(given);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.text("model_config") {
        // Its own names of models of others.
        Some(found) => {
            let known = found.map(|name| match name.rsplit('/').next().unwrap_or("") {
                "gpt2-base" => "gpt2".to_owned(),
                "gptj-6b" => "gpt-j-6b".to_owned(),
                _ => name,
            });
            model::set(&mut imported, context, known);
        }
        None => imported.miss(keys::model::preset, "no --model-config"),
    }
    take(&mut imported, settings, ROWS);
    lengths(&mut imported, settings, context);
    imported.say(keys::training::gradient_accumulation_steps, 1_u64, default("an update each iteration"));
    imported.say(keys::training::precision, "fp16-fp32-master", default("half precision, fp32 main weights"));
    imported.say(keys::training::optimizer, "adamw-fused", default("AdamOffloadOptimizer"));
    imported.say(keys::training::cpu_offload, "optimizer", default("AdamOffloadOptimizer"));
    imported.say(keys::training::activation_checkpointing, "full", default("CheckpointBlock"));
    imported.say(keys::training::attention, "eager", default("attention of its own layers"));
    imported.say(keys::distribution::sharding, "zero3", default("DistributedParameter"));
    imported.say(keys::distribution::engine, "deepspeed", default("BMTrain, as ZeRO's third stage"));
    imported.note("ModelCenter's modules over BMTrain are counted as transformers' under DeepSpeed's ZeRO");
    account_for(&mut imported, settings);
    imported
}

/// Decoders take `--max-length` or `--max-decoder-length`, encoders `--max-encoder-length`, T5's both.
fn lengths(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let encoder = settings.whole("max_encoder_length");
    let decoder = settings.first_whole(&["max_length", "max_decoder_length"]);
    if encoder.is_some() {
        imported.set(keys::model::decoder_sequence_length, decoder.clone());
    }
    let given: Option<Setting<u64>> = encoder.or(decoder);
    match given {
        Some(found) => imported.set(keys::model::sequence_length, Some(found)),
        None => {
            imported.miss(keys::model::sequence_length, format!("{} has a default of its own", context.program.shown()))
        }
    }
    for name in ["inspect_iters", "base_path", "loss_scale", "lr_decay_style", "save_iters"] {
        settings.accept(name);
    }
}
