//! Kinds of model whose parameters are as their classes have them (transformers 4.57.6, `models/*/modeling_*.py`),
//! while their activations are taken for those of a family that has a walk.

use super::decoder::rotary;
use super::keys::{Keys, MAX_ROWS, MAX_WIDTH};
use super::mixtures;
use super::windows;
use crate::model::architecture::{Act, Decoder, Family, QkNorm};
use crate::model::rules::{ClassNorm, ClassRules, LayerBuffer};
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

/// A kind of model beside the families.
#[derive(Clone, Copy)]
pub struct RelatedModel {
    /// Whose modules it runs, as far as is known.
    pub family: Family,
    /// Whose keys its configuration has.
    pub read_as: Family,
    /// What its class has otherwise.
    pub fields: fn(Decoder, Keys<'_>) -> Result<Decoder, Fault>,
}

/// The kind of that `model_type`.
pub fn of(model_type: &str) -> Option<RelatedModel> {
    let as_family = |family, fields| RelatedModel { family, read_as: family, fields };
    let llama = |fields| as_family(Family::Llama, fields);
    let model_type = model_type.to_ascii_lowercase();
    Some(match model_type.as_str() {
        "olmo" => llama(|d, _| Ok(Decoder { norm: Norm::Layernorm, norm_weight: false, ..d })),
        "olmo2" => llama(|d, _| Ok(olmo2(d))),
        "olmo3" => llama(olmo3),
        "exaone4" => llama(|d, _| Ok(Decoder { qk_norm: QkNorm::PerHead, ..behind(d) })),
        "cohere" | "cohere2" => llama(cohere),
        "glm" => llama(glm),
        "glm4" => llama(|d, keys| Ok(Decoder { sandwich_norms: true, ..glm(d, keys)? })),
        "stablelm" => llama(stablelm),
        "starcoder2" => llama(starcoder2),
        "nemotron" => llama(|d, keys| {
            let rotary_dim = rotary(&d, keys.share(&["partial_rotary_factor", "rope_percent"], 0.5)?);
            let d = Decoder { rotary_dim, ..layer_normed(d) };
            let class_rules = ClassRules { norm: ClassNorm::OnePlusLayer, repeats_kv: true, ..ClassRules::USUAL };
            Ok(Decoder { act: Act::Relu2, gated: false, class_rules, ..d })
        }),
        "arcee" => llama(|d, _| Ok(Decoder { act: Act::Relu2, gated: false, ..d })),
        "granite" => llama(|d, _| Ok(d)),
        "helium" => llama(|d, _| {
            let class_rules = ClassRules { norm: ClassNorm::Wide, layer_tables: 2, ..ClassRules::USUAL };
            Ok(Decoder { class_rules, ..d })
        }),
        "ernie4_5" => llama(|d, keys| {
            let bias = keys.flag("use_bias", false)?;
            let class_rules = ClassRules { wide_rotation: true, layer_tables: 2, ..ClassRules::USUAL };
            Ok(Decoder { qkv_bias: bias, out_bias: bias, mlp_bias: bias, class_rules, ..d })
        }),
        "smollm3" => llama(|d, _| Ok(d)),
        "seed_oss" => llama(|d, keys| {
            let qkv_bias = keys.flag("attention_bias", true)?;
            let out_bias = keys.flag("attention_out_bias", false)?;
            let attention_dropout = keys.share(&["attention_dropout"], 0.1)?;
            let hidden_dropout = keys.share(&["residual_dropout"], 0.1)?;
            Ok(Decoder { qkv_bias, out_bias, attention_dropout, hidden_dropout, ..d })
        }),
        "hunyuan_v1_dense" => llama(|d, _| {
            let class_rules = ClassRules { norms_rotated: true, ..ClassRules::USUAL };
            Ok(Decoder { qk_norm: QkNorm::PerHead, class_rules, ..d })
        }),
        "apertus" => llama(|d, keys| {
            if keys.text(&["hidden_act"]).is_some_and(|act| act != "xielu") {
                return Err(Keys::fault("hidden_act", "another function than xielu has no checked rules"));
            }
            Ok(Decoder { act: Act::Xielu, gated: false, qk_norm: QkNorm::PerHead, ..d })
        }),
        // Mistral's class with a window where `layer_types` says so; Llama's and GPT-2's under other names.
        "ministral" => as_family(Family::Mistral, |d, _| Ok(d)),
        // Mistral's too; queries are scaled by their places, of which autograd keeps a number a token (transformers 5,
        // models/ministral3/modeling_ministral3.py, `get_llama_4_attn_scale`). No window but one that is named.
        "ministral3" => {
            as_family(Family::Mistral, |d, keys| Ok(Decoder { sliding_window: windows::width(keys, None)?, ..d }))
        }
        "code_llama" => llama(|d, _| Ok(d)),
        "gpt-sw3" => as_family(Family::Gpt2, |d, _| Ok(d)),
        "vaultgemma" => as_family(Family::Gemma2, |d, _| Ok(Decoder { sandwich_norms: false, ..d })),
        "persimmon" => as_family(Family::GptNeox, persimmon),
        "gptj" => llama(gptj),
        "codegen" => llama(|d, keys| Ok(Decoder { fused_qkv: true, ..gptj(d, keys)? })),
        "gpt_neo" => llama(gpt_neo),
        "gpt_bigcode" => as_family(Family::Gpt2, gpt_bigcode),
        "qwen2_vl" | "qwen2_vl_text" | "qwen2_5_vl" | "qwen2_5_vl_text" => as_family(Family::Qwen2, |d, _| {
            let class_rules = ClassRules { layer_tables: 2, sample_tables: true, ..ClassRules::USUAL };
            Ok(Decoder { class_rules, ..d })
        }),
        "qwen3_vl" | "qwen3_vl_text" => as_family(Family::Qwen3, |d, _| {
            let class_rules = ClassRules { sample_tables: true, ..ClassRules::USUAL };
            Ok(Decoder { class_rules, ..d })
        }),
        "mpt" => as_family(Family::Bloom, mpt),
        other => return mixtures::of(other),
    })
}

/// What other versions of transformers do with that `model_type` (models/gpt_bigcode/modeling_gpt_bigcode.py;
/// integrations/moe.py of 5.3).
pub fn remarks(model_type: &str) -> &'static [&'static str] {
    match model_type.to_ascii_lowercase().as_str() {
        "gpt_bigcode" => &[
            "training.loss: of logits in fp32; up to transformers 4.46 GPT-BigCode takes them as they are (`plain`)",
            "training.activation_checkpointing: transformers 4.54 to 4.57 run GPT-BigCode's blocks without it, whatever \
             is asked for",
        ],
        "glm4_moe_lite" | "minimax_m2" => &[
            "model.hf_config.model_type: experts one after the other, as DeepSeek V3's class of transformers 4 has them; \
             transformers 5, which this class came with, multiplies all at once",
        ],
        _ => &[],
    }
}

/// Norms behind both halves of a block, and over whole queries and keys.
pub(super) fn olmo2(d: Decoder) -> Decoder {
    let class_rules = ClassRules { norm: ClassNorm::Wide, ..ClassRules::USUAL };
    Decoder { qk_norm: QkNorm::Whole, class_rules, ..behind(d) }
}

/// As OLMo 2; three layers of four see a window (`configuration_olmo3.py`, `layer_types`, `sliding_window` 4096).
fn olmo3(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let sliding_window = windows::width(keys, Some(4096))?;
    Ok(Decoder { sliding_window, full_attention_every: 4, ..olmo2(d) })
}

/// Norms over what attention and feed-forward return, none before them.
fn behind(d: Decoder) -> Decoder {
    Decoder { sandwich_norms: true, input_norms: false, ..d }
}

fn layer_normed(d: Decoder) -> Decoder {
    Decoder { norm: Norm::Layernorm, norm_bias: true, ..d }
}

/// Norms without a bias, one for both halves of a block; those of queries and keys have a row a head.
fn cohere(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        norm: Norm::Layernorm,
        parallel_block: true,
        shared_norm: true,
        qk_norm: if keys.flag("use_qk_norm", false)? { QkNorm::Whole } else { QkNorm::No },
        sliding_window: windows::width(keys, None)?,
        full_attention_every: keys.count(&["sliding_window_pattern", "_sliding_window_pattern"], 1000)?.unwrap_or(4),
        class_rules: ClassRules { norm: ClassNorm::ComposedLayer, wide_rotation: true, ..ClassRules::USUAL },
        ..d
    })
}

fn glm(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let rotary_dim = rotary(&d, keys.share(&["partial_rotary_factor"], 0.5)?);
    let qkv_bias = keys.flag("attention_bias", true)?;
    let class_rules = ClassRules { layer_tables: 2, ..ClassRules::USUAL };
    Ok(Decoder { qkv_bias, out_bias: false, fused_gate_up: true, rotary_dim, class_rules, ..d })
}

fn stablelm(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let parallel = keys.flag("use_parallel_residual", false)?;
    if keys.flag("qk_layernorm", false)? {
        return Err(Keys::fault("qk_layernorm", "a norm for each head apart is not predicted"));
    }
    Ok(Decoder {
        qkv_bias: keys.flag("use_qkv_bias", false)?,
        rotary_dim: rotary(&d, keys.share(&["partial_rotary_factor"], 0.25)?),
        parallel_block: parallel,
        shared_norm: parallel,
        // StableLmSdpaAttention.
        class_rules: ClassRules { repeats_kv: true, ..ClassRules::USUAL },
        ..layer_normed(d)
    })
}

fn starcoder2(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let bias = keys.flag("use_bias", true)?;
    Ok(Decoder {
        gated: false,
        act: Act::Gelu,
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: bias,
        sliding_window: windows::width(keys, None)?,
        hidden_dropout: keys.share(&["residual_dropout"], 0.0)?,
        embedding_dropout: keys.share(&["embedding_dropout"], 0.0)?,
        ..layer_normed(d)
    })
}

fn persimmon(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        act: Act::Relu2,
        parallel_block: false,
        qk_norm: if keys.flag("qk_layernorm", true)? { QkNorm::PerHead } else { QkNorm::No },
        rotary_dim: rotary(&d, keys.share(&["partial_rotary_factor"], 0.5)?),
        ..d
    })
}

/// Attention and feed-forward behind one norm; biases in the feed-forward block and at the head alone.
fn gptj(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let rotated = keys.count(&["rotary_dim"], MAX_WIDTH)?.unwrap_or(64).min(d.head_dim);
    Ok(Decoder {
        gated: false,
        act: Act::GeluNew,
        intermediate: inner(&d, keys)?,
        parallel_block: true,
        shared_norm: true,
        mlp_bias: true,
        head_bias: true,
        rotary_dim: rotated,
        class_rules: ClassRules {
            wide_scores: true,
            layer_tables: 4,
            buffer: LayerBuffer::Sinusoids,
            ..ClassRules::USUAL
        },
        hidden_dropout: keys.share(&["resid_pdrop"], 0.0)?,
        ..layer_normed(d)
    })
}

/// Scores are written out; every second layer's of a window, which the others' masks are as large as.
fn gpt_neo(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        position: Position::Learned,
        gated: false,
        act: Act::GeluNew,
        intermediate: inner(&d, keys)?,
        out_bias: true,
        mlp_bias: true,
        attention_dropout: keys.share(&["attention_dropout"], 0.0)?,
        hidden_dropout: keys.share(&["resid_dropout"], 0.0)?,
        embedding_dropout: keys.share(&["embed_dropout"], 0.0)?,
        class_rules: ClassRules { wide_scores: true, buffer: LayerBuffer::Mask, ..ClassRules::USUAL },
        ..layer_normed(d)
    })
}

/// One head of keys and values for all queries, and one mask for all layers.
fn gpt_bigcode(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        kv_heads: if keys.flag("multi_query", true)? { 1 } else { d.heads },
        act: if keys.has("activation_function") { d.act } else { Act::Gelu },
        class_rules: ClassRules { buffer: LayerBuffer::SharedMask, wide_softmax: true, ..ClassRules::USUAL },
        ..d
    })
}

fn mpt(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        act: Act::Gelu,
        norm_bias: false,
        embedding_norm: false,
        qkv_bias: false,
        out_bias: false,
        mlp_bias: false,
        intermediate: d.hidden.saturating_mul(4),
        max_positions: keys.count(&["max_seq_len"], MAX_ROWS)?,
        hidden_dropout: keys.share(&["resid_pdrop"], 0.0)?,
        embedding_dropout: keys.share(&["emb_pdrop"], 0.0)?,
        ..d
    })
}

/// `n_inner`, or four times the stream where that is null.
fn inner(d: &Decoder, keys: Keys<'_>) -> Result<u64, Fault> {
    let given = keys.count(&["n_inner", "intermediate_size"], MAX_WIDTH)?;
    Ok(given.unwrap_or_else(|| d.hidden.saturating_mul(4)))
}
