#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
//! Where facts come from. A [`Source`] answers with a [`Sample`] whenever it is
//! asked; [`spawn`] keeps one on a thread of its own and hands what it says to the
//! owner of the state as [`SourceReport`]s.
//!
//! Sources never interpret. Whatever they could not read is an absence with its
//! reason, and each figure tells whether it was measured, bounded or derived.

use memwall_core::{catalog, files, order, packed, plan, predict, reading, units};

/// Makes one Python file of several: the first has the imports, the others are its sections.
macro_rules! one_python_file {
    ($first:literal $(, $other:literal)*) => {
        concat!(include_str!($first) $(, "\n\n", include_str!($other))*)
    };
}

mod amdgpu;
pub mod bench;
mod command;
mod demo;
mod follow;
pub mod hook;
mod host;
pub mod log;
mod nvml;
mod on_demand;
mod open;
pub mod out_of_memory;
mod process;
mod prometheus;
mod record;
pub mod snapshot;
mod thread;
pub mod trace;

pub use amdgpu::{Amdgpu, NoAmdGpu};
pub use command::{ProcessCommand, ProcessError, is_below, regular_file};
pub use demo::{Demo, Departure, DepartureError};
pub use follow::{FollowOptions, RunFollower, follow};
pub use host::{Host, is_process};
pub use nvml::{LIBRARY_VARIABLE, METRICS, Metric, Nvml, NvmlOpenError, QueryInterval};
pub use on_demand::{OnDemand, spawn_on_demand};
pub use open::{ROOT_VARIABLE, SourceChoice, SourceContext, SourceError, open};
pub use process::{End, EndError, ExitWatch, OomKills, end, sees_all_processes, waited_for_core};
pub use prometheus::access::{Access, AccessError, Authorization, Secret};
pub use prometheus::{FetchError, Prometheus, PrometheusError};
pub use record::{
    Compression, Damage, Header, OpenError, PlanText, Recorder, Recording, RecordingTotals, Replay, Rotation, Samples,
    VERSION,
};
pub use thread::{Handle, spawn};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::reading::playback::{Playback, PlaybackCommand};
use crate::reading::{Moment, RequiredMetrics, Sample, SourceInfo};

/// Something that can be asked for the state of the devices.
pub trait Source: Send {
    /// What it is, for the header.
    fn info(&self) -> SourceInfo;

    /// Everything that it sees now. May block for as long as a driver does.
    fn sample(&mut self, now: Moment) -> Sample;

    /// How long from now until the next sample is due, where one is wanted every `interval`;
    /// none: not before somebody steers it.
    fn pause(&self, interval: Duration) -> Option<Duration> {
        Some(interval)
    }

    /// Where a recording stands; none for what is live.
    fn playback(&self) -> Option<Playback> {
        None
    }

    /// Does what somebody wants of a recording.
    fn steer(&mut self, _steer: PlaybackCommand) {}
}

/// What a source's thread says.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceReport {
    /// The source is open; samples follow.
    Started(SourceInfo),
    /// One sample.
    Sample(Sample),
    /// Where a recording stands now, and what it showed on the way there.
    Played(Playback, Vec<Sample>),
    /// The source could not be opened. Nothing follows.
    Failed(String),
}

/// What somebody wants to see, shared between the owner of the state, who sets it, and
/// the sources, which leave out what costs something and nobody looks at.
///
/// Clones share the same wishes.
#[derive(Debug, Clone, Default)]
pub struct SharedRequirements {
    wanted: Arc<Mutex<RequiredMetrics>>,
}

impl SharedRequirements {
    /// Nothing beyond what every sample has.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Everything that a source has.
    #[must_use]
    pub fn everything() -> Self {
        let requirements = Self::default();
        requirements.set(RequiredMetrics::everything());
        requirements
    }

    /// From now on this is wanted.
    pub fn set(&self, wanted: RequiredMetrics) {
        *self.lock() = wanted;
    }

    /// What is wanted now.
    #[must_use]
    pub fn get(&self) -> RequiredMetrics {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, RequiredMetrics> {
        // A plain value is whole even when its holder panicked.
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
