//! Input that is wrong gets one clear line where the user looks, and nothing is touched.

use std::process::{Command, Stdio};

use crate::plan::PLAN;
use crate::terminal::{Program, Terminal, contains, keys};

/// Asserts that the program refused, without taking the terminal, with one line; the line.
fn refused(terminal: &Terminal) -> String {
    assert_eq!(terminal.exit_code(), 2, "{}", terminal.stderr());
    terminal.assert_restored();
    assert!(!contains(&terminal.raw(), b"\x1b[?1049h"), "the terminal was taken over");
    let stderr = terminal.stderr();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

fn opened(plan: impl AsRef<[u8]>) -> Terminal {
    Program::memwall().args(&["mine.yaml"]).file("mine.yaml", plan).stderr_apart().start()
}

#[test]
fn a_plan_that_is_not_there_is_named() {
    let line = refused(&Program::memwall().args(&["nowhere/nowhere.yaml"]).stderr_apart().start());
    assert!(line.contains("nowhere.yaml") && line.contains("no such"), "{line}");
}

#[test]
fn what_is_no_plan_file_is_named() {
    let line = refused(&Program::memwall().args(&["/"]).stderr_apart().start());
    assert!(line.contains("directory"), "{line}");
    let line = refused(&opened(b"model:\n  preset: \xff\xfe\n"));
    assert!(line.contains("mine.yaml:2:11: not UTF-8 text: byte 17 is 0xff"), "{line}");
}

/// The dashboard on a plan that is none yet: at its fault, in the text.
fn to_be_mended(plan: impl AsRef<[u8]>) -> (Terminal, String) {
    let terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", plan).start();
    let screen = terminal.wait_for("plan broken");
    assert!(screen.contains("the plan has errors") && screen.contains("complete"), "{screen}");
    (terminal, screen.lines().nth(1).unwrap().to_owned())
}

/// Of two wrong values each is told where it is selected, and both stand out.
#[test]
fn each_wrong_value_is_told_at_its_field() {
    let plan = PLAN.replace("batch_size: 8", "batch_size: lots").replace("NVIDIA H100", "NVIDIA H10O");
    let plan = plan.replace("num_gpus: 1", "num_gpus: none");
    let (mut terminal, _) = to_be_mended(&plan);
    terminal.keys(keys::ESC);
    terminal.wait_until("the batch's fault", |screen| screen.contains("and 1 more") && screen.contains("`lots`"));
    terminal.keys(keys::UP);
    let screen = terminal.wait_until("the other's", |screen| screen.contains("`none`"));
    assert!(screen.contains("and 1 more"), "{screen}");
    assert_eq!(terminal.colour_of("lots"), terminal.colour_of("INVALID"));
    terminal.keys(keys::CTRL_C);
    terminal.assert_left_well();
}

#[test]
fn a_broken_plan_is_opened_at_its_fault() {
    for (wrong, right, place) in [
        ("batch_size: 8", "batch_size: lots", "4:15: model.batch_size: "),
        ("  batch_size: 8", "  bach_size: 8", "4:3: model.bach_size: "),
        ("{num_gpus: 1}", "{num_gpus: 1", "10:10: this brace `{` is never closed"),
        ("NVIDIA H100", "NVIDIA H10O", "9:22: hardware.gpu_type: "),
        // Alone each of these is fine: they contradict one another.
        ("num_gpus: 1", "num_gpus: 3, nodes: 3", "4:15: model.batch_size: "),
    ] {
        let plan = PLAN.replace(wrong, right);
        let (mut terminal, line) = to_be_mended(&plan);
        assert!(line.contains(place), "{line}");
        assert_eq!(std::fs::read_to_string(terminal.folder().join("mine.yaml")).unwrap(), plan);
        terminal.keys(keys::CTRL_C);
        terminal.assert_left_well();
    }
}

#[test]
fn a_broken_plan_is_mended_and_every_pane_has_its_figures() {
    let (mut terminal, _) = to_be_mended(PLAN.replace("llama-2-7b", "llama-2-7c"));
    // The cursor is at the fault: the word is typed anew.
    terminal.keys(&format!("{}llama-2-7b", "\x1b[3~".repeat("llama-2-7c".len())));
    let screen = terminal.wait_without("plan broken");
    assert!(screen.contains("device-used") && !screen.contains("the plan has errors"), "{screen}");
    // The demo, which is a run of the plan, has waited for it.
    terminal.wait_for("demo live");
    terminal.keys("\x1b");
    terminal.wait_for("s save");
    terminal.keys("ss");
    terminal.wait_for("saved mine.yaml");
    assert_eq!(std::fs::read_to_string(terminal.folder().join("mine.yaml")).unwrap(), PLAN);
}

#[test]
fn an_unknown_theme_is_told_with_the_known_ones() {
    let line = refused(&Program::without_theme().args(&["--theme", "drak"]).stderr_apart().start());
    assert!(line.contains("drak") && line.contains("dark") && line.contains("light"), "{line}");
}

#[test]
fn escape_sequences_of_a_plan_do_not_reach_the_terminal() {
    let plan = PLAN.replace("llama-2-7b ", "\"\\e[31mRED\\a\" ");
    let terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", plan).start();
    let screen = terminal.wait_for("plan broken");
    assert!(screen.contains("RED"), "{screen}");
    let raw = terminal.raw();
    assert!(!contains(&raw, b"\x1b[31m") && !contains(&raw, b"\x07"));
}

#[test]
fn a_terminal_too_small_says_so_and_recovers() {
    let mut terminal = Program::memwall().size(39, 9).start();
    let screen = terminal.wait_for("too small");
    assert!(screen.contains("39×9") && screen.contains("40×10") && screen.contains('q'), "{screen}");
    terminal.resize(40, 10);
    terminal.wait_for("1 Plan");
    terminal.resize(20, 3);
    terminal.wait_for("too small");
    terminal.keys(keys::TAB);
    terminal.resize(80, 24);
    terminal.wait_for("╭ 2 VRAM");
    terminal.resize(1, 1);
    terminal.wait_frames(1);
    terminal.keys("q");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn without_a_terminal_it_reports_or_says_so() {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memwall"));
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mine.yaml"), PLAN).unwrap();
        command.args(args).current_dir(folder.path()).env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME");
        command.stdin(Stdio::null()).output().unwrap()
    };
    let report = run(&["mine.yaml"]);
    // Done, or the plan does not fit.
    assert!(matches!(report.status.code(), Some(0 | 3)), "{report:?}");
    let text = String::from_utf8(report.stdout).unwrap();
    assert!(text.contains("llama-2-7b") && !text.contains('\x1b'), "{text}");
    // Without a plan there is still something to say: what runs now, as `--once` says it.
    let frame = run(&["--source", "demo"]);
    assert_eq!(frame.status.code(), Some(0));
    let line = String::from_utf8(frame.stderr).unwrap();
    assert!(line.lines().count() == 1 && line.contains("no terminal") && line.contains("--once"), "{line}");
    let text = String::from_utf8(frame.stdout).unwrap();
    assert!(text.contains("demo") && !text.contains('\x1b'), "{text}");
}
