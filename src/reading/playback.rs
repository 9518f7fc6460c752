//! A recording that is played: where it stands, and how it is steered.

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
    /// Twice as fast.
    Faster,
    /// Half as fast.
    Slower,
}
