//! Terminals that answer late or in pieces: their answers are no keys.

use std::fs;

use crate::plan::PLAN;
use crate::terminal::{Program, Terminal};

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
