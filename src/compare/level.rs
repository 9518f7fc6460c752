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
