//! A text as a tree: every key and value with its bytes and its place.

use std::ops::Range;

use serde_json::{Map, Number, Value};

use super::fault::TextPosition;

/// A value of the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its bytes in the text. Of a block mapping or list: first key to last value.
    pub span: Range<usize>,
    /// Where it starts.
    pub at: TextPosition,
    /// What it is.
    pub shape: NodeShape,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeShape {
    /// One word, number or text.
    Scalar {
        /// Its text, without quotes, escapes undone.
        text: String,
        /// How it is written.
        style: Style,
    },
    /// A list.
    Sequence {
        /// Its items.
        items: Vec<Node>,
        /// Written with brackets.
        flow: bool,
    },
    /// Keys and values.
    Mapping {
        /// In the order of the text.
        entries: Vec<Entry>,
        /// Written with braces.
        flow: bool,
    },
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Bare: may be a number, a truth value or nothing.
    Plain,
    /// `'so'`: always text.
    Single,
    /// `"so"`: always text.
    Double,
    /// `|` or `>`: always text.
    Block,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key, without quotes.
    pub key: String,
    /// The key's bytes.
    pub span: Range<usize>,
    /// Where the key starts.
    pub at: TextPosition,
    /// How the key is written.
    pub style: Style,
    /// Its value.
    pub value: Node,
}

impl Node {
    /// Nothing: an empty value, `~` or `null`. As good as an absent key.
    pub fn is_null(&self) -> bool {
        matches!(&self.shape, NodeShape::Scalar { text, style: Style::Plain }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// The entries, where this is a mapping.
    pub fn entries(&self) -> &[Entry] {
        match &self.shape {
            NodeShape::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    /// The entry of that key, where this is a mapping that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Written with brackets or braces.
    pub fn is_flow(&self) -> bool {
        matches!(self.shape, NodeShape::Sequence { flow: true, .. } | NodeShape::Mapping { flow: true, .. })
    }

    /// A list or mapping that takes its shape from indentation.
    pub fn is_block(&self) -> bool {
        matches!(self.shape, NodeShape::Sequence { flow: false, .. } | NodeShape::Mapping { flow: false, .. })
    }

    /// As a JSON value. Plain words become numbers, truth values and null as YAML's core
    /// schema has it; a number that JSON cannot hold stays text.
    pub fn to_json(&self) -> Value {
        match &self.shape {
            NodeShape::Scalar { text, style: Style::Plain } => plain_json(self, text),
            NodeShape::Scalar { text, .. } => Value::String(text.clone()),
            NodeShape::Sequence { items, .. } => Value::Array(items.iter().map(Self::to_json).collect()),
            NodeShape::Mapping { .. } => Value::Object(self.to_json_map()),
        }
    }

    /// The entries as a JSON object; empty where this is no mapping.
    pub fn to_json_map(&self) -> Map<String, Value> {
        self.entries().iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
    }
}

fn plain_json(node: &Node, text: &str) -> Value {
    if node.is_null() {
        return Value::Null;
    }
    if let Some(truth) = truth(text) {
        return Value::Bool(truth);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if let Ok(whole) = text.parse::<i64>() {
            return Value::from(whole);
        }
        if let Ok(whole) = text.parse::<u64>() {
            return Value::from(whole);
        }
    }
    // Separators are MemWall's own courtesy in plans, not part of the core schema.
    let number = if text.contains('_') { None } else { number(text) };
    number.and_then(Number::from_f64).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

/// `true` or `false` as the core schema spells them.
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// A decimal number: `4096`, `4_096`, `-1.5`, `.5`, `2.0e11`. Too large a one is infinite.
pub fn number(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let grouped = |digits: &str| digits.is_empty() || digits.split('_').all(|part| !part.is_empty() && plain(part));
    let good = grouped(whole)
        && grouped(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && plain(exponent));
    if good { text.replace('_', "").parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_decimal_with_separators_between_digits() {
        for (text, value) in
            [("4096", 4096.0), ("4_096", 4096.0), ("2.0e11", 2e11), (".5", 0.5), ("-1", -1.0), ("7.", 7.0)]
        {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for text in ["", ".", "_1", "1_", "1__0", "1e", "e5", "0x10", "inf", ".inf", "nan", "1,024", "1 024", "--1"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number("1e999"), Some(f64::INFINITY));
    }
}
