//! What was probably meant.

use super::keywords::Word;
use super::schema::{self, PlanKey, ValueKind};
use super::values::short;

/// Characters of the longest name that may be a slip: the distance of a text of megabytes takes seconds.
const LONGEST_NAME: usize = 100;

/// How alike two names must be to be taken for a slip.
const ALIKE: f64 = 0.8;

/// The candidate that looks most like `name`, where one does.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.chars().nth(LONGEST_NAME).is_some() {
        return None;
    }
    let name = name.to_lowercase();
    candidates
        .map(|known| (likeness(&name, known), known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Jaro-Winkler favours a common beginning, the edit distance finds a slip anywhere.
fn likeness(name: &str, known: &str) -> f64 {
    // In a short name a single slip is a large part of it.
    let slip = name.len() > 2 && strsim::damerau_levenshtein(name, known) == 1;
    let alike = strsim::jaro_winkler(name, known).max(strsim::normalized_damerau_levenshtein(name, known));
    if slip { alike.max(0.9) } else { alike }
}

/// The path of a name in a section.
fn within(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// A key that its section does not have.
pub fn unknown_key(section: &str, name: &str) -> String {
    let shown = short(name);
    if let Some((outer, inner)) = name.rsplit_once('.').filter(|_| schema::key(&within(section, name)).is_some()) {
        return format!(
            "unknown key `{shown}`: a path is written in levels here; `{inner}` belongs under `{}`",
            within(section, outer)
        );
    }
    if let Some(known) = nearest(name, schema::children(section).map(|key| key.name())) {
        return format!("unknown key `{shown}`; did you mean `{known}`?");
    }
    if let Some(known) = schema::keys().iter().find(|key| key.name() == name) {
        let place = known.section();
        return if place.is_empty() {
            format!("unknown key `{shown}` here; it belongs at the top level")
        } else {
            format!("unknown key `{shown}` here; it belongs under `{place}`")
        };
    }
    let names: Vec<_> = schema::children(section).map(|key| key.name()).collect();
    format!("unknown key `{shown}`; known: {}", names.join(", "))
}

/// A key that no section has.
pub fn unknown_name(name: &str) -> String {
    let shown = short(name);
    match nearest(name, schema::keys().iter().map(|key| key.name())) {
        Some(known) => format!("unknown key `{shown}`; did you mean `{known}`?"),
        None => format!("unknown key `{shown}`; keys are written as in a plan: training.precision"),
    }
}

/// A word that is none of those the key knows.
pub fn unknown_word(key: &PlanKey, text: &str) -> String {
    let words = key.kind.words();
    let names = words.iter().map(|word| word.name).collect::<Vec<_>>().join(", ");
    let shown = if text.is_empty() { "nothing".to_owned() } else { format!("`{}`", short(text)) };
    let noun = match key.kind {
        ValueKind::Words(_) => "of the known words".to_owned(),
        _ => key.name().replace('_', " "),
    };
    let none = if matches!(key.kind, ValueKind::Words(_)) { "none" } else { "no" };
    let near = nearest_word(words, text).map_or_else(String::new, |word| format!(" nearest: `{word}`;"));
    format!("{shown} is {none} {noun};{near} known: {names}{}", elsewhere(key, text))
}

/// The key that knows a word which this one does not: DeepSpeed shards what another framework trains.
fn elsewhere(key: &PlanKey, text: &str) -> String {
    let knows = |other: &&PlanKey| {
        other.path != key.path && matches!(other.name(), "engine" | "framework") && has_word(other.kind.words(), text)
    };
    match schema::keys().iter().find(knows).filter(|_| matches!(key.name(), "engine" | "framework")) {
        Some(other) => format!("; write `{}: {}`", other.path, short(text)),
        None => String::new(),
    }
}

fn has_word(words: &[Word], text: &str) -> bool {
    words.iter().any(|word| word.name == text || word.aliases.contains(&text))
}

/// The word meant, by its main name even where an alias looks nearest.
fn nearest_word(words: &[Word], text: &str) -> Option<&'static str> {
    let names = words.iter().flat_map(|word| std::iter::once(&word.name).chain(word.aliases).copied());
    let known = nearest(text, names)?;
    words.iter().find(|word| word.name == known || word.aliases.contains(&known)).map(|word| word.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        assert_eq!(unknown_key("training", "precison"), "unknown key `precison`; did you mean `precision`?");
        let levels = "unknown key `lora.rank`: a path is written in levels here; `rank` belongs under `training.lora`";
        assert_eq!(unknown_key("training", "lora.rank"), levels);
        assert_eq!(unknown_key("", "trainning"), "unknown key `trainning`; did you mean `training`?");
        assert_eq!(unknown_key("model", "lr_schedule").split(';').next(), Some("unknown key `lr_schedule`"));
    }

    #[test]
    fn a_key_in_the_wrong_section_is_sent_to_its_own() {
        assert_eq!(unknown_key("model", "optimizer"), "unknown key `optimizer` here; it belongs under `training`");
    }

    #[test]
    fn words_name_the_nearest_and_all() {
        let key = schema::key("training.precision").unwrap();
        assert!(
            unknown_word(key, "bf61-mixed")
                .starts_with("`bf61-mixed` is no precision; nearest: `bf16-mixed`; known: fp32, tf32, bf16-mixed")
        );
        let key = schema::key("model.framework").unwrap();
        assert!(unknown_word(key, "hugginface").contains("nearest: `pytorch`"));
    }
}
