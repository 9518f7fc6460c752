//! The adapters of a training script in Python that has its settings in calls.

use super::adapters;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::{PassedArgument, ScriptReader};
use super::python_calls::{ScriptCalls, call};
use super::rows::not_modelled;
use super::script_adapters::{LoadedWeights, hands_on, loaded_for_training};
use super::settings::{Settings, text};
use crate::plan::keys;

/// Calls that make its adapters.
pub const CALLS: [&str; 4] =
    ["FastLanguageModel.get_peft_model", "FastModel.get_peft_model", "FastVisionModel.get_peft_model", "LoraConfig"];

/// The adapters of the script whose calls these are; `unsloth` is whether that library makes them.
pub fn set(imported: &mut ImportedPlan, calls: &ScriptCalls, reader: &ScriptReader, content: &str, unsloth: bool) {
    const MADE: &str = "get_peft_model";
    // A configuration that goes to a call which is not made, and to no Trainer, makes none.
    let unused = call(content, MADE).is_some() && reader.reached(&[MADE]) == Some(false);
    let unused = unused && !unsloth && hands_on(reader) == Some(false);
    let reached = if calls.rank_is_absent || unused { Some(false) } else { reader.reached(&CALLS) };
    if reached != Some(false) {
        low_rank(imported, calls, reader, unsloth);
    }
    if reached.is_none() {
        imported.note("adapters stand on a condition of the script that is not followed: they are taken as made");
    }
    let four = calls.made.flag("load_in_4bit").filter(|found| found.value).map(|found| found.origin);
    let quantised = four.or_else(|| LoadedWeights::of(reader).bits.map(|(bits, _)| bits.origin));
    let said = imported.missing.iter().any(|missing| missing.key == keys::lora::rank);
    if let Some(origin) = quantised.filter(|_| imported.get(keys::lora::rank).is_none() && !said) {
        // Quantised weights are not trained by themselves.
        not_modelled(imported, &format!("{origin}: adapters that are loaded, or made elsewhere"));
        imported.miss(keys::lora::rank, "the script makes no adapters, and quantised weights are not trained");
    }
    loaded_for_training(imported, reader);
    other_adapters(imported, content);
}

/// Whether a configuration that names nothing makes adapters all the same: `SFTTrainer(peft_config=LoraConfig())`.
fn makes_untold(reader: &ScriptReader) -> bool {
    const CALL: &str = "get_peft_model";
    let made = call(reader.content(), CALL).is_some() && reader.reached(&[CALL]) == Some(true);
    !reader.passed(&CALLS, "r").is_empty() && (made || hands_on(reader) == Some(true))
}

fn low_rank(imported: &mut ImportedPlan, calls: &ScriptCalls, reader: &ScriptReader, unsloth: bool) {
    let (made, adapted, loaded) = (&calls.made, &calls.adapted, LoadedWeights::of(reader));
    if adapted.iter().next().is_none() && !makes_untold(reader) {
        return;
    }
    // `LoraConfig(**kwargs)`
    let told = reader.passed(&CALLS, "r");
    let open = adapted.get("r").is_none() && matches!(told.first(), Some((PassedArgument::Open, _)));
    if open || adapted.get("r").is_some() && adapted.whole("r").is_none() {
        not_modelled(imported, "adapters, whose rank the script computes");
        return imported.miss(keys::lora::rank, "the script computes it");
    }
    let default = Origin::Default { framework: "unsloth", option: "load_in_4bit True".to_owned() };
    let usual = unsloth && made.get("load_in_4bit").is_none();
    let bits = loaded.bits.map(|(bits, _)| bits).or_else(|| usual.then(|| Setting::new(4, default)));
    let library = if unsloth { ("unsloth", 16) } else { ("peft", 8) };
    adapters::set(imported, adapted.whole("r"), library, bits);
    if imported.get(keys::lora::base_bits).is_some_and(|bits| bits.value == 4) {
        // What unsloth quantises itself (`unsloth/models/llama.py`: `from_pretrained`).
        let option = "bnb_4bit_use_double_quant true".to_owned();
        let usual = || Setting::new(true, Origin::Default { framework: "unsloth", option });
        let told = loaded.twice;
        imported.set(keys::lora::double_quant, told.or_else(|| unsloth.then(usual)));
    }
    let targets = adapted.get("target_modules").map(|found| (text(&found.value), found.origin.clone()));
    match targets {
        Some((None, origin)) if adapted.texts("target_modules").is_none_or(|found| found.value.is_empty()) => {
            not_modelled(imported, &format!("{origin}: the script computes where adapters go"));
        }
        None if unsloth => unsloth_targets(imported, adapted),
        _ => adapters::set_targets(imported, adapted.texts("target_modules")),
    }
    let dropout = adapted.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value));
    imported.set(keys::lora::dropout, dropout);
}

/// Of arguments that ask for no half precision unsloth makes the type that it loads the model in: bf16, unless told fp16
/// (`unsloth/models/rl.py`, `mixed_precision`).
pub fn precision_of(settings: &mut Settings, made: &Settings, unsloth: bool) {
    let asked = |name: &str| settings.get(name).is_some() && settings.flag(name).is_none_or(|found| found.value);
    if !unsloth || asked("bf16") || asked("fp16") {
        return;
    }
    let half = made.first_text(&["dtype", "torch_dtype"]).is_some_and(|found| found.value.ends_with("float16"));
    let brain = made.first_text(&["dtype", "torch_dtype"]).is_some_and(|found| found.value.ends_with("bfloat16"));
    let name = if half && !brain { "fp16" } else { "bf16" };
    let option = format!("{name}, the type of the model that it loads");
    settings.set(name, true.into(), Origin::Default { framework: "unsloth", option });
}

/// Where unsloth puts adapters that are told no modules: in every linear layer of the parts that its switches leave on,
/// all of them by default (its documentation, "Vision fine-tuning": layer selection).
fn unsloth_targets(imported: &mut ImportedPlan, adapted: &Settings) {
    const KINDS: [&str; 3] = ["finetune_language_layers", "finetune_attention_modules", "finetune_mlp_modules"];
    let told = KINDS.iter().chain(&["finetune_vision_layers"]).filter_map(|name| adapted.flag(name)).count();
    if KINDS.iter().any(|name| adapted.flag(name).is_some_and(|found| !found.value)) {
        return not_modelled(imported, "adapters in some kinds of layers alone, by unsloth's switches");
    }
    if let (Some(false), Some(tower)) =
        (adapted.flag("finetune_vision_layers").map(|found| found.value), imported.tower.as_mut())
    {
        tower.frozen = true;
    }
    if told > 0 && adapted.flag("finetune_vision_layers").is_none_or(|found| found.value) {
        not_modelled(imported, "adapters in the layers of the vision tower");
    }
    let origin = Origin::Default { framework: "unsloth", option: "target_modules".to_owned() };
    adapters::set_targets(imported, Some(Setting::new(vec!["all-linear".to_owned()], origin)));
}

/// Adapters of peft that are no LoRA: nothing of a plan is theirs.
pub fn other_adapters(imported: &mut ImportedPlan, content: &str) {
    for name in other_configurations(content) {
        let kind = name.trim_end_matches("Config");
        not_modelled(imported, &format!("{kind} adapters (peft's {name}): the plan trains the whole model"));
    }
}

/// The configurations of peft, or of a copy of it, that a script calls and that are no LoRA's.
pub fn other_configurations(content: &str) -> Vec<&str> {
    const NONE: [&str; 5] = ["LoraConfig", "PeftConfig", "LoftQConfig", "EvaConfig", "CordaConfig"];
    let Some(import) = content.find("from peft import") else { return Vec::new() };
    let rest = content.get(import + "from peft import".len()..).unwrap_or("");
    let end = if rest.trim_start().starts_with('(') { rest.find(')') } else { rest.find('\n') };
    let names = rest.get(..end.unwrap_or(rest.len())).unwrap_or("");
    let other = |name: &&str| name.len() > "Config".len() && name.ends_with("Config") && !NONE.contains(name);
    let names = names.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(other);
    names.filter(|name| call(content, name).is_some()).collect()
}
