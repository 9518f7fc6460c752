//! nanotron: `run_train.py --config-file CONFIG.yaml` (`src/nanotron/config` at 2411b022).

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::ScriptReader;
use super::python_calls;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings, UNKNOWN};
use super::text;
use super::unread::{self, account_for};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "nanotron 0.4";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("model.model_config.hidden_act", DefaultValue::Text("silu")),
    ("model.model_config.tie_word_embeddings", DefaultValue::Flag(false)),
    ("model.model_config.attention_bias", DefaultValue::Flag(false)),
    ("model.make_vocab_size_divisible_by", DefaultValue::Whole(1)),
    ("model.dtype", DefaultValue::Text("bfloat16")),
    ("parallelism.pp_engine", DefaultValue::Text("afab")),
    ("parallelism.tp_mode", DefaultValue::Text("ALL_REDUCE")),
    ("parallelism.tp_linear_async_communication", DefaultValue::Flag(false)),
    ("parallelism.recompute_layer", DefaultValue::Flag(false)),
];

const ROWS: &[SettingRow] = &[
    (&["model.model_config.hidden_size"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["model.model_config.num_hidden_layers"], keys::architecture::num_layers, SettingKind::Whole),
    (&["model.model_config.num_attention_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
    (
        &["model.model_config.num_key_value_heads", "model.model_config.num_kv_heads"],
        keys::architecture::num_kv_heads,
        SettingKind::Whole,
    ),
    (&["model.model_config.intermediate_size"], keys::architecture::intermediate_size, SettingKind::Whole),
    (&["model.model_config.vocab_size"], keys::architecture::vocab_size, SettingKind::Whole),
    (&["model.model_config.max_position_embeddings"], keys::architecture::max_position_embeddings, SettingKind::Whole),
    (&["model.model_config.tie_word_embeddings"], keys::architecture::tie_embeddings, SettingKind::Flag),
    (&["model.model_config.attention_bias"], keys::architecture::qkv_bias, SettingKind::Flag),
    (&["model.model_config.sliding_window_size"], keys::architecture::sliding_window, SettingKind::Whole),
    (&["tokens.sequence_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["tokens.micro_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["tokens.batch_accumulation_per_replica"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["optimizer.clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["parallelism.dp"], keys::distribution::data_parallel, SettingKind::Whole),
    (&["parallelism.tp"], keys::distribution::tensor_parallel, SettingKind::Whole),
    (&["parallelism.pp"], keys::distribution::pipeline_parallel, SettingKind::Whole),
    (&["parallelism.context_parallel_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["parallelism.expert_parallel_size"], keys::distribution::expert_parallel, SettingKind::Several),
];

/// Whether settings are nanotron's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("model.model_config") && settings.holds("parallelism.dp") && settings.holds("tokens")
}

fn config(context: &ImportContext) -> Option<String> {
    arguments::read(&context.program.words).options.text("config_file").map(|found| found.value)
}

/// Whether the program trains by such a file.
pub fn runs(context: &ImportContext) -> bool {
    context.program.name() == "run_train.py" && config(context).is_some()
        || config(context).is_some_and(|path| {
            let text = context.run.files.read(&path).unwrap_or_default();
            text.contains("model_config") && text::yaml(&path, &text).is_ok_and(|settings| is_config(&settings))
        })
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("nanotron");
    let file = config(context).and_then(|path| context.configuration(&path, &mut imported));
    imported.say(keys::model::framework, "megatron", Origin::Program(context.program.shown()));
    match file {
        Some(file) => set(&mut imported, file),
        None => imported.miss(keys::model::architecture, "the configuration, which says it, was not read"),
    }
    launched(&mut imported, context);
    unread::account_for_call(
        &mut imported,
        &arguments::read(&context.program.words).options,
        &["config_file", "config"],
    );
    imported
}

/// As many processes as the file shares the model out among are needed (`parallel/context.py`, `ParallelContext`).
fn launched(imported: &mut ImportedPlan, context: &ImportContext) {
    let Some(shared) = imported.whole(keys::cluster::num_gpus) else { return };
    match (&context.world.total, &context.world.per_node) {
        (Some(total), _) if total.value != shared => {
            not_modelled(
                imported,
                &format!("{} processes ({}), and the file asks for {shared}", total.value, total.origin),
            );
        }
        (None, Some(each)) => imported.note(format!(
            "{} processes on a node ({}), on a number of nodes that is not known: the file asks for {shared} in all",
            each.value, each.origin
        )),
        _ => {}
    }
}

/// The plan of a file alone: the degrees tell the number of GPUs.
pub fn of_file(file: Settings) -> ImportedPlan {
    let mut imported = ImportedPlan::of("nanotron");
    imported.say(keys::model::framework, "megatron", Origin::Program("nanotron's own keys".to_owned()));
    set(&mut imported, file);
    imported
}

/// Calls of a configuration in Python, and the sections that they become (`Config.save_as_yaml`).
const SECTIONS: &[(&[&str], &str)] = &[
    (&["ModelArgs"], "model"),
    (&["LlamaConfig", "LlaMoEConfig", "Qwen2Config", "Starcoder2Config", "MambaModelConfig"], "model.model_config"),
    (&["ParallelismArgs"], "parallelism"),
    (&["TokensArgs"], "tokens"),
    (&["OptimizerArgs"], "optimizer"),
    (&["AdamWOptimizerArgs"], "optimizer.optimizer_factory"),
];

/// Whether a program makes a configuration of nanotron's.
pub fn is_python(content: &str) -> bool {
    let makes = |name: &str| python_calls::call(content, name).is_some();
    content.contains("nanotron.config") && makes("ParallelismArgs") && makes("TokensArgs")
}

/// Sizes of `LlamaConfig` where a script gives none (`src/nanotron/config/models_config.py`); keys and values have as many
/// heads as queries then.
const LLAMA: [(&str, u64); 6] = [
    ("hidden_size", 4096),
    ("intermediate_size", 11_008),
    ("max_position_embeddings", 2048),
    ("num_attention_heads", 32),
    ("num_hidden_layers", 32),
    ("vocab_size", 32_000),
];

/// The parts of a configuration (`src/nanotron/config/config.py`), each read by its own call or of no bearing.
const PARTS: [&str; 14] = [
    "general",
    "checkpoints",
    "parallelism",
    "model",
    "tokenizer",
    "optimizer",
    "logging",
    "tokens",
    "data_stages",
    "profiler",
    "lighteval",
    "s3_upload",
    "metrics_logging",
    "checkpoint_engine",
];

/// The plan of such a program, which writes the YAML that it holds. Read, never run.
pub fn of_python(name: &str, content: &str) -> ImportedPlan {
    let reader = ScriptReader::new(name, content, Settings::default());
    let mut file = Settings::default();
    for (calls, section) in SECTIONS {
        let found = reader.calls(calls);
        file.adopt_all(&found, |key| {
            let known = found.get(key).is_some_and(|found| found.value != UNKNOWN);
            known.then(|| format!("{section}.{key}"))
        });
    }
    let given = reader.calls(&["LlamaConfig"]);
    if python_calls::call(content, "LlamaConfig").is_some() && !reader.open.get() {
        for (key, value) in LLAMA.iter().filter(|(key, _)| given.get(key).is_none()) {
            file.set(&format!("model.model_config.{key}"), (*value).into(), default(&format!("LlamaConfig.{key}")));
        }
    }
    if python_calls::call(content, "AdamWOptimizerArgs").is_some() {
        let origin = Origin::Program(format!("{name}: AdamWOptimizerArgs"));
        file.set("optimizer.optimizer_factory.name", "adamW".into(), origin);
    }
    let mut imported = of_file(file);
    unread::account_for_call(&mut imported, &reader.calls(&["Config"]), &PARTS);
    if imported.get(keys::architecture::hidden_size).is_none() {
        imported.miss(keys::model::architecture, "the program reads the model's sizes when it runs");
    }
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings) {
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.note("nanotron's modules are counted as Megatron's without Transformer Engine");
    imported.say(keys::model::transformer_impl, "local", default("layers of its own"));
    take(imported, settings, ROWS);
    shape(imported, settings);
    if let Some(found) = settings.on("model.model_config.is_mamba_config") {
        not_modelled(imported, &format!("{}: layers of Mamba", found.origin));
        let shape: Vec<&str> = imported
            .values
            .iter()
            .map(|found| found.key)
            .filter(|key| key.starts_with("model.architecture."))
            .collect();
        shape.into_iter().for_each(|key| imported.drop(key));
        imported.miss(keys::model::architecture, "layers of Mamba have no word in a plan");
    }
    precision(imported, settings);
    optimizer(imported, settings);
    degrees(imported, settings);
    imported.say(keys::training::attention, "flash", default("flash-attn"));
    imported.say(keys::training::loss, "vocab_parallel", default("sharded_cross_entropy"));
    let recompute = settings.flag("parallelism.recompute_layer");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    for name in ["model.model_config.is_llama_config", "model.model_config.is_qwen2_config", "model.ddp_bucket_cap_mb"]
    {
        settings.accept(name);
    }
    for name in
        ["pretraining_tp", "rope_theta", "rope_scaling", "rope_interleaved", "use_cache", "_attn_implementation"]
    {
        settings.accept(&format!("model.model_config.{name}"));
    }
    account_for(imported, settings);
}

fn shape(imported: &mut ImportedPlan, settings: &Settings) {
    let config = settings.below("model.model_config");
    let starcoder = config.holds("activation_function");
    let words: [(&'static str, &'static str); 3] = if starcoder {
        [
            ("model.architecture.activation", "gelu"),
            ("model.architecture.norm", "layernorm"),
            ("model.architecture.position", "rope"),
        ]
    } else {
        [
            ("model.architecture.activation", "swiglu"),
            ("model.architecture.norm", "rmsnorm"),
            ("model.architecture.position", "rope"),
        ]
    };
    for (key, word) in words {
        imported.say(key, word, default("the class of the model's configuration"));
    }
    imported.say(keys::architecture::linear_bias, starcoder, default("the class of the model's configuration"));
    match settings.text("model.model_config.hidden_act") {
        Some(found) if !starcoder && found.value != "silu" => settings.refuse("model.model_config.hidden_act"),
        _ => {}
    }
    if starcoder && !config.holds("intermediate_size") {
        let wide =
            settings.whole("model.model_config.hidden_size").map(|found| found.map(|hidden| hidden.saturating_mul(4)));
        imported.set(keys::architecture::intermediate_size, wide);
    }
    let multiple = settings.whole("model.make_vocab_size_divisible_by").map_or(1, |found| found.value.max(1));
    let tensor = settings.whole("parallelism.tp").map_or(1, |found| found.value.max(1));
    imported.say(
        keys::architecture::vocab_padding_multiple,
        multiple.saturating_mul(tensor),
        default("make_vocab_size_divisible_by x tp"),
    );
    let moe = |name: &str| -> [String; 2] { [format!("moe_config.{name}"), name.to_owned()] };
    let whole = |names: &[String]| config.first_whole(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let experts = whole(&[&moe("num_experts")[..], &["moe_num_experts".to_owned()]].concat());
    if let Some(experts) = experts.filter(|found| found.value > 1) {
        imported.set(keys::moe::num_experts, Some(experts));
        let top = whole(&[&moe("top_k")[..], &["num_experts_per_tok".to_owned()]].concat());
        // `LlaMoEConfig`: each token visits one expert, where nothing else is said.
        let one = || config.get("moe_num_experts").map(|_| Setting::new(1, default("num_experts_per_tok 1")));
        imported.set(keys::moe::experts_per_token, top.or_else(one));
        let width = whole(&moe("moe_intermediate_size")).or_else(|| config.whole("intermediate_size"));
        imported.set(keys::moe::intermediate_size, width);
        if config.is("moe_config.enable_shared_expert") {
            imported
                .set(keys::moe::shared_intermediate_size, config.whole("moe_config.shared_expert_intermediate_size"));
        }
    }
}

/// Weights of `dtype`; with `accumulate_grad_in_fp32` fp32 masters and gradients beside them.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(dtype) = settings.text("model.dtype") else { return };
    let masters = settings.is("optimizer.accumulate_grad_in_fp32");
    let word = match (dtype.value.trim_start_matches("torch."), masters) {
        ("bfloat16", true) => "bf16-fp32-master",
        ("bfloat16", false) => "bf16",
        ("float16", true) => "fp16-fp32-master",
        ("float16", false) => "fp16",
        ("float32" | "double", _) => "fp32",
        _ => return settings.refuse("model.dtype"),
    };
    imported.set(keys::training::precision, Some(dtype.map(|_| word)));
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    // Before it had factories it knew AdamW alone.
    const OLD: &str = "optimizer.torch_adam_is_fused";
    let fused = settings.is("optimizer.optimizer_factory.torch_adam_is_fused") || settings.is(OLD);
    let old = settings.flag(OLD).map(|found| found.map(|_| "adamW".to_owned()));
    let name = settings.first_text(&["optimizer.optimizer_factory.name", "optimizer.name"]).or(old);
    match name {
        Some(found) if fused && common::optimizer(&found.value) == Some("adamw") => {
            imported.set(keys::training::optimizer, Some(found.map(|_| "adamw-fused")));
        }
        other => common::set_optimizer(imported, other),
    }
    let stage = settings.whole("optimizer.zero_stage");
    imported
        .set("distribution.sharding", stage.map(|found| found.map(|stage| if stage == 0 { "none" } else { "zero1" })));
}

fn degrees(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |key: &str| imported.whole(key).unwrap_or(1);
    let tensor = whole("distribution.tensor_parallel");
    let stages = whole("distribution.pipeline_parallel");
    let data = whole("distribution.data_parallel");
    let gpus = [tensor, stages, whole("distribution.context_parallel")]
        .iter()
        .try_fold(data, |product, degree| product.checked_mul(*degree));
    let origin = Origin::Derived("dp x tp x pp x context".to_owned());
    imported.set(keys::cluster::num_gpus, gpus.map(|gpus| Setting::new(gpus, origin)));
    if tensor > 1 {
        let mode = settings.text("parallelism.tp_mode");
        imported.set(
            keys::distribution::sequence_parallel,
            mode.map(|found| found.map(|mode| mode.eq_ignore_ascii_case("reduce_scatter"))),
        );
        let asynchronous = settings.flag("parallelism.tp_linear_async_communication");
        imported.set(keys::distribution::async_tensor_parallel, asynchronous);
    }
    settings.accept("parallelism.tp_linear_async_communication");
    if stages > 1 {
        let engine = settings.text("parallelism.pp_engine").and_then(|found| {
            found.and_then(|name| match name.to_lowercase().as_str() {
                "1f1b" => Some("1f1b"),
                "afab" => Some("gpipe"),
                _ => None,
            })
        });
        if engine.is_none() {
            settings.refuse("parallelism.pp_engine");
        }
        imported.set(keys::distribution::pipeline_schedule, engine);
    }
    settings.accept("parallelism.pp_engine");
    settings.accept("parallelism.tp_mode");
}
