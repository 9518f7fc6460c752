//! A real Prometheus scrapes real exporters.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Exporter, Guarded, get, installed, path};
use crate::support::catalog;
use crate::support::standin::{RealProcess, Scenario, wait_for};
use memwall::observe::{Access, Source};
use memwall::reading::Moment;
use memwall::units::Bytes;

/// Two GPUs on one node, a busier one on the other.
const NODE_A: &str = "
gpus:
  - { name: NVIDIA H100 80GB HBM3, uuid: GPU-A0, memory: { total: 85520809984, used: 21474836480 }, busy: 97,
      power: 612000, processes: [{ pid: PID, memory: 21474836480 }] }
  - { name: NVIDIA H100 80GB HBM3, uuid: GPU-A1, memory: { total: 85520809984, used: 1073741824 }, busy: 3, power: 71000 }
";
const NODE_B: &str = "
gpus:
  - { name: NVIDIA H100 80GB HBM3, uuid: GPU-B0, memory: { total: 85520809984, used: 42949672960 }, busy: 50,
      power: 500000 }
";

/// A Prometheus with a folder of its own.
struct Prometheus {
    _process: Guarded,
    _folder: tempfile::TempDir,
    address: String,
}

impl Prometheus {
    fn start(targets: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rules = path("configs/cluster/memwall.rules.yml");
        // One address is one host: here two stand for two.
        let node =
            |(number, target): (usize, &&str)| format!("{{ targets: [{target:?}], labels: {{ node: node{number} }} }}");
        let nodes: Vec<String> = targets.iter().enumerate().map(node).collect();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
             rule_files: [{:?}]\nscrape_configs: [{{ job_name: memwall, static_configs: [{}] }}]\n",
            rules.display(),
            nodes.join(", ")
        );
        std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        // Free until a moment ago: Prometheus cannot choose one itself.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let process = Guarded(Self::command(folder.path(), &address).spawn().unwrap());
        Self { _process: process, _folder: folder, address }
    }

    fn command(folder: &Path, address: &str) -> Command {
        let mut command = Command::new("prometheus");
        command.arg(format!("--config.file={}", folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address={address}")).args(["--log.level=error"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// What an instant query answers: the value of each series, by a label.
    fn query(&self, query: &str, label: &str) -> Vec<(String, f64)> {
        let coded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let Ok(stream) = std::net::TcpStream::connect(&self.address) else { return Vec::new() };
        drop(stream);
        let (_, body) = get(&self.address, &format!("/api/v1/query?query={coded}"), "");
        let Ok(answer) = serde_json::from_str::<Value>(&body) else { return Vec::new() };
        let series = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        let one = |series: &Value| {
            let name = series["metric"][label].as_str().unwrap_or_default().to_owned();
            (name, series["value"][1].as_str().unwrap().parse::<f64>().unwrap())
        };
        let mut values: Vec<(String, f64)> = series.iter().map(one).collect();
        values.sort_by(|one, other| one.0.cmp(&other.0));
        values
    }
}

/// What `memwall predict` says of the plan's device memory.
fn predicted(folder: &Path) -> f64 {
    let plan = folder.join("plan.yaml");
    std::fs::write(&plan, super::PLAN).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    let output = command.args(["predict", "--format", "json"]).arg(plan).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["memory"]["device_used"].as_f64().unwrap()
}

#[test]
fn a_prometheus_scrapes_two_exporters_and_answers_queries_over_both() {
    if !installed("prometheus") {
        return;
    }
    let process = RealProcess::start(&["train"]);
    let pid = process.pid().to_string();
    let (one, two) = (Scenario::new(&NODE_A.replace("PID", &pid)), Scenario::new(NODE_B));
    let exporters = [
        Exporter::over(&one, &["plan.yaml", "--run", "r1", "--attach", &pid]),
        Exporter::over(&two, &["plan.yaml", "--run", "r1"]),
    ];
    let prometheus = Prometheus::start(&[&exporters[0].address, &exporters[1].address]);
    let used = || prometheus.query("memwall_gpu_memory_used_bytes", "uuid");
    wait_for("both nodes", || used().len() == 3);
    let expected = [("GPU-A0", 21_474_836_480.0), ("GPU-A1", 1_073_741_824.0), ("GPU-B0", 42_949_672_960.0)];
    assert_eq!(used(), expected.map(|(uuid, bytes)| (uuid.to_owned(), bytes)));
    assert_eq!(prometheus.query("sum(memwall_gpu_power_watts)", ""), [(String::new(), 612.0 + 71.0 + 500.0)]);
    let rank = prometheus.query("memwall_rank_device_memory_bytes{run=\"r1\"}", "rank");
    assert_eq!(rank, [("0".to_owned(), 21_474_836_480.0)]);
    // A dashboard sees the three GPUs of two nodes through it.
    let mut source =
        memwall::observe::Prometheus::open(&prometheus.address, Access::default(), catalog().clone()).unwrap();
    let sample = source.sample(Moment(1_790_000_000_000));
    let seen: Vec<(String, Bytes, f64)> = sample
        .devices
        .iter()
        .map(|device| {
            let place = device.location.as_ref().unwrap().label();
            (place, device.memory.value().unwrap().used, device.power.value().unwrap().0)
        })
        .collect();
    let expected_gpus =
        [("node0/0", 21_474_836_480, 612.0), ("node0/1", 1_073_741_824, 71.0), ("node1/0", 42_949_672_960, 500.0)];
    assert_eq!(seen, expected_gpus.map(|(place, used, power)| (place.to_owned(), Bytes(used), power)));
    // Both nodes predict the same, and the same as the command.
    let total = predicted(one.folder());
    let both = prometheus.query("memwall_predicted_device_memory_bytes{stage=\"0\"}", "run");
    assert_eq!(both, [("r1".to_owned(), total), ("r1".to_owned(), total)]);
    // The rules that come with it are evaluated over what they scrape.
    let share = || prometheus.query("memwall:gpu_memory_used:ratio", "uuid");
    wait_for("the rules", || share().len() == 3);
    let expected = expected.map(|(uuid, bytes)| (uuid.to_owned(), bytes / 85_520_809_984.0));
    assert_eq!(share(), expected);
    let distance = || prometheus.query("memwall:rank_device_memory_deviation:ratio", "rank");
    wait_for("the distance", || !distance().is_empty());
    assert!((distance()[0].1 - (21_474_836_480.0 / total - 1.0)).abs() < 1e-9, "{:?}", distance());
    assert_eq!(prometheus.query("count(up == 1)", ""), [(String::new(), 2.0)]);
    // A node that goes away is seen to.
    let [first, second] = exporters;
    drop(second);
    wait_for("the loss", || prometheus.query("count(up{job=\"memwall\"} == 0)", "") == [(String::new(), 1.0)]);
    drop(first);
}

#[test]
fn it_ends_when_it_is_asked_to() {
    let scenario = Scenario::new(NODE_B);
    let mut exporter = Exporter::over(&scenario, &[]);
    let pid = rustix::process::Pid::from_child(&exporter.process.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_for("its end", || exporter.process.0.try_wait().unwrap().is_some());
    assert_eq!(exporter.process.0.try_wait().unwrap().unwrap().code(), Some(0));
}
