//! New plans, themes, layouts, keys that do nothing, the way back: what a day's work leans on.

use std::path::{Path, PathBuf};

use crate::support::catalog;
use crate::support::demo::{START, happen, look, open, press, run, screen};
use memwall::app::{
    Choice, Conflict, Editor, Effect, Event, ExpectedFile, KeyPress, Keymap, LayoutPreset, Overlay, Pane,
    PickerPurpose, SaveObstacle, Side, State, shown_theme, update,
};
use memwall::ui::{EMBEDDED, Look, Theme, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

const SIZES: [(u16, u16); 4] = [(60, 20), (80, 24), (120, 40), (200, 50)];

fn snapshot(name: &str, state: &State) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    for (width, height) in SIZES {
        let drawn = screen(state, &look(), (width, height));
        settings.bind(|| insta::assert_snapshot!(format!("screens__{name}_{width}x{height}"), drawn));
    }
}

fn dashboard() -> State {
    let mut state = open("13b_long_sequence");
    run(&mut state, 60);
    state
}

fn notice(state: &State) -> &str {
    state.notice.as_ref().map_or("", |notice| notice.text.as_str())
}

fn letters(state: &mut State, text: &str) {
    for letter in text.chars() {
        press(state, &[KeyPress::Char(letter)]);
    }
}

#[test]
fn a_new_plan_of_a_model() {
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('n')]);
    snapshot("new_plan", &state);
    letters(&mut state, "llama-3-8b");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.plans.editor.name(), "llama-3-8b");
    assert!(state.plans.editor.prediction().is_some() && state.plans.editor.modified());
    assert_eq!(notice(&state), "a new plan: s writes llama-3-8b.yaml");
    // Saved, it is a new file.
    press(&mut state, &[KeyPress::Char('1'), KeyPress::Char('s')]);
    let effects = happen(&mut state, Event::Key(KeyPress::Char('s')));
    let Some(Effect::Save { path: None, name, expected: ExpectedFile::Nothing, .. }) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(name, "llama-3-8b");
}

#[test]
fn a_new_plan_of_a_template_is_no_example() {
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('n')]);
    letters(&mut state, "7b_lora");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!((state.plans.editor.name(), state.plans.editor.is_example()), ("my_7b_lora", false));
}

#[test]
fn a_path_that_is_not_there_is_offered_as_a_new_plan() {
    let mut state = dashboard();
    happen(&mut state, Event::PlanMissing(PathBuf::from("runs/mine.yaml")));
    assert_eq!(state.dialogs.picker.as_ref().unwrap().purpose, PickerPurpose::NewPlan);
    assert_eq!(notice(&state), "runs/mine.yaml is not there: choose what it begins with");
    press(&mut state, &[KeyPress::Enter]);
    // Empty: it will be written where it was looked for.
    assert_eq!(state.plans.editor.path(), Some(Path::new("runs/mine.yaml")));
    press(&mut state, &[KeyPress::Char('1')]);
    snapshot("new_plan_empty", &state);
    // Another begun at the same place takes its place.
    happen(&mut state, Event::PlanMissing(PathBuf::from("runs/mine.yaml")));
    letters(&mut state, "gpt2");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!((state.plans.editor.name(), state.plans.tabs.place()), ("mine", (1, 2)));
    assert!(state.plans.editor.prediction().is_some());
}

/// Before anybody has said what a missing plan begins with, nothing is predicted; what is no model and no file is said.
#[test]
fn a_question_stands_until_it_is_answered() {
    let mut state = State::on(Editor::unbegun(Path::new("runs/mine.yaml")), catalog().clone(), None, START);
    happen(&mut state, Event::PlanMissing(PathBuf::from("runs/mine.yaml")));
    let shown = screen(&state, &look(), (80, 24));
    assert!(shown.lines().next().unwrap().contains("NEW PLAN") && state.plans.editor.prediction().is_none(), "{shown}");
    letters(&mut state, "nonsense_zz");
    assert_eq!(happen(&mut state, Event::Key(KeyPress::Enter)), []);
    assert_eq!(notice(&state), "nonsense_zz: no model, no template and no file");
    assert_eq!(state.dialogs.picker.as_ref().unwrap().query, "nonsense_zz");
    // Left, it begins empty, under its name.
    press(&mut state, &[KeyPress::Esc]);
    assert!(state.dialogs.picker.is_none() && !state.plans.editor.is_unbegun());
    assert_eq!(state.plans.editor.path(), Some(Path::new("runs/mine.yaml")));
}

#[test]
fn the_list_of_plans_walks_into_folders() {
    let mut state = dashboard();
    assert_eq!(
        happen(&mut state, Event::Key(KeyPress::Char('o'))),
        [Effect::ListPlans { folder: PathBuf::new(), recent: Vec::new() }]
    );
    let listed =
        [("mine.yaml", "plan"), ("config.json", "Hugging Face, read as a plan"), ("runs/", "folder: ⏎ walks into it")];
    let listed = listed.map(|(path, what)| (path.into(), what.to_owned())).to_vec();
    happen(&mut state, Event::PlansListed(listed));
    snapshot("open", &state);
    press(&mut state, &[KeyPress::Down, KeyPress::Down]);
    let effects = happen(&mut state, Event::Key(KeyPress::Enter));
    assert_eq!(effects, [Effect::ListPlans { folder: PathBuf::from("runs/"), recent: Vec::new() }]);
    happen(&mut state, Event::PlansListed(vec![("runs/a.yaml".into(), "plan".to_owned())]));
    assert_eq!(happen(&mut state, Event::Key(KeyPress::Enter)), [Effect::Open(PathBuf::from("runs/a.yaml"))]);
}

fn with_themes() -> State {
    let mut state = dashboard();
    let comment = |text: &str| text.lines().next().unwrap_or_default().trim_start_matches("# ").to_owned();
    state.views.themes.choices = EMBEDDED.iter().map(|(name, text)| Choice::of(name, &comment(text))).collect();
    state.views.themes.at_start = "dark".to_owned();
    state
}

#[test]
fn a_theme_is_seen_before_it_is_taken() {
    let mut state = with_themes();
    press(&mut state, &[KeyPress::Char('T')]);
    snapshot("theme_picker", &state);
    assert_eq!(shown_theme(&state), "dark");
    press(&mut state, &[KeyPress::Down]);
    assert_eq!(shown_theme(&state), "light", "selected, it colours the screen");
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(shown_theme(&state), "dark");
    press(&mut state, &[KeyPress::Char('T')]);
    letters(&mut state, "nord");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!((shown_theme(&state), state.views.themes.chosen.as_deref()), ("nord", Some("nord")));
    state.views.themes.choices.clear();
    press(&mut state, &[KeyPress::Char('T')]);
    assert_eq!(notice(&state), "no colours: NO_COLOR or --no-color turns themes off");
}

#[test]
fn a_background_is_painted_everywhere() {
    let state = with_themes();
    let (_, text) = EMBEDDED.iter().find(|(name, _)| *name == "nord").unwrap();
    let look = Look::new(Theme::parse("nord", text).unwrap(), false);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| draw(&state, &look, frame)).unwrap();
    assert!(terminal.backend().buffer().content.iter().all(|cell| cell.bg != ratatui::style::Color::Reset));
}

#[test]
fn layouts_go_round_and_borders_move() {
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('L')]);
    assert_eq!(state.views.arrangement.preset, LayoutPreset::Edit);
    snapshot("layout_edit", &state);
    press(&mut state, &[KeyPress::Char('L'), KeyPress::Char('4')]);
    snapshot("layout_watch", &state);
    press(&mut state, &[KeyPress::WordRight, KeyPress::WordRight, KeyPress::CtrlUp]);
    assert_eq!(state.views.arrangement.steps(Pane::Monitor, Side::Width), 2);
    assert_eq!(state.views.arrangement.steps(Pane::Monitor, Side::Height), -1);
    press(&mut state, &[KeyPress::Char('0')]);
    assert_eq!(state.views.arrangement.steps(Pane::Monitor, Side::Width), 0);
    press(&mut state, &[KeyPress::Char('z'), KeyPress::WordRight]);
    assert_eq!(notice(&state), "it has the whole screen: z gives the others their places back");
}

/// Every pane, view and overlay is drawn from the smallest size to a wall of screens, and the focused pane is there.
#[test]
fn every_screen_is_drawn_at_every_size() {
    let mut states = Vec::new();
    for pane in Pane::ALL {
        let mut state = dashboard();
        state.views.focus = pane;
        for _ in 0..if pane == Pane::Vram { 5 } else { 3 } {
            states.push(state.clone());
            press(&mut state, &[KeyPress::Char('v')]);
        }
        for preset in LayoutPreset::ALL {
            state.views.arrangement.preset = preset;
            states.push(state.clone());
        }
    }
    for keys in ["h", "X", "?", "=", "n", "T", "o", ":", "e", "q"] {
        let mut state = dashboard();
        state.views.focus = if keys == "h" { Pane::Monitor } else { Pane::Plan };
        letters(&mut state, keys);
        states.push(state);
    }
    let look = look();
    // Each border where panes come, go or change their shape, and each state at some of them.
    let widths = [40, 59, 60, 79, 80, 100, 160, 400];
    let heights = [10, 15, 16, 24, 29, 30, 120];
    let sizes: Vec<(u16, u16)> = widths.into_iter().flat_map(|width| heights.map(|height| (width, height))).collect();
    for (at, state) in states.iter().enumerate() {
        for (width, height) in sizes.iter().copied().skip(at % 9).step_by(9) {
            let drawn = screen(state, &look, (width, height));
            let name = state.views.focus.name();
            let covered = state.dialogs.overlay.is_some() || state.dialogs.picker.is_some();
            assert!(drawn.contains(name) || drawn.contains("Draft") || covered, "{width}x{height} {name}:\n{drawn}");
            assert!(!drawn.contains("too small"), "{width}x{height}");
        }
    }
}

#[test]
fn the_smallest_screen_has_two_lines_of_status_and_a_pane() {
    let mut state = dashboard();
    state.views.focus = Pane::Monitor;
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    let drawn = screen(&state, &look(), (40, 10));
    settings.bind(|| insta::assert_snapshot!("screens__smallest_40x10", drawn));
}

#[test]
fn a_key_that_does_nothing_is_told_and_changes_nothing() {
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('Y')]);
    assert_eq!(notice(&state), "Y does nothing here: ? lists the keys");
    for (opened, overlay) in [("X", Overlay::Fixes), ("=", Overlay::Plans(0))] {
        let mut state = dashboard();
        letters(&mut state, opened);
        press(&mut state, &[KeyPress::Char('l')]);
        assert_eq!(state.dialogs.overlay, Some(overlay));
        assert_eq!(notice(&state), "l does nothing here");
        // What may be chosen stays, before the complaint where there is no room for both.
        let shown = screen(&state, &look(), (120, 40));
        assert!(shown.contains(" l does nothing here:  ↑↓ choose   ⏎ ") && shown.contains("   esc "), "{shown}");
        assert!(screen(&state, &look(), (80, 24)).contains("↑↓ choose   ⏎ "));
        press(&mut state, &[KeyPress::Esc]);
        assert_eq!(state.dialogs.overlay, None);
    }
    let mut state = dashboard();
    letters(&mut state, "1f");
    press(&mut state, &[KeyPress::Char('l')]);
    assert_eq!(state.dialogs.overlay, Some(Overlay::Search), "the search goes on");
    assert_eq!(notice(&state), "l does nothing here");
}

#[test]
fn a_wrong_key_leaves_every_question_its_choices() {
    let conflict = |found| Event::SaveRefused(Conflict { path: "own.yaml".into(), found });
    let theirs = || Some("model: {preset: gpt2}\n".to_owned());
    for (found, choices) in [
        (SaveObstacle::Newer(theirs()), "m merge   o write over it   S elsewhere   esc leaves"),
        (SaveObstacle::Newer(None), "o write over it   S elsewhere   esc leaves it"),
        (SaveObstacle::Other(theirs()), "o write over it   S elsewhere   esc leaves it"),
        (SaveObstacle::Nothing, "w write it again   S elsewhere   esc leaves it"),
    ] {
        let mut state = dashboard();
        happen(&mut state, conflict(found));
        press(&mut state, &[KeyPress::Char('s')]);
        let shown = screen(&state, &look(), (80, 24));
        let said = format!(" s does nothing here:  {choices}");
        assert!(shown.ends_with(&said), "{said} in\n{shown}");
    }
    let mut state = dashboard();
    letters(&mut state, "1");
    press(&mut state, &[KeyPress::Down, KeyPress::Down, KeyPress::Down, KeyPress::Right, KeyPress::Char('q')]);
    press(&mut state, &[KeyPress::Char('x')]);
    let shown = screen(&state, &look(), (80, 24));
    assert!(shown.ends_with(" x does nothing here:  s save and quit   q discard   esc stays"), "{shown}");
}

#[test]
fn escape_goes_one_step_back_and_never_leaves() {
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('4'), KeyPress::Char('z'), KeyPress::Char('h')]);
    assert!(state.views.zoomed);
    press(&mut state, &[KeyPress::Char('h'), KeyPress::Char('/'), KeyPress::Char('p'), KeyPress::Enter]);
    assert_eq!(state.monitor.list.sought, "p");
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(state.monitor.list.sought, "", "first what is sought");
    press(&mut state, &[KeyPress::Char('h'), KeyPress::Esc]);
    assert_eq!(state.monitor.view, memwall::app::MonitorView::Now, "then the view");
    press(&mut state, &[KeyPress::Esc]);
    assert!(!state.views.zoomed, "then the zoom");
    assert_eq!(update(&mut state, Event::Key(KeyPress::Esc)), []);
    assert!(notice(&state).starts_with("nothing to go back from"));
}

#[test]
fn the_keys_can_be_searched() {
    let mut state = dashboard();
    press(&mut state, &[KeyPress::Char('?')]);
    letters(&mut state, "undo");
    snapshot("help_found", &state);
    let drawn = screen(&state, &look(), (120, 40));
    assert!(drawn.contains("take back the last edit") && !drawn.contains("attach"), "{drawn}");
    press(&mut state, &[KeyPress::Esc]);
    assert!(screen(&state, &look(), (120, 40)).contains("the next smaller, larger value"), "all again");
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(state.dialogs.overlay, None);
}

#[test]
fn a_chord_waits_for_its_second_key() {
    let mut state = dashboard();
    state.keys = Keymap::parse("anywhere: {ctrl-x t: focus-roofline, f6: focus-compare}\n").unwrap();
    press(&mut state, &[KeyPress::Ctrl('x')]);
    assert_eq!(notice(&state), "^X … another key completes it");
    press(&mut state, &[KeyPress::Char('t')]);
    assert_eq!(state.views.focus, Pane::Roofline);
    press(&mut state, &[KeyPress::Ctrl('x'), KeyPress::Char('y')]);
    assert_eq!(notice(&state), "^X y does nothing: ? lists the keys");
    press(&mut state, &[KeyPress::Function(6)]);
    assert_eq!(state.views.focus, Pane::Compare);
}

/// Every variant of the actions, by its name in the source, is in the palette and in the help.
#[test]
fn every_action_is_in_the_palette_and_in_the_help() {
    let source = include_str!("../../src/app/keymap/mod.rs");
    let start = source.find("pub enum Action {").unwrap();
    let body = &source[start..start + source[start..].find("\n}").unwrap()];
    let variants: Vec<&str> = body
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.starts_with("//") && !line.is_empty())
        .map(|line| line.trim_end_matches(',').split('(').next().unwrap())
        .collect();
    assert!(variants.len() > 50, "{variants:?}");
    let rows: Vec<_> = memwall::app::by_context(Pane::Plan).flat_map(|(_, rows)| rows).collect();
    let palette = memwall::app::commands(Pane::Plan);
    for variant in variants {
        let is = |action: &memwall::app::Action| format!("{action:?}").split('(').next() == Some(variant);
        let row = rows.iter().find(|row| row.actions.iter().any(is));
        assert!(row.is_some_and(|row| !row.keys.is_empty() && !row.help.is_empty()), "{variant} is in no help");
        let moves = ["Up", "Down", "PageUp", "PageDown", "First", "Last", "Complete"].contains(&variant);
        assert!(moves || palette.iter().any(|command| is(&command.action)), "{variant} is in no palette");
    }
}
