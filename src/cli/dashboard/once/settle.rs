//! A run of which nothing is known to be wrong: it is looked at until whole steps tell whether it is as planned.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;

use super::{Watched, look_while};
use crate::app::{State, mismatch_words};
use crate::reading::RunNews;
use crate::units::Seconds;

/// Whoever asks once waits no longer than this.
const PATIENCE: Duration = Duration::from_secs(10);

/// Steps that tell how a GPU works, as the comparison has it.
const STEPS: f64 = 2.0;

/// Looks on for as long as two steps of the plan last, where that is short enough to wait for.
pub(super) fn learn(state: &mut State, watched: &mut Watched, heard: &mut Receiver<RunNews>) {
    let until = Instant::now() + PATIENCE;
    look_while(state, watched, heard, |state| is_open(state) && Instant::now() < until);
}

/// A run under the hook that makes no step in this time is not seen.
const RUNS_PATIENCE: Duration = Duration::from_secs(2);

/// Listens for runs under the hook, where no process is named and there is no GPU that one could be on.
pub(super) fn hear_runs(state: &mut State, watched: &mut Watched, heard: &mut Receiver<RunNews>) {
    let until = Instant::now() + RUNS_PATIENCE;
    look_while(state, watched, heard, |_| Instant::now() < until);
}

/// Whether more samples of its GPUs would tell more.
fn is_open(state: &State) -> bool {
    let telemetry = &state.run.telemetry;
    let step = state.plans.compared().prediction().map_or(Seconds::ZERO, |prediction| prediction.time.step);
    let step = telemetry.phases().step().unwrap_or(step);
    let is_unsettled = state.run.comparison.as_ref().is_some_and(|comparison| !comparison.evidence.settled);
    is_unsettled
        && STEPS * step.0 < PATIENCE.as_secs_f64()
        && !telemetry.uses_no_gpu(&state.monitor, state.now)
        && telemetry.ended(&state.monitor, state.now).is_none()
        && mismatch_words(state).is_none()
}
