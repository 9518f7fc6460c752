//! A run under the hook that was started elsewhere: offered beside the keys, followed by key, never by itself.

use super::Telemetry;
use super::last_attempt::LastAttempt;
use super::outlook::Outlook;
use super::{inferred, plan};
use crate::app::editor::editing::set_against;
use crate::app::event::Effect;
use crate::app::monitor::attached::AttachedState;
use crate::app::monitor::{Monitor, SourceState};
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::reading::{HookedRun, Moment, SourceInfo, SourceKind};
use crate::units::Seconds;

/// A run that was offered for so long is no news any more.
const NEWS: Seconds = Seconds(60.0);

impl Telemetry {
    /// A run under the hook that was started elsewhere on this machine and may be followed: nothing is attached, or what
    /// is has ended, and nobody has declined it.
    #[must_use]
    pub fn offered(&self, monitor: &Monitor, now: Moment) -> Option<&HookedRun> {
        let local = match &monitor.source {
            SourceState::Starting | SourceState::Unwatched => false,
            SourceState::Running(info) => info.kind.is_live() || info.kind == SourceKind::Demo,
            // Without a GPU a run on the CPU is all there is to follow.
            SourceState::Failed(_) => true,
        };
        let own = self.simulated_pid.filter(|_| monitor.attached.is_some());
        let idle = monitor.attached.as_ref().is_none_or(|attached| {
            Some(attached.pid) == own || matches!(attached.state, AttachedState::Ended | AttachedState::Missing)
        });
        let attached = monitor.attached_here();
        self.leader(now).filter(|run| local && idle && Some(run.pid) != attached && !self.declined.contains(&run.pid))
    }

    /// The same while it is news: for a minute, and not where a person has asked for a simulated run.
    #[must_use]
    pub fn newly_offered(&self, monitor: &Monitor, now: Moment) -> Option<&HookedRun> {
        let is_news =
            |run: &&HookedRun| self.offers.iter().any(|(pid, since)| *pid == run.pid && now.since(*since) < NEWS);
        self.offered(monitor, now).filter(|_| !self.is_simulation_asked_for).filter(is_news)
    }

    /// Notes which run is offered, and since when.
    pub(super) fn note_offer(&mut self, monitor: &Monitor, now: Moment) {
        let pid = self.offered(monitor, now).map(|run| run.pid);
        let new = pid.filter(|pid| self.offers.iter().all(|(known, _)| known != pid));
        self.offers.extend(new.map(|pid| (pid, now)));
    }

    /// A run that was offered is not offered again.
    pub fn decline(&mut self, pid: u32) {
        self.declined.push(pid);
    }
}

/// Follows the run that is offered.
pub fn take(state: &mut State) -> Vec<Effect> {
    let Some(pid) = offered(state) else {
        state.notice = Some(problem("no run is offered: one that starts under the hook is"));
        return Vec::new();
    };
    if state.is_made_up() {
        state.monitor.toggle_attach(pid);
        state.notice = Some(info(format!("attached to {pid}, in place of the simulated run")));
        return vec![Effect::StopRecording, Effect::WatchProcess(pid)];
    }
    // Without a source there is nothing yet that reads the process.
    let unread = matches!(state.monitor.source, SourceState::Failed(_));
    state.monitor.toggle_attach(pid);
    // What was found out about the run before it says nothing of this one.
    state.run.explaining.restart();
    let compared = plan::attached(state);
    state.notice = Some(info(format!("attached to {pid}{compared}")));
    set_against(state);
    let watch = unread.then_some(Effect::WatchProcess(pid));
    let read = inferred::is_wanted(state).then(|| inferred::of(state, pid));
    watch.into_iter().chain(read).collect()
}

/// Another source has started. What was simulated says nothing of what is real: neither its GPUs, nor its plan.
pub fn on_source(state: &mut State, info: &SourceInfo) {
    if !state.is_made_up() || info.kind == SourceKind::Demo {
        return;
    }
    let followed = state.monitor.attached.as_ref().map(|attached| attached.pid);
    state.monitor = Monitor { interval: state.monitor.interval, ..Monitor::new(followed) };
    state.plans.run = None;
    state.run.simulated = None;
    state.run.comparison = None;
    state.run.last_attempt = LastAttempt::default();
    state.run.outlook = Outlook::default();
    state.run.explaining.restart();
    state.run.telemetry.leave_simulation();
}

/// Does not offer it again. False where none is offered.
pub fn dismiss(state: &mut State) -> bool {
    // Where something is typed that is left first.
    let is_typing = state.plans.text.is_some() || state.plans.form.typing.is_some();
    let news = state.run.telemetry.newly_offered(&state.monitor, state.now).map(|run| run.pid);
    let Some(pid) = news.filter(|_| !is_typing) else { return false };
    state.run.telemetry.decline(pid);
    state.notice = Some(info(format!("{pid} is not followed; ⏎ in the monitor attaches to a process")));
    true
}

fn offered(state: &State) -> Option<u32> {
    state.run.telemetry.offered(&state.monitor, state.now).map(|run| run.pid)
}
