//! Memory that ran out: what the run's log or its hook said of it, explained as soon as it is known.

use crate::advise::{PlanForMessage, Shortage, shortage};
use crate::app::notice::{info, problem};
use crate::app::state::{Overlay, State};
use crate::reading::OutOfMemory;

/// Memory that ran out.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryExhaustion {
    /// The newest message of it.
    pub message: OutOfMemory,
    /// What was asked and held, and what helps by how much, as `memwall explain` says it.
    pub explained: Shortage,
}

impl MemoryExhaustion {
    /// Lines that it takes to show all of it.
    #[must_use]
    pub fn lines(&self) -> usize {
        let Shortage { mismatch, held, helps, foreseen, .. } = &self.explained;
        5 + 3 * usize::from(mismatch.is_some()) + held.len() + helps.len() + 2 * foreseen.len()
    }

    fn of(state: &State, message: OutOfMemory) -> Self {
        let plan = state.plans.run.as_ref().and_then(|run| run.plan().plan());
        let beside = plan.and_then(|plan| PlanForMessage::of(&message, plan, &state.catalog));
        Self { explained: shortage(&message, beside.as_ref()), message }
    }
}

/// Notes whether memory has run out; once for each message it is shown at once, where nothing is in the way.
pub fn look(state: &mut State) {
    let told = state.run.telemetry.out_of_memory(&state.monitor, state.now);
    if told == state.run.ran_out.as_ref().map(|known| &known.message) {
        return;
    }
    state.run.ran_out = told.cloned().map(|message| MemoryExhaustion::of(state, message));
    if state.run.ran_out.is_none() {
        return;
    }
    // A simulated run of a plan that does not fit is in nobody's way.
    if state.is_made_up() {
        return;
    }
    let busy = state.dialogs.overlay.is_some()
        || state.dialogs.picker.is_some()
        || state.plans.form.typing.is_some()
        || state.plans.text.is_some();
    if busy {
        state.notice = Some(info("memory ran out: O explains"));
    } else {
        state.dialogs.overlay = Some(Overlay::RanOut(0));
    }
}

/// Shows it, against the plan as it is now.
pub fn show(state: &mut State) {
    let Some(known) = state.run.ran_out.take() else {
        state.notice = Some(problem("no out-of-memory message in the run's log so far, nor by its hook"));
        return;
    };
    state.run.ran_out = Some(MemoryExhaustion::of(state, known.message));
    state.dialogs.overlay = Some(Overlay::RanOut(0));
}
