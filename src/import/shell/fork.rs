//! Conditions that only a run could tell: every branch is read, and what they leave alike is known behind them.

use std::collections::{BTreeMap, BTreeSet};

use super::joined::joined as shared;
use super::{Script, assignment};
use crate::settings::{UNKNOWN, UNKNOWN_OPTIONS};

type Variables = BTreeMap<String, Vec<String>>;
type WrittenFiles = BTreeMap<String, String>;

/// The branches of such a condition.
#[derive(Debug, Clone, Default)]
pub struct Fork {
    pub before: Variables,
    /// What is known at the end of each branch that goes on.
    pub ends: Vec<Variables>,
    /// Files that the script has written before, and by the end of each branch.
    pub files: WrittenFiles,
    pub written: Vec<WrittenFiles>,
    /// One of the branches is taken in any case.
    pub complete: bool,
    /// The present branch ends the script.
    pub left: bool,
    /// What the condition is where the script is given no argument, if it asks for that alone.
    pub without_arguments: Option<bool>,
}

impl Fork {
    /// What is known before a condition.
    pub fn before(script: &Script) -> Self {
        Self { before: script.variables.clone(), files: script.files.clone(), ..Self::default() }
    }

    pub fn end_branch(&mut self, reading: bool, script: &mut Script) {
        let end = std::mem::replace(&mut script.variables, self.before.clone());
        let files = std::mem::replace(&mut script.files, self.files.clone());
        if reading && !self.left {
            self.ends.push(end);
            self.written.push(files);
        }
        self.left = false;
    }

    /// The files of all branches; one that two of them write with other texts holds what only the run knows.
    fn join_files(&mut self, script: &mut Script) {
        let mut differs = BTreeSet::new();
        for (path, text) in std::mem::take(&mut self.written).into_iter().flatten() {
            let before = self.files.get(&path) == Some(&text);
            let now = script.files.get(&path);
            let other = now.is_some_and(|now| *now != text && self.files.get(&path) != Some(now));
            if before || differs.contains(&path) {
                continue;
            }
            if other {
                script.files.remove(&path);
                script.changed.insert(path.clone());
                differs.insert(path);
            } else {
                script.files.insert(path, text);
            }
        }
    }

    /// What all branches leave alike; the rest is unknown. A variable that holds an argument in one branch has what
    /// the other gives it: the script's own default, as of `${1:-default}`.
    pub fn join(mut self, script: &mut Script) {
        self.join_files(script);
        let Script { variables: now, arguments, .. } = script;
        if !self.complete {
            self.ends.push(self.before.clone());
        }
        if let (Some(first), [one, other]) = (self.without_arguments, self.ends.as_mut_slice()) {
            let (without, with) = if first { (one, other) } else { (other, one) };
            for (name, value) in without.iter().filter(|(name, _)| arguments.contains_key(*name)) {
                if with.get(name).is_some_and(|words| words.iter().all(|word| word == UNKNOWN)) {
                    with.insert(name.clone(), value.clone());
                }
            }
        }
        let Some(first) = self.ends.pop() else { return };
        let mut joined = first;
        for mut other in self.ends {
            // What one branch alone sets is no word of the others, whichever comes last.
            for name in joined.keys().filter(|name| !other.contains_key(*name)).cloned().collect::<Vec<_>>() {
                other.insert(name, Vec::new());
            }
            for (name, value) in other {
                let other = joined.get(&name);
                if let Some(words) = other.filter(|other| **other != value).and_then(|other| shared(other, &value)) {
                    joined.insert(name, words);
                } else if other != Some(&value) {
                    // Options in one branch may be anything in the command that takes them.
                    let options =
                        other.into_iter().flatten().chain(&value).any(|word| word.trim_start().starts_with("--"));
                    let word = if options { UNKNOWN_OPTIONS } else { UNKNOWN };
                    joined.insert(name, vec![word.to_owned()]);
                }
            }
        }
        *now = joined;
    }
}

impl Script {
    /// Remembers that a variable is given an argument of the script that nobody told, and nothing else.
    pub(super) fn keep_argument(&mut self, statement: &str, known: &dyn Fn(&str) -> Option<String>) {
        let Some((name, false, value)) = assignment(statement) else { return };
        let inner = value.trim().trim_matches('"').strip_prefix('$').unwrap_or_default();
        let number = inner.trim_start_matches('{').trim_end_matches('}').trim_end_matches(":-");
        if number.parse::<usize>().is_ok_and(|number| number > 0) && known(number).is_none() {
            self.arguments.insert(name.to_owned(), number.to_owned());
        }
    }
}

/// Whether a condition holds of a script without arguments, where it asks no more than whether there is one:
/// `[ -z "$1" ]`, `[ "$STAGE" == "" ]` behind `STAGE=$2`, `[ $# -lt 2 ]`. `arguments` are the variables that hold one.
pub fn without_arguments(condition: &str, arguments: &BTreeMap<String, String>) -> Option<bool> {
    let plain = condition.trim().trim_start_matches("test ").trim_matches(['[', ']', ' ']);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let (asked, without) = match words.as_slice() {
        ["!", "-z", one] | ["-n", one] | [one, "!=", "\"\"" | "''"] => (one, false),
        ["!", "-n", one] | ["-z", one] | [one, "=" | "==", "\"\"" | "''"] => (one, true),
        ["$#" | "\"$#\"", sign, count] => {
            let count: u64 = count.parse().ok()?;
            return match *sign {
                "-lt" | "-ne" => Some(count > 0),
                "-le" => Some(true),
                "-eq" | "-ge" => Some(count == 0),
                "-gt" => Some(false),
                _ => None,
            };
        }
        _ => return None,
    };
    let name = asked.trim_matches('"').strip_prefix('$')?.trim_start_matches('{').trim_end_matches('}');
    let name = name.trim_end_matches(":-").trim_end_matches('-');
    let is_argument = name.parse::<usize>().is_ok_and(|number| number > 0) || arguments.contains_key(name);
    is_argument.then_some(without)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::without_arguments;

    #[test]
    fn conditions_on_arguments_alone() {
        let arguments = BTreeMap::from([("STAGE".to_owned(), "2".to_owned())]);
        for (condition, meant) in [
            ("[ \"$STAGE\" == \"\" ]", Some(true)),
            ("[ -z \"$1\" ]", Some(true)),
            ("[[ -n ${2:-} ]]", Some(false)),
            ("[ $# -lt 1 ]", Some(true)),
            ("[ \"$#\" -ge 2 ]", Some(false)),
            ("[ -z \"$OTHER\" ]", None),
            ("[ -z \"$0\" ]", None),
            ("[ -f \"$1\" ]", None),
            ("[ \"$1\" = \"fp16\" ]", None),
        ] {
            assert_eq!(without_arguments(condition, &arguments), meant, "{condition}");
        }
    }
}
