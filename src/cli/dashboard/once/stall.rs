//! Why an attached process makes no step: it is looked at for longer where its last step is not of just now.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;

use super::{Watched, look_while};
use crate::app::State;
use crate::reading::RunNews;
use crate::units::Seconds;

/// A step that was told longer ago than this may have been the last.
const OLD: Seconds = Seconds(5.0);

/// Whoever does nothing is known to by then: a process is looked at once a second, and at least twice.
const IDLE_PATIENCE: Duration = Duration::from_millis(2500);

/// What it waits for is worth a word by then.
const WAIT_PATIENCE: Duration = Duration::from_secs(8);

/// Looks on until it is known what the process waits for, or that it works.
pub(super) fn learn(state: &mut State, watched: &mut Watched, heard: &mut Receiver<RunNews>) {
    let begun = Instant::now();
    let is_open = |state: &State| {
        let telemetry = &state.run.telemetry;
        let is_old = telemetry.phases().quiet_for(state.now).is_none_or(|quiet| quiet > OLD);
        let is_known = telemetry.step_cause(&state.monitor, state.now).is_some_and(|cause| cause.stalls)
            || telemetry.ended(&state.monitor, state.now).is_some();
        let waits = !telemetry.news.waits.is_empty();
        let patience = if waits { WAIT_PATIENCE } else { IDLE_PATIENCE };
        state.monitor.attached.is_some() && is_old && !is_known && begun.elapsed() < patience
    };
    look_while(state, watched, heard, is_open);
}
