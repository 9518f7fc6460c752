//! axolotl's kernels for adapters (`kernels/lora.py`, `monkeypatch/lora_kernels.py`).

use serde_json::{Map, Value};

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::versions;
use crate::plan::keys;

/// Its settings, and a plan's words for what they run.
const KERNELS: [(&str, &str); 4] =
    [("lora_mlp_kernel", "mlp"), ("lora_qkv_kernel", "qkv"), ("lora_o_kernel", "o"), (OF_EMBEDDING, "")];

const OF_EMBEDDING: &str = "lora_embedding_kernel";

/// Sets which of them run: those that are told, or all where nobody says a word of them (`utils/schemas/config.py`,
/// `check_auto_enable_lora_kernels`). They save less than peft's layers.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let told = KERNELS.iter().any(|(name, _)| settings.holds(name));
    KERNELS.iter().for_each(|(name, _)| settings.accept(name));
    let on: Vec<(&str, &str)> = KERNELS.into_iter().filter(|(name, _)| settings.is(name)).collect();
    let (on, origin) = match on.first().and_then(|(name, _)| settings.get(name)) {
        Some(first) => (on, first.origin.clone()),
        None if told || stays_off(settings, context) => return,
        // The validator looks at the file before the default of 0 is filled in: a dropout that is not told is none to it.
        None if dropout(settings) != Some(0.0) && !take_dropout(context) => {
            if since(context, (0, 16)) != Some(false) {
                imported.note("axolotl's kernels for adapters are taken as off: before 0.16 they are on by themselves only beside `lora_dropout: 0`, from then on beside any");
            }
            return;
        }
        None => {
            let option = "kernels for adapters switched on by themselves".to_owned();
            (KERNELS.to_vec(), Origin::Default { framework: "axolotl 0.13", option })
        }
    };
    // They refuse adapters that drop out before 0.16 (`apply_lora_kernel_patches`).
    if dropout(settings).is_some_and(|rate| rate != 0.0) && !take_dropout(context) {
        return imported.note("axolotl's kernels for adapters do not run: before 0.16 they take none with dropout");
    }
    if let Some(why) = other_layers(imported, settings, context) {
        return not_modelled(
            imported,
            &format!("axolotl's own kernels for adapters, which keep less than peft's layers: {why}"),
        );
    }
    let words: Vec<&str> = on.into_iter().map(|(_, word)| word).filter(|word| !word.is_empty()).collect();
    if !words.is_empty() {
        imported.set(keys::lora::kernels, Some(Setting::new(words, origin)));
    }
}

/// The dropout of adapters that the file tells.
fn dropout(settings: &Settings) -> Option<f64> {
    settings.number("lora_dropout").map(|found| found.value)
}

/// Whether axolotl is of a version or a later one; none where nobody says.
fn since(context: &ImportContext, first: versions::Version) -> Option<bool> {
    versions::of(&context.run.versions, "axolotl")?.is_within(first, versions::NEWEST)
}

/// Whether they are known to run beside dropout, which they do since 0.16.
fn take_dropout(context: &ImportContext) -> bool {
    since(context, (0, 16)) == Some(true)
}

/// Whether nobody switches them on where no word is said of them.
fn stays_off(settings: &Settings, context: &ImportContext) -> bool {
    let is_kind = |kind: &str| settings.text("adapter").is_some_and(|found| found.value == kind);
    let first_fsdp =
        settings.holds("fsdp_config") && settings.whole("fsdp_version").is_none_or(|found| found.value != 2);
    // They came with 0.7, which asks for peft 0.14.
    let before = versions::of(&context.run.versions, "peft").and_then(|range| range.is_within((0, 0), (0, 14)));
    before == Some(true)
        || settings.text("rl").is_some()
        || is_kind("lora") && settings.is("load_in_8bit")
        || is_kind("dora")
        || settings.is("trust_remote_code")
        || first_fsdp
}

/// What of the model or its adapters such a kernel runs in a way that no plan has.
fn other_layers(imported: &ImportedPlan, settings: &Settings, context: &ImportContext) -> Option<&'static str> {
    if settings.is("peft_use_dora") {
        return Some("of DoRA");
    }
    if imported.get(keys::lora::base_bits).is_some_and(|found| found.value == 8) {
        return Some("over 8-bit weights");
    }
    let vocabulary = |name: &String| name.contains("embed") || name.contains("lm_head");
    if settings.texts("lora_target_modules").is_some_and(|found| found.value.iter().any(vocabulary)) {
        return Some("of the embedding");
    }
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str());
    let Some(model) = preset.and_then(|preset| context.catalog.model(preset)) else {
        return Some("of a model that is not known");
    };
    let language = model.hf_config.get("text_config").and_then(Value::as_object).unwrap_or(&model.hf_config);
    has_other_layers(language).then_some("of experts, or of layers without attention")
}

/// Whether a model has blocks of other kinds than attention and a dense feed-forward block.
fn has_other_layers(config: &Map<String, Value>) -> bool {
    const PARTS: [&str; 8] =
        ["experts", "linear_num", "full_attention_interval", "mamba", "ssm", "hybrid", "block_type", "conv_L"];
    let named = config.keys().any(|key| PARTS.iter().any(|part| key.contains(part)));
    let kinds = config
        .get("layer_types")
        .is_some_and(|kinds| ["linear", "conv", "mamba"].iter().any(|kind| kinds.to_string().contains(kind)));
    named || kinds
}
