//! NeMo 2's recipes: `pretrain_recipe` of `nemo/collections/llm/recipes/*.py`, its arguments' defaults and what it
//! passes to trainer and data.

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::{self, World};
use super::megatron;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::text::arguments;
use super::text::python_literal;
use super::torchtune;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "NeMo 2";

/// Names of a recipe's arguments, and Megatron's for them.
const NAMES: &[(&str, &str)] = &[
    ("tensor_parallelism", "tensor_model_parallel_size"),
    ("pipeline_parallelism", "pipeline_model_parallel_size"),
    ("virtual_pipeline_parallelism", "num_virtual_stages_per_pipeline_rank"),
    ("context_parallelism", "context_parallel_size"),
    ("expert_parallelism", "expert_model_parallel_size"),
    ("sequence_parallelism", "sequence_parallel"),
    ("global_batch_size", "global_batch_size"),
    ("micro_batch_size", "micro_batch_size"),
    ("seq_length", "seq_length"),
    ("gradient_clip_val", "clip_grad"),
    ("expert_tensor_parallelism", "expert_tensor_parallel_size"),
    ("recompute_granularity", "recompute_granularity"),
    ("recompute_method", "recompute_method"),
    ("recompute_num_layers", "recompute_num_layers"),
];

/// Recipes that stand on each other.
const DEEPEST: usize = 4;

/// Whether a script is such a recipe.
pub fn is_recipe(content: &str) -> bool {
    // Those of other collections have towers, or no language model at all.
    let language = !["collections.vlm", "collections.avlm", "collections.diffusion", "collections.speechlm"]
        .iter()
        .any(|other| content.contains(other));
    // Distilled models have no recipe of that kind: theirs raises.
    language
        && !content.contains("raise NotImplementedError")
        && content.contains("@run.cli.factory")
        && content.contains("\ndef pretrain_recipe(")
        && content.lines().any(|line| line.starts_with("NAME = "))
}

/// The plan of such a file.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("NeMo");
    imported.say(keys::model::framework, "megatron", Origin::Program("a recipe of NeMo's".to_owned()));
    imported.note("the recipe's pretrain_recipe is read, without performance_mode");
    let origin = |key: &str| Origin::File { name: name.to_owned(), line: None, key: key.to_owned() };
    let own = content.lines().find_map(|line| python_literal(line.strip_prefix("NAME = ")?));
    if let Some(own) = own.as_ref().and_then(Value::as_str) {
        let preset = preset_of(context, own).map(|preset| Setting::new(preset, origin("NAME")));
        imported.set(keys::model::preset, preset);
    }
    imported.miss(keys::model::preset, "the recipe's NAME is no model of the catalogue");
    let folder = name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let read = |module: &str| context.run.files.read(&format!("{folder}{module}.py")).ok();
    let said = said(content, &read, DEEPEST).unwrap_or_else(|module| {
        imported.unread = Some(format!("{folder}{module}.py"));
        Vec::new()
    });
    let value =
        |key: &str| said.iter().rev().find(|(known, _)| known == key).and_then(|(_, text)| python_literal(text));
    let mut settings = Settings::default();
    for (theirs, ours) in NAMES {
        let last = said.iter().rev().find(|(known, _)| known == theirs || known == ours);
        let value = last.and_then(|(_, text)| python_literal(text)).filter(|value| !value.is_null());
        if let Some(value) = value {
            settings.set(ours, value, origin(theirs));
        }
    }
    for (key, text) in said.iter().filter(|(key, _)| key.contains('.')) {
        not_modelled(&mut imported, &format!("{key} = {text}"));
    }
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    for (option, value) in [
        ("bf16", Value::Bool(true)),
        ("use_distributed_optimizer", Value::Bool(true)),
        ("overlap_grad_reduce", Value::Bool(true)),
        ("overlap_param_gather", Value::Bool(true)),
        ("weight_decay", 0.1.into()),
    ] {
        settings.set(option, value, default(&format!("{option} {}", value_of(option))));
    }
    let whole = |key: &str| value(key).and_then(|value| value.as_u64()).map(|number| Setting::new(number, origin(key)));
    let world = World { total: None, nodes: whole("num_nodes"), per_node: whole("num_gpus_per_node") }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    megatron::train(&mut imported, &settings, context);
    fused_loss(&mut imported, VERSION);
    vocabulary(&mut imported, launch::base(name));
    // The model's own.
    imported.drop(keys::training::dropout);
    imported
}

/// NeMo's and Megatron-Bridge's models fuse their loss, where Megatron's own arguments do not, and DeepSeek's by
/// Transformer Engine (`nemo/collections/llm/gpt/model/base.py`, `GPTConfig`, and `deepseek.py`;
/// `megatron/bridge/models/gpt_provider.py`).
pub fn fused_loss(imported: &mut ImportedPlan, framework: &'static str) {
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default();
    let engines_own = ["deepseek-v", "moonlight", "kimi"].iter().any(|start| preset.starts_with(start));
    let word = if engines_own { "te_fused" } else { "vocab_parallel_fused" };
    let origin = Origin::Default { framework, option: "cross_entropy_loss_fusion".to_owned() };
    imported.say(keys::training::loss, word, origin);
}

/// Pretraining takes the vocabulary of the data's tokenizer, GPT-2's of the mock data that recipes come with, where the model's
/// configuration states none (`llm/api.py`, `pretrain`: `tokenizer="data"`; `gpt/model/base.py`, `configure_model`).
pub fn vocabulary(imported: &mut ImportedPlan, recipe: &str) {
    const STATED: [&str; 6] = ["gemma2", "gemma3", "qwen", "phi3", "gpt_oss", "llama4"];
    if !STATED.iter().any(|start| recipe.starts_with(start)) {
        not_modelled(
            imported,
            "the vocabulary of the data's tokenizer (GPT-2's of mock data): the model's own is counted",
        );
    }
}

/// The model of a recipe, by its name.
pub fn preset_of(context: &ImportContext, name: &str) -> Option<String> {
    const ENDINGS: [&str; 11] = [
        "_pretrain_config",
        "_finetune_config",
        "_sft_config",
        "_peft_config",
        "_pretrain",
        "_finetune",
        "_config",
        "_gpu",
        "_16k",
        "_64k",
        "_128k",
    ];
    // `llama32_1b_pretrain_1gpu_h100_bf16_config`: what is done with the model, and on what, stands behind its name.
    let done = ["_pretrain_", "_sft_", "_peft_", "_finetune_"].iter().find_map(|what| name.split_once(what));
    let mut name = done.map_or(name, |(model, _)| model);
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)) {
        name = shorter;
    }
    // `llama31_8b`, `qwen25_1p5b`: the points are left out, or written as a letter.
    let family = name.split('_').next().unwrap_or("");
    let digits = family.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let spelled = match digits.len() {
        2 => name.replacen(digits, &format!("{}_{}", &digits[..1], &digits[1..]), 1),
        _ => name.to_owned(),
    };
    let pointed =
        spelled.replace("1p5b", "1.5b").replace("1p7b", "1.7b").replace("500m", "0.5b").replace("600m", "0.6b");
    [name, spelled.as_str(), pointed.as_str()]
        .iter()
        .flat_map(|name| torchtune::names(name))
        .find_map(|name| model::preset(context, &name))
}

/// Where a default of NeMo's stands.
fn value_of(option: &str) -> &'static str {
    match option {
        "weight_decay" => "0.1 (recipes/optim/adam.py)",
        "bf16" => "true (recipes/precision/mixed_precision.py)",
        _ => "true (DistributedDataParallelConfig of the recipe)",
    }
}

/// What the recipe says that this one stands on, what the trainer's arguments default to, then the recipe's, then what the
/// recipe passes to trainer and data and what the trainer hands on; a name stands for the function's argument. A module
/// that is stood on and cannot be read is the error.
fn said(content: &str, read: &dyn Fn(&str) -> Option<String>, depth: usize) -> Result<Vec<(String, String)>, String> {
    let part = |start: &str| {
        let (_, rest) = content.split_once(start)?;
        Some(rest.split("\n@run.cli.factory").next().unwrap_or(rest).split("\ndef ").next().unwrap_or(rest))
    };
    let trainer = part("\ndef trainer(").unwrap_or_default();
    let recipe = part("\ndef pretrain_recipe(").unwrap_or_default();
    let below = |module: &str| {
        trainer.contains(&format!("{module}.trainer(")) || recipe.contains(&format!("{module}.pretrain_recipe("))
    };
    let mut all = Vec::new();
    for module in beside(content).into_iter().filter(|module| below(module)) {
        let text = read(module).filter(|_| depth > 0).ok_or_else(|| module.to_owned())?;
        all.extend(said(&text, read, depth - 1)?);
    }
    let usual = keywords(trainer);
    let own = keywords(recipe);
    all.extend(usual.iter().chain(&own).cloned());
    for inner in ["trainer(", "MockDataModule,"] {
        let passed = recipe.split_once(inner).map(|(_, rest)| keywords(rest)).unwrap_or_default();
        all.extend(stood_for(passed, &own));
    }
    let handed_on = trainer.split_once(".trainer(").map(|(_, rest)| keywords(rest)).unwrap_or_default();
    let known = all.clone();
    all.extend(stood_for(handed_on, &known));
    all.extend(recipe.lines().filter_map(|line| assigned(line, &own)));
    Ok(all)
}

/// The recipes that a module imports.
fn beside(content: &str) -> Vec<&str> {
    let lines = content.lines().filter_map(|line| line.strip_prefix("from nemo.collections.llm.recipes import "));
    lines.flat_map(|names| names.split(',').map(str::trim)).collect()
}

/// Values of a call, with the last that is known of a name in its place.
fn stood_for(passed: Vec<(String, String)>, known: &[(String, String)]) -> Vec<(String, String)> {
    let value =
        |text: String| known.iter().rev().find(|(name, _)| *name == text).map_or(text, |(_, told)| told.clone());
    passed.into_iter().map(|(key, text)| (key, value(text))).collect()
}

/// `recipe.trainer.strategy.tensor_model_parallel_size = 8`, on no condition: by the attribute's name where that is one of
/// Megatron's, else by all of them.
fn assigned(line: &str, own: &[(String, String)]) -> Option<(String, String)> {
    let rest = line.strip_prefix("    recipe.")?;
    let (path, text) = rest.split_once(" = ")?;
    let name = path.rsplit('.').next()?;
    let whole = ["trainer", "model", "data", "optim", "log", "resume"].contains(&path) || path.contains("callbacks");
    let known = NAMES.iter().any(|(theirs, ours)| *theirs == name || *ours == name);
    let text = text.split('#').next().unwrap_or("").trim().to_owned();
    let (_, text) = stood_for(vec![(name.to_owned(), text)], own).pop()?;
    (!whole).then(|| (if known { name.to_owned() } else { format!("recipe.{path}") }, text))
}

/// `name: type = value` and `name=value` up to the closing bracket.
fn keywords(text: &str) -> Vec<(String, String)> {
    let pairs = arguments(text).into_iter().filter_map(|part| {
        let lines: Vec<&str> = part.lines().map(|line| line.split('#').next().unwrap_or("").trim()).collect();
        let plain = lines.join(" ");
        let (name, value) = plain.split_once('=')?;
        let name = name.split(':').next()?.trim();
        Some((name.to_owned(), value.trim().to_owned()))
    });
    pairs.collect()
}
