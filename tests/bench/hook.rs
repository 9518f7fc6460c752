//! What the hook with its sampler costs a step of a millisecond while a dashboard listens: the time that the training
//! thread spends in it, and the processor's time of the thread that reads its stack, which is the most that the training
//! thread can wait for it. It fails above half a percent together. `cargo bench --bench hook`; another Python than
//! `python3` by `MEMWALL_TEST_PYTHON`.
//!
//! Two runs, with the hook and without, say less: on a machine that others use too they differ by more than that.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use memwall::observe::hook::{Directory, HOOK_DIRECTORY_VARIABLE, Listener};
use memwall::reading::Moment;

/// Steps of each run, and runs.
const STEPS: &str = "8000";
const ROUNDS: usize = 5;

/// The most that the hook may take.
const MOST: f64 = 0.005;

/// The shares of the training thread's time and of a processor.
fn run(folder: &Path, hook: &str) -> [f64; 2] {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hook");
    let python = std::env::var_os("MEMWALL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["run", "--quiet", "--"]).arg(python).arg(scripts.join("steps_1ms.py")).arg(STEPS);
    command.env("PYTHONPATH", scripts.join("fake")).env("PYTHONDONTWRITEBYTECODE", "1").stderr(Stdio::inherit());
    command.env(HOOK_DIRECTORY_VARIABLE, folder).env("MEMWALL_HOOK", hook);
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let mut numbers = printed.split_whitespace().map(|number| number.parse().unwrap());
    [numbers.next().unwrap(), numbers.next().unwrap()]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memwall");
    let variable = |name: &str| (name == HOOK_DIRECTORY_VARIABLE).then(|| path.clone().into_os_string());
    let mut listener = Listener::bind(&Directory::open(variable).unwrap()).unwrap();
    std::thread::spawn(move || while listener.listen(Duration::from_millis(100), || Moment(1)).is_ok() {});
    let measured = |hook: &str| {
        let rounds: Vec<[f64; 2]> = (0..ROUNDS).map(|_| run(&path, hook)).collect();
        [0, 1].map(|which| median(rounds.iter().map(|round| round[which]).collect()))
    };
    // The clock around a step that does nothing is no cost of the hook.
    let [clock, _] = measured("0");
    let [inside, beside] = measured("1");
    let inside = inside - clock;
    println!("in the training thread: {:.3} %", 100.0 * inside);
    println!("in the thread beside it: {:.3} %", 100.0 * beside);
    assert!(inside + beside <= MOST, "more than {} %", MOST * 100.0);
}
