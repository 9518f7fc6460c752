//! `f`: a search for plans, while keys are answered.

use crate::terminal::{Program, keys};

/// So many GPUs, and experts to share among them, that a search takes long: two million plans.
const LARGE: &str = "\
model: {preset: deepseek-v3, batch_size: 8192, sequence_length: 4096, framework: megatron}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 4096}
";

#[test]
fn a_search_is_watched_stopped_and_its_best_plan_taken() {
    let mut terminal = Program::memwall().args(&["mine.yaml"]).file("mine.yaml", LARGE).start();
    terminal.wait_for("demo");
    terminal.keys("f");
    // Plans are listed while it goes on, and the selection answers.
    terminal.wait_until("a second plan", |screen| screen.contains("searching") && screen.contains("│  2 "));
    terminal.keys(keys::DOWN);
    terminal.wait_for("▸ 2 ");
    terminal.keys("c");
    terminal.wait_for("stopped: better ones may be left");
    terminal.keys(keys::HOME);
    terminal.keys(keys::ENTER);
    terminal.wait_for("taken; s saves it");
    terminal.keys("u");
    terminal.wait_for("‹ deepseek-v3 ›");
    terminal.keys("q");
    terminal.assert_left_well();
}
