//! What a language model sees with: a tower over patches of images, what makes tokens of its output, and how both stand
//! before the language model's layers (transformers 4.57.6, `models/{llava,llava_next,llava_onevision,qwen2_vl,qwen2_5_vl,
//! qwen3_vl,gemma3,paligemma,internvl,idefics3,smolvlm,mistral3,pixtral}`).

mod ends;
mod joint;
mod tiles;
mod walk;

pub use tiles::Tiles;

pub(super) use walk::{seeing, trains_before};

use super::stack::Decoder;
use crate::framework::Module;
use crate::plan::keywords::Norm;

/// A tower of vision before a language model.
#[derive(Debug, Clone, PartialEq)]
pub struct Sight {
    /// Its blocks, in the terms of a decoder's.
    pub tower: Decoder,
    /// How images enter.
    pub patches: Patches,
    /// What makes the language model's tokens of what it gives.
    pub joint: Joint,
    /// Blocks whose output is read: LLaVA takes what the last but one gives, and the last runs for nothing.
    pub read: u64,
    /// Its linear layers and the joint's, by operator and by transformers' name: adapters are placed by these.
    pub modules: Vec<Module>,
    /// The tower's own last norm, of which nothing is read either.
    pub unread_norm: bool,
    /// Blocks whose output becomes tokens as well, by a joint of their own with a norm over joined channels; the first
    /// layers of the language model add one each (`deepstack_visual_indexes`).
    pub deepstack: Vec<u64>,
    /// The outputs of all blocks are kept until the tower has returned (`output_hidden_states`).
    pub keeps_states: bool,
    /// The images of a micro-batch are one sequence of the tower, behind a mask of blocks (`PixtralVisionModel`).
    pub one_sequence: bool,
    /// The sizes to which images are brought and cut into tiles, each an image of the tower's.
    pub tiles: Option<Tiles>,
    /// Tokens are written by index into zeros as wide as the text, which take their own type alone (`SmolVLMModel`).
    pub indexed: bool,
}

/// How images enter a tower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patches {
    /// Pixels a side of a patch.
    pub side: u64,
    /// Pictures that a patch is cut from: Qwen's are doubled, a video's go by twos.
    pub frames: u64,
    /// Colours.
    pub channels: u64,
    /// The matrix over a patch's pixels has a bias.
    pub bias: bool,
    /// A token of the tower's own before the patches.
    pub class_token: bool,
    /// A table of positions that is trained.
    pub positions: Positions,
    /// A norm behind the positions (CLIP).
    pub normed: bool,
    /// The patches are put in the order of windows, and back behind the joint.
    pub by_window: bool,
    /// Pixels a side of the only images that it takes.
    pub only: Option<u64>,
    /// Images are gathered in a tensor of their own, which a frame has until they are tokens.
    pub gathered: bool,
    /// The rows of all images are put behind each other by a copy.
    pub in_a_row: bool,
}

/// Where a patch lies, as a table that is added to it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Positions {
    /// No table.
    No,
    /// A row a patch of the only size of image.
    Rows(u64),
    /// A mean of four of so many rows, weighted by how near they are, for an image of any size
    /// (`Qwen3VLVisionModel.fast_pos_embed_interpolate`).
    Between(u64),
}

/// From a tower's channels to the language model's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joint {
    /// The tower's own last norm, over its channels.
    pub last_norm: Option<Norm>,
    /// Copies of the patches by which those of one token come to lie together (`pixel_shuffle`).
    pub copies: u64,
    /// A norm over what is joined.
    pub norm: Option<JointNorm>,
    /// Patches whose channels become those of one token.
    pub joined: u64,
    /// Patches whose mean is one token.
    pub pooled: u64,
    /// A matrix without a bias from the joined channels to those of one patch (`Mistral3PatchMerger`).
    pub merged: bool,
    /// Width between two matrices; one matrix where there is none.
    pub inner: Option<u64>,
    /// The matrices have biases.
    pub bias: bool,
    /// Tokens of several images are joined by a copy.
    pub ordered: bool,
}

impl Joint {
    /// One matrix with a bias over each patch.
    pub const PLAIN: Self = Self {
        last_norm: None,
        copies: 0,
        norm: None,
        joined: 1,
        pooled: 1,
        merged: false,
        inner: None,
        bias: true,
        ordered: true,
    };
}

/// The norm of a joint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JointNorm {
    /// Over a patch's channels, as the tower's blocks have it (Qwen's `ln_q`).
    Patch(Norm),
    /// Over the channels of joined patches, a layer norm.
    Token,
    /// The language model's own over a token's channels (`Gemma3MultiModalProjector.mm_soft_emb_norm`).
    Language,
}

/// Images of a micro batch's samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SeenImages {
    /// Images (or tiles of them) of a sample.
    pub images: u64,
    /// Pixels a side.
    pub side: u64,
}

impl Sight {
    /// Pixels a side of images that differ in size, where a plan names none.
    const USUAL: u64 = 448;

    /// A tower all of whose blocks are read, and what joins it.
    #[must_use]
    pub fn of(tower: Decoder, patches: Patches, joint: Joint, modules: Vec<Module>) -> Self {
        Self {
            read: tower.layers,
            tower,
            patches,
            joint,
            modules,
            unread_norm: false,
            deepstack: Vec::new(),
            keeps_states: false,
            one_sequence: false,
            tiles: None,
            indexed: false,
        }
    }

    /// Pixels a side, where a plan names none: twice a tile's where there are tiles.
    #[must_use]
    pub fn usual_side(&self) -> u64 {
        let tiled = self.tiles.as_ref().map(|tiles| tiles.side.saturating_mul(2));
        tiled.or(self.patches.only).unwrap_or(Self::USUAL)
    }

    /// Images of the tower's that one image is: a small one of all of it, and its tiles.
    #[must_use]
    pub fn tiles_of(&self, side: u64) -> u64 {
        self.tiles.as_ref().map_or(1, |tiles| tiles.count(side))
    }

    /// Patches of one image of the tower's.
    #[must_use]
    pub fn patches_of(&self, side: u64) -> u64 {
        let side = self.tiles.as_ref().map_or(side, |tiles| tiles.side);
        let across = side / self.patches.side.max(1);
        across.saturating_mul(across)
    }

    /// Tokens of the language model that one image becomes.
    #[must_use]
    pub fn tokens_of(&self, side: u64) -> u64 {
        if let Some(tiles) = &self.tiles {
            return tiles.tokens(side, self.patches.side);
        }
        self.patches_of(side) / self.joint.joined.saturating_mul(self.joint.pooled).max(1)
    }

    /// A side must be a multiple of so many pixels.
    #[must_use]
    pub const fn grain(&self) -> u64 {
        self.patches.side.saturating_mul(self.joint.joined.isqrt())
    }

    /// Layers that run beside the language model's: the tower's blocks, the joint, and what the deep stack takes and adds.
    #[must_use]
    pub const fn layers(&self) -> u64 {
        self.tower.layers.saturating_add(1).saturating_add(2 * self.deepstack.len() as u64)
    }
}
