//! Which searched plans measured runs do not tell apart.

use super::Bands;
use crate::advise::{RankedPlan, SearchOutcome, throughput};

/// How many of the ranked plans are level with the first: each one's step lies within the other's band. The order
/// between them is that of predictions which measured runs do not tell apart.
#[must_use]
pub fn level<'a>(ranked: impl IntoIterator<Item = &'a RankedPlan>, bands: &Bands) -> usize {
    let mut ranked = ranked.into_iter().peekable();
    let Some(best) = ranked.peek().map(|best| throughput(&best.outline)) else { return 0 };
    let band = bands.time.within(2.0);
    // Of the same samples: batches may differ.
    let reaches = |one: &&RankedPlan| {
        let times = best / throughput(&one.outline);
        times <= 1.0 + band.above && times * (1.0 - band.below) <= 1.0
    };
    ranked.take_while(reaches).count()
}

/// How much faster a searched plan is predicted to be than the plan that was given, and between what the bands of both and
/// the choice leave that, as shares.
///
/// The gain itself is not made smaller for the choice: of 84 published sets of plans of one model and GPU, the plan that was
/// predicted to be the fastest was ahead of the others by 0.96 of what was predicted, and its own error was no other than
/// theirs. Nobody has run the many plans that a search passes, though, of which the best may be the one whose error is
/// luckiest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// By the predictions.
    pub gain: f64,
    /// The least of it: the searched plan as slow and the given one as fast as such runs are.
    pub least: f64,
    /// The most of it.
    pub most: f64,
    /// Sets of degrees that the best was chosen among: those whose best plan lies within the band of it.
    pub among: usize,
}

impl Claim {
    /// Whether measured runs bear out that the searched plan is faster at all.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        self.least > 0.0
    }
}

/// The gain of the best plan found over the given one; none where that does not fit or is no slower. Both stray from their
/// predictions, each for itself: the logarithm of their ratio has the deviations of both.
#[must_use]
pub fn claimed(found: &SearchOutcome, bands: &Bands) -> Option<Claim> {
    let (best, own) = (found.ranked.first()?, found.own.as_ref().ok()?);
    let ratio = throughput(&best.outline) / throughput(&own.outline);
    let fits = own.outline.capacity.needed <= own.outline.capacity.bytes;
    if !fits || ratio < 1.0005 {
        return None;
    }
    let slowest = 1.0 + bands.time.within(2.0).above;
    let fastest = found.degrees.iter().map(|pace| pace.0).fold(f64::INFINITY, f64::min);
    let among = found.degrees.iter().filter(|pace| pace.0 <= slowest * fastest).count().max(1);
    // Times above their predictions make the best slower, below them the given one faster.
    let both = bands.time.and(bands.time.of_rate());
    let (chosen, one) = (both.within(2.0 * wider_for(among)), both.within(2.0));
    Some(Claim {
        gain: ratio - 1.0,
        least: ratio * (1.0 - chosen.below) - 1.0,
        most: ratio * (1.0 + one.above) - 1.0,
        among,
    })
}

/// How many times as wide the lower side of a band is for the best of so many: none of them lies beyond it with the chance
/// that one alone does not (Bonferroni: the normal quantile of 0.025 over their number, over that of 0.025). The quantile is
/// its expansion for small chances, sqrt(t - ln t - ln 2 pi) with t = 2 ln(1 / chance), within 4 % from 0.025 on.
fn wider_for(among: usize) -> f64 {
    let quantile = |chance: f64| {
        let t = -2.0 * chance.ln();
        (t - t.ln() - std::f64::consts::TAU.ln()).sqrt()
    };
    quantile(0.025 / among as f64) / quantile(0.025)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal quantiles (tables): 1.960 of 0.025, 2.807 of 0.0025, 3.144 of 0.025 / 30.
    #[test]
    fn the_best_of_many_has_a_wider_band() {
        assert!((wider_for(1) - 1.0).abs() < 1e-12);
        assert!((wider_for(10) / (2.807 / 1.960) - 1.0).abs() < 0.04, "{}", wider_for(10));
        assert!((wider_for(30) / (3.144 / 1.960) - 1.0).abs() < 0.04, "{}", wider_for(30));
    }
}
