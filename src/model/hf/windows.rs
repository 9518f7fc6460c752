//! Which layers attend within a window.

use super::HELP;
use super::keys::Keys;
use crate::plan::Fault;

/// `layer_types`, where every layer attends (configuration_utils.py, `layer_type_validation`).
pub fn listed(keys: Keys<'_>, layers: u64) -> Result<Option<Vec<bool>>, Fault> {
    if !keys.has("layer_types") {
        return Ok(None);
    }
    let kinds = keys.texts("layer_types").ok_or_else(|| Keys::fault("layer_types", "must be a list of texts"))?;
    if kinds.len() as u64 != layers {
        return Err(Keys::fault("layer_types", format!("names {} layers of {layers}", kinds.len())));
    }
    let windowed = kinds.iter().map(|kind| match *kind {
        // Whether a family has such layers is asked where its own keys are read.
        "full_attention" | "linear_attention" | "conv" | "mamba" | "attention" => Ok(false),
        "sliding_attention" | "chunked_attention" => Ok(true),
        other => Err(Keys::fault("layer_types", format!("layers of {other} have no checked rules; {HELP}"))),
    });
    windowed.collect::<Result<_, _>>().map(Some)
}
