//! The plan that a process seems to run: proposed with the origin of each value, taken or
//! dismissed by the user, never put in place of a plan unasked.

use super::Telemetry;
use super::plan::RunPlan;
use crate::app::editor::Editor;
use crate::app::editor::editing::set_against;
use crate::app::event::Effect;
use crate::app::key::KeyPress;
use crate::app::monitor::{SelectedRow, SourceState};
use crate::app::notice::{info, problem};
use crate::app::pane::Pane;
use crate::app::plans;
use crate::app::plans::account::Account;
use crate::app::state::{Overlay, State};
use crate::plan::LoadedPlan;
use crate::reading::HookedRun;
use thiserror::Error;

/// A plan that was read out of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The process.
    pub pid: u32,
    /// The plan, with its text.
    pub plan: LoadedPlan,
    /// What it was read from.
    pub account: Account,
    /// Keys that its command, files and environment set themselves, with their values.
    pub stated: Vec<(&'static str, String)>,
    /// Optimizer steps of the whole run, where those say so.
    pub steps: Option<u64>,
    /// What its hook had told by then.
    pub heard: HookKnowledge,
}

/// How much the hook in a process has told of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum HookKnowledge {
    /// Nothing.
    #[default]
    Nothing,
    /// Its model and optimizer.
    Model,
    /// What its modules take and keep, as well.
    Modules,
    /// The tokens of a step, as well.
    Steps,
}

impl HookKnowledge {
    /// What is known of that run.
    #[must_use]
    pub fn of(run: &HookedRun) -> Self {
        let steps = run.step.as_ref().is_some_and(|step| step.tokens.is_some());
        match (&run.about, &run.modules) {
            (None, _) => Self::Nothing,
            (Some(_), None) => Self::Model,
            (Some(_), Some(_)) if !steps => Self::Modules,
            (Some(_), Some(_)) => Self::Steps,
        }
    }
}

/// What is known for sure about what a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatedValues {
    /// The process, by its pid here.
    pub pid: u32,
    /// Keys and values.
    pub values: Vec<(&'static str, String)>,
    /// Optimizer steps of the whole run.
    pub steps: Option<u64>,
}

/// Whether attaching to a process is a reason to look at its plan: nobody has given one, and
/// the processes are real.
pub fn is_wanted(state: &State) -> bool {
    let real = matches!(&state.monitor.source, SourceState::Running(info) if info.kind.is_live());
    real && has_no_plan(state)
}

/// Whether the run has no plan: nobody has given any.
#[must_use]
pub fn has_no_plan(state: &State) -> bool {
    state.plans.run.is_none() && is_nobodys(state)
}

/// Whether the plan in front is an example that came with the program or a lesson: nobody's plan for processes that are
/// real.
pub fn is_nobodys(state: &State) -> bool {
    let is_example = state.plans.editor.is_example() || state.plans.editor.is_lesson();
    is_example && !state.is_made_up() && state.recordings.playback.is_none()
}

/// Asks for the plan of the process that is selected in the monitor, else of the attached one.
pub fn ask(state: &mut State) -> Vec<Effect> {
    let attached = state.monitor.attached.as_ref().map(|attached| attached.pid);
    // Who has chosen a process means that one.
    let chosen = match state.monitor.selected {
        SelectedRow::Process(pid) if state.views.focus == Pane::Monitor => Some(pid),
        _ => None,
    };
    match chosen.or(attached).or_else(|| state.monitor.selected_pid()) {
        Some(pid) => vec![of(state, state.monitor.here(pid))],
        None => {
            state.notice = Some(problem("no process on this GPU whose plan could be read"));
            Vec::new()
        }
    }
}

/// Asks for the plan of that process, whatever was asked before.
pub fn of(state: &mut State, pid: u32) -> Effect {
    state.run.asked_again = None;
    Effect::Infer(pid)
}

/// Asks again for the plan that is proposed, where the hook has told more since.
pub fn ask_again(state: &mut State) -> Option<Effect> {
    let proposal = state.run.proposal.as_ref()?;
    let pid = proposal.pid;
    let run = state.run.telemetry.hooked(&state.monitor, state.now)?;
    let more = HookKnowledge::of(run) > proposal.heard && state.monitor.attached_here() == Some(pid);
    if !more || state.run.asked_again == Some((pid, HookKnowledge::of(run))) {
        return None;
    }
    state.run.asked_again = Some((pid, HookKnowledge::of(run)));
    Some(Effect::Infer(pid))
}

/// Why the plan of a process could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NotInferred(pub String);

/// A plan has been read, or could not be.
pub fn arrived(state: &mut State, pid: u32, outcome: Result<Box<Proposal>, NotInferred>) {
    let again = state.run.asked_again.is_some_and(|(asked, _)| asked == pid);
    match outcome {
        // One that knows more takes the place of what is shown; what was answered meanwhile stays answered.
        Ok(proposal) if again && proposal.heard > HookKnowledge::Nothing => {
            if let Some(shown) = state.run.proposal.as_mut().filter(|shown| shown.heard < proposal.heard) {
                *shown = *proposal;
            }
        }
        Ok(proposal) => {
            state.run.telemetry.heed(&proposal);
            state.run.proposal = Some(*proposal);
            // A question that is open keeps its place.
            if state.dialogs.overlay.is_none() && state.dialogs.picker.is_none() {
                state.dialogs.overlay = Some(Overlay::Proposal(0));
            } else {
                state.notice = Some(info(format!("the plan of {pid} was read: i in the monitor shows it")));
            }
        }
        Err(why) => state.notice = Some(problem(format!("the plan of {pid} was not read: {why}"))),
    }
}

impl Telemetry {
    /// Keeps what is sure of the process that was read.
    pub fn heed(&mut self, proposal: &Proposal) {
        let (pid, steps) = (proposal.pid, proposal.steps);
        self.stated = Some(StatedValues { pid, values: proposal.stated.clone(), steps });
    }
}

/// A key that does not scroll the proposal.
pub fn on_key(state: &mut State, key: KeyPress) {
    state.dialogs.overlay = None;
    let Some(proposal) = state.run.proposal.take().filter(|_| key == KeyPress::Enter) else { return };
    let plan = Editor::unsaved(proposal.plan, &state.catalog);
    let focus = state.views.focus;
    plans::open(state, plan, Vec::new());
    // A plan that names no model waits for one: who watches a run has not asked to write, and keys stay keys.
    let waits = state.plans.text.take().is_some();
    if waits {
        state.views.focus = focus;
    }
    if state.monitor.attached_here() == Some(proposal.pid) {
        // What the process itself says is what it is compared with.
        state.plans.run = RunPlan::of(&state.plans.editor).or(state.plans.run.take());
        set_against(state);
    }
    let name = state.plans.editor.name();
    let next = if waits { "1 and e show what it lacks" } else { "edit it here" };
    state.notice = Some(info(format!("the plan of {}: {next}; saved it is {name}.yaml", proposal.pid)));
}
