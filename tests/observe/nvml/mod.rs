//! The NVML source against the driver stand-in: real library loading, real C calls, a scenario
//! in place of a GPU. Expected values are those of the scenario, in the units of the house.

mod counters;
mod failures;
mod metrics;
mod values;

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::standin::{RealProcess, Steered, in_child, library, library_without, wait_for};
use memwall::observe::{Nvml, NvmlOpenError, SharedRequirements, Source, SourceReport, spawn};
use memwall::reading::{
    Absence, DetailTarget, DeviceMemory, DeviceProcess, DeviceSample, Moment, ProcessWork, Reading, ReadingKind,
    RequiredMetrics, Sample, SourceKind,
};
use memwall::units::{Bytes, BytesPerSec, Celsius, Fraction, Megahertz, Watts};
use tokio::sync::mpsc;

/// An H100 as it reports itself.
const H100: &str = "
log: LOG
driver: '550.54.15'
cuda: 12040
gpus:
  - name: NVIDIA H100 80GB HBM3
    uuid: GPU-5c93f0ea
    memory: { total: 85520809984, reserved: 617611264, used: 76450000000 }
    busy: 97
    memory_busy: 40
    power: 612345
    power_limit: 700000
    temperature: 67
    sm_clock: 1755
    sm_clock_max: 1980
    memory_clock: 2619
    memory_clock_max: 2619
    bus_width: 5120
    throttle: 4
";

/// Peak bandwidth of that GPU: 5120 bits / 8 x 2 x 2619 MHz.
const PEAK: f64 = 640.0 * 2.0 * 2619e6;

fn now() -> Moment {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Moment(u64::try_from(since.as_millis()).unwrap())
}

fn nvml(requirements: &SharedRequirements) -> Nvml {
    Nvml::open(Some(library()), requirements.clone()).unwrap_or_else(|error| panic!("{error}"))
}

fn at(reading: &Reading<impl PartialEq>) -> Option<Moment> {
    match reading {
        Reading::Known { at, .. } => Some(*at),
        Reading::Absent(_) => None,
    }
}

/// Samples until a device is as wanted.
fn sample_until(source: &mut Nvml, what: &str, wanted: impl Fn(&DeviceSample) -> bool) -> DeviceSample {
    let mut last = DeviceSample::default();
    wait_for(what, || {
        last = source.sample(now()).devices.remove(0);
        wanted(&last)
    });
    last
}
