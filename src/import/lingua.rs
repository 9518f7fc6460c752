//! Meta Lingua: `-m apps.main.train config=CONFIG.yaml` (`apps/main/train.py`, `lingua/distributed.py`,
//! `lingua/transformer.py`, `lingua/optim.py` of its main branch in 2025).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "Lingua of 2025";

/// `TrainArgs`, `DataArgs`, `DistributedArgs`, `OptimArgs`, `BaseTransformerArgs`, `LMTransformerArgs`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("grad_acc_steps", DefaultValue::Whole(1)),
    ("data.batch_size", DefaultValue::Whole(2)),
    ("data.seq_len", DefaultValue::Whole(2048)),
    ("optim.weight_decay", DefaultValue::Number(0.1)),
    ("optim.clip", DefaultValue::Number(1.0)),
    ("distributed.fsdp_type", DefaultValue::Text("no_shard")),
    ("distributed.model_dtype", DefaultValue::Text("bf16")),
    ("distributed.dp_shard", DefaultValue::Whole(1)),
    ("distributed.tp_size", DefaultValue::Whole(1)),
    ("distributed.compile", DefaultValue::Flag(false)),
    ("distributed.selective_activation_checkpointing", DefaultValue::Flag(false)),
    ("model.dim", DefaultValue::Whole(512)),
    ("model.n_layers", DefaultValue::Whole(8)),
    ("model.multiple_of", DefaultValue::Whole(256)),
    ("model.weight_tying", DefaultValue::Flag(false)),
];

const ROWS: &[SettingRow] = &[
    (&["data.seq_len"], keys::model::sequence_length, SettingKind::Whole),
    (&["data.seq_len"], keys::architecture::max_position_embeddings, SettingKind::Whole),
    (&["data.batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["grad_acc_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["optim.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["optim.clip"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["distributed.tp_size"], keys::distribution::tensor_parallel, SettingKind::Several),
    (&["distributed.compile"], keys::training::compile, SettingKind::Flag),
    (&["model.dim"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["model.n_layers"], keys::architecture::num_layers, SettingKind::Whole),
    (&["model.n_kv_heads"], keys::architecture::num_kv_heads, SettingKind::Whole),
    (&["model.head_dim"], keys::architecture::head_dim, SettingKind::Whole),
    (&["model.weight_tying"], keys::architecture::tie_embeddings, SettingKind::Flag),
    (&["model.sliding_window"], keys::architecture::sliding_window, SettingKind::Whole),
];

/// Whether settings are Lingua's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("distributed.fsdp_type") && settings.holds("data.seq_len") && settings.holds("model.dim")
}

fn config(context: &ImportContext) -> Option<String> {
    arguments::overrides(&context.program.words).text("config").map(|found| found.value)
}

/// Whether the program is one of its applications.
pub fn runs(context: &ImportContext) -> bool {
    let path = context.program.path.replace('/', ".");
    path.contains("apps.") && (path.ends_with("train") || path.ends_with("train.py")) && config(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Lingua");
    let file = config(context).and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    set(&mut imported, file.with(arguments::overrides(&context.program.words)));
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Lingua");
    set(&mut imported, file);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings) {
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.say(keys::model::framework, "torchtitan", Origin::Program("Lingua's own keys".to_owned()));
    imported.note("Lingua's modules are counted as torchtitan's: plain PyTorch under FSDP2");
    take(imported, settings, ROWS);
    shape(imported, settings);
    let dtype = settings.text("distributed.model_dtype");
    // fp32 shards, MixedPrecisionPolicy with that type and fp32 reductions (`parallelize_model`).
    let word = dtype.and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "bf16" => Some("bf16-mixed"),
            "fp16" => Some("fp16-mixed"),
            "fp32" => Some("fp32"),
            _ => None,
        })
    });
    match word {
        Some(found) => imported.set(keys::training::precision, Some(found)),
        None => settings.refuse("distributed.model_dtype"),
    }
    if settings.get("distributed.float8_recipe").is_some() {
        not_modelled(imported, "distributed.float8_recipe: FP8 in some linear layers");
    }
    imported.say(keys::training::optimizer, "adamw-fused", default("AdamW(fused=True) (lingua/optim.py)"));
    imported.say(keys::training::attention, "sdpa", default("attn_impl sdpa"));
    sharding(imported, settings);
    let selective = settings.flag("distributed.selective_activation_checkpointing");
    if selective.as_ref().is_some_and(|found| found.value) {
        not_modelled(imported, "selective checkpointing that keeps every matrix product: counted as each second one");
    }
    let word = selective.map(|found| found.map(|on| if on { "selective-op" } else { "none" }));
    imported.set(keys::training::activation_checkpointing, word);
    for name in ["name", "model.norm_eps", "model.rope_theta", "distributed.matmul_allow_tf32"] {
        settings.accept(name);
    }
    account_for(imported, settings);
}

/// `Transformer`: RMSNorm, rotary positions, a gated feed-forward of two thirds of four times the width.
fn shape(imported: &mut ImportedPlan, settings: &Settings) {
    let kind = settings.text("model_type").filter(|found| found.value != "transformer");
    let other = ["conv_size", "d_state", "ssm", "lru_dim_multiplier", "window_size", "global_transformer", "dimension"];
    if kind.is_some() || other.iter().any(|name| settings.holds(&format!("model.{name}"))) {
        let shape: Vec<&str> = imported
            .values
            .iter()
            .map(|found| found.key)
            .filter(|key| key.starts_with("model.architecture."))
            .collect();
        shape.into_iter().for_each(|key| imported.drop(key));
        not_modelled(imported, "layers that are no transformer's");
        return imported.miss(keys::model::architecture, "layers that are no transformer's have no word in a plan");
    }
    let (dim, heads) = (settings.whole("model.dim"), settings.whole("model.n_heads"));
    let told = settings.whole("model.head_dim").zip(dim.clone());
    let derived = told.filter(|(size, _)| size.value > 0).map(|(size, dim)| {
        Setting::new(dim.value / size.value, Origin::Derived("model.dim / model.head_dim".to_owned()))
    });
    imported.set(keys::architecture::num_attention_heads, heads.or(derived));
    for (key, word) in [
        ("model.architecture.activation", "swiglu"),
        ("model.architecture.norm", "rmsnorm"),
        ("model.architecture.position", "rope"),
    ] {
        imported.say(key, word, default("lingua/transformer.py"));
    }
    imported.say(keys::architecture::linear_bias, false, default("lingua/transformer.py"));
    if let Some((dim, multiple)) = dim.zip(settings.whole("model.multiple_of")) {
        let base = 2 * dim.value.saturating_mul(4) / 3;
        let factor = settings.number("model.ffn_dim_multiplier").map_or(1.0, |found| found.value);
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let scaled = (base as f64 * factor) as u64;
        let wide = scaled.div_ceil(multiple.value.max(1)).saturating_mul(multiple.value.max(1));
        let origin = Origin::Derived(format!("2/3 x 4 x {}, up to a multiple of {}", dim.value, multiple.value));
        imported.say(keys::architecture::intermediate_size, wide, origin);
    }
    let vocabulary = settings.whole("model.vocab_size").filter(|found| found.value > 0);
    imported.set(keys::architecture::vocab_size, vocabulary);
    imported.miss(keys::architecture::vocab_size, "the tokenizer decides");
}

/// `full_shard` over `dp_shard` ranks, which is one where nobody says it; every other rank is a replica
/// (`apps/main/train.py`, `validate_train_args`).
fn sharding(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    let kind = settings.text("distributed.fsdp_type");
    let group = settings.whole("distributed.dp_shard");
    let shards = group.as_ref().map_or(1, |found| found.value);
    let word = match kind.as_ref().map(|found| found.value.as_str()) {
        Some("full_shard") if shards > 1 => "zero3",
        Some("full_shard" | "no_shard") => "none",
        _ => return settings.refuse("distributed.fsdp_type"),
    };
    imported.set(keys::distribution::sharding, kind.map(|found| found.map(|_| word)));
    if word == "zero3" {
        imported.set(keys::distribution::shard_group, group);
    } else {
        imported.note("distributed.dp_shard is 1: every rank holds the whole model");
    }
    let replicas = settings.whole("distributed.dp_replicate").filter(|_| settings.is_set("distributed.dp_replicate"));
    if let (Some(replicas), true) = (replicas, shards > 0) {
        let data = replicas.value.saturating_mul(shards);
        imported.say(keys::distribution::data_parallel, data, Origin::Derived("dp_replicate x dp_shard".to_owned()));
    }
    for name in ["distributed.dp_replicate", "distributed.dp_shard"] {
        settings.accept(name);
    }
}
