//! `memwall help` on a terminal: coloured unless that is not wanted, and paged where it is too long.

use crate::terminal::{Program, Terminal, contains};

const HEADING: &str = "Alerts and forecasts";

/// The topic `alerts` on a terminal of 24 rows, which is shorter; waited for to its end.
fn alerts(pager: &str, variable: (&str, &str)) -> Terminal {
    let program = Program::without_theme().args(&["help", "alerts"]).size(80, 24);
    let terminal = program.env("PAGER", pager).env(variable.0, variable.1).start();
    assert_eq!(terminal.exit_code(), 0);
    terminal
}

#[test]
fn a_terminal_gets_colours_unless_told_otherwise() {
    let coloured = alerts("cat", ("TERM", "xterm-256color")).raw();
    assert!(contains(&coloured, b"\x1b[1;4mAlerts\x1b[0m"));
    assert!(contains(&coloured, b"tmux"), "the last paragraph");
    let plain = alerts("cat", ("NO_COLOR", "1")).raw();
    assert!(contains(&plain, HEADING.as_bytes()) && !contains(&plain, b"\x1b[1;4m"));
}

#[test]
fn a_long_topic_goes_through_the_users_pager() {
    let first = alerts("head -n 1", ("NO_COLOR", "1")).raw();
    assert!(contains(&first, HEADING.as_bytes()) && !contains(&first, b"MemWall tells"));
}

#[test]
fn without_a_pager_it_is_written() {
    let all = alerts("/nonexistent/pager", ("NO_COLOR", "1")).raw();
    assert!(contains(&all, HEADING.as_bytes()) && contains(&all, b"tmux"));
}
