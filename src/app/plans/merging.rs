//! Two sets of changes to one plan, ours and somebody else's, as one text.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::app::editor::editing;
use crate::app::editor::text::TextView;
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::plan::{Document, TextPosition};

/// Both sets of changes in one text: by lines; where these meet, by values; where these are
/// two for one key, both are put in for the user to choose.
pub fn merge(state: &mut State, theirs: String) {
    let editor = &mut state.plans.editor;
    let (base, ours) = (editor.saved_text().to_owned(), editor.text().to_owned());
    editor.note_merge(theirs.clone());
    match merged(&base, &ours, &theirs) {
        Ok(text) => {
            editing::take_text(state, text);
            state.notice = Some(info("merged: your changes on top of theirs; save shows them"));
        }
        Err(conflict) => {
            choose(state, conflict);
            state.notice = Some(problem("both changed the same lines: choose between the marks, then save"));
        }
    }
}

/// The text with both, at its first mark.
pub fn choose(state: &mut State, MergeConflict { both }: MergeConflict) {
    let line = both.lines().position(|line| line.starts_with("<<<<<<<")).map_or(1, |at| at + 1);
    editing::take_text(state, both);
    state.plans.text = Some(TextView::open(state.plans.editor.text(), Some(TextPosition { line, column: 1 })));
}

/// Both changed the same lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("both changed the same lines")]
pub struct MergeConflict {
    /// The text with both, between marks as git sets them.
    pub both: String,
}

/// Our changes to the base, on top of theirs.
///
/// # Errors
/// Where both changed the same.
pub fn merged(base: &str, ours: &str, theirs: &str) -> Result<String, MergeConflict> {
    let merged = diffy::merge(base, ours, theirs);
    merged.or_else(|both| by_value(base, ours, theirs).ok_or(MergeConflict { both }))
}

/// Our values put into their text, where our text differs from the base in nothing but values
/// and they did not change the same ones.
fn by_value(base: &str, ours: &str, theirs: &str) -> Option<String> {
    let (base, ours) = (Document::parse(base).ok()?, Document::parse(ours).ok()?);
    let mut merged = Document::parse(theirs).ok()?;
    let (before, after) = (values_of(&base), values_of(&ours));
    let mut alone = base.clone();
    for (key, value) in &after {
        let old = before.get(key);
        if old == Some(value) {
            continue;
        }
        let written = ours.written(key)?;
        let there = merged.value(key).filter(|there| there != value);
        if there.is_some() && there.as_ref() != old {
            return None;
        }
        alone = alone.with_value(key, written).ok()?;
        merged = merged.with_value(key, written).ok()?;
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        if merged.value(key).as_ref() != before.get(key) {
            return None;
        }
        alone = alone.without(key).ok()?;
        merged = merged.without(key).ok()?;
    }
    // Comments or order of ours would be lost.
    (alone.text() == ours.text()).then(|| merged.text().to_owned())
}

/// Every key that has a value and no further keys, with that value.
fn values_of(document: &Document) -> BTreeMap<String, Value> {
    let mut values = BTreeMap::new();
    let mut open: Vec<(String, Value)> =
        document.keys().filter_map(|key| document.value(&key).map(|value| (key, value))).collect();
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(map) => open.extend(map.into_iter().map(|(key, value)| (format!("{path}.{key}"), value))),
            value => drop(values.insert(path, value)),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::by_value;

    const BASE: &str = "model:\n  batch_size: 8\n  sequence_length: 2048 # long\nrun: {total_tokens: 1e9}\n";

    #[test]
    fn values_of_neighbouring_lines_are_merged() {
        let ours = BASE.replace("batch_size: 8", "batch_size: 16");
        let theirs = BASE.replace("2048 # long", "4096 # longer");
        let merged = by_value(BASE, &ours, &theirs).unwrap();
        assert_eq!(merged, theirs.replace("batch_size: 8", "batch_size: 16"));
    }

    #[test]
    fn two_values_for_one_key_are_no_merge() {
        let (ours, theirs) = (BASE.replace("2048", "4096"), BASE.replace("2048", "1024"));
        assert_eq!(by_value(BASE, &ours, &theirs), None);
        let gone = BASE.replace("  sequence_length: 2048 # long\n", "");
        assert_eq!(by_value(BASE, &gone, &theirs), None);
    }

    #[test]
    fn a_comment_of_ours_is_not_lost() {
        let ours = BASE.replace("batch_size: 8", "batch_size: 16 # more");
        assert_eq!(by_value(BASE, &ours, &BASE.replace("2048", "1024")), None);
    }
}
