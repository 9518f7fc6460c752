//! What the hook with its sampler costs a step of a millisecond while a dashboard listens, against the same steps
//! without it: it fails above half a percent of processor time. `cargo bench --bench hook`; another Python than
//! `python3` by `MEMWALL_TEST_PYTHON`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use memwall::observe::hook::{Directory, HOOK_DIRECTORY_VARIABLE, Listener};
use memwall::reading::Moment;

/// Steps of each run, and how often both kinds run in turn.
const STEPS: &str = "4000";
const ROUNDS: usize = 8;

/// The most that the hook may add.
const MOST: f64 = 0.005;

/// Mean microseconds of processor time and of time a step.
fn run(folder: &Path, hook: &str) -> (f64, f64) {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hook");
    let python = std::env::var_os("MEMWALL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["run", "--quiet", "--"]).arg(python).arg(scripts.join("steps_1ms.py")).arg(STEPS);
    command.env("PYTHONPATH", scripts.join("fake")).env("PYTHONDONTWRITEBYTECODE", "1").stderr(Stdio::inherit());
    command.env(HOOK_DIRECTORY_VARIABLE, folder).env("MEMWALL_HOOK", hook);
    let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let mut numbers = printed.split_whitespace().map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
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
    let (mut added, mut slower, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Whichever is first meets another machine than the second.
        let order = if round % 2 == 0 { ["0", "1"] } else { ["1", "0"] };
        let times = order.map(|hook| run(&path, hook));
        let (off, on) = if round % 2 == 0 { (times[0], times[1]) } else { (times[1], times[0]) };
        plain.push(off.0);
        added.push(on.0 / off.0 - 1.0);
        slower.push(on.1 / off.1 - 1.0);
    }
    println!("a step: {:.0} µs of processor time", median(plain));
    println!("the hook adds: {:+.2} % of processor time", 100.0 * median(added.clone()));
    println!("the step is slower by: {:+.2} %", 100.0 * median(slower));
    println!("each round: {:?}", added.iter().map(|share| format!("{:+.2} %", share * 100.0)).collect::<Vec<_>>());
    assert!(median(added) <= MOST, "more than {} %", MOST * 100.0);
}
