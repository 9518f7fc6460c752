//! How long the samples of a script in Python are that has its settings in calls.

use super::idle_arguments;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::own_loop;
use super::python::ScriptReader;
use super::script_defaults;
use super::script_doubts::code;
use super::settings::{Settings, whole};
use super::trainer::length_by_section;
use crate::plan::keys;

/// What scripts call the longest sample, where no argument of the trainer says it.
pub const LENGTHS: [&str; 12] = [
    "max_seq_length",
    "max_length",
    "cutoff_len",
    "CUTOFF_LEN",
    "MAX_SEQ_LENGTH",
    "MAX_LENGTH",
    "max_seq_len",
    "seq_length",
    "seq_len",
    "max_len",
    "block_size",
    "model_max_length",
];

/// The length of a sample: by the trainer's arguments, else by a name of the script's own, else by its tokenizer.
/// A name that only a file of settings has is asked for by nobody.
pub fn set(
    imported: &mut ImportedPlan,
    settings: &Settings,
    reader: &ScriptReader,
    (name, content): (&str, &str),
    // Its text with those of its project's modules, and without what nothing calls in them.
    (whole_text, called): (&str, &str),
) {
    let (told, open) = length_by_section(settings, &["max_seq_length", "max_length"]);
    if let Some(why) = open {
        return imported.miss(keys::model::sequence_length, why);
    }
    imported.set(keys::model::sequence_length, told);
    imported.fill(keys::model::sequence_length, of_tokenizer(reader, whole_text));
    let given = |name: &str| reader.own().get(name).is_some_and(|found| matches!(found.origin, Origin::Argument(_)));
    // A name that is given a value, or declared for a command line, and then never asked for decides nothing.
    let idle = idle_arguments::names(&script_defaults::read(name, content), whole_text);
    let asks = |name: &&str| {
        given(name)
            || (idle_arguments::mentions(whole_text, name) > assigned(whole_text, name)
                && !idle.iter().any(|idle| idle == name)
                && !is_field_alone(whole_text, name))
    };
    let asked: Vec<&str> = LENGTHS.into_iter().filter(asks).collect();
    imported.fill(keys::model::sequence_length, reader.named(&asked).first_whole(&asked));
    let cut = [content, called].into_iter().find_map(|text| own_loop::truncated(text, reader));
    let cut = cut.as_ref().and_then(whole);
    let origin = || Origin::Program(format!("{name}: max_length of its tokenizer"));
    imported.fill(keys::model::sequence_length, cut.map(|tokens| Setting::new(tokens, origin())));
}

/// Whether a name is a field of a class, `max_length: int = field(`, that nobody takes from an object: others of that name
/// are parameters of functions.
fn is_field_alone(text: &str, name: &str) -> bool {
    let declares = |line: &str| {
        let behind = line.trim_start().strip_prefix(name).map(str::trim_start);
        behind.and_then(|rest| rest.strip_prefix(':')?.split_once("= field(")).is_some()
    };
    // An attribute of a class's own object is another's.
    let taken = |(at, _): (usize, &str)| !text.get(..at).is_some_and(|before| before.ends_with("self"));
    text.lines().any(declares) && !text.match_indices(&format!(".{name}")).any(taken)
}

/// How often a statement gives a name a value.
fn assigned(text: &str, name: &str) -> usize {
    let gives = |line: &str| {
        let behind = line.trim_start().strip_prefix(name).map(str::trim_start);
        behind
            .and_then(|rest| rest.strip_prefix('='))
            .is_some_and(|rest| !rest.starts_with('=') && !rest.trim_end().ends_with(','))
    };
    text.lines().filter(|line| gives(line)).count()
}

/// Whether a script has TRL's trainer leave its samples alone: they are as long as the script's own collator makes them
/// (`trl/trainer/sft_trainer.py`, `dataset_kwargs`).
pub fn prepares_itself(text: &str) -> bool {
    code(text).any(|line| {
        let line = line.replace(['"', '\'', ' '], "");
        line.contains("skip_prepare_dataset:True") || line.contains("skip_prepare_dataset=True")
    })
}

/// Takes TRL's own longest sample out where its trainer cuts none.
pub fn leave_uncut(settings: &mut Settings, imported: &mut ImportedPlan, reader: &ScriptReader) -> bool {
    let uncut = prepares_itself(reader.content());
    if uncut {
        for name in ["max_length", "max_seq_length"] {
            if settings.get(name).is_some_and(|found| matches!(found.origin, Origin::Default { .. })) {
                settings.set(name, serde_json::Value::Null, Origin::Program(String::new()));
            }
        }
        let why = format!("{}: samples are as long as its collator makes them", reader.name());
        imported.miss(keys::model::sequence_length, why);
    }
    uncut
}

/// What the script makes its tokenizer with, where it cuts to that: `max_length=tokenizer.model_max_length`.
fn of_tokenizer(reader: &ScriptReader, text: &str) -> Option<Setting<u64>> {
    if !code(text).any(|line| line.contains("tokenizer.model_max_length")) {
        return None;
    }
    let loads = reader.loaded(|class| class.contains("Tokenizer"));
    let loads: Vec<&str> = loads.iter().map(String::as_str).collect();
    reader.calls(&loads).whole("model_max_length").filter(|found| found.value > 0)
}

/// What TRL's trainer takes where nobody says a length: the tokenizer's, at most 1024 (`trl/trainer/sft_trainer.py` before
/// 0.20; `SFTConfig.max_length` since); unsloth's loader has one of its own (`unsloth/models/loader.py`,
/// `FastLanguageModel.from_pretrained`), which the patched trainer takes.
pub fn set_usual(imported: &mut ImportedPlan, unsloth: bool) {
    let (framework, tokens) = if unsloth { ("unsloth", 2048) } else { ("TRL", 1024) };
    let option = format!("max_seq_length {tokens}");
    imported.fill(keys::model::sequence_length, Some(Setting::new(tokens, Origin::Default { framework, option })));
}
