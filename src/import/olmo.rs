//! OLMo: `scripts/train.py CONFIG.yaml --key=value` (`olmo/config.py` at 59a53e3f), and OLMo-core, whose
//! configurations are programs.

pub mod scripts;

use super::accelerate;
use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::World;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::text;
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "OLMo 0.6";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("model.d_model", DefaultValue::Whole(768)),
    ("model.n_heads", DefaultValue::Whole(12)),
    ("model.n_layers", DefaultValue::Whole(12)),
    ("model.mlp_ratio", DefaultValue::Whole(4)),
    ("model.activation_type", DefaultValue::Text("swiglu")),
    ("model.layer_norm_type", DefaultValue::Text("default")),
    ("model.max_sequence_length", DefaultValue::Whole(1024)),
    ("model.embedding_size", DefaultValue::Whole(50_304)),
    ("model.weight_tying", DefaultValue::Flag(true)),
    ("model.include_bias", DefaultValue::Flag(true)),
    ("model.residual_dropout", DefaultValue::Number(0.1)),
    ("model.flash_attention", DefaultValue::Flag(false)),
    ("global_train_batch_size", DefaultValue::Whole(512)),
    ("device_train_microbatch_size", DefaultValue::Whole(16)),
    ("optimizer.name", DefaultValue::Text("lionw")),
    ("optimizer.weight_decay", DefaultValue::Number(0.01)),
    ("distributed_strategy", DefaultValue::Text("fsdp")),
];

const ROWS: &[SettingRow] = &[
    (&["model.d_model"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["model.n_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
    (&["model.n_kv_heads"], keys::architecture::num_kv_heads, SettingKind::Whole),
    (&["model.n_layers"], keys::architecture::num_layers, SettingKind::Whole),
    (&["model.max_sequence_length"], keys::architecture::max_position_embeddings, SettingKind::Whole),
    (&["model.max_sequence_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["model.weight_tying"], keys::architecture::tie_embeddings, SettingKind::Flag),
    (&["model.include_bias"], keys::architecture::linear_bias, SettingKind::Flag),
    (&["model.bias_for_layer_norm", "model.include_bias"], keys::architecture::norm_bias, SettingKind::Flag),
    (&["model.attention_layer_norm"], keys::architecture::qk_norm, SettingKind::Flag),
    (&["global_train_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["device_train_microbatch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["model.residual_dropout"], keys::training::dropout, SettingKind::Share),
    (&["optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["max_grad_norm", "max_grad_norm_ratio"], keys::training::gradient_clipping, SettingKind::Clipped),
];

/// Whether settings are OLMo's.
pub fn is_config(settings: &Settings) -> bool {
    let batches = settings.holds("global_train_batch_size") || settings.holds("device_train_microbatch_size");
    batches && settings.holds("model.d_model") && !settings.holds("train_loader") && !settings.holds("model.name")
}

fn config(context: &ImportContext) -> Option<String> {
    let mut words = context.program.words.iter().filter(|word| word.ends_with(".yaml") || word.ends_with(".yml"));
    words.next().cloned()
}

/// Whether the program trains by such a file.
pub fn runs(context: &ImportContext) -> bool {
    config(context).is_some_and(|path| {
        let Ok(text) = context.run.files.read(&path) else {
            // Options that its script alone has, and a file that is not at hand.
            let own = |option: &str| context.program.words.iter().any(|word| word.starts_with(option));
            return context.program.name() == "train.py"
                && own("--device_train_microbatch_size=")
                && (own("--save_folder=") || own("--fsdp.") || own("--model."));
        };
        text.contains("d_model") && text::yaml(&path, &text).is_ok_and(|settings| is_config(&settings))
    })
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("OLMo");
    let file = config(context).and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    let words: Vec<String> = context.program.words.iter().map(|word| word.trim_start_matches('-').to_owned()).collect();
    imported.say(keys::model::framework, "llm-foundry", Origin::Program(context.program.shown()));
    set(&mut imported, file.with(arguments::overrides(&words)), context.world.total.as_ref().map(|found| found.value));
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings) -> ImportedPlan {
    let mut imported = ImportedPlan::of("OLMo");
    imported.say(keys::model::framework, "llm-foundry", Origin::Program("OLMo's own keys".to_owned()));
    set(&mut imported, file, None);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings, ranks: Option<u64>) {
    let mut settings = Settings::defaults(VERSION, DEFAULTS).with(file);
    settings.interpolate();
    let settings = &settings;
    imported.note("OLMo's modules are counted as llm-foundry's: both are PyTorch's own under FSDP");
    take(imported, settings, ROWS);
    shape(imported, settings);
    common::set_optimizer(imported, settings.text("optimizer.name"));
    precision(imported, settings);
    sharding(imported, settings, ranks);
    recomputation(imported, settings);
    imported.set(
        keys::training::attention,
        settings.flag("model.flash_attention").map(|found| found.map(|on| if on { "flash" } else { "sdpa" })),
    );
    let fused = settings.on("fused_loss").map(|found| found.map(|_| "te_fused"));
    imported.set(keys::training::loss, fused.or_else(|| Some(Setting::new("plain", default("cross_entropy_loss")))));
    z_loss(imported, settings);
    let compiled = settings.holds("compile");
    imported.say(keys::training::compile, compiled, default("compile"));
    for name in ["compile.fullgraph", "compile.mode", "compile.backend", "compile.dynamic"] {
        settings.accept(name);
    }
    account_for(imported, settings);
}

/// flash-attn's kernel gives the squared log-sum with its loss (`olmo/train.py`, `fused_loss_fn`); without it that is taken
/// from all logits once more.
fn z_loss(imported: &mut ImportedPlan, settings: &Settings) {
    let taken = settings.on("softmax_auxiliary_loss");
    for name in ["softmax_auxiliary_loss", "auxiliary_loss_multiplier", "sharded_checkpointer"] {
        settings.accept(name);
    }
    if let Some(found) = taken.filter(|_| settings.on("fused_loss").is_none()) {
        not_modelled(imported, &format!("{}: the square of the logits' log-sum beside the loss", found.origin));
    }
}

fn shape(imported: &mut ImportedPlan, settings: &Settings) {
    let one = settings.on("model.multi_query_attention").map(|found| found.map(|_| 1));
    imported.set(keys::architecture::num_kv_heads, one);
    // A size of the embedding that is null is the vocabulary's.
    let size = settings.first_whole(&["model.embedding_size", "model.vocab_size"]);
    imported.set(keys::architecture::vocab_size, size);
    settings.accept("model.vocab_size");
    let activation = settings.text("model.activation_type");
    let gated = activation.as_ref().is_some_and(|found| found.value == "swiglu");
    let hidden = settings.whole("model.d_model").map_or(0, |found| found.value);
    // What is wide is in front of the gate: half of it comes out.
    let wide = settings
        .whole("model.mlp_hidden_size")
        .or_else(|| settings.whole("model.mlp_ratio").map(|found| found.map(|ratio| ratio.saturating_mul(hidden))));
    imported.set(
        keys::architecture::intermediate_size,
        wide.map(|found| found.map(|wide| if gated { wide / 2 } else { wide })),
    );
    match activation {
        Some(found) if ["swiglu", "gelu", "relu"].contains(&found.value.as_str()) => {
            imported.set(keys::architecture::activation, Some(found));
        }
        _ => settings.refuse("model.activation_type"),
    }
    let norm = settings.text("model.layer_norm_type");
    imported.set(
        keys::architecture::norm,
        norm.map(|found| found.map(|name| if name.starts_with("rms") { "rmsnorm" } else { "layernorm" })),
    );
    // `olmo/model.py`, `LayerNorm`: that of low precision leaves autocast, whose list has `layer_norm` for fp32.
    let wide = settings.text("model.layer_norm_type").filter(|found| found.value == "default");
    let autocast = settings.text("precision").is_some_and(|found| found.value.starts_with("amp"));
    if let Some(found) = wide.filter(|_| autocast) {
        not_modelled(
            imported,
            &format!("{}: autocast keeps these norms' inputs in fp32, 16 bits are counted", found.origin),
        );
    }
    if let Some(found) = settings.flag("model.layer_norm_with_affine").filter(|found| !found.value) {
        imported.note(format!("{}: norms without weights; theirs are counted, and are few", found.origin));
    }
    let alibi = settings.on("model.alibi").map(|found| found.map(|_| "alibi"));
    let rope = settings.on("model.rope").map(|found| found.map(|_| "rope"));
    let learned = Setting::new("learned", default("neither rope nor alibi"));
    imported.set(keys::architecture::position, Some(alibi.or(rope).unwrap_or(learned)));
    if let Some(found) = settings.text("model.block_type").filter(|found| found.value == "parallel") {
        imported.set(keys::architecture::parallel_block, Some(found.map(|_| true)));
    }
    for name in ["model.norm_after", "model.rope_theta", "model.attention_layer_norm_with_affine"] {
        settings.accept(name);
    }
}

/// Autocast over fp32 shards, which FSDP casts as `fsdp.precision` says.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("precision") else {
        return imported.say(keys::training::precision, "fp32", default("no precision"));
    };
    let word = match found.value.as_str() {
        "amp_bf16" => "bf16-mixed",
        "amp_fp16" => "fp16-mixed",
        "fp32" => "fp32",
        _ => return settings.refuse("precision"),
    };
    imported.set(keys::training::precision, Some(found.map(|_| word)));
    let mixed = settings.text("fsdp.precision").filter(|found| found.value == "mixed");
    imported.set(keys::distribution::reduce_dtype, mixed.map(|found| found.map(|_| "fp32")));
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings, ranks: Option<u64>) {
    const KEY: &str = "distribution.sharding";
    let Some(found) = settings.text("distributed_strategy") else { return };
    match found.value.as_str() {
        "ddp" | "single" => {
            imported.set(keys::distribution::engine, Some(found.clone().map(|_| "ddp")));
            imported.set(KEY, Some(found.map(|_| "none")));
        }
        "fsdp" => {
            imported.set(keys::distribution::engine, Some(found.map(|_| "fsdp1")));
            let strategy =
                settings.text("fsdp.sharding_strategy").map(|found| found.map(|name| accelerate::strategy(&name)));
            imported.set(
                KEY,
                Some(strategy.unwrap_or_else(|| Setting::new("zero3", default("sharding_strategy FULL_SHARD")))),
            );
        }
        _ => settings.refuse("distributed_strategy"),
    }
    // `get_fsdp_wrap_policy` gives none then (olmo/model.py).
    let whole = |(name, found): &(&str, &Setting<serde_json::Value>)| {
        *name == "fsdp.wrapping_strategy" && found.value.is_null()
    };
    if let Some((_, found)) = settings.iter().find(whole).filter(|_| settings.holds("fsdp")) {
        let said = format!("{}: one unit of FSDP, gathered at once; a unit for each block is counted", found.origin);
        not_modelled(imported, &said);
    }
    // `scripts/train.py`: as many replicas, each sharded over its own ranks.
    if let Some(found) = settings.whole("fsdp.hybrid_sharding_num_model_replicas").filter(|found| found.value > 0) {
        match ranks.filter(|ranks| ranks.is_multiple_of(found.value)) {
            Some(ranks) => {
                let origin = Origin::Derived(format!("{ranks} ranks in {}", found.origin));
                imported.say(keys::distribution::shard_group, ranks / found.value, origin);
            }
            None => imported.miss(keys::distribution::shard_group, format!("{}: the GPUs of one", found.origin)),
        }
    }
}

fn recomputation(imported: &mut ImportedPlan, settings: &Settings) {
    const KEY: &str = "training.activation_checkpointing";
    let Some(found) = settings.text("activation_checkpointing") else {
        return imported.say(KEY, "none", default("no activation_checkpointing"));
    };
    let every = |every: u64| serde_json::json!({ "every": every });
    let value = match found.value.as_str() {
        "whole_layer" => "full".into(),
        "one_in_two" => every(2),
        "one_in_three" => every(3),
        "one_in_four" => every(4),
        "one_in_eight" => every(8),
        "fine_grained" => {
            not_modelled(imported, "activation_checkpointing fine_grained: counted as attention recomputed");
            "selective".into()
        }
        _ => return settings.refuse("activation_checkpointing"),
    };
    imported.set(KEY, Some(found.map(|_| value)));
}

/// Whether the program is OLMo-core's.
pub fn runs_core(context: &ImportContext) -> bool {
    let path = &context.program.path;
    let named = path.contains("olmo_core/") || path.starts_with("olmo_core.") || path.contains("src/scripts/train/");
    named || context.run.files.read(path).is_ok_and(|text| text.contains("from olmo_core."))
}

/// What can be told of a configuration that is a program.
pub fn import_core(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("OLMo-core");
    let words: Vec<String> = context.program.words.iter().map(|word| word.trim_start_matches('-').to_owned()).collect();
    let settings = arguments::overrides(&words);
    imported.say(keys::model::framework, "torchtitan", Origin::Program(context.program.shown()));
    imported.miss(keys::model::architecture, format!("{} builds its model in Python", context.program.shown()));
    // `src/scripts/train/sft/OLMo-sft.py` has names of its own beside those of the configuration.
    let sequence = settings.first_whole(&["dataset.sequence_length", "sequence_length", "seq_len"]);
    imported.set(keys::model::sequence_length, sequence);
    for name in ["data_loader.global_batch_size", "global_batch_size"].iter().filter(|name| settings.holds(name)) {
        tokens(&mut imported, &settings, name, "model.batch_size");
    }
    let per_node = settings.first_whole(&["launch.num_gpus", "batch_size_config.gpus_per_node"]);
    let nodes = settings.first_whole(&["launch.num_nodes", "num_nodes", "batch_size_config.num_nodes"]);
    if per_node.is_some() || nodes.is_some() {
        let world = World { total: None, nodes, per_node }.completed();
        imported.set(keys::cluster::num_gpus, world.total);
        imported.set(keys::cluster::nodes, world.nodes);
        imported.set(keys::cluster::gpus_per_node, world.per_node);
    }
    if context.launchers.is_empty() {
        imported.miss(keys::cluster::num_gpus, "the program launches its ranks itself");
    }
    tokens(&mut imported, &settings, "train_module.rank_microbatch_size", "training.micro_batch_size");
    account_for(&mut imported, &settings);
    imported
}

/// OLMo-core counts batches in tokens.
fn tokens(imported: &mut ImportedPlan, settings: &Settings, name: &str, key: &'static str) {
    let (Some(tokens), Some(length)) = (settings.whole(name), imported.whole(keys::model::sequence_length)) else {
        return;
    };
    if length > 0 && tokens.value.is_multiple_of(length) {
        imported.set(key, Some(tokens.map(|tokens| tokens / length)));
    } else {
        settings.refuse(name);
    }
}
