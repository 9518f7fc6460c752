//! Which attention the Trainer's model runs by its settings; `script_doubts` looks at the script itself.

use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::settings::Settings;
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

/// A name of transformers for an attention in a plan's words.
pub fn implementation(name: &str) -> &'static str {
    match name {
        "eager" => "eager",
        name if name.contains("flash") => "flash",
        _ => "sdpa",
    }
}
