//! T5's and Whisper's configurations (models/t5/configuration_t5.py, models/whisper).

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
    // mT5's blocks are T5's with other defaults (models/mt5/configuration_mt5.py).
    let multilingual = keys.text(&["model_type"]) == Some("mt5");
    let proj = keys.text(&["feed_forward_proj"]).unwrap_or(if multilingual { "gated-gelu" } else { "relu" });
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
        tie_embeddings: keys.flag("tie_word_embeddings", !multilingual)?,
        norm: Norm::Rmsnorm,
        attention_dropout: dropout,
        hidden_dropout: dropout,
        embedding_dropout: dropout,
        ..d
    })
}

fn whisper_block(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let heads = keys.count(&["decoder_attention_heads"], MAX_COUNT)?.unwrap_or(6);
    let dropout = keys.share(&["dropout"], 0.0)?;
    if !d.hidden.is_multiple_of(heads) {
        return Err(Keys::fault(
            "decoder_attention_heads",
            format!("{heads} heads do not divide d_model {}", d.hidden),
        ));
    }
    Ok(Decoder {
        layers: keys.count(&["decoder_layers"], 10_000)?.unwrap_or(4),
        heads,
        kv_heads: heads,
        head_dim: d.hidden / heads,
        intermediate: keys.count(&["decoder_ffn_dim"], MAX_WIDTH)?.unwrap_or(1536),
        max_positions: Some(keys.count(&["max_target_positions"], MAX_ROWS)?.unwrap_or(448)),
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
        hidden_dropout: dropout,
        embedding_dropout: dropout,
        ..d
    })
}

/// The model that `keys` describe, with the output matrix of `...ForConditionalGeneration`.
pub fn read(keys: Keys<'_>, family: Family, class: Option<&str>) -> Result<EncoderDecoder, Fault> {
    if let Some(class) = class
        && ["EncoderModel", "Classification", "ForQuestionAnswering"].iter().any(|end| class.ends_with(end))
    {
        return Err(Keys::fault(
            "architectures",
            format!("{class}: a half of the model, or another head, is not predicted"),
        ));
    }
    let block = super::decoder::read(keys, family)?;
    if family == Family::Whisper {
        let heads = keys.count(&["encoder_attention_heads"], MAX_COUNT)?.unwrap_or(6);
        if !block.hidden.is_multiple_of(heads) {
            return Err(Keys::fault(
                "encoder_attention_heads",
                format!("{heads} heads do not divide d_model {}", block.hidden),
            ));
        }
        return Ok(EncoderDecoder {
            encoder_layers: keys.count(&["encoder_layers"], 10_000)?.unwrap_or(4),
            encoder_heads: heads,
            encoder_intermediate: keys.count(&["encoder_ffn_dim"], MAX_WIDTH)?.unwrap_or(1536),
            start: Start::Audio {
                mel_bins: keys.count(&["num_mel_bins"], MAX_WIDTH)?.unwrap_or(80),
                positions: keys.count(&["max_source_positions"], MAX_ROWS)?.unwrap_or(1500),
            },
            block,
        });
    }
    Ok(EncoderDecoder {
        encoder_layers: keys.count(&["num_layers"], 10_000)?.unwrap_or(6),
        encoder_heads: block.heads,
        encoder_intermediate: block.intermediate,
        start: Start::Relative { buckets: keys.count(&["relative_attention_num_buckets"], MAX_COUNT)?.unwrap_or(32) },
        block,
    })
}
