//! Processes that have other numbers elsewhere: seen from a host, those of containers.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

use crate::reading::Moment;

/// A walk looks at every process: never sooner after the last, in milliseconds.
const SOONEST: u64 = 2_000;
/// Who was not found is looked for again after this long, then after twice as long, in
/// milliseconds: the numbers of a process never change, only what of it may be read.
const AGAIN: u64 = 10_000;
const LATEST: u64 = 600_000;
/// A status is of 1 or 2 KiB; one with thousands of groups is longer.
const LONGEST: u64 = 1 << 20;

/// The pids here of processes that are known by those of another namespace.
///
/// The driver tells the pids of its own namespace. One process in sight whose list of pids
/// (NSpid) has the number is the one; of several, nobody knows which.
#[derive(Debug, Default)]
pub struct NamespacePids {
    found: HashMap<u32, FoundProcess>,
    /// Who was asked for by the last walk.
    asked: HashSet<u32>,
    walked: Option<Moment>,
    wait: u64,
    /// Whose numbers have been read: they are for life, and a busy machine has thousands of processes.
    read: HashMap<u32, ReadProcess>,
}

/// A process here. Its folder in `/proc` is another one, by its inode, once the pid is given to another process: the kernel
/// drops the folder as a process ends (kernel/exit.c, `release_task`: `proc_flush_pid`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FoundProcess {
    pid: u32,
    inode: u64,
}

impl FoundProcess {
    fn is_there(self, root: &Path) -> bool {
        fs::metadata(root.join(self.pid.to_string())).is_ok_and(|folder| folder.ino() == self.inode)
    }
}

/// The numbers of a process in each namespace.
#[derive(Debug)]
struct ReadProcess {
    inode: u64,
    numbers: Vec<u32>,
}

impl NamespacePids {
    /// The pid that a process of another namespace has in this one. One walk through `root`
    /// answers for all.
    pub fn here(&mut self, root: &Path, pid: u32, now: Moment) -> Option<u32> {
        if self.found.get(&pid).is_some_and(|found| !found.is_there(root)) {
            // It has ended. Another one may have its number there, as the first process of a container that was started
            // again: it is new.
            self.found.remove(&pid);
            self.asked.remove(&pid);
        }
        if self.is_due(!self.asked.contains(&pid), now) {
            self.walk(root);
            self.walked = Some(now);
        }
        // Who is asked for within the same look was answered by that look's walk.
        if self.walked == Some(now) {
            self.asked.insert(pid);
        }
        self.found.get(&pid).map(|found| found.pid)
    }

    /// Who is new is worth a walk soon; after one in vain the next waits longer.
    fn is_due(&mut self, is_new: bool, now: Moment) -> bool {
        let Some(walked) = self.walked else {
            self.wait = AGAIN;
            return true;
        };
        let passed = now.0.saturating_sub(walked.0);
        if is_new {
            self.wait = AGAIN;
            if passed >= SOONEST {
                // A pid that was given anew since belongs to somebody else.
                self.read.clear();
            }
            return passed >= SOONEST;
        }
        let due = passed >= self.wait;
        if due {
            self.wait = (self.wait * 2).min(LATEST);
        }
        due
    }

    /// Notes every number that exactly one process under `root` has in some other namespace, with the pid of that process.
    fn walk(&mut self, root: &Path) {
        let mut before = std::mem::take(&mut self.read);
        let mut holders: HashMap<u32, Option<FoundProcess>> = HashMap::new();
        let mut status = Vec::new();
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let Some(here) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let inode = entry.ino();
            let known = before.remove(&here).filter(|known| known.inode == inode).map(|known| known.numbers);
            let Some(numbers) = known.or_else(|| numbers_of(&entry.path(), &mut status)) else { continue };
            if numbers.len() > 1 {
                let found = FoundProcess { pid: here, inode };
                for number in HashSet::<u32>::from_iter(numbers.iter().copied()) {
                    holders.entry(number).and_modify(|holder| *holder = None).or_insert(Some(found));
                }
            }
            self.read.insert(here, ReadProcess { inode, numbers });
        }
        self.found = holders.into_iter().filter_map(|(number, holder)| Some((number, holder?))).collect();
    }

    /// Drops what belongs to processes that nobody asks for any more.
    pub fn forget(&mut self, pids: &[u32]) {
        self.asked.retain(|pid| pids.contains(pid));
    }
}

/// The numbers of the process of that folder of `/proc`; none where they may not be read. `status` is room for its file,
/// whose size nobody asks for: it has none.
fn numbers_of(process: &Path, status: &mut Vec<u8>) -> Option<Vec<u32>> {
    status.clear();
    File::open(process.join("status")).ok()?.take(LONGEST).read_to_end(status).ok()?;
    numbers_in(&String::from_utf8_lossy(status))
}

/// The numbers of a process in each namespace, from its `status` (proc_pid_status(5)): one line of fifty, of as many
/// processes as the machine has, so the others are not made anything of.
fn numbers_in(status: &str) -> Option<Vec<u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().map(|pid| pid.parse().ok()).collect()
}

/// The number that the process of that folder of `/proc` has in its own namespace.
pub fn last_number_in(process: &Path) -> Option<u32> {
    numbers_in(&fs::read_to_string(process.join("status")).ok()?)?.last().copied()
}

/// Whether this is the first PID namespace, which sees the processes of all others. The kernel
/// gives it a fixed number (`PROC_PID_INIT_INO`).
pub fn is_the_hosts() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::tests::proc_with;

    #[test]
    fn a_pid_of_another_namespace_is_found_by_nspid() {
        let root = proc_with(&[(41, "41"), (42, "42\t1007"), (43, "43\t1008"), (44, "44\t1008")]);
        let here = |pid| NamespacePids::default().here(root.path(), pid, Moment(0));
        assert_eq!(here(1007), Some(42));
        // Two have it: nobody knows which is meant.
        assert_eq!(here(1008), None);
        assert_eq!(here(41), None);
        assert_eq!(here(9), None);
    }

    #[test]
    fn a_walk_in_vain_reads_nobody_a_second_time() {
        let root = proc_with(&[(42, "42\t1007")]);
        let mut elsewhere = NamespacePids::default();
        assert_eq!(elsewhere.here(root.path(), 9, Moment(0)), None);
        fs::remove_file(root.path().join("42/status")).unwrap();
        assert_eq!(elsewhere.here(root.path(), 9, Moment(10_000)), None);
        assert_eq!(elsewhere.walked, Some(Moment(10_000)));
        assert_eq!(elsewhere.here(root.path(), 1007, Moment(10_000)), Some(42));
        // Who is new is worth reading everybody again.
        assert_eq!(elsewhere.here(root.path(), 1008, Moment(12_000)), None);
        assert_eq!(elsewhere.here(root.path(), 1007, Moment(12_000)), None);
    }

    /// A container is started again: its first process has the same number there and another one here, and the number here is
    /// given to a process of another container.
    #[test]
    fn a_number_that_is_given_anew_is_that_of_the_new_process() {
        let root = proc_with(&[(42, "42\t7")]);
        let mut elsewhere = NamespacePids::default();
        assert_eq!(elsewhere.here(root.path(), 7, Moment(0)), Some(42));
        // The old folder is kept, so that no other one gets its inode.
        fs::rename(root.path().join("42"), root.path().join("ended")).unwrap();
        let after = proc_with(&[(42, "42\t9"), (43, "43\t7")]);
        for pid in ["42", "43"] {
            fs::rename(after.path().join(pid), root.path().join(pid)).unwrap();
        }
        // The last walk is fresh: for now nobody knows. The process that has pid 42 now is never taken for it.
        assert_eq!(elsewhere.here(root.path(), 7, Moment(1_000)), None);
        assert_eq!(elsewhere.here(root.path(), 7, Moment(2_000)), Some(43));
        assert_eq!(elsewhere.here(root.path(), 9, Moment(2_000)), Some(42));
    }

    #[test]
    fn many_are_found_in_one_walk_and_those_in_vain_are_looked_for_ever_later() {
        let root = proc_with(&[(42, "42\t1007")]);
        let mut elsewhere = NamespacePids::default();
        assert_eq!(elsewhere.here(root.path(), 1007, Moment(0)), Some(42));
        // Had a second walk been made for the second pid, the first would be lost.
        fs::remove_file(root.path().join("42/status")).unwrap();
        assert_eq!(elsewhere.here(root.path(), 9, Moment(0)), None);
        assert_eq!(elsewhere.here(root.path(), 1007, Moment(9_000)), Some(42));
        let walks: Vec<u64> = (1..=200)
            .map(|second| second * 1_000)
            .filter(|at| {
                elsewhere.here(root.path(), 9, Moment(*at));
                elsewhere.walked == Some(Moment(*at))
            })
            .collect();
        // 10, then 20, 40, 80 seconds after the one before.
        assert_eq!(walks, [10_000, 30_000, 70_000, 150_000]);
        // A new one is looked for at the next look, if the last walk is not fresh.
        elsewhere.here(root.path(), 10, Moment(151_000));
        assert_eq!(elsewhere.walked, Some(Moment(150_000)));
        elsewhere.here(root.path(), 10, Moment(152_000));
        assert_eq!(elsewhere.walked, Some(Moment(152_000)));
    }
}
