//! The commands as a shell sees them, what the pages say of them, and the order of the modules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod bundled;
mod cli;
mod dependencies;
mod docs;
mod infer;
mod layering;
mod models;
mod names;
mod pages;
mod questions;
mod stream;
mod tools;
