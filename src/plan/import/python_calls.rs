//! Training scripts in Python that have their settings in calls: unsloth's notebooks and scripts, and those that
//! build `TrainingArguments` or TRL's configurations themselves. Read, never run.

use std::cell::Cell;

use serde_json::Value;

use super::common::ImportContext;
use super::expression;
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::script_defaults;
use super::settings::{Settings, UNKNOWN};
use super::text::{self, python_literal};
use super::trainer::{self, WeightStorage};
use super::unread::account_for;
use super::{adapters, model, trl};

/// Calls whose keywords are `TrainingArguments`.
const ARGUMENTS: [&str; 9] = [
    "TrainingArguments",
    "SFTConfig",
    "DPOConfig",
    "ORPOConfig",
    "KTOConfig",
    "GRPOConfig",
    "RewardConfig",
    "CPOConfig",
    "Seq2SeqTrainingArguments",
];

/// TRL's configurations, and the method whose defaults they have.
const TRL: [(&str, &str); 7] = [
    ("SFTConfig", "sft"),
    ("DPOConfig", "dpo"),
    ("ORPOConfig", "orpo"),
    ("KTOConfig", "kto"),
    ("CPOConfig", "cpo"),
    ("RewardConfig", "reward"),
    ("GRPOConfig", "grpo"),
];

/// Calls that make the model, and its adapters.
const MODELS: [&str; 6] = [
    "FastLanguageModel.from_pretrained",
    "FastModel.from_pretrained",
    "FastVisionModel.from_pretrained",
    "AutoModelForCausalLM.from_pretrained",
    "AutoModelForSequenceClassification.from_pretrained",
    "AutoModelForSeq2SeqLM.from_pretrained",
];
const ADAPTERS: [&str; 4] =
    ["FastLanguageModel.get_peft_model", "FastModel.get_peft_model", "FastVisionModel.get_peft_model", "LoraConfig"];

/// No longer text is looked into.
const LONGEST: usize = 2_000_000;

/// Whether a script has its settings in such calls.
pub fn is_script(content: &str) -> bool {
    let calls = |names: &[&str]| names.iter().any(|name| call(content, name).is_some());
    // `Trainer.predict` alone trains nothing.
    let trains = content.contains(".train(") || ![".predict(", ".evaluate("].iter().any(|call| content.contains(call));
    content.len() <= LONGEST && trains && calls(&ARGUMENTS) && calls(&MODELS)
}

/// Whether a script fills its arguments in from a command line, so that it says little by itself.
pub fn parses_arguments(content: &str) -> bool {
    ["HfArgumentParser(", "TrlParser("].iter().any(|part| content.contains(part))
}

/// Where the first call of `name` stands; a class of that name is none.
pub fn call(content: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + content.get(from..)?.find(&format!("{name}("))?;
        let before = content.get(..at)?;
        let line = before.rsplit('\n').next().unwrap_or("").trim_start();
        let joined = before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let within = ["class ", "def ", "from ", "import "].iter().any(|word| line.starts_with(word));
        // What is commented out is not called.
        if !joined && !within && !line.starts_with('#') {
            return Some(at);
        }
        from = at + name.len();
    }
}

/// Whether the program is such a script, without arguments of its own that may say otherwise.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    program.python
        && !program.module
        && program.path.ends_with(".py")
        && context.run.files.read(&program.path).is_ok_and(|content| is_script(&content))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let path = &context.program.path;
    let content = context.run.files.read(path).unwrap_or_default();
    let mut imported = of_file(path, &content, context);
    if !context.program.words.is_empty() {
        imported.note("the script's own arguments, which may go over what is written in it, are not read");
    }
    imported
}

/// The plan of a script.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let unsloth = content.contains("from unsloth import");
    let mut imported = ImportedPlan::of(if unsloth { "unsloth" } else { "transformers" });
    imported.say("model.framework", "pytorch", Origin::Program(format!("calls in {name}")));
    let own = script_defaults::read(name, content);
    let reader = Reader { name, content, globals: text::python(name, content), own, asked: Cell::new(false) };
    let mut settings = Settings::defaults("transformers 4.57", trainer::DEFAULTS);
    if let Some(method) = TRL.iter().find(|(call, _)| self::call(content, call).is_some()).map(|(_, method)| method) {
        settings.over(trl::defaults(method));
    }
    let (made, adapted, arguments) = (reader.calls(&MODELS), reader.calls(&ADAPTERS), reader.calls(&ARGUMENTS));
    settings.adopt_all(&arguments, |name| (name != "0").then(|| name.to_owned()));
    let trainer_call = reader.calls(&["SFTTrainer", "DPOTrainer", "ORPOTrainer", "KTOTrainer", "GRPOTrainer"]);
    for name in ["max_seq_length", "max_length"] {
        for source in [&trainer_call, &made] {
            if !settings.holds(name) {
                settings.adopt(name, source, name);
            }
        }
    }
    for name in ["attn_implementation", "use_flash_attention_2"] {
        settings.adopt(name, &made, name);
    }
    match made.first_text(&["model_name", "0", "pretrained_model_name_or_path"]) {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss("model.preset", "the name of the model is not written in the script"),
    }
    imported.set("model.sequence_length", settings.first_whole(&["max_seq_length", "max_length"]));
    low_rank(&mut imported, &made, &adapted, &reader.calls(&["BitsAndBytesConfig", "GPTQConfig"]), unsloth);
    other_adapters(&mut imported, content);
    let stored = stored(&made, unsloth);
    if let Some(found) = adapted.text("use_gradient_checkpointing") {
        let on = !matches!(found.value.to_lowercase().as_str(), "false" | "none");
        settings.set("gradient_checkpointing", on.into(), found.origin);
    }
    trainer::set(&mut imported, &settings, context, stored);
    if unsloth {
        imported
            .note("unsloth's own kernels keep less than those that are counted, and its checkpoints go to the host");
        imported.say("training.loss", "fused", Origin::Program("unsloth's fused cross entropy".to_owned()));
    }
    let kind = ["DPO", "ORPO", "KTO", "GRPO", "Reward", "CPO", "PPO", "GKD"]
        .into_iter()
        .find(|kind| ["Config", "Trainer"].iter().any(|end| call(content, &format!("{kind}{end}")).is_some()));
    if let Some(method) = kind.and_then(TrainingMethod::of_name).or_else(|| TrainingMethod::of_script(content)) {
        method.apply(&mut imported);
    } else if call(content, "AutoModelForSequenceClassification.from_pretrained").is_some() {
        not_modelled(&mut imported, "a head of a few classes: the plan's head is the vocabulary's");
    }
    if reader.asked.get() {
        imported.note("the script's own arguments are taken at their defaults");
    }
    account_for(&mut imported, &settings);
    imported
}

/// Adapters of peft that are no LoRA: nothing of a plan is theirs.
fn other_adapters(imported: &mut ImportedPlan, content: &str) {
    const NONE: [&str; 5] = ["LoraConfig", "PeftConfig", "LoftQConfig", "EvaConfig", "CordaConfig"];
    let Some(import) = content.find("from peft import") else { return };
    let rest = content.get(import + "from peft import".len()..).unwrap_or("");
    let end = if rest.trim_start().starts_with('(') { rest.find(')') } else { rest.find('\n') };
    let names = rest.get(..end.unwrap_or(rest.len())).unwrap_or("");
    for name in names.split(|letter: char| !letter.is_ascii_alphanumeric()) {
        let Some(kind) = name.strip_suffix("Config").filter(|kind| !kind.is_empty() && !NONE.contains(&name)) else {
            continue;
        };
        if call(content, name).is_some() {
            not_modelled(imported, &format!("{kind} adapters (peft's {name}): the plan trains the whole model"));
        }
    }
}

fn stored(made: &Settings, unsloth: bool) -> WeightStorage {
    let dtype = made.first_text(&["torch_dtype", "dtype"]).map(|found| found.value).unwrap_or_default();
    if unsloth || ["bfloat16", "float16"].iter().any(|name| dtype.contains(name)) {
        WeightStorage::Half
    } else {
        WeightStorage::Full
    }
}

fn low_rank(imported: &mut ImportedPlan, made: &Settings, adapted: &Settings, quantised: &Settings, unsloth: bool) {
    if adapted.iter().next().is_none() {
        return;
    }
    if adapted.get("r").is_some() && adapted.whole("r").is_none() {
        not_modelled(imported, "adapters, whose rank the script computes");
        return imported.miss("training.lora.rank", "the script computes it");
    }
    let default = Origin::Default { framework: "unsloth", option: "load_in_4bit True".to_owned() };
    let told = |name: &str| made.flag(name).or_else(|| quantised.flag(name));
    let named = quantised.whole("bits").filter(|found| matches!(found.value, 4 | 8));
    let four = told("load_in_4bit").or_else(|| unsloth.then(|| Setting::new(true, default)));
    let bits = four.filter(|found| found.value).map(|found| found.map(|_| 4));
    let eight = told("load_in_8bit").filter(|found| found.value).map(|found| found.map(|_| 8)).or(named);
    adapters::set(
        imported,
        adapted.whole("r"),
        (if unsloth { "unsloth" } else { "peft" }, if unsloth { 16 } else { 8 }),
        bits.or(eight),
    );
    adapters::set_targets(imported, adapted.texts("target_modules"));
    let dropout = adapted.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value));
    imported.set("training.lora.dropout", dropout);
}

/// The keywords of the first call of `name` in a file; an argument without a name is called by its place.
pub fn keywords_of(file: &str, content: &str, name: &str) -> Settings {
    let globals = text::python(file, content);
    Reader { name: file, content, globals, own: Settings::default(), asked: Cell::new(false) }.calls(&[name])
}

struct Reader<'a> {
    name: &'a str,
    content: &'a str,
    globals: Settings,
    /// Defaults of the script's own arguments.
    own: Settings,
    /// Whether one of those was taken.
    asked: Cell<bool>,
}

impl Reader<'_> {
    /// The keywords of the first call of one of `names`; an argument without a name is called by its place.
    fn calls(&self, names: &[&str]) -> Settings {
        let mut settings = Settings::default();
        let found = names.iter().filter_map(|name| {
            let at = call(self.content, name)?;
            Some((at, at + name.len() + 1))
        });
        let Some((_, start)) = found.min() else { return settings };
        let line = self.content.get(..start).map_or(1, |before| before.lines().count());
        for (place, part) in arguments(self.content.get(start..).unwrap_or("")).into_iter().enumerate() {
            let part = part.trim();
            let keyword = part.split_once('=').filter(|(name, rest)| {
                !rest.starts_with('=')
                    && name.trim().chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            });
            let (key, value) = match keyword {
                Some((name, value)) => (name.trim().to_owned(), value.trim()),
                None => (place.to_string(), part),
            };
            let before = self.content.get(..start).map_or(0, str::len);
            let within = self.content.get(before..).and_then(|rest| rest.find(part)).unwrap_or(0);
            let lines = self.content.get(start..start + within).map_or(0, |text| text.matches('\n').count());
            let origin = Origin::File { name: self.name.to_owned(), line: Some(line + lines), key: key.clone() };
            settings.set(&key, self.value(value), origin);
        }
        settings
    }

    fn value(&self, text: &str) -> Value {
        if let Some(value) = python_literal(text) {
            return value;
        }
        if let Some(found) = self.globals.get(text) {
            return found.value.clone();
        }
        // `args.rank`, or `rank` handed on to a function.
        let name = text.rsplit('.').next().filter(|_| !text.contains(['(', '[', ' '])).unwrap_or("");
        if let Some(found) = self.own.get(name) {
            self.asked.set(true);
            return found.value.clone();
        }
        if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return arguments(list).iter().filter_map(|item| python_literal(item.trim())).collect();
        }
        // What a GPU of today can do.
        let supported = text.ends_with("is_bfloat16_supported()") || text.ends_with("is_bf16_supported()");
        if supported {
            return Value::Bool(!text.starts_with("not "));
        }
        if let Some(name) = text.strip_prefix("torch.") {
            return name.into();
        }
        let known = |name: &str| self.globals.whole(name).and_then(|found| i64::try_from(found.value).ok());
        expression::whole(text, &known).map_or_else(|| UNKNOWN.into(), Value::from)
    }
}

/// The parts between commas up to the bracket that closes, comments left out.
pub fn arguments(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let (mut depth, mut quote, mut comment) = (0_usize, None, false);
    for letter in text.chars() {
        match (quote, letter) {
            _ if comment => {
                comment = letter != '\n';
                continue;
            }
            (None, '#') => {
                comment = true;
                continue;
            }
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth == 0 => break,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    parts.retain(|part| !part.trim().is_empty());
    parts
}
