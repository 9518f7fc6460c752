//! OmegaConf's settings: of files, classes and the command, one over the other (omegaconf/omegaconf.py).

use std::collections::BTreeMap;

use super::calls::CallArguments;
use super::evaluate::ARGV;
use super::script::FollowedScript;
use super::store::{Collection, Names};
use super::value::{ArgumentSource, Known};
use crate::origin::Origin;

/// No deeper settings are put over each other.
const DEEPEST: usize = 8;

impl FollowedScript<'_> {
    /// What a function of OmegaConf's gives, beside the file that it loads.
    pub(super) fn omega(&mut self, path: &str, given: &CallArguments) -> Option<Known> {
        let (owner, name) = path.rsplit_once('.')?;
        if owner.rsplit('.').next() != Some("OmegaConf") {
            return None;
        }
        match name {
            "to_container" | "to_object" => given.at(0).cloned(),
            "structured" => match given.at(0)? {
                Known::Class(class) => {
                    let (values, above) = self.inherited(&class.clone());
                    let names = Names { values, open: !above.is_empty(), ..Names::default() };
                    Some(Known::Collection(self.store.add(Collection::Names(names))))
                }
                object => Some(object.clone()),
            },
            "from_cli" => self.of_command(),
            "merge" | "unsafe_merge" => {
                let parts: Vec<Known> = given.placed.iter().map(|(value, _)| value.clone()).collect();
                let (first, others) = parts.split_first().filter(|_| !given.open)?;
                let merged = |all: Option<Known>, part: &Known| self.merged(&all?, part, 0);
                // What one that is not known has may stand in the place of anything.
                Some(others.iter().fold(Some(first.clone()), merged).unwrap_or(Known::UNKNOWN))
            }
            _ => None,
        }
    }

    /// The words `trainer.max_steps=10` of the command, as sections.
    fn of_command(&mut self) -> Option<Known> {
        let is_word =
            |origin: &Origin| matches!(origin, Origin::Argument(word) if !word.starts_with('-') && word != ARGV);
        let words = self.own.iter().filter(|(_, found)| is_word(&found.origin));
        let words: Vec<String> = words.map(|(name, _)| name.to_owned()).collect();
        let root = self.store.add(Collection::Names(Names::default()));
        for word in words {
            let value = self.own.get(&word)?.value.clone();
            let value = self.told(value).also(&ArgumentSource::argument(&word));
            let mut at = root;
            let (above, last) =
                word.rsplit_once('.').map_or((None, word.as_str()), |(above, last)| (Some(above), last));
            for section in above.into_iter().flat_map(|above| above.split('.')) {
                let known = self.store.names(at).and_then(|names| names.values.get(section)).cloned();
                let inner = match known {
                    Some(Known::Collection(inner)) => inner,
                    _ => self.store.add(Collection::Names(Names::default())),
                };
                self.store.set(at, section, Known::Collection(inner));
                at = inner;
            }
            self.store.set(at, last, value);
        }
        Some(Known::Collection(root))
    }

    /// Settings with those of another over them, section by section; none where either is not known.
    fn merged(&mut self, under: &Known, over: &Known, depth: usize) -> Option<Known> {
        let (Known::Collection(one), Known::Collection(two)) = (under, over) else { return None };
        let (mut names, over) = (self.store.names(*one)?.clone(), self.store.names(*two)?.clone());
        if over.open || depth > DEEPEST {
            return None;
        }
        let mut values = std::mem::take(&mut names.values);
        for (name, value) in over.values {
            let inner = match (values.get(&name), &value) {
                (Some(Known::Collection(_)), Known::Collection(_)) => {
                    let below = values.get(&name).cloned()?;
                    self.merged(&below, &value, depth + 1)
                }
                _ => None,
            };
            values.insert(name, inner.unwrap_or(value));
        }
        Some(Known::Collection(self.store.add(Collection::Names(Names { values, lines: BTreeMap::new(), ..names }))))
    }
}
