//! The dashboard without a terminal: keys and events go in, the state and drawn screens come out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod attended;
mod cluster;
mod curves;
mod editor;
mod edits;
mod explained;
mod fleet;
mod frames;
mod habits;
mod job_verdicts;
mod keys;
mod lesson;
mod many_gpus;
mod mouse;
mod of_the_job;
mod operators;
mod places;
mod proposal;
mod run_and_draft;
mod snapshots;
mod tasks;
mod themes;
mod tutorial;
mod verdicts;
