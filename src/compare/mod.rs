//! Predicted against observed: the same quantity, in the same unit, side by side.

mod rhythm;

pub use rhythm::period;

use crate::predict::Prediction;
use crate::reading::{Kind, Reading};
use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Intensity};

/// Whose memory was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// The attached process, as the driver charges it.
    Process {
        /// Its pid.
        pid: u32,
        /// The device of which its memory is meant: the one where it holds most. None while
        /// it is on none.
        device: Option<u32>,
    },
    /// Everything on one device.
    Device {
        /// Its index.
        device: u32,
    },
}

impl Whose {
    /// The device that the figures are of.
    #[must_use]
    pub const fn device(self) -> Option<u32> {
        match self {
            Self::Process { device, .. } => device,
            Self::Device { device } => Some(device),
        }
    }
}

/// What a source saw of the run, boiled down to what a plan predicts.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Whose figures these are.
    pub whose: Whose,
    /// Device-used bytes now.
    pub memory: Reading<Bytes>,
    /// The most that `memory` has been since the start, or since a process was attached.
    pub memory_peak: Reading<Bytes>,
    /// DRAM traffic, averaged over the window that the caller chose.
    pub bandwidth: Reading<BytesPerSec>,
    /// Rate of the matrix units, averaged alike.
    pub compute: Reading<FlopsPerSec>,
    /// Devices that the source sees.
    pub devices: usize,
    /// The run has gone on for long enough to have met its peak.
    pub settled: bool,
}

/// One quantity, predicted and observed.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual<T> {
    /// What the plan should use.
    pub predicted: T,
    /// What the run uses.
    pub observed: Reading<T>,
    /// (observed - predicted) / predicted; none without an observation or with a prediction of 0.
    pub relative: Option<f64>,
    /// Whether the difference says something: not a bound above the prediction, nor a peak
    /// that may still rise to it.
    pub conclusive: bool,
    /// Whether it is more than such figures differ by anyway.
    pub notable: bool,
}

/// Memory is predicted to a few percent, and is steady.
const MEMORY_TOLERANCE: f64 = 0.05;

/// Rates swing from step to step.
const RATE_TOLERANCE: f64 = 0.10;

impl<T: Copy> Residual<T> {
    fn new(predicted: T, observed: Reading<T>, number: impl Fn(T) -> f64, tolerance: f64, settled: bool) -> Self {
        let expected = number(predicted);
        let relative = observed.value().filter(|_| expected > 0.0).map(|value| (number(*value) - expected) / expected);
        let below = relative.is_some_and(|relative| relative < 0.0);
        let conclusive = match observed.kind() {
            // An upper bound above the prediction neither confirms nor contradicts it.
            Some(Kind::UpperBound) => below,
            Some(Kind::Measured | Kind::Estimated) => settled || !below,
            None => false,
        };
        let notable = conclusive && relative.is_some_and(|relative| relative.abs() >= tolerance);
        Self { predicted, observed, relative, conclusive, notable }
    }
}

/// Of which pipeline stage the prediction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// There is only one.
    Whole,
    /// The one that the observed GPU holds.
    Stage(u64),
    /// Nobody can tell which one the observed GPU holds: the one that needs most.
    LargestStage(u64),
}

/// The run on the roofline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunPoint {
    /// Operations for each byte of DRAM traffic.
    pub intensity: Intensity,
    /// Rate of the matrix units.
    pub rate: FlopsPerSec,
    /// The lesser of the two kinds.
    pub kind: Kind,
}

/// Everything that is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Whose figures were observed.
    pub whose: Whose,
    /// Of which stage the predicted memory is.
    pub of: Of,
    /// Device-used bytes at their highest.
    pub memory: Residual<Bytes>,
    /// Device-used bytes now.
    pub memory_now: Reading<Bytes>,
    /// DRAM traffic averaged over a step.
    pub bandwidth: Residual<BytesPerSec>,
    /// Matrix operations a second averaged over a step.
    pub compute: Residual<FlopsPerSec>,
    /// Where the run stands on the roofline; none while either rate is unknown.
    pub point: Option<RunPoint>,
}

/// Sets an observation against a prediction.
///
/// Memory is compared at its peak, since the prediction is of a peak. Compute is compared
/// as hardware operations (recomputation included) over the step time, because the
/// counters see those too.
#[must_use]
pub fn compare(prediction: &Prediction, observation: &Observation) -> Comparison {
    let step = prediction.time.step.0;
    let executed = prediction.flops.forward + prediction.flops.backward;
    let predicted_rate = FlopsPerSec(if step > 0.0 { executed.0 / step } else { 0.0 });
    let held = observation.whose.device().and_then(|index| prediction.stage_of(index, observation.devices));
    let (of, stage) = match held {
        Some(stage) if prediction.stages.len() > 1 => (Of::Stage(stage.stage), stage),
        Some(stage) => (Of::Whole, stage),
        None => (Of::LargestStage(prediction.largest().stage), prediction.largest()),
    };
    // Another stage than the largest may well need less.
    let settled = observation.settled && !matches!(of, Of::LargestStage(_));
    let memory = &observation.memory_peak;
    Comparison {
        whose: observation.whose,
        of,
        memory: Residual::new(stage.device_used, memory.clone(), Bytes::as_f64, MEMORY_TOLERANCE, settled),
        memory_now: observation.memory.clone(),
        bandwidth: rate(prediction.time.bandwidth, &observation.bandwidth, |rate| rate.0),
        compute: rate(predicted_rate, &observation.compute, |rate| rate.0),
        point: run_point(observation),
    }
}

fn rate<T: Copy>(predicted: T, observed: &Reading<T>, number: impl Fn(T) -> f64) -> Residual<T> {
    Residual::new(predicted, observed.clone(), number, RATE_TOLERANCE, true)
}

fn run_point(observation: &Observation) -> Option<RunPoint> {
    let (rate, bandwidth) = (observation.compute.value()?, observation.bandwidth.value()?);
    if bandwidth.0 <= 0.0 || rate.0 <= 0.0 {
        return None;
    }
    let kind = match (observation.compute.kind()?, observation.bandwidth.kind()?) {
        (Kind::Measured, Kind::Measured) => Kind::Measured,
        // Less traffic than the bound would move the point to the right: where it is shown is a bound too.
        (_, Kind::UpperBound) | (Kind::UpperBound, _) => Kind::UpperBound,
        (Kind::Estimated, _) | (_, Kind::Estimated) => Kind::Estimated,
    };
    Some(RunPoint { intensity: Intensity(rate.0 / bandwidth.0), rate: *rate, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Absence, Moment};

    const NOW: Moment = Moment(1_000);

    fn observation(bandwidth: Reading<BytesPerSec>, compute: Reading<FlopsPerSec>) -> Observation {
        Observation {
            whose: Whose::Device { device: 0 },
            memory: Reading::not_read(),
            memory_peak: Reading::not_read(),
            bandwidth,
            compute,
            devices: 1,
            settled: true,
        }
    }

    #[test]
    fn an_absent_observation_leaves_no_difference() {
        let residual = Residual::new(Bytes(100), Reading::Absent(Absence::Gone), Bytes::as_f64, 0.05, true);
        assert_eq!(residual.relative, None);
        assert!(!residual.conclusive);
    }

    #[test]
    fn the_difference_is_relative_to_the_prediction() {
        // (75 - 60) / 60 = 0.25
        let residual = Residual::new(Bytes(60), Reading::measured(Bytes(75), NOW), Bytes::as_f64, 0.05, true);
        assert_eq!((residual.relative, residual.notable), (Some(0.25), true));
    }

    #[test]
    fn a_bound_above_the_prediction_concludes_nothing() {
        let bound = |value| rate(BytesPerSec(10.0), &Reading::upper_bound(BytesPerSec(value), NOW), |rate| rate.0);
        assert!(!bound(12.0).conclusive);
        assert!(bound(8.0).conclusive);
    }

    #[test]
    fn a_peak_that_may_still_rise_is_no_difference_and_one_above_is() {
        let now = |bytes, settled| {
            Residual::new(Bytes(100), Reading::measured(Bytes(bytes), NOW), Bytes::as_f64, 0.05, settled)
        };
        assert!(!now(20, false).notable);
        assert!(now(20, true).notable);
        assert!(now(120, false).notable);
    }

    #[test]
    fn the_run_stands_where_its_rates_say() {
        // 300e12 FLOP/s over 1.5e12 B/s = 200 FLOP a byte.
        let seen =
            observation(Reading::measured(BytesPerSec(1.5e12), NOW), Reading::estimated(FlopsPerSec(300e12), NOW));
        let point = run_point(&seen).unwrap();
        assert_eq!(point.intensity, Intensity(200.0));
        assert_eq!(point.kind, Kind::Estimated);
    }

    #[test]
    fn an_idle_or_unknown_rate_is_no_point() {
        let idle = observation(Reading::measured(BytesPerSec(0.0), NOW), Reading::measured(FlopsPerSec(1.0), NOW));
        assert_eq!(run_point(&idle), None);
        let unknown = observation(Reading::measured(BytesPerSec(1.0), NOW), Reading::Absent(Absence::NotSupported));
        assert_eq!(run_point(&unknown), None);
    }
}
