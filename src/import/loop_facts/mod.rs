//! What the script of a running process says of its batch, its samples, its optimizer and its types, for the comparison
//! with a plan. A plan is never made of it: the script may be of no known tool. Read, never run.

mod drawn;
mod guards;
mod imports;
mod named;
#[cfg(test)]
mod tests;
mod types;

use super::arguments;
use super::common::ImportContext;
use super::imported::{ImportedPlan, InferredValue};
use super::origin::{Origin, Setting};
use super::own_loop;
use super::python::{ARGV, PassedArgument, ScriptReader};
use super::script_defaults::script_of;
use super::script_doubts::code;
use super::script_modules::project_text;
use super::settings::{Settings, whole};
use crate::plan::keys;
use named::{BATCHES, LENGTHS, STEPS, with_long_names};

/// Optimizers that [`own_loop::optimizer`] does not know, by what their names have.
const OTHER_OPTIMIZERS: [&str; 9] =
    ["Muon", "Shampoo", "SOAP", "Sophia", "GaLore", "LOMO", "APOLLO", "Prodigy", "LBFGS"];

/// What the script that runs says, by keys of a plan; nothing where it trains by no loop of its own that is at hand, but for
/// the length of its samples.
pub fn of_script(context: &ImportContext) -> Vec<InferredValue> {
    let Some((path, text)) = script_of(context).filter(|_| !guards::asks_for_else(&context.program.words)) else {
        return Vec::new();
    };
    let project = project_text(context, &path, &text);
    let options = with_long_names(arguments::read(&context.program.words).options, &project);
    // Notes of its file of settings are those of the plan.
    let mut unused = ImportedPlan::default();
    let file = own_loop::configuration(context, &options, &mut unused).map_or_else(Settings::default, |(file, _)| file);
    // What the script takes from its command by itself, over its file.
    let told = &context.program.words;
    let mut words = if project.contains("from_cli(") { arguments::overrides(told) } else { Settings::default() };
    let argv: Vec<&str> = std::iter::once(path.as_str()).chain(told.iter().map(String::as_str)).collect();
    words.set(ARGV, argv.into(), Origin::Argument(ARGV.to_owned()));
    let given = file.clone().with(options).with(words);
    let reader = ScriptReader::of_project(&path, &text, &project, given, context.outside());
    let is_whole = imports::are_known(context, &path, &project);
    let script = Script { path: &path, text: &project, reader: &reader, file: &file, is_whole };
    if own_loop::loops(&project) {
        return script.of_loop();
    }
    if !own_loop::trains_by_library(&project) {
        return Vec::new();
    }
    script.row(keys::model::sequence_length, script.length()).into_iter().collect()
}

struct Script<'a> {
    path: &'a str,
    /// Its text, with those of the modules of its project.
    text: &'a str,
    reader: &'a ScriptReader<'a>,
    /// What it reads its arguments from.
    file: &'a Settings,
    /// Whether nothing else than its text decides how it trains: what does not stand in it is not done.
    is_whole: bool,
}

impl Script<'_> {
    fn of_loop(&self) -> Vec<InferredValue> {
        let rows = [
            self.row(keys::training::micro_batch_size, self.batch()),
            self.row(keys::training::gradient_accumulation_steps, self.accumulation()),
            self.row(keys::model::sequence_length, self.length()),
            self.row(keys::training::optimizer, self.optimizer()),
            self.row(keys::training::precision, self.precision()),
            self.row(keys::training::activation_checkpointing, self.checkpointing()),
        ];
        rows.into_iter().flatten().collect()
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
        // One that cuts its batch takes another at a time, which has that name.
        let lower = self.text.to_lowercase();
        let is_whole = |name: &str| !lower.contains("micro") || name.to_lowercase().contains("micro");
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

    fn optimizer(&self) -> Option<Setting<&'static str>> {
        if self.picks_optimizer() || OTHER_OPTIMIZERS.iter().any(|part| self.text.contains(part)) {
            return None;
        }
        if let Some(word) = self.made_by_timm() {
            return Some(Setting::new(word, self.says("args.opt")));
        }
        let word = match own_loop::optimizer(self.text, self.reader, &|_| Some(false))? {
            "adamw" | "adam" | "adamw_hf" | "adamw_torch_fused" | "fusedadam" => "adamw",
            "adamw_8bit" | "adam_8bit" => "adamw-8bit",
            "sgd_momentum" => "sgd-momentum",
            word @ ("sgd" | "adafactor" | "lion") => word,
            _ => return None,
        };
        Some(Setting::new(word, self.says("its optimizer")))
    }

    /// timm's factory takes the name of the optimizer, and its momentum, from the arguments (timm/optim/_optim_factory.py,
    /// `optimizer_kwargs` and `create_optimizer_v2`).
    fn made_by_timm(&self) -> Option<&'static str> {
        let by_arguments = self.has(&["create_optimizer_v2("]) && self.has(&["optimizer_kwargs(cfg=args)"]);
        let named = by_arguments.then(|| self.reader.expression("args.opt")).flatten()?;
        let has_momentum = || self.reader.expression("args.momentum")?.as_f64().map(|share| share > 0.0);
        match named.as_str()?.to_lowercase().as_str() {
            "adam" | "adamw" => Some("adamw"),
            "sgd" | "momentum" => has_momentum()?.then_some("sgd-momentum"),
            "lion" => Some("lion"),
            "adafactor" => Some("adafactor"),
            _ => None,
        }
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
        let lower = self.text.to_lowercase();
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
