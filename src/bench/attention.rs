//! Fused attention: the share of the peak by head size, and how it fills.

use super::rows::AttentionRow;
use super::search::{error, least};
use crate::catalog::AttentionCurve;
use crate::model::Scores;
use crate::predict::{BACKWARD_PRODUCTS, reached};

/// Seconds forward and backward at `peak` operations a second, as a prediction has them.
fn seconds(curve: &AttentionCurve, row: &AttentionRow, peak: f64, multiprocessors: f64) -> (f64, f64) {
    let visible = if row.causal { 0.5 } else { 1.0 };
    let scores = Scores { heads: row.heads, queries: row.queries, sharing: 1, dim: row.dim, visible };
    let [heads, queries, dim] = [row.heads, row.queries, row.dim].map(|size| size as f64);
    let flops = 4.0 * heads * queries * queries * dim * visible;
    let (forward, backward) = curve.shares(dim);
    let (fills_forward, fills_backward) = reached(curve, &scores, multiprocessors);
    (flops / (peak * forward * fills_forward), BACKWARD_PRODUCTS * flops / (peak * backward * fills_backward))
}

/// Fits the curve. `kernel` seconds are each kernel's own.
pub(super) fn fit(
    rows: &[AttentionRow],
    (peak, multiprocessors, kernel): (f64, f64, f64),
    source: &str,
) -> Option<AttentionCurve> {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.dim).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() || rows.len() < 2 {
        return None;
    }
    let curve = |at: &[f64]| AttentionCurve {
        source: source.to_owned(),
        heads: sizes.iter().enumerate().map(|(i, dim)| (*dim as f64, at[3 + 2 * i], at[4 + 2 * i])).collect(),
        fill: (at[0], at[1]),
        ramp: at[2],
    };
    let cost = |at: &[f64]| {
        let curve = curve(at);
        let pairs = rows.iter().flat_map(|row| {
            let (forward, backward) = seconds(&curve, row, peak, multiprocessors);
            [(forward + kernel, row.forward), (backward + kernel, row.backward)]
        });
        error(pairs) + 1e-4 * (at[0] / 50.0 + at[1] / 50.0 + at[2] / 2000.0)
    };
    let mut start = vec![1.0, 0.7, 60.0];
    start.extend(sizes.iter().flat_map(|_| [0.4, 0.3]));
    // A simplex of many sides finds its way in several turns.
    let found = (0..4).fold(start, |from, _| least(&from, cost));
    Some(curve(&found))
}
