//! The plan as text, several plans, the baseline, lists, the palette: through keys.

mod compare;
mod dialogs;
mod form;
mod plans;
mod serving;
mod sweep;
mod text;
mod what_if;

use crate::support::demo;
use memwall::app::{Conflict, Effect, Event, InTheWay, Key, Keymap, Pane, Purpose, State, Target, offer, update};

use crate::support::plan::open;

const PLAN: &str = "\
# mine
model:
  preset: llama-2-7b   # the base
  batch_size: 32
  sequence_length: 2048

training:
  precision: bf16-mixed
  micro_batch_size: 4
hardware: {gpu_type: NVIDIA H100}
cluster:
  num_gpus: 8
distribution:
  strategy: zero3
";

fn press(state: &mut State, keys: &[Key]) -> Vec<Effect> {
    keys.iter().flat_map(|key| update(state, Event::Key(*key))).collect()
}

fn letters(state: &mut State, text: &str) -> Vec<Effect> {
    press(state, &text.chars().map(Key::Char).collect::<Vec<_>>())
}

fn go_to(state: &mut State, key: &str) {
    press(state, &[Key::Char('1')]);
    state.plans.form.select(key, &state.plans.editor);
    press(state, &[Key::Down, Key::Up]);
}

#[test]
fn actions_are_found_by_parts_of_their_names() {
    let mut state = open(PLAN);
    press(&mut state, &[Key::Char(':')]);
    assert_eq!(state.dialogs.picker.as_ref().unwrap().purpose, Purpose::Action);
    letters(&mut state, "foc roof");
    press(&mut state, &[Key::Enter]);
    assert_eq!((state.views.focus, state.dialogs.picker.is_none()), (Pane::Roofline, true));
    // An action of a pane goes to that pane.
    press(&mut state, &[Key::Char(':')]);
    letters(&mut state, "add key");
    press(&mut state, &[Key::Enter]);
    assert_eq!(state.views.focus, Pane::Plan);
    assert_eq!(state.dialogs.picker.as_ref().unwrap().purpose, Purpose::NewKey);
}

#[test]
fn ones_own_keys_do_what_they_are_told() {
    let mut state = open(PLAN);
    state.keys = Keymap::parse("plan: {w: save, s: none}\nanywhere: {ctrl-q: quit}\n").unwrap();
    assert_eq!(press(&mut state, &[Key::Char('s')]), []);
    assert_eq!(state.dialogs.overlay, None);
    assert_eq!(press(&mut state, &[Key::Ctrl('q')]), [Effect::Quit]);
}

#[test]
fn the_mouse_chooses_fields_and_places_in_the_text() {
    let mut state = open(PLAN);
    update(&mut state, Event::Click(Target::Row { pane: Pane::Plan, row: 6, column: 3 }));
    assert_eq!(state.plans.form.field(&state.plans.editor).unwrap().key(), "model.sequence_length");
    press(&mut state, &[Key::Char('e')]);
    update(&mut state, Event::Click(Target::Row { pane: Pane::Plan, row: 3, column: 5 }));
    assert_eq!(state.plans.text.as_ref().unwrap().cursor(), (3, 5));
    update(&mut state, Event::Click(Target::Scroll { pane: Pane::Roofline, rows: 1 }));
    assert_eq!((state.views.focus, state.views.roofline.selected), (Pane::Roofline, 1));
}

#[test]
fn questions_of_the_bottom_line_fit_a_narrow_screen() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[Key::Right]);
    let found = [InTheWay::Newer(Some(String::new())), InTheWay::Newer(None), InTheWay::Other(None), InTheWay::Nothing];
    let narrow = |state: &State| {
        let shown = demo::screen(state, &demo::look(), (80, 24));
        let footer = shown.lines().last().unwrap();
        assert!(footer.len() > 10 && !footer.contains('…'), "{footer}");
    };
    for found in found {
        update(&mut state, Event::SaveRefused(Conflict { path: "test.yaml".into(), found }));
        narrow(&state);
        press(&mut state, &[Key::Esc]);
    }
    for keys in
        [vec![Key::Char('m')], vec![Key::Char('w')], vec![Key::Char('f')], vec![Key::Char('s')], vec![Key::Char('q')]]
    {
        press(&mut state, &keys);
        narrow(&state);
        press(&mut state, &[Key::Esc]);
    }
    offer(&mut state, Some("model: {}\n".to_owned()));
    narrow(&state);
}
