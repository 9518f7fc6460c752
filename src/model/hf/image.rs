//! Configurations of image models (models/vit/configuration_vit.py, models/resnet/configuration_resnet.py).

use super::encoder::labels;
use super::keys::{Keys, MAX_WIDTH};
use crate::model::architecture::Family;
use crate::model::families::{ResidualNet, Vision};
use crate::plan::Fault;

/// Sides of images that a configuration may name.
const MAX_SIDE: u64 = 1 << 16;

/// A vision transformer.
pub fn vision(keys: Keys<'_>, said: &mut Vec<String>) -> Result<Vision, Fault> {
    let block = super::decoder::read(keys, Family::Vit)?;
    let image = keys.count(&["image_size"], MAX_SIDE)?.unwrap_or(224);
    let patch = keys.count(&["patch_size"], MAX_SIDE)?.unwrap_or(16);
    if patch > image {
        return Err(Keys::fault("patch_size", format!("{patch} is more than image_size {image}")));
    }
    let bare = keys.first_text("architectures").is_some_and(|class| class.ends_with("Model"));
    if keys.first_text("architectures").is_none() {
        said.push("model.hf_config.architectures: an image classifier".to_owned());
    }
    Ok(Vision {
        block,
        image,
        patch,
        channels: keys.count(&["num_channels"], MAX_WIDTH)?.unwrap_or(3),
        labels: if bare { 0 } else { labels(keys)? },
    })
}

/// A residual convolutional network.
pub fn residual_net(keys: Keys<'_>) -> Result<ResidualNet, Fault> {
    let depths = keys.counts("depths", 10_000)?.unwrap_or_else(|| vec![3, 4, 6, 3]);
    let widths = keys.counts("hidden_sizes", MAX_WIDTH)?.unwrap_or_else(|| vec![256, 512, 1024, 2048]);
    if depths.is_empty() || depths.len() != widths.len() || depths.len() > 16 {
        let (depths, widths) = (depths.len(), widths.len());
        return Err(Keys::fault(
            "depths",
            format!("names {depths} stages; hidden_sizes {widths}; 1 to 16, as many each"),
        ));
    }
    if depths.contains(&0) || widths.contains(&0) {
        return Err(Keys::fault("depths", "a stage without blocks or channels"));
    }
    Ok(ResidualNet {
        depths,
        widths,
        embedding: keys.count(&["embedding_size"], MAX_WIDTH)?.unwrap_or(64),
        channels: keys.count(&["num_channels"], MAX_WIDTH)?.unwrap_or(3),
        bottleneck: keys.text(&["layer_type"]) != Some("basic"),
        halves_first: keys.flag("downsample_in_first_stage", false)?,
        halves_in_first: keys.flag("downsample_in_bottleneck", false)?,
        labels: labels(keys)?,
    })
}
