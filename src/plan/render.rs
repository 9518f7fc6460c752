//! How a value is written into a text.

use serde_json::{Number, Value};

use super::document::Document;
use super::fault::Fault;
use super::nearest::unknown_key;
use super::node::{Node, NodeShape, Style};
use super::schema::{self, ValueKind};
use super::values::{is_textual, short};

/// What shall be written, before it is known where.
pub struct RenderRequest {
    form: Form,
}

enum Form {
    /// A text, quoted where it must be.
    Text(String),
    /// A plain word or number, as it was given.
    Plain(String),
    /// A list or mapping with brackets, as it was given, and its value.
    Flow(String, Value),
}

/// Where it shall be written: what that asks of the writing.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// In a JSON text.
    pub json: bool,
    /// Within brackets or braces.
    pub flow: bool,
    /// The quotes of what stood there before.
    pub style: Style,
}

impl RenderRequest {
    /// What `value` means as a value of `key`.
    pub fn of(key: &str, value: &str) -> Result<Self, Fault> {
        let kind = kind_of(key)?;
        let braced = value.trim_start().starts_with('{');
        if kind == Some(ValueKind::Text) || (kind == Some(ValueKind::PathOrKeys) && !braced) {
            return Ok(Self { form: Form::Text(value.to_owned()) });
        }
        let value = value.trim();
        if value.is_empty() {
            return Err(Fault::of(key, "needs a value"));
        }
        if value.contains(['\n', '\r']) && !value.starts_with(['[', '{']) {
            return Err(Fault::of(key, "needs a value of one line"));
        }
        let form = match Document::parse(value) {
            Ok(document) => Form::parsed(&document).ok_or_else(|| {
                Fault::of(key, format!("`{}` needs braces or brackets to be written here", short(value)))
            })?,
            // No YAML by itself: a text that needs quotes.
            Err(_) => Form::Text(value.to_owned()),
        };
        Ok(Self { form })
    }

    /// The value's text there.
    pub fn written(&self, manner: Manner) -> String {
        match &self.form {
            Form::Text(text) => textual(text, manner),
            Form::Plain(text) if manner.json => json_scalar(text),
            Form::Plain(text) if is_textual(text) => textual(text, manner),
            Form::Plain(text) => text.clone(),
            Form::Flow(text, value) if manner.json => match serde_json::from_str::<Value>(text) {
                Ok(_) => text.clone(),
                Err(_) => value.to_string(),
            },
            Form::Flow(text, _) => text.clone(),
        }
    }

    /// What the written text must read back as.
    pub fn meant(&self, written: &str) -> Value {
        match &self.form {
            Form::Text(text) => Value::String(text.clone()),
            Form::Plain(_) => Document::parse(written).map_or(Value::Null, |document| document.root().to_json()),
            Form::Flow(_, value) => value.clone(),
        }
    }
}

impl Form {
    /// A scalar, or a list or mapping within brackets.
    fn parsed(document: &Document) -> Option<Self> {
        let root = document.root();
        match &root.shape {
            NodeShape::Scalar { text, style: Style::Plain } => Some(Self::Plain(text.clone())),
            NodeShape::Scalar { text, .. } => Some(Self::Text(text.clone())),
            _ if root.is_flow() => {
                document.text().get(root.span.clone()).map(|text| Self::Flow(text.to_owned(), root.to_json()))
            }
            _ => None,
        }
    }
}

/// The kind of a key; none for one that others define.
fn kind_of(key: &str) -> Result<Option<ValueKind>, Fault> {
    if let Some(known) = schema::key(key) {
        return Ok(Some(known.kind));
    }
    if schema::is_free(key) {
        return Ok(None);
    }
    let mut section = String::new();
    for part in key.split('.') {
        let path = if section.is_empty() { part.to_owned() } else { format!("{section}.{part}") };
        if schema::key(&path).is_none() {
            return Err(Fault::of(key, unknown_key(&section, part)));
        }
        section = path;
    }
    Err(Fault::of(key, "unknown key"))
}

/// A key, with quotes where the text or the key asks for them.
pub fn key_text(key: &str, manner: Manner) -> String {
    if manner.json || manner.style == Style::Double || !stays_plain(key, true) { quoted(key) } else { key.to_owned() }
}

/// A text in the quotes of what stood there, else bare, else in double quotes.
fn textual(text: &str, manner: Manner) -> String {
    if manner.json {
        return quoted(text);
    }
    match manner.style {
        Style::Single if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', "''")),
        Style::Plain | Style::Block if !needs_quotes(text, manner.flow) => text.to_owned(),
        _ => quoted(text),
    }
}

/// JSON's escapes are all YAML's too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Whether a text must be quoted to be one, in a list or mapping with brackets (`flow`) or without.
pub fn needs_quotes(text: &str, flow: bool) -> bool {
    !is_textual(text) || !stays_plain(text, flow)
}

/// Whether the bare text reads back as itself. The parser is asked, not a list of rules.
fn stays_plain(text: &str, flow: bool) -> bool {
    let is = |node: &Node| matches!(&node.shape, NodeShape::Scalar { text: read, style: Style::Plain } if read == text);
    let alone = |written: String| {
        Document::parse(&written).is_ok_and(|document| match &document.root().shape {
            NodeShape::Mapping { entries, .. } => matches!(entries.as_slice(), [only] if is(&only.value)),
            _ => false,
        })
    };
    !text.contains(['\n', '\r']) && alone(format!("key: {text}")) && (!flow || alone(format!("{{key: {text}}}")))
}

/// A plain scalar as JSON has it.
fn json_scalar(text: &str) -> String {
    let bare = text.replace('_', "");
    if serde_json::from_str::<Number>(&bare).is_ok() {
        return bare;
    }
    if let Some(number) = super::node::number(text).and_then(Number::from_f64) {
        return number.to_string();
    }
    Document::parse(text).map_or_else(|_| quoted(text), |document| document.root().to_json().to_string())
}
