//! Ending a process, and no other one.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};
use thiserror::Error;

/// How a process is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It may clean up: SIGTERM.
    Asked,
    /// It is not asked: SIGKILL.
    Forced,
}

/// Why a process was not ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EndError {
    /// It has ended by itself.
    #[error("{0} is gone")]
    Gone(u32),
    /// Its number is another's.
    #[error("{0} is another process by now: nothing was sent")]
    Another(u32),
    /// The system does not let this user.
    #[error("no permission to end {0}: it belongs to another user")]
    NoPermission(u32),
    /// Another reason of the system's.
    #[error("{0} cannot be ended: {1}")]
    Other(u32, Errno),
}

/// Ends the process `pid` of this namespace that started at `started` (seconds since the Unix epoch).
///
/// # Errors
/// It is gone, the pid is another's by now, or the system does not let us.
pub fn end(pid: u32, started: u64, how: End) -> Result<(), EndError> {
    let gone = || EndError::Gone(pid);
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    // From here on it is this process that is meant, whoever gets its number after it.
    let process = pidfd_open(number, PidfdFlags::empty()).map_err(|error| refused(pid, error))?;
    if start_of(pid) != Some(started) {
        return Err(EndError::Another(pid));
    }
    let signal = match how {
        End::Asked => Signal::TERM,
        End::Forced => Signal::KILL,
    };
    pidfd_send_signal(process, signal).map_err(|error| refused(pid, error))
}

fn start_of(pid: u32) -> Option<u64> {
    let pid = sysinfo::Pid::from_u32(pid);
    let mut system = System::new().ok()?;
    system.refresh_processes_specifics(
        ProcessesToUpdate::Some(&[pid]),
        true,
        ProcessRefreshKind::nothing().without_tasks(),
    );
    system.process(pid).map(sysinfo::Process::start_time)
}

fn refused(pid: u32, error: Errno) -> EndError {
    match error {
        Errno::SRCH => EndError::Gone(pid),
        Errno::PERM => EndError::NoPermission(pid),
        error => EndError::Other(pid, error),
    }
}
