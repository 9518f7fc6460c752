//! The process that the shell waits for. It starts the dashboard as a second one and does nothing until that has ended:
//! however it ends, a driver that crashes, aborts or exits included, the terminal is given back as it was.

use std::io::{Write, stdin, stdout};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::terminal::leaving;
use crate::cli::signals::is_ignored;
use crate::cli::termination::ENDING;
use crate::cli::{Exit, Failure, Streams};

/// Names the supervisor to the dashboard, by its process.
const VARIABLE: &str = "MEMWALL_SUPERVISOR";

/// Added by the dashboard to its own exit code, so that it is told from one that the driver's library gives.
const OWN_CODE: u8 = 64;

/// Runs the dashboard in a process of its own, or in this one where this is that process or there can be none.
///
/// # Errors
/// As `run`; and where the dashboard was ended from within.
pub fn supervise(streams: &mut Streams<'_>, run: impl FnOnce() -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    if is_supervised() {
        // A supervisor that is killed takes the dashboard with it.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        let ended = streams.end(run());
        if let Some(supervisor) = getppid() {
            let _ = kill_process(supervisor, Signal::CHILD);
        }
        return Ok(Exit::Child(OWN_CODE.saturating_add(ended.code())));
    }
    let before = tcgetattr(stdin()).ok();
    let runtime = Builder::new_current_thread().enable_all().build().ok();
    let Some((before, end)) = before.zip(runtime.and_then(|runtime| runtime.block_on(ended()))) else {
        return run();
    };
    let status = match end {
        DashboardEnd::Gone(status) => status,
        DashboardEnd::Held(pid) => {
            restore(&before);
            streams.note(&format!("a disk does not answer: process {pid} ends when it does"));
            return Ok(Exit::Done);
        }
    };
    if is_another_mode(&before) {
        restore(&before);
    }
    let own = status.code().and_then(|code| u8::try_from(code).ok()?.checked_sub(OWN_CODE));
    let own = own.filter(|code| *code <= Exit::DoesNotFit.code());
    match (own, status.signal()) {
        (Some(code), _) => Ok(Exit::Child(code)),
        (_, Some(number)) if ENDING.contains(&number) && number != Signal::ABORT.as_raw() => {
            Ok(Exit::Child(u8::try_from(128 + number).unwrap_or(1)))
        }
        // No program does that to itself.
        (_, Some(number)) if number == Signal::KILL.as_raw() => {
            Err(Failure::failed("the dashboard was killed (SIGKILL): by somebody, or by the system for want of memory"))
        }
        _ => Err(Failure::failed(format!(
            "the dashboard was ended from within ({status}), most likely by the GPU's driver; `--source demo` does \
             without it, `memwall record` says more"
        ))),
    }
}

/// Whether a supervisor waits for this process and gives the terminal back where it has not.
pub fn is_supervised() -> bool {
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

/// How the dashboard ended.
enum DashboardEnd {
    /// It is gone.
    Gone(ExitStatus),
    /// It has left, and one of its threads is stuck in a write that no signal ends.
    Held(u32),
}

/// How long a dashboard that has left is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether nothing is left of it but what the system waits for.
fn has_left(pid: u32) -> bool {
    let stat = i32::try_from(pid).ok().and_then(|pid| procfs::process::Process::new(pid).ok()?.stat().ok());
    stat.is_some_and(|stat| stat.state == 'Z')
}

/// How the dashboard ended; none where it could not be started.
async fn ended() -> Option<DashboardEnd> {
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
    // By this one it says that it leaves; the system says so when it stops, too.
    let mut told = signal(SignalKind::child()).ok()?;
    let mut patience = None;
    loop {
        let held = async {
            match patience {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let next = futures::future::select_all(listened.iter_mut().map(|(number, signal)| {
            Box::pin(async {
                signal.recv().await;
                *number
            })
        }));
        tokio::select! {
            status = child.wait() => return status.ok().map(DashboardEnd::Gone),
            Some(()) = told.recv() => patience = Some(Instant::now() + PATIENCE),
            () = held => match child.id().filter(|pid| has_left(*pid)) {
                Some(pid) => return Some(DashboardEnd::Held(pid)),
                None => patience = None,
            },
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
