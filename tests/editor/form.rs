//! What the form tells of its fields before they are changed.

use memwall::app::{Follow, Key, Origin};

use crate::demo::{look, screen};
use crate::plan::open;
use crate::{go_to, press};

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
    let expected = [Follow { what: "GPUs", from: 512, to: 1024 }, Follow { what: "acc. steps", from: 64, to: 32 }];
    assert_eq!(state.form.upper.as_ref().unwrap().follows, expected);
    for size in [(80, 24), (120, 40), (200, 50)] {
        let shown = screen(&state, &look(), size);
        assert!(shown.contains("also GPUs 512: ‹ 256 › 1024"), "{shown}");
    }
    press(&mut state, &[Key::Char('z')]);
    let shown = screen(&state, &look(), (200, 50));
    assert!(shown.contains("› 32  GPUs 512→1024 "), "{shown}");
}

#[test]
fn what_the_value_says_alone_takes_nothing_along() {
    let mut state = open(LARGE);
    go_to(&mut state, "model.sequence_length");
    assert_eq!(state.form.upper.as_ref().unwrap().follows, []);
}

#[test]
fn more_nodes_are_more_gpus_written_or_not() {
    // Not written, the number of GPUs is that of the nodes: 64 x 8.
    let derived = LARGE.replace("num_gpus: 512, ", "").replace("data_parallel: 16, ", "");
    for text in [LARGE, derived.as_str()] {
        let mut state = open(text);
        go_to(&mut state, "cluster.nodes");
        assert_eq!(state.form.upper.as_ref().unwrap().follows.first().map(|follow| follow.to), Some(1024), "{text}");
        press(&mut state, &[Key::Char('+')]);
        assert_eq!(state.editor.faults(), []);
        assert_eq!(state.editor.job().unwrap().degrees.num_gpus, 128 * 8);
        assert_eq!(state.editor.text().contains("num_gpus"), text.contains("num_gpus"));
        go_to(&mut state, "cluster.gpus_per_node");
        press(&mut state, &[Key::Char('-')]);
        assert_eq!(state.editor.faults(), []);
        assert_eq!(state.editor.job().unwrap().degrees.num_gpus, 128 * 4);
        press(&mut state, &[Key::Char('u'), Key::Char('u')]);
        assert_eq!(state.editor.text(), text);
    }
}

#[test]
fn nodes_that_cannot_share_the_work_are_said_at_the_field() {
    let mut state = open(LARGE);
    go_to(&mut state, "cluster.nodes");
    press(&mut state, &[Key::Enter, Key::Char('3'), Key::Enter]);
    // 24 GPUs are no multiple of 8 x 4, and the plan goes on saying 512.
    let fault = &state.editor.faults()[0];
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
    let field = state.form.field(&state.editor).unwrap();
    press(&mut state, &[Key::Right]);
    assert_eq!(state.editor.origin(field), Origin::Plan);
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
        assert!(top.contains("! NVIDIA A100 SXM 80GB has no FP8"), "{top}");
        assert_eq!(shown.lines().filter(|line| line.contains("has no FP8")).count(), 2, "{shown}");
    }
    let mut fine = open(&text.replace("A100", "H100"));
    go_to(&mut fine, "training.precision");
    assert!(!screen(&fine, &look(), (200, 50)).contains("has no FP8"));
}
