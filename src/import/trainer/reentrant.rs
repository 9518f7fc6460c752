//! Which of PyTorch's checkpoints recomputes: what arguments say, and what each tool takes where they say nothing.

use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::python::{PassedArgument, ScriptReader};
use super::super::settings::{self, DefaultValue, Settings};
use super::super::versions::{self, VersionRange};
use crate::plan::keys;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the Trainer hands PyTorch's checkpoint.
pub const ARGUMENTS: &str = "gradient_checkpointing_kwargs";

/// Of these the one that decides; defaults of tools have this name.
pub const NAME: &str = "gradient_checkpointing_kwargs.use_reentrant";

/// The first transformers whose checkpoint isn't the reentrant one where nobody says it (`modeling_utils.py`,
/// `gradient_checkpointing_enable`: `{"use_reentrant": True}` up to 4.57, `False` in 5.0). Before 4.35 it said nothing,
/// and PyTorch took the reentrant one by itself.
pub const OTHERWISE_SINCE: versions::Version = (5, 0);

/// Takes `use_reentrant` out of `gradient_checkpointing_kwargs`, as a section, a dictionary or JSON in a flag; then a
/// default of the tool's counts.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    let written = || {
        let found = settings.get(ARGUMENTS).or_else(|| settings.get("activation_checkpointing_kwargs"))?.clone();
        let parsed = || serde_json::from_str::<Value>(found.value.as_str()?).ok();
        let arguments = if found.value.is_object() { Some(found.value.clone()) } else { parsed() };
        // What is handed on without it leaves PyTorch the choice (torch/utils/checkpoint.py, `use_reentrant = True`).
        let told = arguments?.get("use_reentrant").map_or(Some(true), settings::truth)?;
        Some(found.map(|_| told))
    };
    let open = settings.get(ARGUMENTS).filter(|found| found.value.as_str().is_some_and(settings::is_open));
    if let Some(found) = open {
        return imported.miss(keys::training::use_reentrant, format!("{} says it", found.origin));
    }
    let named = ["activation_checkpointing_kwargs.use_reentrant", NAME];
    let section = named.iter().find(|name| settings.is_set(name)).and_then(|name| settings.flag(name));
    let others = settings.iter().find(|(name, found)| {
        name.strip_prefix(ARGUMENTS).is_some_and(|rest| rest.starts_with('.'))
            && *name != NAME
            && !matches!(found.origin, Origin::Default { .. })
    });
    let section = section.or_else(|| others.map(|(_, found)| found.clone().map(|_| true)));
    say(imported, section.or_else(written).or_else(|| settings.flag(NAME)));
}

/// What an argument of a script's own says that it hands on: `training_args.gradient_checkpointing_kwargs = {"use_reentrant":
/// model_args.use_reentrant}` (peft, `examples/sft/train.py`).
pub fn of_argument(imported: &mut ImportedPlan, settings: &Settings, reader: &ScriptReader) {
    const OWN: &str = "use_reentrant";
    let handed = reader.whole().lines().filter(|line| !line.trim_start().starts_with('#')).any(|line| {
        let value =
            line.split_once("\"use_reentrant\":").or_else(|| line.split_once("use_reentrant=")).map(|(_, value)| value);
        value.is_some_and(|value| {
            value.trim_start().split(['}', ',', ')']).next().is_some_and(|word| word.ends_with(".use_reentrant"))
        })
    });
    if !handed || settings.get(OWN).is_none() {
        return;
    }
    imported.drop(keys::training::use_reentrant);
    match settings.flag(OWN) {
        Some(found) => say(imported, Some(found)),
        None => {
            imported.miss(keys::training::use_reentrant, "an argument of the script's own, which only the run knows")
        }
    }
}

/// What a script hands `gradient_checkpointing_enable`.
pub fn of_call(reader: &ScriptReader) -> Option<Setting<bool>> {
    let passed = reader.passed(&["gradient_checkpointing_enable"], NAME);
    passed.into_iter().find_map(|(passed, _)| match passed {
        PassedArgument::Plain(found) => found.value.as_bool().map(|told| Setting::new(told, found.origin)),
        _ => None,
    })
}

/// What transformers does for a model whose `gradient_checkpointing_enable` is called without arguments.
pub fn of_transformers(imported: &mut ImportedPlan, versions: &BTreeMap<String, String>) {
    let range: Option<VersionRange> = versions::of(versions, "transformers");
    let later = range.and_then(|range| range.is_within(OTHERWISE_SINCE, versions::NEWEST)) == Some(true);
    let framework = if later { "transformers 5.0" } else { super::VERSION };
    let option = format!("gradient_checkpointing_enable: use_reentrant {}", if later { "False" } else { "True" });
    say(imported, Some(Setting::new(!later, Origin::Default { framework, option })));
}

/// What peft's preparation of quantised weights hands on: what the script says, else nothing, where PyTorch takes the reentrant
/// kind (`peft/utils/other.py`, `prepare_model_for_kbit_training`; torch/utils/checkpoint.py, `use_reentrant = True`).
pub fn of_preparation(imported: &mut ImportedPlan, reader: &ScriptReader, calls: &[&str], origin: Origin) {
    let told = reader.passed(calls, NAME).into_iter().find_map(|(passed, _)| match passed {
        PassedArgument::Plain(found) => found.value.as_bool().map(|told| Setting::new(told, found.origin)),
        _ => None,
    });
    if imported.get(keys::training::use_reentrant).is_none() {
        say(imported, told.or(Some(Setting::new(true, origin))));
    }
}

/// accelerate wraps blocks in the other kind (`accelerator.py`, `apply_activation_checkpointing`: `NO_REENTRANT`).
pub fn wrapped(imported: &mut ImportedPlan, origin: Origin) {
    say(imported, Some(Setting::new(false, origin)));
}

/// Sets it where whole blocks are recomputed; nothing else has the choice.
pub fn say(imported: &mut ImportedPlan, found: Option<Setting<bool>>) {
    let recomputes = imported.get(keys::training::activation_checkpointing).is_some_and(|found| found.value == "full");
    if recomputes {
        imported.set(keys::training::use_reentrant, found);
    }
}

fn by(framework: &'static str, whole: bool, why: &str) -> Setting<bool> {
    Setting::new(whole, Origin::Default { framework, option: format!("use_reentrant {whole}{why}") })
}

/// axolotl says it for what trains whole, by no method of preferences (`utils/config/__init__.py`, `normalize_config`);
/// what that leaves out `core/builders/base.py` hands on as False.
pub fn of_axolotl(arguments: &mut Settings, settings: &Settings) {
    if !settings.holds(ARGUMENTS) {
        let whole = !settings.holds("unfrozen_parameters") && settings.get("rl").is_none();
        let usual = by("axolotl", whole, "");
        arguments.set(NAME, usual.value.into(), usual.origin);
    }
}

/// LLaMA-Factory has a word of its own (`hparams/model_args.py`, `use_reentrant_gc`, on); its first version of 2026 takes
/// the other kind (`v1/core/base_trainer.py`).
pub fn of_llama_factory(arguments: &mut Settings, settings: &Settings, newer: bool) {
    let usual = if newer { by("LLaMA-Factory v1", false, "") } else { by("LLaMA-Factory", true, "") };
    // The newer one, which has no such word, may stand beside the other's arguments.
    let told = settings.flag("use_reentrant_gc").filter(|_| !newer).unwrap_or(usual);
    arguments.set(NAME, told.value.into(), told.origin);
}

/// LLaMA-Factory turns it off under FSDP2, whatever it is told (`model/model_utils/checkpointing.py`,
/// `prepare_model_for_training`).
pub fn not_under_fsdp2(imported: &mut ImportedPlan) {
    if imported.get(keys::distribution::engine).is_some_and(|found| found.value == "fsdp2") {
        say(imported, Some(by("LLaMA-Factory", false, " under FSDP2")));
    }
}

/// Under DDP alone ms-swift takes the other kind (`swift/trainers/mixin.py`, `_fix_gradient_checkpointing`).
pub fn of_swift(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.holds(ARGUMENTS) {
        return;
    }
    let alone = imported.whole(keys::cluster::num_gpus) == Some(1);
    let engine = imported.get(keys::distribution::engine).and_then(|found| found.value.as_str());
    let shards = engine.is_some_and(|engine| engine == "deepspeed" || engine.starts_with("fsdp"));
    let usual = by("ms-swift", alone || shards, if alone || shards { "" } else { " under DDP" });
    say(imported, Some(usual));
}

/// unsloth's own checkpoints run whole blocks again, as PyTorch's reentrant one does
/// (`unsloth_zoo/gradient_checkpointing.py`, `UnslothCheckpointFunction`).
pub fn of_unsloth() -> Settings {
    Settings::defaults("unsloth", &[(NAME, DefaultValue::Flag(true))])
}
