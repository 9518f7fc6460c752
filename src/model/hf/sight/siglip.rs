//! SigLIP's tower, and what joins it by one matrix.

use super::{OF_SIGLIP, Vision, activation, of_one_size};
use crate::framework::Module;
use crate::model::architecture::{Act, Decoder};
use crate::model::hf::keys::{Keys, MAX_ROWS};
use crate::model::rules::ClassRules;
use crate::model::sight::{Joint, JointNorm, Patches, Sight};
use crate::plan::Fault;
use crate::plan::keywords::Norm;

const OF_PALIGEMMA: &[Module] = &[("vision.joint", "multi_modal_projector.linear")];

const OF_IDEFICS: &[Module] = &[("vision.joint", "connector.modality_projection.proj")];

impl Vision<'_> {
    /// `SiglipVisionModel` before one matrix (`PaliGemmaMultiModalProjector`).
    pub(super) fn paligemma(self) -> Result<Option<Sight>, Fault> {
        self.without_head(|tower, patches| {
            let joint = Joint { last_norm: Some(Norm::Layernorm), ..Joint::PLAIN };
            Sight::of(tower, patches, joint, [OF_SIGLIP, OF_PALIGEMMA].concat())
        })
    }

    /// `SiglipVisionModel` before `Gemma3MultiModalProjector`, whose tokens are means of patches.
    pub(super) fn gemma3(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let tokens = outer.count(&["mm_tokens_per_image"], MAX_ROWS)?.unwrap_or(256).max(1);
        self.without_head(|tower, patches| {
            let joint = Joint {
                last_norm: Some(Norm::Layernorm),
                norm: Some(JointNorm::Language),
                pooled: tower.max_positions.unwrap_or(1) / tokens,
                bias: false,
                ..Joint::PLAIN
            };
            Sight::of(tower, patches, joint, OF_SIGLIP.to_vec())
        })
    }

    /// `Idefics3VisionTransformer`: SigLIP's, each block of which is handed a mask, before one matrix over shuffled patches.
    pub(super) fn idefics3(self, outer: Keys<'_>) -> Result<Sight, Fault> {
        let across = outer.count(&["scale_factor"], 64)?.unwrap_or(2);
        let (tower, patches) = self.siglip_of([1152, 3072, 12, 16, 32, 224])?;
        let class_rules = ClassRules { always_masked: true, typed_mask: true, ..ClassRules::USUAL };
        let joint = Joint {
            last_norm: Some(Norm::Layernorm),
            copies: 2,
            joined: across.saturating_mul(across),
            bias: false,
            ordered: false,
            ..Joint::PLAIN
        };
        let patches = Patches { gathered: true, ..patches };
        Ok(Sight::of(Decoder { class_rules, ..tower }, patches, joint, [OF_SIGLIP, OF_IDEFICS].concat()))
    }

    /// A head for the whole image is one that nothing reads.
    fn without_head(self, sight: impl FnOnce(Decoder, Patches) -> Sight) -> Result<Option<Sight>, Fault> {
        if self.keys.flag("vision_use_head", true)? {
            return Ok(None);
        }
        let (tower, patches) = self.siglip()?;
        Ok(Some(sight(tower, patches)))
    }

    /// `SiglipVisionModel`.
    pub(super) fn siglip(self) -> Result<(Decoder, Patches), Fault> {
        self.siglip_of([768, 3072, 12, 12, 16, 224])
    }

    /// Its width, that of its feed-forward blocks, blocks, heads, pixels of a patch and of an image where the file has none.
    fn siglip_of(self, usual: [u64; 6]) -> Result<(Decoder, Patches), Fault> {
        let [width, inner, blocks, heads, patch, pixels] = usual;
        let hidden = self.size("hidden_size", width)?;
        let layers = self.layers("num_hidden_layers", blocks)?;
        let (side, image) = (self.size("patch_size", patch)?, self.size("image_size", pixels)?);
        let patches = (image / side).saturating_mul(image / side);
        let tower = Decoder {
            intermediate: self.size("intermediate_size", inner)?,
            act: activation(self.keys, Act::Gelu)?,
            max_positions: Some(patches),
            ..Decoder::plain(hidden, layers, self.size("num_attention_heads", heads)?)
        };
        Ok((tower, of_one_size(side, image)))
    }
}
