//! Ending a process: asked for, confirmed by typing, SIGTERM before SIGKILL.

use super::SourceState;
use crate::app::event::Effect;
use crate::app::key::KeyPress;
use crate::app::notice::{info, problem};
use crate::app::state::State;

/// The process that is meant: a pid alone may be another's by the time a signal is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetProcess {
    /// Its pid here.
    pub pid: u32,
    /// When it started, in seconds since the Unix epoch.
    pub started: u64,
}

/// The question whether to end a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndRequest {
    /// Which.
    pub meant: TargetProcess,
    /// Its user and command, as the host tells them.
    pub name: String,
    /// It was asked before and is still there: SIGKILL instead of SIGTERM.
    pub forced: bool,
    /// What was typed so far.
    pub typed: String,
}

impl EndRequest {
    /// What has to be typed.
    #[must_use]
    pub fn word(&self) -> String {
        let pid = self.meant.pid;
        if self.forced { format!("kill {pid}") } else { pid.to_string() }
    }
}

/// Asks about the selected process.
pub fn ask(state: &mut State) {
    let live = matches!(&state.monitor.source, SourceState::Running(info) if info.kind.is_live());
    if !live {
        state.notice = Some(problem("only processes of this machine can be ended"));
        return;
    }
    let attached = state.monitor.attached.as_ref().map(|attached| attached.pid);
    let meant = state.monitor.selected_pid().or(attached);
    let row = meant.and_then(|pid| state.monitor.processes().into_iter().find(|row| row.pid == pid));
    let host = row.and_then(|row| row.host);
    let Some((host, started)) = host.and_then(|host| Some((host, *host.started.value()?))) else {
        state.notice = Some(problem("no process that is known here is selected"));
        return;
    };
    let meant = TargetProcess { pid: host.here.unwrap_or(host.pid), started };
    let known = |text: Option<&String>| text.map_or("?", String::as_str).to_owned();
    let name = format!("{}: {}", known(host.user.value()), known(host.command.value()));
    let forced = state.monitor.asked_to_end == Some(meant);
    state.monitor.ending = Some(EndRequest { meant, name, forced, typed: String::new() });
}

/// A key while the question stands.
pub fn on_key(state: &mut State, key: KeyPress) -> Vec<Effect> {
    let Some(ending) = &mut state.monitor.ending else { return Vec::new() };
    match key {
        KeyPress::Char(c) if ending.typed.len() < 20 => ending.typed.push(c),
        KeyPress::Backspace => {
            ending.typed.pop();
        }
        KeyPress::Esc | KeyPress::Ctrl('c') => state.monitor.ending = None,
        KeyPress::Enter => {
            let right = ending.typed.trim() == ending.word();
            let (meant, forced) = (ending.meant, ending.forced);
            state.monitor.ending = None;
            if right {
                return vec![Effect::End { meant, forced }];
            }
            state.notice = Some(problem(format!(
                "{} was not typed: {} goes on",
                if forced { "that" } else { "the pid" },
                meant.pid
            )));
        }
        _ => {}
    }
    Vec::new()
}

/// The signal was sent.
pub fn sent(state: &mut State, meant: TargetProcess, forced: bool) {
    state.monitor.asked_to_end = Some(meant);
    state.notice = Some(info(if forced {
        format!("killed {}", meant.pid)
    } else {
        format!("asked {} to end: x again forces it if it stays", meant.pid)
    }));
}
