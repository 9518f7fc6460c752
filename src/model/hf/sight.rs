//! The tower of a composite configuration: `vision_config` beside `text_config` (transformers 4.57.6).

use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use crate::framework::Module;
use crate::model::architecture::{Act, Decoder};
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

/// CLIP's as well. Gemma 3 joins by a bare parameter, on which no adapter of a module stands.
const OF_SIGLIP: &[Module] = &[
    ("attention.q_proj", "self_attn.q_proj"),
    ("attention.k_proj", "self_attn.k_proj"),
    ("attention.v_proj", "self_attn.v_proj"),
    ("attention.o_proj", "self_attn.out_proj"),
    ("mlp.up_proj", "mlp.fc1"),
    ("mlp.down_proj", "mlp.fc2"),
];

const OF_INTERNVL: &[Module] = &[
    ("attention.q_proj", "attention.q_proj"),
    ("attention.k_proj", "attention.k_proj"),
    ("attention.v_proj", "attention.v_proj"),
    ("attention.o_proj", "attention.projection_layer"),
    ("mlp.up_proj", "mlp.fc1"),
    ("mlp.down_proj", "mlp.fc2"),
];

const OF_PALIGEMMA: &[Module] = &[("vision.joint", "multi_modal_projector.linear")];

const OF_LLAVA: &[Module] =
    &[("vision.joint_in", "multi_modal_projector.linear_1"), ("vision.joint_out", "multi_modal_projector.linear_2")];

/// The tower before a language model of that width, where its kind has rules; whether the language model stands behind it
/// or by itself its own keys say.
pub fn read(outer: Keys<'_>, language: &Decoder) -> Result<Option<Sight>, Fault> {
    let Some(vision) = outer.inner("vision_config") else { return Ok(None) };
    let tower = Vision { keys: vision, hidden: language.hidden };
    let sight = match outer.text(&["model_type"]).unwrap_or_default() {
        "qwen2_vl" => Some(tower.qwen2()?),
        "qwen2_5_vl" => Some(tower.qwen2_5()?),
        "qwen3_vl" => Some(tower.qwen3(vec![8, 16, 24])?),
        // transformers 5: the same without a deep stack.
        "qwen3_5" | "qwen3_5_moe" => Some(tower.qwen3(Vec::new())?),
        "llava" => tower.llava(outer)?,
        "internvl" => tower.internvl(outer)?,
        "gemma3" => tower.gemma3(outer)?,
        // Gemma 2 in its place is handed masks of two kinds.
        "paligemma" if of_text(outer, "gemma") => tower.paligemma()?,
        _ => None,
    };
    sight.map(|sight| with_branches_in_place(sight, language)).transpose()
}

/// A branch stands behind a block that is there, once, and a layer of the language model takes it up.
fn with_branches_in_place(sight: Sight, language: &Decoder) -> Result<Sight, Fault> {
    let branches = &sight.deepstack;
    let rising = branches.windows(2).all(|pair| pair[0] < pair[1]);
    let there = branches.iter().all(|block| *block < sight.tower.layers) && branches.len() as u64 <= language.layers;
    if rising && there {
        return Ok(sight);
    }
    let (blocks, layers) = (sight.tower.layers, language.layers);
    let said = format!(
        "{branches:?}: blocks of {blocks} in rising order, and no more than the language model's {layers} layers"
    );
    Err(Keys::fault("vision_config.deepstack_visual_indexes", said))
}

/// Patches of images of one size, with a row of positions each.
const fn of_one_size(side: u64, image: u64) -> Patches {
    let across = image / side;
    Patches {
        side,
        frames: 1,
        channels: 3,
        bias: true,
        class_token: false,
        positions: Positions::Rows(across.saturating_mul(across)),
        normed: false,
        by_window: false,
        only: Some(image),
    }
}

/// Whether the language model is of that kind.
fn of_text(outer: Keys<'_>, kind: &str) -> bool {
    outer.inner("text_config").and_then(|text| text.text(&["model_type"])) == Some(kind)
}

/// Blocks of a tower: each one's output may be held beside all others'.
const MAX_LAYERS: u64 = 1000;

/// Keys of a tower, and the width of the language model behind it.
#[derive(Clone, Copy)]
struct Vision<'a> {
    keys: Keys<'a>,
    hidden: u64,
}

impl Vision<'_> {
    fn size(self, name: &str, otherwise: u64) -> Result<u64, Fault> {
        Ok(self.keys.count(&[name], MAX_WIDTH)?.unwrap_or(otherwise).max(1))
    }

    fn layers(self, name: &str, otherwise: u64) -> Result<u64, Fault> {
        Ok(self.keys.count(&[name], MAX_LAYERS)?.unwrap_or(otherwise))
    }

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
        })
    }

    /// Four patches become one token (`PatchMerger`).
    fn merger(self, hidden: u64, norm: Norm) -> Result<Joint, Fault> {
        let across = self.size("spatial_merge_size", 2)?;
        let joined = across.saturating_mul(across);
        Ok(Joint {
            last_norm: None,
            norm: Some(JointNorm::Patch(norm)),
            joined,
            pooled: 1,
            inner: Some(hidden.saturating_mul(joined)),
            bias: true,
        })
    }

    /// `Qwen2VisionTransformerPretrainedModel`.
    fn qwen2(self) -> Result<Sight, Fault> {
        let hidden = self.size("embed_dim", 1280)?;
        let ratio = self.size("mlp_ratio", 4)?;
        let layers = self.layers("depth", 32)?;
        let stack = Self::turned(hidden, layers, self.size("num_heads", 16)?);
        let act = activation(self.keys, Act::QuickGelu)?;
        Ok(Sight {
            tower: Decoder { intermediate: hidden.saturating_mul(ratio), act, ..stack },
            patches: self.doubled(14)?,
            joint: self.merger(hidden, Norm::Layernorm)?,
            read: layers,
            modules: OF_QWEN2.to_vec(),
            deepstack: Vec::new(),
            unread_norm: false,
            keeps_states: false,
        })
    }

    /// `Qwen2_5_VisionTransformerPretrainedModel`: most blocks attend within windows.
    fn qwen2_5(self) -> Result<Sight, Fault> {
        let hidden = self.size("hidden_size", 3584)?;
        let layers = self.layers("depth", 32)?;
        let stack = Self::turned(hidden, layers, self.size("num_heads", 16)?);
        let patches = Patches { by_window: true, ..self.doubled(14)? };
        let across = self.size("window_size", 112)? / patches.side;
        let whole = self.keys.counts("fullatt_block_indexes", MAX_COUNT)?.unwrap_or_else(|| vec![7, 15, 23, 31]);
        Ok(Sight {
            tower: Decoder {
                intermediate: self.size("intermediate_size", 3420)?,
                act: activation(self.keys, Act::Silu)?,
                gated: true,
                norm: Norm::Rmsnorm,
                norm_bias: false,
                sliding_window: Some(across.saturating_mul(across).max(1)),
                windowed_layers: Some((0..layers).map(|layer| !whole.contains(&layer)).collect()),
                ..stack
            },
            joint: self.merger(hidden, Norm::Rmsnorm)?,
            patches,
            read: layers,
            modules: OF_QWEN2_5.to_vec(),
            deepstack: Vec::new(),
            unread_norm: false,
            keeps_states: false,
        })
    }

    /// `Qwen3VLVisionModel`; by default the blocks of `deepstack` have a branch.
    fn qwen3(self, deepstack: Vec<u64>) -> Result<Sight, Fault> {
        let hidden = self.size("hidden_size", 1152)?;
        let layers = self.layers("depth", 27)?;
        let rows = self.size("num_position_embeddings", 2304)?;
        let patches = Patches { positions: Positions::Between(rows), bias: true, ..self.doubled(16)? };
        Ok(Sight {
            tower: Decoder {
                intermediate: self.size("intermediate_size", 4304)?,
                act: activation(self.keys, Act::Gelu)?,
                max_positions: Some(rows),
                ..Self::turned(hidden, layers, self.size("num_heads", 16)?)
            },
            joint: self.merger(hidden, Norm::Layernorm)?,
            deepstack: self.keys.counts("deepstack_visual_indexes", MAX_COUNT)?.unwrap_or(deepstack),
            patches,
            read: layers,
            modules: OF_QWEN3.to_vec(),
            unread_norm: false,
            keeps_states: false,
        })
    }

    /// `CLIPVisionModel` or `SiglipVisionModel` before `LlavaMultiModalProjector`; one output of the tower is taken.
    fn llava(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let clip = match self.keys.text(&["model_type"]).unwrap_or("clip_vision_model") {
            "clip_vision_model" => true,
            "siglip_vision_model" => false,
            _ => return Ok(None),
        };
        let default = outer.text(&["vision_feature_select_strategy"]).is_none_or(|strategy| strategy == "default");
        let from_end = outer.place_from_end("vision_feature_layer", 2);
        let Some(from_end) = from_end.filter(|_| clip && default) else {
            return Ok(None);
        };
        let hidden = self.size("hidden_size", 1024)?;
        let layers = self.layers("num_hidden_layers", 24)?;
        let (side, image) = (self.size("patch_size", 14)?, self.size("image_size", 336)?);
        let patches = (image / side).saturating_mul(image / side);
        let stack = Decoder::plain(hidden, layers, self.size("num_attention_heads", 16)?);
        Ok(Some(Sight {
            tower: Decoder {
                intermediate: self.size("intermediate_size", 4096)?,
                act: activation(self.keys, Act::QuickGelu)?,
                max_positions: Some(patches),
                ..stack
            },
            patches: Patches {
                bias: false,
                class_token: true,
                positions: Positions::Rows(patches.saturating_add(1)),
                normed: true,
                ..of_one_size(side, image)
            },
            joint: Joint {
                last_norm: None,
                norm: None,
                joined: 1,
                pooled: 1,
                inner: Some(self.hidden),
                bias: outer.flag("multimodal_projector_bias", true)?,
            },
            read: layers.saturating_sub(from_end - 1),
            modules: [OF_SIGLIP, OF_LLAVA].concat(),
            deepstack: Vec::new(),
            unread_norm: true,
            keeps_states: true,
        }))
    }

    /// A number for both sides of what may be a pair of equal ones.
    fn side(self, name: &str, otherwise: u64) -> Result<Option<u64>, Fault> {
        if !self.keys.is_list(name) {
            return Ok(Some(self.size(name, otherwise)?));
        }
        let sides = self.keys.counts(name, MAX_WIDTH)?.unwrap_or_default();
        Ok(sides.first().copied().filter(|first| *first > 0 && sides.iter().all(|side| side == first)))
    }

    /// `InternVLVisionModel`, four of whose patches become one token.
    fn internvl(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let [Some(side), Some(image)] = [self.side("patch_size", 14)?, self.side("image_size", 448)?] else {
            return Ok(None);
        };
        let plain = self.keys.text(&["norm_type"]).is_none_or(|norm| norm == "layer_norm");
        let whole = outer.place_from_end("vision_feature_layer", 1) == Some(1);
        let halved = outer.share(&["downsample_ratio"], 0.5)? == 0.5;
        if !plain
            || !whole
            || !halved
            || self.keys.flag("use_qk_norm", false)?
            || self.keys.flag("use_mask_token", false)?
        {
            return Ok(None);
        }
        let hidden = self.size("hidden_size", 1024)?;
        let layers = self.layers("num_hidden_layers", 24)?;
        let patches = (image / side).saturating_mul(image / side);
        let class_rules = ClassRules { layer_scale: true, ..ClassRules::USUAL };
        let pooled = self.keys.flag("use_mean_pooling", true)?;
        let table = self.keys.flag("use_absolute_position_embeddings", false)?;
        Ok(Some(Sight {
            tower: Decoder {
                intermediate: self.size("intermediate_size", 4096)?,
                act: activation(self.keys, Act::Gelu)?,
                qkv_bias: self.keys.flag("attention_bias", false)?,
                max_positions: Some(patches),
                class_rules,
                ..Decoder::plain(hidden, layers, self.size("num_attention_heads", 16)?)
            },
            patches: Patches {
                class_token: true,
                positions: if table { Positions::Rows(patches.saturating_add(1)) } else { Positions::No },
                ..of_one_size(side, image)
            },
            joint: Joint {
                last_norm: if pooled { None } else { Some(Norm::Layernorm) },
                norm: Some(JointNorm::Shuffled),
                joined: 4,
                pooled: 1,
                inner: Some(self.hidden),
                bias: true,
            },
            read: layers,
            modules: [OF_INTERNVL, OF_LLAVA].concat(),
            deepstack: Vec::new(),
            unread_norm: false,
            keeps_states: false,
        }))
    }

    /// `SiglipVisionModel` before one matrix (`PaliGemmaMultiModalProjector`).
    fn paligemma(self) -> Result<Option<Sight>, Fault> {
        let Some(siglip) = self.siglip(256)? else { return Ok(None) };
        let joint = Joint { norm: None, pooled: 1, bias: true, ..siglip.joint };
        Ok(Some(Sight { joint, modules: [OF_SIGLIP, OF_PALIGEMMA].concat(), ..siglip }))
    }

    /// `SiglipVisionModel` before `Gemma3MultiModalProjector`.
    fn gemma3(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        self.siglip(outer.count(&["mm_tokens_per_image"], MAX_ROWS)?.unwrap_or(256).max(1))
    }

    /// `SiglipVisionModel`, whose patches come to so many tokens by their means.
    fn siglip(self, tokens: u64) -> Result<Option<Sight>, Fault> {
        // A head for the whole image, which nothing reads.
        if self.keys.flag("vision_use_head", true)? {
            return Ok(None);
        }
        let hidden = self.size("hidden_size", 768)?;
        let layers = self.layers("num_hidden_layers", 12)?;
        let (side, image) = (self.size("patch_size", 16)?, self.size("image_size", 224)?);
        let patches = (image / side).saturating_mul(image / side);
        let stack = Decoder::plain(hidden, layers, self.size("num_attention_heads", 12)?);
        Ok(Some(Sight {
            tower: Decoder {
                intermediate: self.size("intermediate_size", 3072)?,
                act: activation(self.keys, Act::Gelu)?,
                max_positions: Some(patches),
                ..stack
            },
            patches: of_one_size(side, image),
            joint: Joint {
                last_norm: Some(Norm::Layernorm),
                norm: Some(JointNorm::Language),
                joined: 1,
                pooled: patches / tokens,
                inner: None,
                bias: false,
            },
            read: layers,
            modules: OF_SIGLIP.to_vec(),
            deepstack: Vec::new(),
            unread_norm: false,
            keeps_states: false,
        }))
    }
}

fn activation(keys: Keys<'_>, otherwise: Act) -> Result<Act, Fault> {
    Ok(match keys.text(&["hidden_act"]) {
        None => otherwise,
        Some("quick_gelu") => Act::QuickGelu,
        Some("silu") => Act::Silu,
        Some("gelu" | "gelu_pytorch_tanh") => Act::Gelu,
        Some(other) => {
            return Err(Keys::fault("vision_config.hidden_act", format!("{other} has no checked rules in a tower")));
        }
    })
}
