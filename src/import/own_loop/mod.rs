//! A training loop of one's own on models of transformers: what its text makes of its arguments, its loader, its
//! optimizer and the types that it loads. Read, never run.

mod autocast;
mod client_optimizer;
mod cuts;
mod engine_settings;
mod filled;
mod lightning;
mod processes;
mod recognised;
mod reductions;
mod says;
mod unfollowed;

use serde_json::Value;

use super::common::ImportContext;
use super::hydra;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::script_defaults::{self, script_of};
use super::script_modules::called_text;
use super::settings::{Settings, UNKNOWN};
use crate::plan::keys;

pub use autocast::Autocast;
use client_optimizer::ClientOptimizer;
pub use cuts::{cuts_to_the_longest, makes_its_samples, truncated};
use lightning::LightningTrainer;
pub use lightning::trains as is_lightning;
pub use processes::several as several_processes;
use recognised::uses_trainer;
pub use recognised::{
    has_one_backward, hides, is_loop, loops, parses, starts, training_text, trains, trains_by_library,
};
use says::wrapper;
pub use says::{calls, engine_loads, loader_batch, optimizer};

/// What a script's arguments are in a file, and whether its names may stand in sections. What cannot be read is noted.
pub fn configuration(
    context: &ImportContext,
    options: &Settings,
    imported: &mut ImportedPlan,
) -> Option<(Settings, bool)> {
    let trains = || training_text(context).is_some_and(|(_, text)| is_loop(&text) || uses_trainer(&text));
    if let Some(settings) = trains().then(|| hydra::of_program(context, options, imported)).flatten() {
        return Some((settings, true));
    }
    let (path, sections) = config_file(context, options)?;
    Some((context.configuration(&path, imported)?, sections))
}

/// Where a script's arguments stand in a file: the path, and whether its names may stand in sections.
fn config_file(context: &ImportContext, options: &Settings) -> Option<(String, bool)> {
    const LOADERS: [&str; 6] =
        ["yaml.safe_load", "yaml.load", "OmegaConf.load", "json.load", "load_config(", "FullLoader"];
    const NAMES: [&str; 12] = [
        "config",
        "config_file",
        "config_path",
        "cfg",
        "cfg_path",
        "train_config",
        "training_config",
        "train_args_file",
        "args_file",
        "train_args_json",
        "args_json",
        "config_yaml",
    ];
    let (_, text) = training_text(context)?;
    let flat = parses(&text)
        && ["TrlParser(", "H4ArgumentParser(", "parse_yaml_file", "parse_json_file"]
            .iter()
            .any(|part| text.contains(part));
    let sections = LOADERS.iter().any(|loader| text.contains(loader));
    if !flat && !(sections && (is_loop(&text) || uses_trainer(&text))) {
        return None;
    }
    let is_file = |path: &str| [".yaml", ".yml", ".json"].iter().any(|ending| path.ends_with(ending));
    let named = NAMES.iter().find_map(|name| {
        let found = options.text(name).filter(|found| is_file(&found.value))?;
        options.accept(name);
        Some(found.value)
    });
    let first = context.program.words.first().filter(|word| !word.starts_with('-') && is_file(word));
    let told = NAMES.iter().any(|name| options.holds(name));
    let usual = || {
        let (path, text) = script_of(context)?;
        let defaults = script_defaults::of_project(context, &path, &text);
        NAMES.iter().find_map(|name| Some(defaults.text(name)?.value).filter(|path| is_file(path)))
    };
    let named = named.or_else(|| first.cloned()).or_else(|| if told { None } else { usual() });
    named.map(|path| (path, !flat))
}

/// Whether a script takes a file of arguments whose name only the run knows.
pub fn is_told_elsewhere(context: &ImportContext, options: &Settings) -> bool {
    let unknown = |name: &str| options.get(name).is_some_and(|found| found.value.as_str().is_some_and(is_open));
    let first = context.program.words.first().is_some_and(|word| word == UNKNOWN);
    ["config", "config_file", "config_path", "train_args_file", "args_file"].iter().any(|name| unknown(name)) || first
}

/// Whether a path has a part that only the run knows.
fn is_open(path: &str) -> bool {
    path.contains(UNKNOWN)
}

/// What a loop's text says beside its arguments.
pub struct OwnLoop {
    path: String,
    text: String,
    /// What its configuration of DeepSpeed is given by the script itself.
    given: Vec<(&'static str, Setting<u64>)>,
    /// The optimizer that it makes, by the Trainer's name for it.
    optimizer: Option<&'static str>,
    /// Which kernel that one has is not followed.
    kernel_is_open: bool,
    /// The optimizer that it hands DeepSpeed.
    client_optimizer: Option<ClientOptimizer>,
    /// It loads more models than one.
    loads_several: bool,
    /// Options that it inherits and never names.
    silent: Vec<&'static str>,
    /// The call by which it may compute in 8 bits: of accelerate's recipes, torchao, Transformer Engine.
    eight_bits: Option<&'static str>,
    /// Its accelerator reduces each micro-batch's gradients.
    syncs_each: bool,
    /// It splits its ranks by accelerate's configuration for that.
    splits_ranks: bool,
    /// What Lightning's Trainer is told, where that trains.
    lightning: Option<LightningTrainer>,
    /// It computes under an autocast that is not followed.
    casts_open: bool,
}

impl OwnLoop {
    /// The loop of the script that runs, where it has one; `file` is what it reads its arguments from, in sections.
    pub fn of(context: &ImportContext, settings: &mut Settings, file: &Settings) -> Option<Self> {
        let (path, text) = training_text(context).filter(|(_, text)| loops(text))?;
        let text = called_text(context, &path, &text);
        let mut own = Self {
            path,
            text,
            given: Vec::new(),
            optimizer: None,
            kernel_is_open: false,
            client_optimizer: None,
            loads_several: false,
            silent: Vec::new(),
            eight_bits: None,
            syncs_each: false,
            splits_ranks: false,
            lightning: None,
            casts_open: false,
        };
        own.silence(settings);
        own.fill(settings, file, context);
        Some(own)
    }

    /// Takes options of `TrainingArguments` out that the loop inherits and its text never names: they change nothing.
    fn silence(&mut self, settings: &mut Settings) {
        const INHERITED: [&str; 6] = [
            "per_device_train_batch_size",
            "gradient_accumulation_steps",
            "gradient_checkpointing",
            "bf16",
            "fp16",
            "max_grad_norm",
        ];
        if !parses(&self.text) {
            return;
        }
        let named = |name: &str| match name {
            // The property of `TrainingArguments` that multiplies it.
            "per_device_train_batch_size" => self.text.contains("train_batch_size"),
            // `TrainingArguments.__post_init__` tells accelerate by ACCELERATE_MIXED_PRECISION.
            "bf16" | "fp16" => self.text.contains(name) || self.text.contains("Accelerator("),
            _ => self.text.contains(name),
        };
        let silent = |name: &&&str| settings.is_set(name) && !named(name);
        let silent: Vec<&str> = INHERITED.iter().filter(silent).copied().collect();
        for name in silent {
            settings.set(name, Value::Null, Origin::Program(format!("{}: never names it", self.path)));
            self.silent.push(name);
        }
    }

    /// Its text, with what it calls in the modules of its project.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the loop does in place of what a Trainer, a configuration of DeepSpeed or a launcher would.
    pub fn settle(&self, imported: &mut ImportedPlan, context: &ImportContext) {
        for (key, told) in &self.given {
            imported.set(key, Some(told.clone()));
        }
        under_deepspeed(imported);
        // What was told of the weights' type alone says nothing of what is computed in.
        let of_weights = imported.get(keys::training::precision).is_some_and(|found| {
            let told = found.origin.to_string();
            told.contains("dtype") || told.contains("prepare_model_for")
        });
        if self.casts_open && of_weights {
            imported.drop(keys::training::precision);
            imported.miss(keys::training::precision, format!("{} has autocast(, which is not followed", self.path));
        }
        self.by_lightning(imported, context);
        self.takes_client_optimizer(imported);
        self.unfollowed(imported);
        if self.kernel_is_open {
            imported.drop(keys::training::optimizer);
        }
        if self.optimizer.is_none() {
            imported
                .miss(keys::training::optimizer, format!("{}: which optimizer it makes is not followed", self.path));
        }
        if imported.get(keys::training::gradient_accumulation_steps).is_none() {
            let why = format!("{}: its accumulation is not followed", self.path);
            imported.miss(keys::training::gradient_accumulation_steps, why);
        }
        if imported.get(keys::training::micro_batch_size).is_none() {
            imported.miss(
                keys::training::micro_batch_size,
                format!("{}: what its loader takes is not followed", self.path),
            );
        }
        self.reductions(imported);
        if let Some(class) = wrapper(&self.text) {
            not_modelled(imported, &format!("{class}, a module of the script's own around the model: its layers"));
        }
        if let Some((first, others)) = self.silent.split_first() {
            let names = others.iter().fold(format!("--{first}"), |names, name| format!("{names}, --{name}"));
            imported.note(format!("{}: its loop never names {names}: without effect in it", self.path));
        }
        if context.launchers.is_empty() && context.world.total.is_none() && self.lightning.is_none() {
            self.processes(imported, context);
        }
        let denoises = imported
            .get(keys::model::preset)
            .is_some_and(|found| found.value.as_str().is_some_and(|name| name.starts_with("stable-diffusion")));
        if denoises && ["AutoencoderKL", "CLIPTextModel"].iter().any(|class| self.text.contains(class)) {
            not_modelled(imported, "the image encoder and the text encoders beside the denoiser");
        }
        if self.loads_several {
            not_modelled(imported, &format!("{} loads several models: one is counted", self.path));
        }
    }
}

/// `Accelerator(mixed_precision="bf16")` under DeepSpeed turns its engine's own 16 bits on, with masters of fp32
/// (`DeepSpeedPlugin.set_mixed_precision`), whatever type the weights were loaded in.
fn under_deepspeed(imported: &mut ImportedPlan) {
    const SAID: &str = "Accelerator(mixed_precision)";
    let engine = imported.get(keys::distribution::engine).is_some_and(|found| found.value == "deepspeed");
    let Some(found) = imported.get(keys::training::precision).cloned().filter(|_| engine) else { return };
    let (half, word) = match found.value.as_str() {
        Some("bf16" | "bf16-mixed") => ("bf16", "bf16-fp32-master"),
        Some("fp16" | "fp16-mixed") => ("fp16", "fp16-fp32-master"),
        _ => return,
    };
    if !found.origin.to_string().contains(SAID) {
        return;
    }
    imported.say(keys::training::precision, word, found.origin.clone());
    if imported.get(keys::distribution::sharding).is_some_and(|sharding| sharding.value != "none") {
        imported.say(keys::training::gradient_dtype, half, found.origin);
    }
}
