//! Changes to a plan's text that belong together.

use serde_json::{Map, Value};

use super::document::Document;
use super::fault::Fault;

/// Keys that get other values, and keys that go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Change {
    /// Keys and their new values.
    pub set: Vec<(&'static str, String)>,
    /// Keys that go.
    pub remove: Vec<&'static str>,
}

impl Change {
    /// One key that gets a value.
    #[must_use]
    pub fn to(key: &'static str, value: impl Into<String>) -> Self {
        Self { set: vec![(key, value.into())], remove: Vec::new() }
    }

    /// And another.
    #[must_use]
    pub fn and(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.set.push((key, value.into()));
        self
    }

    /// In words, keys by their last part: `tensor_parallel 4, without nodes`.
    #[must_use]
    pub fn words(&self) -> String {
        let name = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
        let set = self.set.iter().map(|(key, value)| format!("{} {value}", name(key)));
        let removed = self.remove.iter().map(|key| format!("without {}", name(key)));
        set.chain(removed).collect::<Vec<_>>().join(", ")
    }

    /// What is set, as a JSON plan has it: numbers and truth values are no text.
    #[must_use]
    pub fn set_json(&self) -> Map<String, Value> {
        let of = |text: &str| Document::parse(&format!("value: {text}")).ok()?.value("value");
        self.set
            .iter()
            .map(|(key, text)| ((*key).to_owned(), of(text).unwrap_or_else(|| text.as_str().into())))
            .collect()
    }

    /// Both changes together; none where they disagree about a key.
    #[must_use]
    pub fn with(&self, other: &Self) -> Option<Self> {
        let touches = |key: &str| self.set.iter().any(|(own, _)| *own == key) || self.remove.contains(&key);
        if other.set.iter().any(|(key, _)| touches(key)) || other.remove.iter().any(|key| touches(key)) {
            return None;
        }
        let mut both = self.clone();
        both.set.extend(other.set.iter().cloned());
        both.remove.extend(other.remove.iter().copied());
        Some(both)
    }
}

impl Document {
    /// The document with a change made to its text, and nothing else.
    ///
    /// # Errors
    /// Where the text cannot be changed in place.
    pub fn changed(&self, change: &Change) -> Result<Self, Fault> {
        let mut document = self.clone();
        for key in change.remove.iter().filter(|key| self.value(key).is_some()) {
            document = document.without(key)?;
        }
        for (key, value) in &change.set {
            document = document.with_value(key, value)?;
        }
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_plan_takes_what_is_set() {
        let change = Change::to("distribution.tensor_parallel", "2")
            .and("distribution.sequence_parallel", "true")
            .and("training.activation_checkpointing", "{every: 3}")
            .and("distribution.sharding", "zero3");
        let set = serde_json::json!({
            "distribution.tensor_parallel": 2, "distribution.sequence_parallel": true,
            "training.activation_checkpointing": {"every": 3}, "distribution.sharding": "zero3",
        });
        assert_eq!(Value::Object(change.set_json()), set);
    }
}
