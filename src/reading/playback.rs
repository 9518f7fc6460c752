//! A recording that is played: where it stands, and how it is steered.

use serde::Serialize;

use super::Moment;

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
    /// How often it has gone to another place: what was shown before is no longer the past.
    pub rewound: u64,
    /// Samples before the point that it went to last, at a milestone; 0: to the beginning.
    pub from: usize,
    /// The time of the sample that it is on the way to; none where it just plays.
    pub going_to: Option<Moment>,
    /// What was looked for and gone to last: when that is, and what happens there.
    pub found: Option<(Moment, String)>,
    /// What is wrong with the file, and where: it is played up to there.
    pub damage: Option<String>,
}

impl Playback {
    /// A time as it is read from the beginning: `1:02:03`.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn clock(&self, at: Moment) -> String {
        let seconds = at.since(self.start).0 as u64;
        format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
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
pub enum PlaybackCommand {
    /// Stand still, or go on; at the end: from the beginning.
    Pause,
    /// Stand still, so many samples later or earlier.
    Step(i64),
    /// Go to so many recorded seconds later or earlier.
    Seek(i32),
    /// Go on or back by so many hundredths of the whole.
    SeekPercent(i32),
    /// Go to the next event, or to the one before: a process comes or goes, work begins or ends, a GPU is lost or
    /// back, memory runs out, the loss is no number.
    Event(i8),
    /// The whole way again to where it is, from the very beginning.
    Afresh,
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
}

/// What is kept of a recording at milestones: the last ones passed, and some over all that was ever played. The player
/// and those who show what it plays both follow this one rule, so each knows without asking where the other can go to.
#[derive(Debug, Clone)]
pub struct Milestones<T> {
    /// By samples, ascending.
    kept: Vec<(usize, T)>,
    /// Samples from one to the next of those that stay.
    stride: usize,
}

impl<T> Default for Milestones<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: Self::EVERY }
    }
}

impl<T> Milestones<T> {
    /// Samples from one to the next: a step back takes the time of no more than twice as many.
    pub const EVERY: usize = 300;
    /// Those that are kept behind where it stands.
    const NEAR: usize = 2;
    /// Those that stay, before every second one is given up: what is shown of eight GPUs takes 3 MB each time.
    const FAR: usize = 16;

    /// So many samples have been played: keeps what is `shown` then, at a milestone.
    pub fn pass(&mut self, samples: usize, shown: impl FnOnce() -> T) {
        if !samples.is_multiple_of(Self::EVERY) {
            return;
        }
        match self.kept.binary_search_by_key(&samples, |(at, _)| *at) {
            Ok(known) => self.kept[known].1 = shown(),
            Err(place) => self.kept.insert(place, (samples, shown())),
        }
        while self.kept.iter().filter(|(at, _)| at.is_multiple_of(self.stride)).count() > Self::FAR {
            self.stride *= 2;
        }
        let near = |at: usize| at <= samples && samples - at < Self::NEAR * Self::EVERY;
        self.kept.retain(|(at, _)| at.is_multiple_of(self.stride) || near(*at));
    }

    /// The last milestone after at most so many samples, and what was kept there.
    #[must_use]
    pub fn before(&self, samples: usize) -> Option<&(usize, T)> {
        let after = self.kept.partition_point(|(at, _)| *at <= samples);
        self.kept.get(after.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(milestones: &Milestones<usize>) -> Vec<usize> {
        milestones.kept.iter().map(|(at, _)| *at).collect()
    }

    #[test]
    fn the_last_milestones_are_kept_and_some_of_all_that_was_played() {
        let mut milestones = Milestones::default();
        for samples in 1..=1000 {
            milestones.pass(samples, || samples);
        }
        assert_eq!(kept(&milestones), [300, 600, 900]);
        assert_eq!((milestones.before(899), milestones.before(299)), (Some(&(600, 600)), None));
        // A day, a second each: every 9600th, as 18 of every 4800th are too many; and the last two.
        for samples in 1001..=86_400 {
            milestones.pass(samples, || samples);
        }
        let far: Vec<usize> = (1..=9).map(|number| number * 9600).collect();
        assert_eq!(kept(&milestones), [&far[..8], &[86_100, 86_400]].concat());
        // Back at its beginning, those ahead are still there: the same is shown there again.
        milestones.pass(300, || 0);
        milestones.pass(600, || 0);
        assert_eq!(kept(&milestones), [&[300, 600], &far[..]].concat());
    }
}
