//! How long an attached process waits for a core: it is looked at for longer where that may be why it is slow.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;

use super::{Watched, look_while};
use crate::app::State;
use crate::reading::{Absence, Reading, RunNews};

/// A share of the time that a process waits for a core is known by then.
const CPU_PATIENCE: Duration = Duration::from_secs(5);

/// A run on the CPU that is slower than planned may have no core for a part of the time, which takes some seconds to tell.
pub(super) fn learn(state: &mut State, watched: &mut Watched, heard: &mut Receiver<RunNews>) {
    let until = Instant::now() + CPU_PATIENCE;
    let is_open = |state: &State| {
        state.run.comparison.as_ref().is_some_and(|comparison| {
            let is_slower = comparison.pace().is_some_and(|more| more > 0.0);
            is_slower && matches!(comparison.evidence.cpu_wait, Reading::Absent(Absence::TooShort | Absence::NotRead))
        })
    };
    look_while(state, watched, heard, |state| is_open(state) && Instant::now() < until);
}
