//! Decoder-only configurations, family by family.

use super::HELP;
use super::defaults;
use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use super::windows;
use crate::model::architecture::{Act, Decoder, Family, Mla, Moe, QkNorm, Sizes};
use crate::model::rules::ClassRules;
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

/// The decoder that `keys` describe, as `family` reads them.
pub fn read(keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    if keys.flag("add_cross_attention", false)? {
        return Err(Keys::fault(
            "add_cross_attention",
            format!("a decoder of another model has no checked rules; {HELP}"),
        ));
    }
    let model_type = keys.text(&["model_type"]);
    let base = defaults::of(model_type, family);
    let hidden = keys.count(&["hidden_size", "n_embd", "d_model", "dim"], MAX_WIDTH)?.unwrap_or(base.hidden);
    let layers =
        keys.count(&["num_hidden_layers", "n_layer", "num_layers", "n_layers"], 10_000)?.unwrap_or(base.layers);
    let heads =
        keys.count(&["num_attention_heads", "n_head", "num_heads", "n_heads"], MAX_COUNT)?.unwrap_or(base.heads);
    let or = |default: u64, otherwise: u64| if default == 0 { otherwise } else { default };
    // A null means as many as query heads, whatever the class's default.
    let own = base.kv_heads == 0 || heads < base.kv_heads || keys.is_null("num_key_value_heads");
    let kv_heads = keys.count(&["num_key_value_heads", "num_kv_heads"], MAX_COUNT)?.unwrap_or(if own {
        heads
    } else {
        base.kv_heads
    });
    let head_dim = match keys.count(&["head_dim"], MAX_WIDTH)? {
        Some(head_dim) => head_dim,
        None if base.head_dim > 0 && !keys.is_null("head_dim") => base.head_dim,
        // Latent attention has sizes of its own.
        None if hidden % heads == 0 || matches!(family, Family::DeepseekV2 | Family::DeepseekV3) => hidden / heads,
        None => {
            return Err(Keys::fault(
                "num_attention_heads",
                format!("{heads} heads do not divide hidden_size {hidden}"),
            ));
        }
    };
    if heads % kv_heads != 0 {
        return Err(Keys::fault(
            "num_key_value_heads",
            format!("{kv_heads} do not divide num_attention_heads {heads}"),
        ));
    }
    let inner = ["intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "hidden_dim"];
    let intermediate = keys.count(&inner, MAX_WIDTH)?.unwrap_or_else(|| or(base.intermediate, 4 * hidden));
    let positions = keys.count(&["max_position_embeddings", "n_positions", "seq_length"], MAX_ROWS)?;
    let vocab = keys.count(&["vocab_size"], MAX_ROWS)?.unwrap_or(base.vocab);
    let attention_bias = keys.flag("attention_bias", false)? && defaults::reads_attention_bias(model_type);
    let decoder = Decoder {
        windowed_layers: windows::listed(keys, layers)?,
        max_positions: Some(positions.unwrap_or(base.positions)),
        tie_embeddings: keys.flag("tie_word_embeddings", base.tie)?,
        act: act(keys),
        qkv_bias: attention_bias,
        out_bias: attention_bias,
        mlp_bias: keys.flag("mlp_bias", false)? && defaults::reads_mlp_bias(model_type),
        attention_dropout: keys.share(&["attention_dropout", "attn_pdrop"], 0.0)?,
        hidden_dropout: keys.share(&["hidden_dropout", "resid_pdrop", "dropout"], 0.0)?,
        embedding_dropout: keys.share(&["embd_pdrop"], 0.0)?,
        ..Decoder::of_sizes(Sizes { hidden, layers, heads, kv_heads, head_dim, intermediate, vocab })
    };
    with_family(decoder, keys, family)
}

fn act(keys: Keys<'_>) -> Act {
    match keys.text(&["hidden_activation", "hidden_act", "activation_function", "activation"]) {
        Some("gelu_new" | "gelu_python_tanh") => Act::GeluNew,
        Some("gelu_fast") => Act::GeluFast,
        Some("gelu" | "gelu_pytorch_tanh" | "gelu_python") => Act::Gelu,
        Some("quick_gelu") => Act::QuickGelu,
        Some("relu") => Act::Relu,
        Some("relu2" | "relu_squared") => Act::Relu2,
        _ => Act::Silu,
    }
}

/// What is particular to a family.
fn with_family(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    let acting = keys.has("hidden_act") || keys.has("activation_function") || keys.has("activation");
    Ok(match family {
        Family::Gpt2 | Family::Nanogpt => gpt2(layernorm(d), keys, acting)?,
        Family::T5 | Family::Whisper | Family::Bart | Family::Mbart => super::encoder_decoder::block(d, keys, family)?,
        Family::Resnet | Family::Layers | Family::Unet | Family::Dit | Family::Traced => layernorm(d),
        family if family.is_encoder() => super::encoder::stack(layernorm(d), keys, family, acting)?,
        Family::Opt => opt(layernorm(d), keys, acting)?,
        Family::GptNeox => gpt_neox(layernorm(d), keys, acting)?,
        Family::Bloom => Decoder {
            position: Position::Alibi,
            act: Act::GeluBloom,
            fused_qkv: true,
            embedding_norm: true,
            ..layernorm(d)
        },
        Family::Falcon => falcon(layernorm(d), keys, acting)?,
        Family::Llama | Family::Phi3 => Decoder {
            rotary_dim: rotary(&d, keys.share(&["partial_rotary_factor"], 1.0)?),
            fused_qkv: family == Family::Phi3,
            fused_gate_up: family == Family::Phi3,
            hidden_dropout: keys.share(&["resid_pdrop"], 0.0)?,
            sliding_window: if family == Family::Phi3 { windows::width(keys, None)? } else { None },
            ..d
        },
        Family::Mistral | Family::Mixtral => {
            // MistralConfig has a window of 4096 where the key is absent, MixtralConfig none.
            let sliding_window = windows::width(keys, (family == Family::Mistral).then_some(4096))?;
            let moe = if family == Family::Mixtral { Some(moe(keys, d.intermediate, 8, 2)?) } else { None };
            Decoder { sliding_window, moe, ..d }
        }
        Family::Qwen2 | Family::Qwen2Moe | Family::Qwen3 | Family::Qwen3Moe => qwen(d, keys, family)?,
        Family::Qwen3Next | Family::Qwen35 | Family::Qwen35Moe => super::delta::read(d, keys, family)?,
        Family::Gemma | Family::Gemma2 | Family::Gemma3Text => gemma(d, keys, family)?,
        Family::Phi => phi(layernorm(d), keys, acting)?,
        Family::DeepseekV2 | Family::DeepseekV3 => deepseek(d, keys, family)?,
        Family::Lfm2 => super::lfm2::read(d, keys)?,
        Family::Mamba
        | Family::Mamba2
        | Family::Bamba
        | Family::GraniteHybrid
        | Family::FalconH1
        | Family::NemotronH
        | Family::Jamba => super::state_space::read(d, keys, family)?,
        Family::GptOss => gpt_oss(d, keys)?,
        _ => return Err(Keys::fault("model_type", format!("{family:?} has no checked rules"))),
    })
}

/// Layer norms, one feed-forward matrix up and one down, and biases everywhere.
fn layernorm(d: Decoder) -> Decoder {
    Decoder {
        norm: Norm::Layernorm,
        norm_bias: true,
        gated: false,
        qkv_bias: true,
        out_bias: true,
        mlp_bias: true,
        ..d
    }
}

fn gpt2(d: Decoder, keys: Keys<'_>, acting: bool) -> Result<Decoder, Fault> {
    Ok(Decoder {
        position: Position::Learned,
        act: if acting { d.act } else { Act::GeluNew },
        fused_qkv: true,
        attention_dropout: keys.share(&["attn_pdrop"], 0.1)?,
        hidden_dropout: keys.share(&["resid_pdrop"], 0.1)?,
        embedding_dropout: keys.share(&["embd_pdrop"], 0.1)?,
        class_rules: ClassRules { upcast_scores: keys.flag("reorder_and_upcast_attn", false)?, ..ClassRules::USUAL },
        ..d
    })
}

fn gpt_neox(d: Decoder, keys: Keys<'_>, acting: bool) -> Result<Decoder, Fault> {
    Ok(Decoder {
        act: if acting { d.act } else { Act::Gelu },
        rotary_dim: rotary(&d, keys.share(&["rotary_pct", "partial_rotary_factor"], 0.25)?),
        fused_qkv: true,
        parallel_block: keys.flag("use_parallel_residual", true)?,
        qkv_bias: keys.flag("attention_bias", true)?,
        out_bias: keys.flag("attention_bias", true)?,
        embedding_dropout: d.hidden_dropout,
        ..d
    })
}

fn phi(d: Decoder, keys: Keys<'_>, acting: bool) -> Result<Decoder, Fault> {
    Ok(Decoder {
        act: if acting { d.act } else { Act::GeluNew },
        rotary_dim: rotary(&d, keys.share(&["partial_rotary_factor"], 0.5)?),
        parallel_block: true,
        shared_norm: true,
        qk_norm: if keys.flag("qk_layernorm", false)? { QkNorm::PerHead } else { QkNorm::No },
        head_bias: true,
        ..d
    })
}

fn gpt_oss(d: Decoder, keys: Keys<'_>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        act: Act::ClampedSwiglu,
        qkv_bias: keys.flag("attention_bias", true)?,
        out_bias: keys.flag("attention_bias", true)?,
        attention_sinks: true,
        sliding_window: windows::width(keys, Some(128))?,
        full_attention_every: 2,
        moe: Some(Moe { router_bias: true, expert_bias: true, ..moe(keys, d.intermediate, 128, 4)? }),
        ..d
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn rotary(d: &Decoder, share: f64) -> u64 {
    (d.head_dim as f64 * share) as u64
}

fn opt(d: Decoder, keys: Keys<'_>, acting: bool) -> Result<Decoder, Fault> {
    let before = keys.flag("do_layer_norm_before", true)?;
    let bias = keys.flag("enable_bias", true)?;
    Ok(Decoder {
        position: Position::Learned,
        extra_positions: 2,
        act: if acting { d.act } else { Act::Relu },
        final_norm: before && !keys.flag("_remove_final_layer_norm", false)?,
        embedding_dim: keys.count(&["word_embed_proj_dim"], MAX_WIDTH)?.unwrap_or(d.hidden),
        hidden_dropout: keys.share(&["dropout"], 0.1)?,
        embedding_dropout: 0.0,
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: bias,
        ..d
    })
}

fn falcon(d: Decoder, keys: Keys<'_>, acting: bool) -> Result<Decoder, Fault> {
    let bias = keys.flag("bias", false)?;
    let new = keys.flag("new_decoder_architecture", false)?;
    let multi_query = keys.flag("multi_query", true)?;
    let given = keys.count(&["num_kv_heads", "num_key_value_heads", "n_head_kv"], MAX_COUNT)?;
    let kv_heads = if new {
        given.unwrap_or(d.heads)
    } else if multi_query {
        1
    } else {
        d.heads
    };
    let parallel = new || keys.flag("parallel_attn", true)?;
    let norms = keys.count(&["num_ln_in_parallel_attn"], 2)?.unwrap_or(if new { 2 } else { 1 });
    let alibi = keys.flag("alibi", false)?;
    Ok(Decoder {
        kv_heads,
        position: if alibi { Position::Alibi } else { Position::Rope },
        act: if acting { d.act } else { Act::Gelu },
        fused_qkv: true,
        broadcast_kv: new,
        parallel_block: parallel,
        shared_norm: parallel && norms == 1,
        qkv_bias: bias,
        out_bias: bias,
        mlp_bias: bias,
        ..d
    })
}

pub fn moe(keys: Keys<'_>, intermediate: u64, experts: u64, per_token: u64) -> Result<Moe, Fault> {
    let experts = keys.count(&["num_local_experts", "num_experts", "n_routed_experts"], MAX_COUNT)?.unwrap_or(experts);
    let per_token = keys.count(&["num_experts_per_tok"], MAX_COUNT)?.unwrap_or(per_token);
    if per_token > experts {
        return Err(Keys::fault("num_experts_per_tok", format!("{per_token} is more than the {experts} experts")));
    }
    Ok(Moe {
        experts,
        per_token,
        intermediate: keys.count(&["moe_intermediate_size"], MAX_WIDTH)?.unwrap_or(intermediate),
        latent: None,
        shared_intermediate: 0,
        shared_gate: false,
        first_dense: 0,
        frequency: 1,
        offset: 0,
        dense_layers: Vec::new(),
        router_bias: false,
        expert_bias: false,
        score_bias: false,
    })
}

fn qwen(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    let second = matches!(family, Family::Qwen2 | Family::Qwen2Moe);
    let windowed = keys.flag("use_sliding_window", false)?;
    let experts = match family {
        Family::Qwen2Moe => {
            let shared = keys.count(&["shared_expert_intermediate_size"], MAX_WIDTH)?.unwrap_or(5632);
            Some(Moe { shared_intermediate: shared, shared_gate: true, ..moe(keys, 1408, 60, 4)? })
        }
        Family::Qwen3Moe => Some(moe(keys, 768, 128, 8)?),
        _ => None,
    };
    let step = keys.count(&["decoder_sparse_step"], MAX_COUNT)?.unwrap_or(1);
    let dense_layers = keys.counts("mlp_only_layers", 10_000)?.unwrap_or_default();
    // The layers up to `max_window_layers` attend to everything (models/qwen2/configuration_qwen2.py).
    let first_windowed = keys.whole("max_window_layers", 10_000)?.unwrap_or(28);
    let by_place = (0..d.layers).map(|layer| family == Family::Qwen3Moe || layer >= first_windowed).collect();
    Ok(Decoder {
        qkv_bias: match family {
            // Qwen2Attention has them whatever the file says.
            Family::Qwen2 => true,
            Family::Qwen2Moe => keys.flag("qkv_bias", true)?,
            _ => d.qkv_bias,
        },
        out_bias: if second { false } else { d.out_bias },
        qk_norm: if second { QkNorm::No } else { QkNorm::PerHead },
        sliding_window: if windowed { windows::width(keys, Some(4096))? } else { None },
        windowed_layers: d.windowed_layers.or(Some(by_place)),
        moe: experts.map(|moe| Moe { frequency: step, offset: 1, dense_layers, ..moe }),
        ..d
    })
}

fn gemma(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    let first = family == Family::Gemma;
    let second = family == Family::Gemma2;
    let pattern = keys.count(&["sliding_window_pattern", "_sliding_window_pattern"], MAX_COUNT)?;
    Ok(Decoder {
        // GemmaMLP takes hidden_activation, and the tanh kernel where that is absent (models/gemma).
        act: Act::Gelu,
        sandwich_norms: !first,
        qk_norm: if family == Family::Gemma3Text { QkNorm::PerHead } else { QkNorm::No },
        sliding_window: if first { None } else { windows::width(keys, Some(4096))? },
        full_attention_every: if first { 0 } else { pattern.unwrap_or(if second { 2 } else { 6 }) },
        logit_softcap: keys.has("final_logit_softcapping") || (second && !keys.is_null("final_logit_softcapping")),
        attention_softcap: keys.has("attn_logit_softcapping") || (second && !keys.is_null("attn_logit_softcapping")),
        ..d
    })
}

fn deepseek(d: Decoder, keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    let second = family == Family::DeepseekV2;
    let nope = keys.count(&["qk_nope_head_dim"], MAX_WIDTH)?.unwrap_or(128);
    let rope = keys.count(&["qk_rope_head_dim"], MAX_WIDTH)?.unwrap_or(64);
    // Written as null where queries are not compressed, and left out by hand where the other rank is given. Files that
    // transformers writes have both.
    let uncompressed = keys.is_null("q_lora_rank") || (keys.has("kv_lora_rank") && !keys.has("q_lora_rank"));
    let q_lora_rank = if uncompressed { 0 } else { keys.whole("q_lora_rank", MAX_WIDTH)?.unwrap_or(1536) };
    let mla = Mla {
        q_lora_rank,
        kv_lora_rank: keys.count(&["kv_lora_rank"], MAX_WIDTH)?.unwrap_or(512),
        qk_nope_head_dim: nope,
        qk_rope_head_dim: rope,
        v_head_dim: keys.count(&["v_head_dim"], MAX_WIDTH)?.unwrap_or(128),
    };
    let routed = if second { moe(keys, 1407, 64, 6)? } else { moe(keys, 2048, 256, 8)? };
    let own = if keys.is_null("n_shared_experts") { 0 } else { 1 + u64::from(second) };
    let shared = keys.whole("n_shared_experts", MAX_COUNT)?.unwrap_or(own);
    let shared_intermediate = shared.saturating_mul(routed.intermediate);
    let first_dense = keys.whole("first_k_dense_replace", 10_000)?.unwrap_or(if second { 0 } else { 3 });
    let frequency = keys.count(&["moe_layer_freq"], MAX_COUNT)?.unwrap_or(1);
    Ok(Decoder {
        kv_heads: d.heads,
        head_dim: nope + rope,
        rotary_dim: rope,
        mla: Some(mla),
        moe: Some(Moe { shared_intermediate, first_dense, frequency, ..routed }),
        mtp_layers: keys.whole("num_nextn_predict_layers", 100)?.unwrap_or(0),
        ..d
    })
}
