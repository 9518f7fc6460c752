//! Fused attention: the share of the peak by head size, and how it fills.

use super::rows::AttentionRow;
use super::search::{error, least, median};
use crate::catalog::AttentionCurve;
use crate::model::Scores;
use crate::predict::{BACKWARD_PRODUCTS, reached};

/// Seconds forward and backward at `peak` operations a second, as a prediction has them.
fn seconds(curve: &AttentionCurve, row: &AttentionRow, peak: f64, multiprocessors: Option<f64>) -> (f64, f64) {
    let visible = if row.causal { 0.5 } else { 1.0 };
    let scores = Scores { heads: row.heads, queries: row.queries, sharing: 1, dim: row.dim, visible };
    let [heads, queries, dim] = [row.heads, row.queries, row.dim].map(|size| size as f64);
    let flops = 4.0 * heads * queries * queries * dim * visible;
    let (forward, backward) = curve.shares(dim);
    let (fills_forward, fills_backward) = reached(curve, &scores, multiprocessors);
    (flops / (peak * forward * fills_forward), BACKWARD_PRODUCTS * flops / (peak * backward * fills_backward))
}

/// What the device's attention depends on beside its own curve.
pub(super) struct AttentionUnit<'a> {
    /// Operations a second that shares are taken of, by type.
    pub peaks: &'a [(String, f64)],
    /// None of a CPU.
    pub multiprocessors: Option<f64>,
    /// Seconds of a kernel beside its operations.
    pub kernel: f64,
}

impl AttentionUnit<'_> {
    fn peak(&self, element: &str) -> Option<f64> {
        self.peaks.iter().find(|(name, _)| name == element).map(|(_, peak)| *peak)
    }
}

/// Fits the curve: the shares to rows of type `lead`, and what other types keep of them to theirs.
pub(super) fn fit(rows: &[AttentionRow], lead: &str, unit: &AttentionUnit<'_>, source: &str) -> Option<AttentionCurve> {
    let (multiprocessors, kernel) = (unit.multiprocessors, unit.kernel);
    let own: Vec<&AttentionRow> = rows.iter().filter(|row| row.element == lead).collect();
    let mut sizes: Vec<u64> = own.iter().map(|row| row.dim).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() || own.len() < 2 {
        return None;
    }
    let of_lead = unit.peak(lead)?;
    let curve = |at: &[f64]| AttentionCurve {
        source: source.to_owned(),
        heads: sizes.iter().enumerate().map(|(i, dim)| (*dim as f64, at[3 + 2 * i], at[4 + 2 * i])).collect(),
        fill: (at[0], at[1]),
        ramp: at[2],
        elements: Vec::new(),
    };
    let cost = |at: &[f64]| {
        let curve = curve(at);
        let pairs = own.iter().flat_map(|row| {
            let (forward, backward) = seconds(&curve, row, of_lead, multiprocessors);
            [(forward + kernel, row.forward), (backward + kernel, row.backward)]
        });
        error(pairs) + 1e-4 * (at[0] / 50.0 + at[1] / 50.0 + at[2] / 2000.0)
    };
    let mut start = vec![1.0, 0.7, 60.0];
    start.extend(sizes.iter().flat_map(|_| [0.4, 0.3]));
    // A simplex of many sides finds its way in several turns.
    let found = (0..4).fold(start, |from, _| least(&from, cost));
    let mut fitted = curve(&found);
    fitted.elements = elements(rows, lead, |row| {
        let (forward, backward) = seconds(&fitted, row, unit.peak(&row.element)?, multiprocessors);
        let left = |seconds: f64| (seconds - kernel).max(0.1 * seconds);
        Some((forward / left(row.forward), backward / left(row.backward)))
    });
    Some(fitted)
}

/// What each type but `lead` keeps: the median of its rows.
fn elements(
    rows: &[AttentionRow],
    lead: &str,
    keeps: impl Fn(&AttentionRow) -> Option<(f64, f64)>,
) -> Vec<(String, f64, f64)> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.element.as_str()).filter(|name| *name != lead).collect();
    names.sort_unstable();
    names.dedup();
    let of = |name: &&str| {
        let both: Vec<(f64, f64)> = rows.iter().filter(|row| row.element == *name).filter_map(&keeps).collect();
        let (forward, backward) = both.into_iter().unzip();
        Some(((*name).to_owned(), median(forward)?, median(backward)?))
    };
    names.iter().filter_map(of).collect()
}
