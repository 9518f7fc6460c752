//! What an explanation says that the run does, taken into its plan, and taken back.

use super::plan::RunPlan;
use crate::app::editor::editing;
use crate::app::notice::{info, problem};
use crate::app::plans;
use crate::app::state::State;

/// An explanation as it was taken into the run's plan.
#[derive(Debug, Clone)]
pub struct TakenExplanation {
    before: RunPlan,
    after: RunPlan,
}

/// Makes the plan say what the selected explanation says that the run does.
pub fn take(state: &mut State) {
    let Some(chosen) = state.run.explaining.found.get(state.views.compared) else {
        state.notice = Some(problem("no explanation is selected: press e to search"));
        return;
    };
    let words = chosen.words();
    let Some(change) = chosen.change() else {
        let remedies: Vec<&str> = chosen.causes.iter().filter_map(|cause| Some(cause.circumstance?.remedy())).collect();
        state.notice = Some(info(format!("the plan is right: {}", remedies.join("; "))));
        return;
    };
    let Some(run) = state.plans.run.clone() else { return };
    let document = match run.plan().with(&change) {
        Ok(document) => document,
        Err(fault) => {
            state.notice = Some(problem(fault.to_string()));
            return;
        }
    };
    if !run.is(&state.plans.editor) {
        // A draft stays as it is, beside the plan that the run turned out to have.
        let name = plans::unused(&state.plans, run.plan().name());
        plans::open(state, run.plan().duplicate(name), Vec::new());
    }
    editing::apply(state, document);
    let Some(after) = RunPlan::of(&state.plans.editor) else {
        state.notice = Some(problem(format!("with {words} the plan makes no prediction: the run keeps its own")));
        return;
    };
    state.plans.taken.push(TakenExplanation { before: run, after: after.clone() });
    state.plans.run = Some(after);
    editing::set_against(state);
    state.notice = Some(info(format!("the run's plan says so now: {words}; u takes it back")));
}

/// A change was undone: if it was what an explanation had made of the run's plan, the run has that plan again.
pub fn take_back(state: &mut State) {
    let (plans, editor) = (&state.plans, &state.plans.editor);
    let is_undone = |taken: &TakenExplanation| {
        let of_this = taken.after.plan().name() == editor.name() && taken.before.is(editor);
        of_this && plans.run.as_ref().is_some_and(|run| run.is(taken.after.plan()))
    };
    let Some(at) = plans.taken.iter().rposition(is_undone) else { return };
    let taken = state.plans.taken.remove(at);
    // Whatever was taken after it was of a plan that is the run's no more.
    state.plans.taken.truncate(at);
    state.plans.run = Some(taken.before);
    editing::set_against(state);
    state.notice = Some(info("the run's plan is what it was"));
}
