//! The process that the shell waits for. It starts the dashboard as a second one and does nothing until that has ended:
//! however it ends, a driver that crashes, aborts or exits included, the terminal is given back as it was.

use std::io::{Write, stdin, stdout};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::terminal::leaving;
use crate::cli::signals::is_ignored;
use crate::cli::termination::ENDING;
use crate::cli::{Exit, Streams};

/// Names the supervisor to the dashboard, by its process.
const VARIABLE: &str = "MEMWALL_SUPERVISOR";

/// Has the dashboard run in a process of its own. None: this is that process, or there can be none.
pub fn supervise(streams: &mut Streams<'_>) -> Option<Exit> {
    if is_supervised() {
        // A supervisor that is killed takes the dashboard with it.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        return None;
    }
    let before = tcgetattr(stdin()).ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let status = runtime.block_on(ended())?;
    let was_left = is_another_mode(&before);
    if was_left {
        restore(&before);
    }
    Some(match (status.code(), status.signal()) {
        (Some(code), _) if !was_left => Exit::Child(u8::try_from(code).unwrap_or(1)),
        (_, Some(number)) if ENDING.contains(&number) && number != Signal::ABORT.as_raw() => {
            Exit::Child(u8::try_from(128 + number).unwrap_or(1))
        }
        _ => streams.fail(
            Exit::Failed,
            &format!(
                "the dashboard was ended from within ({status}), most likely by the GPU's driver; `--source demo` does \
                 without it, `memwall record` says more"
            ),
        ),
    })
}

fn is_supervised() -> bool {
    let parent = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    parent.is_some() && std::env::var(VARIABLE).ok() == parent
}

/// Whether the terminal is not as it was: the dashboard gives it back as the last thing that it does.
fn is_another_mode(before: &Termios) -> bool {
    tcgetattr(stdin()).is_ok_and(|now| {
        (now.local_modes, now.input_modes, now.output_modes)
            != (before.local_modes, before.input_modes, before.output_modes)
    })
}

/// Nobody is left to be told where that fails.
fn restore(before: &Termios) {
    let _ = tcflush(stdout(), QueueSelector::OFlush);
    drop(stdout().write_all(&leaving()).and_then(|()| stdout().flush()));
    let _ = tcsetattr(stdin(), OptionalActions::Now, before);
}

/// How the dashboard ended; none where it could not be started.
async fn ended() -> Option<ExitStatus> {
    let jobs = [Signal::TSTP.as_raw(), Signal::CONT.as_raw()];
    let numbers = ENDING.into_iter().chain(jobs).filter(|number| !is_ignored(*number));
    // Before it starts: from here on a signal reaches it.
    let listened: Option<Vec<_>> =
        numbers.map(|number| Some((number, signal(SignalKind::from_raw(number)).ok()?))).collect();
    let mut listened = listened?;
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).env(VARIABLE, std::process::id().to_string());
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    let mut child = command.spawn().ok()?;
    loop {
        let next = futures::future::select_all(listened.iter_mut().map(|(number, signal)| {
            Box::pin(async {
                signal.recv().await;
                *number
            })
        }));
        tokio::select! {
            status = child.wait() => return status.ok(),
            (number, ..) = next => pass_on(&child, number),
        }
    }
}

fn pass_on(child: &Child, number: i32) {
    let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(number)) {
        // It has ended already: nobody is left to be told.
        let _ = kill_process(pid, signal);
    }
}
