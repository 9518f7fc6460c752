//! `memwall bench`: what a machine's kernels reach, measured by PyTorch (`observe` has the program) and fitted to
//! the curves of the catalogue, with the same model of kernels that predicts.
//!
//! ```
//! # use memwall_core as memwall;
//! use memwall::bench::Rows;
//!
//! let rows = Rows::read(r#"{"kernel": "machine", "device": "cpu", "name": "EPYC", "date": "2026-11-23", "torch": "2.9.1",
//!     "multiprocessors": 2, "memory_bytes": 16000000000}"#.replace('\n', " ").as_str());
//! assert_eq!(rows.unwrap().machine.multiprocessors, 2.0);
//! ```

mod attention;
mod convolutions;
mod entry;
mod fitted;
mod links;
mod matmuls;
mod memory;
mod rows;
mod search;
#[cfg(test)]
mod tests;

pub use entry::{MeasuredFile, MergeError};
pub use fitted::{BenchError, Fitted, MeasuredLinks, fit};
pub use rows::{MeasuredMachine, Rows, RowsError};
