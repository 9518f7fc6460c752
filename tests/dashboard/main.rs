//! The dashboard from outside: the built program in a pseudo-terminal, with keys, signals and a
//! driver stand-in. What is expected comes from the contract and the scenario, never from the
//! program; no predicted figure is asserted here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/demo.rs"]
mod demo;
#[path = "../support/screen.rs"]
mod screen;
#[path = "../support/standin.rs"]
mod standin;
#[path = "../support/terminal.rs"]
mod terminal;

mod attended;
mod bad_input;
mod calibration;
mod edges;
mod files;
mod monitor;
mod namespaces;
mod opening;
mod output;
mod plan;
mod progress;
mod recording;
mod recovery;
mod searching;
mod signals;
mod sources;
