//! The period of a training step from the rhythm of a device: power and activity rise and fall
//! with every step. By autocorrelation, so an estimate; nothing is offered for a series that has
//! no clear rhythm.
//!
//! A step shorter than four samples cannot be told. One that the sampling meets nearly once, twice,
//! … a sample (1.1 s at one sample a second) looks like a long one, and no look at the samples alone can
//! tell: whoever shows the estimate says that it is one.

use crate::reading::Moment;
use crate::units::Seconds;

/// Samples that a look needs.
const LEAST: usize = 24;

/// Periods that have to be in sight.
const PERIODS: usize = 4;

/// The shortest period, in samples.
const SHORTEST: usize = 4;

/// How alike a series must be to itself one period later, 1 being the same. White noise of `n`
/// samples stays under 3/√n, 0.39 for 60.
const ALIKE: f64 = 0.5;

/// From this on a peak below the first one is a rhythm of its own.
const BELOW: f64 = 0.25;

/// How much less alike it must be in between.
const CONTRAST: f64 = 0.6;

/// The time in which `values`, taken at `times`, repeat. None where they do not.
#[must_use]
pub fn period(times: &[Moment], values: &[f64]) -> Option<Seconds> {
    let (step, values) = even_stretch(times, values)?;
    if values.len() < LEAST {
        return None;
    }
    let level = without_trend(&values);
    let longest = level.len() / PERIODS;
    // The second period is looked for as well: one lag more than twice the longest.
    let alike = autocorrelation(&level, 2 * longest + 2)?;
    let lag = first_peak(&alike, longest)?;
    let lag = refined(&alike, lag);
    Some(Seconds(lag * step.0))
}

/// The newest stretch without gaps, and the time between its samples.
fn even_stretch(times: &[Moment], values: &[f64]) -> Option<(Seconds, Vec<f64>)> {
    let count = times.len().min(values.len());
    let mut gaps: Vec<f64> = times[..count].windows(2).map(|pair| pair[1].since(pair[0]).0).collect();
    gaps.sort_by(f64::total_cmp);
    let usual = *gaps.get(gaps.len() / 2)?;
    if usual <= 0.0 {
        return None;
    }
    let start = (1..count).rev().find(|at| times[*at].since(times[at - 1]).0 > 2.5 * usual).unwrap_or(0);
    let stretch = values[start..count].to_vec();
    // The mean over the stretch: single times jitter.
    let intervals = stretch.len().checked_sub(1).filter(|intervals| *intervals > 0)?;
    let mean = times[count - 1].since(times[start]).0 / intervals as f64;
    Some((Seconds(mean), stretch))
}

/// What is left without mean and slope: a GPU that warms up has a trend, not a rhythm.
fn without_trend(values: &[f64]) -> Vec<f64> {
    let count = values.len() as f64;
    let centre = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let offset = |at: usize| at as f64 - centre;
    let slope = values.iter().enumerate().map(|(at, value)| offset(at) * (value - mean)).sum::<f64>()
        / (0..values.len()).map(|at| offset(at) * offset(at)).sum::<f64>();
    values.iter().enumerate().map(|(at, value)| value - mean - slope * offset(at)).collect()
}

/// The autocorrelation at lags 0 to `longest`, each over as many pairs as there are. None for a
/// constant series.
fn autocorrelation(level: &[f64], longest: usize) -> Option<Vec<f64>> {
    let power = level.iter().map(|value| value * value).sum::<f64>() / level.len() as f64;
    if power <= f64::EPSILON {
        return None;
    }
    let at = |lag: usize| {
        let pairs = level.iter().zip(&level[lag..]);
        pairs.map(|(now, later)| now * later).sum::<f64>() / (level.len() - lag) as f64 / power
    };
    Some((0..=longest.min(level.len() / 2 + 2)).map(at).collect())
}

/// The first lag at which the series is like itself again: a peak high enough, behind a dip deep
/// enough, and again after as long. None where a shorter rhythm shows below it: steps that the
/// sampling meets between two samples, or the micro batches of a step. Which is the step, nobody can say.
fn first_peak(alike: &[f64], longest: usize) -> Option<usize> {
    let highest = alike[SHORTEST..=longest.min(alike.len().checked_sub(1)?)].iter().copied().fold(f64::MIN, f64::max);
    let is_peak = |lag: usize| {
        let next = alike.get(lag + 1).copied().unwrap_or(f64::MAX);
        alike[lag - 1] <= alike[lag] && next <= alike[lag]
    };
    let found = (SHORTEST..=longest).find(|lag| {
        let here = alike[*lag];
        let dip = alike[1..*lag].iter().copied().fold(f64::MAX, f64::min);
        // A peak a sample beside twice the lag is still the second one.
        let second = (2 * lag - 1..=2 * lag + 1).filter_map(|twice| alike.get(twice)).copied().fold(f64::MIN, f64::max);
        // A period that is no whole number of samples is met up to half a sample beside its top.
        let beside = 2.0 / *lag as f64;
        let high = here >= ALIKE && here >= (0.9 - beside) * highest;
        is_peak(*lag) && high && here - dip >= CONTRAST && second >= 0.7 * ALIKE
    })?;
    let shorter = (2..found).any(|lag| is_peak(lag) && alike[lag] >= BELOW);
    (!shorter).then_some(found)
}

/// The lag between samples: the top of the parabola through the peak and its neighbours.
fn refined(alike: &[f64], lag: usize) -> f64 {
    let (before, here, after) = (alike[lag - 1], alike[lag], alike[lag + 1]);
    let bend = before - 2.0 * here + after;
    let shift = if bend < 0.0 { 0.5 * (before - after) / bend } else { 0.0 };
    lag as f64 + shift.clamp(-0.5, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random and are the same every time.
    struct Noise(u64);

    impl Noise {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
        }
    }

    /// A GPU that works 70 % of each `period` seconds and idles for the rest, looked at every second;
    /// samples come up to `jitter` seconds off, figures are off by up to `noise` of the swing.
    fn wave(period: f64, seconds: u64, noise: f64, jitter: f64, seed: u64) -> (Vec<Moment>, Vec<f64>) {
        let mut random = Noise(seed);
        (0..seconds)
            .map(|second| {
                let time = second as f64 + jitter * random.next().abs();
                let working = (time / period).fract() < 0.7;
                let watts = if working { 650.0 } else { 250.0 };
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let at = Moment((time * 1000.0) as u64 + 1_000_000);
                (at, watts + 400.0 * noise * random.next())
            })
            .unzip()
    }

    #[test]
    fn square_waves_with_noise_and_jitter_are_timed() {
        for true_period in [5.0, 6.5, 10.0, 17.3, 30.0] {
            for seed in 1..6 {
                let (times, values) = wave(true_period, 240, 0.2, 0.2, seed);
                let found = period(&times, &values).unwrap_or_else(|| panic!("no rhythm at {true_period} s")).0;
                let off = (found / true_period - 1.0).abs();
                assert!(off < 0.06, "{found} s, not {true_period} s (seed {seed})");
            }
        }
    }

    #[test]
    fn what_has_no_rhythm_has_no_period() {
        for seed in 1..40 {
            let mut random = Noise(seed);
            let times: Vec<Moment> = (0..300).map(|second| Moment(second * 1000)).collect();
            let white: Vec<f64> = times.iter().map(|_| random.next()).collect();
            assert_eq!(period(&times, &white), None, "white noise, seed {seed}");
            let mut at = 0.0;
            let walk: Vec<f64> = times
                .iter()
                .map(|_| {
                    at += random.next();
                    at
                })
                .collect();
            assert_eq!(period(&times, &walk), None, "a random walk, seed {seed}");
            let ramp: Vec<f64> = (0..300).map(|second| f64::from(second) + 0.1 * random.next()).collect();
            assert_eq!(period(&times, &ramp), None, "a ramp, seed {seed}");
        }
        let times: Vec<Moment> = (0..300).map(|second| Moment(second * 1000)).collect();
        assert_eq!(period(&times, &[700.0; 300]), None, "constant");
        let pulse: Vec<f64> = (0..300).map(|second| if second == 150 { 1.0 } else { 0.0 }).collect();
        assert_eq!(period(&times, &pulse), None, "one pulse");
    }

    #[test]
    fn what_is_too_short_or_too_fast_has_no_period() {
        let (times, values) = wave(10.0, 20, 0.0, 0.0, 1);
        assert_eq!(period(&times, &values), None, "two periods");
        // Sampled every second, a step of 2.1 s would look like one of 21 s, one of 3.5 s like 7 s.
        for fast in [2.1, 2.3, 2.6, 3.1, 3.5, 4.5] {
            let (times, values) = wave(fast, 300, 0.1, 0.1, 1);
            assert_eq!(period(&times, &values), None, "{fast} s");
        }
        assert_eq!(period(&[], &[]), None);
        assert_eq!(period(&[Moment(1); 50], &[1.0; 50]), None);
    }

    #[test]
    fn only_the_stretch_since_the_last_gap_counts() {
        let (mut times, mut values) = wave(6.0, 120, 0.1, 0.1, 3);
        let (later, newer) = wave(12.0, 120, 0.1, 0.1, 4);
        times.extend(later.iter().map(|at| at.plus_millis(1_000_000)));
        values.extend(newer);
        let found = period(&times, &values).unwrap().0;
        assert!((found / 12.0 - 1.0).abs() < 0.06, "{found}");
    }
}
