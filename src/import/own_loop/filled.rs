//! What a loop's calls say in place of arguments: its loader, its models, its accelerator, its autocast.

use serde_json::Value;

use super::autocast::Autocast;
use super::client_optimizer::ClientOptimizer;
use super::cuts::{makes_its_samples, truncated};
use super::lightning::LightningTrainer;
use super::says::{engine_loads, given, is_fused, loader_batch, optimizer, several_models};
use super::{OwnLoop, engine_settings, unfollowed};
use crate::common::ImportContext;
use crate::origin::Origin;
use crate::own_config;
use crate::python::ScriptReader;
use crate::python_calls::call;
use crate::python_models::{made_anew, models};
use crate::script_adapters::LoadedWeights;
use crate::script_defaults::script_of;
use crate::script_doubts::code;
use crate::settings::Settings;
use crate::trainer::reentrant;

/// Names for the steps between two updates.
const STEPS: [&str; 10] = [
    "gradient_accumulation_steps",
    "grad_accum",
    "grad_accum_steps",
    "grad_acc_steps",
    "gradient_accumulation",
    "grad_accumulation_steps",
    "gradient_accumulate_steps",
    "accumulation_steps",
    "accum_steps",
    "accum_iter",
];

/// What was found, where no argument says it.
struct Filled<'a> {
    found: Settings,
    settings: &'a Settings,
    path: &'a str,
}

impl Filled<'_> {
    fn origin(&self, key: &str) -> Origin {
        Origin::File { name: self.path.to_owned(), line: None, key: key.to_owned() }
    }

    fn put(&mut self, name: &str, value: Option<Value>, key: &str) {
        if let Some(value) = value.filter(|_| !self.settings.is_set(name)) {
            self.found.set(name, value, self.origin(key));
        }
    }

    /// A call of the loop's own goes over whatever its arguments are called.
    fn checkpoints(&mut self, reader: &ScriptReader) {
        if reader.makes("gradient_checkpointing_enable") {
            self.found.set("gradient_checkpointing", true.into(), self.origin("gradient_checkpointing_enable"));
            if let Some(told) = reentrant::of_call(reader) {
                self.found.set(reentrant::NAME, told.value.into(), told.origin);
            }
        }
    }

    /// What its accelerator is told.
    fn accelerated(&mut self, reader: &ScriptReader) {
        let accelerator = reader.calls(&["Accelerator"]);
        let steps = accelerator.whole("gradient_accumulation_steps").map(|found| found.value.into());
        self.put("gradient_accumulation_steps", steps, "Accelerator(gradient_accumulation_steps)");
        let plugin = reader.calls(&["GradientAccumulationPlugin"]);
        let steps = plugin.whole("num_steps").map(|found| found.value.into());
        self.put("gradient_accumulation_steps", steps, "GradientAccumulationPlugin(num_steps)");
        let mixed = accelerator.text("mixed_precision");
        for half in ["bf16", "fp16"] {
            let told = mixed.as_ref().filter(|found| found.value == half);
            self.put(half, told.map(|_| true.into()), "Accelerator(mixed_precision)");
        }
    }

    /// The types that its models are loaded in, and their name.
    fn loaded(&mut self, made: &Settings, reader: &ScriptReader, adapts: bool) {
        let known = |name: &str| made.text(name).map(|found| Value::from(found.value));
        self.put("torch_dtype", known("torch_dtype").or_else(|| known("dtype")), "from_pretrained(torch_dtype)");
        // Quantised weights are trained by adapters alone.
        if let Some((bits, name)) = LoadedWeights::of(reader).bits.filter(|_| adapts) {
            let value = if name == "bits" { bits.value.into() } else { true.into() };
            self.put(name, Some(value), name);
        }
        const NAMES: [&str; 6] = ["model_name_or_path", "model_name", "model_path", "base_model", "model_id", "model"];
        if !NAMES.iter().any(|name| self.settings.is_set(name)) {
            let named = ["0", "pretrained_model_name_or_path"].iter().find_map(|place| known(place));
            self.put("model_name_or_path", named, "from_pretrained");
        }
    }

    /// A script's own argument for the type that it casts to says nothing of what its models are stored in: where no line
    /// hands one on to a model, it is none of theirs.
    fn stored(&mut self, text: &str) {
        const TAKES: [&str; 5] = [".to(", "torch_dtype", "from_pretrained", "from_config", "set_default_dtype"];
        let hands_on = |line: &str| {
            let line = line.trim_start();
            line.contains("dtype") && (line.starts_with("dtype=") || TAKES.iter().any(|part| line.contains(part)))
        };
        if code(text).any(hands_on) {
            return;
        }
        for name in ["dtype", "model_dtype"] {
            self.found.set(name, Value::Null, Origin::Program(format!("{}: given to no model", self.path)));
        }
    }

    /// The norm that it cuts gradients to, by the argument which that call itself names. Where that is none, an engine
    /// may have its own.
    fn clipped(&mut self, text: &str) {
        const NAMES: [&str; 6] =
            ["grad_clip", "clip_grad", "clip_grad_norm", "grad_clip_norm", "gradient_clip", "grad_norm_clip"];
        let cuts = |name: &str| {
            code(text).any(|line| {
                line.contains("clip_grad_norm_(")
                    && line.split(|letter: char| !is_of_name(letter)).any(|word| word == name)
            })
        };
        let named =
            NAMES.iter().find(|name| self.settings.number(name).is_some_and(|found| found.value > 0.0) && cuts(name));
        if let Some(name) = named.filter(|_| !self.settings.is_set("max_grad_norm")) {
            self.found.adopt("max_grad_norm", self.settings, name);
        }
    }

    /// The steps between two updates by an argument or a variable of that meaning; one where nothing is accumulated.
    fn accumulated(&mut self, reader: &ScriptReader, text: &str) {
        const STEPS_NAME: &str = "gradient_accumulation_steps";
        if self.found.holds(STEPS_NAME) {
            return;
        }
        if let Some(name) = STEPS.iter().find(|name| self.settings.whole(name).is_some()) {
            self.found.adopt(STEPS_NAME, self.settings, name);
        } else if let Some(name) = STEPS.iter().find(|name| reader.named(&[name]).holds(name)) {
            self.found.adopt(STEPS_NAME, &reader.named(&[name]), name);
        } else if !code(text).any(|line| line.to_lowercase().contains("accum")) {
            self.found.set(STEPS_NAME, 1.into(), Origin::Program(format!("{}: no accumulation in it", self.path)));
        }
    }
}

impl OwnLoop {
    pub(super) fn fill(&mut self, settings: &mut Settings, file: &Settings, context: &ImportContext) {
        let known = file.clone().with(settings.clone());
        // What the loop's text begins with is its script.
        let script =
            script_of(context).filter(|(path, text)| *path == self.path && self.text.starts_with(text.as_str()));
        let lines = script.map_or_else(|| self.text.lines().count(), |(_, text)| text.lines().count());
        let reader = ScriptReader::of_project(&self.path, &self.text, &self.text, known, context.outside())
            .with_named_lines(lines);
        let path = self.path.clone();
        let mut filled = Filled { found: Settings::default(), settings, path: &path };
        let batch =
            loader_batch(&self.text).map(|part| (reader.expression(&part), format!("DataLoader(batch_size={part})")));
        let packed = is_filled_by_tokens(batch.as_ref().and_then(|(value, _)| value.as_ref()), settings);
        if let Some((value, key)) = batch.filter(|_| !packed && !engine_loads(&self.text)) {
            filled.put("per_device_train_batch_size", value, &key);
        }
        let loaded = models(&self.text);
        let made = if loaded.is_empty() {
            made_anew(&reader)
        } else {
            reader.calls(&loaded.iter().map(String::as_str).collect::<Vec<_>>())
        };
        filled.loaded(&made, &reader, self.text.contains("get_peft_model("));
        filled.stored(&self.text);
        filled.accelerated(&reader);
        self.syncs_each = reader.calls(&["GradientAccumulationPlugin"]).is("sync_each_batch");
        match Autocast::of(&reader, &self.text) {
            // Weights of the other 16 bits have no word in a plan.
            Autocast::Half(half) if is_stored_otherwise(&made, half) => self.casts_open = true,
            Autocast::Half(half) => filled.put(half, Some(true.into()), "autocast("),
            Autocast::None => {}
            Autocast::Open => self.casts_open = true,
        }
        (self.optimizer, self.kernel_is_open) = made_optimizer(&reader, &self.text);
        filled.put("optim", self.optimizer.map(Value::from), "its optimizer");
        let cut = truncated(&self.text, &reader).filter(|_| !makes_its_samples(&self.text));
        filled.put("max_length", cut, "max_length");
        filled.checkpoints(&reader);
        if let Some((trainer, told)) = LightningTrainer::of(&reader, &self.text) {
            filled.found.over(told);
            self.lightning = Some(trainer);
        }
        // DeepSpeed-Chat and those after it have arguments for it, which are read by their names.
        if !settings.holds("zero_stage") {
            filled.found.over(engine_settings::passed(&reader));
        }
        filled.clipped(&self.text);
        if self.lightning.is_none() {
            filled.accumulated(&reader, &self.text);
        }
        self.eight_bits = self.computes_in_eight_bits(&reader);
        self.splits_ranks = self.asks(&reader, unfollowed::SPLIT);
        self.given = given(&self.text, &reader, &|key| filled.origin(key));
        self.loads_several = several_models(&self.text, &reader);
        let found = filled.found;
        settings.over(found);
        self.client_optimizer = ClientOptimizer::of(&reader, settings);
        if packed {
            settings.set("max_tokens", Value::Null, Origin::Program(format!("{path}: of a whole batch")));
        }
        own_config::adopt_optimizer(settings);
    }

    /// Whether it has a call that runs, or may run.
    fn asks(&self, reader: &ScriptReader, name: &str) -> bool {
        call(&self.text, name).is_some() && reader.reached(&[name]) != Some(false)
    }

    fn computes_in_eight_bits(&self, reader: &ScriptReader) -> Option<&'static str> {
        const CALLS: [&str; 6] = [
            "AORecipeKwargs",
            "TERecipeKwargs",
            "FP8RecipeKwargs",
            "convert_to_float8_training",
            "fp8_autocast",
            "Float8LinearConfig",
        ];
        CALLS.into_iter().find(|name| self.asks(reader, name))
    }
}

const fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The optimizer that a loop makes, and whether its kernel alone is open.
fn made_optimizer(reader: &ScriptReader, text: &str) -> (Option<&'static str>, bool) {
    let fused = |part: &str| is_fused(part, reader, text);
    let made = optimizer(text, reader, &fused);
    let either = |part: &str| Some(fused(part).unwrap_or(true));
    (made, made.is_none() && optimizer(text, reader, &either).is_some())
}

/// Whether a model is loaded in the other 16 bits than those.
fn is_stored_otherwise(made: &Settings, half: &str) -> bool {
    let stored = ["torch_dtype", "dtype"].iter().find_map(|name| made.text(name));
    stored.is_some_and(|found| found.value.ends_with("float16") && found.value.contains('b') != half.starts_with('b'))
}

/// Whether a loader takes one item that is a batch already, of samples up to a number of tokens, as fairseq fills its.
fn is_filled_by_tokens(batch: Option<&Value>, settings: &Settings) -> bool {
    batch.and_then(Value::as_u64) == Some(1) && settings.holds("max_tokens")
}
