//! A plan's file that somebody else writes while it is open.

use std::path::{Path, PathBuf};

use crate::app::editor::editing;
use crate::app::event::Effect;
use crate::app::notice::{info, problem};
use crate::app::state::{Saving, State};
use crate::reading::Moment;
use crate::units::Seconds;

/// Time between two looks at the file.
const EVERY: Seconds = Seconds(5.0);

/// What is known of the file of the plan in front.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedFile {
    /// When it was looked at last.
    looked: Option<Moment>,
    /// What stands in it and was told already, while the plan has changes of its own.
    newer: Option<String>,
}

/// Looks at the plan's file from time to time.
pub fn look(state: &mut State) -> Vec<Effect> {
    let plans = &mut state.plans;
    let editor = &plans.editor;
    let Some(path) = editor.path().filter(|_| plans.saving == Saving::Idle && !editor.is_new()) else {
        return Vec::new();
    };
    if plans.watched.looked.is_some_and(|at| state.now.since(at) < EVERY) {
        return Vec::new();
    }
    plans.watched.looked = Some(state.now);
    vec![Effect::LookAtFile { path: path.to_owned(), known: editor.saved_text().to_owned() }]
}

/// The file at `path` holds `text` in place of what was `known` of it. A plan without changes of its own is read again; the
/// run keeps the plan that it was started with.
pub fn changed(state: &mut State, path: &Path, known: &str, text: String) {
    let editor = &mut state.plans.editor;
    // Another plan may be in front by now, and this one may have been saved.
    if editor.path() != Some(path) || editor.saved_text() != known {
        return;
    }
    let name = path.file_name().map_or_else(|| PathBuf::from(path), PathBuf::from);
    if !editor.modified() {
        editor.note_on_disk(text.clone());
        editing::take_text(state, text);
        state.notice = Some(info(format!("{} was changed on disk and is read again; u takes it back", name.display())));
    } else if state.plans.watched.newer.as_ref() != Some(&text) {
        state.plans.watched.newer = Some(text);
        state.notice = Some(problem(format!("{} was changed on disk: saving offers to merge", name.display())));
    }
}
