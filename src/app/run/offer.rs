//! A run under the hook that was started elsewhere: offered beside the keys, followed by key, never by itself.

use super::last_attempt::LastAttempt;
use super::outlook::Outlook;
use super::{Telemetry, is_quiet};
use super::{inferred, plan};
use crate::app::editor::editing::set_against;
use crate::app::event::Effect;
use crate::app::monitor::attached::AttachedState;
use crate::app::monitor::{Monitor, SourceState};
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::order::StableOrder;
use crate::reading::{HookedRun, Moment, SourceInfo, SourceKind};
use crate::units::Seconds;

/// A run that was offered for so long is no news any more.
const NEWS: Seconds = Seconds(60.0);

impl Telemetry {
    /// The runs under the hook that train now, the one that started last first: which of them spoke last changes with
    /// every step.
    fn training_now(&self, now: Moment) -> Vec<&HookedRun> {
        let trains = |run: &&HookedRun| run.leads() && run.step.is_some() && run.end.is_none() && !is_quiet(run, now);
        let mut runs: Vec<&HookedRun> = self.news.hooks.iter().filter(trains).collect();
        runs.order_by(|one, other| start_of(other).total_cmp(&start_of(one)).then(other.pid.cmp(&one.pid)));
        runs
    }

    /// The runs under the hook that were started elsewhere on this machine and may be followed, the one that started last
    /// first: nothing is attached, or what is has ended, and nobody has declined them.
    #[must_use]
    pub fn followable(&self, monitor: &Monitor, now: Moment) -> Vec<&HookedRun> {
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
        if !local || !idle {
            return Vec::new();
        }
        let attached = monitor.attached_here();
        let is_free = |run: &&HookedRun| Some(run.pid) != attached && !self.declined.contains(&run.pid);
        self.training_now(now).into_iter().filter(is_free).collect()
    }

    /// The run that is offered: the one that started last. One that is shown stays until it is no news any more: a key
    /// follows the run that was read beside it.
    #[must_use]
    pub fn offered(&self, monitor: &Monitor, now: Moment) -> Option<&HookedRun> {
        let runs = self.followable(monitor, now);
        let shown = runs.iter().find(|run| self.is_news(run, now));
        shown.or_else(|| runs.first()).copied()
    }

    fn is_news(&self, run: &HookedRun, now: Moment) -> bool {
        self.offers.iter().any(|(pid, since)| *pid == run.pid && now.since(*since) < NEWS)
    }

    /// A run that trains and started after the followed one, or while none is followed.
    #[must_use]
    pub fn started_last(&self, monitor: &Monitor, now: Moment) -> Option<u32> {
        if let Some(offered) = self.followable(monitor, now).first() {
            return Some(offered.pid);
        }
        let followed = self.hooked(monitor, now)?;
        let last = *self.training_now(now).first()?;
        (start_of(last) > start_of(followed)).then_some(last.pid)
    }

    /// The same while it is news: for a minute, and not where a person has asked for a simulated run.
    #[must_use]
    pub fn newly_offered(&self, monitor: &Monitor, now: Moment) -> Option<&HookedRun> {
        self.offered(monitor, now).filter(|run| !self.is_simulation_asked_for && self.is_news(run, now))
    }

    /// The run that is offered while that is news, and among how many: `new run 77 of 2`.
    #[must_use]
    pub fn offer_words(&self, monitor: &Monitor, now: Moment) -> Option<String> {
        let run = self.newly_offered(monitor, now)?;
        // One that has trained for a while when the dashboard starts is offered, but is not new.
        let is_new = run.began.is_none_or(|began| now.0 as f64 / 1000.0 - began < NEWS.0);
        let of = match self.followable(monitor, now).len() {
            0 | 1 => String::new(),
            all => format!(" of {all}"),
        };
        Some(format!("{}run {}{of}", if is_new { "new " } else { "" }, run.pid))
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

/// When a run started, in seconds since the epoch. One whose hook does not say so started before all others.
fn start_of(run: &HookedRun) -> f64 {
    run.began.unwrap_or(0.0)
}

/// Follows the run that is offered.
pub fn take(state: &mut State) -> Vec<Effect> {
    let Some(pid) = offered(state) else {
        state.notice = Some(problem("no run is offered: one that starts under the hook is"));
        return Vec::new();
    };
    follow(state, pid)
}

/// Follows the run that started last, where nobody has chosen one.
pub fn follow_last(state: &mut State) -> Vec<Effect> {
    let last = state.run.telemetry.started_last(&state.monitor, state.now);
    last.map_or_else(Vec::new, |pid| follow(state, pid))
}

fn follow(state: &mut State, pid: u32) -> Vec<Effect> {
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
    let next = match offered(state) {
        Some(next) => format!("the next run is {next}"),
        None => "⏎ in the monitor attaches to a process".to_owned(),
    };
    state.notice = Some(info(format!("{pid} is not followed; {next}")));
    true
}

fn offered(state: &State) -> Option<u32> {
    state.run.telemetry.offered(&state.monitor, state.now).map(|run| run.pid)
}
