//! Decoder-only configurations, family by family.

use super::keys::{Keys, MAX_COUNT, MAX_ROWS, MAX_WIDTH};
use super::windows;
use crate::model::architecture::{Act, Decoder, Family, Mla, Moe, QkNorm, Sizes};
use crate::model::rules::ClassRules;
use crate::plan::Fault;
use crate::plan::keywords::{Norm, Position};

/// What a configuration class has where the file is silent.
struct Defaults {
    hidden: u64,
    layers: u64,
    heads: u64,
    /// 0: as many as query heads.
    kv_heads: u64,
    /// 0: hidden / heads.
    head_dim: u64,
    /// 0: 4 x hidden.
    intermediate: u64,
    vocab: u64,
    positions: u64,
    tie: bool,
}

macro_rules! defaults {
    ($hidden:literal, $layers:literal, $heads:literal, $kv:literal, $dim:literal, $ffn:literal, $vocab:literal, $positions:literal, $tie:literal) => {
        Defaults {
            hidden: $hidden,
            layers: $layers,
            heads: $heads,
            kv_heads: $kv,
            head_dim: $dim,
            intermediate: $ffn,
            vocab: $vocab,
            positions: $positions,
            tie: $tie,
        }
    };
}

const fn defaults(family: Family) -> Defaults {
    match family {
        Family::Bert | Family::Roberta => defaults!(768, 12, 12, 0, 0, 3072, 30_522, 512, true),
        Family::Distilbert => defaults!(768, 6, 12, 0, 0, 3072, 30_522, 512, true),
        Family::Electra => defaults!(256, 12, 4, 0, 0, 1024, 30_522, 512, true),
        Family::Albert => defaults!(4096, 12, 64, 0, 0, 16_384, 30_000, 512, true),
        Family::Deberta => defaults!(1536, 24, 24, 0, 0, 6144, 128_100, 512, true),
        Family::T5 => defaults!(512, 6, 8, 0, 64, 2048, 32_128, 512, true),
        Family::Whisper => defaults!(384, 4, 6, 0, 64, 1536, 51_865, 448, true),
        Family::Vit | Family::Resnet | Family::Layers | Family::Unet | Family::Dit | Family::Traced => {
            defaults!(768, 12, 12, 0, 0, 3072, 1, 1, false)
        }
        Family::Gpt2 | Family::Nanogpt => defaults!(768, 12, 12, 0, 0, 0, 50_257, 1024, true),
        Family::Opt => defaults!(768, 12, 12, 0, 0, 3072, 50_272, 2048, true),
        Family::GptNeox => defaults!(6144, 44, 64, 0, 0, 24_576, 50_432, 2048, false),
        Family::Bloom => defaults!(64, 2, 8, 0, 0, 0, 250_880, 2048, true),
        Family::Falcon => defaults!(4544, 32, 71, 0, 0, 0, 65_024, 2048, true),
        Family::Llama => defaults!(4096, 32, 32, 0, 0, 11_008, 32_000, 2048, false),
        Family::Mistral | Family::Mixtral => defaults!(4096, 32, 32, 8, 0, 14_336, 32_000, 131_072, false),
        Family::Qwen2 => defaults!(4096, 32, 32, 32, 0, 22_016, 151_936, 32_768, false),
        Family::Qwen3 => defaults!(4096, 32, 32, 32, 128, 22_016, 151_936, 32_768, false),
        Family::Qwen2Moe => defaults!(2048, 24, 16, 16, 0, 5632, 151_936, 32_768, false),
        Family::Qwen3Moe => defaults!(2048, 24, 32, 4, 0, 6144, 151_936, 32_768, false),
        Family::Qwen3Next => defaults!(2048, 48, 16, 2, 256, 5632, 151_936, 32_768, false),
        Family::Qwen35 => defaults!(4096, 32, 16, 4, 256, 12_288, 248_320, 32_768, false),
        Family::Qwen35Moe => defaults!(2048, 40, 16, 2, 256, 1, 248_320, 32_768, false),
        Family::Gemma => defaults!(3072, 28, 16, 16, 256, 24_576, 256_000, 8192, true),
        Family::Gemma2 => defaults!(2304, 26, 8, 4, 256, 9216, 256_000, 8192, true),
        Family::Gemma3Text => defaults!(2304, 26, 8, 4, 256, 9216, 262_208, 131_072, true),
        Family::Phi => defaults!(2048, 24, 32, 0, 0, 8192, 51_200, 2048, false),
        Family::Phi3 => defaults!(3072, 32, 32, 0, 0, 8192, 32_064, 4096, false),
        Family::DeepseekV2 => defaults!(4096, 32, 32, 0, 0, 11_008, 32_000, 2048, false),
        Family::DeepseekV3 => defaults!(7168, 61, 128, 128, 0, 18_432, 129_280, 4096, false),
        Family::GptOss => defaults!(2880, 36, 64, 8, 64, 2880, 201_088, 131_072, false),
    }
}

/// The decoder that `keys` describe, as `family` reads them.
pub fn read(keys: Keys<'_>, family: Family) -> Result<Decoder, Fault> {
    let base = defaults(family);
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
        None if hidden % heads == 0 => hidden / heads,
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
    let decoder = Decoder {
        windowed_layers: windows::listed(keys, layers)?,
        max_positions: Some(positions.unwrap_or(base.positions)),
        tie_embeddings: keys.flag("tie_word_embeddings", base.tie)?,
        act: act(keys),
        qkv_bias: keys.flag("attention_bias", false)?,
        out_bias: keys.flag("attention_bias", false)?,
        mlp_bias: keys.flag("mlp_bias", false)?,
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
    let window = keys.count(&["sliding_window"], MAX_ROWS)?;
    let acting = keys.has("hidden_act") || keys.has("activation_function") || keys.has("activation");
    Ok(match family {
        Family::Gpt2 | Family::Nanogpt => gpt2(layernorm(d), keys, acting)?,
        Family::T5 | Family::Whisper => super::encoder_decoder::block(d, keys, family)?,
        Family::Resnet | Family::Layers | Family::Unet | Family::Dit | Family::Traced => layernorm(d),
        Family::Bert
        | Family::Roberta
        | Family::Distilbert
        | Family::Electra
        | Family::Albert
        | Family::Deberta
        | Family::Vit => super::encoder::stack(layernorm(d), keys, family, acting)?,
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
            sliding_window: if family == Family::Phi3 { window } else { None },
            ..d
        },
        Family::Mistral | Family::Mixtral => {
            // MistralConfig has a window of 4096 where the key is absent, MixtralConfig none.
            let absent = family == Family::Mistral && !keys.is_null("sliding_window");
            let default = window.or(absent.then_some(4096));
            let moe = if family == Family::Mixtral { Some(moe(keys, d.intermediate, 8, 2)?) } else { None };
            Decoder { sliding_window: default, moe, ..d }
        }
        Family::Qwen2 | Family::Qwen2Moe | Family::Qwen3 | Family::Qwen3Moe => qwen(d, keys, family)?,
        Family::Qwen3Next | Family::Qwen35 | Family::Qwen35Moe => super::delta::read(d, keys, family)?,
        Family::Gemma | Family::Gemma2 | Family::Gemma3Text => gemma(d, keys, family, window)?,
        Family::Phi => phi(layernorm(d), keys, acting)?,
        Family::DeepseekV2 | Family::DeepseekV3 => deepseek(d, keys, family)?,
        Family::GptOss => gpt_oss(d, keys, window)?,
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

fn gpt_oss(d: Decoder, keys: Keys<'_>, window: Option<u64>) -> Result<Decoder, Fault> {
    Ok(Decoder {
        act: Act::ClampedSwiglu,
        qkv_bias: keys.flag("attention_bias", true)?,
        out_bias: keys.flag("attention_bias", true)?,
        attention_sinks: true,
        sliding_window: if keys.is_null("sliding_window") { None } else { Some(window.unwrap_or(128)) },
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
        shared_intermediate: 0,
        shared_gate: false,
        first_dense: 0,
        frequency: 1,
        offset: 0,
        dense_layers: Vec::new(),
        router_bias: false,
        expert_bias: false,
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
        qkv_bias: if second { keys.flag("qkv_bias", true)? } else { d.qkv_bias },
        out_bias: if second { false } else { d.out_bias },
        qk_norm: if second { QkNorm::No } else { QkNorm::PerHead },
        sliding_window: if windowed { keys.count(&["sliding_window"], MAX_ROWS)?.or(Some(4096)) } else { None },
        windowed_layers: d.windowed_layers.or(Some(by_place)),
        moe: experts.map(|moe| Moe { frequency: step, offset: 1, dense_layers, ..moe }),
        ..d
    })
}

fn gemma(d: Decoder, keys: Keys<'_>, family: Family, window: Option<u64>) -> Result<Decoder, Fault> {
    let first = family == Family::Gemma;
    let second = family == Family::Gemma2;
    let pattern = keys.count(&["sliding_window_pattern", "_sliding_window_pattern"], MAX_COUNT)?;
    Ok(Decoder {
        // GemmaMLP takes hidden_activation, and the tanh kernel where that is absent (models/gemma).
        act: Act::Gelu,
        sandwich_norms: !first,
        qk_norm: if family == Family::Gemma3Text { QkNorm::PerHead } else { QkNorm::No },
        sliding_window: if first || keys.is_null("sliding_window") { None } else { Some(window.unwrap_or(4096)) },
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
    let q_lora_rank = if keys.has("kv_lora_rank") && !keys.has("q_lora_rank") {
        // Written as null where queries are not compressed.
        0
    } else {
        keys.whole("q_lora_rank", MAX_WIDTH)?.unwrap_or(1536)
    };
    let mla = Mla {
        q_lora_rank,
        kv_lora_rank: keys.count(&["kv_lora_rank"], MAX_WIDTH)?.unwrap_or(512),
        qk_nope_head_dim: nope,
        qk_rope_head_dim: rope,
        v_head_dim: keys.count(&["v_head_dim"], MAX_WIDTH)?.unwrap_or(128),
    };
    let routed = if second { moe(keys, 1407, 64, 6)? } else { moe(keys, 2048, 256, 8)? };
    let shared = keys.whole("n_shared_experts", MAX_COUNT)?.unwrap_or(if second { 2 } else { 1 });
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
