//! The plan's text, and values typed.

use std::path::PathBuf;

use memwall::app::{Conflict, Effect, Event, KeyPress, SaveObstacle, update};
use memwall::plan::{ConfigFault, ConfigFileError, Fault};
use memwall::reading::Moment;

use super::{PLAN, go_to, letters, press};
use crate::support::demo::{look, screen};
use crate::support::plan::open;

#[test]
fn letters_typed_into_the_text_change_the_plan_at_once() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Char('e')]);
    assert_eq!(state.plans.text.as_ref().unwrap().cursor(), (4, 19), "at the field's value");
    let before = state.plans.editor.prediction().unwrap().capacity.needed;
    press(
        &mut state,
        &[KeyPress::End, KeyPress::Backspace, KeyPress::Backspace, KeyPress::Backspace, KeyPress::Backspace],
    );
    letters(&mut state, "4096");
    assert_eq!(state.plans.editor.text(), PLAN.replace("2048", "4096"));
    assert!(state.plans.editor.prediction().unwrap().capacity.needed > before);
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(state.plans.form.field(&state.plans.editor).unwrap().key(), "model.sequence_length");
}

#[test]
fn while_the_text_is_broken_the_last_good_plan_stays_and_the_fault_has_its_place() {
    let mut state = open(PLAN);
    let good = state.plans.editor.prediction().unwrap().clone();
    press(&mut state, &[KeyPress::Char('e'), KeyPress::PageUp, KeyPress::Down, KeyPress::Home]);
    letters(&mut state, "  x: [");
    assert!(state.plans.editor.document().is_none());
    assert_eq!(state.plans.editor.faults()[0].at.map(|at| at.line >= 2), Some(true));
    assert_eq!(state.plans.editor.prediction(), Some(&good));
    // The form says so and changes nothing.
    press(&mut state, &[KeyPress::Esc]);
    let broken = state.plans.editor.text().to_owned();
    press(&mut state, &[KeyPress::Right]);
    assert_eq!(state.plans.editor.text(), broken);
    // Opened again, the cursor is at the fault; undo mends it.
    press(&mut state, &[KeyPress::Char('e')]);
    while state.plans.editor.modified() {
        press(&mut state, &[KeyPress::Ctrl('z')]);
    }
    assert_eq!((state.plans.editor.text(), state.plans.editor.faults()), (PLAN, [].as_slice()));
}

/// Two digits of 4096 are deleted and `x9` typed: nobody has meant a sequence of 40.
#[test]
fn a_value_that_was_valid_half_way_is_no_last_good_plan() {
    let mut state = open(&PLAN.replace("2048", "4096"));
    let whole = state.plans.editor.prediction().unwrap().clone();
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Char('e'), KeyPress::End, KeyPress::Backspace, KeyPress::Backspace]);
    assert_ne!(state.plans.editor.prediction(), Some(&whole), "40 is a plan while it stands");
    letters(&mut state, "x9");
    assert_eq!(state.plans.editor.prediction(), Some(&whole));
    for pane in ["2 VRAM · last good plan", "3 Roofline · last good plan"] {
        let shown = screen(&state, &look(), (120, 40));
        assert!(shown.contains(pane), "no {pane} in\n{shown}");
    }
    // What stood for a while was meant.
    press(&mut state, &[KeyPress::Backspace, KeyPress::Backspace]);
    letters(&mut state, "00");
    let other = state.plans.editor.prediction().unwrap().clone();
    assert_ne!(other, whole);
    update(&mut state, Event::Tick(Moment(10_000)));
    letters(&mut state, "x");
    assert_eq!(state.plans.editor.prediction(), Some(&other));
}

#[test]
fn keys_and_values_are_completed_from_the_schema() {
    let mut state = open(PLAN);
    go_to(&mut state, "training.precision");
    press(&mut state, &[KeyPress::Char('e'), KeyPress::End, KeyPress::Enter]);
    letters(&mut state, "optim");
    assert_eq!(state.plans.text.as_ref().unwrap().completion.as_ref().unwrap().choice().unwrap().name, "optimizer");
    press(&mut state, &[KeyPress::Tab]);
    letters(&mut state, "8bit");
    press(&mut state, &[KeyPress::Tab]);
    assert!(state.plans.editor.text().contains("\n  optimizer: adamw-8bit\n"), "{}", state.plans.editor.text());
    assert_eq!(state.plans.editor.faults(), []);
    assert_eq!(state.plans.text.as_ref().unwrap().key().unwrap().path, "training.optimizer");
}

/// Whatever a file holds is opened as it is, marked where it is wrong, and given back to the byte.
#[test]
fn odd_texts_are_opened_marked_and_kept() {
    let bomb: String = std::iter::once("a0: &a0 [x, x]\n".to_owned())
        .chain((1..40).map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1)))
        .collect();
    let deep = format!("model: {}1{}\n", "[".repeat(5000), "]".repeat(5000));
    let large = format!("model: {{preset: gpt2}}\n# {}\n", "x".repeat(10_000_000));
    for (text, line, said) in [
        ("model:\n\tpreset: gpt2\n", Some(2), "a tab cannot indent"),
        ("model:\r\n  preset: gpt2\r\n  bach_size: 1\r\n", Some(3), "did you mean `batch_size`"),
        ("\u{feff}model:\n  batch_size: lots\n", Some(2), "a whole number"),
        ("model:\n  batch_size: 1\n  batch_size: 2\n", Some(3), "given twice"),
        ("model: {preset: gpt2\n", Some(1), "this brace `{` is never closed"),
        (bomb.as_str(), None, "values"),
        (deep.as_str(), Some(1), "nested deeper"),
        (large.as_str(), None, "too large"),
    ] {
        let mut state = open("model: {preset: gpt2}\n");
        let (name, path) = ("odd".to_owned(), PathBuf::from("odd.yaml"));
        update(&mut state, Event::Opened { name, path, text: text.to_owned(), drafts: Vec::new() });
        let faults = state.plans.editor.faults();
        let shown: String = text.chars().take(60).collect();
        assert!(faults.iter().any(|fault| fault.to_string().contains(said)), "{shown}: {faults:?}");
        if let Some(line) = line {
            assert_eq!(faults[0].at.map(|at| at.line), Some(line), "{shown}: {faults:?}");
        }
        // It is there as text, nothing was changed by opening it, and typing is taken back whole.
        assert!(state.plans.text.is_some());
        assert_eq!(state.plans.editor.text(), text);
        press(
            &mut state,
            &[KeyPress::Char('x'), KeyPress::Enter, KeyPress::Ctrl('z'), KeyPress::Ctrl('z'), KeyPress::Ctrl('z')],
        );
        assert!(state.plans.editor.text() == text, "{shown}");
    }
}

#[test]
fn a_key_is_added_and_taken_out() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char('a')]);
    letters(&mut state, "clipping");
    press(&mut state, &[KeyPress::Enter]);
    if state.dialogs.picker.is_some() {
        letters(&mut state, "true");
    } else {
        letters(&mut state, "1.0");
    }
    press(&mut state, &[KeyPress::Enter]);
    assert!(state.plans.editor.text().contains("gradient_clipping: "), "{}", state.plans.editor.text());
    assert_eq!(state.plans.form.field(&state.plans.editor).unwrap().key(), "training.gradient_clipping");
    press(&mut state, &[KeyPress::Char('x')]);
    assert_eq!(state.plans.editor.text(), PLAN);
    // One that is left again is not written.
    press(&mut state, &[KeyPress::Char('a')]);
    letters(&mut state, "total_tokens");
    press(&mut state, &[KeyPress::Enter, KeyPress::Char('3'), KeyPress::Esc]);
    assert_eq!(state.plans.editor.text(), PLAN);
}

#[test]
fn numbers_take_units_and_say_what_they_would_do() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Enter]);
    letters(&mut state, "8k");
    let step = state.plans.form.typed.as_ref().unwrap();
    assert_eq!(step.value, "8192");
    let announced = step.outcome;
    let before = state.plans.editor.prediction().unwrap().capacity.needed;
    press(&mut state, &[KeyPress::Enter]);
    assert_eq!(state.plans.editor.text(), PLAN.replace("2048", "8192"));
    assert_eq!(state.plans.editor.prediction().unwrap().capacity.needed - before, announced.memory);
}

#[test]
fn a_configuration_that_is_named_anew_is_asked_for() {
    let mut state = open("model: {preset: gpt2}\n");
    press(&mut state, &[KeyPress::Char('e'), KeyPress::End, KeyPress::Left]);
    let effects = letters(&mut state, ", hf_config: a.json");
    let named = |effect: &Effect| matches!(effect, Effect::ReadConfig { named, .. } if named == "a.json");
    assert!(effects.iter().any(named), "{effects:?}");
    let why = ConfigFault::Unreadable(Fault::of("", "there is no such file"));
    let config = Err(ConfigFileError { path: "a.json".into(), why });
    update(&mut state, Event::ConfigRead { named: "a.json".to_owned(), config });
    assert!(state.plans.editor.faults()[0].to_string().contains("no such file"));
}

#[test]
fn what_was_merged_while_the_text_is_open_stays_when_typing_goes_on() {
    let mut state = open(PLAN);
    press(&mut state, &[KeyPress::Char('e')]);
    state.plans.text.as_mut().unwrap().go_to(0, 6);
    letters(&mut state, "!");
    let theirs = PLAN.replace("num_gpus: 8", "num_gpus: 16");
    let found = SaveObstacle::Newer(Some(theirs.clone()));
    update(&mut state, Event::SaveRefused(Conflict { path: "test.yaml".into(), found }));
    press(&mut state, &[KeyPress::Char('m')]);
    assert_eq!(state.plans.editor.text(), theirs.replace("# mine", "# mine!"));
    letters(&mut state, "?");
    assert_eq!(state.plans.editor.text(), theirs.replace("# mine", "# mine!?"));
    press(&mut state, &[KeyPress::Ctrl('z'), KeyPress::Ctrl('z'), KeyPress::Ctrl('z')]);
    assert_eq!(state.plans.editor.text(), PLAN);
}
