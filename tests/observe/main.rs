//! What is read of a run: the driver, the hook, logs, recordings, memory snapshots.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod cluster;
mod events;
mod exporter;
mod hook;
mod log_numbers;
mod log_of_process;
mod logs;
mod messages;
mod nvml;
mod out_of_memory;
mod recording;
mod run_trace;
mod traced;
mod traced_classes;
mod traced_endings;
mod traced_faults;
mod traced_files;
mod traced_kept;
mod traced_refusals;
mod traced_scripts;
mod traced_users;
