//! Saving, leaving, and what is in the way of a file.

use std::path::PathBuf;

use super::drafts::forget;
use super::exporting;
use super::merging::merge;
use super::relocating::relocated;
use crate::app::editor::editing;
use crate::app::editor::{CONFIG, Editor};
use crate::app::event::{Effect, ExpectedFile};
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::picker::{Picker, PickerPurpose};
use crate::app::plans;
use crate::app::run::plan::RunPlan;
use crate::app::session::note_recent;
use crate::app::state::{Dialogs, Overlay, Plans, Saving, State};
use crate::plan::Document;
use crate::units::Seconds;

/// A file that was not written, because of what was found in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Which.
    pub path: PathBuf,
    /// What was found.
    pub found: SaveObstacle,
}

/// What is in the way of writing a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaveObstacle {
    /// What somebody else wrote since it was read; none where that is no text.
    Newer(Option<String>),
    /// Another file, that nobody has seen here; none where it is no text.
    Other(Option<String>),
    /// Nothing: the file was removed since it was read.
    Nothing,
}

/// A disk that takes longer than this to write a plan does not answer.
const SLOW: Seconds = Seconds(1.0);

/// Notes since when something is being written.
pub fn note_time(state: &mut State) {
    let plans = &mut state.plans;
    match plans.saving {
        Saving::Idle => plans.saving_since = None,
        _ => _ = plans.saving_since.get_or_insert(state.now),
    }
}

/// For how long a file has been written that should long be on the disk.
#[must_use]
pub fn hangs_for(state: &State) -> Option<Seconds> {
    let time = state.now.since(state.plans.saving_since?);
    (time.0 > SLOW.0).then_some(Seconds(time.0.round()))
}

/// Shows what is to be saved; what is shown already is saved. Without changes the file is looked
/// at all the same: it may be gone, or another one.
pub fn ask(state: &mut State) -> Vec<Effect> {
    if state.plans.saving != Saving::Idle {
        let time = hangs_for(state).map_or_else(String::new, |time| format!(" for {time}"));
        state.notice = Some(problem(format!("still being written{time}: the disk does not answer")));
        return Vec::new();
    }
    if !state.plans.editor.modified() && state.plans.editor.path().is_some() {
        return save(&mut state.plans, false);
    }
    state.dialogs.overlay = Some(Overlay::Diff(0));
    Vec::new()
}

/// Asks for the file to save to instead of the plan's own.
pub fn ask_where(dialogs: &mut Dialogs) {
    dialogs.picker = Some(Picker::open(PickerPurpose::SaveAs, Vec::new(), None));
}

/// Writes the plan; `over` whatever is there.
pub fn save(plans: &mut Plans, over: bool) -> Vec<Effect> {
    if plans.saving != Saving::Idle {
        return Vec::new();
    }
    plans.saving = Saving::Plan;
    let editor = &plans.editor;
    let own = editor.path().map(Into::into);
    let expected = match (&plans.save_as, &own) {
        _ if over => ExpectedFile::Anything,
        (None, Some(_)) if editor.is_new() => ExpectedFile::Nothing,
        (None, Some(_)) => ExpectedFile::Text(editor.saved_text().to_owned()),
        (Some(path), Some(own)) if path == own => ExpectedFile::Text(editor.saved_text().to_owned()),
        (Some(_), _) | (None, None) => ExpectedFile::Nothing,
    };
    let moved = plans.save_as.as_deref().and_then(|path| relocated(editor, path));
    let text = moved.as_ref().map_or_else(|| editor.text(), Document::text).to_owned();
    let path = plans.save_as.clone().or(own);
    vec![Effect::Save { path, name: editor.name().to_owned(), text, expected }]
}

/// A file is on disk.
pub fn saved(state: &mut State, path: PathBuf, text: String) -> Vec<Effect> {
    if std::mem::take(&mut state.plans.saving) == Saving::Export {
        exporting::written(state, &path);
        return Vec::new();
    }
    state.plans.save_as = None;
    let mut said = format!("saved {}", path.display());
    let forget = forget(&state.plans);
    if let Some(moved) = relocated(&state.plans.editor, &path).filter(|moved| moved.text() == text) {
        said += &format!("; there model.hf_config is {}", moved.written(CONFIG).unwrap_or_default());
        editing::apply(state, moved);
    }
    state.notice = Some(info(said));
    note_recent(&mut state.plans.recent, &path);
    // The run's plan is still that under another name.
    let of_run = state.plans.run.as_ref().is_some_and(|run| run.is(&state.plans.editor));
    state.plans.editor.mark_saved(path, text);
    if of_run {
        state.plans.run = RunPlan::of(&state.plans.editor).or(state.plans.run.take());
    }
    let mut effects = Vec::new();
    if !state.plans.editor.modified() {
        state.plans.kept = None;
        effects.push(forget);
    }
    if state.plans.quit_after_save {
        // What was edited while an earlier text was being written is saved before leaving.
        effects.extend(if state.plans.editor.modified() {
            save(&mut state.plans, false)
        } else {
            go_on_leaving(state)
        });
    }
    effects
}

/// The file holds what would have been written.
pub fn unchanged(state: &mut State) {
    state.plans.saving = Saving::Idle;
    state.plans.save_as = None;
    state.notice = Some(info("nothing to save: the file holds this text"));
}

/// Nothing was written, and nothing is lost.
pub fn failed(state: &mut State, why: &str) {
    let other = if state.plans.saving == Saving::Plan { "; S saves it elsewhere" } else { "" };
    state.plans.saving = Saving::Idle;
    state.plans.quit_after_save = false;
    state.plans.save_as = None;
    state.notice = Some(problem(format!("{why}{other}")));
}

/// Something is in the way: what to do is asked. What was to be written is known still.
pub fn refused(state: &mut State, conflict: Conflict) {
    state.plans.quit_after_save = false;
    state.plans.conflict = Some(conflict);
    state.dialogs.overlay = Some(Overlay::Conflict(0));
    if state.plans.saving == Saving::Plan {
        state.plans.saving = Saving::Idle;
    }
}

/// What is to be written: the plan, or what it is exported as.
#[must_use]
pub fn to_be_written(state: &State) -> &str {
    match &state.plans.export {
        Some(export) if state.plans.saving == Saving::Export => export.text(),
        _ => state.plans.editor.text(),
    }
}

/// A key while it is shown what is in the way.
pub fn on_conflict(state: &mut State, key: KeyPress) -> Vec<Effect> {
    state.dialogs.overlay = None;
    let Some(conflict) = state.plans.conflict.take() else { return Vec::new() };
    let export = state.plans.saving == Saving::Export;
    state.plans.saving = Saving::Idle;
    let again = if conflict.found == SaveObstacle::Nothing { KeyPress::Char('w') } else { KeyPress::Char('o') };
    match (key, conflict.found) {
        (key, _) if key == again && export => return exporting::write(&mut state.plans, true),
        (key, _) if key == again => return save(&mut state.plans, true),
        (KeyPress::Char('S'), _) if export => exporting::ask_where(state),
        (KeyPress::Char('S'), _) => ask_where(&mut state.dialogs),
        (KeyPress::Char('m'), SaveObstacle::Newer(Some(theirs))) => merge(state, theirs),
        _ => state.plans.save_as = None,
    }
    Vec::new()
}

/// Leaves; asks first while a plan has unsaved changes.
pub fn quit(state: &mut State) -> Vec<Effect> {
    let unsaved = state.plans.tabs.all(&state.plans.editor).position(Editor::modified);
    let Some(place) = unsaved else { return vec![Effect::Quit] };
    if !state.plans.editor.modified() {
        plans::go_to(state, place);
    }
    state.dialogs.overlay = Some(Overlay::ConfirmQuit);
    Vec::new()
}

/// A key while it is asked what to do with unsaved changes.
pub fn on_quit(state: &mut State, key: KeyPress) -> Vec<Effect> {
    state.dialogs.overlay = None;
    match key {
        KeyPress::Char('q') | KeyPress::Ctrl('c') => {
            let mut effects = vec![forget(&state.plans)];
            state.plans.kept = None;
            state.plans.editor.discard_changes();
            effects.extend(go_on_leaving(state));
            effects
        }
        KeyPress::Char('s') | KeyPress::Ctrl('s') => {
            state.plans.quit_after_save = true;
            save(&mut state.plans, false)
        }
        _ => Vec::new(),
    }
}

/// The plan in front is done with: the next unsaved one is asked about, or this is the end.
fn go_on_leaving(state: &mut State) -> Vec<Effect> {
    state.plans.quit_after_save = false;
    if state.plans.tabs.close(&mut state.plans.editor) { quit(state) } else { vec![Effect::Quit] }
}
