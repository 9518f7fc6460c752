//! A plan's file that somebody else writes while it is open.

use std::path::{Path, PathBuf};

use crate::app::editor::editing;
use crate::app::event::Effect;
use crate::app::notice::{info, problem};
use crate::app::state::{Saving, State};
use crate::reading::Moment;
use crate::units::Seconds;

/// Time between two looks at the file.
const EVERY: Seconds = Seconds(3.0);

/// What is known of the file of the plan in front.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedFile {
    /// When it was looked at last.
    looked: Option<Moment>,
    /// It is being looked at: a disk that does not answer is asked once.
    asked: bool,
    /// What stood in it at the last look, where that was news: a writer may have been half-way.
    seen: Option<(PathBuf, String)>,
    /// What was told of it already, while the plan has changes of its own.
    told: Option<(PathBuf, String)>,
    /// It was not there at the last looks: so many, which are counted to two.
    gone: (PathBuf, u8),
}

/// Looks at the plan's file from time to time. What a recording plays has its own time, and its plan is of then.
pub fn look(state: &mut State) -> Vec<Effect> {
    let busy = state.plans.watched.asked || state.plans.saving != Saving::Idle || state.recordings.playback.is_some();
    let editor = &state.plans.editor;
    let Some(path) = editor.path().filter(|_| !busy && !editor.is_new()) else { return Vec::new() };
    let watched = &mut state.plans.watched;
    if watched.looked.is_some_and(|at| state.now.since(at) < EVERY) {
        return Vec::new();
    }
    (watched.looked, watched.asked) = (Some(state.now), true);
    vec![Effect::LookAtFile { path: path.to_owned(), known: editor.saved_text().to_owned() }]
}

/// Tells once that the plan's file is no longer there, as two looks found it: an editor may be writing it anew.
pub fn note_gone(state: &mut State, path: &Path, is_gone: bool) {
    let (known, looks) = &mut state.plans.watched.gone;
    let before = if known == path { *looks } else { 0 };
    *looks = if is_gone { before.saturating_add(1).min(3) } else { 0 };
    let is_told = *looks == 2;
    path.clone_into(known);
    if is_told && state.plans.editor.path() == Some(path) {
        let name = path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from);
        state.notice = Some(problem(format!("{} was removed: saving writes it again", name.display())));
    }
}

/// The file at `path` was looked at: it holds `text` in place of what was `known` of it, or nothing new. A plan without
/// changes of its own is read again; the run keeps the plan that it was started with.
pub fn looked(state: &mut State, path: &Path, known: &str, text: Option<String>) {
    state.plans.watched.asked = false;
    let editor = &mut state.plans.editor;
    // Another plan may be in front by now, and this one may have been saved, or be in the writing.
    let is_it = editor.path() == Some(path) && editor.saved_text() == known && state.plans.saving == Saving::Idle;
    let Some(text) = text.filter(|_| is_it) else {
        state.plans.watched.seen = None;
        return;
    };
    let found = Some((path.to_owned(), text.clone()));
    if state.plans.watched.seen != found {
        state.plans.watched.seen = found;
        return;
    }
    if text == editor.text() {
        editor.note_on_disk(text);
        return;
    }
    let name = path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from);
    if editor.modified() {
        if state.plans.watched.told != found {
            state.plans.watched.told = found;
            state.notice = Some(problem(format!("{} was changed on disk: saving offers to merge", name.display())));
        }
        return;
    }
    // Nothing that is typed or chosen from is taken from under the hands.
    let form = &state.plans.form;
    if form.typing.is_some() || form.adding.is_some() || state.dialogs.picker.is_some() {
        return;
    }
    editor.note_on_disk(text.clone());
    editing::take_text(state, text);
    state.notice = Some(info(format!("{} was changed on disk and is read again; u takes it back", name.display())));
}
