//! A figure of a device over some time, in little room.

use super::{Absence, DeviceSample, Progress, Reading, ReadingKind};
use crate::units::BytesPerSec;

/// A metric that is followed over time: of a device, or of the run that is the same beside each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceMetric {
    /// Device memory in use, in bytes.
    Memory,
    /// DRAM traffic, in bytes a second.
    Bandwidth,
    /// Share of peak of the matrix units.
    Tensor,
    /// Power drawn, in watts.
    Power,
    /// Time of a step of the run, in seconds.
    StepTime,
    /// The run's loss.
    Loss,
    /// Share of time with a kernel running.
    Busy,
    /// Temperature, in °C.
    Temperature,
    /// Clock of the multiprocessors, in MHz.
    Clock,
    /// Bytes over PCIe, both ways, a second.
    Pcie,
    /// Bytes over NVLink, both ways, a second.
    NvLink,
}

impl DeviceMetric {
    /// All of them, in the order in which they are drawn.
    pub const ALL: [Self; 11] = [
        Self::Memory,
        Self::Bandwidth,
        Self::Tensor,
        Self::Power,
        Self::StepTime,
        Self::Loss,
        Self::Busy,
        Self::Temperature,
        Self::Clock,
        Self::Pcie,
        Self::NvLink,
    ];

    /// Those that every device has of its own.
    pub const OF_DEVICES: [Self; 9] = [
        Self::Memory,
        Self::Bandwidth,
        Self::Tensor,
        Self::Power,
        Self::Busy,
        Self::Temperature,
        Self::Clock,
        Self::Pcie,
        Self::NvLink,
    ];

    /// Those of the run: the same at each of its devices.
    pub const OF_RUN: [Self; 2] = [Self::StepTime, Self::Loss];

    /// Those that a summary of a recording has.
    pub const SUMMARISED: [Self; 4] = [Self::Memory, Self::Bandwidth, Self::Tensor, Self::Power];

    /// What it is called on the screen.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Bandwidth => "DRAM",
            Self::Tensor => "tensor",
            Self::Power => "power",
            Self::StepTime => "step",
            Self::Loss => "loss",
            Self::Busy => "busy",
            Self::Temperature => "temp",
            Self::Clock => "clock",
            Self::Pcie => "PCIe",
            Self::NvLink => "NVLink",
        }
    }

    /// The metric after this one; the first after the last.
    #[must_use]
    pub fn next(self) -> Self {
        Self::ALL.into_iter().cycle().skip_while(|metric| *metric != self).nth(1).unwrap_or(self)
    }

    /// The metric of a device, as a plain number with its kind; the run's own ones are not here.
    #[must_use]
    pub fn of(self, device: &DeviceSample) -> Reading<f64> {
        let both = |one: &Reading<BytesPerSec>, other: &Reading<BytesPerSec>| match other.value() {
            Some(other) => one.map(|one| one.0 + other.0),
            None => other.map(|rate| rate.0),
        };
        match self {
            Self::Memory => device.memory.map(|memory| memory.used.as_f64()),
            Self::Bandwidth => device.dram_bandwidth.map(|rate| rate.0),
            Self::Tensor => device.tensor_activity.map(|share| share.0),
            Self::Power => device.power.map(|power| power.0),
            Self::Busy => device.busy.map(|share| share.0),
            Self::Temperature => device.temperature.map(|degrees| degrees.0),
            Self::Clock => device.sm_clock.map(|clock| clock.0),
            Self::Pcie => both(&device.links.pcie_received, &device.links.pcie_sent),
            Self::NvLink => both(&device.links.nvlink_received, &device.links.nvlink_sent),
            Self::StepTime | Self::Loss => Reading::not_read(),
        }
    }

    /// The metric of the run, where it is one.
    #[must_use]
    pub fn of_run(self, progress: Option<&Progress>) -> Option<Reading<f64>> {
        let none = || Reading::Absent(Absence::Because("no run tells it: attach to one".into()));
        match self {
            Self::StepTime => Some(progress.map_or_else(none, |progress| progress.step_time.map(|time| time.0))),
            Self::Loss => Some(progress.map_or_else(none, |progress| progress.loss.clone())),
            _ => None,
        }
    }
}

/// The lowest, highest and mean of the values of some time, and the least certain of their kinds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    sum: f64,
    count: u32,
    /// Measured where all were.
    pub kind: ReadingKind,
}

impl Spread {
    /// Of one value.
    #[must_use]
    pub const fn of(value: f64, kind: ReadingKind) -> Self {
        Self { low: value, high: value, sum: value, count: 1, kind }
    }

    /// Of so many values whose lowest, highest and mean are these.
    #[must_use]
    pub fn of_many(low: f64, high: f64, mean: f64, count: u32, kind: ReadingKind) -> Self {
        Self { low, high, sum: mean * f64::from(count), count, kind }
    }

    /// How many values.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Of the values of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            sum: self.sum + other.sum,
            count: self.count.saturating_add(other.count),
            kind: self.kind.weaker(other.kind),
        }
    }

    /// The mean of the values.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.sum / f64::from(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_stay_and_every_value_weighs_the_same() {
        let all = [1.0, 2.0, 9.0].map(|value| Spread::of(value, ReadingKind::Measured)).into_iter();
        let bound = Spread::of(0.0, ReadingKind::UpperBound);
        let spread = all.reduce(Spread::with).unwrap().with(bound);
        // (1 + 2 + 9 + 0) / 4 = 3
        assert_eq!((spread.low, spread.high, spread.mean(), spread.kind), (0.0, 9.0, 3.0, ReadingKind::UpperBound));
    }
}
