//! Encoder configurations: BERT, `RoBERTa`, vision transformers.

use super::decoder;
use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use crate::model::architecture::{Act, Decoder, Encoder, Ends, Family, TextHead};
use crate::plan::Fault;
use crate::plan::keywords::Position;

/// What is particular to the blocks of an encoder.
pub fn stack(d: Decoder, keys: Keys<'_>, family: Family, acting: bool) -> Result<Decoder, Fault> {
    let image = family == Family::Vit;
    let dropout = if image { 0.0 } else { 0.1 };
    let bias = keys.flag("qkv_bias", true)?;
    Ok(Decoder {
        position: Position::Learned,
        act: if acting { d.act } else { Act::Gelu },
        post_norm: !image,
        final_norm: image,
        qkv_bias: bias,
        attention_dropout: keys.share(&["attention_probs_dropout_prob"], dropout)?,
        hidden_dropout: keys.share(&["hidden_dropout_prob"], dropout)?,
        embedding_dropout: keys.share(&["hidden_dropout_prob"], dropout)?,
        embedding_norm: !image,
        ..d
    })
}

/// The encoder that `keys` describe; `architectures` chooses the head.
pub fn read(keys: Keys<'_>, family: Family, class: Option<&str>) -> Result<Encoder, Fault> {
    let stack = decoder::read(keys, family)?;
    if family == Family::Vit {
        let image = keys.count(&["image_size"], MAX_WIDTH)?.unwrap_or(224);
        let patch = keys.count(&["patch_size"], MAX_WIDTH)?.unwrap_or(16);
        if patch > image {
            return Err(Keys::fault("patch_size", format!("{patch} is larger than image_size {image}")));
        }
        let channels = keys.count(&["num_channels"], MAX_COUNT)?.unwrap_or(3);
        return Ok(Encoder { stack, ends: Ends::Image { image, patch, channels, classes: labels(keys)? } });
    }
    let types = keys.count(&["type_vocab_size"], MAX_ROWS)?.unwrap_or(2);
    let class = class.unwrap_or("ForMaskedLM");
    let roberta = family == Family::Roberta;
    let (head, pooler) = if class.ends_with("ForMaskedLM") {
        (TextHead::MaskedLm, false)
    } else if class.ends_with("ForPreTraining") {
        (TextHead::Pretraining, true)
    } else if class.ends_with("ForSequenceClassification") {
        (TextHead::Classes(labels(keys)?, roberta), !roberta)
    } else {
        (TextHead::No, true)
    };
    Ok(Encoder { stack, ends: Ends::Text { types, pooler, head } })
}

/// Classes: `num_labels`, the names in `id2label`, or the two that a configuration starts with.
pub fn labels(keys: Keys<'_>) -> Result<u64, Fault> {
    let named = keys.size_of("id2label");
    Ok(keys.count(&["num_labels"], MAX_ROWS)?.or(named).unwrap_or(2))
}
