//! What a cell of the heat map stands for.

use crate::reading::{DeviceSample, Reading, ReadingKind};
use crate::units::Bytes;

/// A metric of the heat map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClusterMetric {
    /// Share of peak of the matrix units.
    #[default]
    Tensor,
    /// Share of the multiprocessors that had work.
    Sm,
    /// Share of time with a kernel running.
    Busy,
    /// DRAM traffic.
    Dram,
    /// Device memory in use.
    Memory,
    /// Device memory in use over what the plan predicts for the GPU's rank.
    OffPlan,
    /// Power drawn.
    Power,
    /// GPU temperature.
    Temperature,
    /// Clock of the multiprocessors.
    Clock,
    /// Time of an optimizer step of the rank.
    StepTime,
    /// Share of the time of steps that is no training: data, checkpoints, evaluation, garbage collection.
    Aside,
}

impl ClusterMetric {
    /// All of them, in the order of the key.
    pub const ALL: [Self; 11] = [
        Self::Tensor,
        Self::Sm,
        Self::Busy,
        Self::Dram,
        Self::Memory,
        Self::OffPlan,
        Self::Power,
        Self::Temperature,
        Self::Clock,
        Self::StepTime,
        Self::Aside,
    ];

    /// Whether processes tell it of their ranks, through memwall exporters.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        matches!(self, Self::StepTime | Self::Aside)
    }

    /// What it is called.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Sm => "SM active",
            Self::Busy => "busy",
            Self::Dram => "DRAM TB/s",
            Self::Memory => "memory GiB",
            Self::OffPlan => "memory off plan",
            Self::Power => "power W",
            Self::Temperature => "temp °C",
            Self::Clock => "clock MHz",
            Self::StepTime => "step s",
            Self::Aside => "not training",
        }
    }

    /// Its value on a GPU; `expected` is the memory that the plan predicts for its rank.
    #[must_use]
    pub fn value(self, device: &DeviceSample, expected: Option<Bytes>) -> Option<f64> {
        match self {
            Self::Tensor => device.tensor_activity.value().map(|share| share.0),
            Self::Sm => device.sm_activity.value().map(|share| share.0),
            Self::Busy => device.busy.value().map(|share| share.0),
            Self::Dram => device.dram_bandwidth.value().map(|rate| rate.0 / 1e12),
            Self::Memory => device.memory.value().map(|memory| memory.used.as_f64() / GIB),
            Self::OffPlan => {
                let expected = expected.filter(|expected| *expected > Bytes::ZERO)?;
                device.memory.value().map(|memory| memory.used.as_f64() / expected.as_f64() - 1.0)
            }
            Self::Power => device.power.value().map(|power| power.0),
            Self::Temperature => device.temperature.value().map(|degrees| degrees.0),
            Self::Clock => device.sm_clock.value().map(|clock| clock.0),
            Self::StepTime => device.rank.as_ref()?.step_time.map(|time| time.0),
            Self::Aside => device.rank.as_ref()?.aside().map(|share| share.0),
        }
    }

    /// The mark before its values on a GPU.
    #[must_use]
    pub fn mark(self, device: &DeviceSample) -> &'static str {
        let kind = if self == Self::Dram { device.dram_bandwidth.kind() } else { Some(ReadingKind::Measured) };
        kind.map_or("", ReadingKind::mark)
    }

    /// What a value is of the whole, from 0 to 1: of the peak, the limit, the memory; of 100 °C; of the median of all,
    /// twice which is the most.
    #[must_use]
    pub fn share(self, value: f64, device: &DeviceSample, median: f64) -> f64 {
        let of = |whole: Option<f64>| whole.filter(|whole| *whole > 0.0).map_or(value, |whole| value / whole);
        let share = match self {
            Self::Tensor | Self::Sm | Self::Busy | Self::Aside => value,
            Self::StepTime => of(Some(2.0 * median)),
            Self::Dram => of(device.dram_peak.value().map(|rate| rate.0 / 1e12)),
            Self::Memory => of(device.memory.value().map(|memory| memory.total.as_f64() / GIB)),
            // As planned is half way up; a quarter more or less is at an end.
            Self::OffPlan => 0.5 + 2.0 * value,
            Self::Power => of(device.power_limit.value().map(|limit| limit.0)),
            Self::Temperature => value / 100.0,
            Self::Clock => of(device.sm_clock_max.value().map(|clock| clock.0)),
        };
        share.clamp(0.0, 1.0)
    }

    /// A value as it is written.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Tensor | Self::Sm | Self::Busy | Self::Aside => format!("{:.0}%", value * 100.0),
            Self::StepTime => format!("{value:.3}"),
            Self::Dram => format!("{value:.2}"),
            Self::Memory => format!("{value:.1}"),
            Self::OffPlan => format!("{:+.0}%", value * 100.0),
            Self::Power | Self::Temperature | Self::Clock => format!("{value:.0}"),
        }
    }

    /// Why a GPU has no value.
    #[must_use]
    pub fn absence(self, device: &DeviceSample) -> String {
        fn why<T>(reading: &Reading<T>) -> String {
            reading.absence().map_or_else(|| "no plan for its rank".to_owned(), ToString::to_string)
        }
        match self {
            Self::Tensor => why(&device.tensor_activity),
            Self::Sm => why(&device.sm_activity),
            Self::Busy => why(&device.busy),
            Self::Dram => why(&device.dram_bandwidth),
            Self::Memory | Self::OffPlan => why(&device.memory),
            Self::Power => why(&device.power),
            Self::Temperature => why(&device.temperature),
            Self::Clock => why(&device.sm_clock),
            Self::StepTime | Self::Aside => "no memwall exporter tells of its rank".to_owned(),
        }
    }
}

const GIB: f64 = 1_073_741_824.0;
