//! Whether the run makes no step, for how long, and on what ground that is said.

use super::Telemetry;
use super::places::UNUSUAL_STALL;
use crate::app::alerts::Alert;
use crate::app::monitor::Monitor;
use crate::app::state::State;
use crate::compare::RunPhase;
use crate::reading::{Activity, Moment, ProcessWait, StepCause, WaitKind};
use crate::units::Seconds;

/// A run that makes no step.
#[derive(Debug, Clone)]
pub struct StepPause {
    /// For how long, where that is longer than any step takes.
    pub lasting: Option<Seconds>,
    /// What holds it up, where that is known.
    pub cause: Option<StepCause>,
    /// The run has made few steps, or none: how long one may take is not known yet.
    pub is_early: bool,
}

impl StepPause {
    /// What the run does meanwhile, as far as its hook tells.
    #[must_use]
    pub fn activity(&self) -> Option<Activity> {
        self.cause.as_ref().map(|cause| cause.activity)
    }

    /// Whether the run is meant to make no step: it evaluates or saves.
    #[must_use]
    pub fn is_intended(&self) -> bool {
        self.activity().is_some_and(Activity::is_intended_pause)
    }
}

impl Telemetry {
    /// That the run makes no step; none while it goes on, as far as anybody knows, and none of one that has ended.
    ///
    /// The first steps may take minutes: kernels are compiled, data is loaded. There a pause is one only by its cause:
    /// the hook names a place that is no work of a step, or `/proc` a wait while nothing else of the run computes.
    #[must_use]
    pub fn pause(&self, monitor: &Monitor, now: Moment) -> Option<StepPause> {
        if self.ended(monitor, now).is_some() {
            return None;
        }
        let cause = self.step_cause(monitor, now).filter(|cause| cause.stalls);
        let quiet = self.phases().quiet_for(now);
        match self.phases().phase(now) {
            RunPhase::Between => Some(StepPause { lasting: quiet, cause, is_early: self.phases().is_warming() }),
            RunPhase::Steady if self.phases().step().is_some() => {
                Some(StepPause { lasting: None, cause: Some(cause?), is_early: false })
            }
            // Nor does anybody know it of a log that tells no time.
            RunPhase::WarmingUp | RunPhase::Untold | RunPhase::Steady => {
                let cause = cause.filter(|cause| self.is_ground(cause, monitor))?;
                let told = || match cause.activity {
                    Activity::System => self.longest_wait(now),
                    _ => self.stalled_for(monitor, now),
                };
                let lasting = quiet.or_else(told);
                Some(StepPause { lasting, cause: Some(cause), is_early: true })
            }
        }
    }

    /// Whether a cause alone tells that the first steps are held up.
    fn is_ground(&self, cause: &StepCause, monitor: &Monitor) -> bool {
        match cause.activity {
            Activity::System if !self.news.waits.is_empty() => self.waits_idly(monitor),
            activity => !activity.is_work(),
        }
    }

    /// Whether all that is known to wait waits for nothing that computes: no process below it, no device of the run.
    pub(super) fn waits_idly(&self, monitor: &Monitor) -> bool {
        let waits = &self.news.waits;
        let is_stopped = |wait: &ProcessWait| wait.kind == WaitKind::Stopped;
        let computes = || {
            let mut devices = monitor.run_devices();
            devices.any(|(_, device)| device.busy.value().is_some_and(|busy| busy.0 > 0.0))
        };
        waits.iter().any(is_stopped)
            || (!waits.is_empty() && waits.len() >= self.news.ranks.len())
                && waits.iter().all(ProcessWait::is_idle)
                && !computes()
    }

    /// How long one of its processes has waited at least.
    fn longest_wait(&self, now: Moment) -> Option<Seconds> {
        let since = self.news.waits.iter().map(|wait| wait.since).min()?;
        Some(now.since(since))
    }

    /// Whether a process that has told of no step, and whose command says that it trains, has waited for so long that
    /// it is worth a word.
    pub(super) fn waits_for_first_step(&self, monitor: &Monitor, now: Moment) -> bool {
        let is_long = |wait: &ProcessWait| wait.kind == WaitKind::Stopped || now.since(wait.since) >= UNUSUAL_STALL;
        self.is_commanded(monitor) && self.news.waits.iter().any(is_long) && self.waits_idly(monitor)
    }
}

/// That the run makes no step, with how much that wants a hand: the first steps are given the time of the alert.
#[must_use]
pub fn of(state: &State) -> Option<(StepPause, bool)> {
    let pause = state.run.telemetry.pause(&state.monitor, state.now)?;
    let threshold = state.run.alerts.rules.threshold(Alert::Stalled);
    let is_long = pause.lasting.zip(threshold).is_some_and(|(lasting, minutes)| lasting.0 >= 60.0 * minutes);
    let is_stopped = state.run.telemetry.news.waits.iter().any(|wait| wait.kind == WaitKind::Stopped);
    let wants_hand = !pause.is_intended() && (!pause.is_early || is_long || is_stopped);
    Some((pause, wants_hand))
}
