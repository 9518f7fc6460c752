#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
//! MemWall: does this training run do what its plan says, and if not, why?
//!
//! Everything follows one road:
//!
//! ```text
//! plan ─▶ predict ─▶ observe ─▶ compare ─▶ show
//! ```

pub mod units;

pub mod reading;

pub mod catalog;

pub mod plan;

pub mod model;

pub mod predict;

pub mod report;

pub mod cli;
