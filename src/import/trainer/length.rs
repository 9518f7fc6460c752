//! How long the samples of a script are that takes its arguments from a command line or a file.

use super::super::common::ImportContext;
use super::super::concepts;
use super::super::idle_arguments;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::own_loop::cuts_to_the_longest;
use super::super::preset_length;
use super::super::python_models::models;
use super::super::script_defaults::script_of;
use super::super::script_modules::project_text;
use super::super::settings::{Fate, Settings, whole};
use crate::plan::keys;

/// The length of a sample has a name of its own in every script.
pub fn length(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const NAMES: [&str; 17] = [
        "block_size",
        "max_seq_length",
        "max_seq_len",
        "max_length",
        "model_max_length",
        "cutoff_len",
        "max_source_length",
        "seq_length",
        "max_tokens",
        "sequence_length",
        "max_sequence_length",
        "max_token_length",
        "max_total_length",
        "max_context_length",
        "seq_len",
        "max_len",
        "total_max_len",
    ];
    let default = |tokens: u64, option: &str| {
        Setting::new(tokens, Origin::Default { framework: "the script", option: option.to_owned() })
    };
    let (named, open) = by_section(settings, &NAMES);
    if let Some(why) = open {
        return imported.miss(keys::model::sequence_length, why);
    }
    // What a loop cuts its samples to is what one of its arguments says.
    let cut = settings.get("max_length").and_then(|found| whole(&found.value));
    if named.as_ref().is_some_and(|found| cut == Some(found.value)) {
        settings.accept("max_length");
    }
    let idle = named.as_ref().and_then(|found| never_read(&found.origin, context));
    let found = named.filter(|_| idle.is_none()).or_else(|| match context.program.name() {
        // min(the tokenizer's longest, 1024)
        "run_clm.py" | "run_clm_no_trainer.py" | "run_fim.py" | "run_mlm.py" => {
            let longest = preset_length::longest(imported, context).unwrap_or(1024);
            Some(default(longest.min(1024), "--block_size: the tokenizer's, at most 1024"))
        }
        "run_glue.py" => Some(default(128, "--max_seq_length 128")),
        "run_qa.py" => Some(default(384, "--max_seq_length 384")),
        "run_summarization.py" | "run_translation.py" => Some(default(1024, "--max_source_length 1024")),
        _ => None,
    });
    let found = found.or_else(|| other_length(imported, settings)).or_else(|| cut_by_tokenizer(imported, context));
    imported.set(keys::model::sequence_length, found);
    if let Some(why) = idle.filter(|_| imported.get(keys::model::sequence_length).is_none()) {
        imported.miss(keys::model::sequence_length, why);
    }
    let two = reads_and_writes(imported, context);
    let target = settings.first_whole(&["max_target_length", "target_max_len", "max_label_length"]).or_else(|| {
        match context.program.name() {
            "run_summarization.py" | "run_translation.py" => Some(default(128, "--max_target_length 128")),
            _ => None,
        }
    });
    let source = settings.first_whole(&["max_source_length", "source_max_len"]);
    let set = NAMES.iter().any(|name| *name != "max_source_length" && settings.is_set(name));
    match (source, target) {
        (_, target) if two => imported.set(keys::model::decoder_sequence_length, target),
        // A decoder reads both, one behind the other.
        (Some(source), Some(target)) if !set => {
            let origin = Origin::Derived(format!("{} + {}", source.origin, target.origin));
            imported.say(keys::model::sequence_length, source.value.saturating_add(target.value), origin);
        }
        _ => {}
    }
    preset_length::drop_endless(imported, context);
    imported.set(keys::training::padded_batch, settings.flag("pad_to_max_length"));
}

/// The first of several names that is set. Where sections of a file have different lengths, the one of its training or its
/// data counts, not the longest that the model takes; where that does not tell, why none does.
pub fn by_section(settings: &Settings, names: &[&str]) -> (Option<Setting<u64>>, Option<String>) {
    let section = |origin: &Origin| match origin {
        Origin::File { key, .. } => Some(key.rsplit_once('.').map_or("", |(above, _)| above).to_lowercase()),
        _ => None,
    };
    let set = names.iter().filter(|name| settings.is_set(name)).filter_map(|name| settings.whole(name));
    let all: Vec<(String, Setting<u64>)> = set.filter_map(|found| Some((section(&found.origin)?, found))).collect();
    let first = settings.first_whole(names);
    // Of a file without sections the first name counts.
    let sections = all.iter().any(|(above, _)| !above.is_empty());
    let Some(one) = first.as_ref().filter(|first| sections && section(&first.origin).is_some()) else {
        return (first, None);
    };
    let Some((_, other)) = all.iter().find(|(_, found)| found.value != one.value) else { return (first, None) };
    let of_samples = |above: &str| above.contains("train") || above.contains("data");
    let told: Vec<&Setting<u64>> = all.iter().filter(|(above, _)| of_samples(above)).map(|(_, found)| found).collect();
    match told.as_slice() {
        [only, rest @ ..] if rest.iter().all(|found| found.value == only.value) => (Some((*only).clone()), None),
        _ => (None, Some(format!("{} {} and {} {} are two lengths", one.origin, one.value, other.origin, other.value))),
    }
}

/// What the tokenizer of the preset leaves of a sample, where the script cuts them and says no length.
fn cut_by_tokenizer(imported: &ImportedPlan, context: &ImportContext) -> Option<Setting<u64>> {
    let (path, text) = script_of(context)?;
    let tokens = preset_length::of_tokenizer(imported, context)?;
    let whole = project_text(context, &path, &text);
    cuts_to_the_longest(&whole)
        .then(|| Setting::new(tokens, Origin::Program(format!("{path}: cut to what its tokenizer takes at most"))))
}

/// Whether a sample has two lengths, of what an encoder reads and of what a decoder writes: by the preset, else by the
/// class that the script loads or by its name.
fn reads_and_writes(imported: &ImportedPlan, context: &ImportContext) -> bool {
    const NAMES: [&str; 5] = ["summarization", "translation", "seq2seq", "t5", "bart"];
    const CLASSES: [&str; 4] = ["ForSeq2SeqLM", "T5ForConditionalGeneration", "BartForConditionalGeneration", "Marian"];
    if let Some(pair) = preset_length::is_pair(imported, context) {
        return pair;
    }
    let name = context.program.name().to_lowercase();
    let loads = |text: &str| models(text).iter().any(|class| CLASSES.iter().any(|known| class.contains(known)));
    NAMES.iter().any(|part| name.contains(part)) || script_of(context).is_some_and(|(_, text)| loads(&text))
}

/// Why an argument is no length of the run, given or by its default: the script makes its samples itself, and neither it nor a
/// module of its project that was read asks for the argument. TRL's own trainers ask for names of their own, and what is handed on whole may be asked for anywhere.
fn never_read(origin: &Origin, context: &ImportContext) -> Option<String> {
    const ASKED: [&str; 8] =
        ["SFTTrainer", "SFTConfig", "DPOConfig", "DPOTrainer", "RewardConfig", "vars(", "asdict(", "getattr("];
    let name = match origin {
        Origin::Default { framework: "the script", option } => option.split(' ').next()?.to_owned(),
        Origin::Argument(option) => option.trim_start_matches('-').replace('-', "_"),
        _ => return None,
    };
    let (path, text) = script_of(context)?;
    let text = project_text(context, &path, &text);
    let alone = idle_arguments::mentions(&text, &name) == 1;
    let makes = ["apply_chat_template(", "tokenizer(", "processor("].iter().any(|call| text.contains(call));
    let asked = ASKED.iter().any(|part| text.contains(part));
    (alone && makes && !asked)
        .then(|| format!("{path} declares {name} and does not read it: samples are as long as they are"))
}

/// The only length that a script has a name of its own for.
fn other_length(imported: &mut ImportedPlan, settings: &Settings) -> Option<Setting<u64>> {
    const SHORTEST: u64 = 16;
    let names: Vec<&str> = settings
        .fates()
        .filter(|(name, found, fate)| *fate == Fate::Unread && concepts::is_length(name, &found.value))
        .map(|(name, ..)| name)
        .collect();
    let [name] = names.as_slice() else { return None };
    // A part of a talk is no sample.
    if ["obs", "turn", "response", "answer"].iter().any(|part| name.contains(part)) {
        return None;
    }
    let found = settings.whole(name).filter(|found| found.value >= SHORTEST)?;
    imported.note(format!("{}: taken as the length of a sample", found.origin));
    Some(found)
}
