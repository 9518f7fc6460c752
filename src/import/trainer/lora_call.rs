//! The `LoraConfig` that a script on the Trainer makes: its rank and where its adapters go.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::python::ScriptReader;
use super::super::python_calls::call;
use super::super::rows::not_modelled;
use super::super::settings::{Settings, number, text, whole};
use super::super::text::arguments;

/// What stands in the only call of `LoraConfig`; of several, in what all have alike.
pub struct LoraCall {
    path: String,
    /// The rank, or the expression that it follows from.
    pub rank: Option<Result<Setting<u64>, String>>,
    /// Where adapters go: their names, none where the script computes them.
    targets: Option<Option<Vec<String>>>,
    dropout: Option<f64>,
    /// It looks for every linear layer by itself.
    pub linear: bool,
}

impl LoraCall {
    /// The call in the script that runs, whose arguments are `settings`.
    pub fn of(reader: &ScriptReader, settings: &Settings) -> Option<Self> {
        let path = reader.name();
        // Many scripts keep it in a module of their own.
        let text = if call(reader.content(), "LoraConfig").is_some() { reader.content() } else { reader.whole() };
        let calls: Vec<Vec<String>> = text
            .match_indices("LoraConfig(")
            // `UniLoraConfig` makes other adapters, `class LoraConfig():` none.
            .filter(|(at, _)| !text.get(..*at).is_some_and(|before| before.ends_with(char::is_alphanumeric)))
            .filter(|(at, _)| !text.get(..*at).is_some_and(|before| before.ends_with("class ")))
            .filter_map(|(at, call)| Some(arguments(text.get(at + call.len()..)?)))
            .filter(|parts| parts.is_empty() || parts.iter().any(|part| part.contains('=')))
            .collect();
        calls.first()?;
        let certain = reader.reached(&["LoraConfig"]) == Some(true);
        let made = if certain { reader.calls(&["LoraConfig"]) } else { Settings::default() };
        let part = |name: &str| {
            let mut found = calls.iter().filter_map(|parts| parts.iter().find_map(|part| keyword(part, name)));
            let first = found.next()?.to_owned();
            found.all(|other| other == first).then_some(first)
        };
        let named = calls.iter().flatten().any(|part| keyword(part, "r").is_some());
        let rank = named.then(|| {
            let part = part("r").ok_or_else(|| "several LoraConfig".to_owned())?;
            let value = reader.expression(&part).and_then(|value| whole(&value)).filter(|rank| *rank > 0);
            let option = |rank: u64| format!("LoraConfig(r={rank}) ({path})");
            let said = |rank| Setting::new(rank, Origin::Default { framework: "the script", option: option(rank) });
            value.map(said).ok_or(format!("LoraConfig(r={part})"))
        });
        let rank = made.whole("r").filter(|rank| rank.value > 0).map(Ok).or(rank);
        let told = made.texts("target_modules").map(|found| Some(found.value));
        let targets = told.or_else(|| part("target_modules").map(|part| names(reader, &part)));
        let dropout = part("lora_dropout").and_then(|part| number(&reader.expression(&part)?));
        let dropout = made.number("lora_dropout").map(|found| found.value).or(dropout);
        let linear = text.contains("find_all_linear") || every_linear(text, settings);
        Some(Self { path: path.to_owned(), rank, targets, dropout, linear })
    }

    /// The share of inputs that it drops, where it is known.
    pub fn dropout(&self) -> Option<Setting<f64>> {
        Some(Setting::new(self.dropout?, Origin::Program(format!("{}: LoraConfig", self.path))))
    }

    /// Where it puts adapters.
    pub fn targets(&self, imported: &mut ImportedPlan) -> Option<Setting<Vec<String>>> {
        match self.targets.as_ref()? {
            Some(names) => Some(Setting::new(names.clone(), Origin::Program(format!("{}: LoraConfig", self.path)))),
            None => {
                if !self.linear {
                    not_modelled(imported, &format!("{}: the script computes where adapters go", self.path));
                }
                None
            }
        }
    }
}

/// Whether a script puts adapters in every linear layer of the language model alone: `find_target_linear_names` of the
/// fine-tuning scripts for vision models (`2U1/Qwen2-VL-Finetune`, `src/train/train_sft.py`) takes embeddings and the
/// head as well, but for names that are excluded, and the last layers alone where it is told a number.
fn every_linear(text: &str, settings: &Settings) -> bool {
    const OUT: [&str; 2] = ["lm_head", "embed_tokens"];
    if !text.contains("def find_target_linear_names(") {
        return false;
    }
    let some = settings.number("num_lora_modules").is_some_and(|found| found.value > 0.0);
    let out = settings.text("lora_namespan_exclude").map(|found| found.value).unwrap_or_default();
    if some || settings.is("vision_lora") || !OUT.iter().all(|name| out.contains(name)) {
        return false;
    }
    // What adapters freeze is asked to be frozen as well.
    for name in ["num_lora_modules", "lora_namespan_exclude", "vision_lora", "freeze_llm"] {
        settings.accept(name);
    }
    true
}

/// The value of a keyword.
fn keyword<'a>(part: &'a str, name: &str) -> Option<&'a str> {
    let rest = part.trim().strip_prefix(name)?.trim_start().strip_prefix('=')?;
    Some(rest.trim())
}

/// Names of modules, as a list or as one.
fn names(reader: &ScriptReader, part: &str) -> Option<Vec<String>> {
    // `config["targets"].split(",")` is the list as it stands in the file.
    let part = part.trim_end_matches(".split(\",\")").trim_end_matches(".split(',')");
    let value = reader.expression(part)?;
    let list = match text(&value) {
        Some(word) => word.split(',').map(|name| name.trim().to_owned()).collect(),
        None => value.as_array()?.iter().map(text).collect::<Option<Vec<String>>>()?,
    };
    Some(list).filter(|list: &Vec<String>| !list.is_empty() && list.iter().all(|name| !name.is_empty()))
}

/// The file that holds the adapters' settings alone, where an option names one: `--lora_config configs/lora.json`.
pub fn own_file(context: &ImportContext, settings: &Settings, imported: &mut ImportedPlan) -> Settings {
    const NAMES: [&str; 5] = ["lora_config", "peft_config", "lora_config_path", "lora_config_file", "peft_config_path"];
    let is_file = |path: &str| [".json", ".yaml", ".yml"].iter().any(|ending| path.ends_with(ending));
    let named = NAMES.iter().find_map(|name| {
        let found = settings.text(name).filter(|found| is_file(&found.value))?;
        settings.accept(name);
        Some(found.value)
    });
    named.and_then(|path| context.settings(&path, imported)).unwrap_or_default()
}
