//! How far predictions stray from runs with which nothing is wrong, from measured cases.
//!
//! For each framework, without and with context parallel, and quantity `configs/accuracy.yaml` holds the 16th and the
//! 84th percentile of measured over predicted, to each side: runs are far more often slower than
//! predicted than faster. A framework's own cases count one each; those of all others together count ten, so that a
//! handful of cases neither widens nor narrows a band alone. What no measured case holds (traffic, operations) has a
//! band of its own reasoning.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::framework::Profile;

/// How far a figure strays to either side: one standard deviation of the logarithm of observed over predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Below the prediction.
    pub below: f64,
    /// Above it.
    pub above: f64,
}

impl Band {
    /// As far to both sides.
    #[must_use]
    pub const fn even(width: f64) -> Self {
        Self { below: width, above: width }
    }

    /// The band of a rate, where this is the band of the time that it takes.
    #[must_use]
    pub const fn of_rate(self) -> Self {
        Self { below: self.above, above: self.below }
    }

    /// What strays by this and, apart from it, by `other`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { below: self.below.hypot(other.below), above: self.above.hypot(other.above) }
    }

    /// How many deviations `observed` lies from `expected`; both above zero.
    #[must_use]
    pub fn off(self, observed: f64, expected: f64) -> f64 {
        let off = (observed / expected).ln();
        off / if off < 0.0 { self.below } else { self.above }
    }

    /// What lies within so many deviations, in shares of the prediction.
    #[must_use]
    pub fn within(self, deviations: f64) -> Tolerance {
        Tolerance { below: 1.0 - (-deviations * self.below).exp(), above: (deviations * self.above).exp() - 1.0 }
    }
}

/// How far a figure may lie from its prediction before it is worth a word, as shares of that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Below it: less than 1.
    pub below: f64,
    /// Above it.
    pub above: f64,
}

impl Tolerance {
    /// Whether a difference, as a share of the prediction, lies outside.
    #[must_use]
    pub fn is_left_by(self, relative: f64) -> bool {
        relative <= -self.below || relative >= self.above
    }
}

/// The bands of everything that is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bands {
    /// Allocated bytes.
    pub allocated: Band,
    /// Reserved bytes.
    pub reserved: Band,
    /// Device-used bytes.
    pub device_used: Band,
    /// Step time.
    pub time: Band,
    /// DRAM bytes of a step.
    pub traffic: Band,
    /// Matrix operations of a step.
    pub flops: Band,
}

/// No measured case holds what a step moves: caches keep some of what the operators ask for.
const TRAFFIC: Band = Band::even(0.08);

/// What a step computes is exact; activity of the matrix units is not quite a share of their peak.
const FLOPS: Band = Band::even(0.04);

/// Not even a prediction that met every case so far is nearer than this: rounding and
/// libraries differ from one version to the next.
const NEAREST: f64 = 0.015;

/// How many cases, and within how many percent of the prediction lie 68 of 100, 16 being below and 16 above.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    /// For the reader and the test.
    #[serde(rename = "cases")]
    _cases: usize,
    below_pct: f64,
    above_pct: f64,
}

impl Measured {
    fn band(self) -> Band {
        let below = -(-self.below_pct / 100.0).ln_1p();
        let above = (self.above_pct / 100.0).ln_1p();
        Band { below: below.max(NEAREST), above: above.max(NEAREST) }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// None: all of them, for a framework without a measured case.
    framework: Option<String>,
    /// Of its runs with context parallel, which stray further; none: as its others.
    #[serde(default)]
    context_parallel: bool,
    allocated: Measured,
    reserved: Measured,
    device_used: Measured,
    time: Measured,
}

/// The table, or nothing where it does not read: a test holds that it does.
fn table() -> &'static [Row] {
    static TABLE: OnceLock<Vec<Row>> = OnceLock::new();
    TABLE.get_or_init(|| serde_yaml::from_str(include_str!("../../configs/accuracy.yaml")).unwrap_or_default())
}

impl Bands {
    /// For runs of a framework on so many context-parallel ranks.
    #[must_use]
    pub fn of(profile: &Profile, context: u64) -> Self {
        let name = profile.name();
        let own = || table().iter().filter(|row| row.framework.as_deref() == Some(name));
        let row = own().find(|row| row.context_parallel == (context > 1)).or_else(|| own().next());
        let row = row.or_else(|| table().iter().find(|row| row.framework.is_none()));
        let band = |of: fn(&Row) -> Measured| row.map_or(Band::even(0.1), |row| of(row).band());
        Self {
            allocated: band(|row| row.allocated),
            reserved: band(|row| row.reserved),
            device_used: band(|row| row.device_used),
            time: band(|row| row.time),
            traffic: TRAFFIC,
            flops: FLOPS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_is_a_ratio_to_either_side() {
        let band = Band { below: 0.1, above: 0.2 };
        // e^-0.2 = 0.8187, e^0.4 = 1.4918
        let within = band.within(2.0);
        assert!((within.below - 0.1813).abs() < 1e-4 && (within.above - 0.4918).abs() < 1e-4, "{within:?}");
        assert!(!within.is_left_by(-0.18) && within.is_left_by(-0.19) && !within.is_left_by(0.49));
        assert!(
            (band.off(1.0_f64.exp(), 1.0) - 5.0).abs() < 1e-9 && (band.off(1.0, 1.0_f64.exp()) + 10.0).abs() < 1e-9
        );
        // Twice the time is half the rate.
        assert_eq!(band.of_rate().off(0.5, 1.0), -band.off(2.0, 1.0));
    }
}
