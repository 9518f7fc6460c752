//! Configurations of T5, Whisper, BART and its kin (models/t5/configuration_t5.py, models/whisper, bart, mbart, pegasus).

use super::defaults;
use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use crate::model::architecture::{Act, Decoder, Family};
use crate::model::families::{EncoderDecoder, Start};
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

/// What the decoder reader makes of T5's and Whisper's keys, put right.
pub fn block(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    if family == Family::Whisper {
        return whisper_block(d, keys);
    }
    if family.has_bart_layers() {
        return bart_block(d, keys, family);
    }
    // mT5's blocks are T5's with other defaults (models/mt5/configuration_mt5.py).
    let kind = keys.text(&["model_type"]);
    let is_gated = matches!(kind, Some("mt5" | "umt5"));
    let proj = keys.text(&["feed_forward_proj"]).unwrap_or(if is_gated { "gated-gelu" } else { "relu" });
    let gated = keys.flag("is_gated_act", proj.starts_with("gated"))?;
    let dropout = keys.share(&["dropout_rate"], 0.1)?;
    let head_dim = keys.count(&["d_kv"], MAX_WIDTH)?.unwrap_or(64);
    let name = keys.text(&["dense_act_fn"]).unwrap_or_else(|| proj.rsplit('-').next().unwrap_or(proj));
    let act = match name {
        // `gated-gelu` means gelu_new (T5Config).
        "gelu" if proj == "gated-gelu" => Act::GeluNew,
        "gelu_new" => Act::GeluNew,
        "gelu" => Act::Gelu,
        "silu" | "swish" => Act::Silu,
        _ => Act::Relu,
    };
    Ok(Decoder {
        layers: keys.count(&["num_decoder_layers", "num_layers"], 10_000)?.unwrap_or(d.layers),
        head_dim,
        intermediate: keys.count(&["d_ff"], MAX_WIDTH)?.unwrap_or(d.intermediate),
        max_positions: keys.count(&["n_positions"], MAX_ROWS)?,
        position: Position::None,
        act,
        gated,
        norm: Norm::Rmsnorm,
        attention_dropout: dropout,
        hidden_dropout: dropout,
        embedding_dropout: dropout,
        ..d
    })
}

fn whisper_block(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let dropout = keys.share(&["dropout"], 0.0)?;
    Ok(Decoder {
        max_positions: Some(keys.count(&["max_target_positions"], MAX_ROWS)?.unwrap_or(448)),
        hidden_dropout: dropout,
        embedding_dropout: dropout,
        ..decoder_sizes(d, keys, [4, 6, 1536])?
    })
}

/// What their keys have for a decoder of its own (models/whisper, models/bart).
fn decoder_sizes(d: Decoder, keys: Keys<'_>, [layers, heads, inner]: [u64; 3]) -> Result<Decoder, Fault> {
    let heads = keys.count(&["decoder_attention_heads"], MAX_COUNT)?.unwrap_or(heads);
    whole_heads("decoder_attention_heads", heads, d.hidden)?;
    Ok(Decoder {
        layers: keys.count(&["decoder_layers"], 10_000)?.unwrap_or(layers),
        heads,
        kv_heads: heads,
        head_dim: d.hidden / heads,
        intermediate: keys.count(&["decoder_ffn_dim"], MAX_WIDTH)?.unwrap_or(inner),
        position: Position::Learned,
        act: if keys.has("activation_function") { d.act } else { Act::Gelu },
        gated: false,
        norm: Norm::Layernorm,
        norm_bias: true,
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
        activation_dropout: keys.share(&["activation_dropout"], 0.0)?,
        attention_dropout: keys.share(&["attention_dropout"], 0.0)?,
        ..d
    })
}

fn whole_heads(key: &str, heads: u64, hidden: u64) -> Result<(), Fault> {
    if hidden.is_multiple_of(heads) {
        return Ok(());
    }
    Err(Keys::fault(key, format!("{heads} heads do not divide d_model {hidden}")))
}

/// BART's blocks have their norms behind both halves, mBART's and Pegasus's before them and one behind them all; Pegasus's
/// embedding has none.
fn bart_block(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    for key in ["encoder_layerdrop", "decoder_layerdrop"] {
        if keys.share(&[key], 0.0)? > 0.0 {
            return Err(Keys::fault(key, "layers that chance leaves out are not predicted"));
        }
    }
    let dropout = keys.share(&["dropout"], 0.1)?;
    let sinusoids = has_sinusoids(keys);
    Ok(Decoder {
        max_positions: Some(keys.count(&["max_position_embeddings"], MAX_ROWS)?.unwrap_or(1024)),
        // `BartLearnedPositionalEmbedding`: positions begin behind two rows that nothing reads.
        extra_positions: if sinusoids { 0 } else { 2 },
        post_norm: family == Family::Bart,
        final_norm: family == Family::Mbart,
        embedding_norm: !sinusoids,
        hidden_dropout: dropout,
        embedding_dropout: dropout,
        ..decoder_sizes(d, keys, [12, 16, 4096])?
    })
}

/// `PegasusSinusoidalPositionalEmbedding`.
fn has_sinusoids(keys: Keys<'_>) -> bool {
    keys.text(&["model_type"]) == Some("pegasus")
}

/// The model that `keys` describe, with the output matrix of `...ForConditionalGeneration`.
pub fn read(keys: Keys<'_>, family: Family, class: Option<&str>) -> Result<EncoderDecoder, Fault> {
    if let Some(class) = class
        && ["Model", "Classification", "ForQuestionAnswering", "ForCausalLM"].iter().any(|end| class.ends_with(end))
    {
        return Err(Keys::fault(
            "architectures",
            format!("{class}: a half of the model, or one without its head or with another, is not predicted"),
        ));
    }
    let block = super::decoder::read(keys, family)?;
    if family == Family::Whisper || family.has_bart_layers() {
        let [layers, heads, inner] = if family == Family::Whisper { [4, 6, 1536] } else { [12, 16, 4096] };
        let heads = keys.count(&["encoder_attention_heads"], MAX_COUNT)?.unwrap_or(heads);
        whole_heads("encoder_attention_heads", heads, block.hidden)?;
        return Ok(EncoderDecoder {
            encoder_layers: keys.count(&["encoder_layers"], 10_000)?.unwrap_or(layers),
            encoder_heads: heads,
            encoder_intermediate: keys.count(&["encoder_ffn_dim"], MAX_WIDTH)?.unwrap_or(inner),
            start: if family == Family::Whisper {
                Start::Audio {
                    mel_bins: keys.count(&["num_mel_bins"], MAX_WIDTH)?.unwrap_or(80),
                    positions: keys.count(&["max_source_positions"], MAX_ROWS)?.unwrap_or(1500),
                }
            } else {
                Start::Scaled { learned: !has_sinusoids(keys) }
            },
            block,
        });
    }
    Ok(EncoderDecoder {
        encoder_layers: keys
            .count(&["num_layers"], 10_000)?
            .unwrap_or(defaults::of(keys.text(&["model_type"]), family).layers),
        encoder_heads: block.heads,
        encoder_intermediate: block.intermediate,
        start: Start::Relative {
            buckets: keys.count(&["relative_attention_num_buckets"], MAX_COUNT)?.unwrap_or(32),
            each: keys.text(&["model_type"]) == Some("umt5"),
        },
        block,
    })
}
