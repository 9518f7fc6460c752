//! The driver stand-in from a test's side: where its library is, how to write its scenario, and
//! real processes to put into it.
//!
//! A program under test is pointed at it with two variables:
//!
//! ```text
//! let scenario = Scenario::new(text);
//! command.envs(scenario.env());   // MEMWALL_NVML_LIB and MEMWALL_NVML_SCENARIO
//! ```
//!
//! A test that uses the driver within its own process runs its body through [`in_child`],
//! because a process has one scenario.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// No wait in a test is longer.
pub const DEADLINE: Duration = Duration::from_secs(30);

const LIBRARY: &str = "MEMWALL_NVML_LIB";
const SCENARIO: &str = "MEMWALL_NVML_SCENARIO";
const CHILD: &str = "MEMWALL_TEST_CHILD";

/// The stand-in's library, which `cargo test` builds beside the tests.
pub fn library() -> PathBuf {
    // target/debug/deps/observe-0123 → target/debug/examples/libnvml_standin.so
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("examples").join("libnvml_standin.so");
    assert!(path.exists(), "{} is missing: build it with cargo build --example nvml_standin", path.display());
    path
}

/// A copy of the library in `folder` that lacks every function whose name begins with one of
/// `prefixes`, as an older driver lacks it: looking it up fails.
pub fn library_without(prefixes: &[&str], folder: &Path) -> PathBuf {
    let mut bytes = fs::read(library()).unwrap();
    for prefix in prefixes {
        let prefix = prefix.as_bytes();
        let mut from = 0;
        while let Some(at) = bytes[from..].windows(prefix.len()).position(|window| window == prefix) {
            // Another first letter: the name is no longer found, and nothing moves.
            bytes[from + at] = b'x';
            from += at + prefix.len();
        }
    }
    let path = folder.join("libnvidia-ml.so.1");
    fs::write(&path, bytes).unwrap();
    path
}

/// A GPU of a scenario that tells everything; its processes follow.
pub fn telling_gpu(index: u32) -> String {
    format!(
        "  - name: NVIDIA H100 80GB HBM3\n    uuid: GPU-{index}\n    pci: '00000000:1{index}:00.0'\n    memory: {{ total: \
         85520809984, reserved: 617611264, used: {{ noise: [40000000000, 3000000000], seed: {index} }} }}\n    busy: {{ \
         noise: [90, 9], seed: {index} }}\n    memory_busy: 40\n    power: {{ noise: [500000, 100000], seed: {index} }}\n    \
         power_limit: 700000\n    temperature: {{ noise: [60, 9] }}\n    sm_clock: 1755\n    sm_clock_max: 1980\n    \
         memory_clock: 2619\n    memory_clock_max: 2619\n    bus_width: 5120\n    throttle: 4\n    ecc: {{ on: true, \
         corrected: 2, uncorrected: 0 }}\n    gpm: {{ metrics: {{ 1: 95, 2: 97, 5: 44, 10: 39 }} }}\n    processes:\n"
    )
}

/// A scenario file in a folder of its own, removed with it.
pub struct Scenario {
    folder: tempfile::TempDir,
}

impl Scenario {
    /// A file with that text. `LOG` in it stands for the path of the call log.
    pub fn new(text: &str) -> Self {
        let scenario = Self { folder: tempfile::tempdir().unwrap() };
        scenario.write(text);
        scenario
    }

    /// Another text, which the stand-in reads at its next call.
    pub fn write(&self, text: &str) {
        let text = text.replace("LOG", &self.log().display().to_string());
        let beside = self.folder.path().join("next.yaml");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.path()).unwrap();
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("scenario.yaml")
    }

    /// A folder that lives as long as it does.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("calls.log")
    }

    /// The calls so far, if the scenario has `log: LOG`: the function's name, and the GPU's index.
    pub fn calls(&self) -> Vec<String> {
        calls_in(&self.log())
    }

    /// What points a program at the stand-in.
    pub fn env(&self) -> [(&'static str, PathBuf); 2] {
        [(LIBRARY, library()), (SCENARIO, self.path())]
    }
}

fn calls_in(log: &Path) -> Vec<String> {
    fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The scenario as the body of a test in its own process has it.
pub struct Steered {
    path: PathBuf,
}

impl Steered {
    /// Another text, read at the next call.
    pub fn write(&self, text: &str) {
        let text = text.replace("LOG", &self.log().display().to_string());
        let beside = self.path.with_extension("next");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, &self.path).unwrap();
    }

    /// A folder for what the test needs.
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap()
    }

    fn log(&self) -> PathBuf {
        self.folder().join("calls.log")
    }

    /// The calls so far: the function's name, and the GPU's index.
    pub fn calls(&self) -> Vec<String> {
        calls_in(&self.log())
    }

    /// How often a function was called, on any GPU.
    pub fn called(&self, function: &str) -> usize {
        calls_in(&self.log()).iter().filter(|line| line.split(' ').next() == Some(function)).count()
    }

    /// How many calls have names that begin so.
    pub fn called_like(&self, prefix: &str) -> usize {
        calls_in(&self.log()).iter().filter(|line| line.starts_with(prefix)).count()
    }
}

/// Runs the body of the test named `test` in a process of its own, with that scenario and, unless
/// `library` is none, with the variable that points at a library.
pub fn in_child(test: &str, text: &str, library: Option<&Path>, body: impl FnOnce(&Steered)) {
    if std::env::var_os(CHILD).is_some_and(|running| running == test) {
        let path = PathBuf::from(std::env::var_os(SCENARIO).unwrap());
        return body(&Steered { path });
    }
    let scenario = Scenario::new(text);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, test).env(SCENARIO, scenario.path()).env_remove(LIBRARY);
    if let Some(library) = library {
        command.env(LIBRARY, library);
    }
    let output = Guarded::start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).output();
    assert!(output.0, "{test} failed in its own process:\n{}", output.1);
    assert!(output.1.contains("1 passed"), "{test} is not the name of this test:\n{}", output.1);
}

/// A process that ends with its guard.
struct Guarded(Option<Child>);

impl Guarded {
    fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Waits for its end: whether it succeeded, and what it wrote.
    fn output(mut self) -> (bool, String) {
        let start = Instant::now();
        while self.0.as_mut().unwrap().try_wait().unwrap().is_none() {
            assert!(start.elapsed() < DEADLINE * 2, "the test's own process does not end");
            thread::sleep(Duration::from_millis(5));
        }
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), text)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A real process to put into a scenario: does nothing until it is ended.
pub struct RealProcess {
    child: Child,
}

impl RealProcess {
    /// Starts one with these words at the end of its command line, and waits until it shows them.
    pub fn start(words: &[&str]) -> Self {
        // The shell waits for a line on its standard input, which never comes.
        let mut command = Command::new("sh");
        command.args(["-c", "read line; :", "sh"]).args(words).stdin(Stdio::piped());
        let process = Self { child: command.spawn().unwrap() };
        wait_for("a process that a test started", || {
            let line = fs::read(format!("/proc/{}/cmdline", process.pid())).unwrap_or_default();
            line.starts_with(b"sh\0")
        });
        process
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it; afterwards its pid is nobody's.
    pub fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for RealProcess {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Waits until something holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited too long for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
