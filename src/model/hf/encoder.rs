//! BERT's and `RoBERTa`'s configurations (models/bert/configuration_bert.py and models/roberta).

use super::keys::{Keys, MAX_COUNT};
use crate::model::architecture::{Act, Decoder, Family};
use crate::model::families::{Encoder, EncoderHead};
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

/// Blocks of BERT, `RoBERTa` and ViT: biases everywhere, layer norms, GELU.
pub fn block(d: Decoder, keys: Keys<'_>, dropout: f64) -> Result<Decoder, Fault> {
    let hidden_dropout = keys.share(&["hidden_dropout_prob"], dropout)?;
    Ok(Decoder {
        position: Position::Learned,
        rotary_dim: 0,
        act: if keys.has("hidden_act") { d.act } else { Act::Gelu },
        gated: false,
        norm: Norm::Layernorm,
        norm_bias: true,
        qkv_bias: keys.flag("qkv_bias", true)?,
        out_bias: true,
        mlp_bias: true,
        final_norm: false,
        attention_dropout: keys.share(&["attention_probs_dropout_prob"], dropout)?,
        hidden_dropout,
        embedding_dropout: hidden_dropout,
        ..d
    })
}

/// The encoder that `keys` describe.
pub fn read(keys: Keys<'_>, family: Family, said: &mut Vec<String>) -> Result<Encoder, Fault> {
    let block = super::decoder::read(keys, family)?;
    let class = keys.first_text("architectures");
    let head = match class {
        Some(class) if class.ends_with("ForMaskedLM") => EncoderHead::MaskedLm,
        Some(class) if class.ends_with("ForPreTraining") => EncoderHead::PreTraining,
        Some(class) if class.ends_with("ForSequenceClassification") => EncoderHead::Sequence,
        Some(class) if class.ends_with("ForTokenClassification") => EncoderHead::Token,
        Some(class) if class.ends_with("Model") => EncoderHead::Bare,
        Some(class) => {
            said.push(format!("model.hf_config.architectures: {class} read as a masked language model"));
            EncoderHead::MaskedLm
        }
        None => {
            said.push("model.hf_config.architectures: a masked language model".to_owned());
            EncoderHead::MaskedLm
        }
    };
    Ok(Encoder {
        block,
        post_norm: true,
        token_types: keys.whole("type_vocab_size", MAX_COUNT)?.unwrap_or(2),
        pooler: head == EncoderHead::Bare,
        head,
        labels: labels(keys)?,
    })
}

/// Classes: `num_labels`, or as many as `id2label` names; two where the file is silent.
pub fn labels(keys: Keys<'_>) -> Result<u64, Fault> {
    let named = keys.inner("id2label").map(Keys::len);
    Ok(keys.count(&["num_labels"], super::keys::MAX_ROWS)?.or(named).unwrap_or(2))
}
