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

/// How many of the ranked plans are level with the first, and the rank of the one among them that leaves the most memory;
/// none where no other is level with it.
#[must_use]
pub fn leanest_of_level(ranked: &[&RankedPlan], bands: &Bands) -> Option<(usize, usize)> {
    let level = level(ranked.iter().copied(), bands);
    let leanest = ranked.iter().take(level).enumerate().min_by_key(|(_, one)| one.outline.capacity.needed)?;
    (level > 1).then_some((level, leanest.0 + 1))
}
