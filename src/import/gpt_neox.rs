//! GPT-NeoX: `deepy.py train.py` and its YAML files, one over the other
//! (`megatron/neox_arguments`, `megatron/model/transformer.py` at ea7aefd8).

use super::arguments;
use super::common::ImportContext;
use super::deepspeed;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "GPT-NeoX 2.0";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("moe_top_k", DefaultValue::Whole(1)),
    ("pipe_parallel_size", DefaultValue::Whole(0)),
    ("model_parallel_size", DefaultValue::Whole(1)),
    ("norm", DefaultValue::Text("layernorm")),
    ("pos_emb", DefaultValue::Text("learned")),
    ("activation", DefaultValue::Text("gelu")),
    ("no_weight_tying", DefaultValue::Flag(false)),
    ("gpt_j_residual", DefaultValue::Flag(false)),
    ("use_bias_in_mlp", DefaultValue::Flag(true)),
    ("use_bias_in_norms", DefaultValue::Flag(true)),
    ("hidden_dropout", DefaultValue::Number(0.0)),
    ("weight_decay", DefaultValue::Number(0.1)),
    ("gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("checkpoint_activations", DefaultValue::Flag(false)),
];

const ROWS: &[SettingRow] = &[
    (&["num_layers"], keys::architecture::num_layers, SettingKind::Whole),
    (&["hidden_size"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["num_attention_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
    (&["num_kv_heads"], keys::architecture::num_kv_heads, SettingKind::Whole),
    (&["max_position_embeddings"], keys::architecture::max_position_embeddings, SettingKind::Whole),
    (&["no_weight_tying"], keys::architecture::tie_embeddings, SettingKind::Not),
    (&["gpt_j_residual"], keys::architecture::parallel_block, SettingKind::Flag),
    (&["use_bias_in_mlp"], keys::architecture::linear_bias, SettingKind::Flag),
    (&["use_bias_in_attn_linear"], keys::architecture::qkv_bias, SettingKind::Flag),
    (&["use_bias_in_norms"], keys::architecture::norm_bias, SettingKind::Flag),
    (&["use_qk_layernorm"], keys::architecture::qk_norm, SettingKind::Flag),
    (&["sliding_window_width"], keys::architecture::sliding_window, SettingKind::Whole),
    (&["padded_vocab_size"], keys::architecture::vocab_size, SettingKind::Whole),
    (&["seq_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["hidden_dropout"], keys::training::dropout, SettingKind::Share),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["gradient_clipping", "clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["attention_softmax_in_fp32"], keys::training::attention_softmax_fp32, SettingKind::Flag),
    (&["model_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Whole),
    (&["context_parallel_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["global_num_gpus", "world_size"], keys::cluster::num_gpus, SettingKind::Whole),
];

/// Whether settings, under names of one spelling, are GPT-NeoX's.
pub fn is_config(settings: &Settings) -> bool {
    let has = |name: &str| settings.holds(name) || settings.holds(&name.replace('_', "-"));
    has("num_layers")
        && has("hidden_size")
        && has("num_attention_heads")
        && (has("pipe_parallel_size") || has("model_parallel_size"))
}

/// Whether the program is GPT-NeoX's launcher, or a rank that it started.
pub fn runs(context: &ImportContext) -> bool {
    context.program.name() == "deepy.py" || context.program.words.iter().any(|word| word == "--megatron_config")
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("GPT-NeoX");
    let given = arguments::read(&context.program.words);
    // `deepy.py train.py -d configs 125M.yml local_setup.yml`
    let folder = given.options.texts("d").or_else(|| given.options.texts("conf_dir"));
    let listed = folder.as_ref().map(|found| found.value.clone()).unwrap_or_default();
    let (folder, behind) = listed.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first.clone()), rest));
    let words = given.words.iter().chain(behind).filter(|word| word.ends_with(".yml") || word.ends_with(".yaml"));
    let mut settings = Settings::default();
    let mut named = false;
    for word in words {
        named = true;
        let path = match &folder {
            Some(folder) if !word.starts_with('/') => format!("{}/{word}", folder.trim_end_matches('/')),
            _ => word.clone(),
        };
        if let Some(file) = context.configuration(&path, &mut imported) {
            settings.over(file);
        }
    }
    if !named {
        imported.miss(keys::model::architecture, "no YAML file is named that could be read");
    }
    imported.say(keys::model::framework, "megatron-deepspeed", Origin::Program(context.program.shown()));
    set(&mut imported, &settings);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: &Settings) -> ImportedPlan {
    let mut imported = ImportedPlan::of("GPT-NeoX");
    imported.say(keys::model::framework, "megatron-deepspeed", Origin::Program("GPT-NeoX's own keys".to_owned()));
    set(&mut imported, file);
    // A model's file is put together with one of training and one of the cluster.
    if imported.get(keys::training::micro_batch_size).is_none() {
        imported.unread = Some("another file of the same command".to_owned());
    }
    imported.miss(keys::cluster::num_gpus, "the launcher's file of hosts decides");
    imported
}

fn set(imported: &mut ImportedPlan, file: &Settings) {
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    // Both spellings are allowed: `pipe-parallel-size`.
    settings.adopt_all(file, |name| {
        let (first, rest) = name.split_once('.').map_or((name, None), |(first, rest)| (first, Some(rest)));
        let first = first.replace('-', "_");
        Some(rest.map_or_else(|| first.clone(), |rest| format!("{first}.{rest}")))
    });
    let settings = &settings;
    derived(settings);
    deepspeed::set(imported, settings);
    // `bnb.optim.Adam8bit` in place of FusedAdam (`megatron/training.py`, `get_optimizer`).
    let adam = settings.text("optimizer.type").is_some_and(|found| found.value.eq_ignore_ascii_case("adam"));
    if let Some(found) = settings.on("use_bnb_optimizer").filter(|_| adam) {
        imported.set(keys::training::optimizer, Some(found.map(|_| "adamw-8bit")));
    }
    precision(imported, settings);
    take(imported, settings, ROWS);
    shape(imported, settings);
    vocabulary(imported, settings);
    degrees(imported, settings);
    let recompute = settings.flag("checkpoint_activations");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    let layers = settings.whole("checkpoint_num_layers").filter(|found| found.value > 1);
    if let Some(layers) = layers.filter(|_| settings.is("checkpoint_activations")) {
        not_modelled(imported, &format!("{}: inputs are kept of every {} layers only", layers.origin, layers.value));
    }
    imported.say(keys::training::loss, "vocab_parallel", default("vocab_parallel_cross_entropy"));
    kinds(imported, settings);
    // Checkpoints are shared out among the ranks of a layer, where there are several.
    let several = settings.whole("model_parallel_size").is_some_and(|found| found.value > 1);
    if several && settings.is("partition_activations") && settings.is("checkpoint_activations") {
        not_modelled(
            imported,
            "partition_activations: each rank has a part of the checkpoints; whole ones are counted",
        );
    }
    settings.accept("partition_activations");
    account_for(imported, settings);
}

/// What a launcher writes beside the settings that it follows from, into the file for its ranks (`neox_arguments/
/// arguments.py`, `calculate_derived`).
fn derived(settings: &Settings) {
    const FOLLOWING: [(&str, &str); 4] = [
        ("zero_stage", "zero_optimization.stage"),
        ("batch_size", "train_micro_batch_size_per_gpu"),
        ("gas", "gradient_accumulation_steps"),
        ("optimizer_type", "optimizer.type"),
    ];
    let same = |(name, of): &(&str, &str)| {
        settings.get(name).zip(settings.get(of)).is_some_and(|(found, first)| found.value == first.value)
    };
    FOLLOWING.iter().filter(|names| same(names)).for_each(|(name, _)| settings.accept(name));
    if settings.holds("zero_stage") {
        for name in ["reduce_scatter", "contiguous_gradients", "reduce_bucket_size", "allgather_bucket_size"] {
            settings.accept(&format!("zero_{name}"));
        }
        for name in ["text_gen_type", "num_gpus", "world_size"] {
            settings.accept(name);
        }
    }
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// `precision: bfloat16` stands for DeepSpeed's own section.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    // A switch that DeepSpeed does not read, in most of the published files beside `enabled`.
    settings.accept("fp16.fp16");
    // `"fp16": {"enabled": true, "type": "bfloat16"}`, the way of 1.0.
    if let Some(found) = settings.text("fp16.type").filter(|found| found.value == "bfloat16") {
        imported.set(keys::training::precision, Some(found.clone().map(|_| "bf16-fp32-master")));
        imported.set(keys::training::gradient_dtype, Some(found.map(|_| "bf16")));
    }
    let Some(found) = settings.text("precision") else { return };
    let word = match found.value.as_str() {
        "fp16" => "fp16-fp32-master",
        "bfloat16" => "bf16-fp32-master",
        "fp32" => "fp32",
        _ => return settings.refuse("precision"),
    };
    imported.set(keys::training::precision, Some(found.map(|_| word)));
}

fn shape(imported: &mut ImportedPlan, settings: &Settings) {
    let activation = settings.text("activation");
    let gated = ["swiglu", "geglu", "reglu", "bilinear", "glu"];
    let is_gated = activation.as_ref().is_some_and(|found| gated.contains(&found.value.as_str()));
    let hidden = settings.whole("hidden_size").map_or(0, |found| found.value);
    let wide = settings.whole("intermediate_size").or_else(|| {
        let factor = settings.number("expansion_factor")?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        Some(factor.map(|factor| (factor * hidden as f64) as u64))
    });
    let wide = wide.unwrap_or_else(|| Setting::new(hidden.saturating_mul(4), default("intermediate_size 4 x hidden")));
    let multiple = settings.whole("mlp_multiple_of").map_or(1, |found| found.value.max(1));
    let inner = |wide: u64| {
        // A gated MLP has as many parameters as one without: two thirds, half of that each way.
        let inner = if is_gated { (wide.saturating_mul(2) / 3) / 2 } else { wide };
        inner.div_ceil(multiple).saturating_mul(multiple)
    };
    imported.set(keys::architecture::intermediate_size, Some(wide.map(inner)));
    let word = match activation.as_ref().map_or("", |found| found.value.as_str()) {
        "gelu" => Some("gelu"),
        "relu" => Some("relu"),
        "swiglu" => Some("swiglu"),
        "geglu" => Some("geglu"),
        _ => None,
    };
    match (activation, word) {
        (Some(found), Some(word)) => imported.set(keys::architecture::activation, Some(found.map(|_| word))),
        _ => settings.refuse("activation"),
    }
    if let Some(found) = settings.text("norm") {
        let rms = found.value.contains("rmsnorm");
        if !rms && !found.value.contains("layernorm") {
            not_modelled(imported, &format!("{}: {}, counted as layernorm", found.origin, found.value));
        }
        imported.set(keys::architecture::norm, Some(found.map(|_| if rms { "rmsnorm" } else { "layernorm" })));
    }
    if let Some(found) = settings.text("pos_emb") {
        imported.set(
            keys::architecture::position,
            Some(found.map(|name| match name.as_str() {
                "rotary" => "rope",
                "learned" => "learned",
                "alibi" => "alibi",
                _ => "none",
            })),
        );
    }
    attention(imported, settings);
    experts(imported, settings);
}

/// Layers of experts. Releases that ran DeepSpeed's layer beside megablocks' put one into every second layer, and DeepSpeed's
/// has a plain MLP beside its experts (`megatron/neox_arguments/neox_args.py`: `expert_interval` 2, `moe_type` megablocks,
/// `moe_use_residual` true; `megatron/model/transformer.py`); since then every layer has experts, and none such an MLP.
fn experts(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.whole("moe_num_experts").is_none_or(|found| found.value <= 1) {
        return;
    }
    take(
        imported,
        settings,
        &[
            (&["moe_num_experts"], keys::moe::num_experts, SettingKind::Whole),
            (&["moe_top_k"], keys::moe::experts_per_token, SettingKind::Whole),
            (&["moe_expert_interval", "expert_interval"], keys::moe::layer_frequency, SettingKind::Several),
        ],
    );
    const OF_DEEPSPEED: [&str; 6] = [
        "moe_type",
        "moe_token_dropping",
        "moe_use_residual",
        "moe_expert_parallel_size",
        "enable_expert_tensor_parallelism",
        "expert_interval",
    ];
    let Some(of_then) = OF_DEEPSPEED.iter().find(|name| settings.holds(name)) else { return };
    let default = |option: &str| Origin::Derived(format!("of the time of {of_then}: {option}"));
    if settings.whole("expert_interval").is_none() {
        imported.say(keys::moe::layer_frequency, 2, default("expert_interval 2"));
    }
    settings.accept("moe_use_residual");
    let deepspeed = settings.text("moe_type").is_some_and(|found| found.value == "deepspeed");
    if deepspeed && settings.flag("moe_use_residual").is_none_or(|found| found.value) {
        let width = imported.whole(keys::architecture::intermediate_size);
        let origin = settings.on("moe_use_residual").map_or_else(|| default("moe_use_residual"), |found| found.origin);
        imported.set(keys::moe::shared_intermediate_size, width.map(|width| Setting::new(width, origin)));
    }
    if settings.whole("model_parallel_size").is_none_or(|found| found.value == 1) {
        settings.accept("enable_expert_tensor_parallelism");
    }
}

/// `[[["flash"], 12]]`: kinds of attention, over the layers in turn.
fn attention(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.get("attention_config").cloned() else {
        return imported.say(keys::training::attention, "eager", default("attention_config global"));
    };
    settings.accept("attention_config");
    let text = found.value.to_string();
    let flash = text.contains("flash");
    for other in ["mamba", "rwkv", "gmlp", "sparse", "local", "amlp"] {
        if text.contains(other) {
            not_modelled(imported, &format!("{}: layers of {other}", found.origin));
        }
    }
    imported.set(keys::training::attention, Some(found.map(|_| if flash { "flash" } else { "eager" })));
}

fn vocabulary(imported: &mut ImportedPlan, settings: &Settings) {
    const KEY: &str = "model.architecture.vocab_size";
    let multiple = settings.whole("make_vocab_size_divisible_by").filter(|found| found.value != 128);
    let tensor = settings.whole("model_parallel_size").map_or(1, |found| found.value.max(1));
    imported.set(
        keys::architecture::vocab_padding_multiple,
        multiple.and_then(|found| found.and_then(|multiple| multiple.checked_mul(tensor))),
    );
    if imported.get(KEY).is_some() {
        return;
    }
    let file = settings.text("vocab_file").unwrap_or_else(|| Setting::new(String::new(), default("no vocab_file")));
    let kind = settings.text("tokenizer_type");
    // Pythia's files leave the tokenizer's to a second one; it is that of GPT-NeoX-20B (`EleutherAI/pythia`, README).
    let pythia =
        kind.as_ref().is_some_and(|found| found.origin.to_string().contains("pythia")) && file.value.is_empty();
    let size = match kind.as_ref().map_or("GPT2BPETokenizer", |found| found.value.as_str()) {
        // 50 254 entries and those that are added behind them.
        _ if file.value.contains("20B_tokenizer") => Some(50_277),
        "HFTokenizer" if pythia => Some(50_277),
        "GPT2BPETokenizer" | "HFGPT2Tokenizer" | "TiktokenTokenizer" => Some(50_257),
        "CharLevelTokenizer" => Some(512),
        _ => None,
    };
    settings.accept("tokenizer_type");
    match size {
        Some(size) => imported.set(KEY, Some(kind.unwrap_or(file).map(|_| size))),
        None => imported.miss(KEY, "the tokenizer's size is not known here"),
    }
}

fn degrees(imported: &mut ImportedPlan, settings: &Settings) {
    let stages = settings.whole("pipe_parallel_size");
    imported.set(keys::distribution::pipeline_parallel, stages.map(|found| found.map(|stages| stages.max(1))));
    if imported.whole(keys::distribution::pipeline_parallel).unwrap_or(1) > 1 {
        imported.say(keys::distribution::pipeline_schedule, "1f1b", default("DeepSpeed's PipelineEngine"));
    }
    let tensor = imported.whole(keys::distribution::tensor_parallel).unwrap_or(1);
    let sequence = settings.flag("sequence_parallel").filter(|_| tensor > 1);
    imported.set(keys::distribution::sequence_parallel, sequence);
}

fn kinds(imported: &mut ImportedPlan, settings: &Settings) {
    // `megatron/model/transformer_engine.py`: other modules, in FP8 where a format stands.
    let engine: Vec<String> = settings
        .iter()
        .map(|(name, _)| name.to_owned())
        .filter(|name| name.starts_with("te_") && !name.starts_with("te_fp8"))
        .filter(|name| settings.is(name))
        .collect();
    if !engine.is_empty() {
        not_modelled(imported, &format!("Transformer Engine's modules, in FP8 where told so: {}", engine.join(", ")));
    }
    if let Some(found) = settings.text("train_impl").filter(|found| found.value != "normal") {
        not_modelled(imported, &format!("train_impl {}: what it holds beside the model", found.value));
    }
    if settings.is("use_mup") {
        settings.accept("use_mup");
    }
}
