//! A plan as it comes together out of what others wrote: a value and its origin for each key,
//! what nobody said, and what a plan has no word for.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::adapters;
use super::origin::{Origin, Setting};
use super::run_length;
use super::vision::{self, Tower};
use crate::catalog::UNKNOWN_MODEL;
use crate::order::StableOrder;
use crate::plan::keys::{self, Plan};
use crate::plan::needs_quotes;
use crate::plan::{Document, Fault, schema};
use crate::printable::printable;

/// A plan from elsewhere.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportedPlan {
    /// Whose it was: `Megatron-LM`; empty where nobody was recognised.
    pub tool: String,
    /// Its values, each key once.
    pub values: Vec<InferredValue>,
    /// What could not be told.
    pub missing: Vec<MissingKey>,
    /// What a plan has no word for, and what was passed over.
    pub notes: Vec<String>,
    /// A file that says what the framework does and could not be read.
    pub(super) unread: Option<String>,
    /// A pass holds as many samples as go into a number of tokens.
    pub(super) packed: bool,
    /// What stands before a language model that sees.
    pub(super) tower: Option<Tower>,
    /// Bits of its weights, where the model's name tells them.
    pub(super) quantised: Option<Setting<u64>>,
    /// The data-parallel ranks are counted from degrees that the file states, shards and replicas.
    pub(super) states_shards: bool,
    /// Optimizer steps of the whole run.
    pub(super) steps: Option<Setting<u64>>,
}

/// One value of a plan and what said so.
#[derive(Debug, Clone, PartialEq)]
pub struct InferredValue {
    /// The plan's key: `training.micro_batch_size`.
    pub key: &'static str,
    /// Its value.
    pub value: Value,
    /// What said so.
    pub origin: Origin,
}

/// A key that could not be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingKey {
    /// The plan's key.
    pub key: &'static str,
    /// Why, in one line.
    pub why: String,
}

impl ImportedPlan {
    /// Nothing yet, of that tool.
    pub(super) fn of(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), ..Self::default() }
    }

    /// Sets a key, where something was found for it. What was there is gone.
    pub(super) fn set<T: Into<Value>>(&mut self, key: &'static str, found: Option<Setting<T>>) {
        let Some(found) = found else { return };
        let found = found.into_value();
        let inferred = InferredValue { key, value: found.value, origin: found.origin };
        self.missing.retain(|missing| missing.key != key);
        match self.values.iter_mut().find(|old| old.key == key) {
            Some(old) => *old = inferred,
            None => self.values.push(inferred),
        }
    }

    /// Sets a key.
    pub(super) fn say(&mut self, key: &'static str, value: impl Into<Value>, origin: Origin) {
        self.set(key, Some(Setting::new(value.into(), origin)));
    }

    /// Sets a key where it has no value yet.
    pub(super) fn fill<T: Into<Value>>(&mut self, key: &'static str, found: Option<Setting<T>>) {
        if self.get(key).is_none() {
            self.set(key, found);
        }
    }

    /// Takes a key out again.
    pub(super) fn drop(&mut self, key: &str) {
        self.values.retain(|inferred| inferred.key != key);
    }

    /// Puts all that is said of it in other words, such as shorter names of files.
    pub fn reword(&mut self, reworded: impl Fn(&str) -> String) {
        for said in self.values.iter_mut().filter_map(|found| found.origin.text_mut()) {
            *said = reworded(said);
        }
        let whys = self.missing.iter_mut().map(|missing| &mut missing.why);
        for said in whys.chain(&mut self.notes) {
            *said = reworded(said);
        }
    }

    /// Says why a key has no value, unless it has one.
    pub(super) fn miss(&mut self, key: &'static str, why: impl Into<String>) {
        if self.get(key).is_none() && !self.missing.iter().any(|missing| missing.key == key) {
            self.missing.push(MissingKey { key, why: why.into() });
        }
    }

    /// Takes out what nobody has said of a key, and says why nothing stands there.
    pub(super) fn doubt(&mut self, key: &'static str, why: impl Into<String>) {
        let said = |found: &InferredValue| !matches!(found.origin, Origin::Default { .. } | Origin::Derived(_));
        self.values.retain(|found| found.key != key || said(found));
        self.miss(key, why);
    }

    /// Whether a key has what a framework or a script does by itself.
    pub(super) fn is_default(&self, key: &str) -> bool {
        self.get(key).is_some_and(|found| matches!(found.origin, Origin::Default { .. }))
    }

    /// Takes out what a framework does by itself of a key, and says why nothing stands there. What follows from other
    /// values stays.
    pub(super) fn doubt_default(&mut self, key: &'static str, why: impl Into<String>) {
        if self.is_default(key) {
            self.drop(key);
            self.miss(key, why);
        }
    }

    /// Takes out what a framework does by itself, where a file that might say otherwise could not be read.
    pub(super) fn distrust(&mut self) {
        let Some(file) = self.unread.take() else { return };
        let (kept, doubtful): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.values).into_iter().partition(|inferred| match inferred.origin {
                Origin::Default { .. } => false,
                // What the other degrees leave is not known either.
                Origin::Derived(_) => inferred.key != "distribution.data_parallel",
                _ => true,
            });
        self.values = kept;
        for inferred in doubtful {
            self.miss(inferred.key, format!("{file}, which may say it, was not read"));
        }
    }

    /// Notes what a plan has no word for.
    pub(super) fn note(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.notes.contains(&line) {
            self.notes.push(line);
        }
    }

    /// Keys that somebody has set by an argument, a file or a variable, with their values as a plan writes them, and
    /// the sizes of batches that follow from those: the run does so, whatever else may be the matter.
    #[must_use]
    pub fn stated(&self) -> Vec<(&'static str, String)> {
        const FOLLOWING: [&str; 2] = ["model.batch_size", "training.gradient_accumulation_steps"];
        let sure = |inferred: &&InferredValue| match inferred.origin {
            Origin::Argument(_) | Origin::File { .. } | Origin::Environment(_) => true,
            Origin::Derived(_) => FOLLOWING.contains(&inferred.key),
            _ => false,
        };
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.values.iter().filter(sure).map(|inferred| (inferred.key, word(&inferred.value))).collect()
    }

    /// Optimizer steps of the whole run, where its command or its files say so.
    #[must_use]
    pub fn steps(&self) -> Option<u64> {
        run_length::steps(self)
    }

    /// Why no model is known, where none is.
    #[must_use]
    pub fn names_no_model(&self) -> Option<String> {
        const MODEL: [&str; 3] = ["model.hf_config", "model.preset", "model.size_billions"];
        let spelled = self.values.iter().any(|inferred| inferred.key.starts_with("model.architecture."));
        let width = keys::architecture::hidden_size;
        let unsized_by =
            self.missing.iter().find(|missing| missing.key == "model.architecture" || missing.key == width);
        if let Some(missing) = unsized_by.filter(|_| spelled && self.get(width).is_none()) {
            return Some(missing.why.clone());
        }
        if spelled || MODEL.iter().any(|key| self.get(key).is_some()) {
            return None;
        }
        let why = self.missing.iter().find(|missing| missing.key.starts_with("model.") || missing.key == "model");
        Some(why.map_or_else(|| "nothing in it says which".to_owned(), |missing| missing.why.clone()))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&InferredValue> {
        self.values.iter().find(|inferred| inferred.key == key)
    }

    /// The whole number of a key.
    pub(super) fn whole(&self, key: &str) -> Option<u64> {
        self.get(key)?.value.as_u64()
    }

    /// Holds every value against the schema: one that no plan may have becomes a note. The
    /// values are in the schema's order then.
    pub(super) fn settle(mut self) -> Self {
        vision::settle(&mut self);
        adapters::settle(&mut self);
        // What is wrong or left out goes before what merely has no word.
        let first = ["not understood:", "not modelled:", "model:"];
        self.notes.order_by_key(|line| first.iter().position(|start| line.starts_with(start)).unwrap_or(first.len()));
        let place = |key: &str| schema::keys().iter().position(|known| known.path == key);
        self.values.retain(|inferred| place(inferred.key).is_some());
        self.values.order_by_key(|inferred| place(inferred.key));
        for _ in 0..self.values.len() {
            let Err(faults) = self.plan() else { break };
            let blamed: Vec<&Fault> = faults.iter().filter(|fault| self.get(&fault.key).is_some()).collect();
            let Some(fault) = blamed.first().map(|fault| (*fault).clone()) else { break };
            let origin = self.get(&fault.key).map(|inferred| inferred.origin.to_string()).unwrap_or_default();
            self.drop(&fault.key);
            self.note(format!("{origin}: {}", Fault { at: None, ..fault }));
        }
        self
    }

    /// What the values spell. A configuration that is named by path is not read here.
    ///
    /// # Errors
    /// Where a value is none that a plan may have.
    pub fn plan(&self) -> Result<Plan, Vec<Fault>> {
        Document::parse(&self.json().to_string())?.plan()
    }

    /// The values as a plan file in JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut root = Map::new();
        for inferred in &self.values {
            place(&mut root, inferred.key, inferred.value.clone());
        }
        Value::Object(root)
    }

    /// What was not understood, and what is not modelled, in one line; none where there is nothing of the kind.
    #[must_use]
    pub fn reservations(&self) -> Option<String> {
        let start =
            |line: &&String| ["not understood:", "not modelled:", "model:"].iter().any(|start| line.starts_with(start));
        let lines: Vec<&str> = self.notes.iter().filter(start).map(String::as_str).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }

    /// The plan as a file: each value with its origin beside it, then what was not inferred.
    /// `heading` goes above.
    #[must_use]
    pub fn yaml(&self, heading: &str) -> String {
        let mut text = String::new();
        for line in heading.lines() {
            let _ = writeln!(text, "# {}", printable(line));
        }
        for line in self.reservations().iter().flat_map(|line| folded(line)) {
            let _ = writeln!(text, "# {}", comment(&line));
        }
        let mut values: Vec<&InferredValue> = self.values.iter().collect();
        let unnamed = self.unnamed_model();
        if let Some(unnamed) = &unnamed {
            let first = values.iter().position(|inferred| inferred.key.starts_with("model.")).unwrap_or(0);
            values.insert(first, unnamed);
        }
        let mut above: Vec<&str> = Vec::new();
        for inferred in by_section(&values) {
            let parts: Vec<&str> = inferred.key.split('.').collect();
            let (name, sections) = parts.split_last().unwrap_or((&inferred.key, &[]));
            let same = above.iter().zip(sections).take_while(|(a, b)| a == b).count();
            for (depth, section) in sections.iter().enumerate().skip(same) {
                let _ = writeln!(text, "{:width$}{section}:", "", width = depth * 2);
            }
            above = sections.to_vec();
            let entry = format!("{:width$}{name}: {}", "", flow(&inferred.value), width = sections.len() * 2);
            let _ = writeln!(text, "{entry:<44} # {}", comment(&inferred.origin.to_string()));
        }
        for (title, lines) in [("Not inferred", self.missing_lines()), ("Notes", self.notes.clone())] {
            if lines.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n# {title}:");
            for line in lines.iter().flat_map(|line| folded(line)) {
                let _ = writeln!(text, "#   {}", comment(&line));
            }
        }
        text
    }

    /// What stands in a saved plan for the model that nothing names: completed by hand otherwise, it would be predicted
    /// with the model that a plan without one has.
    fn unnamed_model(&self) -> Option<InferredValue> {
        let why = self.names_no_model()?;
        let key = keys::model::preset;
        let origin = Origin::Derived(format!("name the model here: {why}"));
        (!self.values.is_empty()).then(|| InferredValue { key, value: UNKNOWN_MODEL.into(), origin })
    }

    fn missing_lines(&self) -> Vec<String> {
        self.missing.iter().map(|missing| format!("{}: {}", missing.key, missing.why)).collect()
    }
}

/// Values of a section together, in the order in which sections come first: what is found later, as from the hook, stands
/// with its own.
fn by_section<'a>(values: &[&'a InferredValue]) -> Vec<&'a InferredValue> {
    fn top(key: &str) -> &str {
        key.split_once('.').map_or(key, |(top, _)| top)
    }
    fn above(key: &str) -> &str {
        key.rsplit_once('.').map_or("", |(above, _)| above)
    }
    let first = |part: fn(&str) -> &str, key: &str| values.iter().position(|other| part(other.key) == part(key));
    let mut sorted = values.to_vec();
    sorted.sort_by_cached_key(|value| (first(top, value.key), first(above, value.key)));
    sorted
}

/// Puts a value at a dotted path.
fn place(root: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            root.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = root.entry(section).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                place(inner, rest, value);
            }
        }
    }
}

/// A value in one line, as YAML has it.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if !needs_quotes(text, true) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(key, value)| format!("{key}: {}", flow(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// A line of many parts as several, so that none of them is cut off.
fn folded(line: &str) -> Vec<String> {
    const WIDTH: usize = 140;
    const MOST: usize = 12;
    let mut lines = vec![String::new()];
    for part in line.split_inclusive(", ") {
        let (number, last) = (lines.len(), lines.last_mut());
        match last {
            Some(last) if last.is_empty() || last.len() + part.len() <= WIDTH || number == MOST => last.push_str(part),
            _ => lines.push(format!("  {part}")),
        }
    }
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

/// One line of bounded length without control characters.
fn comment(line: &str) -> String {
    const LONGEST: usize = 160;
    let line = printable(line).replace(['\n', '\r'], " ");
    if line.chars().count() <= LONGEST { line } else { line.chars().take(LONGEST).chain(['…']).collect() }
}
