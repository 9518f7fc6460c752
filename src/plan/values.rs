//! Single values by their kind, and what is said of one that is of another.

use super::node::{self, Node, NodeShape, Style};
use super::schema::ValueKind;

/// More entries than this are no list of a plan.
const MAX_LIST: usize = 1024;

/// A plain scalar: a quoted one is always text.
fn plain(node: &Node) -> Option<&str> {
    match &node.shape {
        NodeShape::Scalar { text, style: Style::Plain } => Some(text),
        _ => None,
    }
}

/// What may be read as a number: a plain scalar, and a quoted one in exponent form. YAML 1.1 takes `1.5e13` for a text
/// (it wants `1.5e+13`), and what reads plans with it, as PyYAML, hands that on in quotes.
fn numeric(node: &Node) -> Option<&str> {
    match &node.shape {
        NodeShape::Scalar { text, style: Style::Double | Style::Single } if is_exponential(text) => Some(text),
        _ => plain(node),
    }
}

/// Whether a text is a YAML 1.2 float with an exponent: `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+`.
fn is_exponential(text: &str) -> bool {
    let unsigned = |text: &str| text.strip_prefix(['-', '+']).unwrap_or(text).to_owned();
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return false };
    let (mantissa, exponent) = (unsigned(mantissa), unsigned(exponent));
    let (whole, part) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
    is_digits(whole) && is_digits(part) && whole.len() + part.len() > 0 && is_digits(&exponent) && !exponent.is_empty()
}

/// A whole number within the kind's bounds.
pub fn whole(node: &Node, kind: ValueKind) -> Option<u64> {
    let value = digits(numeric(node)?)?;
    match kind {
        ValueKind::Whole { min, max } | ValueKind::Wholes { min, max } => (min..=max).contains(&value).then_some(value),
        ValueKind::Choice(choices) => choices.contains(&value).then_some(value),
        _ => None,
    }
}

/// A whole number, also where it is written as `32.0` or `1e6`.
fn digits(text: &str) -> Option<u64> {
    let value = node::number(text)?;
    if let Ok(exact) = text.replace('_', "").parse() {
        return Some(exact);
    }
    // Up to 2^53 a float holds every whole number; no bound of the schema is higher.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value as u64;
    (value >= 0.0 && value <= 2_f64.powi(53) && value.fract() == 0.0).then_some(whole)
}

/// A number within the kind's bounds.
pub fn number(node: &Node, kind: ValueKind) -> Option<f64> {
    let value = node::number(numeric(node)?)?;
    let within = match kind {
        ValueKind::Positive { max } => value > 0.0 && value <= max,
        ValueKind::Amount { max } => value >= 0.0 && value <= max,
        ValueKind::Share => (0.0..1.0).contains(&value),
        _ => false,
    };
    within.then_some(value)
}

/// `true` or `false`; where the kind allows, a number that is more than 0 or 0.
pub fn flag(node: &Node, kind: ValueKind) -> Option<bool> {
    let text = plain(node)?;
    node::truth(text).or_else(|| {
        let value = node::number(text).filter(|value| kind == ValueKind::FlagOrAmount && *value >= 0.0)?;
        value.is_finite().then_some(value > 0.0)
    })
}

/// A text. A bare number or truth value is none: it needs quotes.
pub fn text(node: &Node) -> Option<&str> {
    match &node.shape {
        NodeShape::Scalar { text, style: Style::Plain } => is_textual(text).then_some(text.as_str()),
        NodeShape::Scalar { text, .. } => (!text.trim().is_empty()).then_some(text.as_str()),
        _ => None,
    }
}

/// Whether a plain scalar of that text is a text, not a number, a truth value or nothing.
pub fn is_textual(text: &str) -> bool {
    !matches!(text, "" | "~" | "null" | "Null" | "NULL") && node::truth(text).is_none() && node::number(text).is_none()
}

/// Every item, where all are good.
pub fn list<'a, T>(node: &'a Node, read: impl Fn(&'a Node) -> Option<T>) -> Option<Vec<T>> {
    match &node.shape {
        NodeShape::Sequence { items, .. } if items.len() <= MAX_LIST => items.iter().map(read).collect(),
        _ => None,
    }
}

/// What stands there, and what should: `` `0` where a whole number from 1 to 8 is needed ``.
pub fn mismatch(node: &Node, kind: ValueKind) -> String {
    let found = match &node.shape {
        NodeShape::Sequence { items, .. } if items.len() > MAX_LIST => format!("a list of {} items", items.len()),
        NodeShape::Sequence { items, .. } => items
            .iter()
            .find(|item| !fits(item, kind))
            .map_or_else(|| "a list".to_owned(), |item| format!("a list with {}", shown(item))),
        _ => shown(node),
    };
    let quoted = matches!(&node.shape, NodeShape::Scalar { text, style: Style::Single | Style::Double }
        if !is_textual(text) && !matches!(kind, ValueKind::Text | ValueKind::Texts));
    let hint = if quoted { ", without quotes" } else { needs_quotes(node, kind) };
    format!("{found} where {kind} is needed{hint}{}", written_out(node, kind))
}

/// `4k` is 4096 to one and 4000 to another.
fn written_out(node: &Node, kind: ValueKind) -> String {
    let NodeShape::Scalar { text, .. } = &node.shape else { return String::new() };
    let thousands = text.strip_suffix(['k', 'K']).and_then(|count| count.parse::<u64>().ok());
    match thousands.filter(|_| matches!(kind, ValueKind::Whole { .. })).and_then(|count| count.checked_mul(1024)) {
        Some(binary) => format!(": write {binary} or {}", binary / 1024 * 1000),
        None => String::new(),
    }
}

/// Whether an item of a list is not to blame.
fn fits(item: &Node, kind: ValueKind) -> bool {
    match kind {
        ValueKind::Wholes { .. } => whole(item, kind).is_some(),
        ValueKind::Texts => text(item).is_some(),
        // The list itself is wrong.
        _ => true,
    }
}

fn needs_quotes(node: &Node, kind: ValueKind) -> &'static str {
    let bare = plain(node).is_some() && !node.is_null();
    if bare && kind == ValueKind::Text { " (in quotes, if it is meant so)" } else { "" }
}

fn shown(node: &Node) -> String {
    match &node.shape {
        NodeShape::Scalar { text, style: Style::Plain } if text.is_empty() => "nothing".to_owned(),
        NodeShape::Scalar { text, style: Style::Plain } => format!("`{}`", short(text)),
        NodeShape::Scalar { text, .. } => format!("the text `{}`", short(text)),
        NodeShape::Sequence { .. } => "a list".to_owned(),
        NodeShape::Mapping { .. } => "a group of keys".to_owned(),
    }
}

/// In one line, and not too long a one.
pub fn short(text: &str) -> String {
    const MOST: usize = 40;
    let line: String = text.chars().take(MOST).map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if text.chars().nth(MOST).is_some() { format!("{line}…") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_exponent_form_are_told_from_others() {
        for text in ["1.5e13", "3.0E11", "1e6", "-.5e-3", "+2.e+8"] {
            assert!(is_exponential(text), "{text}");
        }
        for text in ["4096", "1.5", "e5", ".e5", "1e", "1e+", "0x1e5", "1_0e5", "1e5 ", "1e5e5", "1.2.3e5", "inf", ""] {
            assert!(!is_exponential(text), "{text}");
        }
    }
}
