//! `r`, and recordings played in the dashboard.

use std::fs;
use std::path::PathBuf;

use memwall::observe::Recording;

use crate::demo;
use crate::plan::PLAN;
use crate::terminal::{Program, Terminal};

fn header(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

fn recordings(terminal: &Terminal) -> Vec<PathBuf> {
    let entries = fs::read_dir(terminal.folder()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "gz")).collect()
}

#[test]
fn r_records_and_r_again_ends_it() {
    let program = Program::memwall().args(&["mine.yaml", "--interval", "100ms"]).file("mine.yaml", PLAN);
    let mut terminal = program.start();
    terminal.wait_until("live", |screen| header(screen).contains("live"));
    terminal.keys("r");
    terminal.wait_for("recording: r ends it; memwall replay memwall-");
    let screen = terminal.wait_for("● rec");
    assert!(header(&screen).contains("● rec"), "{screen}");
    terminal.wait_frames(5);
    terminal.keys("r");
    let screen = terminal.wait_for("samples over");
    assert!(!header(&screen).contains("rec"), "{screen}");
    let [path] = recordings(&terminal).try_into().unwrap();
    let recording = Recording::open(&path).unwrap();
    assert!(recording.len() >= 2 && recording.damage().is_none());
    assert_eq!(recording.header().plan.as_ref().unwrap().text, PLAN);
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_recording_is_whole_when_the_dashboard_is_left() {
    let mut terminal = Program::memwall().args(&["--interval", "100ms"]).start();
    terminal.wait_until("live", |screen| header(screen).contains("live"));
    terminal.keys("r");
    terminal.wait_for("● rec");
    terminal.wait_frames(3);
    terminal.signal("TERM");
    terminal.assert_left_well();
    let [path] = recordings(&terminal).try_into().unwrap();
    let recording = Recording::open(&path).unwrap();
    assert!(!recording.is_empty() && recording.damage().is_none());
}

#[test]
fn a_folder_that_cannot_be_written_is_a_line_and_the_dashboard_goes_on() {
    // Even root cannot make files there.
    let mut terminal = Program::memwall().args(&["--interval", "100ms"]).in_folder("/proc/self").start();
    terminal.wait_until("live", |screen| header(screen).contains("live"));
    terminal.keys("r");
    let screen = terminal.wait_for("cannot be written");
    assert!(!header(&screen).contains("rec"), "{screen}");
    terminal.wait_frames(3);
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_replay_opens_on_the_monitor_and_asks_for_nothing_that_was_left_unsaved() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    // The example that the recording is of, left with unsaved changes.
    let mut live = Program::memwall().env("XDG_STATE_HOME", &state).start();
    live.wait_for("demo");
    live.keys("jjjjjjl");
    live.wait_for("32768");
    live.signal("TERM");
    live.exit_code();
    let program = Program::without_theme().args(&["replay", "run.ndjson", "--theme", "dark"]);
    demo::record(&program.folder().join("run.ndjson"), "13b_long_sequence", 120);
    let mut terminal = program.env("XDG_STATE_HOME", &state).start();
    let screen = terminal.wait_until("its beginning", |screen| header(screen).contains("replay 0:00:0"));
    assert!(!screen.contains("Unsaved changes were kept"), "{screen}");
    terminal.keys("\x1b[C");
    let screen = terminal.wait_until("a minute later", |screen| header(screen).contains("replay 0:01:0"));
    assert!(!screen.contains("unsaved"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
    // Nothing of it is lost.
    let mut again = Program::memwall().env("XDG_STATE_HOME", &state).start();
    again.wait_for("Unsaved changes were kept");
    again.keys("rq");
    again.wait_for("Unsaved changes in");
    again.keys("q");
    again.assert_left_well();
}

/// A dashboard on the recording of a minute.
fn replay(args: &[&str]) -> Terminal {
    let program = Program::without_theme().args(&["replay", "run.ndjson", "--theme", "dark"]).args(args);
    demo::record(&program.folder().join("run.ndjson"), "70b_hybrid_training", 300);
    program.start()
}

#[test]
fn a_recording_is_played_with_its_plan_paused_stepped_sought_and_to_its_end() {
    let mut terminal = replay(&[]);
    let screen = terminal.wait_until("its beginning", |screen| header(screen).contains("replay 0:00:0"));
    assert!(header(&screen).contains("70b_hybrid_training") && header(&screen).contains("/0:04:59"), "{screen}");
    assert!(screen.lines().last().unwrap().contains("space pause"), "{screen}");
    terminal.keys(" ");
    terminal.wait_until("a pause", |screen| header(screen).contains("paused"));
    terminal.keys(">");
    terminal.wait_until("a minute later", |screen| header(screen).contains("replay 0:01:0"));
    terminal.keys(">");
    let screen = terminal.wait_until("two minutes", |screen| header(screen).contains("replay 0:02:0"));
    let second = |screen: &str| {
        let at = header(screen).find("0:02:0").unwrap();
        header(screen)[at + 6..=at + 6].parse::<u32>().unwrap()
    };
    let before = second(&screen);
    terminal.keys(".");
    terminal.wait_until("one second more", |screen| header(screen).contains("0:02:0") && second(screen) == before + 1);
    terminal.keys(",,");
    terminal.wait_until("one less", |screen| {
        header(screen).contains("0:02:0") && second(screen) + 1 == before || header(screen).contains("0:01:59")
    });
    terminal.keys("]]");
    terminal.wait_until("four times as fast", |screen| header(screen).contains("×4"));
    for _ in 0..20 {
        terminal.keys("}");
    }
    let screen = terminal.wait_until("the end", |screen| header(screen).contains("0:04:59/0:04:59 end"));
    assert!(!header(&screen).contains(" old"), "{screen}");
    terminal.keys("r");
    terminal.wait_for("a recording already");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn speed_is_chosen_from_the_start_and_history_is_whole_at_the_end() {
    let mut terminal = replay(&["--speed", "512"]);
    terminal.wait_until("the end", |screen| header(screen).contains("0:04:59 end"));
    terminal.keys("4zh");
    let screen = terminal.wait_for("since the start");
    assert!(screen.contains("‹ 10 min ›"), "{screen}");
    terminal.keys("\x1b[D");
    terminal.wait_for("‹ 1 min ›");
    terminal.keys("\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C");
    terminal.wait_for("‹ 24 h ›");
    terminal.keys("h");
    terminal.wait_without("‹ 24 h ›");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_damaged_recording_plays_up_to_the_damage_and_says_where() {
    let program = Program::memwall().args(&["--source", "replay:run.ndjson"]);
    let path = program.folder().join("run.ndjson");
    demo::record(&path, "13b_long_sequence", 10);
    let mut bytes = fs::read(&path).unwrap();
    let line = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(4).unwrap().0;
    bytes[line + 1] = b'#';
    fs::write(&path, &bytes).unwrap();
    let mut terminal = program.start();
    terminal.wait_for("plays up to the damage");
    let screen = terminal.wait_for("damaged at line 6");
    assert!(header(&screen).contains("/0:00:03"), "{screen}");
    for _ in 0..20 {
        terminal.keys("}");
    }
    terminal.wait_until("the break", |screen| header(screen).contains("0:00:03 breaks off"));
    // The monitor goes on saying why, when a key has taken the notice away.
    terminal.keys("4");
    let screen = terminal.wait_for("the recording breaks off: ");
    assert!(screen.contains("damaged at line 6"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn what_is_no_recording_is_told_before_the_screen_is_taken() {
    let terminal = Program::without_theme().args(&["replay", "mine.yaml"]).file("mine.yaml", PLAN).start();
    assert_eq!(terminal.exit_code(), 2);
    terminal.assert_restored();
    assert!(terminal.screen().contains("not a recording"), "{}", terminal.screen());
}
