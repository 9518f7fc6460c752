//! What runs on this machine showed over what was predicted for them, kept for the next time.

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::expected::Expectation;
use super::residual::Residual;
use crate::units::{Bytes, Seconds};

/// Observed over predicted, the geometric mean of so many runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// What a prediction is multiplied by.
    pub times: f64,
    /// Runs that it was learnt from.
    pub runs: u32,
}

/// A factor beyond this in either direction is no calibration: something is wrong, and
/// should be explained instead.
const FURTHEST: f64 = 1.5;

impl Factor {
    /// The factor with one run more, or a first one; none where a run says nothing usable.
    fn with(known: Option<Self>, ratio: f64) -> Option<Self> {
        if !(FURTHEST.recip()..=FURTHEST).contains(&ratio) {
            return known;
        }
        let (sum, runs) = known.map_or((0.0, 0), |known| (known.times.ln() * f64::from(known.runs), known.runs));
        let runs = runs.saturating_add(1);
        Some(Self { times: ((sum + ratio.ln()) / f64::from(runs)).exp(), runs })
    }
}

/// The factors of one machine and framework.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Of device-used, reserved and allocated bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Factor>,
    /// Of the step time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Factor>,
}

impl Calibration {
    /// Whether it changes anything.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.memory.is_none() && self.time.is_none()
    }

    /// The factors in a few words: `memory ×1.04 (3 runs), step ×1.12 (2 runs)`.
    #[must_use]
    pub fn words(&self) -> String {
        let said = |name: &str, factor: Option<Factor>| {
            let Factor { times, runs } = factor?;
            Some(format!("{name} ×{times:.2} ({runs} {})", if runs == 1 { "run" } else { "runs" }))
        };
        [said("memory", self.memory), said("step", self.time)].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// With what `comparison` shows of one run more. It must have been made with this very
    /// calibration: its ratios are undone first.
    #[must_use]
    pub fn learnt(&self, comparison: &Comparison) -> Self {
        let ratio = |relative: Option<f64>, known: Option<Factor>| {
            relative.map(|relative| (1.0 + relative) * known.map_or(1.0, |known| known.times))
        };
        let memory = ratio(conclusive(&comparison.memory), self.memory);
        let time = ratio(conclusive(&comparison.step), self.time);
        Self {
            memory: memory.map_or(self.memory, |ratio| Factor::with(self.memory, ratio)),
            time: time.map_or(self.time, |ratio| Factor::with(self.time, ratio)),
        }
    }

    /// What should be seen on this machine.
    #[must_use]
    pub fn applied(&self, plain: &Expectation) -> Expectation {
        let memory = self.memory.map_or(1.0, |factor| factor.times);
        let time = self.time.map_or(1.0, |factor| factor.times);
        let bytes = |bytes: Bytes| Bytes::from_f64(bytes.as_f64() * memory);
        let seconds = |seconds: Seconds| seconds * time;
        Expectation {
            device_used: bytes(plain.device_used),
            reserved: bytes(plain.reserved),
            allocated: bytes(plain.allocated),
            step: seconds(plain.step),
            compute: seconds(plain.compute),
            communication: seconds(plain.communication),
            ..*plain
        }
    }
}

fn conclusive<T>(residual: &Residual<T>) -> Option<f64> {
    residual.relative.filter(|_| residual.conclusive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_averaged_as_ratios() {
        // sqrt(1.1 x 1.2) = 1.14891
        let one = Factor::with(None, 1.1);
        let two = Factor::with(one, 1.2).unwrap();
        assert!((two.times - 1.148_912_5).abs() < 1e-6, "{two:?}");
        assert_eq!(two.runs, 2);
    }

    #[test]
    fn a_run_that_is_far_off_is_not_learnt_from() {
        let known = Factor::with(None, 0.9);
        assert_eq!(Factor::with(known, 2.5), known);
        assert_eq!(Factor::with(known, 0.0), known);
        assert_eq!(Factor::with(known, f64::NAN), known);
    }
}
