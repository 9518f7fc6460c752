//! The tower of a composite configuration: `vision_config` beside `text_config` (transformers 4.57.6).

mod clip;
mod pixtral;
mod qwen;
mod siglip;

use super::keys::{Keys, MAX_WIDTH};
use crate::framework::Module;
use crate::model::architecture::{Act, Decoder};
use crate::model::sight::{Patches, Positions, Sight};
use crate::plan::Fault;

/// CLIP's as well. Gemma 3 joins by a bare parameter, on which no adapter of a module stands.
const OF_SIGLIP: &[Module] = &[
    ("attention.q_proj", "self_attn.q_proj"),
    ("attention.k_proj", "self_attn.k_proj"),
    ("attention.v_proj", "self_attn.v_proj"),
    ("attention.o_proj", "self_attn.out_proj"),
    ("mlp.up_proj", "mlp.fc1"),
    ("mlp.down_proj", "mlp.fc2"),
];

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
        "llava_next" => tower.llava_next(outer)?,
        "llava_onevision" => tower.llava_onevision(outer)?,
        "mistral3" => tower.mistral3(outer)?,
        "idefics3" => Some(tower.idefics3(outer)?),
        "smolvlm" => Some(Sight { indexed: true, ..tower.idefics3(outer)? }),
        "internvl" => tower.internvl(outer)?,
        "gemma3" => tower.gemma3(outer)?,
        // Gemma 2 stands there too.
        "paligemma" if of_text(outer, "gemma") || of_text(outer, "gemma2") => tower.paligemma()?,
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
        gathered: false,
        in_a_row: false,
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

    /// A number for both sides of what may be a pair of equal ones.
    fn side(self, name: &str, otherwise: u64) -> Result<Option<u64>, Fault> {
        if !self.keys.is_list(name) {
            return Ok(Some(self.size(name, otherwise)?));
        }
        let sides = self.keys.counts(name, MAX_WIDTH)?.unwrap_or_default();
        Ok(sides.first().copied().filter(|first| *first > 0 && sides.iter().all(|side| side == first)))
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
