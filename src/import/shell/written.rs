//! Files and variables that a script fills with texts of its own.

use super::statements::Statement;
use super::{MAX_TEXT, Script, ShellCommand, Surroundings, UNSET, assignment};
use crate::settings::{UNKNOWN, UNKNOWN_OPTIONS};

/// No script that matters writes more files.
const MOST_FILES: usize = 64;

impl Script {
    /// Takes in what a statement writes: `cat > ds.json <<EOF`, `echo '{…}' > ds.json`, `read -d '' ARGS <<EOF`.
    pub(super) fn written(&mut self, before: usize, statement: &Statement, around: &Surroundings) {
        let known = around.variable;
        let Some(ShellCommand { words: command, .. }) = self.commands.get(before).cloned() else { return };
        let body = statement
            .document
            .as_ref()
            .map(|(body, expands)| if *expands { self.filled(&body.replace("\\\n", ""), known) } else { body.clone() });
        let name = command.first().map_or("", String::as_str);
        if command.iter().find(|word| assignment(word).is_none()).is_some_and(|word| word == "read") {
            // Of a sourced script each statement has been looked at by itself.
            if statement.text.contains("read") {
                self.read_into(&command, body);
            }
            return;
        }
        let at = command.iter().position(|word| word.starts_with('>'));
        let target = at.and_then(|at| {
            let sign = command.get(at)?;
            let joined = sign.trim_start_matches('>');
            Some((
                if joined.is_empty() { command.get(at + 1)?.clone() } else { joined.to_owned() },
                sign.starts_with(">>"),
            ))
        });
        self.edited(&command, target.as_ref().map(|(path, _)| path.as_str()), around.file);
        let text = match name {
            "cat" => body,
            "echo" | "printf" => {
                let words = command.get(1..at.unwrap_or(1)).unwrap_or_default();
                Some(words.iter().filter(|word| !word.starts_with('-')).cloned().collect::<Vec<_>>().join(" "))
            }
            "tee" => body,
            _ => None,
        };
        let target = target.or_else(|| (name == "tee").then(|| command.get(1).map(|path| (path.clone(), false)))?);
        let (Some((path, added)), Some(text)) = (target, text) else { return };
        if self.files.len() < MOST_FILES {
            self.changed.remove(&path);
            let old = if added { self.files.remove(&path).unwrap_or_default() } else { String::new() };
            self.files.insert(path, old + &text + "\n");
        }
    }

    /// `read -d '' ARGS <<EOF`, `read -ra ARGS <<< "$LINE"`: variables of a text; what comes from elsewhere only a run
    /// could tell, of a list even which options it holds.
    fn read_into(&mut self, command: &[String], body: Option<String>) {
        let words = command.iter().skip_while(|word| *word != "read").skip(1);
        let before: Vec<&String> = words.take_while(|word| !word.starts_with('<')).collect();
        if let (Some(variable), Some(body)) = (before.last(), body) {
            self.variables.insert((*variable).clone(), vec![body.trim_end().to_owned()]);
            return;
        }
        let options: String = before.iter().filter(|word| word.starts_with('-')).map(|word| word.as_str()).collect();
        let list = options.contains('a');
        let line = command.iter().position(|word| word.starts_with("<<<")).and_then(|at| {
            let joined = command.get(at)?.trim_start_matches('<');
            if joined.is_empty() { command.get(at + 1).map(String::as_str) } else { Some(joined) }
        });
        let apart = command.first().is_some_and(|word| word.starts_with("IFS="));
        let known = line.filter(|line| !apart && !line.contains([UNSET, '?']));
        let plain = |word: &&String| word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        let names: Vec<String> = before.into_iter().filter(plain).cloned().collect();
        for name in &names {
            if known.is_none() && self.skips(name) {
                self.read_unseen(name);
                continue;
            }
            let value = match known {
                Some(line) if list => line.split_whitespace().map(str::to_owned).collect(),
                Some(line) if names.len() == 1 => vec![line.trim().to_owned()],
                _ => vec![if list { UNKNOWN_OPTIONS } else { UNKNOWN }.to_owned()],
            };
            self.variables.insert(name.clone(), value);
        }
    }

    /// A text with its variables put in, those that nobody has set as unknown.
    fn filled(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        self.put_in(text, known).replace(UNSET, UNKNOWN)
    }

    /// A text with its variables put in.
    pub(super) fn put_in(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '`']) {
            if filled.len() > MAX_TEXT {
                break;
            }
            filled.push_str(&rest[..at]);
            if rest[..at].ends_with('\\') {
                filled.pop();
                filled.push_str(&rest[at..=at]);
                rest = &rest[at + 1..];
                continue;
            }
            let (value, used) = self.expanded(&rest[at..], known);
            filled.push_str(&value);
            rest = rest[at..].get(used.max(1)..).unwrap_or("");
        }
        filled + rest
    }
}
