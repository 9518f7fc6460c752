//! Types of elements, and the groups that tensors are listed under.

/// The type of an element in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Element {
    /// 8 bytes: token ids.
    I64,
    /// 4 bytes.
    F32,
    /// 2 bytes.
    Bf16,
    /// 2 bytes.
    F16,
    /// 1 byte.
    Fp8,
    /// 1 byte: masks.
    Bool,
}

impl Element {
    /// Bytes of one.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::I64 => 8,
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
            Self::Fp8 | Self::Bool => 1,
        }
    }

    /// The name as PyTorch prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I64 => "int64",
            Self::F32 => "fp32",
            Self::Bf16 => "bf16",
            Self::F16 => "fp16",
            Self::Fp8 => "fp8",
            Self::Bool => "bool",
        }
    }

    /// The type that both promote to.
    #[must_use]
    pub const fn promoted(self, other: Self) -> Self {
        if other.bytes() > self.bytes() { other } else { self }
    }
}

/// What a tensor belongs to, for the list of terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Group {
    /// The residual stream between and within blocks.
    Residual,
    /// Saved by norms.
    Norm,
    /// Saved by attention.
    Attention,
    /// Saved by the feed-forward block.
    Mlp,
    /// Saved by experts and their dispatch.
    Experts,
    /// Embedding output, rotary tables, masks.
    Embedding,
    /// Convolutions and their norms.
    Convolution,
    /// Adapters (LoRA).
    Adapter,
    /// 16-bit (or 8-bit) copies of weights.
    WeightCopy,
    /// Logits and the loss.
    Logits,
    /// Gradients of activations.
    ActivationGradient,
    /// Gradients of weights made in this pass.
    WeightGradient,
    /// Keys and values (or latents) kept for later tokens.
    KvCache,
}

/// Number of groups.
pub const GROUPS: usize = 13;

impl Group {
    /// All, in the order of their discriminants.
    pub const ALL: [Self; GROUPS] = [
        Self::Residual,
        Self::Norm,
        Self::Attention,
        Self::Mlp,
        Self::Experts,
        Self::Embedding,
        Self::Convolution,
        Self::Adapter,
        Self::WeightCopy,
        Self::Logits,
        Self::ActivationGradient,
        Self::WeightGradient,
        Self::KvCache,
    ];
}
