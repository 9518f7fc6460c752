//! The schema of the plan file: every key with its kind and a line that explains it.
//! Reading, editing, completion and the documentation all go by this one table.

use std::fmt;
use std::sync::LazyLock;

use super::fault::Fault;
use super::keys;
use super::keywords::Word;
use super::nearest::{unknown_key, unknown_name};

use crate::order::StableOrder;

/// One key of the plan file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanKey {
    /// Dotted path: `training.precision`.
    pub path: &'static str,
    /// What its value may be.
    pub kind: ValueKind,
    /// What it means, in one line.
    pub line: &'static str,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ValueKind {
    /// Further keys.
    Section,
    /// Any keys, which others define; or the path of a file that holds them.
    PathOrKeys,
    /// One of some words.
    Word(&'static [Word]),
    /// One of some words, or further keys.
    WordOrSection(&'static [Word]),
    /// A list of words from a set.
    Words(&'static [Word]),
    /// A whole number.
    Whole {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// One of some whole numbers.
    Choice(&'static [u64]),
    /// A list of whole numbers.
    Wholes {
        /// The smallest.
        min: u64,
        /// The largest.
        max: u64,
    },
    /// A number above 0.
    Positive {
        /// The largest.
        max: f64,
    },
    /// A number, 0 allowed.
    Amount {
        /// The largest.
        max: f64,
    },
    /// A share: 0 up to, but not, 1.
    Share,
    /// `true` or `false`.
    Flag,
    /// `true`, `false`, or a number of which 0 is false.
    FlagOrAmount,
    /// Any text.
    Text,
    /// A list of texts.
    Texts,
}

impl PlanKey {
    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The section that it stands in; empty for a section of the top.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }
}

impl ValueKind {
    /// The words to choose from, where there are some.
    #[must_use]
    pub const fn words(&self) -> &'static [Word] {
        match self {
            Self::Word(words) | Self::WordOrSection(words) | Self::Words(words) => words,
            _ => &[],
        }
    }

    /// Whether further keys of the schema may stand below.
    #[must_use]
    pub const fn holds_keys(&self) -> bool {
        matches!(self, Self::Section | Self::WordOrSection(_))
    }
}

impl fmt::Display for ValueKind {
    /// The rule in words: `a whole number from 1 to 1048576`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Section => f.write_str("a group of keys"),
            Self::PathOrKeys => f.write_str("the path of a file, or a group of keys"),
            Self::Word(words) => write!(f, "one of {}", names(words)),
            Self::WordOrSection(words) => write!(f, "one of {}, or a group of keys", names(words)),
            Self::Words(words) => write!(f, "a list out of {}", names(words)),
            Self::Whole { min, max } => write!(f, "a whole number from {min} to {max}"),
            Self::Choice(choices) => {
                let choices: Vec<_> = choices.iter().map(u64::to_string).collect();
                f.write_str(&choices.join(" or "))
            }
            Self::Wholes { min, max } => write!(f, "a list of whole numbers from {min} to {max}"),
            Self::Positive { max } => write!(f, "a number above 0, up to {}", short(*max)),
            Self::Amount { max } => write!(f, "a number from 0 to {}", short(*max)),
            Self::Share => f.write_str("a share from 0 up to, but not, 1"),
            Self::Flag => f.write_str("true or false"),
            Self::FlagOrAmount => f.write_str("true, false or a number from 0"),
            Self::Text => f.write_str("a text"),
            Self::Texts => f.write_str("a list of texts"),
        }
    }
}

fn names(words: &[Word]) -> String {
    words.iter().map(|word| word.name).collect::<Vec<_>>().join(", ")
}

fn short(number: f64) -> String {
    if number >= 1e6 { format!("{number:e}") } else { number.to_string() }
}

static KEYS: LazyLock<Vec<PlanKey>> = LazyLock::new(keys::all);

/// Every key, sections before what stands in them, in the contract's order.
#[must_use]
pub fn keys() -> &'static [PlanKey] {
    &KEYS
}

/// The key of that dotted path.
#[must_use]
pub fn key(path: &str) -> Option<&'static PlanKey> {
    KEYS.iter().find(|key| key.path == path)
}

/// The key that a person means by `name`: its dotted path, or its last parts where they say enough
/// (`batch_size`, `lora.rank`; of several keys with that name the one nearest the top).
///
/// # Errors
/// Where there is none, or there are several at the same depth.
pub fn named(name: &str) -> Result<&'static PlanKey, Fault> {
    if let Some(key) = key(name) {
        return Ok(key);
    }
    let depth = |key: &PlanKey| key.path.matches('.').count();
    let ends = |path: &str| path.strip_suffix(name).is_some_and(|ahead| ahead.is_empty() || ahead.ends_with('.'));
    let mut found: Vec<&PlanKey> = KEYS.iter().filter(|key| !name.is_empty() && ends(key.path)).collect();
    found.order_by_key(|key| depth(key));
    match found.as_slice() {
        [] if name.split('.').any(str::is_empty) => {
            Err(Fault::of(name, "names no key; keys are written as in a plan: training.precision"))
        }
        [] => {
            let (section, last) = name.rsplit_once('.').unwrap_or(("", name));
            let section = if key(section).is_some() { section } else { "" };
            // A slip in a key that was named by its last part alone is looked for in all sections.
            let message = match (section.is_empty(), name.rsplit_once('.')) {
                // The name is right, what stands before it is not.
                (true, Some((before, _))) if KEYS.iter().any(|key| key.name() == last) => {
                    let places: Vec<_> = KEYS.iter().filter(|key| key.name() == last).map(|key| key.path).collect();
                    format!("there is no `{before}` with a key `{last}`; did you mean {}?", places.join(" or "))
                }
                (true, _) => unknown_name(last),
                (false, _) => unknown_key(section, last),
            };
            Err(Fault::of(name, message))
        }
        [one, next, ..] if depth(one) == depth(next) => {
            let paths: Vec<_> = found.iter().map(|key| key.path).collect();
            Err(Fault::of(name, format!("could be any of {}; write it with its section", paths.join(", "))))
        }
        [one, ..] => Ok(one),
    }
}

/// The keys that stand directly in a section; of `""`, the sections of the top.
pub fn children(section: &str) -> impl Iterator<Item = &'static PlanKey> {
    KEYS.iter().filter(move |key| key.section() == section)
}

/// Whether `path` lies below a key whose own keys others define (`model.hf_config.…`).
#[must_use]
pub fn is_free(path: &str) -> bool {
    let above = path.rmatch_indices('.').map(|(at, _)| &path[..at]);
    above.filter_map(key).any(|key| key.kind == ValueKind::PathOrKeys)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_key_stands_once_in_a_section_that_may_hold_it_and_is_explained() {
        let mut seen = HashSet::new();
        for key in keys() {
            assert!(seen.insert(key.path), "{} twice", key.path);
            assert!(!key.line.is_empty() && !key.line.contains('\n'), "{}", key.path);
            let section = key.section();
            assert!(
                section.is_empty() || super::key(section).is_some_and(|above| above.kind.holds_keys()),
                "{section}"
            );
        }
    }

    #[test]
    fn the_top_has_the_contracts_sections_in_its_order() {
        let top: Vec<_> = children("").map(|key| key.path).collect();
        assert_eq!(top, ["model", "training", "hardware", "cluster", "distribution", "run", "analysis"]);
    }

    #[test]
    fn what_others_define_is_free_below_and_only_below() {
        assert!(is_free("model.hf_config.rope_scaling.factor"));
        assert!(!is_free("model.hf_config"));
        assert!(!is_free("model.architecture.moe.num_experts"));
    }

    #[test]
    fn a_key_may_be_named_by_its_last_part() {
        let path = |name| named(name).map(|key| key.path).map_err(|fault| fault.to_string());
        assert_eq!(path("training.precision").unwrap(), "training.precision");
        assert_eq!(path("batch_size").unwrap(), "model.batch_size");
        // training.dropout stands above training.lora.dropout.
        assert_eq!(path("dropout").unwrap(), "training.dropout");
        assert_eq!(path("batchsize").unwrap_err(), "batchsize: unknown key `batchsize`; did you mean `batch_size`?");
        let slip = path("training.precison").unwrap_err();
        assert!(slip.ends_with("did you mean `precision`?"), "{slip}");
        assert!(path("xyz").unwrap_err().contains("unknown key `xyz`"));
    }

    #[test]
    fn rules_read_as_words() {
        assert_eq!(ValueKind::Whole { min: 1, max: 4 }.to_string(), "a whole number from 1 to 4");
        assert_eq!(ValueKind::Choice(&[4, 8]).to_string(), "4 or 8");
        assert_eq!(ValueKind::Positive { max: 1e16 }.to_string(), "a number above 0, up to 1e16");
    }
}
