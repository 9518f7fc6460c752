//! Saving, leaving, what somebody else wrote meanwhile, and what is kept against a crash.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::editor::Editor;
use super::event::{Effect, Expected, Unsaved};
use super::key::Key;
use super::notice::{info, problem};
use super::plans;
use super::state::{Overlay, Saving, State};
use super::text::TextView;
use crate::plan::{Document, Mark};

/// Shows what is to be saved; what is shown already is saved.
pub fn ask(state: &mut State) -> Vec<Effect> {
    if state.saving == Saving::UnderWay {
        return Vec::new();
    }
    if !state.editor.modified() && state.editor.path().is_some() {
        state.notice = Some(info("nothing to save: the file holds this text"));
        return Vec::new();
    }
    state.overlay = Some(Overlay::Diff(0));
    Vec::new()
}

/// Writes the plan; `over` whatever is there.
pub fn save(state: &mut State, over: bool) -> Vec<Effect> {
    if state.saving == Saving::UnderWay {
        return Vec::new();
    }
    state.saving = Saving::UnderWay;
    let editor = &state.editor;
    let own = editor.path().map(Into::into);
    let expected = match (&state.save_as, &own) {
        _ if over => Expected::Anything,
        (None, Some(_)) => Expected::Text(editor.saved_text().to_owned()),
        (Some(_), _) | (None, None) => Expected::Nothing,
    };
    let path = state.save_as.clone().or(own);
    vec![Effect::Save { path, name: editor.name().to_owned(), text: editor.text().to_owned(), expected }]
}

/// The plan is on disk.
pub fn saved(state: &mut State, path: PathBuf, text: String) -> Vec<Effect> {
    state.saving = Saving::Idle;
    state.save_as = None;
    state.notice = Some(info(format!("saved {}", path.display())));
    let forget = Effect::Forget { path: state.editor.path().map(Into::into), name: state.editor.name().to_owned() };
    state.editor.mark_saved(path, text);
    let mut effects = Vec::new();
    if !state.editor.modified() {
        state.kept = None;
        effects.push(forget);
    }
    if state.quit_after_save {
        // What was edited while an earlier text was being written is saved before leaving.
        effects.extend(if state.editor.modified() { save(state, false) } else { go_on_leaving(state) });
    }
    effects
}

/// The file is another one than the one that was opened: what to do is asked.
pub fn refused(state: &mut State, why: &str, theirs: Option<String>) {
    state.saving = Saving::Idle;
    state.quit_after_save = false;
    state.notice = Some(problem(why));
    state.theirs = theirs;
    state.overlay = Some(Overlay::Conflict(0));
}

/// A key while what somebody else wrote is shown.
pub fn on_conflict(state: &mut State, key: Key) -> Vec<Effect> {
    match key {
        Key::Char('o') => {
            state.overlay = None;
            return save(state, true);
        }
        Key::Char('m') => {
            state.overlay = None;
            merge(state);
        }
        _ => {
            state.overlay = None;
            state.save_as = None;
        }
    }
    Vec::new()
}

/// Both sets of changes in one text: by lines; where these meet, by values; where these are
/// two for one key, both are put in for the user to choose.
fn merge(state: &mut State) {
    let Some(theirs) = state.theirs.take() else {
        state.notice = Some(problem("there is nothing to merge with: o writes over it"));
        return;
    };
    let editor = &mut state.editor;
    let (base, ours) = (editor.saved_text().to_owned(), editor.text().to_owned());
    let merged = diffy::merge(&base, &ours, &theirs);
    editor.note_on_disk(theirs.clone());
    match merged.or_else(|both| by_value(&base, &ours, &theirs).ok_or(both)) {
        Ok(text) => {
            editor.set_text(text, false, &state.catalog);
            state.notice = Some(info("merged: your changes on top of theirs; save shows them"));
        }
        Err(both) => {
            let line = both.lines().position(|line| line.starts_with("<<<<<<<")).map_or(1, |at| at + 1);
            editor.set_text(both, false, &state.catalog);
            state.text = Some(TextView::open(state.editor.text(), Some(Mark { line, column: 1 })));
            state.notice = Some(problem("both changed the same lines: choose between the marks, then save"));
        }
    }
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

/// Leaves; asks first while a plan has unsaved changes.
pub fn quit(state: &mut State) -> Vec<Effect> {
    let unsaved = state.tabs.all(&state.editor).position(Editor::modified);
    let Some(place) = unsaved else { return vec![Effect::Quit] };
    if !state.editor.modified() {
        plans::go_to(state, place);
    }
    state.overlay = Some(Overlay::ConfirmQuit);
    Vec::new()
}

/// A key while it is asked what to do with unsaved changes.
pub fn on_quit(state: &mut State, key: Key) -> Vec<Effect> {
    state.overlay = None;
    match key {
        Key::Char('q') | Key::Ctrl('c') => {
            let mut effects = vec![forget(state)];
            state.kept = None;
            state.editor.discard_changes();
            effects.extend(go_on_leaving(state));
            effects
        }
        Key::Char('s') | Key::Ctrl('s') => {
            state.quit_after_save = true;
            save(state, false)
        }
        _ => Vec::new(),
    }
}

/// The plan in front is done with: the next unsaved one is asked about, or this is the end.
fn go_on_leaving(state: &mut State) -> Vec<Effect> {
    state.quit_after_save = false;
    if state.tabs.close(&mut state.editor) { quit(state) } else { vec![Effect::Quit] }
}

fn forget(state: &State) -> Effect {
    Effect::Forget { path: state.editor.path().map(Into::into), name: state.editor.name().to_owned() }
}

/// Keeps the unsaved text where it is another one than was kept last.
pub fn keep(state: &mut State) -> Option<Effect> {
    let editor = &state.editor;
    let asked = matches!(state.overlay, Some(Overlay::Recovered(_)));
    if !editor.modified() {
        // Taken back to what the file holds: nothing is unsaved any more.
        return state.kept.take().map(|_| forget(state));
    }
    if asked || state.kept.as_deref() == Some(editor.text()) {
        return None;
    }
    state.kept = Some(editor.text().to_owned());
    let (path, name) = (editor.path().map(Into::into), editor.name().to_owned());
    Some(Effect::Keep(Unsaved { path, name, text: editor.text().to_owned() }))
}

/// A key while what was kept is offered. It stays offered until it is taken or deleted: the
/// next edit would be kept in its place.
pub fn on_recovered(state: &mut State, key: Key) -> Vec<Effect> {
    match key {
        Key::Char('r') | Key::Enter => {
            state.overlay = None;
            if let Some(text) = state.recovered.take() {
                state.editor.set_text(text, false, &state.catalog);
                state.notice = Some(info("your unsaved changes are back; u takes them out again"));
            }
            Vec::new()
        }
        Key::Char('d') => {
            state.overlay = None;
            state.recovered = None;
            vec![forget(state)]
        }
        Key::Char('q') => vec![Effect::Quit],
        _ => Vec::new(),
    }
}

/// Offers what was kept of the plan in front, where it says something else than the file.
pub fn offer(state: &mut State, kept: Option<String>) {
    state.recovered = kept.filter(|kept| kept != state.editor.text());
    if state.recovered.is_some() {
        state.overlay = Some(Overlay::Recovered(0));
    }
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
