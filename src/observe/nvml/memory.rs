//! Device memory, also of drivers that are too old to tell it to us.

use nvml_wrapper::Device;

use super::absence::MetricReader;
use crate::catalog::Catalog;
use crate::reading::{Absence, DeviceMemory, DeviceProcess, DeviceSample, Moment, Reading};
use crate::units::{Bytes, BytesPerSec};

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

/// Size and bandwidth of a GPU by its name, looked up once.
#[derive(Debug, Default)]
pub struct KnownCard(Option<Option<(Bytes, BytesPerSec)>>);

impl KnownCard {
    fn of(&mut self, name: &str) -> Option<(Bytes, BytesPerSec)> {
        *self.0.get_or_insert_with(|| {
            let catalog = Catalog::embedded().ok()?;
            let card = catalog.gpu(name)?;
            Some((card.memory, card.bandwidth))
        })
    }

    /// The catalogue's bandwidth, where the driver tells no bus width or no clock.
    pub fn put_peak(&mut self, sample: &mut DeviceSample, now: Moment) {
        if sample.dram_peak.absence() != Some(&Absence::NotSupported) {
            return;
        }
        let known = sample.name.value().and_then(|name| self.of(name));
        if let Some((_, bandwidth)) = known {
            sample.dram_peak = Reading::estimated(bandwidth, now);
        }
    }

    /// Drivers before 510 lack `nvmlDeviceGetMemoryInfo_v2`, the only memory function that the
    /// wrapper offers: what the processes hold together, of the size that the catalogue has for
    /// a GPU of that name, is an estimate.
    pub fn estimate(&mut self, sample: &mut DeviceSample) {
        if sample.memory.absence() != Some(&Absence::NotSupported) {
            return;
        }
        let (Reading::Known { value: name, .. }, Reading::Known { value: processes, at, .. }) =
            (&sample.name, &sample.processes)
        else {
            return;
        };
        let size = self.of(name).map(|(size, _)| size);
        let held = |process: &DeviceProcess| process.memory.value().copied();
        let used = processes.iter().map(held).sum::<Option<Bytes>>();
        if let (Some(total), Some(used)) = (size, used) {
            let memory = DeviceMemory { total, used, free: total.saturating_sub(used) };
            sample.memory = Reading::estimated(memory, *at);
        }
    }
}
