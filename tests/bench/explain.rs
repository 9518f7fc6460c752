//! The time from new evidence to its explanations, for the plans that come with the program: a run that
//! checkpoints every block though its plan says otherwise. `cargo bench --bench explain`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

use divan::Bencher;
use memwall::app::Question;
use memwall::observe::Demo;
use memwall::plan::{Change, EXAMPLES};
use support::demo::{open, watch};

fn main() {
    divan::main();
}

/// What there is to explain when every block is checkpointed though the plan says otherwise.
fn question(example: &str) -> Question {
    let mut state = open(example);
    let mut run = state.plans.editor.clone();
    let change = Change::to("training.activation_checkpointing", "full");
    run.apply(run.with(&change).unwrap(), &state.catalog);
    let mut demo = Demo::new(run.prediction().unwrap(), &run.job().unwrap().hardware.gpu);
    watch(&mut state, &mut demo, 0..120);
    Question::of(&state).unwrap()
}

#[divan::bench(args = EXAMPLES.iter().map(|(name, _)| *name))]
fn explanations(bencher: Bencher, example: &str) {
    let question = question(example);
    bencher.bench(|| question.answer());
}
