//! A run under the hook that was started elsewhere: offered beside the keys, followed by key, never by itself.

use super::last_attempt::LastAttempt;
use super::outlook::Outlook;
use super::{inferred, plan};
use crate::app::editor::editing::set_against;
use crate::app::event::Effect;
use crate::app::monitor::{Monitor, SourceState};
use crate::app::notice::{info, problem};
use crate::app::state::State;
use crate::reading::{SourceInfo, SourceKind};

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
