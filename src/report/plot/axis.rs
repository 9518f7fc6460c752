//! Axes: what they are named, where a value lies on them, and where their ticks stand.

use crate::units::three_figures;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

/// One axis of a plot.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotAxis {
    /// What it shows, with the unit.
    pub label: String,
    /// Values with their words, the least first.
    pub ticks: Vec<(f64, String)>,
    scale: Scale,
    from: f64,
    to: f64,
}

/// Ticks of a linear axis, about.
const TICKS: f64 = 6.0;

/// Values further apart than that are spread by their logarithm.
const WIDE: f64 = 30.0;

impl PlotAxis {
    /// From one value to another.
    #[must_use]
    pub fn linear(label: &str, from: f64, to: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let step = step((to - from) / TICKS);
        #[allow(clippy::cast_possible_truncation)]
        let (first, last) = ((from / step).ceil() as i64, (to / step).floor() as i64);
        let ticks = (first..=last).map(|at| (at as f64 * step, number(at as f64 * step, step))).collect();
        Self { label: label.to_owned(), ticks, scale: Scale::Linear, from, to }
    }

    /// From one power of ten to another; a tick at each whole one, its value over `unit`.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn decades(label: &str, (from, to): (f64, f64), unit: i32) -> Self {
        let ticks = (from.ceil() as i32..=to.floor() as i32).map(|at| (10_f64.powi(at), power(at - unit))).collect();
        Self { label: label.to_owned(), ticks, scale: Scale::Log, from, to: to.max(from + 1.0) }
    }

    /// Over these values with room at the ends: from 0, or by their logarithm where they are far apart.
    #[must_use]
    pub fn over(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > 0.0 && high / low > WIDE {
            return Self::decades(label, ((low * 0.7).log10(), (high * 1.4).log10()), 0);
        }
        Self::linear(label, low.min(0.0), if high > 0.0 { high * 1.08 } else { 1.0 })
    }

    /// The same with a tick at each of a few values that stand for themselves.
    #[must_use]
    pub fn with_ticks(self, ticks: Vec<(f64, String)>) -> Self {
        Self { ticks, ..self }
    }

    /// One place for each name: the first at 0.5.
    #[must_use]
    pub fn named(label: &str, names: impl IntoIterator<Item = String>) -> Self {
        let ticks: Vec<(f64, String)> =
            names.into_iter().enumerate().map(|(at, name)| (at as f64 + 0.5, name)).collect();
        let to = ticks.len().max(1) as f64;
        Self { label: label.to_owned(), ticks, scale: Scale::Linear, from: 0.0, to }
    }

    /// Where a value lies: 0 at the beginning, 1 at the end; what is beyond lies at the border.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        ((self.along(value) - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// Whether a value lies on the axis.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        let slack = (self.to - self.from) * 1e-9;
        (self.from - slack..=self.to + slack).contains(&self.along(value))
    }

    fn along(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
        }
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn step(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * decade).find(|step| *step >= least * 0.999).unwrap_or(10.0 * decade)
}

/// As many decimals as the step between ticks has.
fn number(value: f64, step: f64) -> String {
    if value.abs() >= 1e6 {
        return format!("{} M", three_figures(value / 1e6));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.trim_start_matches('-').trim_matches(['0', '.']).is_empty() { "0".to_owned() } else { text }
}

/// A power of ten without an exponent, as far as it can be read.
pub(in crate::report) fn power(decade: i32) -> String {
    if !(-4..=5).contains(&decade) {
        return format!("1e{decade}");
    }
    let zeros = "0".repeat(decade.unsigned_abs().saturating_sub(u32::from(decade < 0)) as usize);
    if decade >= 0 { format!("1{zeros}") } else { format!("0.{zeros}1") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &PlotAxis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, words)| words.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_say_their_decimals() {
        assert_eq!(words(&PlotAxis::linear("GiB", 0.0, 79.6)), ["0", "20", "40", "60"]);
        assert_eq!(words(&PlotAxis::linear("s", 0.0, 1.1)), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(words(&PlotAxis::decades("FLOP/B", (-1.0, 2.0), 0)), ["0.1", "1", "10", "100"]);
        assert_eq!(words(&PlotAxis::decades("TFLOP/s", (11.0, 14.2), 12)), ["0.1", "1", "10", "100"]);
    }

    #[test]
    fn values_lie_by_their_logarithm_where_they_are_far_apart() {
        let near = PlotAxis::over("GiB", [10.0, 40.0]);
        assert!((near.share(21.6) - 0.5).abs() < 1e-9);
        let far = PlotAxis::decades("", (0.0, 4.0), 0);
        assert!((far.share(100.0) - 0.5).abs() < 1e-9 && far.share(1e9) == 1.0 && !far.holds(1e9) && far.holds(1e4));
    }
}
