//! The axes of the past: each metric in its own unit, over what was seen.

use crate::app::State;
use crate::reading::{DeviceMetric, Spread};
use crate::ui::header::terabytes;
use crate::units::{Bytes, BytesPerSec, Fraction, three_figures};

/// What the device at that place can do at most, by its driver, now or before it was lost, or the catalogue; none where
/// nobody says.
pub fn full(state: &State, position: usize, metric: DeviceMetric) -> Option<f64> {
    let prediction = state.plans.compared().prediction();
    let device = state.monitor.devices().get(position)?;
    let scale = state.monitor.scale(position);
    match metric {
        DeviceMetric::Memory => scale.memory.map(Bytes::as_f64),
        DeviceMetric::Bandwidth => {
            let planned = || prediction.map(|prediction| prediction.roofline.bandwidth.0);
            device.dram_peak.value().map(|peak| peak.0).or_else(planned)
        }
        DeviceMetric::Tensor | DeviceMetric::Busy => Some(1.0),
        DeviceMetric::Power => scale.power.map(|limit| limit.0),
        DeviceMetric::Clock => device.sm_clock_max.value().map(|clock| clock.0),
        DeviceMetric::StepTime
        | DeviceMetric::Loss
        | DeviceMetric::Temperature
        | DeviceMetric::Pcie
        | DeviceMetric::NvLink => None,
    }
}

/// The axis that what was seen fits into, its ends on round values: from zero, or from below the lowest where all lies
/// in the upper half.
pub fn range(metric: DeviceMetric, seen: Option<Spread>) -> (f64, f64) {
    let Some(seen) = seen.filter(|seen| seen.high > 0.0) else { return (0.0, unit_size(metric)) };
    let size = unit_size(metric);
    let (low, high) = (seen.low / size, seen.high / size);
    let from_zero = low < high / 2.0;
    let step = round_step(if from_zero { high } else { (high - low).max(high / 50.0) });
    // Both ends of an axis in whole numbers differ.
    let step = if is_whole(metric) { step.max(1.0) } else { step };
    let bottom = if from_zero { 0.0 } else { (low / step).floor() * step };
    let top = (high / step).ceil() * step;
    // A flat line is not the frame's.
    let top = if top <= bottom { bottom + step } else { top };
    // Nothing is busier than all of the time.
    let beyond = if matches!(metric, DeviceMetric::Tensor | DeviceMetric::Busy) { (top - 100.0).max(0.0) } else { 0.0 };
    ((bottom - beyond) * size, (top - beyond) * size)
}

/// Whether its values are shown without decimals.
const fn is_whole(metric: DeviceMetric) -> bool {
    use DeviceMetric::{Busy, Clock, Power, Temperature, Tensor};
    matches!(metric, Power | Temperature | Clock | Tensor | Busy)
}

/// A step of 1, 2 or 5 times a power of ten, of which some four make a length.
fn round_step(length: f64) -> f64 {
    let rough = length / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= rough).unwrap_or(power * 10.0)
}

/// What one of its units is in the numbers that are kept.
fn unit_size(metric: DeviceMetric) -> f64 {
    match metric {
        DeviceMetric::Memory => 1_073_741_824.0,
        DeviceMetric::Bandwidth => 1e12,
        DeviceMetric::Pcie | DeviceMetric::NvLink => 1e9,
        DeviceMetric::Tensor | DeviceMetric::Busy => 0.01,
        DeviceMetric::Power
        | DeviceMetric::StepTime
        | DeviceMetric::Loss
        | DeviceMetric::Temperature
        | DeviceMetric::Clock => 1.0,
    }
}

/// A value without its unit.
pub fn words(metric: DeviceMetric, value: f64) -> String {
    match metric {
        DeviceMetric::Memory => Bytes::from_f64(value).in_gib(),
        DeviceMetric::Bandwidth => terabytes(BytesPerSec(value)),
        DeviceMetric::Tensor | DeviceMetric::Busy => Fraction(value).to_string().replace(' ', ""),
        DeviceMetric::Power | DeviceMetric::Temperature | DeviceMetric::Clock => format!("{value:.0}"),
        DeviceMetric::Pcie | DeviceMetric::NvLink => three_figures(value / 1e9),
        DeviceMetric::StepTime | DeviceMetric::Loss => three_figures(value),
    }
}

/// Its unit.
pub const fn unit(metric: DeviceMetric) -> &'static str {
    match metric {
        DeviceMetric::Memory => "GiB",
        DeviceMetric::Bandwidth => "TB/s",
        DeviceMetric::Tensor | DeviceMetric::Busy | DeviceMetric::Loss => "",
        DeviceMetric::Power => "W",
        DeviceMetric::StepTime => "s",
        DeviceMetric::Temperature => "°C",
        DeviceMetric::Clock => "MHz",
        DeviceMetric::Pcie | DeviceMetric::NvLink => "GB/s",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::ReadingKind;

    fn of(metric: DeviceMetric, low: f64, high: f64) -> (f64, f64) {
        let seen = Spread::of(low, ReadingKind::Measured).with(Spread::of(high, ReadingKind::Measured));
        range(metric, Some(seen))
    }

    #[test]
    fn axes_fit_what_was_seen_on_round_values() {
        // 612 to 637 W: 25 apart, a quarter of that is 6.25, the next round step 10.
        assert_eq!(of(DeviceMetric::Power, 612.0, 637.0), (610.0, 640.0));
        // From idle on: a quarter of 637 is 159, the next round step 200.
        assert_eq!(of(DeviceMetric::Power, 70.0, 637.0), (0.0, 800.0));
        // A flat line has an axis too: a fiftieth of 52 is 1.04, and a quarter of that 0.26, but a degree is shown whole.
        assert_eq!(of(DeviceMetric::Temperature, 52.0, 52.0), (52.0, 53.0));
        let gib = 1_073_741_824.0;
        // 55.0 to 55.5 GiB: at least a fiftieth of it, 1.11, so steps of 0.5.
        assert_eq!(of(DeviceMetric::Memory, 55.0 * gib, 55.5 * gib), (55.0 * gib, 55.5 * gib));
        assert_eq!(range(DeviceMetric::Loss, None), (0.0, 1.0));
    }
}
