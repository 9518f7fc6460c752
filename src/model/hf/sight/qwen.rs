//! Qwen's towers.

use super::{Vision, activation};
use crate::framework::Module;
use crate::model::architecture::{Act, Decoder};
use crate::model::hf::keys::{MAX_COUNT, MAX_WIDTH};
use crate::model::rules::ClassRules;
use crate::model::sight::{Joint, JointNorm, Patches, Positions, Sight};
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

const OF_QWEN2: &[Module] = &[
    ("attention.qkv_proj", "attn.qkv"),
    ("attention.o_proj", "attn.proj"),
    ("mlp.up_proj", "mlp.fc1"),
    ("mlp.down_proj", "mlp.fc2"),
    ("vision.joint_in", "merger.mlp.0"),
    ("vision.joint_out", "merger.mlp.2"),
];

const OF_QWEN2_5: &[Module] = &[
    ("attention.qkv_proj", "attn.qkv"),
    ("attention.o_proj", "attn.proj"),
    ("mlp.gate_proj", "mlp.gate_proj"),
    ("mlp.up_proj", "mlp.up_proj"),
    ("mlp.down_proj", "mlp.down_proj"),
    ("vision.joint_in", "merger.mlp.0"),
    ("vision.joint_out", "merger.mlp.2"),
];

const OF_QWEN3: &[Module] = &[
    ("attention.qkv_proj", "attn.qkv"),
    ("attention.o_proj", "attn.proj"),
    ("mlp.up_proj", "mlp.linear_fc1"),
    ("mlp.down_proj", "mlp.linear_fc2"),
    ("vision.joint_in", "merger.linear_fc1"),
    ("vision.joint_out", "merger.linear_fc2"),
];

impl Vision<'_> {
    /// Blocks with queries, keys and values of one matrix, which are turned by where a patch lies, in fp32
    /// (`apply_rotary_pos_emb_vision`); samples attend one after the other.
    fn turned(hidden: u64, layers: u64, heads: u64) -> Decoder {
        let plain = Decoder::plain(hidden, layers, heads);
        let class_rules =
            ClassRules { wide_rotation: true, joined_samples: true, window_blocks: true, ..ClassRules::USUAL };
        let rotary_dim = plain.head_dim;
        Decoder { position: Position::Rope, rotary_dim, fused_qkv: true, class_rules, ..plain }
    }

    /// Square patches of doubled pictures.
    fn doubled(self, side: u64) -> Result<Patches, Fault> {
        Ok(Patches {
            side: self.size("patch_size", side)?,
            frames: self.size("temporal_patch_size", 2)?,
            channels: self.keys.count(&["in_channels", "in_chans"], MAX_WIDTH)?.unwrap_or(3),
            bias: false,
            class_token: false,
            positions: Positions::No,
            normed: false,
            by_window: false,
            only: None,
            gathered: false,
            in_a_row: false,
        })
    }

    /// Four patches become one token (`PatchMerger`).
    fn merger(self, hidden: u64, norm: Norm) -> Result<Joint, Fault> {
        let across = self.size("spatial_merge_size", 2)?;
        let joined = across.saturating_mul(across);
        let inner = Some(hidden.saturating_mul(joined));
        Ok(Joint { norm: Some(JointNorm::Patch(norm)), joined, inner, ..Joint::PLAIN })
    }

    /// `Qwen2VisionTransformerPretrainedModel`.
    pub(super) fn qwen2(self) -> Result<Sight, Fault> {
        let hidden = self.size("embed_dim", 1280)?;
        let ratio = self.size("mlp_ratio", 4)?;
        let layers = self.layers("depth", 32)?;
        let stack = Self::turned(hidden, layers, self.size("num_heads", 16)?);
        let act = activation(self.keys, Act::QuickGelu)?;
        let tower = Decoder { intermediate: hidden.saturating_mul(ratio), act, ..stack };
        Ok(Sight::of(tower, self.doubled(14)?, self.merger(hidden, Norm::Layernorm)?, OF_QWEN2.to_vec()))
    }

    /// `Qwen2_5_VisionTransformerPretrainedModel`: most blocks attend within windows.
    pub(super) fn qwen2_5(self) -> Result<Sight, Fault> {
        let hidden = self.size("hidden_size", 3584)?;
        let layers = self.layers("depth", 32)?;
        let stack = Self::turned(hidden, layers, self.size("num_heads", 16)?);
        let patches = Patches { by_window: true, ..self.doubled(14)? };
        let across = self.size("window_size", 112)? / patches.side;
        let whole = self.keys.counts("fullatt_block_indexes", MAX_COUNT)?.unwrap_or_else(|| vec![7, 15, 23, 31]);
        let tower = Decoder {
            intermediate: self.size("intermediate_size", 3420)?,
            act: activation(self.keys, Act::Silu)?,
            gated: true,
            norm: Norm::Rmsnorm,
            norm_bias: false,
            sliding_window: Some(across.saturating_mul(across).max(1)),
            windowed_layers: Some((0..layers).map(|layer| !whole.contains(&layer)).collect()),
            ..stack
        };
        Ok(Sight::of(tower, patches, self.merger(hidden, Norm::Rmsnorm)?, OF_QWEN2_5.to_vec()))
    }

    /// `Qwen3VLVisionModel`; by default the blocks of `deepstack` have a branch.
    pub(super) fn qwen3(self, deepstack: Vec<u64>) -> Result<Sight, Fault> {
        let hidden = self.size("hidden_size", 1152)?;
        let layers = self.layers("depth", 27)?;
        let rows = self.size("num_position_embeddings", 2304)?;
        let patches = Patches { positions: Positions::Between(rows), bias: true, ..self.doubled(16)? };
        let tower = Decoder {
            intermediate: self.size("intermediate_size", 4304)?,
            act: activation(self.keys, Act::Gelu)?,
            max_positions: Some(rows),
            ..Self::turned(hidden, layers, self.size("num_heads", 16)?)
        };
        let deepstack = self.keys.counts("deepstack_visual_indexes", MAX_COUNT)?.unwrap_or(deepstack);
        let joint = self.merger(hidden, Norm::Layernorm)?;
        Ok(Sight { deepstack, ..Sight::of(tower, patches, joint, OF_QWEN3.to_vec()) })
    }
}
