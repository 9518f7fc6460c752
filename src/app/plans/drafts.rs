//! Drafts: unsaved texts that are kept against a crash, and those that other dashboards left.

use super::merging::{MergeConflict, merged};
use crate::app::editor::ReadingState;
use crate::app::editor::editing;
use crate::app::event::{Effect, UnsavedText};
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::plans::merging;
use crate::app::state::{Overlay, Plans, State};
use crate::reading::Moment;

/// An unsaved text that another dashboard left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its name in the store.
    pub id: String,
    /// When it was kept last.
    pub kept: Moment,
    /// The process that kept it.
    pub pid: u32,
    /// That process's host, where it is another one than this.
    pub host: Option<String>,
    /// What the file held when it was edited; none: not known.
    pub base: Option<String>,
    /// The text.
    pub text: String,
}

impl Draft {
    /// What the plan is with these changes, where its file holds `current` by now. Changes that were written to the
    /// file since stay.
    ///
    /// # Errors
    /// Where both changed the same.
    pub fn on(&self, current: &str) -> Result<String, MergeConflict> {
        match &self.base {
            Some(base) if base != current => merged(base, &self.text, current),
            _ => Ok(self.text.clone()),
        }
    }

    /// When, where and by which process it was kept.
    #[must_use]
    pub fn origin(&self) -> String {
        let host = self.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        format!("{} by process {}{host}", self.kept, self.pid)
    }
}

/// Keeps the unsaved text where it is another one than was kept last. `leaving`: there is no later.
pub fn keep(state: &mut State, leaving: bool) -> Option<Effect> {
    let editor = &state.plans.editor;
    let asked = matches!(state.dialogs.overlay, Some(Overlay::Recovered(_)));
    if !editor.modified() {
        // Taken back to what the file holds: nothing is unsaved any more.
        return state.plans.kept.take().map(|_| forget(&state.plans));
    }
    // A long text is kept when it is read: letters that were typed meanwhile are one text.
    if asked
        || editor.standing() != ReadingState::Read && !leaving
        || state.plans.kept.as_deref() == Some(editor.text())
    {
        return None;
    }
    state.plans.kept = Some(editor.text().to_owned());
    let (path, name) = (editor.path().map(Into::into), editor.name().to_owned());
    let (base, text) = (editor.saved_text().to_owned(), editor.text().to_owned());
    Some(Effect::Keep(UnsavedText { path, name, base, text }))
}

/// What this dashboard kept of the plan in front is not needed any more.
pub fn forget(plans: &Plans) -> Effect {
    Effect::Forget { path: plans.editor.path().map(Into::into), name: plans.editor.name().to_owned() }
}

/// A key while a draft is offered. It stays offered until it is taken or deleted, or the next one is asked for.
pub fn on_offered(state: &mut State, key: KeyPress) -> Vec<Effect> {
    match key {
        KeyPress::Char('r') | KeyPress::Enter => take(state),
        KeyPress::Char('d') => {
            let deleted = (!state.plans.drafts.is_empty()).then(|| state.plans.drafts.remove(0));
            state.dialogs.overlay = (!state.plans.drafts.is_empty()).then_some(Overlay::Recovered(0));
            deleted.map(|draft| Effect::DeleteDraft(draft.id)).into_iter().collect()
        }
        KeyPress::Char('n') | KeyPress::Tab if state.plans.drafts.len() > 1 => {
            state.plans.drafts.rotate_left(1);
            state.dialogs.overlay = Some(Overlay::Recovered(0));
            Vec::new()
        }
        KeyPress::Char('q') => vec![Effect::Quit],
        _ => Vec::new(),
    }
}

/// Makes the draft that is shown the plan's text, as an edit. The others are offered when the plan is opened again.
fn take(state: &mut State) -> Vec<Effect> {
    state.dialogs.overlay = None;
    let mut drafts = std::mem::take(&mut state.plans.drafts).into_iter();
    let Some(draft) = drafts.next() else { return Vec::new() };
    let more = match drafts.len() {
        0 => String::new(),
        more => format!("; {more} more offered when it is opened again"),
    };
    let newer = draft.base.as_ref().is_some_and(|base| base != state.plans.editor.text());
    match draft.on(state.plans.editor.text()) {
        Ok(text) => {
            editing::take_text(state, text);
            let merged = if newer { ", merged with what was written since" } else { "" };
            state.notice = Some(info(format!("your unsaved changes are back{merged}; u takes them out again{more}")));
        }
        Err(both) => {
            merging::choose(state, both);
            state.notice = Some(problem(format!("the file changed on the same lines: choose between the marks{more}")));
        }
    }
    let (path, name) = (state.plans.editor.path().map(Into::into), state.plans.editor.name().to_owned());
    vec![Effect::TakeDraft { id: draft.id, path, name }]
}

/// Offers what was kept of the plan in front, where it says something else than the file.
pub fn offer(state: &mut State, drafts: Vec<Draft>) {
    let current = state.plans.editor.text();
    state.plans.drafts = drafts.into_iter().filter(|draft| draft.on(current).as_deref() != Ok(current)).collect();
    if !state.plans.drafts.is_empty() {
        state.dialogs.overlay = Some(Overlay::Recovered(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_keeps_what_was_written_since() {
        let base = "model:\n  batch_size: 8\n\n\n\ncluster:\n  num_gpus: 1\n";
        let text = base.replace("batch_size: 8", "batch_size: 16");
        let draft = |base: Option<&str>| Draft {
            id: "a".to_owned(),
            kept: Moment(0),
            pid: 7,
            host: Some("node7".to_owned()),
            base: base.map(str::to_owned),
            text: text.clone(),
        };
        let theirs = base.replace("num_gpus: 1", "num_gpus: 8");
        assert_eq!(draft(Some(base)).on(base), Ok(text.clone()));
        assert_eq!(draft(Some(base)).on(&theirs), Ok(theirs.replace("batch_size: 8", "batch_size: 16")));
        assert_eq!(draft(None).on(&theirs), Ok(text.clone()), "one of an earlier release has no base");
        let same_line = base.replace("batch_size: 8", "batch_size: 32");
        assert!(draft(Some(base)).on(&same_line).unwrap_err().both.contains("<<<<<<<"));
        assert_eq!(draft(None).origin(), "1970-01-01T00:00:00Z by process 7 on node7");
    }
}
