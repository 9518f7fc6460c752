//! The tutorial: eight steps in the dashboard, each begun, done and left by keys.

use crate::support::demo::{happen, look, open, press, run, screen};
use memwall::app::{Effect, Event, KeyPress, Overlay, State};
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

#[test]
fn a_lesson_stands_alone_beside_a_run() {
    let mut state = open("13b_long_sequence");
    state.views.size = (120, 40);
    run(&mut state, 60);
    type_keys(&mut state, "H");
    press(&mut state, &[KeyPress::Esc]);
    let shown = screen(&state, &look(), (120, 40));
    // The first line is the run's, and says of the lesson what it is.
    assert!(shown.lines().next().unwrap().contains("lesson too big"), "{shown}");
    let rest: Vec<&str> = shown.lines().skip(2).take(18).collect();
    for foreign in ["was ", "against ", "draft", "run  ▕", "peak 5"] {
        assert!(rest.iter().all(|line| !line.contains(foreign)), "{foreign}: {shown}");
    }
    assert!(!shown.contains("◉ run"), "{shown}");
    // The user's own plan is a draft as ever once it is in front again.
    type_keys(&mut state, "[");
    select(&mut state, "model.batch_size");
    type_keys(&mut state, "⏎8⏎");
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("draft ") && shown.contains("against 13b_long_sequence"), "{shown}");
}

#[test]
fn what_a_question_asks_next_is_on_a_small_screen() {
    let mut state = open("13b_long_sequence");
    state.views.size = (80, 24);
    type_keys(&mut state, "Hnn");
    let shown = screen(&state, &look(), (80, 24));
    assert!(shown.contains("3 of 8: ") && shown.contains("↓ 3 more"), "{shown}");
    type_keys(&mut state, "↓↓↓");
    let shown = screen(&state, &look(), (80, 24));
    assert!(shown.contains("Read the sum") && !shown.contains(" more ─"), "{shown}");
    // No key is dead that was pressed beyond the end.
    type_keys(&mut state, "↓↓k");
    assert!(screen(&state, &look(), (80, 24)).contains("↓ 1 more"));
    type_keys(&mut state, "nnnnn");
    for (number, letter) in "cab".chars().enumerate() {
        type_keys(&mut state, &letter.to_string());
        let shown = screen(&state, &look(), (80, 24));
        for answer in &tutorial()[7].questions[number + 1].answers {
            assert!(shown.contains(answer), "{answer}: {shown}");
        }
        assert!(shown.contains("Right: "), "{shown}");
    }
    type_keys(&mut state, "b");
    assert!(screen(&state, &look(), (80, 24)).contains("4 of 4 right"));
}

#[test]
fn exercises_are_left_without_a_question_and_plans_by_their_names() {
    let mut state = open("13b_long_sequence");
    state.views.size = (120, 40);
    type_keys(&mut state, "H");
    press(&mut state, &[KeyPress::Esc]);
    select(&mut state, "model.batch_size");
    type_keys(&mut state, "⏎4⏎");
    assert_eq!(happen(&mut state, Event::Key(KeyPress::Char('q'))), [Effect::Quit]);
    // Two of the user's own: each is named.
    type_keys(&mut state, "[");
    select(&mut state, "model.batch_size");
    type_keys(&mut state, "⏎8⏎d");
    select(&mut state, "model.batch_size");
    type_keys(&mut state, "⏎4⏎q");
    let shown = screen(&state, &look(), (120, 40));
    let question = shown.lines().last().unwrap();
    assert!(question.contains("Unsaved changes in 13b_long_sequence-2, then 13b_long_sequence:  s save "), "{shown}");
    assert!(shown.contains("unsaved: 13b_long_sequence-2"), "{shown}");
    // The keys stay where names are long.
    assert!(screen(&state, &look(), (80, 24)).ends_with("s save   q discard   esc stays"));
}
