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

/// Names of what a language model that sees is made of.
pub const SIGHT_PARTS: &str = "vision_tower, multi_modal_projector, language_model";

/// Bit of modules that a trace names; no part has it.
const MODULES: u16 = 1 << 15;

/// Bits of what a language model sees with, by the names of transformers' modules; no part has them.
const TOWER: u16 = 1 << 14;
const JOINT: u16 = 1 << 13;

impl FrozenParts {
    /// Everything is trained.
    pub const NOTHING: Self = Self(0);
    /// No part of a language model is.
    pub const EVERYTHING: Self = Self((1 << 9) - 1);

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

    /// Freezes what stands before a language model that sees, or that but for its head, by transformers' names.
    ///
    /// Returns `None` where nothing there has that name.
    #[must_use]
    pub fn and_of_sight(self, name: &str) -> Option<Self> {
        let bits = match name {
            "vision_tower" => TOWER,
            "multi_modal_projector" => JOINT,
            "language_model" => Self::EVERYTHING.0 & !Self::bit(Part::Head),
            _ => return None,
        };
        Some(Self(self.0 | bits))
    }

    /// Whether the tower of vision is frozen.
    #[must_use]
    pub const fn has_tower(self) -> bool {
        self.0 & TOWER != 0
    }

    /// Whether what joins it to the language model is.
    #[must_use]
    pub const fn has_joint(self) -> bool {
        self.0 & JOINT != 0
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
