//! Towers whose tokens pass two matrices: CLIP's and SigLIP's before LLaVA's projectors, InternVL's.

use super::{OF_LLAVA, OF_SIGLIP, Vision, activation, of_one_size};
use crate::framework::Module;
use crate::model::architecture::{Act, Decoder};
use crate::model::hf::keys::{Keys, MAX_WIDTH};
use crate::model::rules::ClassRules;
use crate::model::sight::{Joint, JointNorm, Patches, Positions, Sight, Tiles};
use crate::plan::Fault;
use crate::plan::keywords::Norm;

const OF_INTERNVL: &[Module] = &[
    ("attention.q_proj", "attention.q_proj"),
    ("attention.k_proj", "attention.k_proj"),
    ("attention.v_proj", "attention.v_proj"),
    ("attention.o_proj", "attention.projection_layer"),
    ("mlp.up_proj", "mlp.fc1"),
    ("mlp.down_proj", "mlp.fc2"),
];

/// What a class of LLaVA's takes where its file says nothing.
struct Usual {
    tower: &'static str,
    /// Which output of the tower, from its end.
    from_end: u64,
    /// With or without the tower's own token.
    strategy: &'static str,
}

impl Vision<'_> {
    /// `CLIPVisionModel`, and its patches behind a token of its own.
    fn clip(self) -> Result<(Decoder, Patches), Fault> {
        let hidden = self.size("hidden_size", 1024)?;
        let layers = self.layers("num_hidden_layers", 24)?;
        let (side, image) = (self.size("patch_size", 14)?, self.size("image_size", 336)?);
        let patches = (image / side).saturating_mul(image / side);
        let tower = Decoder {
            intermediate: self.size("intermediate_size", 4096)?,
            act: activation(self.keys, Act::QuickGelu)?,
            max_positions: Some(patches),
            ..Decoder::plain(hidden, layers, self.size("num_attention_heads", 16)?)
        };
        let patches = Patches {
            bias: false,
            class_token: true,
            positions: Positions::Rows(patches.saturating_add(1)),
            normed: true,
            ..of_one_size(side, image)
        };
        Ok((tower, patches))
    }

    /// One output of CLIP's or SigLIP's tower, and `LlavaMultiModalProjector`.
    fn projected(self, outer: Keys<'_>, usual: &Usual) -> Result<Option<Sight>, Fault> {
        let (tower, patches) = match self.keys.text(&["model_type"]).unwrap_or(usual.tower) {
            "clip_vision_model" => self.clip()?,
            // A head for the whole image is left out, or runs for nothing.
            "siglip_vision_model" if !self.keys.flag("vision_use_head", true)? => self.siglip()?,
            _ => return Ok(None),
        };
        let strategy = outer.text(&["vision_feature_select_strategy"]).unwrap_or(usual.strategy);
        let from_end = outer.place_from_end("vision_feature_layer", usual.from_end);
        let plain = outer.text(&["projector_hidden_act"]).is_none_or(|act| act == "gelu");
        let Some(from_end) = from_end.filter(|_| plain && (strategy == "default") == patches.class_token) else {
            return Ok(None);
        };
        let bias = outer.flag("multimodal_projector_bias", true)?;
        let joint = Joint { inner: Some(self.hidden), bias, ..Joint::PLAIN };
        Ok(Some(Sight {
            read: tower.layers.saturating_sub(from_end - 1),
            unread_norm: true,
            keeps_states: true,
            ..Sight::of(tower, patches, joint, [OF_SIGLIP, OF_LLAVA].concat())
        }))
    }

    /// `LlavaModel`; Pixtral 12B stands there too.
    pub(super) fn llava(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        if self.keys.text(&["model_type"]) == Some("pixtral") {
            return self.pixtral(outer);
        }
        self.projected(outer, &Usual { tower: "clip_vision_model", from_end: 2, strategy: "default" })
    }

    /// `LlavaNextModel`: images are cut into tiles.
    pub(super) fn llava_next(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let sight = self.projected(outer, &Usual { tower: "clip_vision_model", from_end: 2, strategy: "default" })?;
        let usual = [(1, 2), (2, 1), (2, 2), (3, 1), (1, 3)];
        sight.map(|sight| tiled(sight, outer, (&usual, 336), None)).transpose()
    }

    /// `LlavaOnevisionModel`: the same, and of many tiles what they say is scaled down.
    pub(super) fn llava_onevision(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
        let ratio = outer.text(&["vision_aspect_ratio"]).unwrap_or("anyres_max_9");
        let Some(most) = ratio.strip_prefix("anyres_max_").and_then(|most| most.parse().ok()) else {
            return Ok(None);
        };
        let sight = self.projected(outer, &Usual { tower: "siglip_vision_model", from_end: 1, strategy: "full" })?;
        let usual: Vec<_> = (1..=6).flat_map(|rows| (1..=6).map(move |columns| (rows, columns))).collect();
        sight.map(|sight| tiled(sight, outer, (&usual, 384), Some(most))).transpose()
    }

    /// `InternVLVisionModel`, four of whose patches become one token.
    pub(super) fn internvl(self, outer: Keys<'_>) -> Result<Option<Sight>, Fault> {
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
        let tower = Decoder {
            intermediate: self.size("intermediate_size", 4096)?,
            act: activation(self.keys, Act::Gelu)?,
            qkv_bias: self.keys.flag("attention_bias", false)?,
            max_positions: Some(patches),
            class_rules,
            ..Decoder::plain(hidden, layers, self.size("num_attention_heads", 16)?)
        };
        let patches = Patches {
            class_token: true,
            positions: if table { Positions::Rows(patches.saturating_add(1)) } else { Positions::No },
            ..of_one_size(side, image)
        };
        // What is left without the tower's own token is the first copy of `pixel_shuffle`.
        let joint = Joint {
            last_norm: if pooled { None } else { Some(Norm::Layernorm) },
            copies: 1,
            norm: Some(JointNorm::Token),
            joined: 4,
            inner: Some(self.hidden),
            ..Joint::PLAIN
        };
        Ok(Some(Sight::of(tower, patches, joint, [OF_INTERNVL, OF_LLAVA].concat())))
    }
}

/// The same tower over tiles: of sizes that the file names, or of so many tiles of so many pixels.
fn tiled(
    sight: Sight,
    outer: Keys<'_>,
    (usual, pixels): (&[(u64, u64)], u64),
    most: Option<u64>,
) -> Result<Sight, Fault> {
    let side = sight.patches.only.unwrap_or(pixels);
    let named = outer.pairs("image_grid_pinpoints", MAX_WIDTH)?;
    let sizes =
        named.unwrap_or_else(|| usual.iter().map(|(rows, columns)| (rows * pixels, columns * pixels)).collect());
    let whole = |size: &u64| size.is_multiple_of(side) && *size > 0;
    if sizes.is_empty() || !sizes.iter().all(|(height, width)| whole(height) && whole(width)) {
        let said = format!("sizes of images that are cut into tiles of {side} pixels a side must be multiples of it");
        return Err(Keys::fault("image_grid_pinpoints", said));
    }
    let patches = Patches { only: None, gathered: true, ..sight.patches };
    Ok(Sight { patches, tiles: Some(Tiles { sizes, side, most }), ..sight })
}
