//! The GPU's performance counters (GPM, Hopper and later): what the streaming multiprocessors,
//! the matrix units and the DRAM really did between two samples.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml as Library};

use super::absence::absence;
use crate::reading::{Absence, Counters, Moment, Reading};
use crate::units::{BytesPerSec, Fraction};

/// NVML has nothing to say about samples that are closer.
const LEAST: Duration = Duration::from_millis(100);

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// A counter, and the figure that it is.
type Counter = (GpmMetricId, fn(&mut CounterValues, &Reading<f64>));

/// All that is asked for.
const COUNTERS: [Counter; 14] = [
    (GpmMetricId::SmUtil, |figures, percent| figures.sm = share(percent)),
    (GpmMetricId::AnyTensorUtil, |figures, percent| figures.tensor = share(percent)),
    (GpmMetricId::DramBwUtil, |figures, percent| figures.dram = share(percent)),
    (GpmMetricId::SmOccupancy, |figures, percent| figures.more.occupancy = share(percent)),
    (GpmMetricId::HmmaTensorUtil, |figures, percent| figures.more.tensor_half = share(percent)),
    (GpmMetricId::ImmaTensorUtil, |figures, percent| figures.more.tensor_integer = share(percent)),
    (GpmMetricId::DfmaTensorUtil, |figures, percent| figures.more.tensor_double = share(percent)),
    (GpmMetricId::Fp64Util, |figures, percent| figures.more.fp64 = share(percent)),
    (GpmMetricId::Fp32Util, |figures, percent| figures.more.fp32 = share(percent)),
    (GpmMetricId::Fp16Util, |figures, percent| figures.more.fp16 = share(percent)),
    (GpmMetricId::PcieRxPerSec, |figures, mebibytes| figures.pcie_received = rate(mebibytes)),
    (GpmMetricId::PcieTxPerSec, |figures, mebibytes| figures.pcie_sent = rate(mebibytes)),
    (GpmMetricId::NvlinkTotalRxPerSec, |figures, mebibytes| figures.nvlink_received = rate(mebibytes)),
    (GpmMetricId::NvlinkTotalTxPerSec, |figures, mebibytes| figures.nvlink_sent = rate(mebibytes)),
];

/// What the counters say.
#[derive(Debug, Clone, Default)]
pub struct CounterValues {
    /// Share of the multiprocessors that had work.
    pub sm: Reading<Fraction>,
    /// Share of the matrix units' peak.
    pub tensor: Reading<Fraction>,
    /// Share of the DRAM's peak bandwidth.
    pub dram: Reading<Fraction>,
    /// The rest of the shares.
    pub more: Counters,
    /// Bytes that came over PCIe.
    pub pcie_received: Reading<BytesPerSec>,
    /// Bytes that went over PCIe.
    pub pcie_sent: Reading<BytesPerSec>,
    /// Bytes that came over all NVLinks.
    pub nvlink_received: Reading<BytesPerSec>,
    /// Bytes that went over all NVLinks.
    pub nvlink_sent: Reading<BytesPerSec>,
}

impl CounterValues {
    /// Nothing, for one reason.
    pub fn absent(why: &Absence) -> Self {
        let mut figures = Self::default();
        for (_, put) in COUNTERS {
            put(&mut figures, &Reading::Absent(why.clone()));
        }
        figures
    }
}

/// The counters of one GPU.
#[derive(Debug, Default)]
pub struct Sampler {
    support: Support,
    // Figures lie between two samples: the older one waits here for the next tick, with the time when it was taken,
    // which may be long after the tick began.
    older: Option<(GpmSample<'static>, Instant)>,
    last: CounterValues,
}

#[derive(Debug, Default)]
enum Support {
    #[default]
    Unknown,
    Yes,
    No(Absence),
}

impl Sampler {
    /// What the counters say now, if anybody wants to know.
    ///
    /// A GPU that is `split` by MIG is not sampled: that has made drivers refuse other calls
    /// until a restart.
    pub fn read(
        &mut self,
        library: &'static Library,
        device: &Device<'static>,
        now: Moment,
        wanted: bool,
        split: bool,
    ) -> CounterValues {
        if !wanted {
            // Frees the sample: the hardware is shared with profilers.
            self.older = None;
            self.last = CounterValues::default();
        } else if split {
            self.older = None;
            return CounterValues::absent(&Absence::NotSupported);
        } else if let Some(why) = self.missing(device) {
            return CounterValues::absent(&why);
        } else if self.older.as_ref().is_none_or(|(_, taken)| taken.elapsed() >= LEAST) {
            self.last = self.advance(library, device, now).unwrap_or_else(|error| {
                self.older = None;
                CounterValues::absent(&absence(&error))
            });
        }
        self.last.clone()
    }

    /// Gives the counters up for good: on some drivers they disturb other calls.
    pub fn give_up(&mut self) {
        if self.older.take().is_some() {
            self.support = Support::No(Absence::Failed("the counters disturb the driver's other answers".into()));
        }
    }

    /// Why this GPU has no counters, if so. Asked once.
    fn missing(&mut self, device: &Device<'static>) -> Option<Absence> {
        if matches!(self.support, Support::Unknown) {
            self.support = match device.gpm_support() {
                Ok(true) => Support::Yes,
                Ok(false) => Support::No(Absence::NotSupported),
                Err(error) => match absence(&error) {
                    why @ (Absence::NotSupported | Absence::NoPermission) => Support::No(why),
                    // May pass: asked again next time.
                    why => return Some(why),
                },
            };
        }
        match &self.support {
            Support::No(why) => Some(why.clone()),
            Support::Yes | Support::Unknown => None,
        }
    }

    /// Takes a sample and says what happened since the one before; nothing yet on the first.
    fn advance(
        &mut self,
        library: &'static Library,
        device: &Device<'static>,
        now: Moment,
    ) -> Result<CounterValues, NvmlError> {
        let newer = device.gpm_sample()?;
        let Some((older, _)) = self.older.replace((newer, Instant::now())) else {
            return Ok(CounterValues::absent(&Absence::TooShort));
        };
        let Some((newer, _)) = &self.older else { return Ok(CounterValues::default()) };
        let results = gpm_metrics_get(library, &older, newer, &COUNTERS.map(|(id, _)| id))?;
        let mut figures = CounterValues::absent(&Absence::NotSupported);
        // One result for each counter that was asked for.
        for ((_, put), result) in COUNTERS.into_iter().zip(results) {
            let value = result.map(|metric| Reading::measured(metric.value, now));
            put(&mut figures, &value.unwrap_or_else(|error| Reading::Absent(absence(&error))));
        }
        Ok(figures)
    }
}

/// A percentage from a counter. Counters that something else has just reset give nonsense.
fn share(percent: &Reading<f64>) -> Reading<Fraction> {
    plausible(percent, 0.0..=101.0).map(|percent| Fraction::from_percent(percent.min(100.0)))
}

/// A rate from a counter, which counts MiB a second. No link moves a petabyte.
fn rate(mebibytes: &Reading<f64>) -> Reading<BytesPerSec> {
    plausible(mebibytes, 0.0..=1e9).map(|mebibytes| BytesPerSec(mebibytes * MIB))
}

fn plausible(value: &Reading<f64>, range: RangeInclusive<f64>) -> Reading<f64> {
    match value {
        Reading::Known { value, .. } if !range.contains(value) => {
            Reading::Absent(Absence::Failed("the counter gave nonsense".into()))
        }
        value => value.clone(),
    }
}
