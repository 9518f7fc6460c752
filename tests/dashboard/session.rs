//! What is kept from one start to the next, and where keys go at the start.

use crate::terminal::Program;

const PLAN: &str = "model: {preset: gpt2, batch_size: 8}\n";

#[test]
fn a_second_start_goes_on_where_the_first_ended() {
    let home = tempfile::tempdir().unwrap();
    let start = || {
        let args = ["mine.yaml", "--source", "demo"];
        Program::memwall().args(&args).file("mine.yaml", PLAN).env("XDG_STATE_HOME", home.path()).size(120, 40).start()
    };
    let mut first = start();
    first.wait_for("4 Monitor");
    // As fast as can be: the end comes together with what it keeps.
    first.keys("2zq");
    first.assert_left_well();
    let kept = std::fs::read_to_string(home.path().join("memwall/session.json")).unwrap();
    assert!(kept.contains("mine.yaml"), "{kept}");
    let mut second = start();
    // The plan has the keys at a start: the pane that was zoomed is not, and no other is in its place.
    second.wait_for("4 Monitor ·");
    second.keys("o");
    second.wait_for("mine.yaml");
    second.keys("\x1b");
    second.wait_without("open a plan");
    second.keys("q");
    second.assert_left_well();
}

#[test]
fn keys_go_to_the_plan_and_to_the_monitor_where_a_process_is_attached() {
    let alone = Program::memwall().args(&["mine.yaml", "--source", "demo"]).file("mine.yaml", PLAN).size(80, 24);
    let mut alone = alone.start();
    alone.wait_for("←→ value");
    alone.keys("q");
    alone.assert_left_well();
    let own = std::process::id().to_string();
    let attached = Program::memwall().args(&["mine.yaml", "--attach", &own]).file("mine.yaml", PLAN);
    let mut attached = attached.size(80, 24).start();
    attached.wait_for("⏎ attach");
    attached.keys("q");
    attached.assert_left_well();
}
