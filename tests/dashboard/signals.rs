//! However it ends, the terminal is given back.

use std::path::PathBuf;

use crate::plan::PLAN;
use crate::standin::{Scenario, library};
use crate::terminal::{Program, Terminal, keys};

#[test]
fn signals_end_it_well() {
    for signal in ["TERM", "HUP", "INT"] {
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
    terminal.wait_for("key closes");
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
