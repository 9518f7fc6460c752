//! What a PyTorch memory snapshot holds: the caching allocator's segments, and who allocated
//! what lives in them.

use crate::units::Bytes;

/// One device of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSnapshot {
    /// The device's index.
    pub device: u32,
    /// Bytes of all segments: `torch.cuda.memory_reserved()`.
    pub reserved: Bytes,
    /// Blocks in tensors: `torch.cuda.memory_allocated()`.
    pub allocated: Bytes,
    /// Freed by the program, still in use by another stream.
    pub pending: Bytes,
    /// Free blocks in segments that hold others, too: fragmentation.
    pub split: Bytes,
    /// Segments that hold nothing: `torch.cuda.empty_cache()` gives them back.
    pub empty: Bytes,
    /// Of the allocated bytes, what rounding added to what was asked for. None where the release
    /// of PyTorch does not record that.
    pub rounding: Option<Bytes>,
    /// Number of segments.
    pub segments: u64,
    /// Whether segments grow (`expandable_segments:True`).
    pub expandable: bool,
    /// The largest of the split blocks.
    pub largest_split: Bytes,
    /// What the allocated bytes are for, the largest first; they sum to `allocated`.
    pub terms: Vec<SnapshotTerm>,
    /// Requests that found no memory, as the trace has them: bytes asked for, bytes the driver had free.
    pub failed: Vec<(Bytes, Option<Bytes>)>,
}

/// What a block is held for, by the frames that allocated it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockPurpose {
    /// Weights.
    Parameters,
    /// Allocated in the backward pass: gradients, and what it needs in between.
    Gradients,
    /// Moments and master copies.
    OptimizerStates,
    /// Allocated in a module's forward pass.
    Activations,
    /// Allocated in an optimizer's step and none of its states.
    Temporaries,
    /// Buffers of collectives and unsharded copies.
    CommunicationBuffers,
    /// The snapshot has no frames for it: recording began later, or was of no stacks.
    Unrecorded,
    /// Allocated elsewhere: inputs, and what the script keeps.
    Other,
}

impl BlockPurpose {
    /// The word in the list.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients and backward",
            Self::OptimizerStates => "optimizer states",
            Self::Activations => "activations",
            Self::Temporaries => "temporaries",
            Self::CommunicationBuffers => "communication buffers",
            Self::Unrecorded => "unrecorded",
            Self::Other => "other",
        }
    }
}

/// Blocks of one purpose from one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotTerm {
    /// What for.
    pub purpose: BlockPurpose,
    /// The named term of a prediction that it belongs to (`attention`, `norms`), for activations whose
    /// frames tell.
    pub part: Option<&'static str>,
    /// Where: the innermost frame outside of PyTorch, `file.py:12 name`.
    pub place: String,
    /// How many.
    pub blocks: u64,
    /// Bytes.
    pub bytes: Bytes,
}

impl DeviceSnapshot {
    /// Bytes of a purpose.
    #[must_use]
    pub fn of(&self, purpose: BlockPurpose) -> Bytes {
        self.terms.iter().filter(|term| term.purpose == purpose).map(|term| term.bytes).sum()
    }
}
