//! What a plan of fields leaves open about an architecture: as GPT-2 has it, or as Llama where the activation is gated.

use super::ArchitecturePart;
use super::keywords::{Activation, Norm, Position};

impl ArchitecturePart {
    /// Whether the feed-forward block has a gate.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        matches!(self.activation, Some(Activation::Swiglu | Activation::Geglu))
    }

    /// The norm before each half of a block.
    #[must_use]
    pub fn norm_taken(&self) -> Norm {
        self.norm.unwrap_or(if self.is_gated() { Norm::Rmsnorm } else { Norm::Layernorm })
    }

    /// How positions enter.
    #[must_use]
    pub fn position_taken(&self) -> Position {
        self.position.unwrap_or(if self.is_gated() { Position::Rope } else { Position::Learned })
    }

    /// Whether the output matrix is the embedding.
    #[must_use]
    pub fn ties_embeddings(&self) -> bool {
        self.tie_embeddings.unwrap_or(!self.is_gated())
    }

    /// Whether the blocks' matrices have biases.
    #[must_use]
    pub fn has_biases(&self) -> bool {
        self.linear_bias.unwrap_or(!self.is_gated())
    }

    /// Width of the feed-forward block of a model so wide: 4 times it, or 8 / 3 with a gate, as wide in parameters.
    #[must_use]
    pub fn intermediate_taken(&self, hidden: u64) -> u64 {
        let usual = if self.is_gated() { hidden.saturating_mul(8).div_ceil(3) } else { hidden.saturating_mul(4) };
        self.intermediate_size.unwrap_or(usual)
    }

    /// Words of the vocabulary: GPT-2's.
    #[must_use]
    pub fn vocabulary_taken(&self) -> u64 {
        self.vocab_size.unwrap_or(50_257)
    }
}
