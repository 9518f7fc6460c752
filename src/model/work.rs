//! What a kernel computes on, as far as its speed depends on it.

/// A batch of matrix multiplications: `rows` x `inner` by `inner` x `columns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul {
    /// How many alike.
    pub batch: u64,
    /// Rows of the result.
    pub rows: u64,
    /// What is summed over.
    pub inner: u64,
    /// Columns of the result.
    pub columns: u64,
    /// Of a linear layer within a block: it multiplies in FP8 where the plan says so.
    pub layer: bool,
}

impl MatMul {
    /// Operations, a multiply-add as two.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.rows as f64 * self.inner as f64 * self.columns as f64
    }
}

/// A convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// Positions of the output, over all samples.
    pub positions: u64,
    /// Channels of the input.
    pub from: u64,
    /// Channels of the output.
    pub to: u64,
    /// Elements of the window.
    pub window: u64,
    /// Whether the output has fewer positions than the input.
    pub strided: bool,
}

/// A fused attention kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// Samples x heads.
    pub heads: u64,
    /// Query positions of each.
    pub queries: u64,
    /// Heads that share their keys and values.
    pub sharing: u64,
    /// Channels of a head, the mean of queries' and values'.
    pub dim: u64,
    /// Share of all pairs of query and key that the kernel computes: a half under a causal mask, less in a window.
    pub visible: f64,
}

/// What a kernel computes on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Work {
    /// Elements, each for itself or in rows.
    #[default]
    Elements,
    /// Elements, copied into another order of dimensions: their gradient is copied back into the first.
    Reordered,
    /// Rows, each normalised by a reduction over itself: norms of a token, softmax.
    Rows,
    /// Elements, once their mean and deviation over all samples are known: a tensor is read twice.
    Normalized,
    /// The same over groups of a sample's channels, each in a block of threads of its own.
    GroupNormalized,
    /// Matrix multiplications.
    Product(MatMul),
    /// A convolution.
    Convolution(Convolution),
    /// Fused attention.
    Attention(Scores),
    /// Nothing: a collective brings its output, and takes the time.
    Sent,
}
