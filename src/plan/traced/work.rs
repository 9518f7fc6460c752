//! What an operator of a tape computes on.

use serde::Deserialize;

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum TracedWork {
    /// Batch, rows, inner, columns.
    Product,
    /// Positions, channels in and out, window, whether strided.
    Convolution,
    /// Heads of all samples, queries, heads that share a key, channels of a head, whether causal.
    Attention,
    Rows,
    Normalized,
}

impl TracedWork {
    /// How many sizes it has.
    #[must_use]
    pub const fn sizes(self) -> usize {
        match self {
            Self::Product => 4,
            Self::Convolution | Self::Attention => 5,
            Self::Rows | Self::Normalized => 0,
        }
    }
}
