#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
//! The plan and what it predicts: everything of MemWall that needs neither a screen nor a run. The `memwall` crate shows
//! these modules as its own, and its documentation has their map.

pub mod printable;

pub mod files;

#[doc(hidden)]
pub mod packed;

#[doc(hidden)]
pub mod order;

pub mod units;

pub mod reading;

pub mod catalog;

pub mod plan;

pub mod framework;

pub mod model;

pub mod predict;

pub mod bench;
