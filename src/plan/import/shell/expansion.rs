//! What variables, arguments and arithmetic of a shell stand for.

use super::{Script, UNSET};
use crate::plan::import::expression;
use crate::plan::import::settings::UNKNOWN;

impl Script {
    /// What a text that begins with `$` stands for, and how many bytes that uses up.
    pub(super) fn expanded(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> (String, usize) {
        if let Some(inner) = text.strip_prefix("$((") {
            let Some(end) = inner.find("))") else { return (String::new(), text.len()) };
            let plain = inner[..end].replace(['$', '{', '}'], "");
            // As a shell counts: what is not set, or is random, is zero; what a cluster sets nobody knows.
            let number = |name: &str| match self.variable(name, known).unwrap_or_else(|| unset(name)).trim() {
                "" => Some(0),
                _ if name == "RANDOM" => Some(0),
                text => text.parse().ok(),
            };
            let value =
                expression::whole(&plain, &number).map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string());
            return (value, end + "$((".len() + "))".len());
        }
        if let Some(inner) = text.strip_prefix('`') {
            let end = inner.find('`').unwrap_or(inner.len());
            return (output(&inner[..end]), (end + "``".len()).min(text.len()));
        }
        if text.starts_with("$(") {
            let used = closing(text, '(', ')');
            return (output(text.get(2..used.saturating_sub(1)).unwrap_or("")), used);
        }
        if text.starts_with("${") {
            let used = closing(text, '{', '}');
            let inner = text.get(2..used.saturating_sub(1)).unwrap_or("");
            return (self.parameter(inner, known), used);
        }
        let name: &str = &text[1..];
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(name.len());
        match name.chars().next() {
            // `$1`: an argument of the script, `$@`: all of them.
            Some('0') => (UNKNOWN.to_owned(), 2),
            Some(digit) if digit.is_ascii_digit() => (known(&name[..1]).unwrap_or_else(|| UNKNOWN.to_owned()), 2),
            Some('@' | '*') => (known("@").unwrap_or_default(), 2),
            Some('#') => (known("#").unwrap_or_else(|| UNKNOWN.to_owned()), 2),
            Some('?' | '$' | '!') => (UNKNOWN.to_owned(), 2),
            _ if end == 0 => ("$".to_owned(), 1),
            _ => (self.variable(&name[..end], known).unwrap_or_else(|| unset(&name[..end])), 1 + end),
        }
    }

    /// `name`, `name[@]`, `name:-default`, `name##pattern`, `#name`, `name/old/new`; what another sign asks is unknown.
    fn parameter(&self, inner: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        if let Some(name) = inner.strip_prefix('#') {
            let name = name.trim_end_matches("[@]").trim_end_matches("[*]");
            let count = self.variables.get(name).filter(|_| inner.ends_with(']')).map(Vec::len);
            return count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string());
        }
        let end = inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        let argument = name.starts_with(|letter: char| letter.is_ascii_digit());
        let value = if argument { known(name) } else { self.variable(name, known) };
        let value = value.filter(|value| value.is_empty() || !value.chars().all(|letter| letter == UNSET));
        let default = [":-", ":=", "-", "="].iter().find_map(|sign| rest.strip_prefix(sign));
        match (value, default) {
            (value, None) => {
                let unknown = || if argument { UNKNOWN.to_owned() } else { unset(name) };
                let set = value.unwrap_or_else(unknown);
                cut(&set, rest)
            }
            (Some(value), Some(_)) if value != UNKNOWN && !value.is_empty() => value,
            // One level of variables in a default is followed, not more.
            (_, Some(default)) => {
                let words = default.trim_matches(['"', '\'']);
                let inner =
                    words.strip_prefix("${").and_then(|name| name.strip_suffix('}')).or(words.strip_prefix('$'));
                let named = |name: &str| self.variable(name, known).unwrap_or_else(|| unset(name));
                inner.map_or_else(
                    || words.to_owned(),
                    |inner| {
                        let plain = inner.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                        if plain { named(inner) } else { self.nested(inner, known) }
                    },
                )
            }
        }
    }

    /// `${A:-${B:-1}}`: the inner one without further ones in it.
    fn nested(&self, inner: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let (name, default) = inner.split_once(":-").unwrap_or((inner, ""));
        let value = self.variable(name, known).filter(|value| !value.is_empty());
        value.unwrap_or_else(|| {
            let plain = default.trim_matches(['"', '\'']);
            if plain.is_empty() || plain.contains('$') { UNKNOWN.to_owned() } else { plain.to_owned() }
        })
    }
}

/// A value with what a sign behind its name takes off: `##*/`, `%.yaml`, `/old/new`, `^^`.
fn cut(value: &str, sign: &str) -> String {
    if sign.is_empty() || sign == "[@]" || sign == "[*]" {
        return value.to_owned();
    }
    if value == UNKNOWN || value.contains(UNSET) {
        return UNKNOWN.to_owned();
    }
    let cut = if let Some(pattern) = sign.strip_prefix("##") {
        pattern.strip_prefix('*').and_then(|end| value.rfind(end).map(|at| &value[at + end.len()..]))
    } else if let Some(pattern) = sign.strip_prefix('#') {
        match pattern.strip_prefix('*') {
            Some(end) => value.find(end).map(|at| &value[at + end.len()..]),
            None => value.strip_prefix(pattern),
        }
    } else if let Some(pattern) = sign.strip_prefix("%%") {
        pattern.strip_suffix('*').and_then(|start| value.find(start).map(|at| &value[..at]))
    } else if let Some(pattern) = sign.strip_prefix('%') {
        match pattern.strip_suffix('*') {
            Some(start) => value.rfind(start).map(|at| &value[..at]),
            None => value.strip_suffix(pattern),
        }
    } else if sign == ",," {
        return value.to_lowercase();
    } else if sign == "^^" {
        return value.to_uppercase();
    } else if let Some((old, new)) = sign.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
        return if old.contains(['*', '?', '[']) { UNKNOWN.to_owned() } else { value.replace(old, new) };
    } else {
        return UNKNOWN.to_owned();
    };
    // A pattern with more signs of its own is not followed; one that does not match takes nothing off.
    let signs = sign.trim_start_matches(['#', '%']);
    let plain = signs.trim_start_matches('*').trim_end_matches('*');
    if plain.contains(['*', '?', '[', '$']) { UNKNOWN.to_owned() } else { cut.unwrap_or(value).to_owned() }
}

/// What a substituted command prints, where that can be told without running it: the present directory.
fn output(command: &str) -> String {
    if command.trim() == "pwd" { ".".to_owned() } else { UNKNOWN.to_owned() }
}

/// A variable that nobody has set: marked as such, but for what a cluster sets before the script begins.
fn unset(name: &str) -> String {
    if name == "PWD" {
        return ".".to_owned();
    }
    const CLUSTERS: [&str; 6] = ["MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "HOSTNAME", "SLURMD_NODENAME"];
    let clusters = CLUSTERS.contains(&name) || name.starts_with("SLURM_") || name.starts_with("PET_");
    if clusters { UNKNOWN.to_owned() } else { UNSET.to_string() }
}

/// Bytes up to and with the bracket that closes the first one.
fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    text.len()
}
