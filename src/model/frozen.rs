//! Which parts of a model are left as they are.

use super::weight::Part;

/// Parts without gradients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrozenParts(u16);

/// Parts by the names that a plan has for them.
const NAMES: [(&str, Part); 13] = [
    ("embeddings", Part::Embedding),
    ("embedding", Part::Embedding),
    ("embed_tokens", Part::Embedding),
    ("head", Part::Head),
    ("lm_head", Part::Head),
    ("attention", Part::Attention),
    ("self_attn", Part::Attention),
    ("mlp", Part::Mlp),
    ("experts", Part::Expert),
    ("router", Part::Router),
    ("norms", Part::Norm),
    ("norm", Part::Norm),
    ("convolutions", Part::Convolution),
];

/// The names that errors list: one a part.
pub const FROZEN_PARTS: &str = "embeddings, head, attention, mlp, experts, router, norms, convolutions";

/// Bit of modules that a trace names; no part has it.
const MODULES: u16 = 1 << 15;

impl FrozenParts {
    const fn bit(part: Part) -> u16 {
        1 << part as u16
    }

    /// Freezes the part of that name too.
    ///
    /// Returns `None` where no part has it.
    #[must_use]
    pub fn and(self, name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, part)| Self(self.0 | Self::bit(*part)))
    }

    /// Freezes modules of a trace too, of whose weights its tape knows.
    #[must_use]
    pub const fn and_modules(self) -> Self {
        Self(self.0 | MODULES)
    }

    /// Whether that part is frozen.
    #[must_use]
    pub const fn has(self, part: Part) -> bool {
        self.0 & Self::bit(part) != 0
    }

    /// Whether everything is trained.
    #[must_use]
    pub const fn is_nothing(self) -> bool {
        self.0 == 0
    }
}
