//! Files and variables that a script fills with texts of its own.

use super::statements::Statement;
use super::{MAX_TEXT, Script, ShellCommand, Surroundings, UNSET};
use crate::plan::import::settings::UNKNOWN;

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
        if name == "read" {
            let variable = command.iter().skip(1).take_while(|word| !word.starts_with("<<")).last();
            if let (Some(variable), Some(body)) = (variable, body) {
                self.variables.insert(variable.clone(), vec![body.trim_end().to_owned()]);
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
