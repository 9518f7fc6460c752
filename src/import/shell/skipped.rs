//! Variables that only branches which are not taken set, and what else may give them a value.

use super::{Script, UNSET, assignment, declared};
use crate::settings::UNKNOWN;
use crate::unset::sets_up_the_shell;

impl Script {
    /// Whether what a condition asks is what the script itself sets, so that every run answers it alike: no variable in it
    /// comes from outside or is set nowhere.
    pub(super) fn decides_itself(&self, condition: &str) -> bool {
        if condition.contains('`') || ["${!", "$?", "$*", "$@"].iter().any(|sign| condition.contains(sign)) {
            return false;
        }
        let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_name = |name: &&str| name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        let own = |name: &str| {
            let unknown = |word: &String| word.contains(UNSET) || word.contains(UNKNOWN);
            self.variables.get(name).is_some_and(|words| !words.iter().any(unknown))
        };
        // In arithmetic a name needs no sign before it.
        if condition.contains("((") {
            return condition.split(|one| !letter(one)).filter(is_name).all(own);
        }
        let behind = condition.split('$').skip(1).map(|rest| rest.trim_start_matches(['{', '#']));
        let mut names = behind.map(|rest| rest.split(|one| !letter(one)).next().unwrap_or(""));
        names.all(|name| !is_name(&name) || own(name))
    }

    /// Notes the options that a statement of a branch which is not taken would set. A value of one option is none of them:
    /// where nothing gives it, it is missing.
    pub(super) fn skip(&mut self, statement: &str, surely: bool) {
        let words = statement.trim();
        let words = ["then ", "else "].iter().find_map(|word| words.strip_prefix(word)).unwrap_or(words);
        if let Some((name, _, value)) = assignment(declared(words.trim_start())) {
            // What a command inside it is told is no option: `$(shuf -n 1 -i 1024-65535)`.
            let value = value.split('`').next().and_then(|value| value.split("$(").next()).unwrap_or_default();
            let mut words = value.split_whitespace().map(|word| word.trim_start_matches(['(', '"', '\'']));
            let is_option = words.any(|word| word.starts_with('-'));
            *self.skipped.entry(name.to_owned()).or_insert(true) &= surely && is_option;
            self.doubt(name);
        }
    }

    /// Whether a variable is nothing in every run: only branches that none takes set it, and nothing that is not followed.
    pub(super) fn is_surely_nothing(&self, name: &str) -> bool {
        let unread = self.unread.iter().any(|path| !sets_up_the_shell(path));
        self.skipped.get(name) == Some(&true) && !unread && !self.may_set_any
    }

    /// Whether a branch sets a variable that the environment may hold as well.
    pub fn skips(&self, name: &str) -> bool {
        self.skipped.contains_key(name)
    }

    /// Takes in that a name which a branch would set was read from elsewhere: nobody knows what it holds.
    pub(super) fn read_unseen(&mut self, name: &str) {
        self.variables.remove(name);
        self.skipped.insert(name.to_owned(), false);
    }

    /// Notes a command that may set variables of any name: `eval "$(COMMAND)"`, `export $(cat FILE)`.
    pub(super) fn set_unseen(&mut self, statement: &str, command: &[String]) {
        let [first, words @ ..] = command else { return };
        let declares =
            declared(statement).len() != statement.len() && command.iter().any(|word| word.contains(UNKNOWN));
        self.may_set_any |= declares || first == "eval" && words.first().is_some_and(|word| word.starts_with(UNKNOWN));
    }
}
