//! Changing one value of a plan's text and nothing else: comments, order, quotes and line
//! ends stay. Every edit is read back before it counts.

use serde_json::{Map, Value};

use super::document::Document;
use super::fault::Fault;
use super::lines::{Splice, spliced};
use super::place;
use super::render::RenderRequest;

impl Document {
    /// The document with `value` at a dotted key: in place where the key exists, else as the
    /// last line of its section, which is added where it is absent. A list or a group of keys
    /// is given with brackets (`[mlp, moe_act]`, `{every: 2}`); a text is quoted as needed.
    /// Whether the value is a good one for its key, [`Document::plan`] says.
    ///
    /// # Errors
    /// Where the schema has no such key, or the text does not allow this change by itself.
    pub fn with_value(&self, key: &str, value: &str) -> Result<Self, Fault> {
        let wanted = RenderRequest::of(key, value)?;
        let placed = place::put(self, key, &wanted)?;
        let mut expected = self.root().to_json();
        set(&mut expected, key, wanted.meant(&placed.written));
        self.confirmed(key, placed.splices, &expected)
    }

    /// The document without a key and its lines, nor the section that this leaves empty. A
    /// key that is absent changes nothing.
    ///
    /// # Errors
    /// Where the text does not allow this change by itself.
    pub fn without(&self, key: &str) -> Result<Self, Fault> {
        if self.node(key).is_none() {
            return Ok(self.clone());
        }
        let (removed, splices) = place::take_out(self, key);
        let mut expected = self.root().to_json();
        remove(&mut expected, &removed);
        self.confirmed(key, splices, &expected)
    }

    /// The changed text, if it reads back as `expected`.
    fn confirmed(&self, key: &str, splices: Vec<Splice>, expected: &Value) -> Result<Self, Fault> {
        let refused = || {
            let message = "cannot be changed by itself in this text (is it shared by an alias?); change it in the text";
            self.placed(Fault::of(key, message))
        };
        let edited = self.reparse(&spliced(self.text(), splices)).map_err(|_| refused())?;
        // A document without keys is empty, however it is written.
        let read = edited.root().to_json();
        let empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
        if read == *expected || (empty(&read) && empty(expected)) { Ok(edited) } else { Err(refused()) }
    }
}

/// Puts a value at a dotted path, with the objects above it.
fn set(root: &mut Value, path: &str, value: Value) {
    let mut node = root;
    for part in path.split('.') {
        if !node.is_object() {
            *node = Value::Object(Map::new());
        }
        let Value::Object(map) = node else { return };
        node = map.entry(part).or_insert(Value::Null);
    }
    *node = value;
}

/// Takes the value at a dotted path out.
fn remove(root: &mut Value, path: &str) {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let parts = section.split('.').filter(|part| !part.is_empty());
    let mut node = Some(root);
    for part in parts {
        node = node.and_then(|node| node.get_mut(part));
    }
    if let Some(map) = node.and_then(Value::as_object_mut) {
        map.shift_remove(name);
    }
}
