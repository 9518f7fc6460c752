//! What a reader asked for and did not understand, and what nobody asked for: both are said, but for names that are known
//! to change nothing.

mod cost_table;
mod costs;
mod names;

use crate::concepts;
use crate::imported::ImportedPlan;
use crate::inert::{is_inert, is_of_pictures, is_usual, section_that_tells};
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::run_length::note_steps;
use crate::settings::{Fate, Settings, UNKNOWN, is_open, text, truth, whole};
use names::{
    BESIDE_THE_STEP, DOUBTFUL, FURTHER_MODELS, HELD, IDLE_SECTIONS, MODELS, OTHER_WORDS, SYNONYMS, WEIGHTY,
    WITHOUT_BEARING,
};
use serde_json::{Map, Value};

/// No more names than this stand in one note.
const MOST_NAMES: usize = 24;

/// Notes what of `settings` was not understood, and what nobody read that may change a plan. A default that such a setting
/// may have gone over is taken out again.
pub fn account_for(imported: &mut ImportedPlan, settings: &Settings) {
    note_steps(imported, settings);
    let mut weighty = Vec::new();
    let mut unknown = Vec::new();
    let mut strange = Vec::new();
    // What a tower keeps of its pictures is said with it.
    let sees = imported.tower.is_some() || imported.notes.iter().any(|line| line.contains("vision tower"));
    let adapted = imported.get(keys::lora::rank).is_some();
    // Whose reader has found the file by these: `deepspeed.add_config_arguments` of a script of its own.
    let engine =
        imported.get(keys::distribution::engine).is_some_and(|found| found.value.as_str() == Some("deepspeed"));
    for (name, found, fate) in settings.fates() {
        let open = found.value.as_str().is_some_and(is_open);
        let told = fate != Fate::Misread
            && !is_in_a_section_that_is_off(settings, name)
            && costs::say(imported, name, found, &shown(&found.origin, name));
        match fate {
            Fate::Unread if open && has_bearing(name) && !is_inert(name) => misread(imported, name, found),
            Fate::Read => {}
            Fate::Unread if told => {}
            Fate::Unread if is_usual(name, &found.value) || (sees && is_of_pictures(name)) => {}
            Fate::Unread if is_where_adapters_are(imported, name, found) => {}
            Fate::Unread if is_of_no_experts(imported, name) => {}
            Fate::Unread if engine && matches!(name, "deepspeed" | "deepspeed_config") => {}
            Fate::Misread => misread(imported, name, found),
            Fate::Unread if is_in_a_section_that_is_off(settings, name) => {}
            Fate::Unread if is_configuration(name, found) => {
                let file = text(&found.value).unwrap_or_default();
                unknown.push(format!("{} {file}", shown(&found.origin, name)));
                imported.unread.get_or_insert(file);
            }
            Fate::Unread if is_weighty(name, found) => weighty.push(shown(&found.origin, name)),
            Fate::Unread => {
                doubt(imported, name, found);
                match concepts::of(in_section(name, &found.origin), &found.value, adapted) {
                    Some(keys) => {
                        let said = format!("{} {}", shown(&found.origin, name), brief(&found.value));
                        distrust(imported, keys, &said);
                        unknown.push(said);
                    }
                    None if has_bearing(name) && !is_inert(name) && !is_off(name, found) => {
                        strange.push(shown(&found.origin, name))
                    }
                    // What changes nothing is not worth a word.
                    None => {}
                }
            }
        }
    }
    if !unknown.is_empty() {
        imported.note(format!("not understood: {}", unknown.join(", ")));
    }
    if !weighty.is_empty() {
        imported.note(format!("not modelled: {}", weighty.join(", ")));
    }
    note_names(imported, "not known, may change what is held: ", strange);
}

/// The same of what stands in no section whose name `elsewhere` knows: those are read, or are of no bearing as a whole.
pub fn account_for_top(imported: &mut ImportedPlan, settings: &Settings, elsewhere: &[&str]) {
    let mut own = Settings::default();
    own.adopt_all(settings, |name| {
        let section = name.split('.').next().unwrap_or(name);
        (!elsewhere.contains(&section)).then(|| name.to_owned())
    });
    account_for(imported, &own);
}

/// The same of what a call of a script is given, but for `known` names and what has none.
pub fn account_for_call(imported: &mut ImportedPlan, given: &Settings, known: &[&str]) {
    let mut own = Settings::default();
    own.adopt_all(given, |name| {
        // What stands at a place has no name, an object's own fields neither: `from_pretrained(name, model_args)`.
        let place = name.split('.').next().unwrap_or(name);
        let placed = place.chars().all(|letter| letter.is_ascii_digit());
        // `device_map={"": device}` keeps the whole model on a rank's own GPU.
        if name == "device_map." {
            return None;
        }
        // A call's own argument may be an object that another call makes.
        let word = given.get(name).filter(|found| matches!(found.origin, Origin::Argument(_)));
        let open = word.and_then(|found| found.value.as_str()).is_some_and(is_open);
        (!placed && (open || !known.contains(&name))).then(|| name.to_owned())
    });
    account_for(imported, &own);
}

/// Notes names behind `what`, where there are any; a long list is cut.
fn note_names(imported: &mut ImportedPlan, what: &str, mut names: Vec<String>) {
    if names.is_empty() {
        return;
    }
    let rest = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    imported.note(format!("{what}{}{more}", names.join(", ")));
}

fn misread(imported: &mut ImportedPlan, name: &str, found: &Setting<Value>) {
    // `auto`: whoever is told so decides by itself; its reader knows.
    let value = text(&found.value).unwrap_or_else(|| match &found.value {
        Value::Array(_) | Value::Object(_) => found.value.to_string(),
        _ => UNKNOWN.to_owned(),
    });
    if value == "auto" || value.is_empty() {
        return;
    }
    let said = shown(&found.origin, name);
    let (said, why) =
        if value == UNKNOWN { (said, ", which only the run knows") } else { (format!("{said} {value}"), "") };
    imported.note(format!("not understood: {said}{why}"));
    let lower = name.to_lowercase();
    for (_, keys) in DOUBTFUL.iter().filter(|(part, _)| lower.contains(part)) {
        distrust(imported, keys, &said);
    }
}

/// A setting with the sections of its file around it: the batch of an evaluation is none of the training.
fn in_section<'a>(name: &'a str, origin: &'a Origin) -> &'a str {
    match origin {
        Origin::File { key, .. } if key.ends_with(name) => key,
        _ => name,
    }
}

/// Takes out what a framework does by itself, where a setting that may say otherwise was not understood.
fn distrust(imported: &mut ImportedPlan, keys: &[&'static str], said: &str) {
    for key in keys {
        imported.doubt(key, format!("{said} was not understood"));
    }
}

/// A value in a few letters.
fn brief(value: &Value) -> String {
    const LONGEST: usize = 40;
    let whole = text(value).unwrap_or_else(|| value.to_string());
    if whole.chars().count() <= LONGEST { whole } else { whole.chars().take(LONGEST).chain(['…']).collect() }
}

/// Whether a setting by another name says where adapters go, as the plan has it from the script's own call.
fn is_where_adapters_are(imported: &ImportedPlan, name: &str, found: &Setting<Value>) -> bool {
    let words = |value: &Value| match value {
        Value::Array(names) => names.iter().filter_map(text).collect::<Vec<_>>().join(","),
        other => text(other).unwrap_or_default().replace(' ', ","),
    };
    let told = imported.get(keys::lora::targets).map(|told| words(&told.value));
    name.ends_with("target_modules") && told.is_some_and(|told| told == words(&found.value))
}

/// Whether a setting is Megatron's, of a layer of experts that the model does not have: `moe_enable_deepep`.
fn is_of_no_experts(imported: &ImportedPlan, name: &str) -> bool {
    let core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
    let last = name.rsplit('.').next().unwrap_or(name).trim_start_matches(['-', '+']);
    core && last.starts_with("moe_") && !costs::has_experts(imported)
}

/// Whether a setting names a file that may say anything.
fn is_configuration(name: &str, found: &Setting<Value>) -> bool {
    const NAMES: [&str; 8] =
        ["config", "config_file", "config_path", "cfg", "cfg_path", "conf", "train_config", "training_config"];
    const ENDINGS: [&str; 4] = [".yaml", ".yml", ".toml", ".json"];
    let file = text(&found.value).is_some_and(|value| ENDINGS.iter().any(|ending| value.ends_with(ending)));
    file && NAMES.contains(&name) && matches!(found.origin, Origin::Argument(_))
}

/// Whether a setting says that something is not done.
fn is_off(name: &str, found: &Setting<Value>) -> bool {
    // Parallel over one rank is none.
    let one = name.to_lowercase().contains("parallel") && whole(&found.value) == Some(1);
    let nothing = found
        .value
        .as_str()
        .is_some_and(|word| matches!(word.to_lowercase().as_str(), "" | "none" | "null" | "disabled"));
    let empty = found.value.as_array().is_some_and(Vec::is_empty) || found.value.as_object().is_some_and(Map::is_empty);
    let zero = found.value.as_f64() == Some(0.0);
    one || nothing || empty || zero || truth(&found.value) == Some(false) || found.value.is_null()
}

/// Whether a section around a setting says of itself that it is not on: `peft.enabled: false` beside `peft.dim`.
fn is_in_a_section_that_is_off(settings: &Settings, name: &str) -> bool {
    let ends = name.match_indices('.').filter_map(|(at, _)| name.get(..at));
    let is_off = |section: &str, other: &str| {
        other.strip_prefix(section).is_some_and(|word| matches!(word, ".enabled" | ".enable"))
    };
    let off = |section: &str| {
        settings.iter().any(|(other, found)| is_off(section, other) && truth(&found.value) == Some(false))
    };
    ends.into_iter().any(off)
}

fn is_weighty(name: &str, found: &Setting<Value>) -> bool {
    let lower = name.to_lowercase();
    let path = lower.contains("path") && !MODELS.iter().any(|part| lower.contains(part));
    !is_off(name, found) && WEIGHTY.iter().any(|part| lower.contains(part)) && !path
}

/// Takes a default out that a setting nobody reads may stand for.
fn doubt(imported: &mut ImportedPlan, name: &str, found: &Setting<Value>) {
    let lower = name.to_lowercase();
    for key in SYNONYMS.iter().filter(|(end, _)| lower.ends_with(end)).flat_map(|(_, keys)| keys.iter()) {
        imported.doubt_default(key, format!("{} may say it, and is not known here", shown(&found.origin, name)));
    }
}

fn has_bearing(name: &str) -> bool {
    // `account_for_loss_in_pipeline_split` splits no data.
    const ALWAYS: [&str; 3] = ["pipeline", "recompute", "parallel_size"];
    if let Some(section) = section_that_tells(name) {
        return has_bearing(section);
    }
    let lower = OTHER_WORDS.iter().fold(name.to_lowercase(), |text, word| text.replace(word, "#"));
    let (sections, last) = lower.rsplit_once('.').map_or(("", lower.as_str()), |(sections, last)| (sections, last));
    let idle = sections == "scheduler"
        || begins_a_word(sections, &IDLE_SECTIONS)
        || (begins_a_word(last, &WITHOUT_BEARING) && !speaks_of_the_step(last));
    ALWAYS.iter().any(|part| lower.contains(part)) || last != "eps" && !idle
}

/// Whether a name has a word that speaks of what a step holds, and does not begin with one of something else.
fn speaks_of_the_step(name: &str) -> bool {
    const PLACES: [&str; 6] = ["path", "paths", "dir", "file", "files", "data"];
    let words = || name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let (first, last) = (words().next().unwrap_or(""), words().next_back().unwrap_or(""));
    // Of what lies somewhere a further model alone is held.
    let held = if PLACES.contains(&last) { &FURTHER_MODELS[..] } else { &HELD[..] };
    !BESIDE_THE_STEP.contains(&first) && words().any(|word| held.contains(&word))
}

/// Whether a word of a name begins with one of `parts`; one with a line in front stands anywhere.
fn begins_a_word(name: &str, parts: &[&str]) -> bool {
    let begins = |at: usize| {
        name.get(..at)
            .and_then(|before| before.chars().next_back())
            .is_none_or(|letter| !letter.is_ascii_alphanumeric())
    };
    parts.iter().any(|part| name.match_indices(part).any(|(at, _)| part.starts_with('_') || begins(at)))
}

fn shown(origin: &Origin, name: &str) -> String {
    match origin {
        Origin::File { name: file, line: Some(line), .. } => format!("{name} ({file}:{line})"),
        Origin::Argument(option) => option.clone(),
        _ => name.to_owned(),
    }
}
