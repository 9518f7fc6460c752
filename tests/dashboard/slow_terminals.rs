//! Terminals that answer late, in pieces, or are not read: their answers are no keys, and nothing else waits for them.

use std::fs;
use std::time::{Duration, Instant};

use crate::plan::PLAN;
use crate::standin::{Scenario, wait_for};
use crate::terminal::{Program, Terminal, contains};

/// Late answers as terminals give them (xterm's ctlseqs): to OSC 10, 11 and 52, XTVERSION, DA2, DECRQM; a change of focus.
const ANSWERS: [&str; 7] = [
    "\x1b]10;rgb:0000/0000/0000\x1b\\",
    "\x1b]11;rgb:ffff/ffff/ffff\x07",
    "\x1b]52;c;cnFycnFy\x1b\\",
    "\x1bP>|tmux 3.4 rqRz\x1b\\",
    "\x1b[>41;390;0c",
    "\x1b[?2026;2$y",
    "\x1b[I\x1b[O",
];

fn recordings(terminal: &Terminal) -> usize {
    let entries = fs::read_dir(terminal.folder()).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "ndjson")).count()
}

#[test]
fn answers_of_terminals_are_no_keys_whole_late_or_in_pieces() {
    let mut terminal = Program::memwall().args(&["mine.yaml", "--interval", "100ms"]).file("mine.yaml", PLAN).start();
    terminal.wait_for("demo");
    for answer in ANSWERS {
        terminal.keys(answer);
        // A sample later, as a slow link has it; the first byte alone is the longest in doubt.
        for cut in [1, 2, answer.len() / 2] {
            terminal.keys(&answer[..cut]);
            terminal.wait_frames(2);
            terminal.keys(&answer[cut..]);
        }
        terminal.keys("?");
        terminal.wait_for("key closes");
        terminal.keys(" ");
        let screen = terminal.wait_without("key closes");
        assert!(!screen.contains("rec") || !screen.contains("recording"), "{answer:?}:\n{screen}");
        assert!(!screen.contains("draft"), "{answer:?}:\n{screen}");
    }
    assert_eq!(recordings(&terminal), 0);
    terminal.keys("q");
    terminal.assert_left_well();
}

/// A GPU that is never twice the same, and hot from the third second on.
const BUSY: &str = "
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-1
    memory: { total: 85520809984, used: { noise: [40000000000, 30000000000], every_ms: 50 } }
    busy: { noise: [50, 49], every_ms: 50 }
    power: { noise: [400000, 300000], every_ms: 50 }
    power_limit: 700000
    temperature: { steps: [[0, 50], [3000, 95]] }
";

/// A dashboard that records, whose alerts leave a file, and whose terminal nobody reads any more.
fn unread(scenario: &Scenario) -> (Terminal, std::path::PathBuf) {
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).nvml(scenario).size(200, 50);
    let alerted = program.folder().join("alerted");
    let config = program.folder().join("config/memwall");
    fs::create_dir_all(&config).unwrap();
    let rules = format!("temperature: 90\nnotify: [bell]\ncommand: [touch, '{}']\n", alerted.display());
    fs::write(config.join("alerts.yaml"), rules).unwrap();
    let mut terminal = program.start();
    terminal.wait_for("GPU 0");
    terminal.keys("r");
    terminal.wait_for("● rec");
    terminal.leave_unread();
    turn_screens(&mut terminal);
    (terminal, alerted)
}

/// Another whole screen with each sample: together more than the system keeps for a terminal.
fn turn_screens(terminal: &mut Terminal) {
    for _ in 0..13 {
        let samples = recorded(terminal);
        terminal.keys("z");
        wait_for("a sample", || recorded(terminal) > samples);
    }
}

fn recorded(terminal: &Terminal) -> usize {
    let mut entries = fs::read_dir(terminal.folder()).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.find(|path| path.extension().is_some_and(|ending| ending == "ndjson")).unwrap();
    fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn an_unread_terminal_holds_up_no_alert_no_recording_and_no_end() {
    let scenario = Scenario::new(BUSY);
    let (terminal, alerted) = unread(&scenario);
    wait_for("the alert's command", || alerted.exists());
    let asked = Instant::now();
    terminal.signal("TERM");
    terminal.wait_end();
    assert!(asked.elapsed() <= Duration::from_secs(1), "{:?}", asked.elapsed());
    terminal.read_on();
    terminal.assert_left_well();
}

#[test]
fn what_waits_for_a_terminal_that_answers_is_one_frame() {
    let scenario = Scenario::new(BUSY);
    let program = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", PLAN).nvml(&scenario).size(200, 50);
    let mut terminal = program.start();
    terminal.wait_for("GPU 0");
    terminal.wait_raw(b"\x1b[5n");
    terminal.keys("\x1b[0n");
    terminal.keys("r");
    terminal.wait_for("● rec");
    let before = terminal.raw().len();
    terminal.leave_unread();
    turn_screens(&mut terminal);
    terminal.read_on();
    // The question that it is asked comes after what it had to show.
    terminal.wait_until("the question", |_| contains(&terminal.raw()[before..], b"\x1b[5n"));
    let waited = terminal.raw().len() - before;
    // A whole screen is 200 x 50 characters with their colours; thirteen of them were asked for.
    assert!(waited < 60_000, "{waited} bytes");
    terminal.keys("\x1b[0n");
    terminal.wait_until("the zoomed pane", |screen| screen.matches('╭').count() == 1);
    terminal.keys("q");
    terminal.assert_left_well();
}
