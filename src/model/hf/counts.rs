//! How many parameters each class of transformers has: a formula over the keys of its configuration, made from the
//! class itself (`configs/classes.json` and `classes_5.json`, `source`). What a class's modules save is no part of it.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::formula::{self, FormulaError, Number};
use crate::packed;

/// Parameters of a class, tied ones once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCount {
    /// Its name in transformers.
    pub class: String,
    /// All parameters.
    pub total: u64,
    /// Those that the class itself keeps out of training.
    pub frozen: u64,
}

/// Why a configuration's class has no count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoCount {
    /// The `model_type` has no formulas.
    Type,
    /// The `model_type` has no class of that name.
    Class {
        /// One that it has.
        main: String,
    },
    /// A key has a value for which the formula was not checked.
    Key {
        /// Its path.
        key: String,
    },
}

/// One line of the file.
#[derive(Deserialize)]
struct Kind {
    main: String,
    defaults: BTreeMap<String, Value>,
    fixed: Vec<String>,
    terms: Vec<String>,
    classes: BTreeMap<String, Class>,
    /// Names that the class takes for others.
    #[serde(default)]
    alias: BTreeMap<String, String>,
    /// What the class makes of other keys where one is absent or null; empty where that is no formula.
    #[serde(default)]
    derived: BTreeMap<String, String>,
    /// Keys between which the class has no further matrix as long as they are equal, as in its default configuration.
    #[serde(default)]
    same: Vec<[String; 2]>,
}

/// Terms are pairs: which, and how many times.
#[derive(Deserialize)]
struct Class {
    terms: Vec<u64>,
    #[serde(default)]
    frozen: Vec<u64>,
    #[serde(default)]
    fixed: Vec<String>,
    #[serde(default)]
    variants: Vec<Variant>,
}

/// What a class has where a flag is the other way round, or a text another.
#[derive(Deserialize)]
struct Variant {
    key: String,
    is: Value,
    terms: Vec<u64>,
}

/// A line, read when it is first asked for.
struct Line {
    /// The packed block that holds it.
    block: &'static [u8],
    kind: OnceLock<Option<Kind>>,
}

type Lines = BTreeMap<&'static str, Line>;

/// A file as `configs/build.rs` packs it: blocks of lines, and where each line's block is.
macro_rules! lines {
    ($name:literal) => {
        LazyLock::new(|| {
            lines(
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".zz")),
                include_str!(concat!(env!("OUT_DIR"), "/", $name, ".index")),
            )
        })
    };
}

/// A line for each `model_type` of transformers 4.
static LINES_4: LazyLock<Lines> = lines!("classes");
/// A line for each `model_type` that is new in transformers 5, or has other parameters there: `LukeForMaskedLM`'s head
/// is no longer its embedding (`modeling_luke.py`, `_tied_weights_keys`).
static LINES_5: LazyLock<Lines> = lines!("classes_5");

fn lines(blocks: &'static [u8], index: &'static str) -> Lines {
    let line = |line: &'static str| {
        let (name, place) = line.split_once(' ')?;
        let (begin, end) = place.split_once(' ')?;
        let block = blocks.get(begin.parse().ok()?..end.parse().ok()?)?;
        Some((name, Line { block, kind: OnceLock::new() }))
    };
    index.lines().filter_map(line).collect()
}

impl Line {
    fn kind(&self, model_type: &str) -> Option<&Kind> {
        let read = || {
            let block = packed::text(self.block).ok()?;
            let name = format!("\"{model_type}\": ");
            let text = block.lines().find_map(|line| line.strip_prefix(name.as_str()))?;
            serde_json::from_str(text).ok()
        };
        self.kind.get_or_init(read).as_ref()
    }
}

/// Whether transformers 5 wrote the configuration.
pub fn is_new(config: &Map<String, Value>) -> bool {
    let version =
        config.get("transformers_version").and_then(Value::as_str).and_then(|version| version.split('.').next());
    version.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 5)
}

/// The classes of a `model_type` in the transformers that wrote the configuration; where it does not say, in the first
/// that has them.
fn kind(config: &Map<String, Value>, model_type: &str) -> Option<&'static Kind> {
    let (first, second) = if is_new(config) { (&LINES_5, &LINES_4) } else { (&LINES_4, &LINES_5) };
    let line = first.get(model_type).or_else(|| second.get(model_type))?;
    line.kind(model_type)
}

/// The class of a `model_type` whose name ends so: its `ForSequenceClassification`.
pub fn class_with(config: &Map<String, Value>, model_type: &str, ending: &str) -> Option<&'static str> {
    kind(config, model_type)?.classes.keys().map(String::as_str).find(|name| name.ends_with(ending))
}

/// Parameters of the class that `config` names in `architectures`, or of the `model_type`'s main class.
///
/// # Errors
/// Why there is no count.
pub fn of(config: &Map<String, Value>, model_type: &str, class: Option<&str>) -> Result<ClassCount, NoCount> {
    let kind = kind(config, model_type).filter(|kind| !kind.classes.is_empty()).ok_or(NoCount::Type)?;
    let name = class.unwrap_or(&kind.main);
    let found = kind.classes.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((name, class)) = found else { return Err(NoCount::Class { main: kind.main.clone() }) };
    if let Some(inner) = kind.defaults.keys().find_map(|path| flattened(kind, config, path)) {
        return Err(NoCount::Key { key: inner.to_owned() });
    }
    // One that the rules read says least: another one refuses the model.
    let changed = || kind.fixed.iter().chain(&class.fixed).filter(|key| !is_default(kind, config, key));
    if let Some(key) = changed().find(|key| !super::READ_HERE.contains(&key.as_str())).or_else(|| changed().next()) {
        return Err(NoCount::Key { key: key.clone() });
    }
    let lookup = |key: &str| number(kind, config, key, 0);
    for [key, other] in &kind.same {
        if lookup(key).map_err(no_number)? != lookup(other).map_err(no_number)? {
            return Err(NoCount::Key { key: key.clone() });
        }
    }
    let variant = variant(kind, class, config)?;
    let sum = |pairs: &[u64]| -> Result<u64, NoCount> {
        let mut sum: u64 = 0;
        for pair in pairs.chunks_exact(2) {
            let term = usize::try_from(pair[0]).ok().and_then(|at| kind.terms.get(at)).map_or("", String::as_str);
            let value = formula::value(term, &lookup).map_err(no_number)?;
            let beyond = || NoCount::Key { key: term.to_owned() };
            let Number::Whole(whole) = value else { return Err(beyond()) };
            let whole = u64::try_from(whole).ok().and_then(|whole| whole.checked_mul(pair[1])).ok_or_else(beyond)?;
            sum = sum.checked_add(whole).ok_or_else(beyond)?;
        }
        Ok(sum)
    };
    Ok(ClassCount {
        class: name.clone(),
        total: sum(variant.map_or(&class.terms, |variant| &variant.terms))?,
        frozen: sum(&class.frozen)?,
    })
}

/// The inner configuration of `path` where the file has its keys at the top instead (Qwen2-VL's published files).
fn flattened<'a>(kind: &Kind, config: &Map<String, Value>, path: &'a str) -> Option<&'a str> {
    let (inner, key) = path.split_once('.')?;
    let is_moved = config.get(inner).is_none_or(Value::is_null)
        && config.contains_key(key)
        && !matches!(key, "model_type" | "tie_word_embeddings")
        && !kind.defaults.contains_key(key);
    is_moved.then_some(inner)
}

/// The one variant that a configuration asks for.
fn variant<'a>(kind: &Kind, class: &'a Class, config: &Map<String, Value>) -> Result<Option<&'a Variant>, NoCount> {
    let mut found: Option<&Variant> = None;
    for variant in &class.variants {
        let is_asked_for = given(kind, config, &variant.key) == Some(&variant.is);
        let is_known = is_asked_for
            || is_default(kind, config, &variant.key)
            || class
                .variants
                .iter()
                .any(|other| other.key == variant.key && given(kind, config, &other.key) == Some(&other.is));
        let fits = !is_asked_for || found.is_none_or(|found| found.terms == variant.terms);
        if !is_known || !fits {
            return Err(NoCount::Key { key: variant.key.clone() });
        }
        if is_asked_for {
            found = Some(variant);
        }
    }
    Ok(found)
}

/// What the configuration says under a path, or under another name that its class takes for it.
fn given<'a>(kind: &Kind, config: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let at = |path: &str| {
        let mut parts = path.split('.');
        let first = config.get(parts.next()?)?;
        parts.try_fold(first, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })
    };
    let value =
        at(path).or_else(|| kind.alias.iter().filter(|(_, meant)| *meant == path).find_map(|(other, _)| at(other)));
    // `None` in place of a flag is false.
    let is_flag = || kind.defaults.get(path).is_some_and(Value::is_boolean);
    value.map(|value| if value.is_null() && is_flag() { &FALSE } else { value })
}

static FALSE: Value = Value::Bool(false);

fn is_default(kind: &Kind, config: &Map<String, Value>, key: &str) -> bool {
    let default = kind.defaults.get(key).unwrap_or(&Value::Null);
    if let Some(list) = key.strip_suffix(".len") {
        let length = given(kind, config, list).map(|list| list.as_array().map(Vec::len));
        return length.is_none_or(|length| length.map(|length| length as u64) == default.as_u64());
    }
    let Some(value) = given(kind, config, key) else {
        // Made of other keys, it is the default where they are.
        let formula = kind.derived.get(key).filter(|formula| !formula.is_empty());
        let made = formula.and_then(|formula| formula::value(formula, &|key| number(kind, config, key, 1)).ok());
        return made.is_none_or(|made| number_of(default).is_none_or(|default| default == made));
    };
    // What the class would make of the other keys is what it makes.
    let is_derived = || match (number(kind, config, key, 0), kind.derived.get(key)) {
        (Ok(given), Some(formula)) if !formula.is_empty() => {
            formula::value(formula, &|key| number(kind, config, key, 1)).is_ok_and(|derived| derived == given)
        }
        _ => false,
    };
    value == default || value.as_f64().is_some_and(|number| default.as_f64() == Some(number)) || is_derived()
}

fn no_number(why: FormulaError) -> NoCount {
    NoCount::Key { key: why.to_string() }
}

/// The value of a key: given, made of others, or the class's default.
fn number(kind: &Kind, config: &Map<String, Value>, key: &str, depth: u32) -> Result<Number, FormulaError> {
    let none = || FormulaError::Unknown(key.to_owned());
    if key == "num_labels" {
        let named = config.get("id2label").and_then(Value::as_object).map(Map::len).filter(|names| *names > 0);
        let own = || kind.defaults.get(key).and_then(Value::as_u64);
        let labels = config.get(key).and_then(Value::as_u64).or(named.map(|names| names as u64)).or_else(own);
        return Ok(Number::Whole(i128::from(labels.unwrap_or(2))));
    }
    let value = match (given(kind, config, key), kind.derived.get(key)) {
        (None | Some(Value::Null), Some(formula)) if depth < 4 && !formula.is_empty() => {
            return formula::value(formula, &|key| number(kind, config, key, depth + 1));
        }
        (None, None) => kind.defaults.get(key).ok_or_else(none)?,
        (Some(value), _) => value,
        (None, Some(_)) => return Err(none()),
    };
    number_of(value).ok_or_else(none)
}

fn number_of(value: &Value) -> Option<Number> {
    value.as_i64().map(|whole| Number::Whole(i128::from(whole))).or_else(|| value.as_f64().map(Number::Real))
}
