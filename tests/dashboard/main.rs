//! The dashboard from outside: the built program in a pseudo-terminal, with keys, signals and a
//! driver stand-in. What is expected comes from the contract and the scenario, never from the
//! program; no predicted figure is asserted here.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod attached;
mod attended;
mod bad_input;
mod calibration;
mod edges;
mod files;
mod help;
mod host;
mod monitor;
mod namespaces;
mod opening;
mod output;
mod plan;
mod progress;
mod recording;
mod recovery;
mod run_summary;
mod searching;
mod session;
mod signals;
mod slow_terminals;
mod sources;

use support::{demo, standin, terminal};
