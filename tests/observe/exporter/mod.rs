//! `memwall exporter` as a real process over the driver stand-in, what it serves, and the files that it comes with.

mod cluster_files;
mod engine;
mod process;
mod scrape;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use crate::support::standin::Scenario;

/// A plan for one of the scenarios' GPUs.
const PLAN: &str = "
model: {preset: llama-3.2-1b, batch_size: 8, sequence_length: 2048}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 1}
";

/// A file of the repository.
fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// A process that ends with its guard.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A running exporter.
struct Exporter {
    process: Guarded,
    /// Kept open: what it writes there has somewhere to go.
    _errors: BufReader<ChildStderr>,
    address: String,
    _home: tempfile::TempDir,
}

impl Exporter {
    /// Starts one on a port of its own, with a home of its own, and waits until it listens.
    fn start(arguments: &[&str], variables: &[(&str, PathBuf)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("plan.yaml"), PLAN).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(["exporter", "--listen", "127.0.0.1:0"]).args(arguments).current_dir(home.path());
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(name, home.path());
        }
        command.env_remove("SLURM_JOB_ID").env("MEMWALL_HOOK_DIR", home.path().join("hooks"));
        command.env("MEMWALL_SYS_ROOT", home.path());
        command.envs(variables.iter().map(|(name, value)| (*name, value)));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let process = Guarded(child);
        let mut line = String::new();
        loop {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "the exporter ended before it served");
            if let Some(rest) = line.trim_end().strip_prefix("memwall: serves http://") {
                let address = rest.strip_suffix("/metrics").unwrap().to_owned();
                return Self { process, _errors: errors, address, _home: home };
            }
        }
    }

    /// The same over a scenario.
    fn over(scenario: &Scenario, arguments: &[&str]) -> Self {
        Self::start(arguments, &scenario.env())
    }

    fn metrics(&self) -> String {
        get(&self.address, "/metrics", "").1
    }
}

/// Status line with headers, and body. HTTP/1.0: no server answers in pieces.
fn get(address: &str, target: &str, headers: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET {target} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    (head.to_owned(), body.to_owned())
}

/// The value of a series, as the page has it.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// A program of Prometheus; none, with a word about it, where it is not installed.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = found.is_ok_and(|status| status.success());
    if !works {
        eprintln!("not run: {program} is not installed (Debian: apt-get install prometheus)");
    }
    works
}

/// What `promtool` says, with something on its standard input.
fn promtool(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Holds that `promtool` finds nothing wrong.
fn hold(arguments: &[&str], input: &str) {
    let output = promtool(arguments, input);
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}\n{input}");
}
