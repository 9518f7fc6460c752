//! The plan of the run: pinned when something runs, and another one only when somebody says so. Edits in the form make
//! a draft beside it.

use super::inferred;
use crate::app::editor::Editor;
use crate::app::editor::editing::set_against;
use crate::app::notice::{info, problem};
use crate::app::plans::baseline::Baseline;
use crate::app::state::{Plans, State};

/// A plan as it was when it became the run's.
#[derive(Debug, Clone)]
pub struct RunPlan {
    editor: Editor,
    baseline: Baseline,
}

impl RunPlan {
    /// The plan as it stands; none while it makes no prediction.
    #[must_use]
    pub fn of(editor: &Editor) -> Option<Self> {
        let baseline = Baseline::pin(editor)?;
        Some(Self { editor: editor.duplicate(editor.name().to_owned()), baseline })
    }

    /// Its text, what that says and what it predicts.
    #[must_use]
    pub const fn plan(&self) -> &Editor {
        &self.editor
    }

    /// The same as what an edited plan is compared with.
    #[must_use]
    pub const fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Whether it is that plan, letter by letter.
    #[must_use]
    pub fn is(&self, editor: &Editor) -> bool {
        self.baseline.is(editor)
    }
}

impl Plans {
    /// The plan that what is observed is compared with: the run's; before anything runs, the one in front.
    #[must_use]
    pub fn compared(&self) -> &Editor {
        self.run.as_ref().map_or(&self.editor, RunPlan::plan)
    }

    /// The run's plan, while the one in front is another: that one is a draft beside it, unless it is a lesson.
    #[must_use]
    pub fn drafted_beside(&self) -> Option<&RunPlan> {
        self.run.as_ref().filter(|run| !run.is(&self.editor) && !self.stands_alone())
    }

    /// Whether the plan in front is a lesson, which is compared with no run and no other plan.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        let is_of_run = || self.run.as_ref().is_some_and(|run| run.plan().name() == self.editor.name());
        self.editor.is_lesson() && !is_of_run()
    }

    /// What the plan in front is compared with, prediction against prediction: the baseline that was pinned by key,
    /// else the run's plan, where this is a draft beside it.
    #[must_use]
    pub fn reference(&self) -> Option<&Baseline> {
        let pinned = self.baseline.as_ref().filter(|pinned| !self.stands_alone() || pinned.name == self.editor.name());
        pinned.or_else(|| self.drafted_beside().map(RunPlan::baseline))
    }
}

/// The source is open. A simulated run has the plan that it was made from, whatever was edited since; a real one that
/// of the process to attach to.
pub fn source_started(state: &mut State) {
    let simulated =
        state.is_made_up().then(|| state.run.simulated.take().or_else(|| RunPlan::of(&state.plans.editor))).flatten();
    state.run.simulated = simulated;
    follow(state);
}

/// The plan in front is the one that a simulated run is made from.
pub fn plan_of_simulation(state: &mut State) {
    state.run.simulated = RunPlan::of(&state.plans.editor);
}

/// Pins the plan of what runs where it has none yet: that which a simulated run was made from, else the one in front.
pub fn follow(state: &mut State) {
    if state.plans.run.is_some() || !is_something_there(state) {
        return;
    }
    if state.run.simulated.is_some() {
        state.plans.run.clone_from(&state.run.simulated);
    } else if !inferred::is_nobodys(state) {
        state.plans.run = RunPlan::of(&state.plans.editor);
    }
}

fn is_something_there(state: &State) -> bool {
    state.monitor.attached.is_some() || state.run.telemetry.is_logged(&state.monitor) || !state.monitor.is_idle()
}

/// A process has been attached: it is compared with the plan in front, unless that is a draft of the plan that the run
/// has already.
///
/// What is to be said of that, after the process.
pub fn attached(state: &mut State) -> String {
    if state.monitor.attached.is_none() {
        return String::new();
    }
    let same = state.plans.run.as_ref().is_some_and(|run| run.plan().name() == state.plans.editor.name());
    if !same && !inferred::is_nobodys(state) {
        state.plans.run = RunPlan::of(&state.plans.editor).or(state.plans.run.take());
    }
    state
        .plans
        .run
        .as_ref()
        .map_or_else(|| ", which has no plan yet".to_owned(), |run| format!(": compared with {}", run.plan().name()))
}

/// The run follows the plan in front from now on.
pub fn apply(state: &mut State) {
    if !is_something_there(state) && state.plans.run.is_none() {
        state.notice = Some(problem("nothing runs that the plan could be applied to"));
        return;
    }
    if state.plans.run.as_ref().is_some_and(|run| run.is(&state.plans.editor)) {
        state.notice = Some(info("the run is compared with this plan already"));
        return;
    }
    if let Some(plan) = RunPlan::of(&state.plans.editor) {
        state.plans.run = Some(plan);
        set_against(state);
        state.notice = Some(info(format!("the run is compared with {} from now on", state.plans.editor.name())));
    } else {
        state.notice = Some(problem("a plan that is not valid cannot be applied to the run"));
    }
}
