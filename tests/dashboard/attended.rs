//! What a run that is left alone makes known: why it differs from its plan, alerts, and calibrations kept.

use std::fs;

use crate::plan::PLAN;
use crate::standin::{Scenario, wait_for};
use crate::terminal::{Program, Terminal, keys};

/// A GPU at 95 °C.
const HOT: &str = "
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: { total: 85520809984, used: 21474836480 }
    busy: 97
    power: 612000
    power_limit: 700000
    temperature: 95
    processes: [{ pid: 1, memory: 21474836480 }]
";

/// The user's folder of that variable, with a file in it.
fn with_file(program: Program, base: &str, name: &str, text: &str) -> Program {
    let folder = program.folder().join(base).join("memwall");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), text).unwrap();
    program
}

fn quit(mut terminal: Terminal) {
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn the_reason_is_shown_taken_into_the_plan_and_taken_back() {
    let program = Program::memwall().args(&["--source", "demo:sequence_parallel=false", "--interval", "200ms"]);
    let mut terminal = program.start();
    terminal.wait_for("why: off: sequence parallel (");
    terminal.keys("5");
    terminal.wait_for("makes the plan say distribution.sequence_parallel: false");
    terminal.keys(keys::ENTER);
    terminal.wait_for("plan says so now: off: sequence parallel");
    let screen = terminal.wait_without("why: off: sequence parallel (");
    assert!(!screen.contains("draft"), "{screen}");
    terminal.keys("u");
    terminal.wait_for("the run's plan is what it was");
    let screen = terminal.wait_for("why: off: sequence parallel (");
    assert!(!screen.contains(" draft "), "{screen}");
    quit(terminal);
}

#[test]
fn a_demo_that_cannot_depart_so_is_refused_with_a_line() {
    for (otherwise, said) in [("demo:nonsense", "neither"), ("demo:tensor_parallel=3", "--source demo:")] {
        let terminal = Program::memwall().args(&["--source", otherwise]).start();
        assert_eq!(terminal.exit_code(), 2);
        let screen = terminal.screen();
        assert!(screen.contains(said), "{screen}");
    }
}

#[test]
fn an_alert_rings_notifies_and_runs_the_users_command() {
    let scenario = Scenario::new(HOT);
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).nvml(&scenario);
    let said = program.folder().join("said");
    let command =
        format!("[sh, -c, 'echo \"$MEMWALL_ALERT $MEMWALL_ALERT_GPU\" >> \"$1\"', '-', '{}']", said.display());
    let rules = format!("temperature: 90\nnotify: [bell, desktop]\ncommand: {command}\n");
    let terminal = with_file(program, "config", "alerts.yaml", &rules).start();
    terminal.wait_for("! GPU 0: 95 °C");
    terminal.wait_raw(b"\x07\x1b]9;mine: GPU 0: 95 \xc2\xb0C\x1b\\");
    // Hotter still, it is told no second time; well back and up again it is.
    scenario.write(&HOT.replace("95", "96"));
    terminal.wait_for("! GPU 0: 96 °C");
    scenario.write(&HOT.replace("95", "60"));
    terminal.wait_without("! GPU 0");
    scenario.write(&HOT.replace("95", "97"));
    terminal.wait_raw(b"\x07\x1b]9;mine: GPU 0: 97 \xc2\xb0C\x1b\\");
    wait_for("the command has run twice", || fs::read_to_string(&said).is_ok_and(|said| said.lines().count() == 2));
    assert_eq!(fs::read_to_string(&said).unwrap(), "temperature 0\ntemperature 0\n");
    quit(terminal);
}

#[test]
fn a_command_that_fails_and_a_faulty_file_are_a_line() {
    let scenario = Scenario::new(HOT);
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).nvml(&scenario);
    let terminal = with_file(program, "config", "alerts.yaml", "command: [./pager]\n").start();
    terminal.wait_for("./pager: No such file");
    quit(terminal);
    let terminal = with_file(Program::memwall(), "config", "alerts.yaml", "temprature: 90\n").start();
    terminal.wait_for("alerts.yaml:1:13: temprature: known are");
    quit(terminal);
}

#[test]
fn a_broken_file_of_calibrations_is_a_line_and_the_screen_goes_on() {
    let program = with_file(Program::memwall(), ".local/state", "calibration.json", "{ not json");
    let kept = program.folder().join(".local/state/memwall/calibration.json");
    let terminal = program.start();
    let screen = terminal.wait_for("no calibration is used");
    assert!(screen.contains("calibration.json"), "{screen}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{ not json");
    quit(terminal);
}
