//! What the form tells of its fields before they are changed, and which keys the bottom line names.

use memwall::app::{DependentChange, FieldOrigin, KeyPress, Keymap, State};

use super::{go_to, press};
use crate::support::demo::{self, look, screen};
use crate::support::plan::open;

/// 512 GPUs = 16 data x 8 tensor x 4 pipeline; 1024 samples = 16 replicas x 1 x 64.
const LARGE: &str = "\
model: {preset: llama-2-70b, framework: megatron, batch_size: 1024, sequence_length: 4096}
training: {micro_batch_size: 1, gradient_accumulation_steps: 64}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 512, nodes: 64, gpus_per_node: 8}
distribution: {data_parallel: 16, tensor_parallel: 8, pipeline_parallel: 4}
";

#[test]
fn more_replicas_are_said_to_be_more_gpus_before_they_are_taken() {
    let mut state = open(LARGE);
    go_to(&mut state, "distribution.data_parallel");
    // 32 replicas x 8 x 4; 1024 / 32
    let expected = [
        DependentChange { what: "GPUs", from: "512".to_owned(), to: "1024".to_owned() },
        DependentChange { what: "acc. steps", from: "64".to_owned(), to: "32".to_owned() },
    ];
    assert_eq!(state.plans.form.upper.as_ref().unwrap().follows, expected);
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        assert!(shown.contains("also GPUs 512: ‹ 256 › 1024"), "{shown}");
    }
    press(&mut state, &[KeyPress::Char('z')]);
    let shown = screen(&state, &look(), (200, 50));
    assert!(shown.contains("› 32  GPUs 512→1024 "), "{shown}");
}

#[test]
fn what_the_value_says_alone_takes_nothing_along() {
    let mut state = open(LARGE);
    go_to(&mut state, "model.sequence_length");
    assert_eq!(state.plans.form.upper.as_ref().unwrap().follows, []);
}

#[test]
fn more_nodes_are_more_gpus_written_or_not() {
    // Not written, the number of GPUs is that of the nodes: 64 x 8.
    let derived = LARGE.replace("num_gpus: 512, ", "").replace("data_parallel: 16, ", "");
    for text in [LARGE, derived.as_str()] {
        let mut state = open(text);
        go_to(&mut state, "cluster.nodes");
        assert_eq!(
            state.plans.form.upper.as_ref().unwrap().follows.first().map(|follow| follow.to.as_str()),
            Some("1024"),
            "{text}"
        );
        press(&mut state, &[KeyPress::Char('+')]);
        assert_eq!(state.plans.editor.faults(), []);
        assert_eq!(state.plans.editor.job().unwrap().degrees.num_gpus, 128 * 8);
        assert_eq!(state.plans.editor.text().contains("num_gpus"), text.contains("num_gpus"));
        go_to(&mut state, "cluster.gpus_per_node");
        press(&mut state, &[KeyPress::Char('-')]);
        assert_eq!(state.plans.editor.faults(), []);
        assert_eq!(state.plans.editor.job().unwrap().degrees.num_gpus, 128 * 4);
        press(&mut state, &[KeyPress::Char('u'), KeyPress::Char('u')]);
        assert_eq!(state.plans.editor.text(), text);
    }
}

#[test]
fn nodes_that_cannot_share_the_work_are_said_at_the_field() {
    let mut state = open(LARGE);
    go_to(&mut state, "cluster.nodes");
    press(&mut state, &[KeyPress::Enter, KeyPress::Char('3'), KeyPress::Enter]);
    // 24 GPUs are no multiple of 8 x 4, and the plan goes on saying 512.
    let fault = &state.plans.editor.faults()[0];
    assert!(fault.message.contains("3 x") || fault.message.contains("= 24"), "{fault}");
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains("512 is more than"), "{shown}");
}

#[test]
fn what_is_assumed_looks_other_than_what_is_said_without_colours_too() {
    let mut state = open("model: {preset: llama-2-7b, batch_size: 8}\ncluster: {num_gpus: 8}\n");
    let shown = screen(&state, &look(), (120, 40));
    assert!(shown.contains(" (adamw)") && shown.contains("  llama-2-7b") | shown.contains("‹ llama-2-7b"), "{shown}");
    // 8 GPUs are said, 8 replicas follow from them: neither is assumed.
    assert!(!shown.contains("(8)"), "{shown}");
    go_to(&mut state, "training.optimizer");
    assert!(screen(&state, &look(), (80, 24)).contains("assumed; ←→ or ⏎ sets it"));
    go_to(&mut state, "distribution.data_parallel");
    assert!(screen(&state, &look(), (80, 24)).contains("from num_gpus; also GPUs 8"));
    go_to(&mut state, "training.optimizer");
    let field = state.plans.form.field(&state.plans.editor).unwrap();
    press(&mut state, &[KeyPress::Right]);
    assert_eq!(state.plans.editor.origin(field), FieldOrigin::Plan);
    assert!(!screen(&state, &look(), (80, 24)).contains("assumed; ←→"));
}

#[test]
fn fp8_on_a_card_without_it_is_told_at_the_field_and_at_the_top() {
    let text = LARGE.replace("NVIDIA H100", "NVIDIA A100").replace("{micro", "{precision: fp8-mixed, micro");
    let mut state = open(&text);
    go_to(&mut state, "training.precision");
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        let top = shown.lines().nth(1).unwrap();
        assert!(top.contains("! A100-80G has no FP8"), "{top}");
        assert_eq!(shown.lines().filter(|line| line.contains("has no FP8")).count(), 2, "{shown}");
    }
    let mut fine = open(&text.replace("A100", "H100"));
    go_to(&mut fine, "training.precision");
    assert!(!screen(&fine, &look(), (200, 50)).contains("has no FP8"));
}

/// Where each key with its word stands in the bottom line.
fn footer(state: &State, size: (u16, u16)) -> String {
    screen(state, &look(), size).lines().last().unwrap().to_owned()
}

#[test]
fn what_a_plan_needs_is_in_the_bottom_line_and_keeps_its_place_when_the_plan_changes() {
    for (size, example) in
        [((80, 24), true), ((80, 24), false), ((120, 40), true), ((120, 40), false), ((200, 50), true)]
    {
        let mut state = if example { demo::open("13b_long_sequence") } else { open(LARGE) };
        let before = footer(&state, size);
        press(
            &mut state,
            &[
                KeyPress::End,
                KeyPress::Up,
                KeyPress::Left,
                KeyPress::Right,
                KeyPress::Home,
                KeyPress::Down,
                KeyPress::Right,
            ],
        );
        assert!(state.plans.editor.modified());
        let after = footer(&state, size);
        for key in ["←→ value", "⏎ set", "m max batch", "tab pane", "z zoom", "? help", "q quit"] {
            assert_eq!(before.find(key), after.find(key), "{before}\n{after}");
            assert!(before.contains(key), "{before}");
        }
        assert!(after.contains("s save"), "{after}");
        // What is unsaved is saved from any pane.
        press(&mut state, &[KeyPress::Char('3')]);
        assert!(footer(&state, size).contains("^S save"), "{}", footer(&state, size));
    }
}

#[test]
fn keys_of_ones_own_stand_in_the_bottom_line_at_their_places() {
    let mut state = open(LARGE);
    state.keys = Keymap::parse("anywhere: {Q: quit, q: none, Z: zoom, z: none}\n").unwrap();
    let shown = footer(&state, (80, 24));
    assert!(shown.ends_with("tab pane  Z zoom  ? help  ^C Q quit"), "{shown}");
}

/// Values stand in one column, whatever their key is called, and what is out of view is counted.
#[test]
fn labels_leave_the_values_their_column() {
    let mut state = demo::open("hybrid_example");
    go_to(&mut state, "training.micro_batch_size");
    let shown = demo::screen(&state, &demo::look(), (120, 40));
    assert!(shown.contains("│micro batch ‹ 4 ›"), "{shown}");
    let counted = shown.lines().find_map(|line| line.split_once("↓ ")?.1.split_once(" more"));
    let hidden: usize = counted.unwrap_or_else(|| panic!("{shown}")).0.parse().unwrap();
    let fields = state.plans.form.fields(&state.plans.editor).len();
    let in_view = |shown: &str| {
        // Between the pane's corner and the first of the lines that say what the next values would do.
        let pane = shown.lines().skip(3).take_while(|line| !line.starts_with("│›"));
        pane.filter(|line| line.starts_with('│')).count()
    };
    let rows = in_view(&shown);
    assert_eq!(rows + hidden, fields, "{shown}");
    for _ in 0..fields {
        press(&mut state, &[KeyPress::Down]);
        let shown = demo::screen(&state, &demo::look(), (120, 40));
        for line in shown.lines().skip(3).take(rows) {
            let cells: Vec<char> = line.chars().skip(1).take(14).collect();
            assert!(cells[11] == ' ' && cells[12..14].contains(&' '), "{line}");
        }
    }
    let shown = demo::screen(&state, &demo::look(), (120, 40));
    assert!(shown.contains("↑ ") && shown.contains("accumulate  ") && shown.contains("GPUs a node"), "{shown}");
}
