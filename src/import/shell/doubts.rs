//! Variables that a condition on the environment decides: `EXTRA=""; if [ "$LORA" = 1 ]; then EXTRA="--lora"; fi`.

use std::collections::{BTreeMap, BTreeSet};

use super::Script;

/// Variables by name, each with those of the environment that decide its value and that nobody sets.
pub type Doubts = BTreeMap<String, BTreeSet<String>>;

/// Parts of names that say where a run meets, writes and reports, and nothing of what it holds.
const OF_PLACES: [&str; 8] = ["ADDR", "PORT", "HOST", "WANDB", "LOG", "REPORT", "VISIBLE_DEVICES", "OUTPUT"];

impl Script {
    /// The variables of a condition that nobody sets.
    pub(super) fn asked_unset(&self, condition: &str, known: &dyn Fn(&str) -> Option<String>) -> BTreeSet<String> {
        let before = self.unset.take();
        self.raw_words(condition, known);
        self.unset.replace(before).into_iter().collect()
    }

    /// Notes that the condition which is read or passed over decides a variable. `[ -z "$A" ] && A=4` gives `A` its default.
    pub(super) fn doubt(&mut self, name: &str) {
        let is_place = OF_PLACES.iter().any(|part| name.to_uppercase().contains(part));
        if self.asking.is_empty() || self.asking.contains(name) || is_place {
            return;
        }
        self.doubts.entry(name.to_owned()).or_default().extend(self.asking.iter().cloned());
    }

    /// Takes in that a statement assigns a variable: one of doubtful ones is doubtful itself.
    pub(super) fn take_doubts(&mut self, statement: &str, name: &str, added: bool) {
        let used: BTreeSet<String> = self.doubts_of(statement, &[]).into_iter().map(|(_, asked)| asked).collect();
        if !added && self.asking.is_empty() {
            self.doubts.remove(name);
        }
        if !used.is_empty() {
            self.doubts.entry(name.to_owned()).or_default().extend(used);
        }
        self.doubt(name);
    }

    /// The doubtful variables of a command, each with one that decides it; those of `unset` are told otherwise.
    pub(super) fn doubts_of(&self, command: &str, unset: &[String]) -> Vec<(String, String)> {
        let uses = |name: &str| {
            let plain = format!("${name}");
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let stands = command.match_indices(&plain).any(|(at, _)| !command[at + plain.len()..].starts_with(letter));
            let braces = format!("${{{name}");
            stands || command.match_indices(&braces).any(|(at, _)| !command[at + braces.len()..].starts_with(letter))
        };
        let used = self.doubts.iter().filter(|(name, _)| uses(name) && !unset.contains(name));
        let used = used.filter(|(name, _)| crate::unset::matters(command, name));
        used.flat_map(|(name, asked)| asked.iter().map(|one| (name.clone(), one.clone()))).collect()
    }
}
