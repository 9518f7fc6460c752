//! Encoder configurations: BERT, `RoBERTa`, `DistilBERT`, ELECTRA, ALBERT, `DeBERTa`, vision transformers.

use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use super::{HELP, decoder, heads};
use crate::model::architecture::{Act, Decoder, Encoder, Ends, Family};
use crate::model::rules::ClassRules;
use crate::model::stack::Distances;
use crate::plan::Fault;
use crate::plan::keywords::Position;

/// `ModernBertModel` of transformers 4.57.6 (models/modernbert/modeling_modernbert.py), with attention by PyTorch.
fn modern(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let since_5 =
        keys.text(&["transformers_version"]).and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    if since_5.is_some_and(|major| major >= 5) {
        return Err(Keys::fault(
            "transformers_version",
            format!("ModernBERT of transformers 5 has no checked rules; {HELP}"),
        ));
    }
    for (key, usual) in
        [("reference_compile", false), ("classifier_bias", false), ("decoder_bias", true), ("sparse_prediction", false)]
    {
        if keys.flag(key, usual)? != usual {
            return Err(Keys::fault(
                key,
                format!("{}: ModernBERT with this value has no checked rules; {HELP}", !usual),
            ));
        }
    }
    let bias = keys.flag("attention_bias", false)?;
    let window = keys.count(&["local_attention"], MAX_ROWS)?.unwrap_or(128);
    let every = keys.count(&["global_attn_every_n_layers"], MAX_COUNT)?.unwrap_or(3);
    let dropout = keys.share(&["attention_dropout"], 0.0)?;
    Ok(Decoder {
        position: Position::Rope,
        act: if keys.has("hidden_activation") { d.act } else { Act::Gelu },
        gated: true,
        fused_gate_up: true,
        fused_qkv: true,
        norm_bias: keys.flag("norm_bias", false)?,
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: keys.flag("mlp_bias", false)?,
        embedding_norm: true,
        sliding_window: Some(window),
        windowed_layers: Some((0..d.layers).map(|layer| layer % every != 0).collect()),
        attention_dropout: dropout,
        hidden_dropout: dropout,
        activation_dropout: keys.share(&["mlp_dropout"], 0.0)?,
        embedding_dropout: keys.share(&["embedding_dropout"], 0.0)?,
        class_rules: ClassRules {
            layer_tables: 2,
            own_tables: true,
            always_masked: true,
            unnormed_first: true,
            undropped_mlp: true,
            ..d.class_rules
        },
        ..d
    })
}

/// What is particular to the blocks of an encoder.
pub fn stack(d: Decoder, keys: Keys<'_>, family: Family, acting: bool) -> Result<Decoder, Fault> {
    if family == Family::ModernBert {
        return modern(d, keys);
    }
    let image = family == Family::Vit;
    let albert = family == Family::Albert;
    for key in ["num_hidden_groups", "inner_group_num"] {
        if albert && keys.count(&[key], MAX_COUNT)?.is_some_and(|groups| groups > 1) {
            return Err(Keys::fault(key, "groups of layers with weights of their own are not predicted"));
        }
    }
    let dropout = if image || albert { 0.0 } else { 0.1 };
    // The others' classes have no such key.
    let bias = !image || keys.flag("qkv_bias", true)?;
    let distil = family == Family::Distilbert;
    let (of_scores, of_rows) =
        if distil { ("attention_dropout", "dropout") } else { ("attention_probs_dropout_prob", "hidden_dropout_prob") };
    Ok(Decoder {
        position: if keys.flag("position_biased_input", true)? { Position::Learned } else { Position::None },
        act: match (acting, albert) {
            (true, _) => d.act,
            (false, true) => Act::GeluNew,
            (false, false) => Act::Gelu,
        },
        post_norm: !image,
        final_norm: image,
        qkv_bias: bias,
        attention_dropout: keys.share(&[of_scores], dropout)?,
        hidden_dropout: keys.share(&[of_rows], dropout)?,
        embedding_dropout: keys.share(&[of_rows], dropout)?,
        class_rules: ClassRules {
            undropped_attention: distil,
            undropped_mlp: albert,
            shared_layers: albert,
            written_scores: matches!(family, Family::Electra | Family::Deberta),
            ..d.class_rules
        },
        embedding_dim: match family {
            Family::Electra | Family::Albert => keys.count(&["embedding_size"], MAX_WIDTH)?.unwrap_or(128),
            _ => d.embedding_dim,
        },
        embedding_norm: !image,
        distances: if family == Family::Deberta { Some(distances(keys)?) } else { None },
        ..d
    })
}

/// `DeBERTa`'s table of distances, which the keys of its own describe (`DebertaV2Encoder`, `DisentangledSelfAttention`).
fn distances(keys: Keys<'_>) -> Result<Distances, Fault> {
    let positions = keys.count(&["max_position_embeddings"], MAX_ROWS)?.unwrap_or(512);
    // Fewer than one mean the default.
    let count = |key| if keys.is_negative(key) { Ok(None) } else { keys.count(&[key], MAX_ROWS) };
    let longest = count("max_relative_positions")?.unwrap_or(positions);
    let listed = keys.texts("pos_att_type");
    let kinds = listed.or_else(|| keys.text(&["pos_att_type"]).map(|text| text.split('|').collect()));
    let kinds = kinds.unwrap_or_default();
    let has = |kind: &str| kinds.iter().any(|one| one.trim().eq_ignore_ascii_case(kind));
    let is_relative = keys.flag("relative_attention", false)?;
    if is_relative && !has("c2p") && !has("p2c") {
        return Err(Keys::fault("pos_att_type", "distances that no score reads are not predicted: c2p, p2c or both"));
    }
    Ok(Distances {
        rows: if is_relative { 2 * count("position_buckets")?.unwrap_or(longest) } else { 0 },
        normed: keys.text(&["norm_rel_ebd"]).is_some_and(|norms| norms.to_ascii_lowercase().contains("layer_norm")),
        shared: keys.flag("share_att_key", false)?,
        to_position: has("c2p"),
        from_position: has("p2c"),
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
    let types = match family {
        Family::Distilbert | Family::ModernBert => 0,
        Family::Deberta => keys.whole("type_vocab_size", MAX_ROWS)?.unwrap_or(0),
        _ => keys.count(&["type_vocab_size"], MAX_ROWS)?.unwrap_or(2),
    };
    let (head, pooler) = heads::of_encoder(keys, family, class)?;
    Ok(Encoder { stack, ends: Ends::Text { types, pooler, head } })
}
