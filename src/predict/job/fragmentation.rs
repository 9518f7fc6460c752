//! How the allocator's fragmentation is found.

use crate::units::Bytes;

/// How a plan's fragmentation is found where one GPU runs PyTorch's modules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fragmentation {
    /// Two steps are replayed through the allocator: a millisecond and more.
    #[default]
    Replayed,
    /// As another plan's replay left it, for each allocated byte: what many plans near that one are tried by to explain
    /// what a run shows. A replay of each would take long, and its holes come and go with every size.
    Like {
        /// Reserved beyond the allocated bytes.
        beyond: Bytes,
        /// Allocated at the peak, above zero.
        allocated: Bytes,
    },
}

impl Fragmentation {
    /// That of a replay which reserved so much.
    pub(in crate::predict) fn of(allocated: Bytes, reserved: Bytes) -> Self {
        let (allocated, reserved) = (allocated.0.max(1), reserved.0);
        Self::Like { beyond: Bytes(reserved.saturating_sub(allocated)), allocated: Bytes(allocated) }
    }

    /// Bytes beyond so many allocated ones; none where a replay tells.
    pub(in crate::predict) fn beyond(self, bytes: u64) -> Option<u64> {
        let Self::Like { beyond, allocated } = self else { return None };
        let share = u128::from(bytes) * u128::from(beyond.0) / u128::from(allocated.0);
        Some(u64::try_from(share).unwrap_or(u64::MAX))
    }
}
