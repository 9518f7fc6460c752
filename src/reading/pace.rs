//! How long the steps of a run take, by what its last messages said.

use std::collections::VecDeque;

use crate::units::Seconds;

/// Messages that are kept: a minute at one a second.
const MOST: usize = 64;

/// Times of the newest steps. One late step, or one that was interrupted, is not the time of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepPace(VecDeque<(u64, Seconds)>);

impl StepPace {
    /// After `steps` more that took `each` on average.
    pub fn then(&mut self, steps: u64, each: Seconds) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((steps, each));
    }

    /// The median of the steps; none before the first.
    #[must_use]
    pub fn usual(&self) -> Option<Seconds> {
        let mut times: Vec<(u64, Seconds)> = self.0.iter().copied().collect();
        times.sort_by(|(_, one), (_, other)| one.0.total_cmp(&other.0));
        let half = times.iter().map(|(steps, _)| *steps).sum::<u64>().div_ceil(2);
        let mut passed = 0;
        let middle = times.iter().find(|(steps, _)| {
            passed += steps;
            passed >= half && half > 0
        });
        middle.map(|(_, each)| *each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_step_is_not_the_usual_one() {
        let mut pace = StepPace::default();
        assert_eq!(pace.usual(), None);
        // Five messages of a step each, one of four, and a last one that was interrupted: of ten steps the fifth
        // shortest took 0.8 s.
        for (steps, each) in [(1, 9.0), (1, 0.8), (1, 0.7), (1, 0.9), (1, 0.6), (4, 0.8), (1, 6.0)] {
            pace.then(steps, Seconds(each));
        }
        assert_eq!(pace.usual(), Some(Seconds(0.8)));
    }

    #[test]
    fn old_steps_are_forgotten() {
        let mut pace = StepPace::default();
        (0..MOST).for_each(|_| pace.then(100, Seconds(1.0)));
        (0..MOST).for_each(|_| pace.then(1, Seconds(2.0)));
        assert_eq!(pace.usual(), Some(Seconds(2.0)));
    }
}
