//! `cargo build --release --examples && cargo bench --bench exporter`: what `memwall exporter` costs a node of eight GPUs
//! that Prometheus scrapes every 15 seconds, beside a plan, a log and a process: the processor's time in a minute, and
//! how long a scrape takes. It fails above 0.1 s a minute and 20 ms a scrape.
//!
//! The driver is the stand-in of the tests, which answers at once: what a real one takes comes on top.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::standin::{RealProcess, Scenario, telling_gpu};

const PLAN: &str = "\
model: {preset: llama-2-7b, batch_size: 8, sequence_length: 2048}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 8}
";

/// As Prometheus scrapes by the configuration that comes with the program.
const INTERVAL: Duration = Duration::from_secs(15);

/// Scrapes in the minute that is measured.
const SCRAPES: u32 = 4;

/// More scrapes for their time alone, and what lies between them: a reading is shared for a second.
const TIMED: u32 = 20;
const APART: Duration = Duration::from_millis(1100);

/// The most that it may take: processor's seconds in a minute, and a scrape.
const MOST_CPU: f64 = 0.1;
const MOST_SCRAPE: Duration = Duration::from_millis(20);

/// Eight GPUs that tell everything, with six processes each; the first holds `pid`.
fn machine(pid: u32) -> String {
    let mut text = "gpus:\n".to_owned();
    for gpu in 0..8 {
        text += &telling_gpu(gpu);
        for process in 0..6 {
            let pid = if gpu == 0 && process == 0 { pid } else { (1 << 23) + gpu * 6 + process };
            writeln!(text, "      - {{ pid: {pid}, memory: {} }}", 1_000_000_000 * u64::from(process + 1)).unwrap();
        }
    }
    text
}

/// The exporter; it ends with this.
struct Exporter {
    child: Child,
    address: String,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Exporter {
    fn start(scenario: &Scenario, pid: u32) -> Self {
        let folder = scenario.folder();
        fs::write(folder.join("plan.yaml"), PLAN).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(["exporter", "plan.yaml", "--listen", "127.0.0.1:0", "--log", "train.log", "--attach"]);
        command.arg(pid.to_string()).current_dir(folder).envs(scenario.env()).env("HOME", folder);
        command
            .env("XDG_STATE_HOME", folder)
            .env("XDG_CONFIG_HOME", folder)
            .env("MEMWALL_HOOK_DIR", folder.join("hooks"));
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| Some(line.unwrap().split_once("http://")?.1.to_owned())).unwrap();
        thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.trim_end_matches("/metrics").to_owned() }
    }

    /// The page, and how long it took.
    fn scrape(&self) -> (String, Duration) {
        let start = Instant::now();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        (page, start.elapsed())
    }

    /// The processor's time so far, as it says itself.
    fn cpu(page: &str) -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total ")).unwrap();
        line.parse().unwrap()
    }
}

fn main() {
    let process = RealProcess::start(&["train"]);
    let scenario = Scenario::new(&machine(process.pid()));
    let mut log = File::create(scenario.folder().join("train.log")).unwrap();
    let exporter = Exporter::start(&scenario, process.pid());
    // The driver's library is loaded, and the GPUs' facts asked for.
    let mut step = 0;
    let mut write_step = |log: &mut File| {
        step += 1;
        writeln!(log, "iter {step}: loss 2.5000, time 4000.00ms, mfu 40.00%").unwrap();
    };
    let warm: Vec<Duration> = (0..2)
        .map(|_| {
            write_step(&mut log);
            thread::sleep(APART);
            exporter.scrape().1
        })
        .collect();
    let (start, before) = (Instant::now(), Exporter::cpu(&exporter.scrape().0));
    let mut times = Vec::new();
    let mut page = String::new();
    for _ in 0..SCRAPES {
        for _ in 0..3 {
            thread::sleep(INTERVAL / 3);
            write_step(&mut log);
        }
        let (next, time) = exporter.scrape();
        page = next;
        times.push(time);
    }
    let cpu = (Exporter::cpu(&page) - before) * 60.0 / start.elapsed().as_secs_f64();
    for _ in 0..TIMED {
        thread::sleep(APART);
        times.push(exporter.scrape().1);
    }
    times.sort();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    let series = page.lines().filter(|line| !line.starts_with('#') && line.contains(' ')).count();
    let memory = page.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    let memory = memory.unwrap().parse::<f64>().unwrap() / f64::from(1 << 20);
    println!("8 GPUs, {series} series, {} kB a page", page.len() / 1000);
    println!("processor: {cpu:.3} s a minute at a scrape each {INTERVAL:?} (at most {MOST_CPU})");
    println!(
        "scrape: median {median:.1?}, longest {longest:.1?} of {} (at most {MOST_SCRAPE:?}); first {:.1?}",
        times.len(),
        warm[0]
    );
    println!("memory: {memory:.1} MiB");
    assert!(page.contains("memwall_gpu_dram_bandwidth_bytes_per_second{gpu=\"7\""), "a GPU is missing:\n{page}");
    assert!(cpu <= MOST_CPU, "it takes {cpu:.3} s of a processor a minute");
    assert!(median <= MOST_SCRAPE, "a scrape takes {median:?}");
}
