//! The parts of a GPU that are devices of their own (MIG).

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::absence::MetricReader;
use super::cached_answer::CachedAnswer;
use super::memory;
use super::processes::Processes;
use crate::reading::{Absence, DeviceSample, MigInstance, Moment, Reading};

/// The parts of one GPU.
#[derive(Debug, Default)]
pub struct Parts {
    found: CachedAnswer<MigLayout>,
}

/// Whether a GPU is split, and into what: perhaps nothing yet.
#[derive(Debug, Default)]
struct MigLayout {
    split: bool,
    parts: Vec<Part>,
}

/// One of them.
#[derive(Debug)]
struct Part {
    number: u32,
    device: Device<'static>,
    name: Reading<String>,
    uuid: Reading<String>,
    processes: Processes,
}

impl Parts {
    /// What each part says now; none where the GPU is whole.
    pub fn sample(
        &mut self,
        index: u32,
        device: &Device<'static>,
        reader: &mut MetricReader,
        now: Moment,
    ) -> Option<Vec<DeviceSample>> {
        let found = self.found.get(now, || match reader.read(|| find(device)) {
            Reading::Known { value, .. } => value,
            // A GPU that cannot be split answers that it is not supported.
            Reading::Absent(_) => MigLayout::default(),
        });
        found.split.then(|| found.parts.iter_mut().map(|part| part.sample(index, reader, now)).collect())
    }
}

/// The parts of a GPU in their order. Their numbers may have gaps.
fn find(device: &Device<'static>) -> Result<MigLayout, NvmlError> {
    let mut found = MigLayout { split: device.mig_mode()?.current != 0, parts: Vec::new() };
    let places = if found.split { device.mig_device_count()? } else { 0 };
    for number in 0..places {
        match device.mig_device_by_index(number) {
            Ok(device) => found.parts.push(Part {
                number,
                device,
                name: Reading::not_read(),
                uuid: Reading::not_read(),
                processes: Processes::default(),
            }),
            Err(NvmlError::NotFound | NvmlError::InvalidArg) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

impl Part {
    /// Memory and processes; utilization, power and the like belong to the whole GPU, and
    /// counters of parts have made drivers refuse other calls.
    fn sample(&mut self, index: u32, reader: &mut MetricReader, now: Moment) -> DeviceSample {
        let device = &self.device;
        reader.once(&mut self.name, || device.name());
        reader.once(&mut self.uuid, || device.uuid());
        let mut sample = DeviceSample {
            mig: Some(MigInstance { number: self.number }),
            name: self.name.clone(),
            uuid: self.uuid.clone(),
            ..DeviceSample::absent(index, &Absence::NotSupported)
        };
        memory::put(&mut sample, device, reader);
        sample.processes = self.processes.list(device, reader, now, false);
        sample
    }
}
