//! What errors amount to.

use super::ValidationRow;

/// The errors of the graded rows that share a key, in percent. Without any, all but the
/// counts is none.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorSummary<K> {
    /// What the rows share.
    pub key: K,
    /// Graded rows.
    pub n: usize,
    /// Rows without a prediction.
    pub unanswered: usize,
    /// Mean of the absolute errors.
    pub mean_abs_pct: Option<f64>,
    /// Their median (of an even number the mean of the middle two).
    pub median_abs_pct: Option<f64>,
    /// The 90th percentile of them, interpolated between neighbours.
    pub p90_abs_pct: Option<f64>,
    /// The largest of them.
    pub max_abs_pct: Option<f64>,
    /// Mean of the signed errors: which way predictions lean.
    pub bias_pct: Option<f64>,
}

/// One summary a key, in the order in which keys first appear.
pub fn summaries<'a, K: PartialEq>(
    rows: &'a [ValidationRow],
    key: impl Fn(&'a ValidationRow) -> K,
) -> Vec<ErrorSummary<K>> {
    let mut groups: Vec<(K, Vec<&ValidationRow>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups.into_iter().map(|(key, members)| summary(key, &members)).collect()
}

fn summary<K>(key: K, rows: &[&ValidationRow]) -> ErrorSummary<K> {
    let signed: Vec<f64> = rows.iter().filter_map(|row| row.error_pct).collect();
    let mut absolute: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
    absolute.sort_by(f64::total_cmp);
    ErrorSummary {
        key,
        n: signed.len(),
        unanswered: rows.iter().filter(|row| row.predicted.is_none()).count(),
        mean_abs_pct: mean(&absolute),
        median_abs_pct: quantile(&absolute, 0.5),
        p90_abs_pct: quantile(&absolute, 0.9),
        max_abs_pct: absolute.last().copied(),
        bias_pct: mean(&signed),
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The value at `share` of the way through sorted values, interpolated linearly.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = share * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - at.floor()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn row(quantity: &str, error_pct: Option<f64>) -> ValidationRow {
        ValidationRow {
            id: "a".to_owned(),
            group: None,
            quantity: quantity.to_owned(),
            measured: Value::from(1),
            predicted: error_pct.map(Value::from),
            error_pct,
            reason: None,
        }
    }

    fn close(value: Option<f64>, by_hand: f64) {
        assert!((value.unwrap() - by_hand).abs() < 1e-9, "{value:?} is not {by_hand}");
    }

    #[test]
    fn an_even_number_of_errors_by_hand() {
        // Absolute and sorted: 1, 2, 3, 10. At 0.9 x 3 = 2.7: 3 + 0.7 x (10 - 3).
        let rows = [-2.0, 1.0, 10.0, -3.0].map(|error| row("step_time_s", Some(error)));
        let all = summaries(&rows, |row| row.quantity.as_str());
        assert_eq!((all.len(), all[0].n, all[0].unanswered), (1, 4, 0));
        close(all[0].mean_abs_pct, 4.0);
        close(all[0].median_abs_pct, 2.5);
        close(all[0].p90_abs_pct, 7.9);
        close(all[0].max_abs_pct, 10.0);
        close(all[0].bias_pct, 1.5);
    }

    #[test]
    fn an_odd_number_of_errors_by_hand() {
        // 0, 5, 100: the median is the middle one; at 0.9 x 2 = 1.8: 5 + 0.8 x 95.
        let rows = [100.0, 0.0, -5.0].map(|error| row("fits", Some(error)));
        let all = summaries(&rows, |row| row.quantity.as_str());
        close(all[0].median_abs_pct, 5.0);
        close(all[0].p90_abs_pct, 81.0);
        close(all[0].bias_pct, 95.0 / 3.0);
    }

    #[test]
    fn rows_without_a_grade_are_counted_apart() {
        let rows = [row("mfu", None), row("params", Some(0.5)), row("mfu", None)];
        let all = summaries(&rows, |row| row.quantity.as_str());
        assert_eq!((all[0].key, all[0].n, all[0].unanswered, all[0].mean_abs_pct), ("mfu", 0, 2, None));
        assert_eq!((all[1].key, all[1].n), ("params", 1));
        close(all[1].p90_abs_pct, 0.5);
    }
}
