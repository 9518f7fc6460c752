//! LFM2: short convolutions between layers of attention (transformers 4.57.6, models/lfm2/configuration_lfm2.py and
//! modeling_lfm2.py).

use super::keys::{Keys, MAX_WIDTH};
use crate::model::architecture::{Decoder, QkNorm, ShortConv};
use crate::plan::Fault;

/// What is particular to it.
pub fn read(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let listed = keys.texts("layer_types").map(|kinds| kinds.iter().map(|kind| *kind == "conv").collect());
    let attending = keys.counts("full_attn_idxs", 10_000)?;
    // Without either every layer attends.
    let layers = listed.unwrap_or_else(|| {
        (0..d.layers).map(|layer| attending.as_ref().is_some_and(|with| !with.contains(&layer))).collect()
    });
    let kernel = keys.count(&["conv_L_cache"], MAX_WIDTH)?.unwrap_or(3);
    let bias = keys.flag("conv_bias", false)?;
    Ok(Decoder {
        intermediate: width(keys.count(&["block_ff_dim"], MAX_WIDTH)?.unwrap_or(d.intermediate), keys)?,
        qk_norm: QkNorm::PerHead,
        qkv_bias: false,
        out_bias: false,
        tie_embeddings: keys.flag("tie_embedding", d.tie_embeddings)?,
        short_conv: Some(ShortConv { layers, kernel, bias }),
        ..d
    })
}

/// The width of the feed-forward blocks: two thirds of what is given, times a factor, rounded up (`Lfm2MLP.__init__`).
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn width(given: u64, keys: Keys<'_>) -> Result<u64, Fault> {
    if !keys.flag("block_auto_adjust_ff_dim", true)? {
        return Ok(given);
    }
    let thirds = given.saturating_mul(2) / 3;
    if keys.is_null("block_ffn_dim_multiplier") {
        return Ok(thirds);
    }
    let factor = keys.number("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    let multiple = keys.count(&["block_multiple_of"], MAX_WIDTH)?.unwrap_or(256);
    Ok(((thirds as f64 * factor) as u64).div_ceil(multiple).saturating_mul(multiple))
}
