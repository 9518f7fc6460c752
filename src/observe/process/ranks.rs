//! The training processes that a launcher has started: torchrun, accelerate, deepspeed, srun, mpirun, a shell.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::children;
use super::exit::start_of;
use super::jobs::{ShellJob, shell_jobs};
use crate::command::is_below;
use crate::order::StableOrder;
use crate::reading::{HookedRun, RankProcess};

/// Where launchers say the rank: PyTorch's and what they pass on (Slurm, Open MPI, MPICH).
const RANKS: [&str; 4] = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// A larger environment is cut.
const MOST_BYTES: u64 = 1 << 20;

/// The ranks below a process, by rank; none below one that is a rank itself. What a rank starts inherits its
/// environment and is none.
#[must_use]
pub fn ranks_of(root: &Path, pid: u32) -> Vec<RankProcess> {
    if rank_of(root, pid).is_some() {
        return Vec::new();
    }
    let family = children::look(root, &[pid]);
    let mut ranks: Vec<RankProcess> = family
        .iter()
        .filter_map(|(pid, parent)| {
            let rank = rank_of(root, *pid)?;
            (rank_of(root, *parent) != Some(rank)).then(|| RankProcess {
                pid: *pid,
                started: start_of(root, *pid),
                rank,
            })
        })
        .collect();
    ranks.order_by_key(|rank| (rank.rank, rank.pid));
    ranks
}

/// The ranks below a process that only their hooks tell: what `torch.multiprocessing.spawn` starts has no environment of
/// its own.
#[must_use]
pub fn told_ranks_of(pid: u32, hooks: &[HookedRun]) -> Vec<RankProcess> {
    let is_its = |run: &&HookedRun| run.pid != pid && run.end.is_none() && is_below(run.pid, pid);
    let mut ranks: Vec<RankProcess> = hooks
        .iter()
        .filter(is_its)
        .filter_map(|run| {
            let rank = run.about.as_ref()?.rank?;
            Some(RankProcess { pid: run.pid, started: start_of(Path::new("/proc"), run.pid), rank })
        })
        .collect();
    ranks.order_by_key(|rank| (rank.rank, rank.pid));
    ranks
}

/// The training processes below one that has started them, a shell or `memwall run`, where none has a rank: by pid.
#[must_use]
pub fn told_runs_of(pid: u32, hooks: &[HookedRun]) -> Vec<RankProcess> {
    let trains = |run: &&HookedRun| run.about.as_ref().is_some_and(|about| about.rank.is_none());
    let is_its = |run: &&HookedRun| run.pid != pid && run.end.is_none() && is_below(run.pid, pid);
    let process =
        |run: &HookedRun| RankProcess { pid: run.pid, started: start_of(Path::new("/proc"), run.pid), rank: 0 };
    // One with a hook of its own is a run itself, whatever it starts.
    if hooks.iter().any(|run| run.pid == pid && run.end.is_none()) {
        return Vec::new();
    }
    let mut runs: Vec<RankProcess> = hooks.iter().filter(trains).filter(is_its).map(process).collect();
    runs.order_by_key(|run| run.pid);
    runs
}

/// The only Python that runs below a shell (`bash -c 'python train.py | tee train.log'`), where no hook tells of a training
/// there: the memory of the run is its. None where the process is no shell, or several run.
#[must_use]
pub fn python_of_shell(root: &Path, pid: u32, hooks: &[HookedRun]) -> Option<RankProcess> {
    if hooks.iter().any(|run| run.end.is_none() && is_below(run.pid, pid)) {
        return None;
    }
    let pids: Vec<u32> = shell_jobs(root, pid)?.into_iter().map(ShellJob::pid).collect();
    let mut pythons = pids.into_iter().filter(|job| is_python(root, *job));
    let only = pythons.next().filter(|_| pythons.next().is_none())?;
    Some(RankProcess { pid: only, started: start_of(root, only), rank: 0 })
}

fn is_python(root: &Path, pid: u32) -> bool {
    let program = std::fs::read_link(root.join(pid.to_string()).join("exe")).unwrap_or_default();
    program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"))
}

fn rank_of(root: &Path, pid: u32) -> Option<u32> {
    let mut bytes = Vec::new();
    let file = File::open(root.join(pid.to_string()).join("environ")).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let value = |name: &str| {
        bytes.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    RANKS.iter().find_map(|name| std::str::from_utf8(value(name)?).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::reading::{HookAbout, Moment};

    /// A process with that environment that has started those.
    fn process(root: &Path, pid: u32, environ: &str, started: &[u32]) {
        let folder = root.join(pid.to_string());
        let task = folder.join("task").join(pid.to_string());
        fs::create_dir_all(&task).unwrap();
        fs::write(folder.join("environ"), environ).unwrap();
        let children: String = started.iter().map(|child| format!("{child} ")).collect();
        fs::write(task.join("children"), children).unwrap();
        fs::write(folder.join("stat"), format!("{pid} (python) S 1 1")).unwrap();
    }

    #[test]
    fn runs_without_a_rank_are_found_below_who_started_them_unless_that_is_one() {
        let mut children: Vec<std::process::Child> =
            (0..2).map(|_| std::process::Command::new("sleep").arg("1000").spawn().unwrap()).collect();
        let run = |pid: u32, rank: Option<u32>| {
            let about = HookAbout { rank, ..HookAbout::default() };
            HookedRun { about: Some(about), ..HookedRun::new(pid, Moment(1)) }
        };
        let own = std::process::id();
        let [one, other] = [children[0].id(), children[1].id()];
        let pids = |hooks: &[HookedRun]| told_runs_of(own, hooks).iter().map(|run| run.pid).collect::<Vec<_>>();
        assert_eq!(pids(&[run(other, None), run(one, None), run(1, None)]), [one.min(other), one.max(other)]);
        assert_eq!(pids(&[run(one, None), run(other, Some(0))]), [one], "a rank is no run of its own");
        assert!(pids(&[run(one, None), run(own, None)]).is_empty(), "it has a hook itself");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn ranks_are_found_below_their_launcher_and_their_workers_are_none() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 10, "PATH=/bin\0", &[11, 12]);
        process(root.path(), 11, "A=1\0RANK=1\0LOCAL_RANK=1\0", &[13]);
        process(root.path(), 12, "RANK=0\0", &[]);
        // A data loader's worker.
        process(root.path(), 13, "A=1\0RANK=1\0LOCAL_RANK=1\0", &[]);
        let ranks: Vec<(u32, u32)> = ranks_of(root.path(), 10).iter().map(|rank| (rank.rank, rank.pid)).collect();
        assert_eq!(ranks, [(0, 12), (1, 11)]);
        assert!(ranks_of(root.path(), 11).is_empty(), "a rank itself");
    }

    /// `bash -c 'python train.py | tee log'`: Python's memory is the run's. Beside a second one nobody knows whose.
    #[test]
    fn the_only_python_below_a_shell_is_the_run() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 10, "", &[11, 12]);
        for (pid, program) in [(10, "bash"), (11, "python3.11"), (12, "tee")] {
            if pid > 10 {
                process(root.path(), pid, "", &[]);
            }
            let folder = root.path().join(pid.to_string());
            fs::write(folder.join("comm"), format!("{program}\n")).unwrap();
            std::os::unix::fs::symlink(format!("/usr/bin/{program}"), folder.join("exe")).unwrap();
        }
        let only = || python_of_shell(root.path(), 10, &[]).map(|run| run.pid);
        assert_eq!(only(), Some(11));
        assert_eq!(python_of_shell(root.path(), 11, &[]), None, "no shell");
        fs::remove_file(root.path().join("12/exe")).unwrap();
        std::os::unix::fs::symlink("/usr/bin/python3", root.path().join("12/exe")).unwrap();
        assert_eq!(only(), None);
    }
}
