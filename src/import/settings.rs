//! Settings of a framework by name, whatever they were written in: files, arguments,
//! variables, the framework's own defaults. A later layer goes over an earlier one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::origin::{Origin, Setting};
use super::rows::usual;

/// Settings by dotted name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    entries: BTreeMap<String, Entry>,
    /// What its file's reader has to say of it.
    remarks: Vec<String>,
}

/// One setting, and what has become of it. Copies under other names share the latter.
#[derive(Debug, Clone)]
struct Entry {
    found: Setting<Value>,
    fate: Rc<Cell<Fate>>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.found == other.found
    }
}

/// What a reader has made of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nobody asked for it.
    Unread,
    /// Its value was taken.
    Read,
    /// It was asked for, and its value is none that the reader knows.
    Misread,
}

/// A framework's default, for a table of them.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// A whole number.
    Whole(u64),
    /// A number.
    Number(f64),
    /// A truth value.
    Flag(bool),
    /// A text.
    Text(&'static str),
}

impl From<DefaultValue> for Value {
    fn from(plain: DefaultValue) -> Self {
        match plain {
            DefaultValue::Whole(value) => value.into(),
            DefaultValue::Number(value) => value.into(),
            DefaultValue::Flag(value) => value.into(),
            DefaultValue::Text(value) => value.into(),
        }
    }
}

impl Settings {
    /// What a framework does where nobody says otherwise.
    pub fn defaults(framework: &'static str, table: &[(&str, DefaultValue)]) -> Self {
        let mut settings = Self::default();
        for (name, value) in table {
            let option = (*name).to_owned();
            settings.set(name, (*value).into(), Origin::Default { framework, option });
        }
        settings
    }

    /// The same as what a framework does by itself: values of a file that comes with it.
    #[must_use]
    pub fn as_defaults(&self, framework: &'static str) -> Self {
        let mut settings = Self::default();
        for (name, found) in self.iter() {
            settings.set(name, found.value.clone(), Origin::Default { framework, option: found.origin.to_string() });
        }
        settings
    }

    /// Says something of the file as a whole.
    pub fn remark(&mut self, line: String) {
        self.remarks.push(line);
    }

    /// What is to be said of the file as a whole.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Sets a value; one that was there is gone.
    pub fn set(&mut self, name: &str, value: Value, origin: Origin) {
        let entry = Entry { found: Setting { value, origin }, fate: Rc::new(Cell::new(Fate::Unread)) };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Takes a setting of `other` over under a name of its own.
    pub fn adopt(&mut self, name: &str, other: &Self, theirs: &str) {
        if let Some(entry) = other.entries.get(theirs).filter(|entry| !entry.found.value.is_null()) {
            self.entries.insert(name.to_owned(), entry.clone());
        }
    }

    /// Takes over every setting of `other` whose name `renamed` has a name for.
    pub fn adopt_all(&mut self, other: &Self, renamed: impl Fn(&str) -> Option<String>) {
        for (name, entry) in &other.entries {
            if let Some(now) = renamed(name) {
                self.entries.insert(now, entry.clone());
            }
        }
    }

    /// Puts a later layer over this one.
    pub fn over(&mut self, later: Self) {
        self.entries.extend(later.entries);
    }

    /// These, with a later layer over them.
    #[must_use]
    pub fn with(mut self, later: Self) -> Self {
        self.over(later);
        self
    }

    /// The value, where there is one that is not null.
    pub fn get(&self, name: &str) -> Option<&Setting<Value>> {
        self.entry(name).map(|entry| &entry.found)
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name).filter(|entry| !entry.found.value.is_null())
    }

    /// Says of a setting that its value is none that is known here.
    pub fn refuse(&self, name: &str) {
        if let Some(entry) = self.entry(name) {
            entry.fate.set(Fate::Misread);
        }
    }

    /// Says of a setting that what it leaves open was answered otherwise.
    pub fn answer(&self, name: &str) {
        if let Some(entry) = self.entry(name) {
            entry.fate.set(Fate::Read);
        }
    }

    /// Says of a setting that it was taken into account, or has no bearing.
    pub fn accept(&self, name: &str) {
        // Whoever asked for what only a run could tell got no answer, which is said all the same.
        // A reference to another setting is the tool's own business.
        let refers = |text: &str| text.trim().starts_with("${") && !text.contains("env");
        let unanswered = |entry: &&Entry| {
            let open = entry.found.value.as_str().is_some_and(|text| is_open(text) && !refers(text));
            entry.fate.get() == Fate::Misread && open
        };
        if let Some(entry) = self.entry(name).filter(|entry| !unanswered(entry)) {
            entry.fate.set(Fate::Read);
        }
    }

    /// What somebody, not the framework itself, has set, and what has become of it.
    pub fn fates(&self) -> impl Iterator<Item = (&str, &Setting<Value>, Fate)> {
        let set = |entry: &&Entry| {
            !matches!(entry.found.origin, Origin::Default { .. } | Origin::Derived(_)) && !entry.found.value.is_null()
        };
        self.entries
            .iter()
            .filter(move |(_, entry)| set(entry))
            .map(|(name, entry)| (name.as_str(), &entry.found, entry.fate.get()))
    }

    /// Whether somebody, not the framework itself, has set it.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|found| !matches!(found.origin, Origin::Default { .. }))
    }

    /// Whether any setting has this name or stands below it.
    pub fn holds(&self, name: &str) -> bool {
        let below = format!("{name}.");
        self.get(name).is_some()
            || self.entries.range(below.clone()..).next().is_some_and(|(key, _)| key.starts_with(&below))
    }

    /// Every setting by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Setting<Value>)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), &entry.found))
    }

    /// A whole number, also where it is written as `8.0`, `1e3` or in quotes.
    pub fn whole(&self, name: &str) -> Option<Setting<u64>> {
        usual(self, name, &["none"]);
        self.read(name, whole)
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<Setting<f64>> {
        usual(self, name, &["none"]);
        self.read(name, number)
    }

    /// A truth value, as YAML 1.1, JSON, Python and argparse write them.
    pub fn flag(&self, name: &str) -> Option<Setting<bool>> {
        self.read(name, truth)
    }

    /// A truth value that is true.
    pub fn on(&self, name: &str) -> Option<Setting<bool>> {
        self.flag(name).filter(|found| found.value)
    }

    /// Whether it is set to true.
    pub fn is(&self, name: &str) -> bool {
        self.flag(name).is_some_and(|found| found.value)
    }

    /// A text, or a number as one.
    pub fn text(&self, name: &str) -> Option<Setting<String>> {
        self.read(name, text)
    }

    /// A list of texts: a list, or words separated by commas or blanks.
    pub fn texts(&self, name: &str) -> Option<Setting<Vec<String>>> {
        self.read(name, |value| match value {
            Value::Array(items) => items.iter().map(text).collect(),
            other => text(other).map(|line| words(&line)),
        })
    }

    /// The first of several names that has a whole number.
    pub fn first_whole(&self, names: &[&str]) -> Option<Setting<u64>> {
        self.in_order(names).find_map(|name| self.whole(name))
    }

    /// The first of several names that has a text.
    pub fn first_text(&self, names: &[&str]) -> Option<Setting<String>> {
        self.in_order(names).find_map(|name| self.text(name))
    }

    /// Names that somebody has set go before those with a default.
    fn in_order<'a>(&self, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
        let (set, defaults): (Vec<_>, Vec<_>) = names.iter().copied().partition(|name| self.is_set(name));
        set.into_iter().chain(defaults)
    }

    fn read<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Setting<T>> {
        let Entry { found, fate } = self.entry(name)?;
        let first = found.value.as_array().and_then(|items| items.first());
        let value = read(&found.value).or_else(|| read(first?));
        match value {
            Some(_) => fate.set(Fate::Read),
            // Who asked before may have known it: `overlap: auto` as a text, not as a flag.
            None if fate.get() == Fate::Unread || found.value.as_str().is_some_and(is_open) => fate.set(Fate::Misread),
            None => {}
        }
        value.map(|value| Setting { value, origin: found.origin.clone() })
    }

    /// Settings below `section`, by what is left of their names.
    pub fn below(&self, section: &str) -> Self {
        let above = format!("{section}.");
        let inner = self
            .entries
            .iter()
            .filter_map(|(name, entry)| name.strip_prefix(&above).map(|rest| (rest.to_owned(), entry.clone())));
        Self { entries: inner.collect(), remarks: Vec::new() }
    }

    /// Puts in what `${name}` refers to (`OmegaConf`'s interpolation), as often as it takes
    /// but not for ever.
    pub fn interpolate(&mut self) {
        const DEEPEST: usize = 8;
        for _ in 0..DEEPEST {
            let replaced: Vec<(String, Value)> = self
                .entries
                .iter()
                .filter_map(|(name, entry)| {
                    let text = entry.found.value.as_str().filter(|text| text.contains("${"))?;
                    Some((name.clone(), self.referred(text)?))
                })
                .collect();
            if replaced.is_empty() {
                return;
            }
            for (name, value) in replaced {
                if let Some(entry) = self.entries.get_mut(&name) {
                    entry.found.value = value;
                }
            }
        }
    }

    /// A text with its last reference replaced; where it is nothing else, the value itself. `${mul:4096, 2}` is a
    /// product (NeMo-RL, `examples/run_grpo.py`, `register_new_resolver("mul", …)`).
    fn referred(&self, text: &str) -> Option<Value> {
        let (before, rest) = text.rsplit_once("${")?;
        let (name, after) = rest.split_once('}')?;
        if let Some(factors) = name.trim().strip_prefix("mul:") {
            let numbers: Option<Vec<u64>> = factors.split(',').map(|part| part.trim().parse().ok()).collect();
            let product = numbers?.into_iter().try_fold(1_u64, u64::checked_mul)?;
            return (before.is_empty() && after.is_empty()).then(|| product.into());
        }
        let value = &self.get(name.trim())?.value;
        if before.is_empty() && after.is_empty() {
            return Some(value.clone());
        }
        let inner = self::text(value).filter(|inner| inner.len() + text.len() < LONGEST)?;
        Some(format!("{before}{inner}{after}").into())
    }
}

/// Stands in a script's words for what only a run could tell.
pub const UNKNOWN: &str = "?";

/// Stands in a script's words for options that only a run could tell.
pub const UNKNOWN_OPTIONS: &str = "--?";

/// No setting that matters is longer.
const LONGEST: usize = 4096;

fn words(line: &str) -> Vec<String> {
    let bare = line.trim().trim_start_matches('[').trim_end_matches(']');
    let separators = |letter: char| letter == ',' || letter.is_whitespace();
    bare.split(separators)
        .map(|word| word.trim_matches(['"', '\'']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// A value's whole number.
pub fn whole(value: &Value) -> Option<u64> {
    if let Some(whole) = value.as_u64() {
        return Some(whole);
    }
    if let Some(text) = value.as_str() {
        let bare = text.trim().replace('_', "");
        if let Ok(whole) = bare.parse() {
            return Some(whole);
        }
    }
    let value = number(value)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value as u64;
    (value >= 0.0 && value <= 2_f64.powi(53) && value.fract() == 0.0).then_some(whole)
}

/// A value's number.
pub fn number(value: &Value) -> Option<f64> {
    let found = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().replace('_', "").parse().ok(),
        _ => None,
    };
    found.filter(|number: &f64| number.is_finite())
}

/// A value's truth.
pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) => number.as_u64().filter(|number| *number < 2).map(|number| number == 1),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "y" | "t" | "1" => Some(true),
            "false" | "no" | "off" | "n" | "f" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a text stands for what only a run could tell: an unknown word of a script's, a reference that nothing in the file
/// answers (`${oc.env:BATCH}`), or a blank of a template (`{{ batch }}`).
pub fn is_open(text: &str) -> bool {
    let bare = text.trim();
    let refers = [("${", '}'), ("{{", '}')].iter().any(|(start, end)| bare.starts_with(start) && bare.ends_with(*end));
    bare == UNKNOWN || refers
}

/// A value's text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        // What only a run could tell says nothing.
        Value::String(text) => Some(text.clone()).filter(|text| !is_open(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    }
}
