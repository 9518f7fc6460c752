//! Levanter: `-m levanter.main.train_lm --config_path CONFIG.yaml --trainer.… …` (`src/levanter/trainer.py`,
//! `src/levanter/main/train_lm.py`, `lora_lm.py`, `src/levanter/models/*.py` at 9263f81e). It is JAX: a plan counts
//! `PyTorch`'s modules in its place, and says so.

use super::adapters;
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
const VERSION: &str = "Levanter of September 2025";

/// `TrainerConfig`, `OptimizerConfig`, `AdamConfig`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("trainer.train_batch_size", DefaultValue::Whole(512)),
    ("trainer.mp", DefaultValue::Text("f32")),
    ("optimizer.weight_decay", DefaultValue::Number(0.1)),
    ("optimizer.max_grad_norm", DefaultValue::Number(1.0)),
    ("optimizer.type", DefaultValue::Text("adam")),
    ("model.gradient_checkpointing", DefaultValue::Flag(true)),
];

/// `LlamaConfig`
const LLAMA: &[(&str, DefaultValue)] = &[
    ("model.seq_len", DefaultValue::Whole(2048)),
    ("model.hidden_dim", DefaultValue::Whole(4096)),
    ("model.intermediate_dim", DefaultValue::Whole(11008)),
    ("model.num_layers", DefaultValue::Whole(32)),
    ("model.num_heads", DefaultValue::Whole(32)),
    ("model.num_kv_heads", DefaultValue::Whole(32)),
    ("model.tie_word_embeddings", DefaultValue::Flag(false)),
    ("model.use_bias", DefaultValue::Flag(false)),
];

/// `Gpt2Config`
const GPT2: &[(&str, DefaultValue)] = &[
    ("model.seq_len", DefaultValue::Whole(1024)),
    ("model.hidden_dim", DefaultValue::Whole(768)),
    ("model.num_layers", DefaultValue::Whole(12)),
    ("model.num_heads", DefaultValue::Whole(12)),
    ("model.mlp_scale", DefaultValue::Whole(4)),
    ("model.tie_word_embeddings", DefaultValue::Flag(true)),
    ("model.use_bias", DefaultValue::Flag(true)),
];

const ROWS: &[SettingRow] = &[
    (&["optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["optimizer.max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["trainer.model_axis_size"], keys::distribution::tensor_parallel, SettingKind::Several),
];

const SHAPE: &[SettingRow] = &[
    (&["model.hidden_dim"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["model.intermediate_dim"], keys::architecture::intermediate_size, SettingKind::Whole),
    (&["model.num_layers"], keys::architecture::num_layers, SettingKind::Whole),
    (&["model.num_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
    (&["model.num_kv_heads"], keys::architecture::num_kv_heads, SettingKind::Whole),
    (&["model.head_dim"], keys::architecture::head_dim, SettingKind::Whole),
    (&["model.seq_len"], keys::architecture::max_position_embeddings, SettingKind::Whole),
    (&["model.tie_word_embeddings"], keys::architecture::tie_embeddings, SettingKind::Flag),
    (&["model.use_bias"], keys::architecture::linear_bias, SettingKind::Flag),
];

/// Whether settings are Levanter's: a policy of jmp, or its names of a batch and a model.
pub fn is_config(settings: &Settings) -> bool {
    let model = settings.get("model.type").is_some() || settings.get("initialize_from_hf").is_some();
    let policy = settings.text("trainer.mp").is_some_and(|found| policy(&found.value).is_some());
    let batch = settings.get("trainer.train_batch_size").is_some() && settings.holds("optimizer.learning_rate");
    policy && settings.holds("trainer") || batch && model
}

/// Whether the program is one of its applications.
pub fn runs(context: &ImportContext) -> bool {
    let path = context.program.path.replace('/', ".");
    path.contains("levanter.main.")
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Levanter");
    let options = arguments::read(&context.program.words).options;
    let path = options.first_text(&["config_path", "config"]).map(|found| found.value);
    for name in ["config_path", "config"] {
        options.accept(name);
    }
    let file = path.and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    set(&mut imported, file.with(options), context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Levanter");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let kind = file.text("model.type").map_or_else(|| "llama".to_owned(), |found| found.value);
    let own = if kind == "gpt2" { GPT2 } else { LLAMA };
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(Settings::defaults(VERSION, own)).with(file);
    imported.say(keys::model::framework, "pytorch", Origin::Program("Levanter's own keys".to_owned()));
    not_modelled(imported, "JAX: XLA plans what is kept; PyTorch's modules under FSDP2 stand in");
    take(imported, settings, ROWS);
    named(imported, settings, context, &kind);
    length(imported, settings);
    batch(imported, settings);
    precision(imported, settings);
    common::set_optimizer(imported, settings.text("optimizer.type"));
    imported.say(keys::distribution::sharding, "zero3", default("fsdp_axis embed"));
    imported.say(keys::distribution::engine, "fsdp2", default("fsdp_axis embed"));
    if settings.holds("trainer.tensor_parallel_axes") && !settings.is_set("trainer.model_axis_size") {
        settings.accept("trainer.tensor_parallel_axes");
        imported.note("trainer.tensor_parallel_axes: of a model axis of one device, which shares out nothing");
    }
    let recompute = settings.flag("model.gradient_checkpointing");
    match recompute {
        Some(found) => imported
            .set(keys::training::activation_checkpointing, Some(found.map(|on| if on { "full" } else { "none" }))),
        None => imported
            .miss(keys::training::activation_checkpointing, "model.gradient_checkpointing names a policy of JAX"),
    }
    if context.program.path.contains("lora") || settings.holds("lora") || settings.holds("peft_save_path") {
        adapters::set(imported, settings.whole("lora.r"), (VERSION, 8), None);
        let all = || Setting::new(vec!["all-linear".to_owned()], default("target_modules None"));
        adapters::set_targets(imported, Some(settings.texts("lora.target_modules").unwrap_or_else(all)));
        settings.accept("lora.alpha");
    }
    for name in ["trainer.fsdp_axis", "trainer.batch_axis", "model.type", "use_hf_model_config"] {
        settings.accept(name);
    }
    account_for(imported, settings);
}

/// A checkpoint of the hub, where its configuration goes over the file's; else the sizes that the file gives.
fn named(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, kind: &str) {
    settings.accept("initialize_from_hf");
    let hub = settings.text("initialize_from_hf").filter(|found| found.value.contains('/'));
    let replaced = settings.is("use_hf_model_config") || !settings.holds("model.type");
    match hub {
        Some(found) if replaced => return model::set(imported, context, found),
        None if settings.is("initialize_from_hf") && replaced => {
            let why = format!("the checkpoint that Levanter takes for model.type {kind} says its sizes");
            return imported.miss(keys::model::preset, why);
        }
        _ => {}
    }
    let (norm, activation, position) = match kind {
        "gpt2" => ("layernorm", "gelu", "learned"),
        "llama" => ("rmsnorm", "swiglu", "rope"),
        _ => {
            return imported
                .miss(keys::model::architecture, format!("model.type {kind} has shapes that are not read here"));
        }
    };
    take(imported, settings, SHAPE);
    for (key, word) in [
        ("model.architecture.norm", norm),
        ("model.architecture.activation", activation),
        ("model.architecture.position", position),
    ] {
        imported.say(key, word, default(kind));
    }
    let vocabulary = tokenizer(settings).and_then(|found| {
        let words = vocabulary(&found.value)?;
        Some(found.map(|_| words))
    });
    imported.set(keys::architecture::vocab_size, vocabulary);
    imported.miss(keys::architecture::vocab_size, "the tokenizer decides");
}

fn tokenizer(settings: &Settings) -> Option<Setting<String>> {
    let found = settings.first_text(&["data.tokenizer", "tokenizer"]);
    settings.accept("data.tokenizer");
    settings.accept("tokenizer");
    found
}

/// Words of tokenizers that its own configurations name (their `tokenizer.json` at the hub).
fn vocabulary(name: &str) -> Option<u64> {
    Some(match name.rsplit('/').next()? {
        "gpt2" => 50_257,
        "gpt-neox-20b" => 50_277,
        "Llama-2-7b-hf" => 32_000,
        "Meta-Llama-3-8B" | "Meta-Llama-3.1-8B" | "Meta-Llama-3.1-8B-Instruct" => 128_256,
        _ => return None,
    })
}

fn length(imported: &mut ImportedPlan, settings: &Settings) {
    let own = ["max_train_length", "max_seq_len", "train_seq_len"].iter().find_map(|name| settings.whole(name));
    let known = settings.is_set("model.seq_len") || imported.get(keys::architecture::num_layers).is_some();
    let shape = settings.whole("model.seq_len").filter(|_| known);
    imported.set(keys::model::sequence_length, own.or(shape));
    imported.miss(keys::model::sequence_length, "the checkpoint's configuration says it");
}

/// A batch of -1 is what the devices take at once; `per_device_parallelism` of -1 is the batch's share in one pass
/// (`TrainerConfig._validate_and_set_defaults`).
fn batch(imported: &mut ImportedPlan, settings: &Settings) {
    imported.set(keys::model::batch_size, settings.whole("trainer.train_batch_size"));
    match settings.whole("trainer.per_device_parallelism") {
        Some(found) => imported.set(keys::training::micro_batch_size, Some(found)),
        None => imported.say(keys::training::gradient_accumulation_steps, 1, default("per_device_parallelism -1")),
    }
    for name in ["trainer.per_device_parallelism", "trainer.train_batch_size"] {
        settings.accept(name);
    }
    let schedule = settings.get("trainer.train_batch_size").is_some_and(|found| found.value.is_array());
    if schedule {
        imported.drop(keys::model::batch_size);
        imported.miss(keys::model::batch_size, "trainer.train_batch_size is a schedule");
    }
}

/// A policy of jmp: `p=f32,c=bfloat16`, or one type for all.
fn policy(text: &str) -> Option<&'static str> {
    let mut storage = None;
    let mut compute = None;
    for part in text.split(',') {
        match part.trim().split_once('=') {
            Some(("p" | "params", name)) => storage = Some(name),
            Some(("c" | "compute", name)) => compute = Some(name),
            Some(("o" | "output", _)) => {}
            Some(_) => return None,
            None => (storage, compute) = (Some(part.trim()), Some(part.trim())),
        }
    }
    Some(match (storage?, compute.or(storage)?) {
        ("f32" | "float32" | "full", "f32" | "float32" | "full") => "fp32",
        ("f32" | "float32", "bfloat16" | "bf16") => "bf16-mixed",
        ("f32" | "float32", "float16" | "f16") => "fp16-mixed",
        ("bfloat16" | "bf16", "bfloat16" | "bf16") => "bf16",
        _ => return None,
    })
}

fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let found = settings.text("trainer.mp").and_then(|found| found.and_then(|text| policy(&text)));
    if found.is_none() {
        settings.refuse("trainer.mp");
    }
    imported.set(keys::training::precision, found);
}
