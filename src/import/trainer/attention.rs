//! Which attention the Trainer's model runs by its settings; `script_doubts` looks at the script itself.

use serde_json::Value;

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::settings::Settings;
use super::super::versions::{self, VersionRange};
use super::VERSION;
use crate::plan::keys;

/// The first two numbers of a version.
type Version = (u64, u64);

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

/// Kinds of models whose class has no sdpa before a version, or in none: there the default is eager (`_supports_sdpa` of
/// `models/*/modeling_*.py` in the releases from 4.36 to 5.0; `modeling_utils.py`, `_check_and_adjust_attn_implementation`).
const SDPA_SINCE: [(&str, Option<Version>); 27] = [
    ("albert", Some((4, 45))),
    ("bert", Some((4, 41))),
    ("bloom", None),
    ("camembert", Some((4, 45))),
    ("clip_vision_model", Some((4, 43))),
    ("codegen", None),
    ("deberta-v2", None),
    ("distilbert", Some((4, 46))),
    ("electra", Some((5, 0))),
    ("gpt2", Some((4, 42))),
    ("gpt_neo", None),
    ("gpt_neox", Some((4, 42))),
    ("gpt_oss", None),
    ("gptj", None),
    ("mbart", Some((4, 45))),
    ("mistral", Some((4, 37))),
    ("mixtral", Some((4, 37))),
    ("mpt", None),
    ("mt5", None),
    ("opt", Some((4, 46))),
    ("phi", Some((4, 39))),
    ("phi3", Some((4, 45))),
    ("roberta", Some((4, 45))),
    ("stablelm", Some((4, 39))),
    ("t5", None),
    ("vit", Some((4, 41))),
    ("xlm-roberta", Some((4, 45))),
];

/// What the default is for the model that the plan names.
pub fn of_model(imported: &mut ImportedPlan, context: &ImportContext) {
    let usual = imported
        .get(keys::training::attention)
        .is_some_and(|found| found.value == "sdpa" && matches!(found.origin, Origin::Default { .. }));
    let preset =
        imported.get(keys::model::preset).and_then(|found| found.value.as_str()).unwrap_or_default().to_owned();
    let known = || Some(context.catalog.model(&preset)?.hf_config.get("model_type")?.as_str()?.to_owned());
    let of_file = || {
        let config = &imported.get(keys::model::hf_config)?.value;
        let read = |path| serde_json::from_str::<Value>(&context.run.files.read(path).ok()?).ok();
        let kind = |config: &Value| Some(config.get("model_type")?.as_str()?.to_owned());
        config.as_str().map_or_else(|| kind(config), |path| kind(&read(path)?))
    };
    let Some(kind) = known().or_else(of_file).filter(|_| usual) else { return };
    let range = versions::of(&context.run.versions, "transformers");
    if ["gemma-2-2b", "gemma-2-9b", "gemma-2-27b"].contains(&preset.as_str()) {
        return of_gemma_2(imported, range);
    }
    // Their own code, not transformers': its class is the eager one unless the configuration says otherwise
    // (configuration_internlm2.py: `attn_implementation="eager"`; modeling_internlm.py has no other).
    if preset.starts_with("internlm-") || preset.starts_with("internlm2-") {
        let option = "attn_implementation eager of its own code".to_owned();
        return imported.say(keys::training::attention, "eager", Origin::Default { framework: "InternLM", option });
    }
    let Some((_, since)) = SDPA_SINCE.iter().find(|(known, _)| *known == kind) else { return };
    let Some(since) = *since else {
        let option = format!("attn_implementation eager: {kind} has no sdpa");
        return imported.say(keys::training::attention, "eager", Origin::Default { framework: "transformers", option });
    };
    match range.map(|range| range.is_within((0, 0), since)) {
        Some(Some(true)) => {
            let option = format!("attn_implementation eager: {kind} has no sdpa before {}.{}", since.0, since.1);
            imported.say(keys::training::attention, "eager", Origin::Default { framework: "transformers", option });
        }
        Some(None) => imported.note(format!(
            "{kind}: transformers before {}.{} computes its attention eagerly; sdpa is taken",
            since.0, since.1
        )),
        Some(Some(false)) | None => {}
    }
}

/// transformers before 4.48 turned its default off for Gemma 2, whose scores are capped (`modeling_gemma2.py`,
/// `_check_and_enable_sdpa`: "DISABLE torch SDPA by default on Gemma2").
fn of_gemma_2(imported: &mut ImportedPlan, range: Option<VersionRange>) {
    match range.map(|range| range.is_within((4, 42), (4, 48))) {
        Some(Some(true)) => {
            let option = "attn_implementation eager of Gemma 2".to_owned();
            let origin = Origin::Default { framework: "transformers 4.42 to 4.47", option };
            imported.say(keys::training::attention, "eager", origin);
        }
        Some(None) => imported.note("Gemma 2: transformers before 4.48 computes its attention eagerly; sdpa is taken"),
        Some(Some(false)) | None => {}
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
