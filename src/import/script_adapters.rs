//! What a script says of adapters and the weights below them: whether TRL's trainer gets any, the bits that weights are
//! loaded in, and what peft does to prepare them for training.

use serde_json::Value;

use super::adapters;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::{PassedArgument, ScriptReader};
use super::python_adapters;
use super::python_calls::{ARGUMENTS, call};
use super::python_models::{loads, models};
use super::rows::not_modelled;
use super::settings::{Settings, UNKNOWN};
use super::trainer::reentrant;
use super::trainer_by_name::TRAINERS;
use crate::plan::keys;

/// What a `LoraConfig` may be told beside its rank and its targets that changes what is held or trained, and what that is
/// (`peft/tuners/lora/config.py`).
const FURTHER: [(&str, &str); 8] = [
    ("modules_to_save", "modules that train whole beside the adapters"),
    ("use_dora", "DoRA: a magnitude for each output and the norm of each adapted weight"),
    ("layers_to_transform", "adapters in some layers alone"),
    ("rank_pattern", "adapters of several ranks"),
    ("exclude_modules", "layers that the adapters leave out"),
    ("target_parameters", "adapters on parameters that are no layers"),
    ("layer_replication", "layers that are repeated"),
    ("trainable_token_indices", "rows of the embeddings that train"),
];

const BITS: [(&str, u64); 2] = [("load_in_4bit", 4), ("load_in_8bit", 8)];

const TWICE: &str = "bnb_4bit_use_double_quant";

/// Whether a script gives TRL's trainer adapters that it makes itself: `SFTTrainer(peft_config=lora)` puts them in
/// (`trl/trainer/sft_trainer.py`, `__init__`). None on a condition that is not followed.
pub fn hands_on(reader: &ScriptReader) -> Option<bool> {
    let mut answer = Some(false);
    for (passed, certain) in reader.passed(&TRAINERS, "peft_config") {
        let told = match passed {
            // What TRL's own arguments make has a switch.
            PassedArgument::Made(path, _) if path.ends_with("get_peft_config") => Some(false),
            PassedArgument::Made(..) => Some(true),
            PassedArgument::Nothing | PassedArgument::Plain(_) => Some(false),
            PassedArgument::Open => call(reader.whole(), "LoraConfig").is_none().then_some(false),
        };
        match told.filter(|told| certain || !told) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => answer = None,
        }
    }
    answer
}

/// In what a script loads the weights of its models.
#[derive(Debug, Default)]
pub struct LoadedWeights {
    /// The bits, and the setting that says them; none where they are not quantised.
    pub bits: Option<(Setting<u64>, &'static str)>,
    /// Whether the constants of their quantisation are quantised too.
    pub twice: Option<Setting<bool>>,
    /// A setting that stands on what is not followed.
    open: Option<&'static str>,
}

impl LoadedWeights {
    /// By all calls of a script that load weights, or have TRL's trainer load them; one that quantises for certain goes
    /// over others.
    pub fn of(reader: &ScriptReader) -> Self {
        let calls = loads(reader.content());
        let names: Vec<&str> = calls.iter().map(String::as_str).collect();
        let mut all = Self::of_calls(reader, &names, "");
        all.extend(Self::of_calls(reader, &ARGUMENTS, "model_init_kwargs."));
        // What was not read to its end may load anything.
        let unread = all.is_empty() && reader.reached(&names).is_none();
        let mut open = BITS.iter().map(|(name, _)| *name).find(|name| unread && reader.whole().contains(*name));
        for (found, certain) in all {
            let told = found.bits.as_ref().map(|(_, name)| *name);
            if told.is_some() && found.open.is_none() && certain {
                return found;
            }
            open = told.or(found.open).or(open);
        }
        Self { open, ..Self::default() }
    }

    /// Whether a script loads its model for certain, and by calls that say nothing of quantisation.
    fn are_plain(reader: &ScriptReader) -> bool {
        let own = models(reader.content());
        let calls = if own.is_empty() { models(reader.whole()) } else { own };
        let names: Vec<&str> = calls.iter().map(String::as_str).collect();
        let untold = |name: &str| {
            let told = reader.passed(&names, name);
            !told.is_empty()
                && told.iter().all(|(passed, certain)| *certain && matches!(passed, PassedArgument::Nothing))
        };
        // TRL's trainers load a model that they are given the name of.
        let by_trainer = reader.passed(&ARGUMENTS, "model_init_kwargs");
        by_trainer.iter().all(|(passed, _)| matches!(passed, PassedArgument::Nothing))
            && BITS.iter().map(|(name, _)| *name).chain(["quantization_config"]).all(untold)
    }

    /// By each call of those names, and whether it is made for certain.
    fn of_calls(reader: &ScriptReader, names: &[&str], before: &str) -> Vec<(Self, bool)> {
        let told = BITS.map(|(name, _)| reader.passed(names, &format!("{before}{name}")));
        let twice = reader.passed(names, &format!("{before}{TWICE}"));
        let configured = reader.passed(names, &format!("{before}quantization_config"));
        let each = configured.into_iter().enumerate().map(|(at, (passed, certain))| {
            let mut found = Self::default();
            for ((name, bits), told) in BITS.into_iter().zip(&told) {
                match told.get(at).map(|(passed, _)| passed) {
                    Some(PassedArgument::Plain(on)) if on.value == true => {
                        found.bits = Some((Setting::new(bits, on.origin.clone()), name));
                    }
                    Some(PassedArgument::Open | PassedArgument::Made(..)) => found.open = Some(name),
                    _ => {}
                }
            }
            // transformers before 5 hands them on to a configuration of their own (`quantization_config`, `from_dict`).
            if let Some((PassedArgument::Plain(on), _)) = twice.get(at).filter(|_| found.bits.is_some()) {
                found.twice = on.value.as_bool().map(|told| Setting::new(told, on.origin.clone()));
            }
            match passed {
                PassedArgument::Made(path, given) => found.configure(&path, &given),
                PassedArgument::Open if reader.whole().contains("BitsAndBytesConfig(") => found.open = Some(BITS[0].0),
                _ => {}
            }
            (found, certain)
        });
        each.collect()
    }

    /// What a configuration of quantisation says.
    fn configure(&mut self, path: &str, given: &Settings) {
        if path.ends_with("GPTQConfig") {
            self.bits = given.whole("bits").filter(|bits| matches!(bits.value, 4 | 8)).map(|bits| (bits, "bits"));
        }
        for (name, bits) in BITS {
            match given.get(name).map(|_| given.flag(name)) {
                Some(Some(found)) if found.value => self.bits = Some((found.map(|_| bits), name)),
                Some(None) => self.open = Some(name),
                _ => {}
            }
        }
        self.twice = given.on(TWICE);
    }
}

/// Says of adapters that a script loads for the model that it trains, where none is made anew.
pub fn loaded_for_training(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let said = imported.missing.iter().any(|missing| missing.key == keys::lora::rank);
    if imported.get(keys::lora::rank).is_none() && !said && reader.loads_adapters() {
        not_modelled(imported, &format!("{}: adapters that are loaded, whose rank stands beside them", reader.name()));
        imported.miss(keys::lora::rank, "the adapters that the script loads say it");
    }
}

/// Says what the first `LoraConfig` of a script, or the call of unsloth's in its place, is told that no plan holds.
fn say_further(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let adapted = reader.calls(&python_adapters::CALLS);
    let off = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    for (name, what) in FURTHER {
        let told = adapted.get(name);
        if name == "modules_to_save" && is_saved(imported, reader, &adapted) {
            settings.accept(name);
            continue;
        }
        if adapted.holds(name) && !told.is_some_and(|found| off(&found.value)) {
            let origin = told.map_or_else(|| name.to_owned(), |found| found.origin.to_string());
            let names = adapted.texts(name).map(|found| found.value.join(", "));
            let names = names.filter(|names| !names.contains(UNKNOWN) && told.is_some_and(|found| found.value != true));
            let names = names.map_or_else(String::new, |names| format!(" ({names})"));
            not_modelled(imported, &format!("{origin}{names}: {what}"));
        }
    }
}

/// Whether the plan says which modules train whole beside the adapters, of a causal language model.
fn is_saved(imported: &mut ImportedPlan, reader: &ScriptReader, adapted: &Settings) -> bool {
    const CLASSES: [&str; 2] = ["AutoModelForCausalLM.from_pretrained", "AutoModelForCausalLM"];
    let causal = CLASSES.iter().any(|class| reader.whole().contains(class));
    let open = reader.loads_adapters() || LoadedWeights::of(reader).open.is_some();
    let told = adapted.texts("modules_to_save").filter(|found| found.value.iter().all(|name| !name.contains(UNKNOWN)));
    told.is_some_and(|found| causal && !open && adapters::set_saved(imported, &found))
}

/// The bits that a script which makes adapters loads its weights in, by its own text: `load_in_8bit=True`. Where an
/// argument of the script has that name, the argument says it.
pub fn loaded_bits(reader: &ScriptReader, settings: &Settings) -> Settings {
    let mut found = Settings::default();
    let path = reader.name();
    let default = |what: String| Origin::Default { framework: "the script", option: format!("{what} ({path})") };
    let loaded = LoadedWeights::of(reader);
    if let Some((bits, name)) = loaded.bits.filter(|_| asks(reader, settings)) {
        // As a default of the script's own it counts where adapters are made.
        match name {
            "bits" => found.set(name, bits.value.into(), default(format!("GPTQConfig(bits={})", bits.value))),
            _ => found.set(name, Value::Bool(true), default(name.to_owned())),
        }
    }
    // FastChat's switch, and those who took it over, is `q_lora`.
    let four = found.is("load_in_4bit") || ["load_in_4bit", "q_lora"].iter().any(|name| settings.is(name));
    if four && !settings.holds(TWICE) && loaded.twice.is_some() {
        found.set(TWICE, Value::Bool(true), default(TWICE.to_owned()));
    }
    found
}

/// Whether the script has to be asked: it makes adapters, and none of its arguments says the bits.
fn asks(reader: &ScriptReader, settings: &Settings) -> bool {
    const ARGUMENTS: [&str; 7] = [
        "load_in_4bit",
        "load_in_8bit",
        "use_4bit_quantization",
        "use_8bit_quantization",
        "bits",
        "quantization_bit",
        "q_lora",
    ];
    call(reader.whole(), "LoraConfig").is_some() && !ARGUMENTS.iter().any(|name| settings.is_set(name))
}

/// What prepares weights for training, by peft's releases.
const PREPARATIONS: [&str; 2] = ["prepare_model_for_kbit_training", "prepare_model_for_int8_training"];

/// Whether a script has peft prepare its weights for training, and with checkpointing: the call turns checkpointing on by
/// itself for quantised ones, unless its second argument says otherwise (`peft/utils/other.py`, 0.3
/// `prepare_model_for_int8_training`, 0.17 `prepare_model_for_kbit_training`).
fn prepared(reader: &ScriptReader) -> Option<bool> {
    let named = reader.passed(&PREPARATIONS, "use_gradient_checkpointing").into_iter().next()?.0;
    let placed = reader.passed(&PREPARATIONS, "1").into_iter().next()?.0;
    Some(match (named, placed) {
        (PassedArgument::Nothing, PassedArgument::Nothing) => true,
        // Where an argument of the Trainer's stands there, that has been read.
        (PassedArgument::Plain(value), _) | (_, PassedArgument::Plain(value)) => value.value == true,
        _ => false,
    })
}

/// Says what peft's preparation does to a script's weights below adapters: quantised ones come with checkpointing, and
/// those of 16 bits, which with quantised weights are the norms, the embeddings and the head, are cast to fp32.
pub fn prepare(imported: &mut ImportedPlan, reader: &ScriptReader, settings: &Settings) {
    let path = reader.name();
    if imported.get(keys::lora::rank).is_none() {
        return;
    }
    say_further(imported, reader, settings);
    // What a checkpoint says of itself holds however it is loaded (transformers, `quantizers/auto.py`, `pre_quantized`).
    let own = imported.quantised.as_ref().map(|found| found.origin.to_string());
    let asked = imported.get(keys::lora::base_bits).map(|found| found.origin.to_string());
    if let Some(origin) = asked.filter(|asked| own.as_ref() != Some(asked)).filter(|_| LoadedWeights::are_plain(reader))
    {
        imported.drop(keys::lora::base_bits);
        imported.drop(keys::lora::double_quant);
        imported.note(format!("{path} loads its weights as they are: {origin} quantises nothing there"));
    }
    let quantised = imported.get(keys::lora::base_bits).is_some();
    let open = || LoadedWeights::of(reader).open.filter(|_| asks(reader, settings));
    if let (false, Some(name)) = (quantised, open()) {
        not_modelled(imported, &format!("{path}: {name}, on a condition that is not followed"));
        imported.miss(keys::lora::base_bits, format!("{path} has {name}, which is not followed"));
    }
    let Some(checkpoints) = prepared(reader) else { return };
    let origin = Origin::Program(format!("{path}: prepare_model_for_…_training"));
    if quantised && checkpoints {
        imported.say(keys::training::activation_checkpointing, "full", origin.clone());
        reentrant::of_preparation(imported, reader, &PREPARATIONS, origin.clone());
    }
    let Some(found) = imported.get(keys::training::precision) else { return };
    // Without autocast nothing computes in 16 bits then.
    let autocast = !found.origin.to_string().contains("dtype");
    match found.value.as_str().unwrap_or_default() {
        "fp16" if autocast => imported.say(keys::training::precision, "fp16-mixed", origin),
        "bf16" if autocast => imported.say(keys::training::precision, "bf16-mixed", origin),
        "fp16" | "bf16" => imported.say(keys::training::precision, "fp32", origin),
        _ => {}
    }
}
