//! What a process that does nothing waits for, by `/proc`: its state, the kernel function and the system call that it is
//! in, and the file or connection behind that call. Other users' processes, and those that may not be traced, tell less.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::children;
use super::state::{ProcessState, state};
use super::wait_kinds::{by_call, by_function, by_target, call};
use super::wait_targets::{self, mounted_from_afar};
use crate::reading::{Moment, ProcessWait, RankProcess, WaitKind};

/// A process that uses less than this share of a core does nothing.
const IDLE: f64 = 0.05;

/// A tick of the kernel's accounts, in seconds: `USER_HZ` is 100 on every Linux.
const TICK: f64 = 0.01;

/// Looks that are farther apart say nothing of the time between them.
const FARTHEST: f64 = 10.0;

/// More are not looked at.
const MOST: usize = 128;

/// Nothing of interest in these files is longer.
const MOST_BYTES: u64 = 1 << 16;

/// What is remembered between two looks.
#[derive(Debug)]
pub struct Waits {
    root: PathBuf,
    seen: HashMap<u32, SeenProcess>,
}

#[derive(Debug, Clone)]
struct SeenProcess {
    started: u64,
    ticks: u64,
    at: Moment,
    /// It has been looked at once.
    is_first: bool,
    wait: Option<ProcessWait>,
}

impl Waits {
    /// Below that folder of processes.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), seen: HashMap::new() }
    }

    /// Those that do nothing, of the ranks or, without any, of the process alone; each with what it waits for.
    pub fn of(&mut self, pid: u32, ranks: &[RankProcess], now: Moment) -> Vec<ProcessWait> {
        let alone = [(pid, None)];
        let ranked: Vec<(u32, Option<u32>)> = ranks.iter().map(|rank| (rank.pid, Some(rank.rank))).collect();
        let asked = if ranked.is_empty() { &alone[..] } else { &ranked[..] };
        let mut before = std::mem::take(&mut self.seen);
        let mut found = Vec::new();
        for (pid, rank) in asked.iter().take(MOST) {
            let Some(seen) = self.look(*pid, *rank, before.remove(pid), now) else { continue };
            found.extend(seen.wait.clone());
            self.seen.insert(*pid, seen);
        }
        found
    }

    fn look(&self, pid: u32, rank: Option<u32>, before: Option<SeenProcess>, now: Moment) -> Option<SeenProcess> {
        let ProcessState { state, ticks, started } = state(&self.root, pid)?;
        // Another process by that pid has not been looked at before.
        let before = before.filter(|before| before.started == started);
        let idle = before.as_ref().is_some_and(|before| {
            let time = now.since(before.at).0;
            let used = ticks.saturating_sub(before.ticks) as f64 * TICK;
            time > 0.0 && time < FARTHEST && used <= IDLE * time
        });
        let is_first = before.is_none();
        let wait = (idle && state != 'R').then(|| self.waiting(pid, rank, now)).flatten().map(|wait| {
            let is_from_first_look = before.as_ref().is_some_and(|before| before.is_first);
            let known = before.and_then(|before| before.wait);
            match known.filter(|known| (known.kind, known.worker) == (wait.kind, wait.worker)) {
                Some(known) => ProcessWait {
                    since: known.since,
                    is_from_first_look: known.is_from_first_look,
                    works_below: known.works_below || wait.works_below,
                    ..wait
                },
                None => ProcessWait { is_from_first_look, ..wait },
            }
        });
        Some(SeenProcess { started, ticks, at: now, is_first, wait })
    }

    fn waiting(&self, pid: u32, rank: Option<u32>, since: Moment) -> Option<ProcessWait> {
        let (kind, target) = what(&self.root, pid)?;
        let own = ProcessWait { rank, target, ..ProcessWait::new(pid, kind, since) };
        // A loader's worker, say: what it waits for is what both wait for.
        let is_on_others = matches!(kind, WaitKind::Pipe | WaitKind::Event | WaitKind::Lock | WaitKind::Child);
        if !is_on_others {
            return Some(own);
        }
        let below = children::look(&self.root, &[pid]).into_iter();
        let below: Vec<(u32, char)> =
            below.filter_map(|(worker, _)| Some((worker, state(&self.root, worker)?.state))).collect();
        let works_below = below.iter().any(|(_, letter)| *letter == 'R');
        let mut stuck = below.iter().filter(|(_, letter)| matches!(letter, 'D' | 'T'));
        let stuck = stuck.find_map(|(worker, _)| what(&self.root, *worker).map(|found| (*worker, found)));
        match stuck {
            Some((worker, (kind, target))) => {
                Some(ProcessWait { worker: Some(worker), kind, target, works_below, ..own })
            }
            None => Some(ProcessWait { works_below, ..own }),
        }
    }
}

/// What the main thread waits for, with the file or connection.
fn what(root: &Path, pid: u32) -> Option<(WaitKind, Option<String>)> {
    let state = state(root, pid)?.state;
    if matches!(state, 'T' | 't') {
        return Some((WaitKind::Stopped, None));
    }
    if matches!(state, 'R' | 'Z' | 'X') {
        return None;
    }
    let folder = root.join(pid.to_string());
    let function = read(&folder.join("wchan")).unwrap_or_default();
    let (call, descriptor) = read(&folder.join("syscall")).as_deref().and_then(call).unwrap_or_default();
    let link = descriptor.and_then(|number| fs::read_link(folder.join("fd").join(number.to_string())).ok());
    let target = link.and_then(|link| link.into_os_string().into_string().ok());
    let kind = by_function(&function).or_else(|| by_target(target.as_deref()?, state)).or_else(|| by_call(call));
    let kind = match kind {
        // What it is in an ioctl or a read of says more than that it waits.
        Some(WaitKind::Event | WaitKind::Lock) | None => {
            target.as_deref().filter(|target| target.starts_with("/dev/")).map(|_| WaitKind::Device).or(kind)
        }
        kind => kind,
    };
    let kind = kind.or((state == 'D').then_some(WaitKind::Uninterruptible))?;
    let afar = target.as_deref().is_some_and(|path| {
        matches!(kind, WaitKind::Disk | WaitKind::Uninterruptible) && mounted_from_afar(&folder, path)
    });
    let kind = if afar { WaitKind::NetworkStorage } else { kind };
    Some((kind, target.and_then(|target| wait_targets::shown(&folder, &target))))
}

pub(super) fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// A process as `/proc` has it: its state, ticks, kernel function, call, and what its descriptor 3 is open on.
    fn process(root: &Path, pid: u32, state: (char, u64), function: &str, call: &str, target: &str) {
        process_since(root, pid, 7, state, function, call, target);
    }

    /// The same of one that started at that tick.
    fn process_since(
        root: &Path,
        pid: u32,
        started: u64,
        (state, ticks): (char, u64),
        function: &str,
        call: &str,
        target: &str,
    ) {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(folder.join("fd")).unwrap();
        let stat = format!("{pid} (a) b) {state} 1 1 1 0 -1 0 1 0 0 0 {ticks} 0 0 0 20 0 1 0 {started}");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("wchan"), function).unwrap();
        fs::write(folder.join("syscall"), call).unwrap();
        drop(fs::remove_file(folder.join("fd/3")));
        if !target.is_empty() {
            std::os::unix::fs::symlink(target, folder.join("fd/3")).unwrap();
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_waited_for_is_told_by_function_file_and_call() {
        let root = tempfile::tempdir().unwrap();
        // What Linux 6.1 shows of a stuck read, recv, poll, lock, wait and fsync; a process that may not be traced.
        for (state, function, call, target, kind, shown) in [
            (
                'D',
                "folio_wait_bit_common",
                "0 0x3 0x7f 0x100",
                "/data/a.bin",
                Some(WaitKind::Disk),
                Some("/data/a.bin"),
            ),
            ('D', "0", "0 0x3 0x7f 0x100", "/data/a.bin", Some(WaitKind::Disk), Some("/data/a.bin")),
            ('D', "nfs_wait_bit_killable", "17 0x3 0x7f", "/nfs/a", Some(WaitKind::NetworkStorage), Some("/nfs/a")),
            ('S', "sk_wait_data", "45 0x3 0x7f", "socket:[77]", Some(WaitKind::Socket), None),
            ('S', "0", "45 0x3 0x7f", "socket:[77]", Some(WaitKind::Socket), None),
            ('S', "pipe_read", "0 0x3 0x7f", "pipe:[5]", Some(WaitKind::Pipe), None),
            ('S', "futex_wait_queue", "202 0x3 0x7f", "/data/a.bin", Some(WaitKind::Lock), None),
            ('S', "ep_poll", "232 0x3 0x7f", "", Some(WaitKind::Event), None),
            ('S', "do_wait", "61 0xffffffff 0x7f", "", Some(WaitKind::Child), None),
            ('S', "hrtimer_nanosleep", "230 0x0 0x0", "", Some(WaitKind::Sleep), None),
            ('S', "0", "74 0x3", "/out/ckpt.pt", Some(WaitKind::Disk), Some("/out/ckpt.pt")),
            ('S', "flock_lock_inode_wait", "73 0x3 0x2", "/c/lock", Some(WaitKind::FileLock), Some("/c/lock")),
            ('S', "0", "16 0x3 0xc0", "/dev/nvidiactl", Some(WaitKind::Device), Some("/dev/nvidiactl")),
            ('D', "", "", "", Some(WaitKind::Uninterruptible), None),
            ('T', "do_signal_stop", "0 0x3", "/data/a.bin", Some(WaitKind::Stopped), None),
            ('S', "", "", "", None, None),
            ('R', "0", "running", "", None, None),
        ] {
            process(root.path(), 7, (state, 5), function, call, target);
            let expected = kind.map(|kind| (kind, shown.map(str::to_owned)));
            assert_eq!(what(root.path(), 7), expected, "{state} {function} {call} {target}");
        }
    }

    #[test]
    fn only_who_uses_no_processor_waits_and_since_when_is_remembered() {
        let root = tempfile::tempdir().unwrap();
        let mut waits = Waits::new(root.path());
        let look = |waits: &mut Waits, second: u64| {
            let found = waits.of(7, &[], Moment(second * 1000));
            found.first().map(|wait| (wait.kind, wait.since.0 / 1000))
        };
        let sleeps = |ticks| process(root.path(), 7, ('S', ticks), "futex_wait_queue", "", "");
        sleeps(100);
        // Of the first look nobody knows what was used before it.
        assert_eq!(look(&mut waits, 1), None);
        assert_eq!(look(&mut waits, 2), Some((WaitKind::Lock, 2)));
        // 3 ticks of 10 ms in a second are 3 %; 50 are half a core: the backward pass, for which the main thread waits.
        sleeps(103);
        assert_eq!(look(&mut waits, 3), Some((WaitKind::Lock, 2)));
        sleeps(153);
        assert_eq!(look(&mut waits, 4), None);
        assert_eq!(look(&mut waits, 5), Some((WaitKind::Lock, 5)));
        process(root.path(), 7, ('S', 153), "pipe_read", "", "");
        assert_eq!(look(&mut waits, 6), Some((WaitKind::Pipe, 6)));
        // A look that came late says nothing of the time before it.
        assert_eq!(look(&mut waits, 60), None);
        assert_eq!(look(&mut waits, 61), Some((WaitKind::Pipe, 61)));
        // Another process by that pid has used less by then, and has waited for nothing yet.
        process_since(root.path(), 7, 6200, ('S', 2), "pipe_read", "", "");
        assert_eq!(look(&mut waits, 62), None);
        drop(fs::remove_dir_all(root.path().join("7")));
        assert_eq!(look(&mut waits, 63), None);
    }

    #[test]
    fn what_a_worker_waits_for_is_said_of_who_waits_for_it() {
        let root = tempfile::tempdir().unwrap();
        process(root.path(), 7, ('S', 5), "poll_schedule_timeout.constprop.0", "", "");
        process(root.path(), 9, ('D', 5), "folio_wait_bit_common", "", "");
        let task = root.path().join("7/task/7");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("children"), "9 ").unwrap();
        fs::create_dir_all(root.path().join("9/task/9")).unwrap();
        let mut waits = Waits::new(root.path());
        waits.of(7, &[RankProcess { pid: 7, started: None, rank: 3 }], Moment(1000));
        let found = waits.of(7, &[RankProcess { pid: 7, started: None, rank: 3 }], Moment(2000)).remove(0);
        assert_eq!((found.rank, found.worker, found.kind), (Some(3), Some(9), WaitKind::Disk));
    }

    /// What a real process of that script is seen to wait for.
    fn seen(script: &str, signal: Option<&str>) -> WaitKind {
        struct Ended(Child);
        impl Drop for Ended {
            fn drop(&mut self) {
                drop(self.0.kill());
                drop(self.0.wait());
            }
        }
        let child = Ended(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap());
        let pid = child.0.id();
        let mut waits = Waits::new("/proc");
        let start = Instant::now();
        let mut sent = false;
        loop {
            let now = Moment(1000 + u64::try_from(start.elapsed().as_millis()).unwrap());
            match (waits.of(pid, &[], now).pop(), signal) {
                (Some(_), Some(signal)) if !sent => {
                    let name = format!("-{signal}");
                    assert!(Command::new("kill").args([&name, &pid.to_string()]).status().unwrap().success());
                    sent = true;
                }
                (Some(wait), Some(_)) if wait.kind == WaitKind::Stopped => return wait.kind,
                (Some(wait), None) => return wait.kind,
                _ => {}
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{script}: {waits:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn real_processes_are_seen_to_wait() {
        assert_eq!(seen("exec sleep 60", None), WaitKind::Sleep);
        assert_eq!(seen("read line; :", None), WaitKind::Pipe);
        assert_eq!(seen("cat; :", None), WaitKind::Child);
        assert_eq!(seen("exec sleep 60", Some("STOP")), WaitKind::Stopped);
    }
}
