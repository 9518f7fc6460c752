//! Pixtral's tower: rows of all images behind each other, in blocks of Mistral's.

use super::{OF_LLAVA, Vision, activation};
use crate::framework::Module;
use crate::model::architecture::{Act, Decoder};
use crate::model::hf::keys::Keys;
use crate::model::rules::ClassRules;
use crate::model::sight::{Joint, JointNorm, Patches, Positions, Sight};
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

const OF_PIXTRAL: &[Module] = &[
    ("attention.q_proj", "attention.q_proj"),
    ("attention.k_proj", "attention.k_proj"),
    ("attention.v_proj", "attention.v_proj"),
    ("attention.o_proj", "attention.o_proj"),
    ("mlp.gate_proj", "feed_forward.gate_proj"),
    ("mlp.up_proj", "feed_forward.up_proj"),
    ("mlp.down_proj", "feed_forward.down_proj"),
    ("vision.joint_merge", "multi_modal_projector.patch_merger.merging_layer"),
];

impl Vision<'_> {
    /// `PixtralVisionModel` before `Mistral3MultiModalProjector`.
    pub(super) fn mistral3(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let across = outer.count(&["spatial_merge_size"], 64)?.unwrap_or(2);
        let joint = Joint {
            norm: Some(JointNorm::Patch(Norm::Rmsnorm)),
            joined: across.saturating_mul(across),
            merged: true,
            bias: outer.flag("multimodal_projector_bias", false)?,
            ..Joint::PLAIN
        };
        self.in_blocks(outer, 1, joint)
    }

    /// The same tower before LLaVA's projector (Pixtral 12B).
    pub(super) fn pixtral(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let whole = outer.text(&["vision_feature_select_strategy"]) == Some("full");
        let joint = Joint { bias: outer.flag("multimodal_projector_bias", true)?, ..Joint::PLAIN };
        if whole { self.in_blocks(outer, 2, joint) } else { Ok(None) }
    }

    fn in_blocks(self, outer: Keys<'_>, usual: u64, joint: Joint) -> Result<Option<Sight>, Fault> {
        let plain = outer.text(&["projector_hidden_act"]).is_none_or(|act| act == "gelu");
        let Some(from_end) = outer.place_from_end("vision_feature_layer", usual).filter(|_| plain) else {
            return Ok(None);
        };
        let hidden = self.size("hidden_size", 1024)?;
        let layers = self.layers("num_hidden_layers", 24)?;
        let (side, image) = (self.size("patch_size", 16)?, self.size("image_size", 1024)?);
        let blocks = Decoder::plain(hidden, layers, self.size("num_attention_heads", 16)?);
        let tower = Decoder {
            intermediate: self.size("intermediate_size", 4096)?,
            act: activation(self.keys, Act::Gelu)?,
            gated: true,
            norm: Norm::Rmsnorm,
            norm_bias: false,
            qkv_bias: false,
            out_bias: false,
            mlp_bias: false,
            position: Position::Rope,
            rotary_dim: blocks.head_dim,
            max_positions: Some((image / side).saturating_mul(image / side)),
            class_rules: ClassRules { always_masked: true, typed_mask: true, ..ClassRules::USUAL },
            ..blocks
        };
        let patches = Patches {
            side,
            frames: 1,
            channels: 3,
            bias: false,
            class_token: false,
            positions: Positions::No,
            normed: true,
            by_window: false,
            only: None,
            gathered: false,
            in_a_row: true,
        };
        let joint = Joint { inner: Some(self.hidden), ..joint };
        Ok(Some(Sight {
            read: layers.saturating_sub(from_end - 1),
            keeps_states: true,
            one_sequence: true,
            ..Sight::of(tower, patches, joint, [OF_PIXTRAL, OF_LLAVA].concat())
        }))
    }
}
