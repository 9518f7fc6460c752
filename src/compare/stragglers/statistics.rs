//! Medians, and deviations from them.

/// A healthy measure strays by as much at least: counters are rounded, and averaged over different times.
pub const LEAST_SPREAD: f64 = 0.01;

/// The standard deviation of a normal distribution over its MAD: 1 / Φ⁻¹(3/4).
const NORMAL: f64 = 1.482_602;

/// The median; none of nothing.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let (middle, is_odd) = (values.len() / 2, values.len() % 2 == 1);
    if values.is_empty() {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if is_odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(f64::midpoint(lower, upper))
}

/// The median of each group, by its number.
pub fn group_medians(values: &[Option<f64>], groups: &[usize]) -> Vec<Option<f64>> {
    let count = groups.iter().max().map_or(0, |last| last + 1);
    let mut of_group: Vec<Vec<f64>> = vec![Vec::new(); count];
    for (value, group) in values.iter().zip(groups) {
        of_group[*group].extend(value);
    }
    of_group.iter_mut().map(|values| median(values)).collect()
}

/// How far each value is from the median of its group, as a share of that.
pub fn residuals(values: &[Option<f64>], groups: &[usize]) -> Vec<Option<f64>> {
    let medians = group_medians(values, groups);
    let off = |value: f64, median: f64| (median > 0.0).then(|| value / median - 1.0);
    values.iter().zip(groups).map(|(value, group)| off((*value)?, medians[*group]?)).collect()
}

/// The robust standard deviation of what is around 0, and at least `least`.
pub fn scale(residuals: &[Option<f64>], least: f64) -> Option<f64> {
    let mut sizes: Vec<f64> = residuals.iter().flatten().map(|off| off.abs()).collect();
    median(&mut sizes).map(|mad| (NORMAL * mad).max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_outliers_move_neither_median_nor_spread() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
        let values: Vec<Option<f64>> = [9.0, 10.0, 10.0, 10.0, 11.0, 2.0, 1.0].map(Some).to_vec();
        let off = residuals(&values, &[0; 7]);
        // The median is 10; distances 0.1, 0, 0, 0, 0.1, 0.8, 0.9 have the median 0.1.
        assert!((off[5].unwrap() + 0.8).abs() < 1e-12);
        assert!((scale(&off, 0.0).unwrap() - 0.148_260_2).abs() < 1e-9);
    }

    #[test]
    fn each_group_has_its_own_median() {
        let values: Vec<Option<f64>> = vec![Some(1.0), Some(10.0), None, Some(20.0)];
        assert_eq!(
            residuals(&values, &[0, 1, 1, 1]),
            [Some(0.0), Some(10.0 / 15.0 - 1.0), None, Some(20.0 / 15.0 - 1.0)]
        );
    }
}
