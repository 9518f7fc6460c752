//! What a page says of a process that was named: of one that is not there, that trains between two scrapes, and that ends.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::{Exporter, path, value};
use crate::support::standin::wait_for;

/// An exporter of that process on a machine without a driver.
fn exporter(pid: u32) -> Exporter {
    let missing = PathBuf::from("/nonexistent/libnvidia-ml.so.1");
    Exporter::start(&["--attach", &pid.to_string()], &[("MEMWALL_NVML_LIB", missing)])
}

/// A process that writes a step to its log five times a second.
struct Training {
    child: Child,
    folder: tempfile::TempDir,
}

impl Training {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); echo step $i/1000 loss 2.5; sleep 0.2; done";
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).stdout(log).spawn().unwrap();
        Self { child, folder }
    }

    fn has_made(&self, step: u32) -> bool {
        fs::read_to_string(self.folder.path().join("log")).unwrap().contains(&format!("step {step}/"))
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_process_that_is_not_there_is_no_rank() {
    // More than the kernel gives (PID_MAX_LIMIT is 4 194 304).
    let page = exporter(4_194_305).metrics();
    assert!(page.contains("there is no process 4194305"), "{page}");
    assert!(!page.contains("memwall_rank_") && !page.contains("memwall_run_"), "{page}");
}

#[test]
fn steps_between_two_scrapes_are_no_standstill() {
    let training = Training::start();
    let exporter = exporter(training.child.id());
    wait_for("its first steps", || exporter.metrics().contains("memwall_run_steps_total"));
    // Nobody asks for longer than a run of such steps may stand still.
    wait_for("eight seconds of steps", || training.has_made(50));
    let page = exporter.metrics();
    assert!(
        value(&page, "memwall_run_steps_total{run=\"\"}").or(value(&page, "memwall_run_steps_total")).unwrap() > 30.0
    );
    assert!(page.contains("phase=\"steady\"") && !page.contains("NO STEP"), "{page}");
    assert!(!page.contains("stalls=\"true\""), "{page}");
}

#[test]
fn a_run_that_has_ended_has_no_time_left() {
    let mut training = Training::start();
    let exporter = exporter(training.child.id());
    wait_for("its remaining time", || exporter.metrics().contains("memwall_run_remaining_seconds"));
    training.end();
    wait_for("its end", || exporter.metrics().contains("phase=\"ended\""));
    let page = exporter.metrics();
    assert!(!page.contains("memwall_run_remaining_seconds"), "{page}");
    assert!(page.contains("memwall_run_steps_total"), "{page}");
    // What is over has no pace, and a process that is gone is no rank.
    assert!(!page.contains("memwall_run_step_duration_seconds") && !page.contains("memwall_rank_info"), "{page}");
    // Whoever started it has read its code: nobody knows that it was killed.
    let says = |verdict: &str| page.contains(&format!("verdict=\"{verdict}\",gravity=\"danger\""));
    assert!(says("ENDED") || says("KILLED"), "{page}");
}

#[test]
fn a_run_under_the_hook_is_followed_where_no_driver_is() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hooks = folder.path().join("hooks");
    let missing = PathBuf::from("/nonexistent/libnvidia-ml.so.1");
    let exporter = Exporter::start(&[], &[("MEMWALL_NVML_LIB", missing), ("MEMWALL_HOOK_DIR", hooks.clone())]);
    assert!(exporter.metrics().contains("memwall_source_up{source=\"gpu\"} 0"));
    let scripts = path("tests/hook");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["run", "--quiet", "--"]).arg(python).arg(scripts.join("train_fake.py")).args(["400", "0.02", "0"]);
    command.env("MEMWALL_HOOK_DIR", &hooks).env("PYTHONPATH", scripts.join("fake")).env("HOME", folder.path());
    let mut run = Training { child: command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap(), folder };
    wait_for("its steps", || exporter.metrics().contains("memwall_run_steps_total"));
    let page = exporter.metrics();
    assert!(page.contains("told_by=\"hook\"") && page.contains("memwall_rank_info"), "{page}");
    assert!(run.child.wait().unwrap().success());
    // Exit 0 is no cause for concern.
    wait_for("its end", || exporter.metrics().contains("verdict=\"FINISHED\",gravity=\"quiet\""));
    assert!(!exporter.metrics().contains("memwall_rank_info"));
}

/// Any Python 3.
fn python() -> Option<&'static str> {
    let works = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    works.is_ok_and(|status| status.success()).then_some("python3")
}

#[test]
fn an_address_that_is_taken_is_said_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    let output = command.args(["exporter", "--listen", &address]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&address) && said.contains("--listen names another port"), "{said}");
}
