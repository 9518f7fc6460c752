//! The plan's fields.

use memwall::app::{Event, KeyPress, Pane, update};

use super::{PLAN, changed_lines, go_to, press, type_text};
use crate::support::plan::open;

#[test]
fn a_step_of_the_sequence_changes_that_value_alone() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right]);
    assert_eq!(changed_lines(&state), ["  sequence_length: 4096"]);
    press(&mut state, &[KeyPress::Left, KeyPress::Left]);
    assert_eq!(changed_lines(&state), ["  sequence_length: 1024"]);
}

#[test]
fn more_tokens_need_more_memory_in_the_same_turn() {
    let mut state = open(PLAN);
    let before = state.plans.editor.prediction().unwrap().capacity.needed;
    go_to(&mut state, "model.sequence_length");
    let announced = state.plans.form.upper.as_ref().unwrap().outcome.memory;
    press(&mut state, &[KeyPress::Right]);
    let after = state.plans.editor.prediction().unwrap().capacity.needed;
    assert!(after > before);
    assert_eq!(after - before, announced);
}

#[test]
fn a_batch_doubles_and_accumulation_follows() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[KeyPress::Right]);
    // 64 = 2 replicas x 4 x 8
    assert_eq!(changed_lines(&state), ["  batch_size: 64", "  gradient_accumulation_steps: 8"]);
}

#[test]
fn tensor_parallel_shares_out_the_gpus_that_there_are() {
    let mut state = open(PLAN);
    go_to(&mut state, "distribution.tensor_parallel");
    press(&mut state, &[KeyPress::Right]);
    // 8 GPUs = 1 data x 4 tensor x 2 pipeline; 32 = 1 replica x 4 x 8
    assert_eq!(
        changed_lines(&state),
        ["  gradient_accumulation_steps: 8", "  data_parallel: 1", "  tensor_parallel: 4"]
    );
}

#[test]
fn data_parallel_brings_its_gpus() {
    let mut state = open(PLAN);
    go_to(&mut state, "distribution.data_parallel");
    press(&mut state, &[KeyPress::Right]);
    // 4 data x 2 x 2 = 16 GPUs; 32 = 4 replicas x 4 x 2
    assert_eq!(changed_lines(&state), ["  gradient_accumulation_steps: 2", "  num_gpus: 16", "  data_parallel: 4"]);
}

#[test]
fn micro_batches_step_through_what_divides_the_batch() {
    let mut state = open(PLAN);
    go_to(&mut state, "training.micro_batch_size");
    press(&mut state, &[KeyPress::Right]);
    // 32 / 2 replicas = 16 samples each: after 4 comes 8, twice.
    assert_eq!(changed_lines(&state), ["  micro_batch_size: 8", "  gradient_accumulation_steps: 2"]);
}

#[test]
fn a_preset_wins_over_an_explicit_architecture_which_stays() {
    let text = "model:\n  architecture:\n    hidden_size: 1024\n    num_layers: 2\n    num_attention_heads: 8\n    vocab_size: 1000\n  batch_size: 1\n";
    let mut state = open(text);
    assert_eq!(state.plans.editor.faults(), []);
    type_text(&mut state, "llama-3-8b");
    assert_eq!(state.plans.editor.faults(), []);
    assert_eq!(state.plans.editor.prediction().unwrap().params.total, 8_030_261_248);
    assert!(state.plans.editor.text().contains("    num_layers: 2\n"));
}

#[test]
fn names_are_completed_from_their_beginning() {
    let mut state = open(PLAN);
    go_to(&mut state, "hardware.gpu_type");
    type_text(&mut state, "h200");
    assert_eq!(state.plans.editor.prediction().unwrap().gpu, "NVIDIA H200 SXM 141GB");
}

#[test]
fn a_broken_value_leaves_the_last_good_prediction_and_says_where() {
    let mut state = open(PLAN);
    let good = state.plans.editor.prediction().unwrap().clone();
    go_to(&mut state, "distribution.tensor_parallel");
    type_text(&mut state, "3");
    let fault = &state.plans.editor.faults()[0];
    assert!(fault.at.is_some(), "{fault}");
    assert_eq!(state.plans.editor.prediction(), Some(&good));
    press(&mut state, &[KeyPress::Char('u')]);
    assert_eq!((state.plans.editor.faults(), state.plans.editor.text()), ([].as_slice(), PLAN));
}

#[test]
fn undo_and_redo_walk_the_same_path() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.sequence_length");
    press(&mut state, &[KeyPress::Right, KeyPress::Right]);
    let changed = state.plans.editor.text().to_owned();
    press(&mut state, &[KeyPress::Char('u'), KeyPress::Char('u')]);
    assert_eq!(state.plans.editor.text(), PLAN);
    assert!(!state.plans.editor.modified());
    press(&mut state, &[KeyPress::Char('U'), KeyPress::Ctrl('r')]);
    assert_eq!(state.plans.editor.text(), changed);
    press(&mut state, &[KeyPress::Char('U')]);
    assert!(state.notice.is_some());
}

#[test]
fn digits_are_text_while_a_value_is_typed() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(
        &mut state,
        &[KeyPress::Enter, KeyPress::Char('4'), KeyPress::Char('q'), KeyPress::Backspace, KeyPress::Char('8')],
    );
    assert_eq!((state.views.focus, state.plans.form.typing.as_deref()), (Pane::Plan, Some("48")));
    press(&mut state, &[KeyPress::Enter]);
    // 48 = 2 replicas x 4 x 6
    assert_eq!(changed_lines(&state), ["  batch_size: 48", "  gradient_accumulation_steps: 6"]);
}

#[test]
fn pasted_text_is_typed_without_its_line_ends() {
    let mut state = open(PLAN);
    go_to(&mut state, "model.batch_size");
    press(&mut state, &[KeyPress::Enter]);
    update(&mut state, Event::Paste("6\u{1b}4\n".to_owned()));
    assert_eq!(state.plans.form.typing.as_deref(), Some("64"));
    press(&mut state, &[KeyPress::Esc]);
    assert_eq!(changed_lines(&state), Vec::<&str>::new());
}

#[test]
fn a_batch_that_the_plan_leaves_open_can_be_set() {
    let plan = PLAN.replace("  batch_size: 32\n", "");
    let mut state = open(&plan);
    go_to(&mut state, "model.batch_size");
    type_text(&mut state, "64");
    assert_eq!(state.plans.editor.faults(), []);
    // 64 = 2 replicas x 4 x 8
    assert!(state.plans.editor.text().contains("gradient_accumulation_steps: 8"), "{}", state.plans.editor.text());
}
