//! How much at the end of a file a process may have written: where a run is started again, its log goes on behind the one
//! before (`>> train.log`), and the steps that stand there are not its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::process::{descendants, started_at};

/// What clocks and the times of files may differ by.
const SLACK: Duration = Duration::from_millis(100);

/// Ancestors that are looked at: a launcher below a shell below another.
const MOST_ANCESTORS: usize = 8;

/// The most bytes at the end of `file` that the process and those beside it on the same file have written; none where
/// nobody can tell.
pub fn own_bytes(proc: &Path, pid: u32, file: &Path) -> Option<u64> {
    let written = fs::metadata(file).ok()?.modified().ok()?;
    if started_at(proc, pid).is_some_and(|started| written + SLACK < started) {
        return Some(0);
    }
    // A rank writes where its launcher does, and another rank's lines are as much the run's.
    let first =
        (0..MOST_ANCESTORS).try_fold(pid, |pid, _| match parent(proc, pid).filter(|up| writes(proc, *up, file)) {
            Some(up) => Ok(up),
            None => Err(pid),
        });
    let first = first.unwrap_or_else(|first| first);
    let all = descendants(proc, &[first]).into_iter().map(|(child, _)| child);
    // A process that ends hands its count to the one that waits for it (kernel/exit.c, `wait_task_zombie`).
    let bytes: Option<u64> = std::iter::once(first).chain(all).map(|pid| bytes_written(proc, pid)).sum();
    // Where none of them has written anything, somebody else writes for them.
    bytes.filter(|bytes| *bytes > 0)
}

fn parent(proc: &Path, pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc.join(format!("{pid}/stat"))).ok()?;
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 1).then_some(parent)
}

/// Whether its output goes to that file, too.
fn writes(proc: &Path, pid: u32, file: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let own = identity(file);
    own.is_some() && ["1", "2"].iter().any(|fd| identity(&proc.join(format!("{pid}/fd/{fd}"))) == own)
}

/// All bytes that a process has ever written, to whatever file (proc(5), `wchar`).
fn bytes_written(proc: &Path, pid: u32) -> Option<u64> {
    let io = fs::read_to_string(proc.join(format!("{pid}/io"))).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar:"))?.trim().parse().ok()
}
