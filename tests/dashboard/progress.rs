//! A run's log and hook beside its GPU.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::plan::PLAN;
use crate::standin::{Scenario, wait_for};
use crate::terminal::{Program, Terminal};

/// A process that ends with the test.
struct Trainer(Child);

impl Trainer {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        // Passed on by `memwall run`.
        drop(Command::new("kill").arg(self.0.id().to_string()).status());
        drop(self.0.wait());
    }
}

/// 20 GiB of a GPU for that process.
fn card(pid: u32) -> String {
    format!(
        "
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: {{ total: 85520809984, used: 21474836480 }}
    busy: 97
    power: 612000
    power_limit: 700000
    temperature: 67
    processes: [{{ pid: {pid}, memory: 21474836480 }}]
"
    )
}

fn start(scenario: &Scenario, hooks: &Path, args: &[&str]) -> Terminal {
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).size(160, 50);
    program.args(args).env("MEMWALL_HOOK_DIR", hooks).nvml(scenario).start()
}

#[test]
fn the_attached_processs_own_log_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    let trainer = Trainer::start(Command::new("sleep").arg("1000").stdout(File::create(&path).unwrap()));
    let say = |line: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
    say("iter 40: loss 6.2081, time 48.67ms, mfu 10.07%\n");
    let pid = trainer.0.id().to_string();
    let scenario = Scenario::new(&card(trainer.0.id()));
    let mut terminal = start(&scenario, &folder.path().join("hooks"), &["--attach", &pid]);
    let screen = terminal.wait_for("step 40");
    let line = screen.lines().find(|line| line.contains("step 40")).unwrap();
    for part in [&format!("▶ {pid}"), "48.7 ms", "loss 6.21", "by its log"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    say("iter 80: loss nan, time 49.66ms, mfu 10.05%\n");
    let screen = terminal.wait_for("step 80");
    assert!(screen.contains("loss NaN"), "{screen}");
    say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total\n");
    // Explained at once, with what the plan could do about it, and again by its key.
    let screen = terminal.wait_for("CUDA out of memory on GPU 0: 2.00 GiB asked");
    assert!(screen.contains("what helps") && screen.contains("less by prediction"), "{screen}");
    terminal.keys("\x1b");
    terminal.wait_without("what helps");
    terminal.keys("O");
    terminal.wait_for("what helps");
    terminal.keys("\x1b");
    terminal.wait_without("what helps");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_recording_without_a_screen_holds_what_the_log_tells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("train.log");
    let trainer = Trainer::start(Command::new("sleep").arg("1000").stdout(File::create(&path).unwrap()));
    let say = |line: &str| OpenOptions::new().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
    say("iter 40: loss 6.2081, time 48.67ms, mfu 10.07%\n");
    say(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.65 GiB\n",
    );
    let pid = trainer.0.id().to_string();
    let scenario = Scenario::new(&card(trainer.0.id()));
    let run = folder.path().join("run.ndjson");
    fs::write(folder.path().join("mine.yaml"), PLAN).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["record", "mine.yaml", "--source", "nvml", "--interval", "100ms", "--attach", &pid, "-o"]).arg(&run);
    command.current_dir(folder.path()).envs(scenario.env()).env("MEMWALL_HOOK_DIR", folder.path().join("hooks"));
    let mut recorder = command.spawn().unwrap();
    // Whole lines are written as they come.
    wait_for("the message in the recording", || {
        fs::read_to_string(&run).is_ok_and(|text| text.contains("out_of_memory"))
    });
    assert!(Command::new("kill").args(["-TERM", &recorder.id().to_string()]).status().unwrap().success());
    assert!(recorder.wait().unwrap().success());
    let program = Program::without_theme().args(&["replay", &run.to_string_lossy(), "--theme", "dark"]).size(160, 50);
    let mut terminal = program.start();
    // The last steps with their source, and what ran out, explained as it was there to see.
    let screen = terminal.wait_for("CUDA out of memory on GPU 0: 2.00 GiB asked");
    assert!(screen.contains("what helps") && screen.contains("less by prediction"), "{screen}");
    terminal.keys("\x1b");
    let screen = terminal.wait_without("what helps");
    assert!(screen.contains("O: CUDA out of memory"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_run_with_the_hook_is_offered_and_followed_by_key() {
    let has_python = Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success());
    if !has_python {
        eprintln!("not run: there is no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hooks = folder.path().join("hooks");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hook");
    let scenario = Scenario::new(&card(1));
    let mut terminal = start(&scenario, &hooks, &[]);
    terminal.wait_until("nvml", |screen| screen.lines().next().unwrap_or_default().contains("nvml"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
    command.args(["run", "--quiet", "--", "python3"]).arg(root.join("train_fake.py")).args(["4000", "0.02", "0"]);
    command.env("PYTHONPATH", root.join("fake")).env("MEMWALL_HOOK_DIR", &hooks).env("PYTHONDONTWRITEBYTECODE", "1");
    let trainer = Trainer::start(command.stdout(Stdio::null()));
    let screen = terminal.wait_for("F new run");
    assert!(!screen.contains("by its hook"), "{screen}");
    terminal.keys("F");
    let screen = terminal.wait_for("by its hook");
    assert!(screen.lines().any(|line| line.contains("▶") && line.contains("step ")), "{screen}");
    drop(trainer);
    terminal.keys("q");
    terminal.assert_left_well();
}
