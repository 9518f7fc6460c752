//! `cargo build --release --examples && cargo bench --bench soak`: two dashboards on one plan beside a simulated machine
//! of eight GPUs, through all that days bring: processes that come and go, faults and hangs of the driver, other sizes of
//! the terminal, rotated logs, a terminal that nobody reads, a stopped program, a full disk. A sample comes every 100 ms,
//! ten times as often as usual: `MEMWALL_SOAK_MINUTES=144` is a day (two minutes unless said).
//!
//! Fails where memory or descriptors have grown after the first hour (of a shorter run, after its first half), or where a sample is missing that the
//! recording does not count as dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use memwall::observe::{Recording, Samples};
use support::standin::Scenario;
use support::terminal::{Program, Terminal};

const PLAN: &str = "\
model: {preset: llama-2-7b, batch_size: 8, sequence_length: 2048}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 8}
";

/// Each lasts a turn.
const TROUBLES: [&str; 8] = ["none", "faults", "hang", "resize", "unread", "stopped", "full disk", "keys"];

const TURN: Duration = Duration::from_secs(3);

/// An hour, ten times as fast.
const HOUR: Duration = Duration::from_secs(360);

/// KiB that the memory may have grown.
const MOST_GROWTH: u64 = 1024;

/// Eight GPUs with fifty processes, others each turn.
fn machine(turn: u64, trouble: &str) -> String {
    let mut text = String::new();
    match trouble {
        "faults" => {
            text += "faults:\n  - {call: '*', gpu: 3, error: 15}\n  - {call: nvmlDeviceGetPowerUsage, error: 999}\n"
        }
        "hang" => text += "faults:\n  - {call: nvmlDeviceGetTemperature, gpu: 2, hang_s: 1.5}\n",
        _ => {}
    }
    text += "gpus:\n";
    for gpu in 0..8 {
        write!(
            text,
            "  - name: NVIDIA H100 80GB HBM3\n    uuid: GPU-{gpu}\n    memory: {{ total: 85520809984, used: {{ noise: \
             [40000000000, 30000000000], seed: {gpu} }} }}\n    busy: {{ noise: [50, 49], seed: {gpu} }}\n    power: {{ noise: \
             [400000, 300000], seed: {gpu} }}\n    power_limit: 700000\n    temperature: {{ noise: [70, 25] }}\n    processes:\n"
        )
        .unwrap();
        for process in 0..6 + u64::from(gpu < 2) {
            // None of the pids is anybody's: the kernel's highest is 2^22.
            let pid = (1 << 23) + turn * 50 + gpu * 7 + process;
            writeln!(text, "      - {{ pid: {pid}, memory: {} }}", 1_000_000_000 * (process + 1)).unwrap();
        }
    }
    text
}

/// Memory in KiB and open descriptors of a process.
fn footprint(pid: u32) -> (u64, usize) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    (line.split_whitespace().next().unwrap().parse().unwrap(), fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count())
}

fn start(scenario: &Scenario, plan: &Path, log: &Path) -> Terminal {
    // A write beyond the limit of the "full disk" fails instead of ending the program.
    let shell = ["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_memwall"), "--theme", "dark"];
    let program = Program::at("sh").args(&shell).args(&["--log", log.to_str().unwrap(), plan.to_str().unwrap()]);
    let mut terminal = program.nvml(scenario).args(&["--interval", "100ms"]).size(160, 50).start();
    terminal.wait_for("GPU 0");
    terminal.keys("4r");
    terminal.wait_for("● rec");
    terminal
}

fn limit_files(pid: u32, bytes: &str) {
    drop(Command::new("prlimit").args(["--pid", &pid.to_string(), &format!("--fsize={bytes}:unlimited")]).status());
}

fn begin(trouble: &str, terminal: &mut Terminal, turn: u64) {
    match trouble {
        "resize" => terminal.resize(80 + u16::try_from(turn % 120).unwrap(), 24 + u16::try_from(turn % 30).unwrap()),
        "unread" => terminal.leave_unread(),
        "stopped" => signal(terminal.dashboard(), "STOP"),
        "full disk" => limit_files(terminal.dashboard(), "1"),
        "keys" => terminal.keys("z\tz\tz\t4?\u{1b}"),
        _ => {}
    }
}

fn end(trouble: &str, terminal: &mut Terminal) {
    match trouble {
        "unread" => terminal.read_on(),
        "stopped" => signal(terminal.dashboard(), "CONT"),
        "full disk" => {
            // A file that may not grow ends its recording, with a line: another begins.
            limit_files(terminal.dashboard(), "unlimited");
            terminal.keys("4r");
        }
        _ => {}
    }
}

fn signal(pid: u32, name: &str) {
    drop(Command::new("kill").args(["-s", name, &pid.to_string()]).status());
}

/// Writes some steps; each third turn the log is another file of that name.
fn train(log: &Path, turn: u64) {
    if turn.is_multiple_of(3) {
        drop(fs::rename(log, log.with_extension("1")));
    }
    let mut file = File::options().create(true).append(true).open(log).unwrap();
    for step in turn * 10..turn * 10 + 10 {
        writeln!(file, "iter {step}: loss 2.5000, time 300.00ms, mfu 40.00%").unwrap();
    }
}

/// Samples of a recording, as `memwall replay` reads it, and gaps between two of them that it does not count as dropped.
fn losses(path: &Path, stopped: Duration) -> (usize, Vec<(u64, u64)>) {
    let mut samples = Samples::of(Recording::open(path).unwrap());
    assert_eq!(samples.recording().damage(), None, "{}", path.display());
    let samples: Vec<(u64, u64)> =
        (0..).map_while(|index| samples.get(index, index)).map(|sample| (sample.at.0, sample.dropped)).collect();
    // A driver that hangs and a program that is stopped take no samples: there is none to be lost.
    let longest = u64::try_from((stopped + Duration::from_secs(3)).as_millis()).unwrap();
    let unreported = samples.windows(2).filter(|pair| pair[1].0 - pair[0].0 > longest && pair[1].1 == pair[0].1);
    (samples.len(), unreported.map(|pair| (pair[0].0, pair[1].0)).collect())
}

/// The recordings of a dashboard, oldest first: their names are times.
fn recordings(terminal: &Terminal) -> Vec<PathBuf> {
    let entries = fs::read_dir(terminal.folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(".ndjson.gz")).collect();
    all.sort();
    all
}

fn main() {
    let minutes: f64 = std::env::var("MEMWALL_SOAK_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let whole = Duration::from_secs_f64(minutes * 60.0);
    let folder = tempfile::tempdir().unwrap();
    let (plan, log) = (folder.path().join("plan.yaml"), folder.path().join("train.log"));
    fs::write(&plan, PLAN).unwrap();
    train(&log, 0);
    let scenario = Scenario::new(&machine(0, "none"));
    let mut dashboards = [start(&scenario, &plan, &log), start(&scenario, &plan, &log)];
    let (began, mut turn, mut base) = (Instant::now(), 0_u64, None);
    while began.elapsed() < whole {
        turn += 1;
        let trouble = TROUBLES[usize::try_from(turn).unwrap() % TROUBLES.len()];
        scenario.write(&machine(turn, trouble));
        train(&log, turn);
        dashboards.iter_mut().for_each(|terminal| begin(trouble, terminal, turn));
        thread::sleep(TURN);
        dashboards.iter_mut().for_each(|terminal| end(trouble, terminal));
        // The history fills for an hour. It is compared at the same trouble.
        if trouble == "none" {
            let now = [&dashboards[0], &dashboards[1]].map(|terminal| footprint(terminal.dashboard()));
            println!("{:7.1} s, turn {turn}: {now:?} (KiB, descriptors)", began.elapsed().as_secs_f64());
            if began.elapsed() > HOUR.min(whole / 2) {
                base.get_or_insert(now);
            }
        }
    }
    let last = [&dashboards[0], &dashboards[1]].map(|terminal| footprint(terminal.dashboard()));
    let mut failed = false;
    for (at, terminal) in dashboards.iter().enumerate() {
        terminal.signal("TERM");
        terminal.assert_left_well();
        let all: Vec<_> = recordings(terminal).iter().map(|path| losses(path, TURN)).collect();
        let samples: usize = all.iter().map(|(samples, _)| samples).sum();
        let unreported: Vec<_> = all.iter().flat_map(|(_, unreported)| unreported).collect();
        let before = base.map_or(last[at], |base| base[at]);
        let grown = last[at].0.saturating_sub(before.0);
        println!(
            "dashboard {at}: {samples} samples in {} recordings, {} unreported gaps {unreported:?}",
            all.len(),
            unreported.len()
        );
        println!("  {} -> {} KiB, {} -> {} descriptors", before.0, last[at].0, before.1, last[at].1);
        failed |= !unreported.is_empty() || grown > MOST_GROWTH || last[at].1 > before.1;
    }
    assert!(!failed, "it grew, or lost samples without a word");
}
