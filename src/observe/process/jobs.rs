//! The jobs of a shell: one after the other writes to the log that is the shell's, and what one told ends with it.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::children::started_by;
use super::exit::start_of;

/// Shells that run the commands of a script one after the other, by the names of their processes.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "make"];

/// Shells below shells that are looked into.
const DEEPEST: usize = 4;

/// Until its first step a training imports its libraries: who started later than so long before a line did not write it.
const FIRST_STEP: Duration = Duration::from_millis(500);

/// A process that a shell has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShellJob {
    pid: u32,
    /// In ticks since the machine did.
    started: Option<u64>,
}

impl ShellJob {
    /// The process.
    #[must_use]
    pub const fn pid(self) -> u32 {
        self.pid
    }

    /// Whether it is still there.
    #[must_use]
    pub fn is_there(self, proc: &Path) -> bool {
        self.started.is_some() && start_of(proc, self.pid) == self.started
    }

    /// Whether it may have written a line at that time.
    #[must_use]
    pub fn may_have_written(self, proc: &Path, written: SystemTime) -> bool {
        started_at(proc, self.pid).is_some_and(|started| started + FIRST_STEP <= written)
    }
}

/// What runs now below a shell; none where the process is no shell.
#[must_use]
pub fn shell_jobs(proc: &Path, pid: u32) -> Option<Vec<ShellJob>> {
    if !is_shell(proc, pid) {
        return None;
    }
    let mut jobs = Vec::new();
    let mut shells = vec![(pid, 0)];
    while let Some((shell, depth)) = shells.pop() {
        for child in started_by(proc, shell) {
            if depth < DEEPEST && is_shell(proc, child) {
                shells.push((child, depth + 1));
            } else {
                jobs.push(ShellJob { pid: child, started: start_of(proc, child) });
            }
        }
    }
    Some(jobs)
}

fn is_shell(proc: &Path, pid: u32) -> bool {
    let name = fs::read_to_string(proc.join(pid.to_string()).join("comm")).unwrap_or_default();
    SHELLS.contains(&name.trim_end())
}

/// When a process started, by the clock that files have.
pub fn started_at(proc: &Path, pid: u32) -> Option<SystemTime> {
    let uptime: f64 = fs::read_to_string(proc.join("uptime")).ok()?.split_whitespace().next()?.parse().ok()?;
    let age = uptime - start_of(proc, pid)? as f64 / procfs::ticks_per_second() as f64;
    SystemTime::now().checked_sub(Duration::try_from_secs_f64(age.max(0.0)).ok()?)
}
