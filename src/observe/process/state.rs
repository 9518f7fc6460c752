//! What the kernel accounts of a process, by its `stat`.

use std::path::Path;

use super::waits::read;

/// What the kernel accounts of a process.
pub struct ProcessState {
    /// Its letter: `R`, `S`, `D`, `T`, `Z`.
    pub state: char,
    /// The processor time of all its threads.
    pub ticks: u64,
    /// When it started, in ticks since the machine did.
    pub started: u64,
}

/// The state of a process, its processor time and its start (proc(5), fields 3, 14, 15 and 22).
pub fn state(root: &Path, pid: u32) -> Option<ProcessState> {
    let text = read(&root.join(pid.to_string()).join("stat"))?;
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let state = fields.first()?.chars().next()?;
    Some(ProcessState { state, ticks: number(11)? + number(12)?, started: number(19)? })
}
