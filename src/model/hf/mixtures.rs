//! Mixtures of experts beside the families: whose routing and experts they share, and what their classes have otherwise
//! (transformers 4.57.6, `models/*/modeling_*.py` and `configuration_*.py`).

use super::decoder::{moe, rotary};
use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use super::related::{RelatedModel, olmo2};
use crate::model::architecture::{Decoder, Family, Moe, QkNorm};
use crate::model::rules::ClassRules;
use crate::plan::Fault;

/// The mixture of experts of that `model_type`.
pub fn of(model_type: &str) -> Option<RelatedModel> {
    let mixtral = |fields| RelatedModel { family: Family::Mixtral, read_as: Family::Mixtral, fields };
    // Mixtral's loop, over experts with Llama's names.
    let looped = |fields| RelatedModel { family: Family::Qwen3Moe, read_as: Family::Mixtral, fields };
    let deepseek = |fields| RelatedModel { family: Family::DeepseekV3, read_as: Family::DeepseekV3, fields };
    Some(match model_type {
        "olmoe" => looped(|d, keys| {
            let moe = Some(moe(keys, d.intermediate, 64, 8)?);
            // OlmoeSdpaAttention.
            let class_rules = ClassRules { repeats_kv: true, ..ClassRules::USUAL };
            Ok(Decoder { qk_norm: QkNorm::Whole, sliding_window: None, moe, class_rules, ..d })
        }),
        "flex_olmo" => looped(|d, keys| {
            let moe = moe(keys, d.intermediate, 7, 5)?;
            Ok(Decoder { moe: Some(moe), ..olmo2(Decoder { sliding_window: None, ..d }) })
        }),
        "granitemoe" => mixtral(|d, _| Ok(granite(d))),
        "granitemoeshared" => mixtral(|d, keys| {
            let shared_intermediate = keys.whole("shared_intermediate_size", MAX_WIDTH)?.unwrap_or(0);
            let moe = d.moe.clone().map(|moe| Moe { shared_intermediate, ..moe });
            // GraniteMoeSharedMLP has one matrix for gate and up.
            Ok(Decoder { fused_gate_up: true, moe, ..granite(d) })
        }),
        "hunyuan_v1_moe" => looped(hunyuan_moe),
        "ernie4_5_moe" => looped(ernie_moe),
        "llama4_text" => looped(llama4),
        "glm4_moe" => deepseek(|d, keys| {
            let d = attending(d, keys, 8)?;
            let qk_norm = if keys.flag("use_qk_norm", false)? { QkNorm::PerHead } else { QkNorm::No };
            let rotary_dim = rotary(&d, keys.share(&["partial_rotary_factor"], 0.5)?);
            let moe = scored(&d, keys, (1408, 128, 8), (1, 1))?;
            Ok(Decoder { out_bias: false, qk_norm, rotary_dim, moe: Some(moe), ..d })
        }),
        // DeepSeek V3's classes under other names.
        "kimi_k2" => deepseek(|d, _| Ok(d)),
        "glm4_moe_lite" => deepseek(|d, keys| {
            let Some(kinds) = keys.texts("mlp_layer_types") else { return Ok(d) };
            let dense_layers = (0..).zip(kinds).filter(|(_, kind)| *kind == "dense").map(|(layer, _)| layer).collect();
            let moe = d.moe.clone().map(|moe| Moe { first_dense: 0, dense_layers, ..moe });
            Ok(Decoder { moe, ..d })
        }),
        "minimax_m2" => deepseek(|d, keys| {
            let d = attending(d, keys, 8)?;
            let rotary_dim = keys.count(&["rotary_dim"], MAX_WIDTH)?.unwrap_or(64).min(d.head_dim);
            let moe = moe(keys, d.intermediate, 256, 8)?;
            Ok(Decoder { qk_norm: QkNorm::Whole, rotary_dim, moe: Some(moe), mtp_layers: 0, ..d })
        }),
        "dots1" => deepseek(|d, keys| {
            let d = attending(d, keys, 32)?;
            if d.windowed_layers.as_ref().is_some_and(|layers| layers.contains(&true)) {
                return Err(Keys::fault("layer_types", "layers of dots1 that see a window have no checked rules"));
            }
            for key in ["n_routed_experts", "n_shared_experts", "num_experts_per_tok"] {
                keys.count(&[key], MAX_COUNT)?.ok_or_else(|| Keys::fault(key, "is absent"))?;
            }
            let moe = scored(&d, keys, (1408, 1, 1), (1, 0))?;
            Ok(Decoder { qk_norm: QkNorm::PerHead, moe: Some(moe), ..d })
        }),
        _ => return None,
    })
}

/// Experts whose gate and up projection are one matrix.
fn granite(d: Decoder) -> Decoder {
    let class_rules = ClassRules { joined_experts: true, ..ClassRules::USUAL };
    Decoder { sliding_window: None, class_rules, ..d }
}

/// Attention with keys and values of their own in place of DeepSeek's latent ones.
fn attending(d: Decoder, keys: Keys<'_>, kv_heads: u64) -> Result<Decoder, Fault> {
    let kv_heads = keys.count(&["num_key_value_heads"], MAX_COUNT)?.unwrap_or(kv_heads);
    if !d.heads.is_multiple_of(kv_heads) {
        return Err(Keys::fault("num_key_value_heads", format!("{kv_heads} do not divide {} heads", d.heads)));
    }
    let head_dim = keys.count(&["head_dim"], MAX_WIDTH)?.unwrap_or(d.hidden / d.heads);
    Ok(Decoder { mla: None, kv_heads, head_dim, rotary_dim: head_dim, ..d })
}

/// DeepSeek V3's experts: width, number and how many a token goes to; shared ones, and leading dense layers.
fn scored(
    d: &Decoder,
    keys: Keys<'_>,
    (width, experts, per_token): (u64, u64, u64),
    (shared, first_dense): (u64, u64),
) -> Result<Moe, Fault> {
    let routed = moe(keys, width.min(d.intermediate), experts, per_token)?;
    let shared = keys.whole("n_shared_experts", MAX_COUNT)?.unwrap_or(shared);
    let shared_intermediate = shared.saturating_mul(routed.intermediate);
    let first_dense = keys.whole("first_k_dense_replace", 10_000)?.unwrap_or(first_dense);
    Ok(Moe { shared_intermediate, first_dense, ..routed })
}

/// A number, or one for each layer where all are the same.
fn alike(keys: Keys<'_>, key: &str) -> Result<Option<u64>, Fault> {
    if !keys.is_list(key) {
        return keys.count(&[key], MAX_COUNT);
    }
    match keys.counts(key, MAX_COUNT)?.as_deref() {
        Some([first, others @ ..]) if *first > 0 && others.iter().all(|other| other == first) => Ok(Some(*first)),
        _ => Err(Keys::fault(key, "layers that differ in it have no checked rules")),
    }
}

/// Queries and keys are normed behind their rotation; an expert that all tokens go to is as wide as the others.
fn hunyuan_moe(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let experts = alike(keys, "num_experts")?.unwrap_or(1);
    let per_token = alike(keys, "moe_topk")?.unwrap_or(1);
    let width = d.intermediate;
    let moe =
        d.moe.clone().map(|moe| Moe { experts, per_token, intermediate: width, shared_intermediate: width, ..moe });
    let class_rules = ClassRules { norms_rotated: true, ..ClassRules::USUAL };
    Ok(Decoder { sliding_window: None, qk_norm: QkNorm::PerHead, moe, class_rules, ..d })
}

/// Experts in every k-th layer, of another width than the dense blocks, with one that all tokens go to. Layers without a
/// rotation see every position, the others a chunk (`configuration_llama4.py`).
fn llama4(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let width = keys.count(&["intermediate_size"], MAX_WIDTH)?.unwrap_or(8192);
    let intermediate = keys.count(&["intermediate_size_mlp"], MAX_WIDTH)?.unwrap_or(16_384);
    let experts = keys.count(&["num_local_experts"], MAX_COUNT)?.unwrap_or(16);
    let per_token = keys.count(&["num_experts_per_tok"], MAX_COUNT)?.unwrap_or(1);
    let step = keys.count(&["interleave_moe_layer_step"], MAX_COUNT)?.unwrap_or(1);
    let every = keys.count(&["no_rope_layer_interval"], MAX_COUNT)?.unwrap_or(4);
    // A list of 1 and 0 with a rotation or without; an empty one and none mean each fourth layer without.
    let listed = keys.counts("no_rope_layers", 1)?.filter(|layers| !layers.is_empty());
    let rotated = listed.map(|layers| layers.iter().map(|rotated| *rotated == 1).collect());
    let rotated = rotated.unwrap_or_else(|| (0..d.layers).map(|layer| !(layer + 1).is_multiple_of(every)).collect());
    let dense_layers = match keys.counts("moe_layers", 10_000)? {
        Some(with) => (0..d.layers).filter(|layer| !with.contains(layer)).collect(),
        None => Vec::new(),
    };
    let moe = d.moe.clone().map(|moe| Moe {
        experts,
        per_token,
        intermediate: width,
        shared_intermediate: width,
        frequency: if keys.has("moe_layers") { 1 } else { step },
        offset: 1,
        dense_layers,
        ..moe
    });
    let chunk =
        if keys.is_null("attention_chunk_size") { None } else { keys.count(&["attention_chunk_size"], MAX_ROWS)? };
    Ok(Decoder {
        intermediate,
        moe,
        sliding_window: chunk.or(Some(8192)),
        windowed_layers: d.windowed_layers.clone().or(Some(rotated)),
        qk_norm: if keys.flag("use_qk_norm", true)? { QkNorm::Bare } else { QkNorm::No },
        class_rules: ClassRules {
            norms_rotated: true,
            complex_rotation: true,
            bare_full_layers: true,
            experts_read_all: true,
            ..ClassRules::USUAL
        },
        ..d
    })
}

/// ERNIE 4.5's dense layers with experts in some of them, whose scores have a bias that no gradient trains.
fn ernie_moe(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    let experts = keys.count(&["moe_num_experts"], MAX_COUNT)?.unwrap_or(64);
    let per_token = keys.count(&["moe_k"], MAX_COUNT)?.unwrap_or(6);
    let intermediate = keys.count(&["moe_intermediate_size"], MAX_WIDTH)?.unwrap_or(1536);
    let shared = keys.whole("moe_num_shared_experts", MAX_COUNT)?.unwrap_or(2);
    let first_dense = keys.whole("moe_layer_start_index", 10_000)?.unwrap_or(1);
    let frequency = keys.count(&["moe_layer_interval"], MAX_COUNT)?.unwrap_or(1);
    // -1: up to the last layer.
    let last = if keys.is_negative("moe_layer_end_index") { None } else { keys.whole("moe_layer_end_index", 10_000)? };
    let dense_layers = last.map_or_else(Vec::new, |last| (last.saturating_add(1)..d.layers).collect());
    let bias = keys.flag("use_bias", false)?;
    let moe = d.moe.clone().map(|moe| Moe {
        experts,
        per_token,
        intermediate,
        shared_intermediate: shared.saturating_mul(intermediate),
        first_dense,
        frequency,
        offset: 1,
        dense_layers,
        score_bias: true,
        ..moe
    });
    let class_rules = ClassRules { wide_rotation: true, layer_tables: 2, ..ClassRules::USUAL };
    Ok(Decoder { sliding_window: None, qkv_bias: bias, out_bias: bias, mlp_bias: bias, moe, class_rules, ..d })
}
