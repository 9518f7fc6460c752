//! Where facts come from. A [`Source`] answers with a [`Sample`] whenever it is
//! asked; [`spawn`] keeps one on a thread of its own and hands what it says to the
//! owner of the state as [`Report`]s.
//!
//! Sources never interpret. Whatever they could not read is an absence with its
//! reason, and each figure tells whether it was measured, bounded or derived.

mod amdgpu;
mod command;
mod demo;
mod follow;
pub mod hook;
pub mod log;
mod nvml;
mod open;
pub mod out_of_memory;
mod process;
mod prometheus;
mod record;
pub mod snapshot;
mod thread;
pub mod trace;

pub use amdgpu::Amdgpu;
pub use command::{Command, regular_file};
pub use demo::{Demo, Departure};
pub use follow::{Follow, Following, follow};
pub use nvml::{Asked, LIBRARY_VARIABLE, METRICS, Metric, Nvml, NvmlOpenError};
pub use open::{Choice, Means, ROOT_VARIABLE, open};
pub use process::{End, end};
pub use prometheus::Prometheus;
pub use record::{
    Compression, Damage, Header, OpenError, PlanText, Recorder, Recording, Replay, Rotation, Samples, VERSION, Written,
};
pub use thread::{Handle, spawn};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::reading::playback::{Playback, Steer};
use crate::reading::{Moment, Sample, SourceInfo, Wanted};

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
    fn steer(&mut self, _steer: Steer) {}
}

/// What a source's thread says.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
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
pub struct Wants {
    wanted: Arc<Mutex<Wanted>>,
}

impl Wants {
    /// Nothing beyond what every sample has.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Everything that a source has.
    #[must_use]
    pub fn everything() -> Self {
        let wants = Self::default();
        wants.set(Wanted::everything());
        wants
    }

    /// From now on this is wanted.
    pub fn set(&self, wanted: Wanted) {
        *self.lock() = wanted;
    }

    /// What is wanted now.
    #[must_use]
    pub fn get(&self) -> Wanted {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        // A plain value is whole even when its holder panicked.
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
