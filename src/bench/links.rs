//! Collectives by message size and group: what a ring reaches of a link, what it takes to start, and each step.

use super::rows::CollectiveRow;
use super::search::{error, least, median};
use crate::catalog::LinkCurve;
use crate::units::BytesPerSec;

/// Fits the collectives of one scope over a link of that rate; none without an all-reduce.
pub(super) fn fit(
    rows: &[CollectiveRow],
    (scope, link, each_way): (&str, &str, BytesPerSec),
    base: Option<&LinkCurve>,
    source: &str,
) -> Option<LinkCurve> {
    let mine = |kind: &str| -> Vec<&CollectiveRow> {
        rows.iter().filter(|row| row.scope == scope && row.kind == kind).collect()
    };
    let rings: Vec<(&CollectiveRow, f64)> = [("all_reduce", 2.0), ("all_gather", 1.0), ("reduce_scatter", 1.0)]
        .iter()
        .flat_map(|(kind, scale)| mine(kind).into_iter().map(|row| (row, *scale)))
        .collect();
    if rings.len() < 3 {
        return None;
    }
    let seconds = |at: &[f64], row: &CollectiveRow, scale: f64| {
        let steps = (row.ranks - 1.0) * at[2];
        (at[1] + scale * steps) * 1e-6 + row.bytes * scale * (row.ranks - 1.0) / row.ranks / (each_way.0 * at[0])
    };
    let cost = |at: &[f64]| error(rings.iter().map(|(row, scale)| (seconds(at, row, *scale), row.seconds)));
    let starts = [[0.5, 20.0, 5.0], [0.1, 100.0, 1.0], [0.7, 5.0, 20.0]];
    let found = starts.iter().map(|start| least(start, cost));
    let best = found.min_by(|one, other| cost(one).total_cmp(&cost(other)))?;
    let (ring, start_us, hop_us) = (best[0], best[1], best[2]);
    // Long messages alone say what their rate is.
    let rate = |kind: &str, sent: fn(&CollectiveRow) -> f64| {
        let rows = mine(kind);
        let largest = rows.iter().map(|row| row.bytes).fold(0.0, f64::max);
        let long = rows.iter().filter(|row| row.bytes >= largest);
        median(
            long.map(|row| sent(row) / (row.seconds - start_us * 1e-6).max(0.2 * row.seconds) / each_way.0).collect(),
        )
    };
    let all_to_all = rate("all_to_all", |row| row.bytes * (row.ranks - 1.0) / row.ranks);
    let point_to_point = rate("send", |row| row.bytes);
    Some(LinkCurve {
        scope: scope.to_owned(),
        link: Some(link.to_owned()),
        source: source.to_owned(),
        ring,
        all_to_all: all_to_all.or(base.map(|base| base.all_to_all)).unwrap_or(ring),
        point_to_point: point_to_point.or(base.map(|base| base.point_to_point)).unwrap_or(ring),
        start_us,
        hop_us,
        further: None,
        short: None,
    })
}
