//! Which attention the Trainer's model runs by its settings; `script_doubts` looks at the script itself.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::settings::Settings;
use super::super::versions;
use super::VERSION;
use crate::plan::keys;

/// Sets the attention that the settings name, or the library's default.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    let flash = ["use_flash_attn", "use_flash_attention_2", "flash_attention", "use_flash_attention", "flash_attn"]
        .iter()
        .find_map(|name| settings.on(name))
        .map(|found| found.map(|_| "flash"));
    let named = settings.first_text(&["attn_implementation", "_attn_implementation"]);
    // A version's default does not go over a flag.
    let (default, told) =
        named.into_iter().partition::<Vec<_>, _>(|found| matches!(found.origin, Origin::Default { .. }));
    let implemented = |found: Setting<String>| found.map(|name| implementation(&name));
    let word =
        told.into_iter().next().map(implemented).or(flash).or_else(|| default.into_iter().next().map(implemented));
    let default =
        Setting::new("sdpa", Origin::Default { framework: VERSION, option: "attn_implementation sdpa".to_owned() });
    imported.set(keys::training::attention, Some(word.unwrap_or(default)));
}

/// transformers before 4.48 turned its default off for Gemma 2, whose scores are capped (`modeling_gemma2.py`,
/// `_check_and_enable_sdpa`: "DISABLE torch SDPA by default on Gemma2").
pub fn of_gemma_2(imported: &mut ImportedPlan, context: &ImportContext) {
    const SIZES: [&str; 3] = ["gemma-2-2b", "gemma-2-9b", "gemma-2-27b"];
    let capped = imported.get(keys::model::preset).is_some_and(|found| SIZES.iter().any(|name| found.value == *name));
    let usual = imported
        .get(keys::training::attention)
        .is_some_and(|found| found.value == "sdpa" && matches!(found.origin, Origin::Default { .. }));
    let Some(range) = versions::of(&context.run.versions, "transformers").filter(|_| capped && usual) else { return };
    match range.is_within((4, 42), (4, 48)) {
        Some(true) => {
            let option = "attn_implementation eager of Gemma 2".to_owned();
            let origin = Origin::Default { framework: "transformers 4.42 to 4.47", option };
            imported.say(keys::training::attention, "eager", origin);
        }
        Some(false) => {}
        None => imported.note("Gemma 2: transformers before 4.48 computes its attention eagerly; sdpa is taken"),
    }
}

/// A name of transformers for an attention in a plan's words.
pub fn implementation(name: &str) -> &'static str {
    match name {
        "eager" => "eager",
        name if name.contains("flash") => "flash",
        _ => "sdpa",
    }
}
