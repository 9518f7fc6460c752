//! A training loop of one's own on models of transformers: what its text makes of its arguments, its loader, its
//! optimizer and the types that it loads. Read, never run.

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::origin::{Origin, Setting};
use super::own_config;
use super::python_calls::{call, is_script, models};
use super::python_values::{ScriptReader, arguments};
use super::rows::not_modelled;
use super::script_defaults::{self, project_text, script_of};
use super::script_doubts::code;
use super::settings::{Settings, UNKNOWN, whole};
use crate::plan::keys;

/// What fills `TrainingArguments` from a command line or a file.
const PARSERS: [&str; 3] = ["HfArgumentParser(", "TrlParser(", "H4ArgumentParser("];

/// Whether the script that runs trains a model of transformers by its own text: with a loop of its own, or with a
/// Trainer whose arguments come from the command line.
pub fn trains(context: &ImportContext) -> bool {
    let Some((_, text)) = training_text(context) else { return false };
    // Those that make `TrainingArguments` themselves say more there than on their command lines.
    let parses = || PARSERS.iter().any(|parser| text.contains(parser)) && !is_script(&text);
    is_loop(&text) || (uses_trainer(&text) && parses())
}

/// The script that runs; of one that by its name, or its first argument, trains and only starts what stands in modules
/// of its project, with those.
pub fn training_text(context: &ImportContext) -> Option<(String, String)> {
    const TRAINING: [&str; 9] = ["train", "tune", "sft", "dpo", "rlhf", "grpo", "ppo", "distil", "lora"];
    let (path, text) = script_of(context)?;
    let tells = |word: &str| TRAINING.iter().any(|part| word.to_lowercase().contains(part));
    let first = context.program.words.first().filter(|word| !word.starts_with('-'));
    let named = tells(context.program.name()) || first.is_some_and(|word| tells(word));
    let trains = |text: &str| {
        code(text).any(|line| line.contains(".backward(")) || (uses_trainer(text) && text.contains("from transformers"))
    };
    if !named || trains(&text) {
        return Some((path, text));
    }
    let whole = project_text(context, &path, &text);
    Some((path, if trains(&whole) { whole } else { text }))
}

/// Whether a script leaves its training to modules that are not read: neither a Trainer nor a loop is in what is.
pub fn hides(context: &ImportContext) -> bool {
    const KNOWN: [&str; 8] =
        ["TrainingArguments", "Trainer(", "Trainer.", "Parser(", ".backward(", "Config(", "fire.Fire(", "Accelerator("];
    script_of(context).is_some_and(|(path, text)| {
        let whole = project_text(context, &path, &text);
        !KNOWN.iter().any(|part| whole.contains(part))
    })
}

/// Whether a script has a loop of its own.
pub fn is_loop(text: &str) -> bool {
    let transformers = text.contains("from transformers") || text.contains("import transformers");
    transformers && loops(text)
}

/// The same of a script that is known to train, on models of whatever library.
pub fn loops(text: &str) -> bool {
    !uses_trainer(text) && code(text).any(|line| line.contains(".backward("))
}

fn uses_trainer(text: &str) -> bool {
    code(text).any(|line| line.contains("Trainer("))
}

/// Where a script's arguments stand in a file: the path, and whether its names may stand in sections.
pub fn config_file(context: &ImportContext, options: &Settings) -> Option<(String, bool)> {
    const LOADERS: [&str; 6] =
        ["yaml.safe_load", "yaml.load", "OmegaConf.load", "json.load", "load_config(", "FullLoader"];
    const NAMES: [&str; 10] = [
        "config",
        "config_file",
        "config_path",
        "cfg",
        "cfg_path",
        "train_config",
        "training_config",
        "train_args_file",
        "args_file",
        "config_yaml",
    ];
    let (_, text) = training_text(context)?;
    let flat = PARSERS.iter().any(|parser| text.contains(parser))
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

/// Names for the steps between two updates.
const STEPS: [&str; 9] = [
    "gradient_accumulation_steps",
    "grad_accum_steps",
    "grad_acc_steps",
    "gradient_accumulation",
    "grad_accumulation_steps",
    "gradient_accumulate_steps",
    "accumulation_steps",
    "accum_steps",
    "accum_iter",
];

/// What a loop's text says beside its arguments.
pub struct OwnLoop {
    path: String,
    text: String,
    /// What its configuration of DeepSpeed is given by the script itself.
    given: Vec<(&'static str, Setting<u64>)>,
    /// It loads more models than one.
    loads_several: bool,
}

impl OwnLoop {
    /// The loop of the script that runs, where it has one; `file` is what it reads its arguments from, in sections.
    pub fn of(context: &ImportContext, settings: &mut Settings, file: &Settings) -> Option<Self> {
        let (path, text) = training_text(context).filter(|(_, text)| loops(text))?;
        // What a library of the project can quantise, the script need not.
        let quantised = text.contains("get_peft_model(").then(|| ScriptReader::new(&path, &text, settings.clone()));
        let quantised = quantised.map(|reader| reader.calls(&["BitsAndBytesConfig"])).unwrap_or_default();
        let text = project_text(context, &path, &text);
        let mut own = Self { path, text, given: Vec::new(), loads_several: false };
        own.fill(settings, file, &quantised);
        Some(own)
    }

    fn fill(&mut self, settings: &mut Settings, file: &Settings, quantised: &Settings) {
        let reader = ScriptReader::new(&self.path, &self.text, file.clone().with(settings.clone()));
        let mut found = Settings::default();
        let origin = |key: &str| Origin::File { name: self.path.clone(), line: None, key: key.to_owned() };
        let mut put = |name: &str, value: Option<Value>, key: &str| {
            if let Some(value) = value.filter(|_| !settings.is_set(name)) {
                found.set(name, value, origin(key));
            }
        };
        let batch =
            loader_batch(&self.text).map(|part| (reader.expression(&part), format!("DataLoader(batch_size={part})")));
        if let Some((value, key)) = batch {
            put("per_device_train_batch_size", value, &key);
        }
        let made = reader.calls(&models(&self.text).iter().map(String::as_str).collect::<Vec<_>>());
        let known = |settings: &Settings, name: &str| settings.text(name).map(|found| Value::from(found.value));
        put(
            "torch_dtype",
            known(&made, "torch_dtype").or_else(|| known(&made, "dtype")),
            "from_pretrained(torch_dtype)",
        );
        for name in ["load_in_4bit", "load_in_8bit"] {
            put(name, quantised.on(name).map(|_| true.into()), name);
        }
        let mixed = reader.calls(&["Accelerator"]).text("mixed_precision");
        for half in ["bf16", "fp16"] {
            let told = mixed.as_ref().filter(|found| found.value == half);
            put(half, told.map(|_| true.into()), "Accelerator(mixed_precision)");
        }
        put("optim", optimizer(&self.text).map(Value::from), "its optimizer");
        put("max_length", truncated(&self.text, &reader), "max_length");
        let names = ["model_name_or_path", "model_name", "model_path", "base_model", "model_id", "model"];
        if !names.iter().any(|name| settings.is_set(name)) {
            let named = ["0", "pretrained_model_name_or_path"].iter().find_map(|place| known(&made, place));
            put("model_name_or_path", named, "from_pretrained");
        }
        if let Some(name) = STEPS.iter().find(|name| settings.whole(name).is_some()) {
            found.adopt("gradient_accumulation_steps", settings, name);
        } else if !code(&self.text).any(|line| line.to_lowercase().contains("accum")) {
            found.set(
                "gradient_accumulation_steps",
                1.into(),
                Origin::Program(format!("{}: no accumulation in it", self.path)),
            );
        }
        self.given = given(&self.text, &reader, &origin);
        self.loads_several = several_models(&self.text, &reader);
        settings.over(found);
        own_config::adopt_optimizer(settings);
    }

    /// What the loop does in place of what a Trainer, a configuration of DeepSpeed or a launcher would.
    pub fn settle(&self, imported: &mut ImportedPlan, context: &ImportContext) {
        for (key, told) in &self.given {
            imported.set(key, Some(told.clone()));
        }
        let loops = |parts: &[&'static str]| {
            parts.iter().find(|part| code(&self.text).any(|line| line.contains(**part))).copied()
        };
        const SHARDS: [&str; 5] =
            ["deepspeed.initialize(", "FullyShardedDataParallel(", "FSDP(", "fully_shard(", "deepspeed_plugin"];
        let guessed = |imported: &ImportedPlan, key: &str| {
            imported.get(key).is_some_and(|found| matches!(found.origin, Origin::Default { .. }))
        };
        if let Some(part) = loops(&SHARDS).filter(|_| guessed(imported, "distribution.sharding")) {
            for key in ["distribution.sharding", "distribution.engine", "training.precision"] {
                if guessed(imported, key) {
                    imported.drop(key);
                    imported.miss(key, format!("{} has {part}, which is not followed", self.path));
                }
            }
        }
        if optimizer(&self.text).is_none() {
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
        let spread = loops(&["DataParallel(", "device_map", "mp.spawn(", "DDP(", "Accelerator("]);
        if context.launchers.is_empty() && context.world.total.is_none() && spread.is_none() {
            let one =
                Setting::new(1, Origin::Program(format!("{}: no launcher, and nothing in it spreads", self.path)));
            let world = World { total: Some(one.clone()), nodes: Some(one), per_node: None }.completed();
            imported.fill(keys::cluster::num_gpus, world.total);
            imported.fill(keys::cluster::nodes, world.nodes);
            imported.fill(keys::cluster::gpus_per_node, world.per_node);
        }
        if self.loads_several {
            not_modelled(imported, &format!("{} loads several models: one is counted", self.path));
        }
    }
}

/// What the loader of the samples to train on takes for a batch: none where several take different ones.
fn loader_batch(text: &str) -> Option<String> {
    const OTHERS: [&str; 7] = ["eval", "valid", "test", "dev", "val_", "infer", "predict"];
    let mut found: Vec<String> = Vec::new();
    for parts in calls(text, "DataLoader") {
        let keyword = parts.iter().find_map(|part| part.trim().strip_prefix("batch_size"));
        let value = keyword.and_then(|rest| rest.trim_start().strip_prefix('='));
        let places: Vec<&String> = parts.iter().take_while(|part| !part.contains('=')).collect();
        let Some(value) = value.or_else(|| places.get(1).map(|part| part.as_str())) else { continue };
        let of_another = |text: &str| OTHERS.iter().any(|part| text.to_lowercase().contains(part));
        if !of_another(value)
            && !parts.first().is_some_and(|set| of_another(set))
            && !found.contains(&value.trim().to_owned())
        {
            found.push(value.trim().to_owned());
        }
    }
    match found.as_slice() {
        [only] => Some(only.clone()),
        _ => None,
    }
}

/// The arguments of every call of `name`.
fn calls(text: &str, name: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = call(rest, name) {
        let behind = rest.get(at + name.len() + 1..).unwrap_or("");
        found.push(arguments(behind));
        rest = behind;
    }
    found
}

/// The optimizer that a script makes, by a name that the tables know; none where it makes none or several.
fn optimizer(text: &str) -> Option<&'static str> {
    const MADE: [(&str, &str); 12] = [
        ("AdamW", "adamw"),
        ("Adam", "adam"),
        ("FusedAdam", "fusedadam"),
        ("DeepSpeedCPUAdam", "cpuadam"),
        ("SGD", "sgd"),
        ("Adafactor", "adafactor"),
        ("Lion", "lion"),
        ("AdamW8bit", "adamw_8bit"),
        ("Adam8bit", "adam_8bit"),
        ("PagedAdamW8bit", "paged_adamw_8bit"),
        ("PagedAdamW32bit", "paged_adamw"),
        ("RMSprop", "rmsprop"),
    ];
    let made: Vec<&(&str, &str)> = MADE.iter().filter(|(class, _)| call(text, class).is_some()).collect();
    let [(class, word)] = made.as_slice() else { return None };
    let of_transformers = |line: &str| line.starts_with("from transformers") && line.contains("AdamW");
    Some(match *class {
        "AdamW" if text.lines().any(of_transformers) => "adamw_hf",
        "AdamW" if calls(text, class).iter().flatten().any(|part| part.replace(' ', "") == "fused=True") => {
            "adamw_torch_fused"
        }
        _ => word,
    })
}

/// The only length that a script cuts its samples to, in its calls of a tokenizer.
pub fn truncated(text: &str, reader: &ScriptReader) -> Option<Value> {
    const NEAR: usize = 200;
    let mut found: Option<Value> = None;
    for (at, word) in text.match_indices("max_length=") {
        let line = text.get(..at)?.rsplit('\n').next().unwrap_or("").trim_start();
        let start = (at.saturating_sub(NEAR)..at).find(|at| text.is_char_boundary(*at)).unwrap_or(at);
        let end = (at + NEAR..).find(|at| *at >= text.len() || text.is_char_boundary(*at)).unwrap_or(text.len());
        let around = text.get(start..end.min(text.len())).unwrap_or("");
        if line.starts_with('#') || line.starts_with("def ") || !around.contains("truncation") {
            continue;
        }
        let part = arguments(text.get(at + word.len()..)?).into_iter().next()?;
        let value = reader.expression(part.trim()).filter(|value| whole(value).is_some())?;
        if found.as_ref().is_some_and(|other| *other != value) {
            return None;
        }
        found = Some(value);
    }
    found
}

/// `ds_config["train_micro_batch_size_per_gpu"] = args.batch_size`: what a script puts into its configuration.
fn given(text: &str, reader: &ScriptReader, origin: &dyn Fn(&str) -> Origin) -> Vec<(&'static str, Setting<u64>)> {
    const PUT: [(&str, &str); 2] = [
        ("train_micro_batch_size_per_gpu", keys::training::micro_batch_size),
        ("gradient_accumulation_steps", keys::training::gradient_accumulation_steps),
    ];
    let mut found = Vec::new();
    let lines: Vec<&str> = code(text).collect();
    for (name, key) in PUT {
        let put = lines.iter().enumerate().find_map(|(at, line)| {
            let quoted = ["\"]", "']"].map(|end| format!("{name}{end}"));
            let (_, behind) = quoted.iter().find_map(|name| line.split_once(name))?;
            let value = behind.trim_start().strip_prefix('=').filter(|rest| !rest.starts_with('='))?.trim();
            // In brackets it stands on the next line.
            if value == "(" { lines.get(at + 1).copied() } else { Some(value) }
        });
        let Some(value) = put.and_then(|value| reader.expression(value.trim())) else { continue };
        if let Some(number) = whole(&value).filter(|number| *number > 0) {
            found.push((key, Setting::new(number, origin(name))));
        }
    }
    found
}

/// Whether a script loads models by several names; one that an argument names, and that nobody gives, is not loaded.
fn several_models(text: &str, reader: &ScriptReader) -> bool {
    let mut names: Vec<String> = Vec::new();
    for class in models(text) {
        for parts in calls(text, &class) {
            let first = parts.iter().find(|part| !part.contains('=') || part.contains("pretrained_model_name_or_path"));
            let name =
                first.map(|part| part.split('=').next_back().unwrap_or(part).trim().to_owned()).unwrap_or_default();
            let known = reader.expression(&name).filter(|value| !value.is_null());
            let asked = name.contains("args.") && known.is_none();
            let name = known.map_or(name, |value| value.to_string());
            if !asked && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.len() > 1
}
