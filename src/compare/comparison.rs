//! Predicted against observed: the same quantity, in the same unit, side by side.

use super::bands::{Band, Bands};
use super::calibration::Calibration;
use super::evidence::Evidence;
use super::expected::Expectation;
use super::observation::{MemoryOwner, Observation};
use super::residual::Residual;
use crate::predict::Prediction;
use crate::reading::{Absence, Reading, ReadingKind};
use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Intensity, Seconds, TokensPerSec, Watts};

/// Of which pipeline stage the prediction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedStage {
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
    pub kind: ReadingKind,
}

/// Everything that is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Whose figures were observed.
    pub whose: MemoryOwner,
    /// Of which stage the predicted memory is.
    pub of: ComparedStage,
    /// Device-used bytes at their highest.
    pub memory: Residual<Bytes>,
    /// Device-used bytes now.
    pub memory_now: Reading<Bytes>,
    /// What the caching allocator held at its highest.
    pub reserved: Residual<Bytes>,
    /// What was in tensors at its highest.
    pub allocated: Residual<Bytes>,
    /// DRAM traffic averaged over a step.
    pub bandwidth: Residual<BytesPerSec>,
    /// Matrix operations a second averaged over a step.
    pub compute: Residual<FlopsPerSec>,
    /// Time of one optimizer step.
    pub step: Residual<Seconds>,
    /// Power drawn, averaged over a step; none where the GPU's board power is not known.
    pub power: Option<Residual<Watts>>,
    /// Tokens a second of the whole run; none for plans without tokens.
    pub tokens: Option<Residual<TokensPerSec>>,
    /// Model FLOP utilization, both by the prediction's formula; none where that does not apply.
    pub mfu: Option<Residual<Fraction>>,
    /// Where the run stands on the roofline; none while either rate is unknown.
    pub point: Option<RunPoint>,
    /// Few measured runs are like this one: the bands are a wider kind's.
    pub few_measured: bool,
    /// What the observed figures were taken from, and what else speaks for one cause or another.
    pub evidence: Evidence,
}

impl Comparison {
    /// Whether any figure lies outside of what predictions stray by.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        let memory = [&self.memory, &self.reserved, &self.allocated].iter().any(|bytes| bytes.notable);
        let tokens = self.tokens.as_ref().is_some_and(|tokens| tokens.notable);
        memory || tokens || self.bandwidth.notable || self.compute.notable || self.step.notable
    }

    /// How much slower a step is, as a share; none where that is within what predictions stray by, or not known.
    #[must_use]
    pub fn pace(&self) -> Option<f64> {
        if self.step.notable {
            return self.step.relative;
        }
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.notable)?;
        Some(1.0 / (1.0 + tokens.relative?) - 1.0)
    }

    /// The evidence as it may be held against changed plans: peaks of a GPU that may well hold a smaller
    /// stage than the one that is predicted are no peaks of that one.
    #[must_use]
    pub fn held_against_plans(&self) -> Evidence {
        Evidence {
            settled: self.evidence.settled && !matches!(self.of, ComparedStage::LargestStage(_)),
            ..self.evidence.clone()
        }
    }

    /// The memory that differs from the plan and is no guess, with its name: above the plan before below it; what the device
    /// holds where none does.
    #[must_use]
    pub fn notable_memory(&self) -> (&'static str, &Residual<Bytes>) {
        let held = ("memory ", &self.memory);
        let counted = [("reserved ", &self.reserved), ("allocated ", &self.allocated)];
        let counted = counted.into_iter().filter(|(_, one)| one.observed.kind() != Some(ReadingKind::Estimated));
        let notable: Vec<_> = std::iter::once(held).chain(counted).filter(|(_, one)| one.notable).collect();
        let above = notable.iter().find(|(_, one)| one.relative.is_some_and(|relative| relative > 0.0));
        above.or_else(|| notable.first()).copied().unwrap_or(held)
    }

    /// The stage that is predicted, where there is more than one and it is known which.
    #[must_use]
    pub const fn stage(&self) -> Option<u64> {
        match self.of {
            ComparedStage::Stage(stage) => Some(stage),
            ComparedStage::Whole | ComparedStage::LargestStage(_) => None,
        }
    }
}

/// Whether every figure that was observed lies within the bands of what is expected.
pub(super) fn is_met(expected: &Expectation, evidence: &Evidence, bands: &Bands) -> bool {
    let memory = |predicted: Bytes, observed: &Reading<Bytes>, band: Band| {
        Residual::new(predicted, observed.clone(), Bytes::as_f64, band.within(WIDTH), evidence.settled).notable
    };
    let pace = bands.time.of_rate();
    let rate = |predicted: f64, observed: Reading<f64>, band: Band| {
        Residual::new(predicted, observed, |rate| rate, band.within(WIDTH), true).notable
    };
    let tokens = expected.tokens > 0.0 && rate(expected.tokens_per_s().0, evidence.tokens.map(|rate| rate.0), pace);
    !(memory(expected.device_used, &evidence.device_used, bands.device_used)
        || memory(expected.reserved, &evidence.reserved, bands.reserved)
        || memory(expected.allocated, &evidence.allocated, bands.allocated)
        || rate(expected.bandwidth().0, evidence.bandwidth.map(|rate| rate.0), pace.and(bands.traffic))
        || rate(expected.rate().0, evidence.compute.map(|rate| rate.0), pace.and(bands.flops))
        || rate(expected.step.0, evidence.step.map(|step| step.0), bands.time)
        || tokens)
}

/// How far the power of healthy GPUs strays from what is predicted of it, one standard deviation: no
/// measured case holds it.
const POWER: Band = Band::even(0.1);

/// Beyond this many standard deviations a difference is worth a word: 95 % of the figures
/// that nothing is wrong with lie within.
const WIDTH: f64 = 2.0;

/// Sets an observation against a prediction; `bands`: how far such predictions stray,
/// `calibration`: what this machine is known to show over them.
///
/// Memory is compared at its peak, since the prediction is of a peak. Compute is compared
/// as hardware operations (recomputation included) over the step time, because the
/// counters see those too.
#[must_use]
pub fn compare(
    prediction: &Prediction,
    observation: &Observation,
    bands: &Bands,
    calibration: &Calibration,
) -> Comparison {
    let evidence = &observation.evidence;
    let told = observation.stage.and_then(|stage| prediction.stages.get(stage));
    let by_index = || prediction.stage_of(observation.whose.device()?, observation.devices);
    let held = told.or_else(by_index);
    let (of, stage) = match held {
        Some(stage) if prediction.stages.len() > 1 => (ComparedStage::Stage(stage.stage), stage),
        Some(stage) => (ComparedStage::Whole, stage),
        // A run on a CPU, or of which a log alone tells, is on no device; of one stage there is no other.
        None if prediction.stages.len() == 1 => (ComparedStage::Whole, prediction.largest()),
        None => (ComparedStage::LargestStage(prediction.largest().stage), prediction.largest()),
    };
    let expected = calibration.applied(&Expectation::of(prediction, stage));
    // Another stage than the largest may well need less.
    let settled = evidence.settled && !matches!(of, ComparedStage::LargestStage(_));
    let memory = |predicted: Bytes, observed: &Reading<Bytes>, band: Band| {
        Residual::new(predicted, observed.clone(), Bytes::as_f64, band.within(WIDTH), settled)
    };
    let pace = bands.time.of_rate();
    let (time, moved) = (pace.within(WIDTH), pace.and(bands.traffic).within(WIDTH));
    let computed = pace.and(bands.flops).within(WIDTH);
    let tokens = prediction.time.tokens_per_s.map(|_| {
        // What nobody tells stays unknown: the plan's tokens over the time of a step would be true of the plan's batch alone.
        Residual::new(expected.tokens_per_s(), evidence.tokens.clone(), |rate| rate.0, time, true)
    });
    Comparison {
        whose: observation.whose,
        of,
        memory: memory(expected.device_used, &evidence.device_used, bands.device_used),
        memory_now: observation.memory.clone(),
        reserved: memory(expected.reserved, &evidence.reserved, bands.reserved),
        allocated: memory(expected.allocated, &evidence.allocated, bands.allocated),
        bandwidth: Residual::new(expected.bandwidth(), evidence.bandwidth.clone(), |rate| rate.0, moved, true),
        compute: Residual::new(expected.rate(), evidence.compute.clone(), |rate| rate.0, computed, true),
        step: Residual::new(expected.step, evidence.step.clone(), |step| step.0, bands.time.within(WIDTH), true),
        mfu: prediction.time.mfu.zip(tokens.as_ref()).map(|(predicted, tokens)| {
            let predicted = Fraction(predicted * prediction.time.step.0 / expected.step.0);
            // The same model operations over the tokens that were seen: everyone counts them otherwise.
            let observed = tokens.observed.map(|seen| predicted * (seen.0 / tokens.predicted.0));
            Residual::new(predicted, observed, |share| share.0, time, true)
        }),
        power: prediction
            .time
            .power
            .map(|power| Residual::new(power, evidence.power.clone(), |power| power.0, POWER.within(WIDTH), true)),
        tokens,
        point: run_point(&executed(&expected, evidence), &evidence.bandwidth),
        evidence: evidence.clone(),
        few_measured: bands.few,
    }
}

/// Operations a second: counted, or where no counter tells, those that the plan has in a step over the time that one
/// took. Only to place the run: held against the prediction it would be the step time once more.
fn executed(expected: &Expectation, evidence: &Evidence) -> Reading<FlopsPerSec> {
    match (&evidence.compute, &evidence.step) {
        (Reading::Absent(Absence::NotSupported), Reading::Known { value: step, at, .. }) if step.0 > 0.0 => {
            Reading::estimated(FlopsPerSec(expected.flops.0 / step.0), *at)
        }
        (counted, _) => counted.clone(),
    }
}

/// Where a run stands that computes and moves so much; none while either is unknown or nothing.
#[must_use]
pub fn run_point(compute: &Reading<FlopsPerSec>, traffic: &Reading<BytesPerSec>) -> Option<RunPoint> {
    let (rate, bandwidth) = (compute.value()?, traffic.value()?);
    if bandwidth.0 <= 0.0 || rate.0 <= 0.0 {
        return None;
    }
    // Less traffic than the bound would move the point to the right: where it is shown is a bound too.
    let kind = compute.kind()?.weaker(traffic.kind()?);
    Some(RunPoint { intensity: Intensity(rate.0 / bandwidth.0), rate: *rate, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Tolerance;
    use crate::reading::Moment;
    use crate::units::Flops;

    const NOW: Moment = Moment(1_000);
    const FIVE: Tolerance = Tolerance { below: 0.05, above: 0.05 };

    fn observation(bandwidth: Reading<BytesPerSec>, compute: Reading<FlopsPerSec>) -> Observation {
        Observation {
            whose: MemoryOwner::Device { device: 0 },
            memory: Reading::not_read(),
            devices: 1,
            stage: None,
            evidence: Evidence { bandwidth, compute, settled: true, ..Evidence::default() },
        }
    }

    #[test]
    fn an_absent_observation_leaves_no_difference() {
        let residual = Residual::new(Bytes(100), Reading::Absent(Absence::Gone), Bytes::as_f64, FIVE, true);
        assert_eq!(residual.relative, None);
        assert!(!residual.conclusive);
        assert_eq!(residual.verdict(false), None);
    }

    #[test]
    fn the_difference_is_relative_to_the_prediction() {
        // (75 - 60) / 60 = 0.25
        let residual = Residual::new(Bytes(60), Reading::measured(Bytes(75), NOW), Bytes::as_f64, FIVE, true);
        assert_eq!((residual.relative, residual.notable), (Some(0.25), true));
        assert_eq!(residual.verdict(false), Some("above plan"));
    }

    #[test]
    fn a_bound_above_the_prediction_concludes_nothing() {
        let bound = |value| {
            Residual::new(BytesPerSec(10.0), Reading::upper_bound(BytesPerSec(value), NOW), |rate| rate.0, FIVE, true)
        };
        assert!(!bound(12.0).conclusive);
        assert!(bound(8.0).conclusive);
    }

    #[test]
    fn a_peak_that_may_still_rise_is_no_difference_and_one_above_is() {
        let now = |bytes, settled| {
            Residual::new(Bytes(100), Reading::measured(Bytes(bytes), NOW), Bytes::as_f64, FIVE, settled)
        };
        assert!(!now(20, false).notable);
        assert_eq!(now(20, false).verdict(false), Some("may still rise"));
        assert_eq!(now(20, false).verdict(true), Some("ended before it was known"));
        assert!(now(20, true).notable);
        assert!(now(120, false).notable);
    }

    #[test]
    fn the_run_stands_where_its_rates_say() {
        // 300e12 FLOP/s over 1.5e12 B/s = 200 FLOP a byte.
        let seen =
            observation(Reading::measured(BytesPerSec(1.5e12), NOW), Reading::estimated(FlopsPerSec(300e12), NOW));
        let point = run_point(&seen.evidence.compute, &seen.evidence.bandwidth).unwrap();
        assert_eq!(point.intensity, Intensity(200.0));
        assert_eq!(point.kind, ReadingKind::Estimated);
    }

    #[test]
    fn without_counters_the_steps_tell_where_the_run_stands() {
        let expected = Expectation {
            device_used: Bytes::ZERO,
            reserved: Bytes::ZERO,
            allocated: Bytes::ZERO,
            step: Seconds(1.0),
            compute: Seconds(1.0),
            communication: Seconds(0.0),
            traffic: Bytes::ZERO,
            flops: Flops(600e12),
            tokens: 0.0,
            busy: Fraction(1.0),
            clock: Fraction(1.0),
            others: Bytes::ZERO,
            cpu_wait: Fraction(0.0),
            gpus: 1,
        };
        let step = Reading::measured(Seconds(2.0), NOW);
        let rate = |compute| executed(&expected, &Evidence { step: step.clone(), compute, ..Evidence::default() });
        // 600e12 FLOP in 2 s.
        let without = rate(Reading::Absent(Absence::NotSupported));
        assert_eq!(without, Reading::estimated(FlopsPerSec(300e12), NOW));
        // A counter that will tell is waited for, and one that tells is believed.
        assert_eq!(rate(Reading::Absent(Absence::TooShort)), Reading::Absent(Absence::TooShort));
        let counted = Reading::measured(FlopsPerSec(1e12), NOW);
        assert_eq!(rate(counted.clone()), counted);
    }

    #[test]
    fn an_idle_or_unknown_rate_is_no_point() {
        let idle = observation(Reading::measured(BytesPerSec(0.0), NOW), Reading::measured(FlopsPerSec(1.0), NOW));
        assert_eq!(run_point(&idle.evidence.compute, &idle.evidence.bandwidth), None);
        let unknown = observation(Reading::measured(BytesPerSec(1.0), NOW), Reading::Absent(Absence::NotSupported));
        assert_eq!(run_point(&unknown.evidence.compute, &unknown.evidence.bandwidth), None);
    }
}
