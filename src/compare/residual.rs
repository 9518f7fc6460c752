//! One quantity, predicted and observed.

use super::bands::Tolerance;
use crate::reading::{Reading, ReadingKind};
use crate::units::Fraction;

/// One quantity, predicted and observed.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual<T> {
    /// What the plan should use.
    pub predicted: T,
    /// What the run uses.
    pub observed: Reading<T>,
    /// (observed - predicted) / predicted; none without an observation or with a prediction of 0.
    pub relative: Option<f64>,
    /// How far such figures stray from their predictions anyway.
    pub tolerance: Tolerance,
    /// Whether the difference says something: not a bound above the prediction, nor a peak
    /// that may still rise to it.
    pub conclusive: bool,
    /// Whether it is conclusive and beyond the tolerance.
    pub notable: bool,
}

impl<T: Copy> Residual<T> {
    /// Sets `observed` against `predicted`; `settled`: the observation will not rise any more.
    pub fn new(
        predicted: T,
        observed: Reading<T>,
        number: impl Fn(T) -> f64,
        tolerance: Tolerance,
        settled: bool,
    ) -> Self {
        let expected = number(predicted);
        let relative = observed.value().filter(|_| expected > 0.0).map(|value| (number(*value) - expected) / expected);
        let below = relative.is_some_and(|relative| relative < 0.0);
        let conclusive = match observed.kind() {
            // An upper bound above the prediction neither confirms nor contradicts it.
            Some(ReadingKind::UpperBound) => below,
            Some(ReadingKind::Measured | ReadingKind::Estimated) => settled || !below,
            None => false,
        };
        let notable = conclusive && relative.is_some_and(|relative| tolerance.is_left_by(relative));
        Self { predicted, observed, relative, tolerance, conclusive, notable }
    }

    /// The verdict in words, of a run that is over or goes on; none where nothing was observed.
    #[must_use]
    pub fn verdict(&self, is_over: bool) -> Option<&'static str> {
        let relative = self.relative?;
        Some(match (self.conclusive, self.notable, relative > 0.0) {
            (true, false, _) => "as planned",
            (true, true, true) => "above plan",
            (true, true, false) => "below plan",
            (false, _, true) => "a bound above the plan says nothing",
            (false, _, false) if is_over => "ended before it was known",
            (false, _, false) => "may still rise",
        })
    }
}

impl Residual<Fraction> {
    /// Whether a share of a peak is observed that is more than all of it, where its plan is one that stays below: then the
    /// peak is none.
    ///
    /// ```
    /// use memwall::compare::{Residual, Tolerance};
    /// use memwall::reading::{Moment, Reading};
    /// use memwall::units::Fraction;
    ///
    /// let share = |predicted, observed| {
    ///     let observed = Reading::measured(Fraction(observed), Moment(1));
    ///     Residual::new(Fraction(predicted), observed, |share| share.0, Tolerance { below: 0.1, above: 0.1 }, true)
    /// };
    /// assert!(share(0.76, 2.08).passes_the_peak());
    /// assert!(!share(0.76, 0.98).passes_the_peak());
    /// // Of a plan whose frozen weights are counted as if they were trained.
    /// assert!(!share(1.39, 1.41).passes_the_peak());
    /// ```
    #[must_use]
    pub fn passes_the_peak(&self) -> bool {
        self.predicted.0 <= 1.0 && self.observed.value().is_some_and(|seen| seen.0 > 1.0)
    }
}
