//! News of a run besides its devices: its log and the hooks in its processes.

use super::{Absence, HookLosses, HookedRun, OutOfMemory, Progress};

/// What is known of the followed run, and of every process with a hook in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunNews {
    /// The process whose log is followed.
    pub pid: Option<u32>,
    /// What its log tells.
    pub progress: Progress,
    /// Why there is no log, or why it cannot be read now.
    pub no_log: Option<Absence>,
    /// The newest out-of-memory message in the log, where the run did not go on after it.
    pub out_of_memory: Option<OutOfMemory>,
    /// Processes with a hook in them.
    pub hooks: Vec<HookedRun>,
    /// What came through the socket and was not taken.
    pub losses: HookLosses,
    /// Why nobody listens to hooks.
    pub deaf: Option<String>,
}
