//! `cargo bench --bench cluster`: what the dashboard costs beside a real Prometheus (Debian's `prometheus`) that scrapes a
//! simulated cluster: the time to the first whole screen, the processor's share at a reading each 5 seconds, the memory,
//! and the time from a key to the frame that answers it, for 1 024 GPUs and for 10 240 (`MEMWALL_CLUSTER_NODES=128,1280`, eight GPUs each).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../observe/cluster/exporters.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod exporters;
#[path = "../observe/cluster/server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod server;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use exporters::{Exporters, Fleet, GPUS};
use server::Server;
use support::terminal::Program;

/// 16 data x 8 tensor x 8 pipeline.
const PLAN: &str = "\
model: {preset: llama-2-70b, batch_size: 1024, sequence_length: 4096, framework: megatron}
training: {precision: bf16-fp32-master, micro_batch_size: 1}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 1024}
distribution: {data_parallel: 16, tensor_parallel: 8, pipeline_parallel: 8, sequence_parallel: true}
";

/// A thousand nodes are not scraped at once.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long it is looked at.
const TIME: Duration = Duration::from_secs(60);

/// Time on the processor of a process so far, in seconds, from its `stat`: fields 14 and 15, in ticks of 10 ms.
fn processor(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// A line of a process's `status`, in MiB.
fn memory(pid: u32, line: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    found.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

fn measure(nodes: u32) {
    let gpus = nodes * GPUS;
    let exporters = Exporters::start(Fleet::default());
    let server = Server::start(&exporters, nodes, None);
    let begun = Instant::now();
    let counted = format!("\"{gpus}\"");
    while !server.get("/api/v1/query?query=count(DCGM_FI_DEV_POWER_USAGE)").contains(&counted) {
        assert!(begun.elapsed() < PATIENCE, "Prometheus has not scraped every node");
        thread::sleep(Duration::from_millis(500));
    }
    let url = format!("prometheus:http://{}", server.address);
    let args = ["plan.yaml", "--source", &url, "--interval", "5s"];
    let start = Instant::now();
    let mut terminal = Program::memwall().args(&args).file("plan.yaml", PLAN).size(120, 40).start();
    terminal.wait_for(&format!("{gpus} GPUs"));
    let first = start.elapsed();
    let pid = terminal.dashboard();
    // The cluster's view, on which everything is drawn.
    terminal.keys("4z");
    terminal.wait_for("node0000");
    let before = processor(pid);
    thread::sleep(TIME);
    let share = (processor(pid) - before) / TIME.as_secs_f64();
    let frames = frames(&mut terminal);
    let at = |share: f64| frames[((frames.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{gpus} GPUs: first screen {:.2} s; {:.1} % of a core; resident {:.1} MiB, at most {:.1} MiB; a key to its frame \
         median {:.2} ms, p99 {:.2} ms",
        first.as_secs_f64(),
        100.0 * share,
        memory(pid, "VmRSS:"),
        memory(pid, "VmHWM:"),
        at(0.5),
        at(0.99)
    );
}

/// The line with the spread of the metric that is shown.
fn spread(frame: &str) -> Option<&str> {
    frame.lines().find(|line| line.contains("median"))
}

/// What it takes to show another metric of every GPU, sorted.
fn frames(terminal: &mut support::terminal::Terminal) -> Vec<Duration> {
    const PRESSES: usize = 200;
    let mut taken = Vec::with_capacity(PRESSES);
    for _ in 0..PRESSES {
        let (frames, screen) = (terminal.frames(), terminal.screen());
        let before = spread(&screen).map(str::to_owned);
        let start = Instant::now();
        terminal.keys("m");
        // A metric that no exporter has shows no spread.
        terminal.first_frame(frames, "another metric", |frame| spread(frame) != before.as_deref() || before.is_none());
        taken.push(start.elapsed());
    }
    taken.sort_unstable();
    taken
}

fn main() {
    if !server::is_installed() {
        return;
    }
    let nodes = std::env::var("MEMWALL_CLUSTER_NODES").unwrap_or_else(|_| "128,1280".to_owned());
    nodes.split(',').for_each(|nodes| measure(nodes.parse().unwrap()));
}
