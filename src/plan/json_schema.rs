//! The plan file's schema as JSON Schema, for editors: from the table that reading goes by.

use serde_json::{Map, Value, json};

use super::schema::{self, PlanKey, ValueKind};

/// The dialect that editors know best.
pub const DIALECT: &str = "http://json-schema.org/draft-07/schema#";

/// The schema of a plan file as JSON Schema, draft 7.
///
/// It lists the words as MemWall writes them; other cases and punctuation are read too.
///
/// ```
/// # use memwall_core as memwall;
/// let schema = memwall::plan::json_schema();
/// assert_eq!(schema["properties"]["run"]["properties"]["total_tokens"]["exclusiveMinimum"], 0);
/// ```
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = section("");
    let head = [("$schema", Value::from(DIALECT)), ("title", Value::from("A plan of MemWall"))];
    if let Some(keys) = schema.as_object_mut() {
        let rest = std::mem::take(keys);
        keys.extend(head.map(|(key, value)| (key.to_owned(), value)));
        keys.extend(rest);
    }
    schema
}

fn section(path: &str) -> Value {
    let properties: Map<String, Value> =
        schema::children(path).map(|key| (key.name().to_owned(), property(key))).collect();
    json!({"type": ["object", "null"], "additionalProperties": false, "properties": properties})
}

/// A key's value; null says nothing in any place.
fn property(key: &PlanKey) -> Value {
    let mut rule = match key.kind {
        ValueKind::Section => section(key.path),
        ValueKind::PathOrKeys => json!({"type": ["string", "object", "null"]}),
        ValueKind::Word(words) => word(words),
        ValueKind::WordOrSection(words) => json!({"anyOf": [word(words), section(key.path)]}),
        ValueKind::Words(words) => json!({"type": ["array", "null"], "items": word(words)}),
        ValueKind::Whole { min, max } => whole(min, max),
        ValueKind::Choice(choices) => {
            json!({"enum": choices.iter().map(|one| json!(one)).chain([Value::Null]).collect::<Vec<_>>()})
        }
        ValueKind::Wholes { min, max } => json!({"type": ["array", "null"], "items": whole(min, max)}),
        ValueKind::Positive { max } => {
            json!({"type": NUMBER, "pattern": EXPONENT_FORM, "exclusiveMinimum": 0, "maximum": max})
        }
        ValueKind::Amount { max } => json!({"type": NUMBER, "pattern": EXPONENT_FORM, "minimum": 0, "maximum": max}),
        ValueKind::Share => json!({"type": NUMBER, "pattern": EXPONENT_FORM, "minimum": 0, "exclusiveMaximum": 1}),
        ValueKind::Flag => json!({"type": ["boolean", "null"]}),
        ValueKind::FlagOrAmount => json!({"type": ["boolean", "number", "null"], "minimum": 0}),
        ValueKind::Text => json!({"type": ["string", "null"]}),
        ValueKind::Texts => json!({"type": ["array", "null"], "items": {"type": "string"}}),
    };
    if let Some(rule) = rule.as_object_mut() {
        rule.shift_insert(0, "description".to_owned(), Value::from(described(key)));
    }
    rule
}

/// A number, also one that a reader of YAML 1.1 took for a text.
const NUMBER: [&str; 3] = ["number", "string", "null"];

/// The numbers that YAML 1.1 takes for texts.
const EXPONENT_FORM: &str = r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$";

fn whole(min: u64, max: u64) -> Value {
    json!({"type": ["integer", "string", "null"], "pattern": EXPONENT_FORM, "minimum": min, "maximum": max})
}

/// Names first: an editor offers them in this order.
fn word(words: &[super::keywords::Word]) -> Value {
    let names = words.iter().map(|word| word.name);
    let others = words.iter().flat_map(|word| word.aliases).copied();
    json!({"enum": names.chain(others).map(Value::from).chain([Value::Null]).collect::<Vec<_>>()})
}

/// The key's line, and what each of its words means.
fn described(key: &PlanKey) -> String {
    let meanings = key.kind.words().iter().map(|word| format!("\n- {}: {}", word.name, word.meaning));
    std::iter::once(key.line.to_owned()).chain(meanings).collect()
}
