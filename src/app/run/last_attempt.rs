//! What was seen of a run whose memory ran out: it stays until another process works.

use super::Telemetry;
use crate::app::monitor::Monitor;
use crate::app::monitor::attached::{AttachedProcess, AttachedState};
use crate::compare::{Evidence, Observation};
use crate::reading::{DeviceSample, Moment, Reading};

/// What was last seen of the run while it was there.
#[derive(Debug, Clone, Default)]
pub struct LastAttempt {
    observed: Option<Observation>,
    is_shown: bool,
}

impl LastAttempt {
    /// Whether what is compared is of a run whose memory ran out and that is not there any more.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// What to compare: what is `seen` now, or what was last seen of the run where its memory ran out and nothing has
    /// worked since.
    pub fn or(
        &mut self,
        seen: Option<Observation>,
        run: &Telemetry,
        monitor: &Monitor,
        now: Moment,
    ) -> Option<Observation> {
        let is_gone = match &monitor.attached {
            Some(attached) => attached.state == AttachedState::Ended,
            // One that only loads has nothing to compare yet.
            None => !monitor.run_devices().any(|(_, device)| works(device)),
        };
        let ran_out = run.out_of_memory(monitor, now).filter(|_| is_gone);
        let (Some(message), Some(last)) = (ran_out, &self.observed) else {
            self.is_shown = false;
            self.observed.clone_from(&seen);
            return seen;
        };
        self.is_shown = true;
        let held =
            message.in_process.or(message.capacity.zip(message.free).map(|(all, free)| all.saturating_sub(free)));
        let Evidence { device_used, .. } = &last.evidence;
        // What it held as its memory ran out came between two samples, but PyTorch tells of it.
        let device_used = match held.filter(|held| device_used.value().is_none_or(|seen| held > seen)) {
            Some(held) => Reading::measured(held, now),
            None => device_used.clone(),
        };
        Some(Observation { evidence: Evidence { device_used, ..last.evidence.clone() }, ..last.clone() })
    }
}

/// Whether anything runs on it. A driver that does not tell how busy a device is tells at least who is on it.
fn works(device: &DeviceSample) -> bool {
    device.busy.value().map_or_else(|| !device.is_idle(), |busy| busy.0 > 0.0)
}

/// The next process begins with peaks of its own, where it is not attached and so has none of its own anyway.
pub fn forget_peaks(monitor: &mut Monitor) {
    if monitor.attached.as_ref().is_none_or(AttachedProcess::has_ended) && monitor.is_idle() {
        monitor.peaks.clear();
    }
}
