//! Configurations of convolutional networks (models/resnet/configuration_resnet.py).

use super::heads::{gives_states, labels};
use super::keys::{Keys, MAX_WIDTH};
use crate::model::families::ResidualNet;
use crate::plan::Fault;

/// A residual convolutional network.
pub fn residual_net(keys: Keys<'_>, class: Option<&str>) -> Result<ResidualNet, Fault> {
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
        labels: if gives_states(class) { None } else { Some(labels(keys)?) },
    })
}
