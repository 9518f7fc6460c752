//! What the script of a running process says of its batch, its samples, its optimizer and its types, for the comparison
//! with a plan. A plan is never made of it: the script may be of no known tool. Read, never run.

mod configured;
mod drawn;
mod guards;
mod imports;
mod library;
mod lightning;
mod named;
mod optimizer;
mod shape;
#[cfg(test)]
mod tests;
mod torchvision;
mod types;

use super::arguments;
use super::common::ImportContext;
use super::imported::{ImportedPlan, InferredValue};
use super::origin::{Origin, Setting};
use super::own_loop;
use super::python::{ARGV, PassedArgument, ScriptReader};
use super::script_defaults::script_of;
use super::script_doubts::code;
use super::script_modules::deep_project_text;
use super::settings::{Settings, whole};
use crate::plan::keys;
use named::{BATCHES, LENGTHS, STEPS, with_long_names};
pub use torchvision::parameters as torchvision_parameters;

/// What the script that runs says, by keys of a plan; nothing where it trains by no loop of its own that is at hand, but for
/// the length of its samples.
pub fn of_script(context: &ImportContext) -> Vec<InferredValue> {
    let Some((path, text)) = script_of(context).filter(|_| !guards::asks_for_else(&context.program.words)) else {
        return Vec::new();
    };
    let text = configured::by_configurator(context, &text);
    let project = deep_project_text(context, &path, &text);
    let options = with_long_names(arguments::read(&context.program.words).options, &project);
    // Notes of its file of settings are those of the plan.
    let mut unused = ImportedPlan::default();
    let is_client = lightning::is_client(context, &project);
    let file = match is_client {
        true => lightning::client_file(context, &options),
        false => own_loop::configuration(context, &options, &mut unused).map(|(file, _)| file),
    };
    let file = file.unwrap_or_default();
    // What the script takes from its command by itself, over its file.
    let told = &context.program.words;
    let mut words = if project.contains("from_cli(") { arguments::overrides(told) } else { Settings::default() };
    let argv: Vec<&str> = std::iter::once(path.as_str()).chain(told.iter().map(String::as_str)).collect();
    words.set(ARGV, argv.into(), Origin::Argument(ARGV.to_owned()));
    let given = file.clone().with(options).with(words);
    let reader = ScriptReader::of_project(&path, &text, &project, given.clone(), context.outside());
    let is_whole = imports::are_known(context, &path, &project);
    let script =
        Script { path: &path, text: &project, reader: &reader, file: &file, given: &given, is_whole, is_client };
    if is_client || own_loop::loops(&project) {
        return script.of_loop();
    }
    if !own_loop::trains_by_library(&project) {
        return Vec::new();
    }
    script.row(keys::model::sequence_length, script.length()).into_iter().chain(script.of_library()).collect()
}

struct Script<'a> {
    path: &'a str,
    /// Its text, with those of the modules of its project.
    text: &'a str,
    reader: &'a ScriptReader<'a>,
    /// What it reads its arguments from.
    file: &'a Settings,
    /// The same with what its command passes.
    given: &'a Settings,
    /// Whether `LightningCLI` trains.
    is_client: bool,
    /// Whether nothing else than its text decides how it trains: what does not stand in it is not done.
    is_whole: bool,
}

impl Script<'_> {
    fn of_loop(&self) -> Vec<InferredValue> {
        let rows = [
            self.row(keys::training::micro_batch_size, self.batch()),
            self.row(
                keys::training::gradient_accumulation_steps,
                self.accumulated_by_trainer().or_else(|| self.accumulation()),
            ),
            self.row(keys::model::sequence_length, self.length()),
            self.row(keys::training::optimizer, self.optimizer()),
            self.row(keys::training::precision, self.precision_of_trainer().or_else(|| self.precision())),
            self.row(keys::training::activation_checkpointing, self.checkpointing()),
            self.row(keys::model::preset, self.model_of_torchvision()),
        ];
        rows.into_iter().flatten().chain(self.shape_of_model()).collect()
    }

    fn row<T>(&self, key: &'static str, told: Option<Setting<T>>) -> Option<InferredValue>
    where
        serde_json::Value: From<T>,
    {
        let told = told?.into_value();
        Some(InferredValue { key, value: told.value, origin: told.origin })
    }

    fn says(&self, what: &str) -> Origin {
        Origin::Program(format!("{}: {what}", self.path))
    }

    fn has(&self, parts: &[&str]) -> bool {
        code(self.text).any(|line| parts.iter().any(|part| line.contains(part)))
    }

    /// What its loader takes, else the shape of the samples that it makes, else what goes by such a name.
    fn batch(&self) -> Option<Setting<u64>> {
        if self.has(&["split_batches", "batch_sampler"]) || own_loop::engine_loads(self.text) || self.shares_out() {
            return None;
        }
        if self.is_client {
            return self.batch_of_client();
        }
        // One that cuts its batch takes another at a time, which has that name.
        let lower = self.text.to_lowercase();
        let cuts = self.names_micro_batches();
        let is_whole = |name: &str| !cuts || name.to_lowercase().contains("micro");
        let shape = self.shape().map(|(samples, _)| samples).or_else(|| self.images());
        match (own_loop::loader_batch(self.text), shape) {
            // What is drawn may be the whole data set.
            (Some(part), _) if part.contains(" if ") || !self.takes_whole_batches() => None,
            (Some(part), _) => {
                let samples = whole(&self.reader.expression(&part)?).filter(|_| is_whole(&part))?;
                Some(Setting::new(samples, self.says(&format!("DataLoader(batch_size={part})"))))
            }
            // Of a loader that is not followed nobody knows; what is drawn then is a data set.
            (None, _) if self.has(&["DataLoader("]) => None,
            (None, Some(samples)) => {
                let named = self.named_as(&BATCHES, samples, "the samples that it makes");
                Some(named).filter(|found| is_whole(&found.origin.to_string()))
            }
            (None, None) if !["accum", "world_size", "micro"].iter().any(|part| lower.contains(part)) => {
                self.named(&BATCHES)
            }
            _ => None,
        }
    }

    /// The tokens of a sample: by the shape of those that it makes, else by what goes by such a name.
    fn length(&self) -> Option<Setting<u64>> {
        match self.shape().map(|(_, tokens)| tokens).or_else(|| self.made_length()) {
            Some(tokens) => Some(self.named_as(&LENGTHS, tokens, "the samples that it makes")),
            None if self.has(&["randint("]) => None,
            None => self.named(&LENGTHS),
        }
    }

    fn accumulation(&self) -> Option<Setting<u64>> {
        if let Some(found) = self.named(&STEPS) {
            let counted = self.words(&STEPS).iter().any(|name| self.counts_by(name));
            return Some(found).filter(|_| counted);
        }
        let accumulates = code(self.text).any(|line| {
            let line = line.to_lowercase();
            line.contains("accum") || line.contains("micro")
        });
        let each = own_loop::has_one_backward(self.text) && self.steps_each_time();
        let whole = self.is_whole && !accumulates && each;
        whole.then(|| Setting::new(1, self.says("no accumulation in it")))
    }

    fn checkpointing(&self) -> Option<Setting<&'static str>> {
        if self.reader.makes("gradient_checkpointing_enable") {
            return Some(Setting::new("full", self.says("gradient_checkpointing_enable")));
        }
        if self.text.contains("torch.utils.checkpoint") && self.recomputes() {
            return Some(Setting::new("full", self.says("torch.utils.checkpoint")));
        }
        // timm's models (timm/models/_manipulate.py).
        let switched = self.reader.passed(&["set_grad_checkpointing"], "0");
        let whose = self.text.split(".set_grad_checkpointing").next().unwrap_or_default();
        let is_trained = types::MODELS.iter().any(|name| whose.ends_with(name));
        if let [(PassedArgument::Plain(told), true)] = switched.as_slice()
            && is_trained
            && let Some(on) = told.value.as_bool()
        {
            return Some(Setting::new(if on { "full" } else { "none" }, self.says("set_grad_checkpointing")));
        }
        // The same of a model of the script's own (open_clip_train/main.py): without an argument it is turned on.
        if self.has(&[".set_grad_checkpointing()"]) && self.reader.calls_any("set_grad_checkpointing") == Some(true) {
            return Some(Setting::new("full", self.says("set_grad_checkpointing")));
        }
        let known = [
            "checkpointing",
            "grad_checkpoint",
            "gradient_checkpoint",
            "grad_ckpt",
            "activation_checkpoint",
            "utils.checkpoint",
            "checkpoint_wrapper",
            "recompute",
            "accelerator(",
        ];
        // Lightning's files of weights are another thing.
        let lower = self.text.to_lowercase().replace("enable_checkpointing", "");
        let none = self.is_whole && !known.iter().any(|part| lower.contains(part));
        none.then(|| Setting::new("none", self.says("no activation checkpointing in it")))
    }

    /// Whether a block's forward pass goes through PyTorch's function for it, whatever loop it stands in: where a condition is
    /// around it, that holds.
    fn recomputes(&self) -> bool {
        let lines: Vec<&str> = self.text.lines().collect();
        // With a module alone `checkpoint` is the module of functions, or runs nothing: `torch.utils.checkpoint(self.block)`.
        let has_inputs = |line: &str| {
            let passed = line.split_once("checkpoint(").map_or("", |(_, passed)| passed);
            passed.contains(',') || !passed.contains(')')
        };
        let calls =
            |line: &str| code(line).any(|line| line.contains("checkpoint(") && line.contains('=') && has_inputs(line));
        let holds = |condition: &str| self.reader.expression(condition) == Some(serde_json::Value::Bool(true));
        let mut found = lines.iter().enumerate().filter(|(_, line)| calls(line));
        found.any(|(at, line)| {
            if let Some((_, choice)) = line.split_once(" if ") {
                return choice.split_once(" else ").is_some_and(|(condition, _)| holds(condition.trim()));
            }
            let depth = |line: &str| line.len() - line.trim_start().len();
            let mut before = lines.get(..at).unwrap_or_default().iter().rev().filter(|above| !above.trim().is_empty());
            let above = before.find(|above| depth(above) < depth(line)).map_or("", |above| above.trim());
            match above.strip_prefix("if ") {
                Some(condition) => holds(condition.trim_end_matches(':').trim()),
                None => above.starts_with("for ") || above.starts_with("def "),
            }
        })
    }
}
