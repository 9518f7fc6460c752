//! What a reader asked for and did not understand, and what nobody asked for: both are said, but for names that are known
//! to change nothing.

use super::concepts;
use super::imported::ImportedPlan;
use super::inert::is_inert;
use super::origin::{Origin, Setting};
use super::settings::{Fate, Settings, text, truth, whole};
use crate::plan::keys;
use serde_json::{Map, Value};

/// Parts of names whose settings change neither memory nor the time of a step, or whose effect is seen
/// elsewhere: learning rates, data, logs, checkpoints, evaluation, addresses.
const WITHOUT_BEARING: [&str; 80] = [
    "lr",
    "learning_rate",
    "beta",
    "_eps",
    "epsilon",
    "warmup",
    "schedul",
    "decay",
    "save",
    "saving",
    "load",
    "log",
    "eval",
    "valid",
    "test",
    "path",
    "dir",
    "file",
    "output",
    "wandb",
    "tensorboard",
    "track",
    "project",
    "name",
    "seed",
    "data",
    "split",
    "tokenizer",
    "template",
    "prompt",
    "port",
    "addr",
    "rank",
    "host",
    "backend",
    "timeout",
    "worker",
    "epoch",
    "iter",
    "steps",
    "report",
    "hub",
    "push",
    "cache",
    "overwrite",
    "resume",
    "init",
    "interval",
    "debug",
    "profile",
    "temperature",
    "top_p",
    "top_k",
    "shuffle",
    "columns",
    "comment",
    "version",
    "trust_remote",
    "wall_clock",
    "print",
    "monitor",
    "checkpoint_format",
    "dump",
    "token_id",
    "std",
    "loss_scale",
    "hysteresis",
    "group_by",
    "remove_unused",
    "ddp_",
    "reward",
    "metric",
    "patience",
    "keep_last",
    "experiment",
    "message",
    "callback",
    "script",
    "help",
    "user",
];

/// What a misread setting may have decided: a part of its name, and the plan's keys whose default then is doubtful.
const DOUBTFUL: &[(&str, &[&str])] = &[
    ("batch", &["training.micro_batch_size", "model.batch_size", "training.gradient_accumulation_steps"]),
    ("accumulation", &["training.gradient_accumulation_steps"]),
    ("seq", &["model.sequence_length"]),
    ("max_len", &["model.sequence_length"]),
    ("block_size", &["model.sequence_length"]),
    ("bf16", &["training.precision"]),
    ("fp16", &["training.precision"]),
    ("dtype", &["training.precision"]),
    ("precision", &["training.precision"]),
    ("optim", &["training.optimizer"]),
    ("checkpointing", &["training.activation_checkpointing"]),
    ("recompute", &["training.activation_checkpointing"]),
    ("zero_stage", &["distribution.sharding", "training.precision", "distribution.engine", "training.gradient_dtype"]),
    ("zero_optimization.stage", &["distribution.sharding"]),
    ("deepspeed", &["distribution.sharding", "training.precision", "distribution.engine"]),
    ("fsdp", &["distribution.sharding"]),
    ("attn", &["training.attention"]),
    ("flash", &["training.attention"]),
    ("lora_r", &["training.lora.rank"]),
    ("tensor", &["distribution.tensor_parallel"]),
    ("pipeline", &["distribution.pipeline_parallel"]),
    ("context_parallel", &["distribution.context_parallel"]),
];

/// Parts of names of what changes what is held or trained: not followed, it is said ahead of the rest.
const WEIGHTY: [&str; 71] = [
    "use_qlora",
    "msamp",
    "use_lisa",
    "retro_add_retriever",
    "use_eaft",
    "window_attn_skip_freq",
    "use_kt",
    "pooling_mode",
    "pooling_method",
    "bidirectional",
    "simcse",
    "use_kd",
    "modules_to_save",
    "mics_shard",
    "use_cpu",
    "seq_parallel_size",
    "freeze",
    "frozen",
    "unfreeze",
    "tune_mm",
    "trainable",
    "lora_module",
    "use_llm_lora",
    "backbone_lora",
    "vision_tower",
    "vision_model",
    "teacher",
    "distill",
    "ref_model",
    "reference_model",
    "reward_model",
    "critic",
    "qat",
    "galore",
    "apollo",
    "badam",
    "lomo",
    "prune",
    "ema_decay",
    "use_ema",
    "layer_reduction",
    "mixture_of_depths",
    "tune_llm",
    "tune_vision",
    "tune_mlp",
    "train_group_size",
    "vision_encoder",
    "batching_strategy",
    "medusa",
    "random_ltd",
    "model_provider",
    "audio_encoder",
    "moe_enable",
    "num_experts",
    "expert_num",
    "n_experts",
    "lora_num",
    "_tower",
    "train_modules",
    "layers_to_train",
    "speech_encoder",
    "adapter_path",
    "num_virtual_tokens",
    "_lora",
    "mm_tunable",
    "tune_type",
    "fix_vit",
    "quant_method",
    "quantize",
    "quantise",
    "base_model_precision",
];

/// Of paths those alone name a second model.
const MODELS: [&str; 8] = [
    "vision_tower",
    "vision_model",
    "teacher",
    "ref_model",
    "reference_model",
    "reward_model",
    "critic",
    "adapter_path",
];

/// What a setting of another name than the usual one may have decided: the usual name's default is doubtful then.
/// Each part stands at the end of the name.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("train_batch_size", &["training.micro_batch_size"]),
    ("mixed_precision", &["training.precision"]),
    ("deepspeed_stage", &["distribution.sharding", "distribution.engine", "training.precision"]),
    ("per_gpu_batch_size", &["training.micro_batch_size"]),
    ("batch_size_per_gpu", &["training.micro_batch_size"]),
    ("use_custom_flash_attn", &["training.attention"]),
    ("grad_checkpoint", &["training.activation_checkpointing"]),
    ("grad_accum", &["training.gradient_accumulation_steps"]),
];

/// No more names than this stand in one note.
const MOST_NAMES: usize = 24;

/// Notes what of `settings` was not understood, and what nobody read that may change a plan. A default that such a setting
/// may have gone over is taken out again.
pub fn account_for(imported: &mut ImportedPlan, settings: &Settings) {
    let mut weighty = Vec::new();
    let mut unknown = Vec::new();
    let mut strange = Vec::new();
    let adapted = imported.get(keys::lora::rank).is_some();
    // Whose reader has found the file by these: `deepspeed.add_config_arguments` of a script of its own.
    let engine =
        imported.get(keys::distribution::engine).is_some_and(|found| found.value.as_str() == Some("deepspeed"));
    for (name, found, fate) in settings.fates() {
        match fate {
            Fate::Read => {}
            Fate::Unread if engine && matches!(name, "deepspeed" | "deepspeed_config") => {}
            Fate::Misread => misread(imported, name, found),
            Fate::Unread if is_in_a_section_that_is_off(settings, name) => {}
            Fate::Unread if is_configuration(name, found) => {
                let file = text(&found.value).unwrap_or_default();
                unknown.push(format!("{} {file}", shown(&found.origin, name)));
                imported.unread.get_or_insert(file);
            }
            Fate::Unread if is_weighty(name, found) => weighty.push(shown(&found.origin, name)),
            Fate::Unread => {
                doubt(imported, name, found);
                match concepts::of(in_section(name, &found.origin), &found.value, adapted) {
                    Some(keys) => {
                        let said = format!("{} {}", shown(&found.origin, name), brief(&found.value));
                        distrust(imported, keys, &said);
                        unknown.push(said);
                    }
                    None if has_bearing(name) && !is_inert(name) && !is_off(name, found) => {
                        strange.push(shown(&found.origin, name))
                    }
                    // What changes nothing is not worth a word.
                    None => {}
                }
            }
        }
    }
    if !unknown.is_empty() {
        imported.note(format!("not understood: {}", unknown.join(", ")));
    }
    if !weighty.is_empty() {
        imported.note(format!("not modelled: {}", weighty.join(", ")));
    }
    note_names(imported, "not known, may change what is held: ", strange);
}

/// The same of what a call of a script is given, but for `known` names and what has none.
pub fn account_for_call(imported: &mut ImportedPlan, given: &Settings, known: &[&str]) {
    let mut own = Settings::default();
    own.adopt_all(given, |name| {
        let placed = name.chars().all(|letter| letter.is_ascii_digit());
        (!placed && !known.contains(&name)).then(|| name.to_owned())
    });
    account_for(imported, &own);
}

/// Notes names behind `what`, where there are any; a long list is cut.
fn note_names(imported: &mut ImportedPlan, what: &str, mut names: Vec<String>) {
    if names.is_empty() {
        return;
    }
    let rest = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    imported.note(format!("{what}{}{more}", names.join(", ")));
}

fn misread(imported: &mut ImportedPlan, name: &str, found: &Setting<Value>) {
    // `auto`: whoever is told so decides by itself; its reader knows.
    let value = text(&found.value).unwrap_or_else(|| match &found.value {
        Value::Array(_) | Value::Object(_) => found.value.to_string(),
        _ => "?".to_owned(),
    });
    if value == "auto" || value.is_empty() {
        return;
    }
    let said = shown(&found.origin, name);
    imported.note(format!("not understood: {said} {value}"));
    let lower = name.to_lowercase();
    for (_, keys) in DOUBTFUL.iter().filter(|(part, _)| lower.contains(part)) {
        distrust(imported, keys, &format!("{said} {value}"));
    }
}

/// A setting with the sections of its file around it: the batch of an evaluation is none of the training.
fn in_section<'a>(name: &'a str, origin: &'a Origin) -> &'a str {
    match origin {
        Origin::File { key, .. } if key.ends_with(name) => key,
        _ => name,
    }
}

/// Takes out what a framework does by itself, where a setting that may say otherwise was not understood.
fn distrust(imported: &mut ImportedPlan, keys: &[&'static str], said: &str) {
    for key in keys {
        let guessed = imported
            .get(key)
            .is_some_and(|inferred| matches!(inferred.origin, Origin::Default { .. } | Origin::Derived(_)));
        if guessed {
            imported.drop(key);
        }
        imported.miss(key, format!("{said} was not understood"));
    }
}

/// A value in a few letters.
fn brief(value: &Value) -> String {
    const LONGEST: usize = 40;
    let whole = text(value).unwrap_or_else(|| value.to_string());
    if whole.chars().count() <= LONGEST { whole } else { whole.chars().take(LONGEST).chain(['…']).collect() }
}

/// Whether a setting names a file that may say anything.
fn is_configuration(name: &str, found: &Setting<Value>) -> bool {
    const NAMES: [&str; 8] =
        ["config", "config_file", "config_path", "cfg", "cfg_path", "conf", "train_config", "training_config"];
    const ENDINGS: [&str; 4] = [".yaml", ".yml", ".toml", ".json"];
    let file = text(&found.value).is_some_and(|value| ENDINGS.iter().any(|ending| value.ends_with(ending)));
    file && NAMES.contains(&name) && matches!(found.origin, Origin::Argument(_))
}

/// Whether a setting says that something is not done.
fn is_off(name: &str, found: &Setting<Value>) -> bool {
    // Parallel over one rank is none.
    let one = name.to_lowercase().contains("parallel") && whole(&found.value) == Some(1);
    let nothing = found
        .value
        .as_str()
        .is_some_and(|word| matches!(word.to_lowercase().as_str(), "" | "none" | "null" | "disabled"));
    let empty = found.value.as_array().is_some_and(Vec::is_empty) || found.value.as_object().is_some_and(Map::is_empty);
    one || nothing || empty || truth(&found.value) == Some(false) || found.value.is_null()
}

/// Whether a section around a setting says of itself that it is not on: `peft.enabled: false` beside `peft.dim`.
fn is_in_a_section_that_is_off(settings: &Settings, name: &str) -> bool {
    let ends = name.match_indices('.').filter_map(|(at, _)| name.get(..at));
    let is_off = |section: &str, other: &str| {
        other.strip_prefix(section).is_some_and(|word| matches!(word, ".enabled" | ".enable"))
    };
    let off = |section: &str| {
        settings.iter().any(|(other, found)| is_off(section, other) && truth(&found.value) == Some(false))
    };
    ends.into_iter().any(off)
}

fn is_weighty(name: &str, found: &Setting<Value>) -> bool {
    let lower = name.to_lowercase();
    let path = lower.contains("path") && !MODELS.iter().any(|part| lower.contains(part));
    !is_off(name, found) && WEIGHTY.iter().any(|part| lower.contains(part)) && !path
}

/// Takes a default out that a setting nobody reads may stand for.
fn doubt(imported: &mut ImportedPlan, name: &str, found: &Setting<Value>) {
    let lower = name.to_lowercase();
    for key in SYNONYMS.iter().filter(|(end, _)| lower.ends_with(end)).flat_map(|(_, keys)| keys.iter()) {
        let guessed = imported.get(key).is_some_and(|inferred| matches!(inferred.origin, Origin::Default { .. }));
        if guessed {
            imported.drop(key);
            imported.miss(key, format!("{} may say it, and is not known here", shown(&found.origin, name)));
        }
    }
}

/// Words that begin as one of those does, and mean another thing.
const OTHER_WORDS: [&str; 10] = [
    "logits",
    "projector",
    "projection",
    "experimental",
    "init_args",
    "import",
    "data_parallel",
    "dataparallel",
    "lora_rank",
    "output_layer",
];

/// Sections whose settings have no bearing, by how a word of their names begins: what stands in another one decides by
/// its own name.
const IDLE_SECTIONS: [&str; 37] = [
    "log",
    "eval",
    "valid",
    "test",
    "wandb",
    "tensorboard",
    "swanlab",
    "track",
    "data",
    "tokenizer",
    "template",
    "prompt",
    "report",
    "hub",
    "cache",
    "resume",
    "debug",
    "profil",
    "metric",
    "callback",
    "save",
    "saving",
    "checkpoint_format",
    "reward",
    "dump",
    "monitor",
    "lr_",
    "path",
    "file",
    "ckpt",
    "resources_per_worker",
    "nsight",
    "worker_nsight",
    "schedulers",
    "lr_scheduler",
    "experiment",
    "load",
];

fn has_bearing(name: &str) -> bool {
    // `account_for_loss_in_pipeline_split` splits no data.
    const ALWAYS: [&str; 3] = ["pipeline", "recompute", "parallel_size"];
    let lower = OTHER_WORDS.iter().fold(name.to_lowercase(), |text, word| text.replace(word, "#"));
    let (sections, last) = lower.rsplit_once('.').map_or(("", lower.as_str()), |(sections, last)| (sections, last));
    let idle = sections == "scheduler" || begins_a_word(sections, &IDLE_SECTIONS) || begins_a_word(last, &WITHOUT_BEARING);
    ALWAYS.iter().any(|part| lower.contains(part)) || last != "eps" && !idle
}

/// Whether a word of a name begins with one of `parts`; one with a line in front stands anywhere.
fn begins_a_word(name: &str, parts: &[&str]) -> bool {
    let begins = |at: usize| {
        name.get(..at).and_then(|before| before.chars().next_back()).is_none_or(|letter| !letter.is_ascii_alphanumeric())
    };
    parts.iter().any(|part| name.match_indices(part).any(|(at, _)| part.starts_with('_') || begins(at)))
}

fn shown(origin: &Origin, name: &str) -> String {
    match origin {
        Origin::File { name: file, line: Some(line), .. } => format!("{name} ({file}:{line})"),
        Origin::Argument(option) => option.clone(),
        _ => name.to_owned(),
    }
}
