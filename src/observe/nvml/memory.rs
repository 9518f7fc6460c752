//! Device memory, also of drivers that are too old to tell it to us.

use nvml_wrapper::Device;

use super::absence::MetricReader;
use crate::catalog::Catalog;
use crate::reading::{Absence, DeviceMemory, DeviceProcess, DeviceSample, Moment, Reading};
use crate::units::{Bytes, BytesPerSec};
use procfs::Current as _;

/// Fills in what the driver says.
pub fn put(sample: &mut DeviceSample, device: &Device<'static>, reader: &mut MetricReader) {
    let memory = reader.read(|| device.memory_info());
    sample.memory_reserved = memory.map(|memory| Bytes(memory.reserved));
    sample.memory = memory.map(|memory| DeviceMemory {
        total: Bytes(memory.total),
        used: Bytes(memory.used),
        free: Bytes(memory.free),
    });
}

/// What the catalogue knows of a GPU by its name, looked up once.
#[derive(Debug, Default)]
pub struct KnownCard(Option<Option<CardMemory>>);

/// A GPU's memory by the catalogue.
#[derive(Debug, Clone, Copy)]
struct CardMemory {
    total: Bytes,
    bandwidth: BytesPerSec,
    /// It is the host's.
    unified: bool,
}

impl KnownCard {
    fn of(&mut self, name: &str) -> Option<CardMemory> {
        *self.0.get_or_insert_with(|| {
            let catalog = Catalog::embedded().ok()?;
            let card = catalog.gpu(name)?;
            Some(CardMemory { total: card.memory, bandwidth: card.bandwidth, unified: card.unified })
        })
    }

    /// The catalogue's bandwidth, where the driver tells no bus width or no clock.
    pub fn put_peak(&mut self, sample: &mut DeviceSample, now: Moment) {
        if sample.dram_peak.absence() != Some(&Absence::NotSupported) {
            return;
        }
        let known = sample.name.value().and_then(|name| self.of(name));
        if let Some(card) = known {
            sample.dram_peak = Reading::estimated(card.bandwidth, now);
        }
    }

    /// Drivers before 510 lack `nvmlDeviceGetMemoryInfo_v2`, the only memory function that the
    /// wrapper offers: what the processes hold together, of the size that the catalogue has for
    /// a GPU of that name, is an estimate.
    /// A GPU without memory of its own (GB10) has the host's, of which the kernel tells what is left.
    pub fn estimate(&mut self, sample: &mut DeviceSample, now: Moment) {
        if sample.memory.absence() != Some(&Absence::NotSupported) {
            return;
        }
        let known = sample.name.value().and_then(|name| self.of(name));
        if known.is_some_and(|card| card.unified) {
            if let Some(memory) = of_host() {
                sample.memory = Reading::measured(memory, now);
            }
            // Its traffic is not counted: the driver says 0 % while it computes.
            if sample.memory_busy.value().is_some_and(|busy| busy.0 == 0.0) {
                sample.memory_busy = Reading::Absent(Absence::NotSupported);
            }
            return;
        }
        let Reading::Known { value: processes, at, .. } = &sample.processes else { return };
        let held = |process: &DeviceProcess| process.memory.value().copied();
        let used = processes.iter().map(held).sum::<Option<Bytes>>();
        if let (Some(CardMemory { total, .. }), Some(used)) = (known, used) {
            let memory = DeviceMemory { total, used, free: total.saturating_sub(used) };
            sample.memory = Reading::estimated(memory, *at);
        }
    }
}

/// The host's memory: what its processes and a GPU without memory of its own share.
fn of_host() -> Option<DeviceMemory> {
    let read = procfs::Meminfo::current().ok()?;
    let (total, free) = (Bytes(read.mem_total), Bytes(read.mem_available?));
    Some(DeviceMemory { total, used: total.saturating_sub(free), free })
}
