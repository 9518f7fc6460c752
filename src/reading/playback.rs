//! A recording that is played: where it stands, and how it is steered.

use std::collections::VecDeque;

use serde::Serialize;

use super::Moment;
use crate::units::Seconds;

/// The slowest and the fastest that a recording is played; from step to step it doubles.
pub const SPEEDS: std::ops::RangeInclusive<f64> = 0.125..=4096.0;

/// Where a recording stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Playback {
    /// The time of its first sample.
    pub start: Moment,
    /// The time of its last sample.
    pub end: Moment,
    /// The time of the sample that is shown.
    pub at: Moment,
    /// Recorded seconds a second.
    pub speed: f64,
    /// Time stands still.
    pub paused: bool,
    /// How often it has gone back: what was shown before is no longer the past.
    pub rewound: u64,
    /// Samples before the point that it went back to last, at a milestone; 0: to the beginning.
    pub from: usize,
    /// What is wrong with the file, and where: it is played up to there.
    pub damage: Option<String>,
}

impl Playback {
    /// How far it has been played.
    #[must_use]
    pub fn position(&self) -> Seconds {
        self.at.since(self.start)
    }

    /// How long it is.
    #[must_use]
    pub fn length(&self) -> Seconds {
        self.end.since(self.start)
    }

    /// Whether the last sample is shown.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.at >= self.end
    }
}

/// What somebody wants of a recording that is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steer {
    /// Stand still, or go on; at the end: from the beginning.
    Pause,
    /// Stand still, so many samples later or earlier.
    Step(i64),
    /// Go to so many recorded seconds later or earlier.
    Seek(i32),
    /// Go on or back by so many hundredths of the whole.
    SeekPercent(i32),
    /// The whole way again to where it is, from the very beginning.
    Afresh,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
}

/// What is kept of a recording at its last milestones. The player and those who show what it plays
/// both follow this one rule, so each knows without asking where the other can go back to.
#[derive(Debug, Clone)]
pub struct Milestones<T> {
    kept: VecDeque<(usize, T)>,
}

impl<T> Default for Milestones<T> {
    fn default() -> Self {
        Self { kept: VecDeque::new() }
    }
}

impl<T> Milestones<T> {
    /// Samples from one to the next: a step back takes the time of no more than twice as many.
    pub const EVERY: usize = 300;
    /// Those that are kept: what is shown of eight GPUs takes megabytes each time.
    const KEPT: usize = 2;

    /// So many samples have been played: keeps what is `shown` then, at a milestone.
    pub fn pass(&mut self, samples: usize, shown: impl FnOnce() -> T) {
        if !samples.is_multiple_of(Self::EVERY) {
            return;
        }
        if self.kept.len() == Self::KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((samples, shown()));
    }

    /// The last milestone after at most so many samples, and what was kept there; those after it are forgotten.
    pub fn back_to(&mut self, samples: usize) -> Option<&(usize, T)> {
        self.kept.retain(|(at, _)| *at <= samples);
        self.kept.back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_two_milestones_are_kept() {
        let mut milestones = Milestones::default();
        for samples in 1..=1000 {
            milestones.pass(samples, || samples);
        }
        assert_eq!(milestones.clone().back_to(1000), Some(&(900, 900)));
        assert_eq!(milestones.back_to(899), Some(&(600, 600)));
        // What was shown after that has not been played yet.
        assert_eq!(milestones.back_to(1000), Some(&(600, 600)));
        assert_eq!(milestones.back_to(599), None);
    }
}
