//! diffusers' configurations (`_class_name`), as of diffusers 0.39.

use serde_json::{Map, Value};

use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use crate::model::architecture::{Architecture, Family, ModelShape};
use crate::model::families::Unet;
use crate::plan::Fault;

/// Levels of a UNet.
const MAX_LEVELS: usize = 12;
/// Modules of a UNet, each walked on its own.
const MAX_MODULES: u64 = 4096;

/// The model that a configuration with `_class_name` describes.
pub fn read(config: &Map<String, Value>, class: &str) -> Result<Architecture, Fault> {
    if class != "UNet2DConditionModel" {
        return Err(Keys::fault(
            "_class_name",
            format!("{class}: of diffusers' models UNet2DConditionModel is predicted"),
        ));
    }
    let net = unet(Keys::of(config))?;
    let first = net.widths.first().copied().unwrap_or(0);
    let name = format!("UNet {} levels x {first}", net.widths.len());
    Ok(Architecture { name, family: Family::Unet, shape: ModelShape::Unet(net) })
}

/// One number for each level, be it written once for all.
fn each(keys: Keys<'_>, name: &str, levels: usize, otherwise: u64, most: u64) -> Result<Vec<u64>, Fault> {
    if !keys.is_list(name) {
        return Ok(vec![keys.count(&[name], most)?.unwrap_or(otherwise); levels]);
    }
    let list = keys.counts(name, most)?.unwrap_or_default();
    if list.len() != levels || list.contains(&0) {
        return Err(Keys::fault(name, format!("must name {levels} numbers above 0, as block_out_channels does")));
    }
    Ok(list)
}

/// Which levels attend to the text.
fn attention(keys: Keys<'_>, name: &str, plain: &str, levels: usize, first: bool) -> Result<Vec<bool>, Fault> {
    let Some(names) = keys.texts(name) else {
        return Ok((0..levels).map(|level| if first { level + 1 < levels } else { level > 0 }).collect());
    };
    if names.len() != levels {
        return Err(Keys::fault(name, format!("must name {levels} blocks, as block_out_channels does")));
    }
    let known = |block: &&str| {
        if *block == plain {
            Ok(false)
        } else if *block == format!("CrossAttn{plain}") {
            Ok(true)
        } else {
            Err(Keys::fault(name, format!("{block}: only {plain} and CrossAttn{plain} are predicted")))
        }
    };
    names.iter().map(known).collect()
}

/// Which levels attend to the text alone, and whether the middle does: one value for all means that as well.
fn only_cross(keys: Keys<'_>, levels: usize) -> Result<(Vec<bool>, bool), Fault> {
    let name = "only_cross_attention";
    if !keys.is_list(name) {
        let all = keys.flag(name, false)?;
        return Ok((vec![all; levels], all));
    }
    match keys.flags(name) {
        Some(list) if list.len() == levels => Ok((list, false)),
        _ => Err(Keys::fault(name, format!("must say true or false {levels} times, as block_out_channels does"))),
    }
}

/// Keys that change what a UNet is made of in ways that are not predicted, with the one value that changes nothing.
const UNREAD: [(&str, &str); 11] = [
    ("class_embed_type", ""),
    ("encoder_hid_dim", ""),
    ("encoder_hid_dim_type", ""),
    ("time_cond_proj_dim", ""),
    ("time_embedding_dim", ""),
    ("reverse_transformer_layers_per_block", ""),
    ("cross_attention_norm", ""),
    ("resnet_time_scale_shift", "default"),
    ("time_embedding_type", "positional"),
    ("attention_type", "default"),
    ("addition_embed_type", "text_time"),
];

fn unet(keys: Keys<'_>) -> Result<Unet, Fault> {
    if let Some((name, _)) = UNREAD.iter().find(|(name, plain)| keys.has(name) && keys.text(&[name]) != Some(*plain)) {
        return Err(Keys::fault(name, "a UNet with this is not predicted"));
    }
    let widths = keys.counts("block_out_channels", MAX_WIDTH)?.unwrap_or_else(|| vec![320, 640, 1280, 1280]);
    let levels = widths.len();
    if levels == 0 || levels > MAX_LEVELS || widths.contains(&0) {
        return Err(Keys::fault("block_out_channels", format!("must name 1 to {MAX_LEVELS} widths above 0")));
    }
    // What is called the heads' size has always been their number (unet_2d_condition.py, num_attention_heads).
    let named = if keys.has("num_attention_heads") { "num_attention_heads" } else { "attention_head_dim" };
    let heads = each(keys, named, levels, 8, MAX_COUNT)?;
    if let Some((width, heads)) = widths.iter().zip(&heads).find(|(width, heads)| *width % *heads != 0) {
        return Err(Keys::fault(named, format!("{heads} heads do not divide {width} channels")));
    }
    let groups = keys.count(&["norm_num_groups"], MAX_COUNT)?.unwrap_or(32);
    let middle_attention = match keys.text(&["mid_block_type"]).unwrap_or("UNetMidBlock2DCrossAttn") {
        "UNetMidBlock2DCrossAttn" => true,
        "UNetMidBlock2D" => false,
        other => return Err(Keys::fault("mid_block_type", format!("{other}: a UNet with this is not predicted"))),
    };
    let texts = keys.text(&["addition_embed_type"]) == Some("text_time");
    let added = keys.count(&["projection_class_embeddings_input_dim"], MAX_WIDTH)?;
    if let Some(width) = widths.iter().find(|width| *width % groups != 0) {
        return Err(Keys::fault("norm_num_groups", format!("{groups} groups do not divide {width} channels")));
    }
    let only_cross = only_cross(keys, levels)?;
    let net = Unet {
        channels: keys.count(&["in_channels"], MAX_WIDTH)?.unwrap_or(4),
        out_channels: keys.count(&["out_channels"], MAX_WIDTH)?.unwrap_or(4),
        image: keys.count(&["sample_size"], 1 << 16)?.unwrap_or(64),
        layers: each(keys, "layers_per_block", levels, 2, 1000)?,
        transformer_layers: each(keys, "transformer_layers_per_block", levels, 1, 1000)?,
        heads,
        cross_widths: each(keys, "cross_attention_dim", levels, 1280, MAX_WIDTH)?,
        middle_only_cross: keys.flag("mid_block_only_cross_attention", only_cross.1)?,
        only_cross: only_cross.0,
        down_attention: attention(keys, "down_block_types", "DownBlock2D", levels, true)?,
        up_attention: attention(keys, "up_block_types", "UpBlock2D", levels, false)?,
        middle_attention,
        linear_projection: keys.flag("use_linear_projection", false)?,
        added_width: added.filter(|_| texts).unwrap_or(0),
        classes: keys.count(&["num_class_embeds"], MAX_ROWS)?.unwrap_or(0),
        groups,
        widths,
    };
    if net.modules() > MAX_MODULES {
        let many = net.modules();
        return Err(Keys::fault("layers_per_block", format!("{many} modules in all are more than {MAX_MODULES}")));
    }
    Ok(net)
}
