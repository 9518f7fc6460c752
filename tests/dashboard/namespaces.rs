//! A process that has another number in a PID namespace of its own, as in a container.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::plan::PLAN;
use crate::standin::Scenario;
use crate::terminal::Program;

/// Ends with the test, and all that is in its namespace with it.
struct Contained {
    unshare: Child,
    /// Its pid there.
    inner: u32,
    /// Its pid here.
    outer: u32,
}

impl Contained {
    /// None where the system lets nobody have a namespace.
    fn start() -> Option<Self> {
        // Numbers there begin where nobody is here: the one is no other's.
        let script = "echo $1 > /proc/sys/kernel/ns_last_pid && { sleep 1000 & echo $!; wait; }";
        let most: u32 = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim().parse().ok()?;
        let free = (1..most)
            .rev()
            .skip(64)
            .find(|pid| (0..64).all(|more| !std::path::Path::new(&format!("/proc/{}", pid + more)).exists()))?;
        let arguments = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"];
        let mut command = Command::new("unshare");
        command.args(arguments).arg(free.to_string()).stdin(Stdio::null()).stderr(Stdio::null());
        let mut unshare = command.stdout(Stdio::piped()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(unshare.stdout.as_mut()?).read_line(&mut line).ok()?;
        let found = line.trim().parse().ok().and_then(|inner| Some((inner, number_here(inner)?)));
        let Some((inner, outer)) = found else {
            drop((unshare.kill(), unshare.wait()));
            return None;
        };
        Some(Self { unshare, inner, outer })
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        drop((self.unshare.kill(), self.unshare.wait()));
    }
}

/// The process whose innermost number that is, by its status.
fn number_here(inner: u32) -> Option<u32> {
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let pids: Vec<u32> = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        (pids.len() > 1 && pids.last() == Some(&inner)).then_some(pids[0])
    })
}

#[test]
fn a_process_of_another_namespace_is_found_and_attached_to() {
    let Some(run) = Contained::start() else {
        eprintln!("no PID namespace is to be had here");
        return;
    };
    // The driver tells the number that nobody has here.
    let scenario = Scenario::new(&format!(
        "
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: {{ total: 85520809984, used: 32212254720 }}
    busy: 97
    power: 612000
    power_limit: 700000
    temperature: 67
    processes: [{{ pid: {}, memory: 21474836480 }}]
",
        run.inner
    ));
    let program = Program::memwall().args(&["mine.yaml", "--attach", &run.outer.to_string()]).file("mine.yaml", PLAN);
    let mut terminal = program.size(160, 50).nvml(&scenario).start();
    // Found by the number that it has here, shown with the driver's: what it does, and its own 20 of the 30 GiB.
    terminal.wait_for("sleep 1000");
    let screen = terminal.wait_for("→20.0");
    assert!(screen.contains(&format!("▶ {}", run.inner)), "{screen}");
    assert!(!screen.contains("another namespace"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}
