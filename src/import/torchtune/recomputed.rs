//! Which blocks torchtune recomputes, by its two switches.

use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::settings::Settings;
use super::VERSION;
use crate::plan::keys;

/// `ac_mode` counts where the older switch is off, and takes each block or every `ac_option`th; with both nothing is
/// recomputed (`recipes/full_finetune_distributed.py`, `_setup_model`; `torchtune/training/activations.py`).
pub fn say(imported: &mut ImportedPlan, settings: &Settings) {
    const KEY: &str = keys::training::activation_checkpointing;
    let older = settings.flag("enable_activation_checkpointing");
    let mode = settings.text("ac_mode").filter(|found| !found.value.is_empty());
    let every = settings.whole("ac_option");
    let none = || {
        let option = "no activation checkpointing".to_owned();
        Setting::new("none", Origin::Default { framework: VERSION, option })
    };
    match (older.clone().filter(|found| found.value), mode) {
        (None, None) => imported.set(KEY, Some(older.map_or_else(none, |found| found.map(|_| "none")))),
        (Some(found), None) => imported.set(KEY, Some(found.map(|_| "full"))),
        (Some(_), Some(found)) => imported.set(KEY, Some(found.map(|_| "none"))),
        (None, Some(found)) if found.value == "full" => imported.set(KEY, Some(found)),
        (None, Some(found)) => match every.filter(|every| found.value == "selective" && every.value > 0) {
            Some(every) if every.value == 1 => imported.set(KEY, Some(every.map(|_| "full"))),
            Some(every) => imported.set(KEY, Some(every.map(|every| serde_json::json!({ "every": every })))),
            None => imported.miss(KEY, format!("ac_mode {}: which blocks it takes is not told", found.value)),
        },
    }
    settings.accept("ac_option");
}
