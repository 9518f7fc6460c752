//! Files of other tools as settings: YAML, JSON, TOML, and Python files of plain assignments.

use serde_json::Value;
use toml_edit::{Document as Toml, Item, Value as TomlValue};

use super::expression;
use super::loose_yaml;
use super::origin::Origin;
use super::settings::{Settings, UNKNOWN};
use crate::plan::Document;
use crate::plan::{Node, NodeShape};

/// The largest TOML file, and the largest YAML file with merge keys: their readers need some hundred times as much.
const MAX_MERGED: usize = 1_000_000;

/// How deep tables of a TOML file may stand in each other.
const MAX_DEPTH: usize = 32;

/// Where and why a text cannot be read as what its file's name says, in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unparsable(String);

/// A YAML or JSON file called `name`.
///
/// # Errors
/// Where and why it cannot be read.
pub fn yaml(name: &str, text: &str) -> Result<Settings, Unparsable> {
    let document = match Document::parse(text) {
        Ok(document) => document,
        // A plan has no merge keys and no key twice; other tools' files do, and PyYAML reads them.
        Err(faults) if text.len() <= MAX_MERGED => {
            let filled = || template(text).and_then(|text| Document::parse(&text).ok());
            match (loose_yaml::read(name, text), filled()) {
                (Some(settings), _) => return Ok(settings),
                (None, Some(document)) => document,
                (None, None) => return Err(first_line(&faults)),
            }
        }
        Err(faults) => return Err(first_line(&faults)),
    };
    let mut settings = Settings::default();
    flatten(document.root(), "", name, &mut settings);
    Ok(settings)
}

/// A template's text with the values that hold its blanks in quotes: `path: {{ model_dir }}/tokenizer.model`; the same of what
/// a script wrote and only a run could tell (`batch: ?`).
fn template(text: &str) -> Option<String> {
    let quoted = |line: &str| {
        let value = line.find(": ").map(|at| at + 2).or_else(|| line.find("- ").map(|at| at + 2))?;
        let (head, value) = line.split_at(value);
        let bare = value.trim();
        let blank = bare == UNKNOWN || (bare.contains("{{") && !bare.starts_with(['"', '\'', '[', '|', '>']));
        blank.then(|| format!("{head}'{}'", bare.replace('\'', "''")))
    };
    let lines: Vec<String> = text.lines().map(|line| quoted(line).unwrap_or_else(|| line.to_owned())).collect();
    let changed = lines.iter().zip(text.lines()).any(|(quoted, line)| quoted != line);
    changed.then(|| lines.join("\n") + "\n")
}

fn first_line(faults: &[crate::plan::Fault]) -> Unparsable {
    Unparsable(faults.first().map_or_else(|| "not readable".to_owned(), ToString::to_string))
}

/// Mappings become dotted names; a list is one value, and so is a mapping of nothing: `fused_layernorm: {}` turns it on.
fn flatten(node: &Node, above: &str, file: &str, settings: &mut Settings) {
    for entry in node.entries() {
        let name = if above.is_empty() { entry.key.clone() } else { format!("{above}.{}", entry.key) };
        match entry.value.shape {
            NodeShape::Mapping { .. } if !entry.value.entries().is_empty() => {
                flatten(&entry.value, &name, file, settings)
            }
            _ => {
                let origin = Origin::File { name: file.to_owned(), line: Some(entry.at.line), key: name.clone() };
                settings.set(&name, entry.value.to_json(), origin);
            }
        }
    }
}

/// A TOML file called `name`.
///
/// # Errors
/// Where and why it cannot be read.
pub fn toml(name: &str, text: &str) -> Result<Settings, Unparsable> {
    if text.len() > MAX_MERGED {
        return Err(Unparsable(format!("{} bytes are too many", text.len())));
    }
    let document = Toml::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let why = error.message().lines().collect::<Vec<_>>().join(" ");
        Unparsable(format!("{line}: not readable as TOML: {why}"))
    })?;
    let mut reader = TomlReader { text, line: 1, at: 0, file: name, settings: Settings::default() };
    for (key, item) in document.iter() {
        reader.item(key.to_owned(), item, 0);
    }
    Ok(reader.settings)
}

fn line_at(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

struct TomlReader<'a> {
    text: &'a str,
    /// The line of byte `at`: places mostly come in the order of the text.
    line: usize,
    at: usize,
    file: &'a str,
    settings: Settings,
}

impl TomlReader<'_> {
    fn item(&mut self, name: String, item: &Item, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let value = match item {
            Item::None => return,
            Item::Value(TomlValue::InlineTable(_)) | Item::Table(_) => {
                let inner = item.as_table_like().into_iter().flat_map(|table| table.iter());
                // An empty table is there all the same: `[trainer.model.ac]` with its defaults.
                if item.as_table_like().is_some_and(|table| table.is_empty()) {
                    let line = item.span().map(|span| self.line_of(span.start));
                    let origin = Origin::File { name: self.file.to_owned(), line, key: name.clone() };
                    return self.settings.set(&name, Value::Object(serde_json::Map::new()), origin);
                }
                for (key, item) in inner {
                    self.item(format!("{name}.{key}"), item, depth + 1);
                }
                return;
            }
            Item::ArrayOfTables(_) => return,
            Item::Value(value) => json_of(value, 0),
        };
        let line = item.span().map(|span| self.line_of(span.start));
        let origin = Origin::File { name: self.file.to_owned(), line, key: name.clone() };
        self.settings.set(&name, value, origin);
    }

    fn line_of(&mut self, at: usize) -> usize {
        if at < self.at {
            (self.at, self.line) = (0, 1);
        }
        let between = self.text.as_bytes().get(self.at..at).unwrap_or_default();
        self.line += between.iter().filter(|byte| **byte == b'\n').count();
        self.at = at;
        self.line
    }
}

fn json_of(value: &TomlValue, depth: usize) -> Value {
    match value {
        TomlValue::String(text) => Value::from(text.value().as_str()),
        TomlValue::Integer(number) => Value::from(*number.value()),
        TomlValue::Float(number) => Value::from(*number.value()),
        TomlValue::Boolean(truth) => Value::from(*truth.value()),
        TomlValue::Array(items) if depth < MAX_DEPTH => items.iter().map(|item| json_of(item, depth + 1)).collect(),
        TomlValue::Datetime(_) | TomlValue::Array(_) | TomlValue::InlineTable(_) => Value::Null,
    }
}

/// A Python file called `name`: its plain assignments at the left margin. Nothing is executed.
pub fn python(name: &str, text: &str) -> Settings {
    let mut settings = Settings::default();
    let mut open = 0_usize;
    for (number, line) in text.lines().enumerate() {
        let inside = open > 0;
        let code = without_comment(line);
        // Brackets that stay open: what follows is the rest of a longer expression.
        open = (open + code.matches(['(', '[', '{']).count()).saturating_sub(code.matches([')', ']', '}']).count());
        if inside || line.len() > 10_000 {
            continue;
        }
        let Some((left, right)) = code.split_once('=') else { continue };
        let left = left.split(':').next().unwrap_or(left).trim_end();
        if !is_name(left) || right.starts_with('=') {
            continue;
        }
        let literal = python_literal(right.trim());
        let value = literal.or_else(|| {
            let known = |name: &str| settings.whole(name).and_then(|found| i64::try_from(found.value).ok());
            expression::python(right, &known).and_then(|value| u64::try_from(value).ok()).map(Value::from)
        });
        let Some(value) = value else { continue };
        let origin = Origin::File { name: name.to_owned(), line: Some(number + 1), key: left.to_owned() };
        settings.set(left, value, origin);
    }
    settings
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The line up to a `#` that stands in no quotes.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') => return &line[..at],
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    line
}

/// A literal as Python writes it: a text, a number, `True`, `False`, `None`.
pub fn python_literal(text: &str) -> Option<Value> {
    let text = text.trim();
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return (!inner.contains(quote)).then(|| Value::from(inner));
        }
    }
    match text {
        "True" => return Some(true.into()),
        "False" => return Some(false.into()),
        "None" => return Some(Value::Null),
        _ => {}
    }
    let digits = text.replace('_', "");
    if let Ok(whole) = digits.parse::<i64>() {
        return Some(whole.into());
    }
    let numeric = digits.starts_with(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-'));
    digits.parse::<f64>().ok().filter(|number| numeric && number.is_finite()).map(Value::from)
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
