//! Values in a Python script as far as they can be told without running it: literals, names that are assigned once,
//! the script's own arguments with what a command gives them, arithmetic over whole numbers.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::Value;

use super::expression;
use super::origin::Origin;
use super::python_calls::call;
use super::python_expressions;
use super::script_defaults;
use super::settings::{Settings, UNKNOWN, whole};
use super::text::{self, python_literal};

/// No longer chain of names is followed.
const DEEPEST: usize = 6;

/// A script that is read.
pub struct ScriptReader<'a> {
    name: &'a str,
    content: &'a str,
    globals: Settings,
    /// The script's own arguments: their defaults, and what its command gives.
    own: Settings,
    /// Those of them that are nothing where nobody gives them.
    nothing: BTreeSet<String>,
    /// Whether a default of those was taken.
    pub asked: Cell<bool>,
    /// Whether a file of settings was asked for a name that it has not: no run comes there.
    pub absent: Cell<bool>,
    /// Whether a value is one that the script divides among its ranks later.
    pub divided: Cell<bool>,
    /// Whether a call takes keywords from what is not followed: `TrainingArguments(**kwargs)`.
    pub open: Cell<bool>,
}

impl<'a> ScriptReader<'a> {
    /// A reader of a script with its own arguments, over which `given` goes.
    pub fn new(name: &'a str, content: &'a str, given: Settings) -> Self {
        Self {
            name,
            content,
            globals: text::python(name, content),
            own: script_defaults::read(name, content).with(given),
            nothing: script_defaults::nothing(content),
            asked: Cell::new(false),
            absent: Cell::new(false),
            divided: Cell::new(false),
            open: Cell::new(false),
        }
    }

    /// The keywords of the first call of one of `names`; an argument without a name is called by its place.
    pub fn calls(&self, names: &[&str]) -> Settings {
        let mut settings = Settings::default();
        let found = names.iter().filter_map(|name| {
            let at = call(self.content, name)?;
            Some((at, at + name.len() + 1))
        });
        let Some((_, start)) = found.min() else { return settings };
        let line = self.content.get(..start).map_or(1, |before| before.lines().count());
        for (place, part) in arguments(self.content.get(start..).unwrap_or("")).into_iter().enumerate() {
            let part = part.trim();
            let keyword = part.split_once('=').filter(|(name, rest)| {
                !rest.starts_with('=')
                    && name.trim().chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
            });
            // `TrainingArguments(**kwargs)`: a dictionary of the script's own.
            if let Some(table) = part.strip_prefix("**").and_then(|name| self.table(name.trim())) {
                settings.over(table);
                continue;
            }
            // `TrainingArguments(**config["training"])`: whatever a file of settings has.
            if part.starts_with("**") {
                let filled = self.own.iter().any(|(name, _)| self.own.is_set(name));
                self.open.set(self.open.get() || !filled);
                let mut whole = self.own.clone();
                whole.over(std::mem::take(&mut settings));
                settings.adopt_all(&whole, |name| (!name.contains('.')).then(|| name.to_owned()));
                continue;
            }
            let (key, value) = match keyword {
                Some((name, value)) => (name.trim().to_owned(), value.trim()),
                None => (place.to_string(), part),
            };
            let before = self.content.get(..start).map_or(0, str::len);
            let within = self.content.get(before..).and_then(|rest| rest.find(part)).unwrap_or(0);
            let lines = self.content.get(start..start + within).map_or(0, |text| text.matches('\n').count());
            let origin = Origin::File { name: self.name.to_owned(), line: Some(line + lines), key: key.clone() };
            settings.set(&key, self.value(value, 0), origin);
        }
        settings
    }

    /// What a dictionary that the script puts together holds: `name = {"a": 1}`, `name = dict(a=1)`, and
    /// `name["b"] = 2` after it.
    fn table(&self, name: &str) -> Option<Settings> {
        let plain = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if name.is_empty() || !plain(name) {
            return None;
        }
        let [(at, right)] = assignments(self.content, name, false).try_into().ok()?;
        let (brace, sign) = if right.starts_with('{') { ("{", ':') } else { ("dict(", '=') };
        let mut settings = Settings::default();
        let line = |at: usize| Some(self.content.get(..at).map_or(1, |before| before.matches('\n').count() + 1));
        let mut put = |key: &str, value: &str, line: Option<usize>| {
            let key = key.trim().trim_matches(['"', '\'']).to_owned();
            // What is put in later, perhaps on a condition, leaves the first value open.
            let value = if settings.get(&key).is_some() { UNKNOWN.into() } else { self.value(value.trim(), 0) };
            settings.set(&key, value, Origin::File { name: self.name.to_owned(), line, key: key.clone() });
        };
        for part in arguments(right.strip_prefix(brace).and(self.content.get(at + brace.len()..))?) {
            let Some((key, value)) = part.split_once(sign) else { continue };
            let within = self.content.get(at..).and_then(|rest| rest.find(part.trim())).unwrap_or(0);
            put(key, value, line(at + within));
        }
        let start = format!("{name}[");
        for (at, _) in self.content.match_indices(&start) {
            let rest = self.content.get(at + start.len()..).unwrap_or("").lines().next().unwrap_or("");
            if let Some((key, value)) = rest.split_once("] = ") {
                put(key, value, line(at));
            }
        }
        Some(settings)
    }

    /// What `name = dict(…)` at the left margin holds, dictionaries in it as dotted names behind `name`.
    pub fn section(&self, name: &str) -> Settings {
        let mut settings = Settings::default();
        let start = format!("\n{name} = dict(");
        let Some(at) = self.content.find(&start).map(|at| at + start.len()) else { return settings };
        let line = self.content.get(..at).map_or(1, |before| before.lines().count());
        self.entries(self.content.get(at..).unwrap_or(""), name, line, &mut settings);
        settings
    }

    fn entries(&self, text: &str, above: &str, line: usize, settings: &mut Settings) {
        if above.matches('.').count() > DEEPEST {
            return;
        }
        for part in arguments(text) {
            let Some((key, value)) = part.split_once('=') else { continue };
            let key = format!("{above}.{}", key.trim());
            let within =
                text.find(part.trim()).and_then(|at| text.get(..at)).map_or(0, |text| text.matches('\n').count());
            match value.trim().strip_prefix("dict(") {
                Some(inner) => self.entries(inner, &key, line + within, settings),
                None => {
                    let origin =
                        Origin::File { name: self.name.to_owned(), line: Some(line + within), key: key.clone() };
                    settings.set(&key, self.value(value.trim(), 0), origin);
                }
            }
        }
    }

    /// The first of `names` that the script has a whole number for: a name of its own, or an argument.
    pub fn named(&self, names: &[&str]) -> Settings {
        let mut settings = Settings::default();
        for name in names {
            let value = self.value(name, 0);
            if whole(&value).is_some_and(|number| number > 0) {
                let origin = Origin::File { name: self.name.to_owned(), line: None, key: (*name).to_owned() };
                settings.set(name, value, origin);
                break;
            }
        }
        settings
    }

    /// Whether the first call of one of `names` is reached: none where a condition around it is not followed.
    pub fn reached(&self, names: &[&str]) -> Option<bool> {
        let Some(at) = names.iter().filter_map(|name| call(self.content, name)).min() else { return Some(true) };
        let before = self.content.get(..at).unwrap_or("");
        let indent = |line: &str| line.len() - line.trim_start().len();
        let mut lines: Vec<&str> = before.lines().collect();
        let mut inner = if before.ends_with('\n') { usize::MAX } else { lines.pop().map_or(0, indent) };
        let mut reached = Some(true);
        for line in lines.iter().rev() {
            let bare = line.trim();
            if bare.is_empty() || bare.starts_with(['#', ')']) || indent(line) >= inner {
                continue;
            }
            inner = indent(line);
            if let Some(condition) = bare.strip_prefix("if ").and_then(|rest| rest.split(':').next()) {
                match self.holds(condition) {
                    Some(true) => {}
                    Some(false) => return Some(false),
                    None => reached = None,
                }
            } else if bare.starts_with("else") || bare.starts_with("elif ") {
                reached = None;
            }
            if inner == 0 {
                break;
            }
        }
        reached
    }

    /// Whether a condition holds: a name, its opposite, or a comparison with a literal.
    fn holds(&self, condition: &str) -> Option<bool> {
        let condition = condition.trim();
        if let Some(rest) = condition.strip_prefix("not ") {
            return self.holds(rest).map(|holds| !holds);
        }
        for (end, nothing) in [(" is None", true), (" is not None", false)] {
            if let Some(left) = condition.strip_suffix(end) {
                let value = self.value(left.trim(), 0);
                return (value != UNKNOWN).then_some(value.is_null() == nothing);
            }
        }
        if let Some((left, right)) = condition.split_once("==") {
            let value = self.value(left.trim(), 0);
            return (value != UNKNOWN).then(|| python_literal(right).map(|literal| literal == value))?;
        }
        let plain = condition.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'));
        match self.value(condition.trim_end_matches(" is True"), 0) {
            _ if !plain && !condition.ends_with(" is True") => None,
            Value::Bool(truth) => Some(truth),
            Value::Null => Some(false),
            Value::String(text) if text != UNKNOWN => super::settings::truth(&Value::String(text)),
            _ => None,
        }
    }

    /// The value of an expression; none where it is not known.
    pub fn expression(&self, text: &str) -> Option<Value> {
        let value = self.value(text.trim(), 0);
        (value != UNKNOWN).then_some(value)
    }

    /// `config["training"]["batch_size"]`, `config.get("batch_size", 8)` and `config.training.batch_size`, by the last two
    /// names or the last; one that is not there is its own default.
    fn asked_for(&self, text: &str, depth: usize) -> Option<Value> {
        let (names, default) = python_expressions::path_of(text)?;
        let found = names.iter().find_map(|name| self.own.get(name).map(|found| (name, found.value.clone())));
        match (found, default) {
            (Some((name, value)), _) => {
                self.own.accept(name);
                Some(value)
            }
            (None, Some(default)) => Some(self.value(&default, depth + 1)),
            (None, None) => {
                self.absent.set(self.absent.get() || (text.ends_with(']') && self.own.iter().next().is_some()));
                None
            }
        }
    }

    fn value(&self, text: &str, depth: usize) -> Value {
        if let Some(value) = python_literal(text) {
            return value;
        }
        if depth > DEEPEST {
            return UNKNOWN.into();
        }
        if let Some(value) = self.assigned(text, depth) {
            return value;
        }
        if let Some(value) = self.asked_for(text, depth) {
            return value;
        }
        // `args.rank`, or `rank` handed on to a function.
        let name = text.rsplit('.').next().filter(|_| !text.contains(['(', '[', ' '])).unwrap_or("");
        if let Some(found) = self.own.get(name) {
            self.asked.set(self.asked.get() || !self.own.is_set(name));
            self.own.accept(name);
            return found.value.clone();
        }
        let value = |text: &str| self.value(text, depth + 1);
        if let Some(found) = python_expressions::composed(text, &value, &|text| self.holds(text)) {
            return found;
        }
        // `args.deepspeed`, which nobody gives.
        if text.contains('.') && self.nothing.contains(name) {
            return Value::Null;
        }
        if let Some((given, called)) = python_expressions::parameter(self.content, text) {
            self.asked.set(self.asked.get() || !called);
            return self.value(&given, depth + 1);
        }
        if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return arguments(list).iter().filter_map(|item| python_literal(item.trim())).collect();
        }
        // `bf16=(args.precision == "bf16")`
        let bare = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(text);
        if bare.matches(" == ").count() == 1
            && ![" and ", " or ", " if "].iter().any(|part| bare.contains(part))
            && let Some(holds) = self.holds(bare)
        {
            return Value::Bool(holds);
        }
        // What a GPU of today can do.
        let supported = text.ends_with("is_bfloat16_supported()") || text.ends_with("is_bf16_supported()");
        if supported {
            return Value::Bool(!text.starts_with("not "));
        }
        if let Some(name) = text.strip_prefix("torch.") {
            return name.into();
        }
        let known = |name: &str| whole(&self.value(name, depth + 1)).and_then(|number| i64::try_from(number).ok());
        expression::python(text, &known).map_or_else(|| UNKNOWN.into(), Value::from)
    }

    /// What a name is assigned: once, or once and then shared among the ranks (`steps = steps // world_size`). A name
    /// of several values has none that is known.
    fn assigned(&self, name: &str, depth: usize) -> Option<Value> {
        let plain = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if !plain {
            return None;
        }
        let mut all = assignments(self.content, name, self.own.get(name).is_some());
        all.retain(|(_, right)| {
            let shared = right.contains(name) && right.contains("//") && right.to_lowercase().contains("world_size");
            self.divided.set(self.divided.get() || shared);
            !shared
        });
        match all.as_slice() {
            [] => self.globals.get(name).map(|found| found.value.clone()),
            [(at, right)] => {
                let rest = self.content.get(*at..).unwrap_or("").trim_start();
                if let Some(list) = rest.strip_prefix('[').filter(|_| !right.contains(']')) {
                    return Some(arguments(list).iter().filter_map(|item| python_literal(item.trim())).collect());
                }
                Some(self.value(right, depth + 1))
            }
            _ => Some(UNKNOWN.into()),
        }
    }
}

/// Where the right sides of `name = …` begin, and their first lines. A keyword of a call or a parameter, which ends in
/// a comma, is none, nor is one with a type where the script has an `argument` of that name.
fn assignments<'a>(content: &'a str, name: &str, argument: bool) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in content.split_inclusive('\n') {
        let at = start;
        start += line.len();
        let indent = line.len() - line.trim_start().len();
        let Some(rest) = line.trim_start().strip_prefix(name) else { continue };
        let typed = (rest.starts_with(':') && !argument).then(|| rest.find(" = ")).flatten();
        let sign = if rest.starts_with(" = ") { Some(0) } else { typed };
        let Some(right) = sign.and_then(|sign| rest.get(sign + 3..)) else { continue };
        let right = right.split(" #").next().unwrap_or(right).trim();
        if !right.ends_with(',') {
            found.push((at + indent + name.len() + sign.unwrap_or(0) + 3, right));
        }
    }
    found
}

/// The parts between commas up to the bracket that closes, comments left out.
pub fn arguments(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let (mut depth, mut quote, mut comment) = (0_usize, None, false);
    for letter in text.chars() {
        match (quote, letter) {
            _ if comment => {
                comment = letter != '\n';
                continue;
            }
            (None, '#') => {
                comment = true;
                continue;
            }
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') if depth == 0 => break,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    parts.retain(|part| !part.trim().is_empty());
    parts
}
