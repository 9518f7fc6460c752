//! However it ends, the terminal is given back.

use std::path::PathBuf;
use std::process::Command;

use crate::plan::PLAN;
use crate::standin::{Scenario, library};
use crate::terminal::{Program, Terminal, keys};

#[test]
fn signals_end_it_well() {
    for signal in ["TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "ABRT", "XCPU", "VTALRM", "PROF", "IO", "PWR"]
    {
        let terminal = Program::memwall().start();
        terminal.wait_for("demo");
        terminal.assert_taken_over();
        terminal.signal(signal);
        terminal.assert_left_well();
    }
}

#[test]
fn a_signal_ends_it_with_unsaved_changes_and_under_a_question_too() {
    let mut terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).start();
    terminal.wait_for("demo");
    terminal.keys(&keys::DOWN.repeat(6));
    terminal.keys(keys::RIGHT);
    terminal.wait_for("4096");
    terminal.keys("q");
    terminal.wait_for("Unsaved changes");
    terminal.signal("TERM");
    terminal.assert_left_well();
    assert_eq!(std::fs::read_to_string(terminal.folder().join("mine.yaml")).unwrap(), PLAN);
}

#[test]
fn a_signal_ends_it_while_the_driver_hangs() {
    let hangs =
        "log: LOG\nfaults: [{ call: nvmlInit_v2, hang_s: 3600 }, { call: nvmlDeviceGetCount_v2, hang_s: 3600 }]";
    let scenario = Scenario::new(hangs);
    let mut terminal = Program::memwall().nvml(&scenario).start();
    terminal.wait_for("asking the driver");
    terminal.keys("?");
    terminal.wait_for("esc closes");
    terminal.signal("TERM");
    terminal.assert_left_well();
}

#[test]
fn it_ends_with_its_terminal() {
    let mut terminal = Program::memwall().start();
    terminal.wait_for("demo");
    terminal.hang_up();
}

#[test]
#[should_panic(expected = "the terminal's mode is another")]
fn a_terminal_that_is_left_as_it_is_would_be_noticed() {
    Program::at("sh").args(&["-c", "stty raw -echo"]).start().assert_left_well();
}

/// The library's loop around a source that panics, in the given way.
fn panicking(way: &str) -> Terminal {
    let examples = library().parent().map(PathBuf::from).unwrap();
    let path = examples.join("panicking");
    assert!(path.exists(), "{} is missing: build it with cargo build --example panicking", path.display());
    Program::at(path).args(&[way]).stderr_apart().start()
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_said_in_one_line() {
    for (way, said) in [
        ("while opening", "the source panicked while opening"),
        ("while sampling", "the source panicked while sampling"),
        ("on another thread", "the source panicked on another thread"),
    ] {
        let terminal = panicking(way);
        assert_eq!(terminal.exit_code(), 1, "{way}");
        terminal.assert_restored();
        let stderr = terminal.stderr();
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains(said), "{stderr}");
        assert!(!terminal.screen().contains("panicked"), "nor over the screen:\n{}", terminal.screen());
    }
}

/// A driver that does this when it is asked for the power.
fn driver(does: &str) -> Scenario {
    let gpu = "gpus: [{ name: NVIDIA H100, memory: { total: 85520809984, used: 1.0e+10 }, power: 300000 }]";
    Scenario::new(&format!("faults: [{{ call: nvmlDeviceGetPowerUsage, {does} }}]\n{gpu}\n"))
}

#[test]
fn a_driver_that_ends_the_program_leaves_the_terminal_as_it_was() {
    // The first call may come before the screen, the fifth after it.
    for (way, call) in [("crash", 1), ("crash", 5), ("abort", 1), ("abort", 5), ("exit", 1), ("exit", 5)] {
        let scenario = driver(&format!("when: {{ from_call: {call} }}, ends: {way}"));
        let terminal = Program::memwall().nvml(&scenario).start();
        assert_eq!(terminal.exit_code(), 1, "{way} in call {call}");
        terminal.assert_restored();
        let said = terminal.screen();
        assert!(said.contains("the dashboard was ended from within"), "{way} in call {call}: {said}");
    }
}

#[test]
fn who_kills_the_dashboard_is_not_the_driver() {
    let terminal = Program::memwall().start();
    terminal.wait_for("demo");
    let killed = Command::new("kill").args(["-s", "KILL", &terminal.dashboard().to_string()]).status().unwrap();
    assert!(killed.success() && terminal.exit_code() == 1);
    terminal.assert_restored();
    let said = terminal.screen();
    assert!(said.contains("the dashboard was killed (SIGKILL)") && !said.contains("driver"), "{said}");
}

#[test]
fn what_a_driver_writes_is_a_line_and_never_on_the_screen() {
    let scenario = driver("when: { from_call: 3, until_call: 4 }, says: 'NVRM: Xid (PCI:0000:1b:00): 79'");
    let mut terminal = Program::memwall().nvml(&scenario).start();
    let screen = terminal.wait_for("NVRM: Xid (PCI:0000:1b:00): 79");
    let rows: Vec<&str> = screen.lines().filter(|row| row.contains("NVRM")).collect();
    assert!(rows.len() == 1 && rows[0].contains("wrote: NVRM"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
    assert!(!terminal.screen().contains("NVRM"), "{}", terminal.screen());
}

#[test]
fn ctrl_l_draws_everything_anew() {
    let mut terminal = Program::memwall().start();
    let whole = terminal.wait_for("1 Plan");
    terminal.scribble("scribbled over it all");
    assert!(terminal.screen().contains("scribbled over"));
    terminal.keys("\x0c");
    let again = terminal.wait_without("scribbled over");
    assert_eq!(again.lines().nth(2), whole.lines().nth(2));
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back() {
    let program = Program::at("sh").args(&["-i"]).env("PS1", "$ ").env("ENV", "/dev/null");
    let mut terminal = program.start();
    terminal.wait_for("$");
    terminal.keys(&format!("{} --theme dark\r", env!("CARGO_BIN_EXE_memwall")));
    terminal.wait_for("1 Plan");
    terminal.keys("\x1a");
    terminal.wait_for("Stopped");
    terminal.keys("echo the $((40 + 2)) shell\r");
    terminal.wait_for("the 42 shell");
    terminal.keys("fg\r");
    terminal.wait_for("1 Plan");
    terminal.keys("?");
    terminal.wait_for("esc closes");
    terminal.keys(keys::ESC);
    // A shell may continue it twice: a screen that was taken again is blank for a moment, and shows no help either.
    terminal.wait_until("the panes", |screen| screen.contains("1 Plan") && !screen.contains("esc closes"));
    terminal.keys("q");
    // What is typed while it leaves is thrown away with late answers of the terminal.
    terminal.wait_until("the shell's prompt", |screen| screen.trim_end().ends_with("\n$"));
    terminal.keys("exit\r");
    terminal.exit_code();
}

#[test]
fn ctrl_z_does_nothing_where_no_shell_could_continue_it() {
    let mut terminal = Program::memwall().start();
    terminal.wait_for("1 Plan");
    terminal.keys("\x1a?");
    terminal.wait_for("esc closes");
    terminal.keys(keys::ESC);
    terminal.wait_without("esc closes");
    terminal.keys("q");
    terminal.assert_left_well();
}

/// The whole space of a large model on many GPUs takes seconds in a build for tests: stopped once something was found.
#[test]
fn ctrl_c_ends_a_search_with_the_best_so_far() {
    let plan = "model: {preset: llama-3-70b, framework: torchtitan, batch_size: 1024, sequence_length: 8192}\n\
                hardware: {gpu_type: NVIDIA H100}\ncluster: {num_gpus: 512, nodes: 64, gpus_per_node: 8}\n";
    let mut terminal =
        Program::without_theme().args(&["search", "mine.yaml"]).file("mine.yaml", plan).size(120, 50).start();
    terminal.wait_until("a plan that fits", |screen| screen.contains("searching: ") && screen.contains(", best "));
    terminal.keys("\x03");
    terminal.wait_for("stopped: what follows is the best so far");
    // The table of plans.
    terminal.wait_for("recompute");
    assert_eq!(terminal.exit_code(), 1);
}
