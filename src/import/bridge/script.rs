//! Scripts that take one of Megatron-Bridge's recipes and change it (its README): `cfg = llama3_8b_pretrain_config()`,
//! `cfg.train.global_batch_size = 128`.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::nemo;
use super::super::nemo_factories::changes;
use super::super::origin::{Origin, Setting};
use super::super::python::ScriptReader;
use super::super::script_defaults::script_of;
use super::super::settings::Settings;
use super::super::unread::account_for;
use super::{VERSION, named, set};
use crate::plan::keys;

/// The parts of a `ConfigContainer` (`training/config.py`).
const PARTS: [&str; 14] = [
    "train",
    "model",
    "dataset",
    "optimizer",
    "optimizer_config_override_provider",
    "scheduler",
    "ddp",
    "dist",
    "mixed_precision",
    "comm_overlap",
    "peft",
    "tokenizer",
    "logger",
    "checkpoint",
];

/// Whether a command starts such a script.
pub fn runs(context: &ImportContext) -> bool {
    script_of(context).is_some_and(|(_, content)| recipe(&content).is_some())
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let script = script_of(context);
    script.and_then(|(name, content)| of_file(&name, &content, context)).unwrap_or_else(|| ImportedPlan::of(VERSION))
}

/// The plan of such a script; none of one that takes no recipe, or several.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> Option<ImportedPlan> {
    let function = recipe(content)?;
    let found = Setting::new(function.to_owned(), Origin::Program(format!("{name}: {function}")));
    let mut imported = ImportedPlan::of(VERSION);
    imported.say(keys::model::framework, "megatron", found.origin.clone());
    let reader = ScriptReader::new(name, content, Settings::default());
    let mut settings = Settings::default();
    let mut open = Vec::new();
    for change in changes::of_parts(name, content, &reader, &PARTS) {
        match change.value {
            Some(value) => settings.set(&change.path, value, change.origin),
            None => open.push(format!("{} = {}", change.origin, change.text)),
        }
    }
    match named(context, function, &Settings::default()) {
        Some(made) => {
            set(&mut imported, &made, &settings, context);
            account_for(&mut imported, &settings);
        }
        None => {
            nemo::recipe(&mut imported, context, &found);
            nemo::overrides(&mut imported, &settings);
        }
    }
    for what in open {
        imported.note(format!("{what}: not followed"));
    }
    // `qwen3_8b_pretrain_4gpu_h100_bf16_config`
    let gpus = function.split('_').find_map(|part| part.strip_suffix("gpu")?.parse::<u64>().ok());
    imported.fill(keys::cluster::num_gpus, gpus.map(|gpus| Setting::new(gpus, found.origin.clone())));
    Some(imported)
}

/// The one function of the recipes that a script imports and calls, by its own name.
fn recipe(content: &str) -> Option<&str> {
    let mut imported: Vec<(&str, &str)> = Vec::new();
    let mut rest = content;
    while let Some((_, after)) = rest.split_once("from megatron.bridge.recipes") {
        let (_, names) = after.split_once(" import ")?;
        let end = if names.trim_start().starts_with('(') { names.find(')') } else { names.find('\n') };
        let (names, further) = names.split_at(end.unwrap_or(names.len()));
        for name in names.trim_matches(['(', ' ']).split(',').map(|name| name.split('#').next().unwrap_or("").trim()) {
            let (name, alias) = name.split_once(" as ").unwrap_or((name, name));
            imported.push((name.trim(), alias.trim()));
        }
        rest = further;
    }
    let is_called = |alias: &str| {
        let call = format!("= {alias}(");
        content.lines().any(|line| line.split('#').next().unwrap_or("").contains(&call))
    };
    let mut called = imported.into_iter().filter(|(name, alias)| !name.is_empty() && is_called(alias));
    let (first, _) = called.next()?;
    called.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::recipe;

    #[test]
    fn the_one_recipe_that_is_called_is_meant() {
        let of = |text: &str| recipe(text).map(str::to_owned);
        let plain =
            "from megatron.bridge.recipes.llama import llama3_8b_pretrain_config\ncfg = llama3_8b_pretrain_config()\n";
        assert_eq!(of(plain).as_deref(), Some("llama3_8b_pretrain_config"));
        let alias =
            "from megatron.bridge.recipes.llama import (\n    a_config as config,\n    b_config,\n)\ncfg = config()\n";
        assert_eq!(of(alias).as_deref(), Some("a_config"));
        assert_eq!(of(&format!("{alias}other = b_config()\n")), None);
        assert_eq!(of("from megatron.bridge import AutoBridge\n"), None);
    }
}
