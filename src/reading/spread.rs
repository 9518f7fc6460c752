//! A figure of a device over some time, in little room.

use super::{DeviceSample, Reading, ReadingKind};

/// A figure of a device that is followed over time.
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
}

impl DeviceMetric {
    /// All of them, in the order in which they are drawn.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Bandwidth, Self::Tensor, Self::Power];

    /// What it is called on the screen.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Bandwidth => "DRAM",
            Self::Tensor => "tensor",
            Self::Power => "power",
        }
    }

    /// The figure of a device, as a plain number with its kind.
    #[must_use]
    pub fn of(self, device: &DeviceSample) -> Reading<f64> {
        match self {
            Self::Memory => device.memory.map(|memory| memory.used.as_f64()),
            Self::Bandwidth => device.dram_bandwidth.map(|rate| rate.0),
            Self::Tensor => device.tensor_activity.map(|share| share.0),
            Self::Power => device.power.map(|power| power.0),
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
