//! Which searched plans measured runs do not tell apart.

use super::Bands;
use crate::advise::{RankedPlan, throughput};

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

/// How much faster a searched plan is predicted to be than the plan that was given, and between what the bands of both
/// leave that, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// By the predictions.
    pub gain: f64,
    /// The least of it: the searched plan as slow and the given one as fast as such runs are.
    pub least: f64,
    /// The most of it.
    pub most: f64,
}

impl Claim {
    /// Whether measured runs bear out that the searched plan is faster at all.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        self.least > 0.0
    }
}

/// The gain of `best` over `own`; none where that does not fit or is no slower. Both stray from their predictions, each
/// for itself: the logarithm of their ratio has the deviations of both.
#[must_use]
pub fn claimed(best: &RankedPlan, own: &RankedPlan, bands: &Bands) -> Option<Claim> {
    let ratio = throughput(&best.outline) / throughput(&own.outline);
    let fits = own.outline.capacity.needed <= own.outline.capacity.bytes;
    if !fits || ratio < 1.0005 {
        return None;
    }
    // Times above their predictions make the best slower, below them the given one faster.
    let both = bands.time.and(bands.time.of_rate()).within(2.0);
    Some(Claim { gain: ratio - 1.0, least: ratio * (1.0 - both.below) - 1.0, most: ratio * (1.0 + both.above) - 1.0 })
}
