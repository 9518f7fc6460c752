//! `cargo build --release --examples && cargo bench --bench cost`: what watching costs, MemWall beside whichever of nvtop,
//! nvitop, btop, bottom and htop is installed: the processor's seconds in a minute, the most memory that was resident,
//! bytes a second to the terminal, and the time to the first full screen.
//!
//! All run at once on the stand-in driver, each in a terminal of 120x40, so that what else the machine does meets all of
//! them alike. `MEMWALL_BENCH_SECONDS` is how long they are watched: a minute, where nothing else is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use support::standin::{Scenario, library, telling_gpu};
use support::terminal::{Program, Terminal};

/// What each does until it has settled: libraries are loaded, and the GPUs' facts asked for.
const SETTLES: Duration = Duration::from_secs(5);

/// Other monitors, by the name of their program: nvtop, nvitop and btop know GPUs.
const OTHERS: [&str; 5] = ["nvtop", "nvitop", "btop", "btm", "htop"];

/// Clock ticks of `/proc/PID/stat` in a second (proc(5), `sysconf(_SC_CLK_TCK)`): 100 on Linux.
const TICKS: f64 = 100.0;

/// GPUs that tell everything, with so many processes in all.
fn machine(gpus: u32, processes: u32) -> String {
    let mut text = "gpus:\n".to_owned();
    for gpu in 0..gpus {
        text += &telling_gpu(gpu);
        for process in (0..processes).filter(|process| process % gpus == gpu) {
            writeln!(text, "      - {{ pid: {}, memory: 1000000000 }}", (1 << 23) + process).unwrap();
        }
    }
    text
}

/// A monitor that runs.
struct Watched {
    name: String,
    terminal: Terminal,
    first: Duration,
    /// Processor's seconds and bytes when it had settled.
    settled: (f64, usize),
}

impl Watched {
    fn start(name: &str, program: Program) -> Self {
        let start = Instant::now();
        let terminal = program.start();
        // A third of the lines says something.
        let filled = |screen: &str| screen.lines().filter(|line| !line.trim().is_empty()).count() >= 13;
        terminal.wait_until("a full screen", filled);
        Self { name: name.to_owned(), terminal, first: start.elapsed(), settled: (0.0, 0) }
    }

    fn now(&self) -> (f64, usize) {
        (processor(self.terminal.dashboard()), self.terminal.raw().len())
    }
}

/// Processor's seconds of a process, its own and the system's for it.
fn processor(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name in brackets may hold blanks; behind it the state is the third field, the two times the 14th and 15th.
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS
}

/// The most that was resident, in MiB.
fn resident(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// Where a program is, if it is installed.
fn installed(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A monitor on that machine's driver, under the name by which it looks for it.
fn on(program: Program, driver: &Path, machine: &Scenario) -> Program {
    let program = program.env("LD_LIBRARY_PATH", driver).env("LANG", "C.UTF-8");
    machine.env().iter().fold(program, |program, (name, path)| program.env(name, path))
}

fn main() {
    let seconds = std::env::var("MEMWALL_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60.0);
    let driver = tempfile::tempdir().unwrap();
    fs::copy(library(), driver.path().join("libnvidia-ml.so.1")).unwrap();
    let (few, many) = (Scenario::new(&machine(2, 4)), Scenario::new(&machine(8, 20)));
    let memwall = || Program::memwall().args(&["--interval", "1s"]);
    let mut watched = vec![
        Watched::start("memwall, 2 GPUs", on(memwall(), driver.path(), &few)),
        Watched::start("memwall, 8 GPUs and 20 processes", on(memwall(), driver.path(), &many)),
        Watched::start("memwall, demo", memwall().args(&["--source", "demo"])),
    ];
    for name in OTHERS {
        let Some(path) = installed(name) else { continue };
        for (machine, of) in [(&few, "2 GPUs"), (&many, "8 GPUs and 20 processes")] {
            watched.push(Watched::start(&format!("{name}, {of}"), on(Program::at(&path), driver.path(), machine)));
        }
    }
    thread::sleep(SETTLES);
    for one in &mut watched {
        one.settled = one.now();
    }
    thread::sleep(Duration::from_secs_f64(seconds));
    println!("{:<34} {:>10} {:>12} {:>9} {:>12}", "", "CPU s/min", "resident MiB", "bytes/s", "full screen");
    for one in &watched {
        let (cpu, bytes) = one.now();
        println!(
            "{:<34} {:>10.3} {:>12.1} {:>9.0} {:>9.0} ms",
            one.name,
            (cpu - one.settled.0) * 60.0 / seconds,
            resident(one.terminal.dashboard()),
            (bytes - one.settled.1) as f64 / seconds,
            one.first.as_secs_f64() * 1000.0
        );
    }
}
