//! Loops of a script: over words, and those that count (`for ((i=0; i<8; i++))`) where they only put a list together.

use super::statements::Statement;
use super::{Script, assignment};
use crate::settings::UNKNOWN;

/// Whether a statement begins a loop that counts, and what stands in it does nothing but assign.
pub fn only_assigns(statement: &str, behind: &[Statement]) -> bool {
    const WORDS: [&str; 8] = ["do", "done", "if", "then", "elif", "else", "fi", ""];
    if !statement.trim_start().starts_with("for ((") {
        return false;
    }
    for one in behind {
        let mut rest = one.text.trim();
        for word in ["do", "then", "else"] {
            rest = rest.strip_prefix(word).filter(|rest| rest.starts_with([' ', '\n'])).map_or(rest, str::trim);
        }
        let word = rest.split([' ', '\t']).next().unwrap_or_default();
        if word == "done" {
            return true;
        }
        if !WORDS.contains(&word) && assignment(rest).is_none() {
            return false;
        }
    }
    false
}

impl Script {
    /// `NAME in WORDS`: the first word is set where all are known, the others come back, the next one last; else
    /// nobody knows which.
    pub(super) fn loop_over(&mut self, header: &str, known: &dyn Fn(&str) -> Option<String>) -> (String, Vec<String>) {
        const MOST_TURNS: usize = 16;
        let Some((name, list)) = header.split_once(" in ") else {
            if let Some(turns) = self.counted_loop(header, known).filter(|_| self.counts) {
                return turns;
            }
            let name: String = header
                .trim_start_matches(['(', ' '])
                .chars()
                .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                .collect();
            self.variables.insert(name, vec![UNKNOWN.to_owned()]);
            return Default::default();
        };
        let name = name.trim().to_owned();
        let mut words = self.words(list, known);
        words.reverse();
        let open = |word: &String| word.contains(['{', '*', '?']);
        let first = words.pop().filter(|first| !open(first) && words.len() < MOST_TURNS && !words.iter().any(open));
        let left = if first.is_some() { words } else { Vec::new() };
        self.variables.insert(name.clone(), vec![first.unwrap_or_else(|| UNKNOWN.to_owned())]);
        (name, left)
    }

    /// The variable of `((i=0; i<N; i++))`, set to its first value, and the others, the next one last.
    fn counted_loop(&mut self, header: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<(String, Vec<String>)> {
        const MOST_TURNS: i64 = 512;
        let inner = header.trim().strip_prefix("((")?.split_once("))")?.0;
        let [start, end, step] = inner.split(';').map(str::trim).collect::<Vec<_>>().try_into().ok()?;
        let (name, start) = start.split_once('=')?;
        let name = name.trim();
        let number = |text: &str| self.counted(text, known).parse::<i64>().ok();
        let (end, last) = match end.strip_prefix(name)?.trim().strip_prefix('<')? {
            rest if rest.starts_with('=') => (number(rest.get(1..)?)?, 1),
            rest => (number(rest)?, 0),
        };
        let one = [format!("{name}++"), format!("++{name}"), format!("{name}+=1")];
        let start = number(start)?;
        let end = end.checked_add(last)?;
        if !one.contains(&step.replace(' ', "")) || start >= end || end.checked_sub(start)? > MOST_TURNS {
            return None;
        }
        let left = (start + 1..end).rev().map(|at| at.to_string()).collect();
        self.variables.insert(name.to_owned(), vec![start.to_string()]);
        Some((name.to_owned(), left))
    }

    /// Whether `((A < B))` holds.
    pub(super) fn compares(&self, comparison: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<bool> {
        let number = |text: &str| self.counted(text.trim(), known).parse::<i64>().ok();
        for sign in ["==", "!=", "<=", ">=", "<", ">"] {
            let Some((one, other)) = comparison.split_once(sign) else { continue };
            let order = number(one)?.cmp(&number(other)?);
            return Some(match sign {
                "==" => order.is_eq(),
                "!=" => order.is_ne(),
                "<=" => order.is_le(),
                ">=" => order.is_ge(),
                "<" => order.is_lt(),
                _ => order.is_gt(),
            });
        }
        number(comparison).map(|value| value != 0)
    }

    /// `printf -v NAME FORMAT WORDS`, with as many `%s` and `%d` as words.
    pub(super) fn print_into(&mut self, words: &[String]) {
        let [name, format, words @ ..] = words else { return };
        let pieces: Vec<&str> = format.split("%s").flat_map(|part| part.split("%d")).collect();
        let followed = pieces.len() == words.len() + 1 && !pieces.iter().any(|piece| piece.contains(['%', '\\']));
        let known = followed && !words.iter().any(|word| word == UNKNOWN);
        let mut text = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            text.push_str(piece);
            text.extend(words.get(at).map(String::as_str));
        }
        self.variables.insert(name.clone(), vec![if known { text } else { UNKNOWN.to_owned() }]);
    }

    /// What `IFS=', '; echo "${list[*]}"` prints: the elements with the first sign between them.
    pub(super) fn printed_apart(&self, command: &str) -> Option<String> {
        let (sign, echo) = command.trim().strip_prefix("IFS=")?.split_once(&[';', '\n'][..])?;
        let sign = sign.trim().trim_matches(['"', '\'']).chars().next()?;
        let list = echo.trim().strip_prefix("echo ")?.trim().trim_matches('"');
        let name = list.strip_prefix("${")?.strip_suffix("[*]}")?;
        Some(self.variables.get(name)?.join(&sign.to_string()))
    }
}
