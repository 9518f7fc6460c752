//! What nearly every use of the library needs.
//!
//! ```
//! use memwall::prelude::*;
//!
//! let catalog = Catalog::embedded()?;
//! let plan = Document::parse("model: {preset: llama-3-8b, batch_size: 8}\ncluster: {num_gpus: 8}\n")
//!     .and_then(|document| document.plan())
//!     .map_err(|faults| faults[0].clone())?;
//! let job = Job::resolve(&plan, &catalog).map_err(|faults| faults[0].clone())?;
//! let prediction = predict(&job);
//! // Terms sum to the bytes that the driver charges to the process.
//! let terms: Bytes = prediction.largest().terms.iter().map(|term| term.bytes).sum();
//! assert_eq!(terms, prediction.largest().device_used);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What stands here keeps its names and meaning.

pub use crate::advise::{Advice, Axis, Sweep, advise, sweep};
pub use crate::catalog::Catalog;
pub use crate::plan::{Document, Fault, LoadedPlan, Plan};
pub use crate::predict::{Job, Prediction, predict};
pub use crate::report::Report;
pub use crate::units::{Bytes, Flops, Seconds};
