//! The commands as a shell sees them, what the README says of them, and the order of the modules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod cli;
mod figures;
mod infer;
mod layering;
mod readme;
