//! Where files of events are looked for: in a folder that the user names, and among what a process has open.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{EventDecoder, summary};
use crate::process::started_by;

/// Folders in each other deeper than this are not looked into.
const DEEPEST: usize = 4;
/// More entries are not looked at.
const MOST: usize = 4096;

/// What does not lie in them: losses of other data than the training's.
const ASIDE: [&str; 7] = ["valid", "validation", "val", "eval", "evaluation", "test", "dev"];

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventSource {
    /// In a folder and those under it.
    Folder(PathBuf),
    /// Among the open files of a process, and of the one that W&B starts beside it.
    Process(u32),
}

impl EventSource {
    /// The file that was written to last.
    pub fn newest(&self) -> Option<PathBuf> {
        let mut found = Vec::new();
        match self {
            Self::Folder(folder) => in_folder(folder, 0, &mut MOST.clone(), &mut found),
            Self::Process(pid) => of_process(Path::new("/proc"), *pid, &mut found),
        }
        found.sort();
        let aside = |at, path: &Path| is_of_one_above(at, path, &found) || is_told_by_a_log(at, path, &found);
        let main = found.iter().rev().find(|(at, path)| !aside(*at, path));
        main.map(|(_, path)| path.clone())
    }
}

/// TensorBoard's writers write after two minutes at the latest (`SummaryWriter.flush_secs`).
const FLUSHED: Duration = Duration::from_secs(180);

/// Whether the writer of a folder above has made it: `SummaryWriter.add_scalars` opens a file in a folder of its own for
/// each line of a chart. That one is written to at about the same time.
fn is_of_one_above(at: SystemTime, path: &Path, all: &[(SystemTime, PathBuf)]) -> bool {
    let folder = path.parent();
    all.iter().any(|(other, above)| {
        let is_above =
            above.parent() != folder && above.parent().zip(folder).is_some_and(|(up, own)| own.starts_with(up));
        is_above && at.duration_since(*other).unwrap_or_default() <= FLUSHED
    })
}

/// Whether a summary is of a run that a log tells step by step: W&B's in the folder above, or one that was written to at
/// about the same time.
fn is_told_by_a_log(at: SystemTime, path: &Path, all: &[(SystemTime, PathBuf)]) -> bool {
    let run = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
    is_summary(path)
        && all.iter().filter(|(_, log)| !is_summary(log)).any(|(written, log)| {
            log.parent().map(Path::to_owned) == run(path) || at.duration_since(*written).unwrap_or_default() <= FLUSHED
        })
}

fn is_summary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == summary::NAME)
}

fn in_folder(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<(SystemTime, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEEPEST && !is_aside(&path) => {
                in_folder(&path, depth + 1, left, found);
            }
            Ok(kind) if kind.is_file() => note(path, found),
            _ => {}
        }
    }
}

fn of_process(proc: &Path, pid: u32, found: &mut Vec<(SystemTime, PathBuf)>) {
    let named =
        |pid: &u32| fs::read_to_string(proc.join(format!("{pid}/comm"))).is_ok_and(|name| name.starts_with("wandb"));
    let beside = started_by(proc, pid).into_iter().filter(named);
    for pid in std::iter::once(pid).chain(beside) {
        let Ok(open) = fs::read_dir(proc.join(format!("{pid}/fd"))) else { continue };
        for path in open.flatten().take(MOST).filter_map(|entry| fs::read_link(entry.path()).ok()) {
            if !path.parent().is_some_and(is_aside) {
                note(path, found);
            }
        }
    }
}

fn is_aside(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| ASIDE.contains(&name))
}

fn note(path: PathBuf, found: &mut Vec<(SystemTime, PathBuf)>) {
    if EventDecoder::of(&path).is_none() {
        return;
    }
    if let Ok(meta) = fs::metadata(&path)
        && meta.is_file()
    {
        found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_where_no_log_tells_its_run() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = |seconds, path: &str| (at(seconds), PathBuf::from(path));
        let all = [
            file(1000, "wandb/run-1/files/wandb-summary.json"),
            file(1000, "wandb/run-1/run-1.wandb"),
            file(1100, "runs/events.out.tfevents.1.host.7.0"),
            file(1200, "wandb/run-2/files/wandb-summary.json"),
            file(9000, "wandb/run-3/files/wandb-summary.json"),
        ];
        let told: Vec<bool> = all.iter().map(|(at, path)| is_told_by_a_log(*at, path, &all)).collect();
        assert_eq!(told, [true, false, false, true, false]);
    }

    #[test]
    fn a_writers_further_files_are_not_taken_for_the_run() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let file = |seconds, path: &str| (at(seconds), PathBuf::from(path));
        let all = [
            file(1000, "runs/events.out.tfevents.1.host.7.0"),
            file(1001, "runs/losses_train/events.out.tfevents.2.host.7.1"),
            file(9000, "runs/second/events.out.tfevents.3.host.9.0"),
        ];
        let is_aside = |number: usize| is_of_one_above(all[number].0, &all[number].1, &all);
        assert!(!is_aside(0) && is_aside(1));
        // Another run, long after.
        assert!(!is_aside(2));
    }
}
