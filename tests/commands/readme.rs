//! What the README shows is what the program does.

use crate::support::demo;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use memwall::app::{Pane, by_context};
use memwall::observe::METRICS;

fn readme() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

fn keys() -> String {
    let mut table = "| where | keys | what |\n|---|---|---|\n".to_owned();
    for (context, bindings) in by_context(Pane::Plan) {
        let name = context.name();
        for binding in bindings {
            writeln!(table, "| {name} | {} | {} |", binding.shown, binding.help).unwrap();
        }
    }
    table
}

#[test]
fn the_table_of_keys_is_the_one_that_the_program_uses() {
    assert!(readme().contains(&keys()), "the README's keys should be:\n{}", keys());
}

fn metrics() -> String {
    let mut table = "| figure | NVML | asked |\n|---|---|---|\n".to_owned();
    for metric in METRICS {
        let symbols: Vec<String> = metric.symbols.iter().map(|symbol| format!("`{symbol}`")).collect();
        writeln!(table, "| {} | {} | {} |", metric.name, symbols.join(" "), metric.asked.word()).unwrap();
    }
    table
}

#[test]
fn the_table_of_metrics_is_the_one_that_the_source_is_held_to() {
    assert!(readme().contains(&metrics()), "the README's metrics should be:\n{}", metrics());
}

#[test]
fn the_screen_is_a_real_one() {
    let mut state = demo::open("13b_long_sequence");
    demo::run(&mut state, 300);
    let screen = demo::screen(&state, &demo::look(), (120, 40));
    assert!(readme().contains(&screen), "the README's screen should be:\n{screen}");
}
