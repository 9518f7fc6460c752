//! What tests share: the catalogue, measured cases, a dashboard without a terminal, a program in one, the driver's stand-in.
#![allow(dead_code, reason = "each test binary uses its part of this")]

pub mod demo;
pub mod plan;
pub mod screen;
pub mod standin;
pub mod terminal;
pub mod truth;

use std::sync::OnceLock;

use memwall::catalog::Catalog;

/// The catalogue inside the program, read once.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::embedded().unwrap())
}
