//! The plan that a process seems to run: proposed with the origin of each value, taken or
//! dismissed by the user, never put in place of a plan unasked.

use super::editor::Editor;
use super::event::Effect;
use super::form::Form;
use super::keymap::Key;
use super::monitor::Source;
use super::state::{Notice, Overlay, Severity, State};
use crate::plan::Loaded;
use crate::reading::SourceKind;

/// Rows that PageUp and PageDown go.
const PAGE: usize = 10;

/// A plan that was read out of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The process.
    pub pid: u32,
    /// Whose run it was read as: `Megatron-LM`; empty where nobody was recognised.
    pub tool: String,
    /// The plan, with its text.
    pub plan: Loaded,
    /// Key, value and what said so.
    pub rows: Vec<[String; 3]>,
    /// What was not inferred, and what a plan has no word for.
    pub open: Vec<String>,
}

impl Proposal {
    /// Lines that it takes to show all of it.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.rows.len() + if self.open.is_empty() { 0 } else { self.open.len() + 2 }
    }
}

/// Whether attaching to a process is a reason to look at its plan: nobody has given one, and
/// the processes are real.
pub fn is_wanted(state: &State) -> bool {
    let real = matches!(&state.monitor.source, Source::Running(info) if matches!(info.kind, SourceKind::Nvml | SourceKind::Amdgpu));
    real && state.editor.is_example()
}

/// Asks for the plan of the attached process, or of the selected one.
pub fn ask(state: &mut State) -> Vec<Effect> {
    let attached = state.monitor.attached.as_ref().map(|attached| attached.pid);
    match attached.or_else(|| state.monitor.selected_pid()) {
        Some(pid) => vec![Effect::Infer(pid)],
        None => {
            state.notice = Some(problem("no process on this GPU whose plan could be read"));
            Vec::new()
        }
    }
}

/// A plan has been read, or could not be.
pub fn arrived(state: &mut State, pid: u32, outcome: Result<Box<Proposal>, String>) {
    match outcome {
        Ok(proposal) => {
            state.proposal = Some(*proposal);
            // A question that is open keeps its place; the proposal waits behind it.
            if state.overlay.is_none() {
                state.overlay = Some(Overlay::Proposal(0));
            }
        }
        Err(why) => state.notice = Some(problem(format!("the plan of {pid} was not read: {why}"))),
    }
}

/// A key while the proposal, from line `first` on, is shown.
pub fn on_key(state: &mut State, key: Key, first: usize) {
    let last = state.proposal.as_ref().map_or(0, |proposal| proposal.lines().saturating_sub(1));
    let scrolled = match key {
        Key::Up | Key::Char('k') => first.saturating_sub(1),
        Key::Down | Key::Char('j') => (first + 1).min(last),
        Key::PageUp => first.saturating_sub(PAGE),
        Key::PageDown => (first + PAGE).min(last),
        Key::Enter => return take(state),
        Key::Esc | Key::Char('q') => {
            state.overlay = None;
            state.proposal = None;
            return;
        }
        _ => first,
    };
    state.overlay = Some(Overlay::Proposal(scrolled));
}

/// The proposal becomes the plan, in no file yet.
fn take(state: &mut State) {
    if state.editor.modified() {
        state.notice = Some(problem("the plan has unsaved changes: save or undo them first, then i again"));
        state.overlay = None;
        return;
    }
    let Some(proposal) = state.proposal.take() else { return };
    state.overlay = None;
    state.editor = Editor::unsaved(proposal.plan, &state.catalog);
    state.form = Form::default();
    state.form.look_around(&state.editor, &state.catalog);
    let text = format!("the plan of {}: edit it here, s saves it as {}.yaml", proposal.pid, state.editor.name());
    state.notice = Some(Notice { severity: Severity::Info, text });
}

fn problem(text: impl Into<String>) -> Notice {
    Notice { severity: Severity::Problem, text: text.into() }
}
