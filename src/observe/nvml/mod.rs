//! The NVIDIA driver, through NVML.
//!
//! Every call can fail alone, at any time, or never return. So each has a reading of its own;
//! a GPU that falls off the bus keeps its place and is looked for again on every tick; and the
//! whole source lives on a thread that nobody waits for.

mod absence;
mod cached_answer;
mod close;
mod counters;
mod device;
mod events;
mod facts;
mod health;
mod load;
mod memory;
mod metrics;
mod parts;
mod processes;
mod totals;

use std::path::PathBuf;

use nvml_wrapper::Nvml as Library;

pub use load::{LIBRARY_VARIABLE, NvmlOpenError};

pub use metrics::{METRICS, Metric, QueryInterval};

use device::NvmlDevice;
use events::Events;

use super::process::HostFacts;
use super::{SharedRequirements, Source};
use crate::reading::{DeviceSample, Moment, RequiredMetrics, Sample, SourceInfo, SourceKind};

/// The NVIDIA GPUs of this machine.
pub struct Nvml {
    library: &'static Library,
    detail: String,
    cards: Vec<NvmlDevice>,
    events: Events,
    hosts: HostFacts,
    requirements: SharedRequirements,
}

impl Nvml {
    /// Starts the driver's library: the one at `library` if given, else the one that the
    /// environment variable [`LIBRARY_VARIABLE`] names, else the system's.
    ///
    /// # Errors
    /// When there is no library, no driver or no GPU.
    pub fn open(library: Option<PathBuf>, requirements: SharedRequirements) -> Result<Self, NvmlOpenError> {
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
        let cards = (0..count).map(NvmlDevice::new).collect();
        Ok(Self { library, detail, cards, events: Events::default(), hosts: HostFacts::new(), requirements })
    }

    /// The last critical error of each GPU, on the GPU itself.
    fn put_events(&mut self, devices: &mut [DeviceSample], wanted: &RequiredMetrics, now: Moment) {
        if !wanted.health {
            return self.events.stop();
        }
        self.events.listen(self.library, self.cards.iter().filter_map(NvmlDevice::there));
        self.events.hear(now);
        for device in devices.iter_mut().filter(|device| device.mig.is_none()) {
            device.health.xids = self.events.of(device.index, now);
        }
    }
}

impl Source for Nvml {
    fn info(&self) -> SourceInfo {
        SourceInfo { kind: SourceKind::Nvml, detail: self.detail.clone() }
    }

    fn sample(&mut self, now: Moment) -> Sample {
        let wanted = self.requirements.get();
        let mut devices: Vec<DeviceSample> =
            self.cards.iter_mut().flat_map(|card| card.sample(self.library, now, &wanted)).collect();
        self.put_events(&mut devices, &wanted, now);
        let mut processes = self.hosts.of(&pids(&devices, wanted.process), now);
        self.hosts.waits(processes.iter_mut().filter(|process| Some(process.pid) == wanted.process), now);
        let children = if wanted.processes { self.hosts.closely(&mut processes, now) } else { Vec::new() };
        Sample { at: now, devices, processes, children, ..Sample::default() }
    }
}

/// The processes on any device and the one that was asked for, in order.
pub(super) fn pids(devices: &[DeviceSample], asked: Option<u32>) -> Vec<u32> {
    let on_devices = devices.iter().filter_map(|device| device.processes.value()).flatten().map(|process| process.pid);
    let mut pids: Vec<u32> = on_devices.chain(asked).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}
