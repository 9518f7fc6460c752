//! The stretches of the past that can be looked at.

use serde::{Deserialize, Serialize};

/// A stretch of the past that can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HistorySpan {
    /// One minute.
    Minute,
    /// Ten minutes.
    #[default]
    TenMinutes,
    /// One hour.
    Hour,
    /// Six hours.
    SixHours,
    /// 24 hours.
    Day,
}

impl HistorySpan {
    /// All of them, the shortest first.
    pub const ALL: [Self; 5] = [Self::Minute, Self::TenMinutes, Self::Hour, Self::SixHours, Self::Day];

    /// Its length and that of one of its buckets, in milliseconds.
    pub(super) const fn millis(self) -> (u64, u64) {
        match self {
            Self::Minute => (60_000, 250),
            Self::TenMinutes => (600_000, 2_000),
            Self::Hour => (3_600_000, 10_000),
            Self::SixHours => (21_600_000, 60_000),
            Self::Day => (86_400_000, 240_000),
        }
    }

    /// Its length in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Minute => "1 min",
            Self::TenMinutes => "10 min",
            Self::Hour => "1 h",
            Self::SixHours => "6 h",
            Self::Day => "24 h",
        }
    }

    /// The next shorter one; the shortest stays.
    #[must_use]
    pub const fn shorter(self) -> Self {
        match self {
            Self::Minute | Self::TenMinutes => Self::Minute,
            Self::Hour => Self::TenMinutes,
            Self::SixHours => Self::Hour,
            Self::Day => Self::SixHours,
        }
    }

    /// The next longer one; the longest stays.
    #[must_use]
    pub const fn longer(self) -> Self {
        match self {
            Self::Minute => Self::TenMinutes,
            Self::TenMinutes => Self::Hour,
            Self::Hour => Self::SixHours,
            Self::SixHours | Self::Day => Self::Day,
        }
    }
}
