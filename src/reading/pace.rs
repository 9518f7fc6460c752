//! How long the steps of a run take, by what its last messages said.

use std::collections::VecDeque;

use super::Moment;
use crate::units::{Bytes, Seconds};

/// Messages that are kept: a minute at one a second.
const MOST: usize = 64;

/// Those that are the end of a run: some seconds. One alone may have been interrupted.
const LAST: usize = 8;
const FEWEST: usize = 3;

/// An end is another pace where its steps take so many times as long, or as short.
const OTHER: f64 = 1.25;

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
        median(self.0.iter().copied().collect())
    }

    /// The median of the steps before those of the end began, where these take another time than most did, and theirs.
    #[must_use]
    pub fn turned(&self) -> Option<[Seconds; 2]> {
        let end = self.at_end()?;
        let alike = |(_, each): &&(u64, Seconds)| (1.0 / OTHER..=OTHER).contains(&(each.0 / end.0));
        let ends = self.0.iter().rev().take_while(alike).count();
        let before = median(self.0.range(..self.0.len() - ends).copied().collect())?;
        Some([before, end])
    }

    /// The median of the last steps, where they take another time than most did.
    fn at_end(&self) -> Option<Seconds> {
        let count = LAST.min(self.0.len() / 2);
        let end = median(self.0.range(self.0.len() - count..).copied().collect()).filter(|_| count >= FEWEST)?;
        let times = end.0 / self.usual()?.0;
        (!(1.0 / OTHER..=OTHER).contains(&times)).then_some(end)
    }
}

/// What a process holds after its steps, over its whole run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeldMemory {
    points: Vec<(u64, Moment, Bytes)>,
    /// Steps that lie between two of them at least.
    apart: u64,
}

/// Points that are kept: where there are more, every second one goes and from then on half as many are taken.
const KEPT: usize = 256;

impl HeldMemory {
    /// After so many steps, at that time.
    pub fn note(&mut self, step: u64, at: Moment, held: Bytes) {
        if self.points.last().is_some_and(|(last, ..)| step <= last + self.apart) {
            return;
        }
        if self.points.len() == KEPT {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            let first = self.points.first().map_or(step, |(first, ..)| *first);
            self.apart = step.saturating_sub(first) / (KEPT as u64 / 2);
        }
        self.points.push((step, at, held));
    }

    /// Step, time and memory, oldest first.
    #[must_use]
    pub fn points(&self) -> &[(u64, Moment, Bytes)] {
        &self.points
    }
}

/// The time of the middle one of all steps.
fn median(mut times: Vec<(u64, Seconds)>) -> Option<Seconds> {
    times.sort_by(|(_, one), (_, other)| one.0.total_cmp(&other.0));
    let half = times.iter().map(|(steps, _)| *steps).sum::<u64>().div_ceil(2);
    let mut passed = 0;
    let middle = times.iter().find(|(steps, _)| {
        passed += steps;
        passed >= half && half > 0
    });
    middle.map(|(_, each)| *each)
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

    /// 300 steps of 22 ms told thirteen times, and 100 of 222 ms told 44 times: the middle one of 400 took 22 ms.
    #[test]
    fn a_slow_end_is_told_beside_the_usual_step() {
        let mut pace = StepPace::default();
        (0..13).for_each(|_| pace.then(23, Seconds(0.022)));
        assert_eq!(pace.at_end(), None);
        (0..44).for_each(|_| pace.then(2, Seconds(0.222)));
        assert_eq!((pace.usual(), pace.at_end()), (Some(Seconds(0.022)), Some(Seconds(0.222))));
        // Half of the run each: the median of all lies between both.
        let mut halves = StepPace::default();
        (0..13).for_each(|_| halves.then(2, Seconds(0.42)));
        halves.then(4, Seconds(1.17));
        (0..10).for_each(|_| halves.then(2, Seconds(1.92)));
        assert_eq!(halves.turned(), Some([Seconds(0.42), Seconds(1.92)]));
        // One that was interrupted is no end.
        let mut pace = StepPace::default();
        (0..13).for_each(|_| pace.then(23, Seconds(0.022)));
        pace.then(1, Seconds(3.0));
        assert_eq!(pace.at_end(), None);
    }

    #[test]
    fn old_steps_are_forgotten() {
        let mut pace = StepPace::default();
        (0..MOST).for_each(|_| pace.then(100, Seconds(1.0)));
        (0..MOST).for_each(|_| pace.then(1, Seconds(2.0)));
        assert_eq!(pace.usual(), Some(Seconds(2.0)));
    }
}
