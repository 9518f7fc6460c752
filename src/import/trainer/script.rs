//! What scripts on the Trainer have names of their own for: the length of a sample, adapters, the bits of their base.

use super::super::adapters;
use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::model;
use super::super::origin::{Origin, Setting};
use super::super::python::ScriptReader;
use super::super::python_adapters;
use super::super::python_calls::call;
use super::super::python_sizes;
use super::super::rows::not_modelled;
use super::super::script_adapters;
use super::super::settings::Settings;
use super::super::trl;
use super::lora_call::LoraCall;
use crate::plan::keys;

/// The model, by the names that scripts have for it, or of sizes of the script's own.
pub fn set_model(
    imported: &mut ImportedPlan,
    settings: &mut Settings,
    context: &ImportContext,
    reader: Option<&ScriptReader>,
) {
    const NAMES: [&str; 19] = [
        "model_name_or_path",
        "base_model_name_or_path",
        "lm_model_name_or_path",
        "llm_model_name_or_path",
        "policy_model_name_or_path",
        "pretrained_model_name_or_path",
        "config_name",
        "pretrained_model_name",
        "pretrained_model",
        "model_name",
        "base_model",
        "base_model_path",
        "model_path",
        "pretrained_model_path",
        "model_id",
        "input_model_filename",
        // Colossal-AI's examples have the kind of the model under `model`.
        "pretrain",
        "model",
        "model_type",
    ];
    // A file of weights names no architecture.
    let weights = |value: &str| [".pt", ".pth", ".bin", ".ckpt"].iter().any(|end| value.ends_with(end));
    let of_weights =
        |name: &str| settings.iter().any(|(own, found)| own == name && found.value.as_str().is_some_and(weights));
    let names: Vec<&str> = NAMES.into_iter().filter(|name| !of_weights(name)).collect();
    let named = settings.first_text(&names).or_else(|| alone(settings)).or_else(|| settings.first_text(&NAMES));
    // An option whose variable is empty takes the next one's name for its own.
    const NOBODY: &str = "no --model_name_or_path";
    match (named.filter(|found| found.value != "true"), reader) {
        (Some(found), _) => model::set(imported, context, found),
        (None, Some(reader)) => python_sizes::tell(imported, settings, reader, NOBODY),
        (None, None) => imported.miss(keys::model::preset, NOBODY),
    }
    other_vocabulary(imported, settings, context);
    if let Some(found) = settings.get("config_overrides") {
        imported.note(format!("{}: sizes beyond the model's own are not read", found.origin));
    }
}

/// A model from scratch has the rows of the tokenizer that is named beside its configuration (transformers' examples,
/// `run_clm.py` and `run_mlm.py`: `resize_token_embeddings(len(tokenizer))`).
fn other_vocabulary(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let example = matches!(context.program.name(), "run_clm.py" | "run_mlm.py" | "run_plm.py");
    if !example || settings.text("model_name_or_path").is_some() {
        return;
    }
    let Some(found) = settings.first_text(&["tokenizer_name", "tokenizer"]) else { return };
    let theirs = model::preset(context, &found.value);
    let known = theirs.is_some_and(|name| imported.get(keys::model::preset).is_some_and(|preset| preset.value == name));
    if !known {
        let said = format!("{} {}: the size of its vocabulary, which the embedding takes", found.origin, found.value);
        not_modelled(imported, &said);
    }
}

/// The only name of a model that a script has under a name of its own: `classifier_model_name_or_path`.
fn alone(settings: &Settings) -> Option<Setting<String>> {
    let mut names = settings.iter().map(|(name, _)| name).filter(|name| name.ends_with("_model_name_or_path"));
    let only = names.next().filter(|_| names.next().is_none())?.to_owned();
    settings.text(&only)
}

/// Switches for adapters, by the names that scripts have for them.
const ADAPTERS: [&str; 8] =
    ["use_peft", "use_lora", "use_qlora", "lora_enable", "enable_lora", "lora", "peft", "use_peft_lora"];

/// Adapters by the names that scripts have for them.
pub fn low_rank(
    imported: &mut ImportedPlan,
    settings: &Settings,
    context: &ImportContext,
    reader: Option<&ScriptReader>,
) {
    let switched = ADAPTERS.iter().any(|name| settings.is(name));
    // A script of its own that takes a rank has adapters; TRL's has one either way.
    let named = ["lora", "peft"].iter().any(|part| context.program.name().contains(part));
    let tuning = tuning(settings);
    let open = tuning.is_none() && !switched && reader.is_some_and(|reader| may_adapt(reader, settings));
    let wanted = match &tuning {
        Some(word) => word.value.contains("lora"),
        None => switched || open || wants_unasked(settings, context, reader, named),
    };
    // artidoro/qlora, qlora.py: adapters unless `--full_finetune`, loaded ones or new.
    let spared = settings.flag("full_finetune").is_some_and(|found| !found.value);
    if open && !spared {
        imported.note("adapters stand on a condition of the script that is not followed: they are taken as made");
    }
    let text = reader.map_or("", ScriptReader::content);
    if let Some(reader) = reader.filter(|reader| leaves_adapters_to_trl(reader, settings)) {
        settings.iter().filter(|(name, _)| name.starts_with("lora_")).for_each(|(name, _)| settings.accept(name));
        let said = "get_peft_config makes no adapters without --use_peft: the whole model is trained";
        return imported.note(format!("{}: {said}", reader.name()));
    }
    if call(text, "LoraConfig").is_none() && !python_adapters::other_configurations(text).is_empty() {
        return python_adapters::other_adapters(imported, text);
    }
    let bits = base_bits(settings, tuning, wanted);
    // P-tuning v2: keys and values in front of each layer's own (`THUDM/ChatGLM2-6B/ptuning/arguments.py`, `pre_seq_len`).
    if let Some(found) = settings.whole("pre_seq_len") {
        not_modelled(
            imported,
            &format!("{}: prefixes are trained and nothing else; the plan trains the whole model", found.origin),
        );
        if let Some(bits) = bits {
            not_modelled(imported, &format!("{}: weights of {} bits", bits.origin, bits.value));
        }
        return;
    }
    // DeepSpeed-Chat: adapters in every linear layer of the modules whose name holds `--lora_module_name`.
    let chats = settings.whole("lora_dim").filter(|found| found.value > 0);
    if let Some(rank) = &chats {
        adapters::set_targets(imported, Some(Setting::new(vec!["all".to_owned()], rank.origin.clone())));
        // `decoder.layers.`, its default, is in the names of all linear layers of the blocks.
        let of_blocks = |value: &serde_json::Value| value.as_str().is_some_and(|text| text.ends_with("layers."));
        if settings.iter().any(|(name, found)| name == "lora_module_name" && of_blocks(&found.value)) {
            settings.accept("lora_module_name");
        }
        if !settings.is("only_optimize_lora") {
            not_modelled(imported, "without --only_optimize_lora embeddings, norms and biases train as well");
        }
    } else if settings.is("full_finetune") || (!wanted && bits.is_none()) {
        // Two settings that contradict each other are both said.
        if let Some(asked) = ADAPTERS.iter().find_map(|name| settings.on(name)) {
            not_modelled(imported, &format!("{}: adapters, which another setting speaks against", asked.origin));
        }
        return;
    }
    let config = reader.and_then(|reader| LoraCall::of(reader, settings));
    // The defaults of TRL's arguments are none of a configuration that the script writes down itself.
    let usual = |origin: &Origin| config.is_some() && matches!(origin, Origin::Default { framework: "TRL", .. });
    let told =
        settings.first_whole(&["lora_r", "lora_rank", "peft_lora_r"]).filter(|found| !usual(&found.origin)).or(chats);
    let written = config.as_ref().and_then(|config| config.rank.as_ref());
    let rank = told.or_else(|| written.and_then(|rank| rank.clone().ok())).or_else(|| trl::usual_rank(context));
    if let Some((what, why)) = open_rank(settings, rank.as_ref(), config.as_ref()) {
        not_modelled(imported, &what);
        imported.set(keys::lora::base_bits, bits);
        return imported.miss(keys::lora::rank, why);
    }
    if reader.is_some_and(|reader| reader.content().contains("DoraConfig(")) {
        not_modelled(imported, "DoRA: a magnitude for each output and the norm of each adapted weight");
    }
    adapters::set(imported, rank, ("peft", 8), bits);
    targets(imported, settings, reader, config.as_ref(), named);
    let double = ["double_quant", "bnb_4bit_use_double_quant", "use_double_quant", "use_nested_quant"];
    let double = double.iter().find_map(|name| settings.on(name));
    // Of weights in 16 bits nothing is quantised twice.
    imported.set(keys::lora::double_quant, double.filter(|_| imported.get(keys::lora::base_bits).is_some()));
    let dropout = settings.number("lora_dropout").filter(|found| !usual(&found.origin));
    let dropout = dropout.or_else(|| config.as_ref().and_then(LoraCall::dropout));
    imported.set(keys::lora::dropout, dropout.filter(|found| (0.0..1.0).contains(&found.value)));
}

/// Whether a script leaves its adapters to TRL's arguments, which are given a rank and not told to make any
/// (`trl/trainer/utils.py`, `get_peft_config`: none unless `use_peft`).
fn leaves_adapters_to_trl(reader: &ScriptReader, settings: &Settings) -> bool {
    let off = settings.get("use_peft").is_none_or(|found| found.value == false || found.value == "false");
    let text = reader.whole();
    off && gives_rank(settings)
        && text.contains("from trl")
        && call(text, "get_peft_config").is_some()
        && !text.contains("def get_peft_config")
        && call(text, "LoraConfig").is_none()
}

/// Whether a script has adapters that no switch asks for: it makes them always, or a rank is given.
fn wants_unasked(settings: &Settings, context: &ImportContext, reader: Option<&ScriptReader>, named: bool) -> bool {
    (trl::method(context).is_none() && reader.is_some_and(adapts) && !refuses_adapters(settings))
        || (named && settings.is_set("lora_rank"))
        || (trl::method(context).is_none() && gives_rank(settings) && !refuses_adapters(settings))
}

/// Whether a script that has a rank among its arguments, and no switch beside it, makes adapters where a condition that is
/// not followed leaves it to.
fn may_adapt(reader: &ScriptReader, settings: &Settings) -> bool {
    const CALL: &str = "get_peft_model";
    let text = reader.content();
    let called = ["LoraConfig", CALL].iter().all(|name| call(text, name).is_some());
    let ranked = ["lora_r", "lora_rank"].iter().any(|name| settings.whole(name).is_some_and(|rank| rank.value > 0));
    let switch = ADAPTERS.iter().any(|name| settings.holds(name));
    called && ranked && !switch && reader.reached(&[CALL]).is_none()
}

/// The bits of the weights below the adapters, by a setting of their own or by the way of tuning.
fn base_bits(settings: &Settings, tuning: Option<Setting<String>>, wanted: bool) -> Option<Setting<u64>> {
    let quantised = bits(settings).filter(|found| {
        // A script that quantises by default does so for adapters, and only where it is told to.
        let usual = matches!(found.origin, Origin::Default { .. });
        !usual || (wanted && settings.flag("use_qlora").is_none_or(|told| told.value))
    });
    // open-instruct's switch beside `--use_lora` (`finetune.py`, `load_in_4bit=True`).
    let switched = || settings.on("use_qlora").filter(|_| wanted).map(|found| found.map(|_| 4));
    quantised
        .or_else(switched)
        .or_else(|| tuning.filter(|word| word.value.contains("qlora")).map(|word| word.map(|_| 4)))
}

/// What is not modelled and why the rank is missing, of adapters whose rank is not known here. Peft's own default
/// stands in only where a `LoraConfig` was read that names none.
fn open_rank(settings: &Settings, rank: Option<&Setting<u64>>, config: Option<&LoraCall>) -> Option<(String, String)> {
    // Asked for first: a name that is read counts as understood, whether the rank is known or not.
    let loaded = settings.first_text(&["adapter_name_or_path", "peft_model_name_or_path", "adapter_path"]);
    if rank.is_some() {
        return None;
    }
    if let Some(found) = loaded {
        let what = format!("{}: adapters that are loaded, whose rank stands beside them", found.origin);
        return Some((what, format!("{} says it", found.value)));
    }
    match config.map(|config| &config.rank) {
        Some(Some(Err(part))) => Some((
            format!("adapters, whose rank the script computes: {part}"),
            format!("the script computes it: {part}"),
        )),
        Some(_) => None,
        None => Some((
            "adapters, whose rank stands in no LoraConfig that was read".to_owned(),
            "no LoraConfig that was read says it".to_owned(),
        )),
    }
}

/// Where adapters go, by a setting, by the script's `LoraConfig`, or by its search for linear layers.
fn targets(
    imported: &mut ImportedPlan,
    settings: &Settings,
    reader: Option<&ScriptReader>,
    config: Option<&LoraCall>,
    named: bool,
) {
    let given = settings.texts("lora_target_modules").or_else(|| settings.texts("target_modules"));
    let given = given.or_else(|| config.and_then(|config| config.targets(imported)));
    adapters::set_targets(imported, given);
    // TRL's `ModelConfig`, which hands it on as peft's `modules_to_save` (`trl/trainer/utils.py`, `get_peft_config`).
    adapters::take_saved(imported, settings.texts("lora_modules_to_save"));
    // Chinese-LLaMA-Alpaca's name for them (`scripts/training/run_clm_sft_with_peft.py`).
    let layers = settings.iter().find(|(name, _)| *name == "trainable").and_then(|(_, found)| found.value.as_str());
    if named || layers.is_some_and(|names| names.split(',').all(|name| name.trim().ends_with("_proj"))) {
        adapters::set_targets(imported, settings.texts("trainable"));
    }
    // QLoRA's way, which LLaVA and many others took over: every linear layer by its class.
    if let (None, Some(reader)) = (imported.get(keys::lora::targets), reader)
        && (reader.content().contains("find_all_linear") || config.is_some_and(|config| config.linear))
    {
        let origin = Origin::Program(format!("{}: it looks for every linear layer", reader.name()));
        adapters::set_targets(imported, Some(Setting::new(vec!["all-linear".to_owned()], origin)));
    }
}

/// Whether a script makes adapters whatever it is told.
fn adapts(reader: &ScriptReader) -> bool {
    const CALL: &str = "get_peft_model";
    let text = reader.content();
    let made =
        call(text, "LoraConfig").is_some() && call(text, CALL).is_some() && reader.reached(&[CALL]) == Some(true);
    // Of several made in modules some are another model's.
    let elsewhere = || reader.sure_calls("LoraConfig") == 1 && reader.sure_calls(CALL) == 1;
    made || elsewhere() || script_adapters::hands_on(reader) == Some(true)
}

/// What a script calls the way in which it trains, by the names that scripts have for that: `full`, `lora`, `qlora`.
fn tuning(settings: &Settings) -> Option<Setting<String>> {
    let names = [
        "train_mode",
        "tuning_mode",
        "finetuning_type",
        "finetune_type",
        "tuning_type",
        "tuner_type",
        "parameter_mode",
    ];
    // A script may have such a name for something else: PrivacyAnnotation's `tuning_mode` chooses its data.
    let ways =
        ["full", "lora", "freeze", "frozen", "prompt", "prefix", "ptuning", "p-tuning", "ia3", "adapter", "galore"];
    let is_way = |word: &str| ways.iter().any(|way| word.to_lowercase().contains(way));
    let said = names.iter().find_map(|name| {
        settings.get(name).filter(|found| settings.is_set(name) && found.value.as_str().is_some_and(is_way))?;
        settings.text(name)
    });
    // Names that others have for other things: `method: grpo`.
    let shared = ["method", "mode", "training_mode", "training_method", "finetuning_method"].iter().find_map(|name| {
        let found = settings.get(name).filter(|_| settings.is_set(name))?;
        let word = found.value.as_str()?.to_lowercase();
        let tells = word.contains("lora") || word.contains("full");
        tells.then(|| settings.text(name)).flatten()
    });
    Some(said.or(shared)?.map(|word| word.to_lowercase()))
}

/// Whether a rank is set: a script of its own that takes one has adapters.
fn gives_rank(settings: &Settings) -> bool {
    ["lora_r", "lora_rank"]
        .iter()
        .any(|name| settings.is_set(name) && settings.whole(name).is_none_or(|rank| rank.value > 0))
}

/// Whether a switch for adapters is set to false.
fn refuses_adapters(settings: &Settings) -> bool {
    // Without quantised weights there may be adapters all the same.
    ADAPTERS
        .iter()
        .filter(|name| **name != "use_qlora")
        .any(|name| settings.flag(name).is_some_and(|found| !found.value))
}

/// Base weights of 4 or 8 bits.
fn bits(settings: &Settings) -> Option<Setting<u64>> {
    let on = |name: &str, bits: u64| settings.on(name).map(|found| found.map(|_| bits));
    // Qwen's `finetune.py` and its kin take their `bits` with `q_lora` alone.
    if settings.flag("q_lora").is_some_and(|found| !found.value) {
        settings.accept("bits");
        return None;
    }
    ["load_in_4bit", "use_4bit_quantization", "use_4bit_quantisation", "q_lora"]
        .iter()
        .find_map(|name| on(name, 4))
        .or_else(|| ["load_in_8bit", "use_8bit_quantization"].iter().find_map(|name| on(name, 8)))
        .or_else(|| {
            settings
                .first_whole(&["bits", "quantization_bit", "load_in_bits", "load_in_kbits"])
                .filter(|found| matches!(found.value, 4 | 8))
        })
}
