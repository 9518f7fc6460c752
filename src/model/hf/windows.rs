//! Which layers attend within a window.

use super::HELP;
use super::keys::{Keys, MAX_ROWS};
use crate::plan::Fault;

/// Tokens of the window: `otherwise` where the key is absent, none where it is null, or 0 as transformers 5 writes it for
/// a Qwen2-MoE without windows (models/qwen2_moe/configuration_qwen2_moe.py).
pub fn width(keys: Keys<'_>, otherwise: Option<u64>) -> Result<Option<u64>, Fault> {
    if keys.is_null("sliding_window") {
        return Ok(None);
    }
    Ok(keys.whole("sliding_window", MAX_ROWS)?.or(otherwise).filter(|width| *width > 0))
}

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
