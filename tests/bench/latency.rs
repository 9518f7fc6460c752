//! From a key press to the frame that answers it, with all panes updated, through the built
//! program in a pseudo-terminal: 200x50, a 70B plan on 512 GPUs, then every example. 99 of 100 are to take no more
//! than 8 ms. The time includes the terminal's side: the pseudo-terminal and reading the frame.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use support::terminal::{Program, Terminal, keys};

/// 16 data x 8 tensor x 4 pipeline.
const PLAN: &str = "\
model: {preset: llama-2-70b, batch_size: 1024, sequence_length: 4096, framework: megatron}
training: {precision: bf16-fp32-master, micro_batch_size: 1}
hardware: {gpu_type: NVIDIA H100}
cluster: {num_gpus: 512}
distribution: {data_parallel: 16, tensor_parallel: 8, pipeline_parallel: 4, sequence_parallel: true}
";

/// Presses of each kind.
const PRESSES: usize = 300;

/// What one kind of key press takes, sorted.
fn measure(terminal: &mut Terminal, press: [&str; 2], shown: [&str; 2]) -> Vec<Duration> {
    let mut taken = Vec::with_capacity(PRESSES);
    for turn in 0..PRESSES {
        let frames = terminal.frames();
        let start = Instant::now();
        terminal.keys(press[turn % 2]);
        terminal.first_frame(frames, shown[turn % 2], |frame| frame.contains(shown[turn % 2]));
        taken.push(start.elapsed());
    }
    taken.sort_unstable();
    taken
}

fn report(what: &str, taken: &[Duration]) {
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{what:<28} median {:5.2} ms   p99 {:5.2} ms   most {:5.2} ms", at(0.5), at(0.99), at(1.0));
}

fn main() {
    let args = ["mine.yaml", "--source", "demo", "--interval", "60s"];
    let mut terminal = Program::memwall().args(&args).file("mine.yaml", PLAN).size(200, 50).start();
    terminal.wait_for("demo");
    // The sequence's field.
    terminal.keys(&keys::DOWN.repeat(6));
    terminal.wait_for("‹ 4096 ›");
    report("a value stepped", &measure(&mut terminal, [keys::RIGHT, keys::LEFT], ["‹ 8192 ›", "‹ 4096 ›"]));
    terminal.keys("b");
    terminal.wait_for("pinned");
    report("with a baseline", &measure(&mut terminal, [keys::RIGHT, keys::LEFT], ["‹ 8192 ›", "‹ 4096 ›"]));
    terminal.keys(&keys::DOWN.repeat(7));
    terminal.wait_for("‹ 8 ›");
    report("a degree stepped", &measure(&mut terminal, [keys::LEFT, keys::RIGHT], ["‹ 4 ›", "‹ 8 ›"]));
    terminal.keys("z");
    // The other panes are gone: what every field's steps would do stands in their place.
    terminal.wait_until("the whole screen for the plan", |screen| !screen.contains("4 Monitor ·"));
    report("with every field's steps", &measure(&mut terminal, [keys::LEFT, keys::RIGHT], ["‹ 4 ›", "‹ 8 ›"]));
    terminal.keys("z");
    terminal.wait_for("4 Monitor ·");
    terminal.keys("e");
    terminal.wait_for("distribution.tensor_parallel");
    report(
        "a letter in the text",
        &measure(&mut terminal, ["7", "\x7f"], ["tensor_parallel: 78", "tensor_parallel: 8"]),
    );
    terminal.keys("\x1b");
    terminal.wait_for("‹ 8 ›");
    terminal.keys("qq");
    terminal.exit_code();
    in_a_large_text();
    with_a_tape();
    with_every_example();
}

/// The same in a text of ten megabytes, at its beginning and at its end.
fn in_a_large_text() {
    const LINE: &str = "# a line that says nothing of the plan\n";
    let text = format!("{PLAN}{}# the end", LINE.repeat((9_900_000 - PLAN.len()) / LINE.len()));
    let args = ["mine.yaml", "--source", "demo", "--interval", "60s"];
    let mut terminal = Program::memwall().args(&args).file("mine.yaml", &text).size(200, 50).start();
    terminal.wait_for("demo");
    terminal.keys("e");
    terminal.wait_for("says nothing");
    terminal.keys("\x1b[F");
    report("a letter in 10 MB, first line", &measure(&mut terminal, ["7", "\x7f"], ["megatron}7", "megatron} "]));
    terminal.keys(&"\x1b[B".repeat(5));
    terminal.keys("\x1b[F");
    report("a letter in 10 MB, below", &measure(&mut terminal, ["7", "\x7f"], ["of the plan7", "of the plan "]));
    terminal.signal("KILL");
    terminal.hang_up();
}

/// A traced model, whose tape may have 120 different segments.
fn with_a_tape() {
    for name in ["bert", "tv-densenet121"] {
        let path = format!("{}/tests/truth/traced/{name}.tape.json.gz", env!("CARGO_MANIFEST_DIR"));
        let text = format!("model: {{trace: {path}, batch_size: 32}}\ntraining: {{micro_batch_size: 8}}\n");
        let args = ["mine.yaml", "--source", "demo", "--interval", "60s"];
        let mut terminal = Program::memwall().args(&args).file("mine.yaml", &text).size(200, 50).start();
        terminal.wait_for("demo");
        terminal.wait_for("│micro batch");
        let screen = terminal.screen();
        let row = |text: &str| screen.lines().position(|line| line.contains(text)).unwrap();
        terminal.keys(&keys::DOWN.repeat(row("│micro batch") - row("│model")));
        terminal.wait_for("‹ 8 ›");
        let what = format!("the batch of a traced {name}");
        report(&what, &measure(&mut terminal, [keys::RIGHT, keys::LEFT], ["‹ 16 ›", "‹ 8 ›"]));
        terminal.signal("KILL");
        terminal.hang_up();
    }
}

/// The value of the field that a row begins with, while it is selected.
fn selected(frame: &str, label: &str) -> Option<String> {
    let row = frame.lines().find(|row| row.contains(label) && row.contains('‹'))?;
    let (_, value) = row.split_once('‹')?;
    Some(value.split_whitespace().next()?.to_owned())
}

/// Arrow keys on the sequence of every example, as fast as frames come: while what the values beside would do is still
/// being found out.
fn with_every_example() {
    for (name, text) in memwall::plan::EXAMPLES {
        let args = ["mine.yaml", "--source", "demo", "--interval", "60s"];
        let mut terminal = Program::memwall().args(&args).file("mine.yaml", text).size(200, 50).start();
        terminal.wait_for("demo");
        // The first field is selected at the start.
        terminal.wait_for("│sequence");
        let screen = terminal.screen();
        let row = |text: &str| screen.lines().position(|line| line.contains(text)).unwrap();
        terminal.keys(&keys::DOWN.repeat(row("│sequence") - row("│model")));
        terminal.wait_until("the sequence", |screen| selected(screen, "sequence").is_some());
        for view in ["panes", "form"] {
            if view == "form" {
                terminal.keys("z");
                terminal.wait_until("the form alone", |screen| !screen.contains("4 Monitor ·"));
            }
            let mut taken = Vec::with_capacity(PRESSES);
            for turn in 0..PRESSES {
                let (frames, before) = (terminal.frames(), selected(&terminal.screen(), "sequence"));
                let start = Instant::now();
                terminal.keys([keys::LEFT, keys::RIGHT][turn % 2]);
                terminal.first_frame(frames, "another value", |frame| {
                    selected(frame, "sequence").is_some_and(|value| Some(&value) != before.as_ref())
                });
                taken.push(start.elapsed());
            }
            taken.sort_unstable();
            report(&format!("{name}, {view}"), &taken);
        }
        terminal.signal("KILL");
        terminal.hang_up();
    }
}
