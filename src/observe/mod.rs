//! Where facts come from. A [`Source`] answers with a [`Sample`] whenever it is
//! asked; [`spawn`] keeps one on a thread of its own and hands what it says to the
//! owner of the state as [`Report`]s.
//!
//! Sources never interpret. Whatever they could not read is an absence with its
//! reason, and each figure tells whether it was measured, bounded or derived.

mod command;
mod demo;
mod nvml;
mod open;
mod process;
mod thread;

pub use command::{Command, regular_file};
pub use demo::Demo;
pub use nvml::{LIBRARY_VARIABLE, Nvml, NvmlOpenError};
pub use open::{Choice, open};
pub use thread::{Stopper, spawn};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::reading::{Moment, Sample, SourceInfo};

/// Something that can be asked for the state of the devices.
pub trait Source: Send {
    /// What it is, for the header.
    fn info(&self) -> SourceInfo;

    /// Everything that it sees now. May block for as long as a driver does.
    fn sample(&mut self, now: Moment) -> Sample;
}

/// What a source's thread says.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The source is open; samples follow.
    Started(SourceInfo),
    /// One sample.
    Sample(Sample),
    /// The source could not be opened. Nothing follows.
    Failed(String),
}

/// What somebody wants to see, shared between the owner of the state, who sets it, and
/// the sources, which leave out what costs something and nobody looks at.
///
/// Clones share the same wishes.
#[derive(Debug, Clone, Default)]
pub struct Wants {
    counters: Arc<AtomicBool>,
}

impl Wants {
    /// Nothing beyond what is free.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Everything that a source has.
    #[must_use]
    pub fn everything() -> Self {
        let wants = Self::default();
        wants.set_counters(true);
        wants
    }

    /// Whether the GPU's performance counters (GPM) shall be sampled. They are shared
    /// hardware: a profiler beside us may want them.
    pub fn set_counters(&self, wanted: bool) {
        // Nothing else is published through the flag: a tick that sees it late is no harm.
        self.counters.store(wanted, Ordering::Relaxed);
    }

    /// Whether performance counters are wanted.
    #[must_use]
    pub fn counters(&self) -> bool {
        self.counters.load(Ordering::Relaxed)
    }
}
