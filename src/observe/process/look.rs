//! One process, looked at: what changes comes from two small files, what does not is read once.

use std::io::Read;
use std::path::Path;

use procfs::process::Process;

use super::cut;
use crate::units::Bytes;

/// Names and command lines are cut here: they come from anybody.
pub const LONGEST_TEXT: usize = 4096;

/// What changes of a process between two looks, and what tells it from others.
#[derive(Debug, Clone)]
pub struct Look {
    /// Seconds since the Unix epoch.
    pub started: u64,
    /// As the kernel has it: cut at 15 bytes.
    pub name: String,
    /// Processor time that it has used.
    pub millis: u64,
    /// Memory that it has in RAM.
    pub resident: Bytes,
    /// Who started it.
    pub parent: Option<u32>,
}

/// What a process says of itself once.
#[derive(Debug, Clone)]
pub struct Said {
    /// The command line; where there is none, the name in brackets, as ps shows it.
    pub command: String,
    /// Whose it is; none where that may not be read.
    pub user: Option<u32>,
}

/// When this machine was started, in seconds since the Unix epoch; none without `/proc`.
pub fn boot() -> Option<u64> {
    procfs::boot_time_secs().ok()
}

impl Look {
    /// A look at the process of that number under `root`, on a machine that was started at `boot`.
    pub fn at(root: &Path, pid: u32, boot: u64) -> Option<(Process, Self)> {
        let process = Process::new_with_root(root.join(pid.to_string())).ok()?;
        let stat = process.stat().ok()?;
        // What `stat` says of memory is off by some dozen pages a processor.
        let resident = process.statm().map_or(stat.rss, |statm| statm.resident);
        let ticks = procfs::ticks_per_second();
        let look = Self {
            started: boot + stat.starttime / ticks,
            name: cut(stat.comm),
            millis: (stat.utime + stat.stime) * 1000 / ticks,
            resident: Bytes(resident * procfs::page_size()),
            parent: u32::try_from(stat.ppid).ok().filter(|parent| *parent > 0),
        };
        Some((process, look))
    }
}

impl Said {
    /// What the process of that name says.
    pub fn by(process: &Process, name: &str) -> Self {
        let user = process.status().ok().map(|status| status.ruid);
        let command = command(process).unwrap_or_else(|| format!("[{name}]"));
        Self { command, user }
    }
}

fn command(process: &Process) -> Option<String> {
    let mut bytes = Vec::new();
    // A character that is cut in two lies beyond what is kept.
    let most = LONGEST_TEXT as u64 + 4;
    process.open_relative("cmdline").ok()?.take(most).read_to_end(&mut bytes).ok()?;
    let end = bytes.iter().rposition(|byte| *byte != 0)?;
    let words: Vec<_> = bytes[..=end].split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    Some(cut(words.join(" ")))
}
