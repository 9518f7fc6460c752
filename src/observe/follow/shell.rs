//! A shell that is followed runs one training after the other: what one has told in its log ends with it.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::log::Log;
use crate::process::{ShellJob, shell_jobs};

/// A log that nobody has written to for so long, and nobody who runs can have: who wrote it has ended.
const LONG_WRITTEN: Duration = Duration::from_secs(3);

/// The job of a shell that tells the steps in its log.
#[derive(Debug)]
pub struct TellingJob {
    proc: PathBuf,
    /// What the shell ran as a step was told: one of these has told it.
    tellers: Vec<ShellJob>,
    /// All of them were gone at the look before: a shell that has nothing more to do ends with them, and its end says more.
    is_gone: bool,
}

impl TellingJob {
    /// Nobody has told a step yet.
    pub fn new(proc: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into(), tellers: Vec::new(), is_gone: false }
    }

    /// Whether all have ended, since the look before, that may have told the steps so far.
    pub fn has_ended(&mut self) -> bool {
        let is_gone = !self.tellers.is_empty() && !self.tellers.iter().any(|job| job.is_there(&self.proc));
        std::mem::replace(&mut self.is_gone, is_gone) && is_gone
    }

    /// Looks who tells the steps of `log`, where the process is a shell. Whether the run is over that they are of: its
    /// `end` was seen before the log was read, or it had ended before anybody looked.
    pub fn look(&mut self, pid: u32, log: &Log, end: bool) -> bool {
        if end {
            self.tellers.clear();
            return true;
        }
        if !self.tellers.is_empty() || log.progress().step.value().is_none() {
            return false;
        }
        let Some((jobs, written)) = shell_jobs(&self.proc, pid).zip(log.written()) else { return false };
        self.tellers = jobs.into_iter().filter(|job| job.may_have_written(&self.proc, written)).collect();
        let quiet = SystemTime::now().duration_since(written).unwrap_or_default();
        self.tellers.is_empty() && quiet >= LONG_WRITTEN
    }
}
