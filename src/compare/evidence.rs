//! What is known of a run, boiled down to one GPU and one step: what explanations are held against.

use crate::reading::{Kind, Reading};
use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Seconds, TokensPerSec};

/// Everything that tells one cause from another. What was not observed stays absent and is
/// held against no cause.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Peak of what the driver charges to the process, or of everything on the device.
    pub device_used: Reading<Bytes>,
    /// Peak of what the caching allocator held.
    pub reserved: Reading<Bytes>,
    /// Peak of what was in tensors.
    pub allocated: Reading<Bytes>,
    /// The peaks have been met: a figure below the prediction says something.
    pub settled: bool,
    /// What other processes hold on the same device and `device_used` includes.
    pub others: Reading<Bytes>,
    /// Time of one optimizer step.
    pub step: Reading<Seconds>,
    /// Tokens a second of the whole run.
    pub tokens: Reading<TokensPerSec>,
    /// DRAM traffic, averaged over whole steps.
    pub bandwidth: Reading<BytesPerSec>,
    /// Rate of the matrix units, averaged alike.
    pub compute: Reading<FlopsPerSec>,
    /// Share of time with a kernel running, averaged alike.
    pub busy: Reading<Fraction>,
    /// The SM clock over the highest that the card could hold, averaged alike.
    pub clock: Reading<Fraction>,
    /// The driver says that heat or the board slows the clocks.
    pub slowed: Reading<bool>,
}

/// Figures of one reading after another differ by this much; what is compared within a run
/// needs no prediction and is off by no more.
pub const NOISE: f64 = 0.02;

/// Beyond this many deviations one figure weighs no more: a counter that is wrong altogether
/// must not decide alone.
const FURTHEST: f64 = 8.0;

/// How well an expectation meets the evidence: half the sum of squared deviations, a
/// negative log-likelihood. Smaller is better.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Misfit(pub f64);

/// Gathers deviations.
#[derive(Debug, Default)]
pub struct Deviations(f64);

impl Deviations {
    /// A figure that should be `expected`, with a deviation in shares of it.
    pub fn share<T: Copy>(
        &mut self,
        observed: &Reading<T>,
        number: impl Fn(T) -> f64,
        expected: f64,
        deviation: f64,
    ) -> &mut Self {
        let Some(value) = observed.value().map(|value| number(*value)).filter(|value| *value > 0.0) else {
            return self;
        };
        if expected > 0.0 {
            let off = (value / expected).ln() / deviation;
            // What is bounded from above contradicts only expectations above the bound.
            self.add(if observed.kind() == Some(Kind::UpperBound) { off.min(0.0) } else { off });
        }
        self
    }

    /// A deviation that has been worked out already, in standard deviations.
    pub fn add(&mut self, off: f64) {
        self.0 += 0.5 * off.clamp(-FURTHEST, FURTHEST).powi(2);
    }

    /// The sum.
    #[must_use]
    pub const fn misfit(&self) -> Misfit {
        Misfit(self.0)
    }
}
