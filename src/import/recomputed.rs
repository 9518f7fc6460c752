//! Which layers or modules Megatron's core recomputes, where it is not each layer whole: its names in other tools' files
//! (`megatron/core/transformer/transformer_config.py`).

use serde_json::json;

use super::imported::ImportedPlan;
use super::plan::keys;
use super::rows::not_modelled;
use super::settings::Settings;

/// More layers than any stage has.
const EVERY: u64 = 80;

/// Sets the modules that are recomputed, and says what a plan cannot, where the granularity has been set. `of` gives a
/// setting's whole name.
pub fn say(imported: &mut ImportedPlan, settings: &Settings, of: impl Fn(&str) -> String) {
    const KEY: &str = keys::training::activation_checkpointing;
    let word = imported.get(KEY).and_then(|found| found.value.as_str()).unwrap_or_default().to_owned();
    let method = settings.text(&of("recompute_method"));
    let layers = settings.whole(&of("recompute_num_layers"));
    let modules = settings.texts(&of("recompute_modules"));
    if word == "full" {
        let block = method.is_some_and(|found| found.value == "block");
        let Some(found) = layers.filter(|found| if block { found.value < EVERY } else { found.value > 1 }) else {
            return;
        };
        let what =
            if block { "so many layers of a stage are recomputed" } else { "inputs are kept of every so many layers" };
        not_modelled(imported, &format!("{} {}: {what}; each layer is counted", found.origin, found.value));
    }
    if let Some(found) = modules.filter(|found| word == "selective" && found.value != ["core_attn"]) {
        imported.set(KEY, Some(found.map(|names| json!({ "modules": names }))));
    }
}
