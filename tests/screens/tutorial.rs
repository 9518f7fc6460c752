//! The tutorial: eight steps in the dashboard, each begun, done and left by keys.

use crate::support::demo::{look, open, press, screen};
use memwall::app::{KeyPress, Overlay, State};
use memwall::lessons::tutorial;

fn type_keys(state: &mut State, keys: &str) {
    let keys: Vec<KeyPress> = keys
        .chars()
        .map(|key| match key {
            '⏎' => KeyPress::Enter,
            '↓' => KeyPress::Down,
            letter => KeyPress::Char(letter),
        })
        .collect();
    press(state, &keys);
}

fn select(state: &mut State, key: &str) {
    press(state, &[KeyPress::Char('1')]);
    state.plans.form.select(key, &state.plans.editor);
}

fn is_done(state: &State) -> bool {
    state.dialogs.tutorial.as_ref().unwrap().reached
}

#[test]
fn each_step_is_done_by_its_task_and_the_next_begins() {
    let mut state = open("13b_long_sequence");
    state.views.size = (120, 40);
    type_keys(&mut state, "H");
    // The key to the task of each step: a field and its value, or a fix.
    let tasks = [
        ("hardware.gpu_type", "⏎b200⏎"),
        ("hardware.gpu_type", "⏎h100 sxm⏎"),
        ("", ""),
        ("training.activation_checkpointing", "⏎full⏎"),
        ("training.attention", "⏎flash⏎"),
        ("distribution.sharding", "⏎zero3⏎"),
    ];
    for (step, (key, keys)) in tasks.into_iter().enumerate() {
        let shown = screen(&state, &look(), (120, 40));
        assert!(shown.contains(&format!("{} of 8: ", step + 1)), "{shown}");
        assert_eq!(state.plans.editor.name(), format!("lesson-{}", step + 1));
        if !key.is_empty() {
            assert!(!is_done(&state), "step {}", step + 1);
            type_keys(&mut state, "⏎");
            assert!(state.notice.as_ref().unwrap().text.contains("H shows it again"));
            select(&mut state, key);
            type_keys(&mut state, keys);
        }
        assert!(is_done(&state), "step {}: {}", step + 1, state.plans.editor.text());
        if state.dialogs.overlay.is_none() {
            assert!(state.notice.as_ref().unwrap().text.contains("is done"), "{:?}", state.notice);
            type_keys(&mut state, "H");
        }
        type_keys(&mut state, "n");
    }
    assert_eq!(state.plans.editor.name(), "lesson-7");
    // The last ones: a search, and four questions.
    type_keys(&mut state, "n");
    for (number, letter) in "cabb".chars().enumerate() {
        let shown = screen(&state, &look(), (120, 40));
        let question: String = tutorial()[7].questions[number].text.chars().take(30).collect();
        assert!(shown.contains(&question), "{shown}");
        type_keys(&mut state, &letter.to_string());
    }
    let shown = screen(&state, &look(), (120, 50));
    assert!(is_done(&state) && shown.contains("4 of 4 right"), "{shown}");
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(state.dialogs.overlay, None);
    // What was left is found again.
    type_keys(&mut state, "Hp");
    assert_eq!(state.dialogs.overlay, Some(Overlay::Tutorial(0)));
    assert_eq!(state.plans.editor.name(), "lesson-7");
}
