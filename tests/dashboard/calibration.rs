//! What a run on this machine teaches, kept over plans.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::standin::{RealProcess, Scenario};
use crate::terminal::Program;

/// Small enough for one GPU.
const PLAN: &str = "model: {preset: gpt2-medium, batch_size: 8, sequence_length: 1024}\ncluster: {num_gpus: 1}\n";

/// What the plan predicts: device-used bytes, and the time of a step in seconds.
fn predicted(folder: &Path) -> (f64, f64) {
    fs::write(folder.join("mine.yaml"), PLAN).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    let output = command.args(["predict", "mine.yaml", "--format", "json"]).current_dir(folder).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    (report["memory"]["device_used"].as_f64().unwrap(), report["time"]["step_s"].as_f64().unwrap())
}

/// Writes a step of so many seconds to a log, on and on.
struct Steps(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Steps {
    fn of(path: PathBuf, seconds: f64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let steps = thread::spawn(move || {
            let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
            for step in 1.. {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                writeln!(log, "iter {step}: loss 2.5, time {:.2}ms, mfu 30.00%", seconds * 1000.0).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
        });
        Self(over, Some(steps))
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        drop(self.1.take().map(JoinHandle::join));
    }
}

#[test]
fn what_a_run_shows_is_kept_used_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (memory, step) = predicted(folder.path());
    let run = RealProcess::start(&["train.py"]);
    // 3 % more memory and steps 4 % longer than predicted: within what predictions stray by.
    let used = memory * 1.03;
    let scenario = Scenario::new(&format!(
        "
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: {{ total: 85520809984, used: {used:.0} }}
    busy: 97
    memory_busy: 60
    power: 612000
    power_limit: 700000
    temperature: 67
    processes: [{{ pid: {}, memory: {used:.0} }}]
",
        run.pid()
    ));
    let log = folder.path().join("train.log");
    let _steps = Steps::of(log.clone(), step * 1.04);
    let (pid, log) = (run.pid().to_string(), log.display().to_string());
    let arguments = ["mine.yaml", "--attach", &pid, "--log", &log];
    let program = Program::memwall().args(&arguments).file("mine.yaml", PLAN).size(160, 50).nvml(&scenario);
    let kept = program.folder().join(".local/state/memwall/calibration.json");
    let mut terminal = program.start();
    terminal.wait_for("nothing to explain");
    terminal.keys("5zc");
    terminal.wait_for("predictions are calibrated from now on");
    let text = fs::read_to_string(&kept).unwrap();
    assert!(text.contains("NVIDIA H100 80GB HBM3"), "{text}");
    terminal.wait_for("C drops it");
    // A run teaches once.
    terminal.keys("c");
    terminal.wait_for("this run has been learnt from");
    terminal.keys("C");
    terminal.wait_for("predictions are as they were calculated");
    assert!(!fs::read_to_string(&kept).unwrap().contains("H100"));
    terminal.keys("c");
    terminal.wait_for("predictions are calibrated from now on");
    terminal.keys("q");
    terminal.assert_left_well();
}
