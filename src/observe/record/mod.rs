//! Telemetry to a file, and back.
//!
//! A recording is lines of JSON: a [`Header`] with the schema's version, the units and the plan
//! of the time, then one sample a line. Every line stands alone, so that whatever was written
//! before a kill, a full disk or a bad sector can be read.

mod event;
mod format;
mod lines;
mod out;
mod player;
mod reader;
mod samples;
mod writer;

pub use format::{Header, PlanText, VERSION};
pub use player::Replay;
pub use reader::{Damage, OpenError, Recording};
pub use samples::Samples;
pub use writer::{Compression, Recorder, RecordingTotals, Rotation};

#[cfg(test)]
mod tests;
