//! What tests share: the catalogue, measured cases, a dashboard without a terminal, a program in one, the driver's stand-in.
#![allow(dead_code, unused_imports, reason = "each test binary uses its part of this")]

pub mod demo;
pub mod plan;
pub mod program;
pub mod screen;
pub mod standin;
pub mod terminal;
pub mod truth;

use std::process::Command;
use std::sync::OnceLock;

use memwall::catalog::Catalog;

/// The catalogue inside the program, read once.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}

/// The program with every signal as a terminal has it. What a script starts in its background, or `nohup`, ignores
/// SIGINT or SIGHUP, and so would the program: coreutils' `env` ends that before it becomes the program.
pub fn memwall_with_all_signals() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_memwall")]);
    command
}
