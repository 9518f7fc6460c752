//! The unit of memory figures that stand together.

use crate::units::{Bytes, three_figures};

/// What stands for no difference that would show.
pub const SAME: &str = "·";

/// MiB where all of the figures are below one GiB, so that small ones are told apart; else GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryUnit {
    /// 2^20 bytes.
    Mib,
    /// 2^30 bytes.
    Gib,
}

impl MemoryUnit {
    /// The unit of figures of which that is the largest.
    pub fn of(largest: Bytes) -> Self {
        if largest.gib() < 1.0 { Self::Mib } else { Self::Gib }
    }

    /// What it is called.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mib => "MiB",
            Self::Gib => "GiB",
        }
    }

    /// A figure without the unit.
    pub fn show(self, bytes: Bytes) -> String {
        match self {
            Self::Mib => three_figures(bytes.gib() * 1024.0),
            Self::Gib => bytes.in_gib(),
        }
    }

    /// How much more or less, with its sign; `·` for what would not show.
    pub fn difference(self, now: Bytes, before: Bytes) -> String {
        let difference = now - before;
        let shown = match self {
            Self::Mib => difference.magnitude().gib() * 1024.0,
            Self::Gib => difference.magnitude().gib(),
        };
        let sign = if difference.is_negative() { '-' } else { '+' };
        if shown < 0.005 { SAME.to_owned() } else { format!("{sign}{}", three_figures(shown)) }
    }
}
