//! What `memwall run` says at the end of a command, beside what the command has written.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};

use crate::terminal::Program;

/// `memwall run` of a `printf` on a terminal, with hooks that meet in that folder.
fn printing(text: &str, hooks: &tempfile::TempDir) -> Program {
    let program = Program::without_theme().args(&["run", "--", "printf", text]).size(80, 24);
    program.env("MEMWALL_HOOK_DIR", hooks.path().join("memwall"))
}

#[test]
fn on_a_terminal_it_begins_behind_a_line_that_was_not_ended() {
    // A bar, one letter, and one that fills the line but for a column.
    for bar in ["100%|##########| 10/10", "#", &"#".repeat(79)] {
        let hooks = tempfile::tempdir().unwrap();
        let terminal = printing(&format!("\\r{}", bar.replace('%', "%%")), &hooks).start();
        let screen = terminal.wait_for("no optimizer step was observed");
        // The row of the bar is filled with spaces, so that the next one goes on with it: the screen's text has both in one.
        assert!(screen.starts_with(&format!("{bar:<80}memwall: ")), "{screen}");
    }
    // No empty line where it was ended.
    let hooks = tempfile::tempdir().unwrap();
    let terminal = printing("done\\n", &hooks).start();
    let screen = terminal.wait_for("no optimizer step was observed");
    assert_eq!(screen.lines().next().map(str::trim_end), Some("done"));
    assert!(screen.lines().nth(1).is_some_and(|line| line.starts_with("memwall: ")), "{screen}");
}

#[test]
fn in_a_file_it_begins_a_line() {
    for (written, before) in [("10%%|#", "10%|#\nmemwall: "), ("done\\n", "done\nmemwall: "), ("", "memwall: ")] {
        let mut file: File = tempfile::tempfile().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        command.args(["run", "--", "sh", "-c", &format!("printf '{written}' >&2")]).stdin(Stdio::null());
        assert!(command.stderr(file.try_clone().unwrap()).status().unwrap().success());
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(before), "{text}");
    }
}
