//! How a process that is nobody's child here ends: noticed at once, with its exit code while the system still knows it.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::reading::ProcessExit;

/// Between two looks whether anybody still wants to know.
const TURN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The places of the start time and of the exit status among the fields of `/proc/PID/stat`, after the name in brackets
/// (proc(5): the 22nd and the 52nd).
const START_TIME: usize = 19;
const EXIT_STATUS: usize = 49;

/// Watches a process on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct ExitWatch {
    pid: u32,
    started: Option<u64>,
    ended: Arc<Mutex<Option<(ProcessExit, Instant)>>>,
}

impl ExitWatch {
    /// Begins to watch; none where there is no such process, or the system cannot tell.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        let process = pidfd_open(number, PidfdFlags::empty()).ok()?;
        // Read behind it: of a process that has ended by then the number may be another's.
        let started = start_of(Path::new("/proc"), pid);
        let ended = Arc::new(Mutex::new(None));
        let told = Arc::downgrade(&ended);
        let wait = move || {
            while Weak::strong_count(&told) > 0 {
                // It can be read once the process has ended.
                match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&TURN)) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => {}
                    Ok(_) => return tell(&told, exit_of(Path::new("/proc"), pid, started)),
                    Err(_) => return,
                }
            }
        };
        thread::Builder::new().name("exit".to_owned()).spawn(wait).ok()?;
        Some(Self { pid, started, ended })
    }

    /// The process.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it watches the process that has that number now, and not one that had it before.
    #[must_use]
    pub fn is_of(&self, pid: u32, started: Option<u64>) -> bool {
        self.pid == pid && self.started == started
    }

    /// How it ended, and when that was seen, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<(ProcessExit, Instant)> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(told: &Weak<Mutex<Option<(ProcessExit, Instant)>>>, exit: ProcessExit) {
    let now = Instant::now();
    if let Some(told) = told.upgrade() {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = Some((exit, now));
    }
}

/// When the process with that number started, in ticks since the machine did; none where the system does not tell.
pub fn start_of(root: &Path, pid: u32) -> Option<u64> {
    stat_fields(&stat(root, pid)).get(START_TIME)?.parse().ok()
}

fn stat(root: &Path, pid: u32) -> String {
    fs::read_to_string(root.join(pid.to_string()).join("stat")).unwrap_or_default()
}

/// The fields behind the name, which may have spaces and brackets.
fn stat_fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map_or_else(Vec::new, |(_, rest)| rest.split_whitespace().collect())
}

/// How a process ended, by its entry while its parent has not asked; nothing but that it did where that is gone, or another's
/// that started later.
fn exit_of(root: &Path, pid: u32, started: Option<u64>) -> ProcessExit {
    let stat = stat(root, pid);
    let fields = stat_fields(&stat);
    let is_it = fields.get(START_TIME).and_then(|field| field.parse().ok()) == started;
    let is_zombie = is_it && fields.first().is_some_and(|state| matches!(*state, "Z" | "X"));
    let status = fields.get(EXIT_STATUS).filter(|_| is_zombie).and_then(|status| status.parse::<u32>().ok());
    // wait(2): the signal in the low seven bits, else the code in the next byte.
    match status {
        Some(status) if status & 0x7f != 0 => ProcessExit { pid, code: None, signal: Some(status & 0x7f) },
        Some(status) => ProcessExit { pid, code: Some((status >> 8) & 0xff), signal: None },
        None => ProcessExit { pid, code: None, signal: None },
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// What is told of a child that has ended and is not waited for: a zombie.
    fn end_of(child: &mut Child) -> Option<ProcessExit> {
        let watch = ExitWatch::of(child.id()).unwrap();
        assert_eq!(watch.ended(), None);
        drop(child.stdin.take());
        let start = Instant::now();
        while watch.ended().is_none() && start.elapsed() < Duration::from_secs(20) {
            thread::yield_now();
        }
        watch.ended().map(|(exit, _)| exit)
    }

    #[test]
    fn codes_and_signals_are_told() {
        for (script, code, signal) in [
            ("read x; exit 0", Some(0), None),
            ("read x; exit 7", Some(7), None),
            ("read x; kill -9 $$", None, Some(9)),
        ] {
            let mut child = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
            let exit = end_of(&mut child);
            child.wait().unwrap();
            assert_eq!(exit, Some(ProcessExit { pid: child.id(), code, signal }), "{script}");
        }
    }

    #[test]
    fn a_process_is_its_number_and_its_start() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("7")).unwrap();
        // A zombie with the name `a) Z (b`, that started at tick 400 and exited with 3; 27 fields lie between and behind.
        let stat = |start: u64| format!("7 (a) Z (b) Z 1{} {start}{} 768\n", " 0".repeat(17), " 0".repeat(29));
        fs::write(root.path().join("7/stat"), stat(400)).unwrap();
        assert_eq!(start_of(root.path(), 7), Some(400));
        let code = |started| exit_of(root.path(), 7, Some(started)).code;
        assert_eq!((code(400), code(300)), (Some(3), None), "one that started before has left nothing");
        let mut child = Command::new("sh").args(["-c", "read x"]).stdin(Stdio::piped()).spawn().unwrap();
        let watch = ExitWatch::of(child.id()).unwrap();
        let started = start_of(Path::new("/proc"), child.id());
        assert!(started.is_some() && watch.is_of(child.id(), started));
        assert!(!watch.is_of(child.id(), started.map(|at| at + 1)) && !watch.is_of(child.id() + 1, started));
        end_of(&mut child);
        child.wait().unwrap();
    }

    #[test]
    fn what_is_gone_has_no_code() {
        assert_eq!(exit_of(Path::new("/nonexistent"), 7, None), ProcessExit { pid: 7, code: None, signal: None });
        assert!(ExitWatch::of(0).is_none() && ExitWatch::of(1 << 23).is_none());
    }
}
