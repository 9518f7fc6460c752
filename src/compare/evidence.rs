//! What is known of a run, boiled down to one GPU and one step: what explanations are held against.

use super::bands::Band;
use super::growth::MemoryRise;
use crate::reading::{Absence, CodePlace, Reading, ReadingKind};
use crate::units::{Bytes, BytesPerSec, FlopsPerSec, Fraction, Seconds, TokensPerSec, Watts};

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
    /// The SM clock over the highest that the GPU could hold, averaged alike.
    pub clock: Reading<Fraction>,
    /// The driver says that heat or the board slows the clocks.
    pub slowed: Reading<bool>,
    /// Share of time in which the process could have run on the CPU that it trains on and waited for a core.
    pub cpu_wait: Reading<Fraction>,
    /// Share of healthy steps in which the training thread is in a data loader, where its stack is sampled.
    pub data_wait: Reading<Fraction>,
    /// The code beside a step's work that a large part of healthy steps goes to, where the stack is sampled.
    pub own_code: Reading<CodePlace>,
    /// Power drawn, averaged alike. It is compared and held against no cause: no measured case says how
    /// well it is predicted.
    pub power: Reading<Watts>,
}

/// Figures of one reading after another differ by this much; what is compared within a run
/// needs no prediction and is off by no more.
pub const NOISE: f64 = 0.02;

/// Beyond this many deviations one figure weighs no more: a counter that is wrong altogether
/// must not decide alone.
const FURTHEST: f64 = 8.0;

/// A share that another look gives differs by this much.
const STEADY: f64 = 0.03;

impl Evidence {
    /// The same of a run whose memory has risen, as no plan's does: what it held before that is held against plans. A
    /// figure whose rise nobody counted is held against none.
    #[must_use]
    pub fn before_growth(self, rise: MemoryRise) -> Self {
        let less = |reading: Reading<Bytes>, rise: Option<Bytes>| match rise {
            Some(rise) => reading.map(|bytes| bytes.saturating_sub(rise)),
            None => Reading::Absent(Absence::NotRead),
        };
        Self {
            device_used: less(self.device_used, Some(rise.device)),
            reserved: less(self.reserved, rise.reserved),
            allocated: less(self.allocated, rise.peak),
            ..self
        }
    }

    /// The same of a run whose memory rises with time, nobody knows since when: what it holds now is held against no plan.
    #[must_use]
    pub fn without_memory(self) -> Self {
        let none = || Reading::Absent(Absence::NotRead);
        Self { device_used: none(), reserved: none(), allocated: none(), ..self }
    }

    /// Whether it says something else than `before` did: a figure came or went, or moved beyond what one
    /// reading after another differs by. What holds for one holds for the other until then.
    #[must_use]
    pub fn is_news_to(&self, before: &Self) -> bool {
        self.differs(before, 1.0)
    }

    /// Whether it is another case altogether: a figure moved several times as far.
    #[must_use]
    pub fn is_far_from(&self, before: &Self) -> bool {
        self.differs(before, 5.0)
    }

    /// Whether a figure that was known `before` is being averaged anew: what was found with it is better founded
    /// than anything found without.
    #[must_use]
    pub fn is_poorer_than(&self, before: &Self) -> bool {
        METRICS.iter().any(|figure| {
            figure.averaged
                && (figure.of)(before).is_some()
                && (figure.of)(self) == EvidenceValue::Nothing(Absence::TooShort)
        })
    }

    /// Whether a figure came or went, or moved so many times what one reading after another differs by.
    fn differs(&self, before: &Self, times: f64) -> bool {
        METRICS.iter().any(|figure| match ((figure.of)(self), (figure.of)(before)) {
            (EvidenceValue::Amount(now), EvidenceValue::Amount(before)) => {
                (now - before).abs() > times * NOISE * before.abs()
            }
            (EvidenceValue::Share(now), EvidenceValue::Share(before)) => (now - before).abs() > times * STEADY,
            (EvidenceValue::Is(now), EvidenceValue::Is(before)) => now != before,
            (now, before) => now.is_some() != before.is_some(),
        })
    }
}

/// A figure of the evidence as one look is set against the next.
struct EvidenceMetric {
    of: fn(&Evidence) -> EvidenceValue,
    /// It is an average over steps, which is taken anew from time to time.
    averaged: bool,
}

/// What a figure is, by how far it may move before that is news.
#[derive(Debug, PartialEq)]
enum EvidenceValue {
    /// It may move by a part of itself.
    Amount(f64),
    /// It may move by some points.
    Share(f64),
    /// Any change is news.
    Is(bool),
    /// It is not known.
    Nothing(Absence),
}

impl EvidenceValue {
    fn of<T: Clone>(reading: &Reading<T>, seen: impl Fn(T) -> Self) -> Self {
        match reading {
            Reading::Known { value, .. } => seen(value.clone()),
            Reading::Absent(why) => Self::Nothing(why.clone()),
        }
    }

    const fn is_some(&self) -> bool {
        !matches!(self, Self::Nothing(_))
    }
}

const fn state(of: fn(&Evidence) -> EvidenceValue) -> EvidenceMetric {
    EvidenceMetric { of, averaged: false }
}

const fn mean(of: fn(&Evidence) -> EvidenceValue) -> EvidenceMetric {
    EvidenceMetric { of, averaged: true }
}

/// All that explanations are sought for anew by. Power is not among it: it is held against no cause.
const METRICS: &[EvidenceMetric] = &[
    state(|evidence| EvidenceValue::of(&evidence.device_used, |bytes| EvidenceValue::Amount(bytes.as_f64()))),
    state(|evidence| EvidenceValue::of(&evidence.reserved, |bytes| EvidenceValue::Amount(bytes.as_f64()))),
    state(|evidence| EvidenceValue::of(&evidence.allocated, |bytes| EvidenceValue::Amount(bytes.as_f64()))),
    state(|evidence| EvidenceValue::Is(evidence.settled)),
    state(|evidence| EvidenceValue::of(&evidence.others, |bytes| EvidenceValue::Amount(bytes.as_f64()))),
    mean(|evidence| EvidenceValue::of(&evidence.step, |step| EvidenceValue::Amount(step.0))),
    mean(|evidence| EvidenceValue::of(&evidence.tokens, |rate| EvidenceValue::Amount(rate.0))),
    mean(|evidence| EvidenceValue::of(&evidence.bandwidth, |rate| EvidenceValue::Amount(rate.0))),
    mean(|evidence| EvidenceValue::of(&evidence.compute, |rate| EvidenceValue::Amount(rate.0))),
    mean(|evidence| EvidenceValue::of(&evidence.busy, |share| EvidenceValue::Share(share.0))),
    state(|evidence| EvidenceValue::of(&evidence.clock, |share| EvidenceValue::Share(share.0))),
    mean(|evidence| EvidenceValue::of(&evidence.cpu_wait, |share| EvidenceValue::Share(share.0))),
    state(|evidence| EvidenceValue::of(&evidence.data_wait, |share| EvidenceValue::Share(share.0))),
    state(|evidence| EvidenceValue::of(&evidence.own_code, |place| EvidenceValue::Share(place.share.0))),
    state(|evidence| EvidenceValue::of(&evidence.slowed, EvidenceValue::Is)),
];

/// How well an expectation meets the evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Misfit {
    /// Half the sum of squared deviations, a negative log-likelihood. Smaller is better.
    pub sum: f64,
    /// Figures that it is a sum over.
    pub figures: u32,
}

/// Gathers deviations.
#[derive(Debug, Default)]
pub struct Deviations(Misfit);

impl Deviations {
    /// A figure that should be `expected`, and strays from it by `band`.
    pub fn share<T: Copy>(
        &mut self,
        observed: &Reading<T>,
        number: impl Fn(T) -> f64,
        expected: f64,
        band: Band,
    ) -> &mut Self {
        let Some(value) = observed.value().map(|value| number(*value)).filter(|value| *value > 0.0) else {
            return self;
        };
        if expected > 0.0 {
            let off = band.off(value, expected);
            // What is bounded from above contradicts only expectations above the bound.
            self.add(if observed.kind() == Some(ReadingKind::UpperBound) { off.min(0.0) } else { off });
        }
        self
    }

    /// A deviation that has been worked out already, in standard deviations.
    pub fn add(&mut self, off: f64) {
        self.0.sum += 0.5 * off.clamp(-FURTHEST, FURTHEST).powi(2);
        self.0.figures += 1;
    }

    /// The sum.
    #[must_use]
    pub const fn misfit(&self) -> Misfit {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Moment;

    #[test]
    fn noise_is_no_news_and_a_figure_that_comes_or_moves_is() {
        let at = |step: f64| Evidence {
            device_used: Reading::measured(Bytes(100), Moment(1)),
            step: Reading::measured(Seconds(step), Moment(1)),
            ..Evidence::default()
        };
        // 1 % is what one reading differs from the next by, 3 % is not.
        assert!(!at(1.01).is_news_to(&at(1.0)));
        assert!(at(1.03).is_news_to(&at(1.0)) && !at(1.03).is_far_from(&at(1.0)) && at(1.2).is_far_from(&at(1.0)));
        let blind = Evidence { step: Reading::not_read(), ..at(1.0) };
        assert!(at(1.0).is_news_to(&blind) && blind.is_news_to(&at(1.0)));
        assert!(Evidence { settled: true, ..at(1.0) }.is_news_to(&at(1.0)));
        // A mean that is taken anew is no news, one that cannot be had any more is.
        let anew = Evidence { step: Reading::Absent(Absence::TooShort), ..at(1.0) };
        assert!(anew.is_poorer_than(&at(1.0)) && !blind.is_poorer_than(&at(1.0)) && !at(1.0).is_poorer_than(&anew));
    }
}
