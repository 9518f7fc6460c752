//! One test over every kind of process that somebody attaches to without a driver: no figure stands there that nobody
//! measured, and its end is told as it was.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::plan::PLAN;
use crate::standin::Scenario;
use crate::terminal::{Program, Terminal};

/// A process that is attached to, what becomes of it, and what is said then.
struct AttachCase {
    name: &'static str,
    /// A script of sh. It goes on once its standard input ends.
    script: &'static str,
    /// What is done to it once it is watched.
    then: Then,
    /// What the screen says at the end.
    says: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// Its input ends.
    GoOn,
    /// It is killed by this signal.
    Signal(&'static str),
    /// It is killed, and another process gets its pid.
    Restart,
}

const CASES: &[AttachCase] = &[
    AttachCase { name: "ended", script: "read line; exit 0", then: Then::GoOn, says: ", exit 0" },
    AttachCase { name: "crashed", script: "read line; exit 1", then: Then::GoOn, says: ", exit 1" },
    AttachCase {
        name: "crashed by a signal of its own",
        script: "read line; kill -SEGV $$",
        then: Then::GoOn,
        says: "SIGSEGV, exit 139",
    },
    AttachCase { name: "aborted", script: "read line; kill -ABRT $$", then: Then::GoOn, says: "SIGABRT, exit 134" },
    AttachCase { name: "killed", script: "exec sleep 1000", then: Then::Signal("KILL"), says: "SIGKILL, exit 137" },
    AttachCase {
        name: "ended by a user",
        script: "exec sleep 1000",
        then: Then::Signal("TERM"),
        says: "SIGTERM, exit 143",
    },
    AttachCase {
        name: "a launcher whose rank is killed",
        script: "exec 3<&0; RANK=0 sh -c 'read line <&3; kill -KILL $$' & wait; exit 1",
        then: Then::GoOn,
        says: ", exit 1",
    },
    AttachCase {
        name: "restarted with its pid",
        script: "exec sleep 1000",
        then: Then::Restart,
        says: "SIGKILL, exit 137",
    },
];

/// What only a run on a GPU has, and what is said of one that goes on.
const NEVER: [&str; 6] = ["demo", "tok/s/GPU", "ETA ", "or it hangs", "may still rise", "0 B/s"];

fn start(child: &Child) -> Terminal {
    let pid = child.id().to_string();
    Program::memwall().args(&["mine.yaml", "--attach", &pid]).file("mine.yaml", PLAN).size(160, 50).start()
}

/// The row of a process in the table: the host's memory, and none of a GPU.
fn process_row(screen: &str, pid: u32) -> Option<&str> {
    let pid = pid.to_string();
    let mut pieces = screen.lines().flat_map(|line| line.split('│'));
    pieces.find(|piece| piece.split_whitespace().take(2).any(|word| word == pid) && piece.contains("iB"))
}

fn assert_nothing_is_invented(screen: &str, what: &str) {
    for word in NEVER {
        assert!(!screen.contains(word), "{what}: `{word}`\n{screen}");
    }
}

/// Starts processes until one has the pid of another that is gone; none where the system does not let choose.
fn with_pid(pid: u32) -> Option<Child> {
    for _ in 0..100 {
        fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child = Command::new("sh").args(["-c", "exec sleep 1000"]).spawn().ok()?;
        if child.id() == pid {
            return Some(child);
        }
        child.kill().ok()?;
        child.wait().ok()?;
    }
    None
}

/// The first line ends with the process's end.
fn is_over(screen: &str) -> bool {
    let first = screen.lines().next().unwrap_or_default().trim_end();
    [" ENDED", " FAILED", " FINISHED", " KILLED", " PID REUSED"].iter().any(|said| first.ends_with(said))
}

#[test]
fn no_process_without_a_gpu_has_false_figures() {
    for case in CASES {
        let mut child =
            Command::new("sh").args(["-c", case.script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let mut terminal = start(&child);
        let screen = terminal.wait_for("NO TRAINING SEEN");
        assert_nothing_is_invented(&screen, case.name);
        let screen = terminal.wait_until("its row", |screen| process_row(screen, pid).is_some());
        let row = process_row(&screen, pid).unwrap();
        // No GPU, none of its memory.
        assert!(row.matches('–').count() >= 2, "{}: {row}", case.name);
        let other = match case.then {
            Then::GoOn => {
                drop(child.stdin.take());
                None
            }
            Then::Signal(name) => {
                assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
                None
            }
            Then::Restart => {
                child.kill().unwrap();
                child.wait().unwrap();
                // Only root may choose the next pid.
                with_pid(pid)
            }
        };
        // Its end may be seen before its pid is another's, or not; nobody may have asked how it ended.
        let is_said = |screen: &str| match case.then {
            Then::Restart => is_over(screen),
            Then::GoOn | Then::Signal(_) => is_over(screen) && screen.contains(case.says),
        };
        let screen = terminal.wait_until(case.name, is_said);
        if let Some(row) = process_row(&screen, pid) {
            // What has ended holds nothing, and the pid may be another's by now.
            assert!(!row.contains(" 0 B"), "{}: {row}", case.name);
        }
        assert_nothing_is_invented(&screen, case.name);
        assert!(is_over(&screen), "{}: {screen}", case.name);
        // Whatever has the pid now is not what was attached to.
        assert!(process_row(&screen, pid).is_none_or(|row| !row.contains('▶')), "{}: {screen}", case.name);
        terminal.keys("q");
        terminal.assert_left_well();
        for mut process in other.into_iter().chain([child]) {
            drop(process.kill());
            process.wait().unwrap();
        }
    }
}

#[test]
fn once_refuses_a_process_that_is_not_there_whatever_the_driver_tells() {
    // Elsewhere the driver may know it by that number.
    if !memwall::observe::sees_all_processes() {
        return;
    }
    let scenario =
        Scenario::new("gpus:\n  - name: NVIDIA H100 80GB HBM3\n    memory: { total: 85520809984, used: 1 }\n");
    // More than the kernel gives (PID_MAX_LIMIT is 4 194 304).
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["--once", "--attach", "4194305"]).envs(scenario.env()).stdin(Stdio::null());
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!((done.status.code(), said.as_str()), (Some(1), "memwall: there is no process 4194305\n"));
    assert!(done.stdout.is_empty());
}
