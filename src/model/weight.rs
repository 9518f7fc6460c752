//! Parameters, and the collectives that a cut model needs.

/// What a parameter is part of: decides how it is sharded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// Embedding tables.
    Embedding,
    /// Attention matrices.
    Attention,
    /// Feed-forward matrices.
    Mlp,
    /// Norms.
    Norm,
    /// Routers.
    Router,
    /// Routed experts: they have data-parallel ranks of their own.
    Expert,
    /// The output matrix.
    Head,
    /// Convolutions.
    Convolution,
    /// Adapters (LoRA).
    Adapter,
}

/// Where a parameter that two tapes use gets its gradient: autograd hands the sum on when all parts are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TiedGrad {
    /// No other tape uses it.
    Nothing,
    /// This part waits for one that an earlier tape makes.
    Later,
    /// A part that a later tape made waits for this one.
    Waiting {
        /// It is a view of a tensor, whose memory a sum does not take over.
        view: bool,
    },
}

/// A parameter tensor (or several alike).
#[derive(Debug, Clone, Copy)]
pub struct Weight {
    /// Numbers in one tensor on one GPU: its elements, and two for a complex one.
    pub numel: u64,
    /// Whether two numbers are one parameter.
    pub complex: bool,
    /// How many such tensors.
    pub copies: u64,
    /// Of which one token passes through.
    pub active: u64,
    /// What it is part of.
    pub part: Part,
    /// Whether it is trained.
    pub trained: bool,
    /// Whether it is to be trained and no gradient reaches it: it gets no gradient and no optimizer state.
    pub unreached: bool,
    /// The same tensor as one of another tape (a tied head): held and counted there.
    pub tied: bool,
    /// Rows and columns, where it is a matrix (Adafactor, Muon).
    pub rows: u64,
    /// Its last two dimensions, where it has more than two.
    pub window: Option<(u64, u64)>,
    /// Parts of its gradient that other tapes make.
    pub meets: TiedGrad,
}

impl Weight {
    /// Parameters of one tensor.
    #[must_use]
    pub const fn parameters(&self) -> u64 {
        if self.complex { self.numel / 2 } else { self.numel }
    }

    /// A matrix of its own; a vector has one column.
    #[must_use]
    pub const fn matrix(part: Part, trained: bool, rows: u64, columns: u64) -> Self {
        let numel = rows.saturating_mul(columns);
        let (complex, unreached, tied, meets) = (false, false, false, TiedGrad::Nothing);
        Self { numel, complex, copies: 1, active: 1, part, trained, unreached, tied, rows, window: None, meets }
    }
}

/// A collective in a tape.
#[derive(Debug, Clone, Copy)]
pub struct Collective {
    /// What.
    pub kind: CollectiveKind,
    /// Between which ranks.
    pub group: RankGroup,
    /// Bytes of the full tensor.
    pub bytes: u64,
    /// How often it runs forward.
    pub forward: u32,
    /// How often it (or its transpose) runs backward.
    pub backward: u32,
}

/// Kinds of collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveKind {
    /// All-reduce.
    AllReduce,
    /// All-gather.
    AllGather,
    /// Reduce-scatter, its transpose.
    ReduceScatter,
    /// All-to-all.
    AllToAll,
    /// The same of heads for tokens: nothing that several ranks of a node want of it is the same.
    HeadsForTokens,
    /// Point to point, around a ring.
    Ring,
}

impl CollectiveKind {
    /// Its name in words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll | Self::HeadsForTokens => "all-to-all",
            Self::Ring => "ring of sends",
        }
    }
}

/// Ranks that send each other heads for tokens where a ring is over groups of them: Megatron is told how many
/// (`--hierarchical-context-parallel-sizes`); in its own tests it is two.
pub const CONTEXT_PAIR: u64 = 2;

/// Ranks that talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankGroup {
    /// Tensor parallel.
    Tensor,
    /// Context parallel.
    Context,
    /// Two neighbours of those.
    ContextPair,
    /// One of each such pair.
    ContextPairs,
    /// Expert parallel.
    Expert,
}
