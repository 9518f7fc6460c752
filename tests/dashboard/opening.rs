//! Starting it, finding one's way, leaving it.

use crate::terminal::{Program, keys};

const PANES: [&str; 5] = ["1 Plan", "2 VRAM", "3 Roofline", "4 Monitor", "5 Compare"];

#[test]
fn without_arguments_it_opens_an_example_and_says_that_it_is_a_demo() {
    for (columns, rows) in [(80, 24), (120, 40), (200, 50)] {
        let mut terminal = Program::memwall().size(columns, rows).start();
        let screen = terminal.wait_until("the demo", |screen| {
            screen.lines().next().is_some_and(|header| header.contains("demo") && header.contains("example"))
        });
        for pane in PANES.iter().take(4) {
            assert!(screen.contains(pane), "{pane} at {columns}x{rows}:\n{screen}");
        }
        let footer = screen.lines().last().unwrap();
        assert!(footer.contains("? help") && footer.contains("q quit"), "{screen}");
        assert!(footer.contains("o open"), "how to open another:\n{screen}");
        terminal.assert_taken_over();
        terminal.keys("q");
        terminal.assert_left_well();
    }
}

#[test]
fn every_pane_is_reached_by_its_digit_and_by_tab() {
    let mut terminal = Program::memwall().size(80, 24).start();
    terminal.wait_for("demo");
    // At this size only the focused pane and its neighbour have a frame.
    for (digit, pane) in ["1", "2", "3", "4", "5"].into_iter().zip(PANES) {
        terminal.keys(digit);
        terminal.wait_for(&format!("╭ {pane} "));
    }
    for pane in PANES {
        terminal.keys(keys::TAB);
        terminal.wait_for(&format!("╭ {pane} "));
    }
    for pane in PANES.into_iter().rev().skip(1) {
        terminal.keys(keys::BACK_TAB);
        terminal.wait_for(&format!("╭ {pane} "));
    }
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_pane_is_zoomed_and_put_back() {
    let mut terminal = Program::memwall().start();
    terminal.wait_for("demo");
    for (digit, pane) in ["1", "2", "3", "4"].into_iter().zip(PANES) {
        terminal.keys(digit);
        terminal.keys("z");
        terminal.wait_until("one pane alone", |screen| {
            screen.matches('╭').count() == 1 && screen.contains(&format!("╭ {pane} "))
        });
        terminal.keys("z");
        terminal.wait_until("all panes", |screen| screen.matches('╭').count() == 4);
    }
}

#[test]
fn the_help_shows_keys_and_finds_what_is_typed() {
    let mut terminal = Program::memwall().size(200, 50).start();
    terminal.wait_for("demo");
    // Even what would quit is typed.
    for key in ["quit", "zoom"] {
        terminal.keys("?");
        let screen = terminal.wait_for("esc closes");
        for words in ["focus", "whole screen", "take back", "to be saved", "compare the plan", "leave"] {
            assert!(screen.contains(words), "{words}:\n{screen}");
        }
        terminal.keys(key);
        terminal.wait_for(&format!("keys with {key}"));
        terminal.keys(keys::ESC);
        terminal.wait_for("esc closes");
        terminal.keys(keys::ESC);
        terminal.wait_without("esc closes");
    }
    terminal.keys(keys::CTRL_C);
    terminal.assert_left_well();
}

#[test]
fn a_plan_that_is_named_is_opened_and_is_no_example() {
    let mut terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", crate::plan::PLAN).start();
    let screen = terminal.wait_for("demo");
    let header = screen.lines().next().unwrap();
    assert!(header.contains("mine") && !header.contains("example"), "{screen}");
    assert!(screen.contains("llama-2-7b"), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
    assert_eq!(std::fs::read_to_string(terminal.folder().join("mine.yaml")).unwrap(), crate::plan::PLAN);
}

#[test]
fn habits_are_kept_and_what_is_configured_wins() {
    let config = |text: &str| {
        let program = Program::without_theme().size(120, 40).args(&["--source", "demo"]);
        let folder = program.folder().join("config/memwall");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.yaml"), text).unwrap();
        program
    };
    // What is configured holds, and a fault beside it is a line.
    let mut terminal = config("theme: nord\nlayout: watch\nstart_pane: monitor\nmuose: true\n").start();
    let screen = terminal.wait_for("config.yaml:4:1: muose: no option of this name");
    assert!(screen.contains("4 Monitor") && screen.contains("5 Compare") && !screen.contains("3 Roofline"), "{screen}");
    // What is changed is kept for the next start.
    terminal.keys("L");
    terminal.wait_for("layout single");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_plan_that_is_not_there_is_begun() {
    let mut terminal = Program::memwall().args(&["mine.yaml", "--source", "demo"]).start();
    terminal.wait_for("new plan: a model, a template");
    terminal.keys("gpt2\r");
    terminal.wait_for("a new plan: s writes mine.yaml");
    terminal.keys("1ss");
    terminal.wait_for("saved mine.yaml");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn a_terminal_that_cannot_place_text_is_refused_with_advice() {
    let terminal = Program::memwall().env("TERM", "dumb").start();
    assert_eq!(terminal.exit_code(), 1);
    let screen = terminal.screen().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains("TERM=dumb") && screen.contains("memwall predict PLAN"), "{screen}");
}

#[test]
fn a_locale_without_unicode_gets_ascii() {
    let mut terminal = Program::memwall().env("LC_ALL", "C").start();
    let screen = terminal.wait_for("1 Plan");
    assert!(screen.is_ascii(), "{screen}");
    terminal.keys("q");
    terminal.assert_left_well();
}

#[test]
fn the_tutorial_has_its_own_plan_and_no_run_beside_it() {
    let mut terminal = Program::without_theme().args(&["tutorial"]).size(120, 40).start();
    let screen = terminal.wait_for("1 of 8: ");
    assert!(screen.lines().next().unwrap().starts_with(" memwall lesson-1 │ no run │"), "{screen}");
    terminal.keys(keys::ESC);
    let screen = terminal.wait_for("H shows it again");
    assert!(screen.contains("nothing is watched"), "{screen}");
    for foreign in ["13b_long_sequence", "demo", "was ", "against", "run  ▕", "NO SOURCE"] {
        assert!(!screen.contains(foreign), "{foreign}:\n{screen}");
    }
    // An exercise is left without a question.
    terminal.keys("1");
    terminal.keys(keys::RIGHT);
    terminal.wait_without("DOES NOT FIT +28.3");
    terminal.keys("q");
    terminal.assert_left_well();
}
