//! What a model is trained for, which the name of its class says (`architectures`).

use serde_json::{Map, Value};

use super::counts;
use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use crate::model::architecture::{Decoder, DecoderOutput, DenseHead, Family, ImageHead, TextHead};
use crate::plan::{Fault, keys as plan_keys};

/// The configuration of the same model with another head: the class of its kind that has that one, for so many classes.
///
/// # Errors
/// transformers has no such class of this kind.
pub fn instead(config: &Map<String, Value>, ending: &str, classes: Option<u64>) -> Result<Map<String, Value>, Fault> {
    let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let Some(class) = counts::class_with(config, model_type, ending) else {
        return Err(Fault::of(
            plan_keys::model::head,
            format!("transformers has no {ending} of the kind {model_type}"),
        ));
    };
    let mut config = config.clone();
    config.insert("architectures".to_owned(), vec![class].into());
    if let Some(classes) = classes {
        config.insert("num_labels".to_owned(), classes.into());
    }
    Ok(config)
}

/// A decoder with the head of `class` (transformers 4.57.6, modeling_layers.py, `GenericForSequenceClassification` and
/// those behind it; models/gpt2, bloom, falcon, gpt_neox).
pub fn of_decoder(d: Decoder, keys: Keys<'_>, family: Family, class: Option<&str>) -> Result<Decoder, Fault> {
    let class = class.unwrap_or("ForCausalLM");
    let says = if class.ends_with("ForSequenceClassification") {
        DecoderOutput::TextClass(labels(keys)?)
    } else if class.ends_with("ForTokenClassification") {
        // Bloom's and Falcon's configurations have a hidden_dropout of 0.
        let own = if matches!(family, Family::Bloom | Family::Falcon) { 0.0 } else { 0.1 };
        let names: &[&str] = match family {
            Family::GptNeox => &["classifier_dropout"],
            _ => &["classifier_dropout", "hidden_dropout"],
        };
        DecoderOutput::TokenClass { classes: labels(keys)?, dropout: keys.share(names, own)? }
    } else if class.ends_with("ForQuestionAnswering") {
        // Where an answer starts and where it ends.
        DecoderOutput::TokenClass { classes: 2, dropout: 0.0 }
    } else if gives_states(Some(class)) {
        DecoderOutput::States
    } else {
        return Ok(d);
    };
    Ok(Decoder { says, tie_embeddings: false, head_bias: false, ..d })
}

/// The head of an encoder of text, and whether a pooler stands before it (models/bert, roberta).
pub fn of_encoder(keys: Keys<'_>, family: Family, class: Option<&str>) -> Result<(TextHead, bool), Fault> {
    let class = class.unwrap_or("ForMaskedLM");
    let dense = match family {
        Family::Roberta => DenseHead::Tanh,
        Family::Distilbert => DenseHead::Relu,
        Family::Electra => DenseHead::Gelu,
        Family::Deberta => DenseHead::Summary,
        Family::ModernBert if keys.text(&["classifier_pooling"]) == Some("mean") => DenseHead::MeanNormed,
        Family::ModernBert => DenseHead::Normed,
        _ => DenseHead::Pooler,
    };
    if family == Family::ModernBert && keys.share(&["classifier_dropout"], 0.0)? > 0.0 {
        return Err(Keys::fault("classifier_dropout", "ModernBERT with this value has no checked rules"));
    }
    if family == Family::ModernBert && class.ends_with("ForMultipleChoice") {
        return Err(Keys::fault("architectures", format!("{class} has no checked rules")));
    }
    Ok(if class.ends_with("ForMaskedLM") {
        (TextHead::MaskedLm, false)
    } else if class.ends_with("LMHeadModel") || class.ends_with("ForCausalLM") {
        (TextHead::CausalLm, false)
    } else if class.ends_with("ForPreTraining") && family == Family::Electra {
        (TextHead::Replaced, false)
    } else if class.ends_with("ForPreTraining") {
        (TextHead::Pretraining, true)
    } else if class.ends_with("ForSequenceClassification") {
        (TextHead::Classes(labels(keys)?, dense), dense == DenseHead::Pooler)
    } else if class.ends_with("ForMultipleChoice") {
        // A score for each choice, behind a pooler in BERT and `RoBERTa`.
        match dense {
            DenseHead::Relu => (TextHead::Classes(1, dense), false),
            DenseHead::Gelu | DenseHead::Summary => (TextHead::Classes(1, DenseHead::Summary), false),
            _ => (TextHead::Classes(1, DenseHead::Pooler), true),
        }
    } else if class.ends_with("ForNextSentencePrediction") {
        (TextHead::Classes(2, DenseHead::Pooler), true)
    } else if class.ends_with("ForTokenClassification") {
        // ALBERT has a rate of its own.
        let drops = family != Family::Albert || keys.share(&["classifier_dropout_prob"], 0.1)? > 0.0;
        (TextHead::TokenClasses(labels(keys)?, drops), false)
    } else if class.ends_with("ForQuestionAnswering") {
        // `DistilBertForQuestionAnswering` drops before it.
        (TextHead::TokenClasses(2, family == Family::Distilbert), false)
    } else {
        (TextHead::No, matches!(family, Family::Bert | Family::Roberta | Family::Albert))
    })
}

/// The head of an encoder of images (models/vit/modeling_vit.py): `ViTModel` has a pooler.
pub fn of_images(keys: Keys<'_>, class: Option<&str>) -> Result<ImageHead, Fault> {
    if class.is_some_and(|class| class.ends_with("ForMaskedImageModeling")) {
        let stride = keys.count(&["encoder_stride"], 4096)?.unwrap_or(16);
        let colours = keys.count(&["num_channels"], MAX_COUNT)?.unwrap_or(3);
        return Ok(ImageHead::Pixels(stride * stride * colours));
    }
    if !gives_states(class) {
        return Ok(ImageHead::Classes(labels(keys)?));
    }
    let hidden = keys.count(&["pooler_output_size", "hidden_size"], MAX_WIDTH)?.unwrap_or(768);
    Ok(ImageHead::Pooler(hidden))
}

/// Whether a class has no head: `LlamaModel`, but not `GPT2LMHeadModel`.
pub fn gives_states(class: Option<&str>) -> bool {
    class.is_some_and(|class| {
        class.ends_with("Model") && !class.ends_with("HeadModel") && !class.ends_with("HeadsModel")
    })
}

/// Classes: `num_labels`, the names in `id2label`, or the two that a configuration starts with.
pub fn labels(keys: Keys<'_>) -> Result<u64, Fault> {
    let named = keys.size_of("id2label");
    Ok(keys.count(&["num_labels"], MAX_ROWS)?.or(named).unwrap_or(2))
}
