//! What variables, arguments and arithmetic of a shell stand for.

use super::{Script, UNSET};
use crate::expression;
use crate::settings::UNKNOWN;

impl Script {
    /// What a text that begins with `$` stands for, and how many bytes that uses up.
    pub(super) fn expanded(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> (String, usize) {
        const DEEPEST: usize = 16;
        if self.depth.get() > DEEPEST {
            return (UNKNOWN.to_owned(), text.len());
        }
        self.depth.set(self.depth.get() + 1);
        let expanded = self.expanded_once(text, known);
        self.depth.set(self.depth.get() - 1);
        expanded
    }

    fn expanded_once(&self, text: &str, known: &dyn Fn(&str) -> Option<String>) -> (String, usize) {
        if let Some(inner) = text.strip_prefix("$((") {
            let Some(end) = arithmetic_end(inner) else { return (String::new(), text.len()) };
            let value = self.counted(&inner[..end], known);
            return (value, end + "$((".len() + "))".len());
        }
        // `$'…'` is a quote of its own; `$[…]` the arithmetic of old.
        if text.starts_with("$'") || text.starts_with("$\"") {
            return (String::new(), 1);
        }
        if text.starts_with("$[") {
            let used = closing(text, '[', ']');
            return (self.counted(text.get(2..used.saturating_sub(1)).unwrap_or(""), known), used);
        }
        if let Some(inner) = text.strip_prefix('`') {
            let end = inner.find('`').unwrap_or(inner.len());
            return (self.output(&inner[..end], known), (end + "``".len()).min(text.len()));
        }
        if text.starts_with("$(") {
            let used = closing(text, '(', ')');
            return (self.output(text.get(2..used.saturating_sub(1)).unwrap_or(""), known), used);
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
            Some('0') => (known("0").unwrap_or_else(|| UNKNOWN.to_owned()), 2),
            Some(digit) if digit.is_ascii_digit() => (known(&name[..1]).unwrap_or_else(|| UNKNOWN.to_owned()), 2),
            Some('@' | '*') => (known("@").unwrap_or_default(), 2),
            Some('#') => (known("#").unwrap_or_else(|| UNKNOWN.to_owned()), 2),
            Some('?' | '$' | '!') => (UNKNOWN.to_owned(), 2),
            _ if end == 0 => ("$".to_owned(), 1),
            _ => (self.variable(&name[..end], known).unwrap_or_else(|| self.unset(&name[..end])), 1 + end),
        }
    }

    /// The value of an arithmetic expression.
    pub(super) fn counted(&self, inner: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let plain = inner.replace(['$', '{', '}'], "");
        // As a shell counts: what is not set, or is random, is zero; what a cluster sets nobody knows.
        let number = |name: &str| match self.variable(name, known).unwrap_or_else(|| unset(name)).trim() {
            "" => Some(0),
            _ if name == "RANDOM" => Some(0),
            text => text.parse().ok(),
        };
        // `$((${A:-4} * 2))`: what stands in braces first.
        let value =
            expression::whole(&plain, &number).or_else(|| expression::whole(&self.put_in(inner, known), &number));
        value.map_or_else(|| UNKNOWN.to_owned(), |value| value.to_string())
    }

    /// `name`, `name[@]`, `name[2]`, `name:-default`, `name##pattern`, `#name`, `name/old/new`; what another sign asks
    /// is unknown.
    fn parameter(&self, inner: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        if let Some(name) = inner.strip_prefix('#') {
            let name = name.trim_end_matches("[@]").trim_end_matches("[*]");
            let count = self.variables.get(name).filter(|_| inner.ends_with(']')).map(Vec::len);
            return count.map_or_else(|| UNKNOWN.to_owned(), |count| count.to_string());
        }
        let end = inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(inner.len());
        let (name, rest) = inner.split_at(end);
        if name.is_empty() {
            return self.all_arguments(inner, known);
        }
        if let Some((index, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && !matches!(index, "@" | "*")
        {
            let element = self.element(name, &self.put_in(index.trim_matches(['"', '\'']), known), known);
            return self.value_after(&element, behind, known);
        }
        let argument = name.starts_with(|letter: char| letter.is_ascii_digit());
        let value = if argument { known(name) } else { self.variable(name, known) };
        let value = value.filter(|value| value.is_empty() || !value.chars().all(|letter| letter == UNSET));
        let without = || if argument { UNKNOWN.to_owned() } else { self.unset(name) };
        let plain = |words: &str| self.put_in(words.trim_matches(['"', '\'']), known);
        if let Some(default) = [":-", ":=", "-", "="].iter().find_map(|sign| rest.strip_prefix(sign)) {
            return value.filter(|value| value != UNKNOWN && !value.is_empty()).unwrap_or_else(|| plain(default));
        }
        if let Some(other) = rest.strip_prefix(":+").or_else(|| rest.strip_prefix('+')) {
            return match value.as_deref() {
                Some(UNKNOWN) => UNKNOWN.to_owned(),
                None | Some("") => String::new(),
                Some(_) => plain(other),
            };
        }
        if rest.starts_with(":?") || rest.starts_with('?') {
            return value.unwrap_or_else(without);
        }
        self.value_after(&value.unwrap_or_else(without), rest, known)
    }

    /// `${@}`, `${@:2}`, where nobody gives the script any: nothing; `${!name}` is unknown.
    fn all_arguments(&self, inner: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let rest = inner.strip_prefix(['@', '*']);
        let first = match rest.map(|rest| rest.strip_prefix(':').map(|first| first.trim().parse::<usize>())) {
            Some(None) if rest == Some("") => Some(1),
            Some(Some(Ok(first))) => Some(first.max(1)),
            _ => None,
        };
        match (first, known("@").filter(|all| !all.is_empty()), known("#").and_then(|count| count.parse().ok())) {
            (None, ..) => UNKNOWN.to_owned(),
            (Some(_), None, _) => String::new(),
            (Some(1), Some(all), _) => all,
            (Some(first), Some(_), Some(count)) => {
                let words: Vec<String> = (first..=count).filter_map(|at| known(&at.to_string())).collect();
                words.join(" ")
            }
            _ => UNKNOWN.to_owned(),
        }
    }

    /// `: ${NAME:=words}`: a variable that is not set has these from then on.
    pub(super) fn fill_in(&mut self, text: &str, known: &dyn Fn(&str) -> Option<String>) {
        let mut rest = text;
        while let Some(braces) = rest.find("${").and_then(|at| rest.get(at + 1..)) {
            let end = closing(braces, '{', '}');
            let inner = braces.get(1..end.saturating_sub(1)).unwrap_or("");
            let named = inner.split_once(":=").or_else(|| inner.split_once('=')).map(|(name, _)| name);
            let plain = |name: &&str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
            if let Some(name) = named.filter(plain) {
                let value = self.parameter(inner, known);
                self.variables.insert(name.to_owned(), vec![value]);
            }
            rest = braces.get(end..).unwrap_or("");
        }
    }

    /// An element of a list, or of a table: `declare -A SIZES=([7b]=4096)`.
    fn element(&self, name: &str, index: &str, known: &dyn Fn(&str) -> Option<String>) -> String {
        let Some(words) = self.variables.get(name) else {
            let script = (name == "BASH_SOURCE").then(|| known(name).or_else(|| known("0"))).flatten();
            return script.unwrap_or_else(|| UNKNOWN.to_owned());
        };
        let key = format!("[{index}]=");
        if let Some(value) = words.iter().rev().find_map(|word| word.strip_prefix(&key)) {
            return value.trim_matches(['"', '\'']).to_owned();
        }
        let number = |name: &str| self.variable(name, known)?.trim().parse().ok();
        let at = expression::whole(index, &number).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| words.get(at))
            .filter(|word| !word.starts_with('['))
            .cloned()
            .unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// A variable that nobody has set: marked as such, but for what a cluster sets before the script begins.
    fn unset(&self, name: &str) -> String {
        let value = unset(name);
        if value.contains(UNSET) && self.is_surely_nothing(name) {
            return String::new();
        }
        if value.contains(UNSET) && !matches!(name, "HOME" | "USER" | "RANDOM" | "PATH" | "PYTHONPATH") {
            self.unset.borrow_mut().push(name.to_owned());
        }
        value
    }
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

/// Where the `))` stands that closes an arithmetic expansion, brackets inside it passed over.
fn arithmetic_end(inner: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in inner.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            ')' => return inner[at..].starts_with("))").then_some(at),
            _ => {}
        }
    }
    None
}

/// Bytes up to and with the bracket that closes the first one.
pub fn closing(text: &str, open: char, close: char) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1;
            }
        }
    }
    text.len()
}
