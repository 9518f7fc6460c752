//! The socket that listens to hooks. Whatever comes is bounded: its size, its rate, the number of
//! processes; what goes beyond is dropped and counted.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::directory::{Directory, DirectoryError};
use super::message::{self, Body, Message};
use super::senders::{SenderPids, own_namespace};
use crate::reading::{HookEnd, HookLosses, HookedRun, LauncherReport, Moment};

/// A datagram is cut here: the hook writes less.
const LARGEST: usize = 64 * 1024;

/// Messages that are read in a second. Eight ranks that sample at once send forty.
const MOST_A_SECOND: u32 = 400;

/// The number of the next socket of this process.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Processes that are kept apart.
const MOST_RUNS: usize = 64;

/// Reports of launchers that are kept: a run has one for each machine.
const MOST_REPORTS: usize = 16;

/// What comes within this time of the first is told together.
const TOGETHER: Duration = Duration::from_secs(1);

/// Ends the wait of a [`Listener`] from another thread.
#[derive(Debug)]
pub struct WakeHandle {
    socket: UnixDatagram,
    path: PathBuf,
}

impl WakeHandle {
    /// Ends the wait, if there is one: else the next one.
    pub fn wake(&self) {
        // A listener that is gone waits for nothing; one whose queue is full comes out of its wait by itself.
        let _ = self.socket.send_to(&[], &self.path);
    }
}

/// Listens in the private directory until it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixDatagram,
    path: PathBuf,
    buffer: Vec<u8>,
    runs: Vec<HookedRun>,
    reports: Vec<LauncherReport>,
    senders: SenderPids,
    losses: HookLosses,
    forgotten: u64,
    second: Instant,
    in_second: u32,
}

impl Listener {
    /// Begins to listen. Sockets that nobody listens to any more are cleared away.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn bind(directory: &Directory) -> Result<Self, DirectoryError> {
        clear(directory.path());
        // Several may listen in one process, and a hook knows a new one by its name.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = directory.path().join(format!("{}-{number}.sock", std::process::id()));
        let socket = UnixDatagram::bind(&path).map_err(|error| DirectoryError::Io(path.clone(), error))?;
        Ok(Self {
            socket,
            path,
            buffer: vec![0; LARGEST],
            runs: Vec::new(),
            reports: Vec::new(),
            senders: SenderPids::new("/proc"),
            losses: HookLosses::default(),
            forgotten: 0,
            second: Instant::now(),
            in_second: 0,
        })
    }

    /// What ends a wait of this listener.
    ///
    /// # Errors
    /// The system gives no socket.
    pub fn wake_handle(&self) -> io::Result<WakeHandle> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(WakeHandle { socket, path: self.path.clone() })
    }

    /// Takes in what comes within `wait`, but no longer than a second from the first that does, or until a [`WakeHandle`] ends the wait;
    /// whether anything was told.
    ///
    /// # Errors
    /// Where the socket fails.
    pub fn listen(&mut self, wait: Duration, now: impl Fn() -> Moment) -> io::Result<bool> {
        let mut end = Instant::now() + wait;
        let mut told = false;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(told);
            }
            self.socket.set_read_timeout(Some(left))?;
            match self.socket.recv(&mut self.buffer) {
                Ok(_) if self.is_flooded() => {}
                // Somebody wakes it: hooks write more than nothing.
                Ok(0) => return Ok(told),
                Ok(length) => {
                    told |= self.take(length, now());
                    end = end.min(Instant::now() + TOGETHER);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(told),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether more has come within this second than is read.
    fn is_flooded(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.in_second) = (Instant::now(), 0);
        }
        self.in_second += 1;
        if self.in_second > MOST_A_SECOND {
            self.losses.flood += 1;
            // Whoever floods waits in its own queue: this thread is not kept busy by it.
            std::thread::sleep(Duration::from_millis(2));
        }
        self.in_second > MOST_A_SECOND
    }

    fn take(&mut self, length: usize, now: Moment) -> bool {
        let Some(Message { pid, began, namespace, printed, body }) = message::read(&self.buffer[..length], now) else {
            self.losses.garbage += 1;
            return true;
        };
        // One that is not in sight here has no number here: what it says would be taken for another's.
        if let Body::Failures(report) = body {
            self.take_report(report, namespace);
            return true;
        }
        let Some(pid) = self.senders.here(pid, namespace, began) else { return false };
        let run = self.run(pid, now);
        // Another process by that pid, or another program in it: what the one before it said is not its own.
        if run.began.is_some() && began.is_some() && run.began != began {
            *run = HookedRun::new(pid, now);
        }
        run.began = began.or(run.began);
        run.heard = now;
        run.printed = printed.or(run.printed);
        match body {
            Body::About(about) => run.about = Some(*about),
            Body::Step(step) => {
                // Somebody else by that pid, by now.
                run.end = None;
                run.stepped(step);
            }
            Body::Modules(modules) => run.modules = Some(modules),
            Body::Places(places) => {
                run.placed = now;
                run.places = Some(*places);
            }
            Body::Failures(_) => {}
            Body::End(end) => {
                // The process and who started it each tell what they know.
                let known = run.end.take().unwrap_or_default();
                run.end = Some(HookEnd {
                    error: end.error.or(known.error),
                    out_of_memory: end.out_of_memory.or(known.out_of_memory),
                    code: end.code.or(known.code),
                });
            }
        }
        true
    }

    /// A launcher knows its ranks by their numbers in its own namespace.
    fn take_report(&mut self, mut report: LauncherReport, namespace: Option<u64>) {
        for failed in &mut report.ranks {
            failed.exit.pid = self.senders.here(failed.exit.pid, namespace, None).unwrap_or_default();
        }
        if self.reports.len() == MOST_REPORTS {
            self.reports.remove(0);
        }
        self.reports.push(report);
    }

    fn run(&mut self, pid: u32, now: Moment) -> &mut HookedRun {
        if let Some(at) = self.runs.iter().position(|run| run.pid == pid) {
            return &mut self.runs[at];
        }
        if self.runs.len() == MOST_RUNS
            && let Some(quietest) = (0..self.runs.len()).min_by_key(|at| self.runs[*at].heard)
        {
            self.runs.remove(quietest);
            self.forgotten += 1;
        }
        self.runs.push(HookedRun::new(pid, now));
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    /// Every process that was heard, in that order.
    #[must_use]
    pub fn runs(&self) -> &[HookedRun] {
        &self.runs
    }

    /// What launchers said of ranks that failed, the newest last.
    #[must_use]
    pub fn reports(&self) -> &[LauncherReport] {
        &self.reports
    }

    /// What was not taken.
    #[must_use]
    pub const fn losses(&self) -> HookLosses {
        self.losses
    }

    /// How often a process had to make room for another: only so many are kept apart.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Tells everybody who listens in `directory` the exit code of each process. Who does not take it at once misses it.
pub fn tell_exits(directory: &Path, exits: &[(u32, u8)]) {
    let Ok(socket) = UnixDatagram::unbound() else { return };
    let Ok(()) = socket.set_nonblocking(true) else { return };
    let namespace = own_namespace();
    for listener in sockets(directory) {
        for (pid, code) in exits {
            drop(socket.send_to(message::exit(*pid, namespace, *code).as_bytes(), &listener));
        }
    }
}

fn sockets(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "sock")).collect()
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Gone already: nothing to clear away.
        drop(fs::remove_file(&self.path));
    }
}

/// Removes sockets whose listener ended without doing so.
fn clear(directory: &Path) {
    for path in sockets(directory) {
        let refused = UnixDatagram::unbound()
            .and_then(|socket| socket.connect(&path))
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if refused {
            drop(fs::remove_file(&path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: &str = r#"{"v":1,"kind":"step","pid":PID,"step":3,"memory":"resident","allocated":7}"#;

    fn directory() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memwall");
        let directory =
            Directory::open(|name| (name == super::super::HOOK_DIRECTORY_VARIABLE).then(|| path.clone().into()));
        (folder, directory.unwrap())
    }

    fn send(listener: &Listener, text: &[u8]) {
        UnixDatagram::unbound().unwrap().send_to(text, listener.path()).unwrap();
    }

    /// Listens until something came.
    fn hear(listener: &mut Listener) {
        while !listener.listen(Duration::from_millis(20), || Moment(5)).unwrap() {}
    }

    #[test]
    fn processes_are_kept_apart_and_bounded() {
        let (_folder, directory) = directory();
        let mut listener = Listener::bind(&directory).unwrap();
        for pid in 1..=MOST_RUNS + 3 {
            send(&listener, STEP.replace("PID", &pid.to_string()).as_bytes());
            hear(&mut listener);
        }
        assert_eq!(listener.runs().len(), MOST_RUNS);
        assert_eq!(listener.runs().last().unwrap().step.as_ref().unwrap().step, 3);
        assert_eq!((listener.losses(), listener.forgotten()), (HookLosses::default(), 3));
    }

    #[test]
    fn another_program_under_the_same_pid_inherits_nothing() {
        let (_folder, directory) = directory();
        let mut listener = Listener::bind(&directory).unwrap();
        let mut say = |text: &str| {
            send(&listener, text.as_bytes());
            hear(&mut listener);
            listener.runs()[0].clone()
        };
        let step = |began: f64| STEP.replace("PID", &format!("7,\"began\":{began}"));
        say(r#"{"v":1,"kind":"modules","pid":7,"began":100.5,"step":3,"measured":"saved","saved":9,"modules":[]}"#);
        // Who started it tells its end, and knows no such time.
        let ended = say(r#"{"v":1,"kind":"end","pid":7,"code":3}"#);
        assert!(ended.modules.is_some() && ended.end.is_some_and(|end| end.code == Some(3)));
        assert!(say(&step(100.5)).modules.is_some(), "the same program");
        let other = say(&step(107.25));
        assert_eq!((other.began, other.modules, other.end), (Some(107.25), None, None));
        assert_eq!(other.step.unwrap().step, 3);
        assert_eq!(listener.runs().len(), 1);
    }

    #[test]
    fn garbage_is_counted_and_a_flood_is_dropped() {
        let (_folder, directory) = directory();
        let mut listener = Listener::bind(&directory).unwrap();
        for garbage in [&b"\xff\xfe\x00"[..], b" ", &[b'['; 65_000]] {
            send(&listener, garbage);
            hear(&mut listener);
        }
        assert_eq!(listener.losses(), HookLosses { garbage: 3, flood: 0 });
        let path = listener.path().to_owned();
        let flood = std::thread::spawn(move || {
            let socket = UnixDatagram::unbound().unwrap();
            for _ in 0..MOST_A_SECOND + 200 {
                socket.send_to(b"x", &path).unwrap();
            }
        });
        while !flood.is_finished() {
            listener.listen(Duration::from_millis(20), || Moment(5)).unwrap();
        }
        assert!(listener.losses().flood > 0);
        assert!(listener.runs().is_empty());
    }

    #[test]
    fn a_wait_is_ended_from_elsewhere_without_a_message() {
        let (_folder, directory) = directory();
        let mut listener = Listener::bind(&directory).unwrap();
        listener.wake_handle().unwrap().wake();
        let (start, long) = (Instant::now(), Duration::from_secs(60));
        assert!(!listener.listen(long, || Moment(5)).unwrap());
        assert!(start.elapsed() < long / 2);
        assert_eq!(listener.losses(), HookLosses::default());
    }

    #[test]
    fn what_a_listener_leaves_behind_is_cleared_away() {
        let (_folder, directory) = directory();
        let stale = directory.path().join("1-0.sock");
        drop(UnixDatagram::bind(&stale).unwrap());
        assert!(stale.exists());
        let listener = Listener::bind(&directory).unwrap();
        assert!(!stale.exists());
        let other = Listener::bind(&directory).unwrap();
        assert!(listener.path().exists() && other.path().exists());
        let path = listener.path().to_owned();
        drop(listener);
        assert!(!path.exists());
    }
}
