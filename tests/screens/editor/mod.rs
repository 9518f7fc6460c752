//! The plan as text, several plans, the baseline, lists, the palette: through keys.

mod compare;
mod dialogs;
mod form;
mod links;
mod plans;
mod serving;
mod sweep;
mod text;
mod what_if;

use crate::support::demo;
use memwall::app::{
    Conflict, Effect, Event, KeyPress, Keymap, MouseTarget, Pane, PickerPurpose, SaveObstacle, State, offer, update,
};

use crate::support::plan::{draft, open};

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

fn press(state: &mut State, keys: &[KeyPress]) -> Vec<Effect> {
    keys.iter().flat_map(|key| demo::happen(state, Event::Key(*key))).collect()
}

fn letters(state: &mut State, text: &str) -> Vec<Effect> {
    press(state, &text.chars().map(KeyPress::Char).collect::<Vec<_>>())
}

fn go_to(state: &mut State, key: &str) {
    press(state, &[KeyPress::Char('1')]);
    state.plans.form.select(key, &state.plans.editor);
    press(state, &[KeyPress::Down, KeyPress::Up]);
}

#[test]
fn actions_are_found_by_parts_of_their_names() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char(':')]);
    assert_eq!(state.dialogs.picker.as_ref().unwrap().purpose, PickerPurpose::Action);
    letters(&mut state, "foc roof");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!((state.views.focus, state.dialogs.picker.is_none()), (Pane::Roofline, true));
    // An action of a pane goes to that pane.
    press(&mut state, &[KeyPress::Char(':')]);
    letters(&mut state, "add key");
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.views.focus, Pane::Plan);
    assert_eq!(state.dialogs.picker.as_ref().unwrap().purpose, PickerPurpose::NewKey);
}

#[test]
fn ones_own_keys_do_what_they_are_told() {
    let mut state = open(PLAN);
    state.keys = Keymap::parse("plan: {w: save, s: none}\nanywhere: {ctrl-q: quit}\n").unwrap();
    assert_eq!(press(&mut state, &[KeyPress::Char('s')]), []);
    assert_eq!(state.dialogs.overlay, None);
    assert_eq!(press(&mut state, &[KeyPress::Ctrl('q')]), [Effect::Quit]);
}

#[test]
fn the_mouse_chooses_fields_and_places_in_the_text() {
    let mut state = open(PLAN);
    update(&mut state, Event::Click(MouseTarget::Row { pane: Pane::Plan, row: 6, column: 3 }));
    assert_eq!(state.plans.form.field(&state.plans.editor).unwrap().key(), "model.sequence_length");
    press(&mut state, &[KeyPress::Char('e')]);
    update(&mut state, Event::Click(MouseTarget::Row { pane: Pane::Plan, row: 3, column: 5 }));
    assert_eq!(state.plans.text.as_ref().unwrap().cursor(), (3, 5));
    update(&mut state, Event::Click(MouseTarget::Scroll { pane: Pane::Roofline, rows: 1 }));
    assert_eq!((state.views.focus, state.views.roofline.selected), (Pane::Roofline, 1));
}

#[test]
fn questions_of_the_bottom_line_fit_a_narrow_screen() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right]);
    let found = [
        SaveObstacle::Newer(Some(String::new())),
        SaveObstacle::Newer(None),
        SaveObstacle::Other(None),
        SaveObstacle::Nothing,
    ];
    let narrow = |state: &State| {
        let shown = demo::screen(state, &demo::look(), (80, 24));
        let footer = shown.lines().last().unwrap();
        assert!(footer.len() > 10 && !footer.contains('…'), "{footer}");
    };
    for found in found {
        update(&mut state, Event::SaveRefused(Conflict { path: "test.yaml".into(), found }));
        narrow(&state);
        press(&mut state, &[KeyPress::Esc]);
    }
    for keys in [
        vec![KeyPress::Char('m')],
        vec![KeyPress::Char('w')],
        vec![KeyPress::Char('f')],
        vec![KeyPress::Char('s')],
        vec![KeyPress::Char('q')],
    ] {
        press(&mut state, &keys);
        narrow(&state);
        press(&mut state, &[KeyPress::Esc]);
    }
    offer(&mut state, vec![draft("model: {}\n")]);
    narrow(&state);
}
