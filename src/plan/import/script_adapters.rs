//! What a script's own text says of adapters and the weights below them: whether TRL's trainer gets any, the bits that
//! weights are loaded in, and what peft does to prepare them for training.

use serde_json::Value;

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::rows::not_modelled;
use super::script_conditions::{both, holds, reached, reached_at};
use super::settings::Settings;
use super::text::arguments;
use super::text::python_literal;
use crate::plan::keys;

/// No script that people write says one thing in more places. Each is looked at with all the text, and what is said more
/// often is not followed.
const PLACES: usize = 64;

/// Where a text stands in a script; none where those are too many to follow.
fn places<'a>(text: &'a str, part: &'a str) -> Option<impl Iterator<Item = usize> + 'a> {
    let all = text.match_indices(part).map(|(at, _)| at);
    all.clone().nth(PLACES).is_none().then_some(all)
}

const BITS: [&str; 2] = ["load_in_4bit", "load_in_8bit"];

/// Whether a script gives TRL's trainer adapters that it makes itself: `SFTTrainer(peft_config=lora)` puts them in
/// (`trl/trainer/sft_trainer.py`, `__init__`). None on a condition that is not followed.
pub fn hands_on(text: &str, settings: &Settings) -> Option<bool> {
    const NAME: &str = "peft_config";
    let made = if text.contains("LoraConfig(") { reached(text, "LoraConfig(", settings) } else { Some(false) };
    let mut answer = Some(false);
    for at in places(text, "peft_config=")? {
        // What TRL's own arguments make has a switch.
        let value = written(text, at, NAME).filter(|value| value != "None" && !value.starts_with("get_peft_config("));
        let Some(value) = value else { continue };
        let condition = value.split_once(" if ").and_then(|(_, rest)| rest.split_once(" else "));
        let told = condition.map_or(Some(true), |(condition, _)| holds(condition, settings, 0));
        match both(both(told, made), reached_at(text, at, settings)) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => answer = None,
        }
    }
    answer
}

/// The bits that a script which makes adapters loads its weights in, by its own text: `load_in_8bit=True`. Where an
/// argument of the script has that name, the argument says it.
pub fn loaded_bits(path: &str, text: &str, settings: &Settings) -> Settings {
    let mut found = Settings::default();
    for name in BITS.iter().filter(|_| asks(text, settings)) {
        if loads(text, name, settings) == Some(true) {
            // As a default of the script's own it counts where adapters are made.
            let origin = Origin::Default { framework: "the script", option: format!("{name} ({path})") };
            found.set(name, Value::Bool(true), origin);
        }
    }
    if let Some(bits) = gptq(text, settings).filter(|_| found.iter().next().is_none() && asks(text, settings)) {
        let origin = Origin::Default { framework: "the script", option: format!("GPTQConfig(bits={bits}) ({path})") };
        found.set("bits", bits.into(), origin);
    }
    const TWICE: &str = "bnb_4bit_use_double_quant";
    // FastChat's switch, and those who took it over, is `q_lora`.
    let four = found.is("load_in_4bit") || ["load_in_4bit", "q_lora"].iter().any(|name| settings.is(name));
    if four && !settings.holds(TWICE) && loads(text, TWICE, settings) == Some(true) {
        let origin = Origin::Default { framework: "the script", option: format!("{TWICE} ({path})") };
        found.set(TWICE, Value::Bool(true), origin);
    }
    found
}

/// The bits of the only `GPTQConfig` that a script makes, where it makes it whatever its arguments are.
fn gptq(text: &str, settings: &Settings) -> Option<u64> {
    const CALL: &str = "GPTQConfig(";
    let mut calls = places(text, CALL)?;
    let (at, None) = (calls.next()?, calls.next()) else { return None };
    let parts = arguments(text.get(at + CALL.len()..)?);
    let bits = parts.iter().find_map(|part| part.trim().strip_prefix("bits=")?.trim().parse().ok());
    let line = text.get(at..)?.lines().next()?;
    let free = !line.contains(" if ") && reached_at(text, at, settings) == Some(true);
    bits.filter(|bits| free && matches!(bits, 4 | 8))
}

/// Whether the script has to be asked: it makes adapters, and none of its arguments says the bits.
fn asks(text: &str, settings: &Settings) -> bool {
    const ARGUMENTS: [&str; 7] = [
        "load_in_4bit",
        "load_in_8bit",
        "use_4bit_quantization",
        "use_8bit_quantization",
        "bits",
        "quantization_bit",
        "q_lora",
    ];
    text.contains("LoraConfig(") && !ARGUMENTS.iter().any(|name| settings.is_set(name))
}

/// Whether weights are loaded in that many bits; none on a condition that is not followed.
fn loads(text: &str, name: &str, settings: &Settings) -> Option<bool> {
    let mut answer = Some(false);
    for at in places(text, name)? {
        let Some(value) = written(text, at, name) else { continue };
        let told = match python_literal(&value) {
            Some(Value::Bool(truth)) => Some(truth),
            Some(_) => Some(false),
            None => holds(&value, settings, 0),
        };
        let told = match told {
            Some(false) => Some(false),
            _ => [reached_at(text, at, settings), kept(text, at, settings), used(text, at, settings)]
                .into_iter()
                .fold(told, both),
        };
        match told {
            Some(true) => return Some(true),
            Some(false) => {}
            None => answer = None,
        }
    }
    answer
}

/// The value that a keyword, or an entry of a dictionary, has where its name stands at `at`.
fn written(text: &str, at: usize, name: &str) -> Option<String> {
    let (before, behind) = (text.get(..at)?, text.get(at + name.len()..)?);
    let line = before.rsplit('\n').next()?.trim_start();
    let joined = before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-'));
    if joined || line.contains('#') || ["def ", "parser.add_argument"].iter().any(|start| line.starts_with(start)) {
        return None;
    }
    let quoted = behind.strip_prefix(['"', '\'']);
    let value = match quoted {
        Some(rest) => rest.strip_prefix(':').or_else(|| rest.strip_prefix(']')?.trim_start().strip_prefix('='))?,
        None => behind.trim_start_matches(' ').strip_prefix('=').filter(|rest| !rest.starts_with('='))?,
    };
    let first = arguments(value).into_iter().next()?;
    Some(first.trim().lines().next()?.trim().to_owned())
}

/// Whether the calls around a place are made: `BitsAndBytesConfig(…) if args.quantise else None`.
fn kept(text: &str, at: usize, settings: &Settings) -> Option<bool> {
    let mut answer = Some(true);
    let mut depth = 0_usize;
    for (place, letter) in text.get(at..)?.char_indices() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ')' | ']' | '}' => {
                let rest = text.get(at + place + 1..)?.trim_start();
                if let Some((condition, _)) = rest.strip_prefix("if ").and_then(|rest| rest.split_once(" else ")) {
                    answer = both(answer, holds(condition, settings, 0));
                }
                // What follows at the left of the call's own line is another statement.
                if !rest.starts_with([',', ')', ']', '}']) && !rest.starts_with("if ") {
                    break;
                }
            }
            _ => {}
        }
    }
    answer
}

/// Whether a configuration with a name of its own is handed on: `quantization_config=bnb_config`.
fn used(text: &str, at: usize, settings: &Settings) -> Option<bool> {
    const MADE: &str = "BitsAndBytesConfig(";
    const HANDED_ON: &str = "quantization_config";
    let before = text.get(..at)?;
    let inside =
        |start: &usize| before.get(*start..).is_some_and(|part| part.matches('(').count() > part.matches(')').count());
    let Some(start) = before.rfind(MADE).filter(inside) else { return Some(true) };
    let line = before.get(..start)?.rsplit('\n').next()?.trim();
    let Some(name) = line.strip_suffix(" =").filter(|name| *name != HANDED_ON) else { return Some(true) };
    let mut answer = None;
    for at in places(text, HANDED_ON)? {
        let Some(value) = written(text, at, HANDED_ON) else { continue };
        let told = match value.strip_prefix(name).map(str::trim) {
            Some("") => Some(true),
            Some(rest) => rest
                .strip_prefix("if ")
                .and_then(|rest| rest.split_once(" else "))
                .and_then(|(condition, _)| holds(condition, settings, 0)),
            None => continue,
        };
        answer = answer.or(both(told, reached_at(text, at, settings)));
    }
    answer
}

/// Whether a script has peft prepare its weights for training, and with checkpointing: the call turns checkpointing on by itself for quantised ones, unless its second argument
/// says otherwise (`peft/utils/other.py`, 0.3 `prepare_model_for_int8_training`, 0.17 `prepare_model_for_kbit_training`).
fn prepared(text: &str, settings: &Settings) -> Option<bool> {
    const CALLS: [&str; 2] = ["prepare_model_for_kbit_training(", "prepare_model_for_int8_training("];
    const SWITCH: &str = "use_gradient_checkpointing";
    if CALLS.iter().any(|call| text.contains(&format!("def {call}"))) {
        return None;
    }
    for (at, call) in CALLS.iter().flat_map(|call| text.match_indices(call)).take(PLACES) {
        let line = text.get(..at)?.rsplit('\n').next()?;
        if line.contains('#') || reached_at(text, at, settings) == Some(false) {
            continue;
        }
        let parts = arguments(text.get(at + call.len()..)?);
        let keyword = parts.iter().find_map(|part| part.trim().strip_prefix(SWITCH)?.trim_start().strip_prefix('='));
        let second = parts.get(1).map(String::as_str).filter(|part| !part.contains('='));
        return Some(match keyword.or(second).map(str::trim) {
            None => true,
            // Where an argument of the Trainer's stands there, that has been read.
            Some(value) => python_literal(value) == Some(Value::Bool(true)),
        });
    }
    None
}

/// Says what peft's preparation does to a script's weights below adapters: quantised ones come with checkpointing, and
/// those of 16 bits, which with quantised weights are the norms, the embeddings and the head, are cast to fp32.
pub fn prepare(imported: &mut ImportedPlan, path: &str, text: &str, settings: &Settings) {
    if imported.get(keys::lora::rank).is_none() {
        return;
    }
    let quantised = imported.get(keys::lora::base_bits).is_some();
    let open = BITS.iter().find(|name| asks(text, settings) && loads(text, name, settings).is_none());
    if let Some(name) = open.filter(|_| !quantised) {
        not_modelled(imported, &format!("{path}: {name}, on a condition that is not followed"));
        imported.miss(keys::lora::base_bits, format!("{path} has {name}, which is not followed"));
    }
    let Some(checkpoints) = prepared(text, settings) else { return };
    let origin = Origin::Program(format!("{path}: prepare_model_for_…_training"));
    if quantised && checkpoints {
        imported.say(keys::training::activation_checkpointing, "full", origin.clone());
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
