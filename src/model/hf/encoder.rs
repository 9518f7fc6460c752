//! Encoder configurations: BERT, `RoBERTa`, `DistilBERT`, vision transformers.

use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use super::{decoder, heads};
use crate::model::architecture::{Act, Decoder, Encoder, Ends, Family};
use crate::model::rules::ClassRules;
use crate::plan::Fault;
use crate::plan::keywords::Position;

/// What is particular to the blocks of an encoder.
pub fn stack(d: Decoder, keys: Keys<'_>, family: Family, acting: bool) -> Result<Decoder, Fault> {
    let image = family == Family::Vit;
    let dropout = if image { 0.0 } else { 0.1 };
    let bias = keys.flag("qkv_bias", true)?;
    let distil = family == Family::Distilbert;
    let (of_scores, of_rows) =
        if distil { ("attention_dropout", "dropout") } else { ("attention_probs_dropout_prob", "hidden_dropout_prob") };
    Ok(Decoder {
        position: Position::Learned,
        act: if acting { d.act } else { Act::Gelu },
        post_norm: !image,
        final_norm: image,
        qkv_bias: bias,
        attention_dropout: keys.share(&[of_scores], dropout)?,
        hidden_dropout: keys.share(&[of_rows], dropout)?,
        embedding_dropout: keys.share(&[of_rows], dropout)?,
        class_rules: ClassRules { undropped_attention: distil, ..d.class_rules },
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
        return Ok(Encoder {
            stack,
            ends: Ends::Image { image, patch, channels, head: heads::of_images(keys, class)? },
        });
    }
    // The vocabularies of the configuration classes themselves: CamembertConfig and XLMRobertaConfig have BERT's.
    let has_own = keys.text(&["model_type"]) == Some("roberta") && !keys.has("vocab_size");
    let stack = if has_own { Decoder { vocab: 50_265, ..stack } } else { stack };
    let types = if family == Family::Distilbert { 0 } else { keys.count(&["type_vocab_size"], MAX_ROWS)?.unwrap_or(2) };
    let (head, pooler) = heads::of_encoder(keys, family, class)?;
    Ok(Encoder { stack, ends: Ends::Text { types, pooler, head } })
}
