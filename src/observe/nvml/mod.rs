//! The NVIDIA driver, through NVML.
//!
//! Every call can fail alone, at any time, or never return. So each has a reading of its own;
//! a card that falls off the bus keeps its place and is looked for again on every tick; and the
//! whole source lives on a thread that nobody waits for.

mod absence;
mod card;
mod counters;
mod load;

use std::path::PathBuf;

use nvml_wrapper::Nvml as Library;

pub use load::{LIBRARY_VARIABLE, NvmlOpenError};

use card::Card;

use super::process::HostFacts;
use super::{Source, Wants};
use crate::reading::{DeviceSample, Moment, Sample, SourceInfo, SourceKind};

/// The NVIDIA GPUs of this machine.
pub struct Nvml {
    library: &'static Library,
    detail: String,
    cards: Vec<Card>,
    hosts: HostFacts,
    wants: Wants,
}

impl Nvml {
    /// Starts the driver's library: the one at `library` if given, else the one that the
    /// environment variable [`LIBRARY_VARIABLE`] names, else the system's.
    ///
    /// # Errors
    /// When there is no library, no driver or no GPU.
    pub fn open(library: Option<PathBuf>, wants: Wants) -> Result<Self, NvmlOpenError> {
        let library = load::library(library)?;
        let count = library.device_count().map_err(|error| NvmlOpenError::Other(error.to_string()))?;
        if count == 0 {
            return Err(NvmlOpenError::NoDevices);
        }
        let detail = load::versions(&library);
        // A sample of the counters borrows the library and has to outlive the tick that took it.
        // The library is needed until the program ends, and is opened once: leaking it gives it
        // that lifetime without a self-referential struct.
        let library: &'static Library = Box::leak(Box::new(library));
        Ok(Self { library, detail, cards: (0..count).map(Card::new).collect(), hosts: HostFacts::new(), wants })
    }
}

impl Source for Nvml {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Nvml, detail: self.detail.clone() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let wanted = self.wants.counters();
        let devices: Vec<DeviceSample> =
            self.cards.iter_mut().map(|card| card.sample(self.library, now, wanted)).collect();
        let processes = self.hosts.of(&pids(&devices), now);
        Sample { at: now, devices, processes, dropped: 0 }
    }
}

/// The processes on any device, in order.
fn pids(devices: &[DeviceSample]) -> Vec<u32> {
    let mut pids: Vec<u32> =
        devices.iter().filter_map(|device| device.processes.value()).flatten().map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
