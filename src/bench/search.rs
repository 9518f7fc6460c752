//! The smallest value of a function of a few positive numbers.

/// Steps of the search.
const STEPS: usize = 600;

/// Mean of `|ln(predicted / measured)|`: the error that counts too much as much as too little.
pub(super) fn error(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for (predicted, measured) in pairs {
        sum += (predicted / measured).ln().abs();
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

/// The middle one; none of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 0 => Some(f64::midpoint(values[half - 1], values[half])),
        _ => Some(values[half]),
    }
}

/// Positive numbers near `start` at which `cost` is least: Nelder and Mead's simplex over their logarithms (The Computer
/// Journal 7, 1965), begun again at its own result until that is no better.
pub(super) fn least(start: &[f64], cost: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let logarithms: Vec<f64> = start.iter().map(|value| value.ln()).collect();
    let of = |point: &[f64]| {
        let values: Vec<f64> = point.iter().map(|value| value.exp()).collect();
        cost(&values)
    };
    let (mut best, mut reached) = (logarithms.clone(), of(&logarithms));
    for size in [0.7, 0.3, 0.1, 0.5, 0.05] {
        let (point, value) = simplex(&best, size, &of);
        if value < reached {
            (best, reached) = (point, value);
        }
    }
    best.into_iter().map(f64::exp).collect()
}

fn simplex(start: &[f64], size: f64, of: &impl Fn(&[f64]) -> f64) -> (Vec<f64>, f64) {
    let mut corners: Vec<(Vec<f64>, f64)> = vec![(start.to_vec(), of(start))];
    for at in 0..start.len() {
        let mut corner = start.to_vec();
        corner[at] += size;
        let value = of(&corner);
        corners.push((corner, value));
    }
    let count = start.len() as f64;
    for _ in 0..STEPS {
        corners.sort_by(|one, other| one.1.total_cmp(&other.1));
        let Some((worst, reached)) = corners.pop() else { break };
        let middle: Vec<f64> =
            (0..start.len()).map(|at| corners.iter().map(|(c, _)| c[at]).sum::<f64>() / count).collect();
        let along = |far: f64| -> (Vec<f64>, f64) {
            let point: Vec<f64> =
                middle.iter().zip(&worst).map(|(middle, worst)| far.mul_add(middle - worst, *middle)).collect();
            let value = of(&point);
            (point, value)
        };
        let reflected = along(1.0);
        let (least, last) = (corners[0].1, corners.last().map_or(reached, |corner| corner.1));
        let next = if reflected.1 < least {
            let further = along(2.0);
            if further.1 < reflected.1 { further } else { reflected }
        } else if reflected.1 < last {
            reflected
        } else {
            let nearer = if reflected.1 < reached { along(0.5) } else { along(-0.5) };
            if nearer.1 >= reached {
                shrink(&mut corners, of);
            }
            if nearer.1 < reached {
                nearer
            } else {
                (worst.iter().zip(&corners[0].0).map(|(w, b)| f64::midpoint(*w, *b)).collect(), reached)
            }
        };
        let value = of(&next.0);
        corners.push((next.0, value));
    }
    corners.sort_by(|one, other| one.1.total_cmp(&other.1));
    corners.swap_remove(0)
}

/// Draws all corners half-way to the best one.
fn shrink(corners: &mut [(Vec<f64>, f64)], of: &impl Fn(&[f64]) -> f64) {
    let best = corners[0].0.clone();
    for (corner, value) in corners.iter_mut().skip(1) {
        for (side, best) in corner.iter_mut().zip(&best) {
            *side = f64::midpoint(*side, *best);
        }
        *value = of(corner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's function, (1 - x)^2 + 100 (y - x^2)^2, is least at (1, 1).
    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        let found = least(&[0.3, 3.0], |at| (1.0 - at[0]).powi(2) + 100.0 * (at[1] - at[0].powi(2)).powi(2));
        assert!((found[0] - 1.0).abs() < 1e-3 && (found[1] - 1.0).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(vec![5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }
}
