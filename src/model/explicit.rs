//! Architectures from a plan's explicit fields, and from nothing but a size.

mod image;

use super::architecture::{
    Act, Architecture, Decoder, Encoder, Ends, Family, Mla, ModelShape, Moe, QkNorm, Sizes, TextHead,
};
use super::layers::LayerList;
use crate::framework::Layout;
use crate::plan::keys;
use crate::plan::keywords::{Activation, ModelType, Norm};
use crate::plan::{ArchitecturePart, Fault, MlaPart, MoePart};

const HERE: &str = "model.architecture";

fn fault(key: &str, message: impl Into<String>) -> Fault {
    Fault::of(format!("{HERE}.{key}"), message)
}

/// The architecture that explicit fields describe, and what was assumed for absent ones.
///
/// # Errors
/// Where a size that nothing can stand in for is absent, sizes do not divide, or the kind has no walk.
pub fn of_fields(
    part: &ArchitecturePart,
    kind: Option<ModelType>,
    layout: Layout,
) -> Result<(Architecture, Vec<String>), Fault> {
    let kind = kind.unwrap_or_else(|| kind_of(part));
    match kind {
        ModelType::TransformerDecoder | ModelType::TransformerEncoder => of_transformer(part, kind, layout),
        ModelType::TransformerEncoderDecoder => {
            let (architecture, mut said) = of_transformer(part, ModelType::TransformerDecoder, layout)?;
            let shape = super::encoder_decoder::of_block(architecture.shape, part.num_encoder_layers, &mut said);
            Ok((Architecture { family: Family::T5, shape, ..architecture }, said))
        }
        ModelType::Mlp => {
            let (list, said) = LayerList::of_fields(part)?;
            Ok((list.into(), said))
        }
        ModelType::DiffusionModel | ModelType::VisionTransformer | ModelType::Cnn => image::of_fields(part, kind),
    }
}

/// The kind of model that explicit fields describe where `model.type` does not say.
const fn kind_of(part: &ArchitecturePart) -> ModelType {
    if part.num_encoder_layers.is_some() {
        ModelType::TransformerEncoderDecoder
    } else if part.adaptive_norm.is_some() {
        ModelType::DiffusionModel
    } else if part.stages.is_some() {
        ModelType::Cnn
    } else if part.patch_size.is_some() {
        ModelType::VisionTransformer
    } else {
        ModelType::TransformerDecoder
    }
}

/// A stack of these sizes with what the fields choose; what they leave open is as the GPT
/// family has it, or as Llama does where the activation is gated.
fn with_choices(part: &ArchitecturePart, sizes: Sizes, activation: Activation) -> Result<Decoder, Fault> {
    let gated = part.is_gated();
    let (norm, bias) = (part.norm_taken(), part.has_biases());
    Ok(Decoder {
        vocab_multiple: part.vocab_padding_multiple,
        max_positions: part.max_position_embeddings,
        tie_embeddings: part.ties_embeddings(),
        position: part.position_taken(),
        act: act(activation),
        gated,
        norm,
        norm_bias: part.norm_bias.unwrap_or(norm == Norm::Layernorm),
        qkv_bias: part.qkv_bias.unwrap_or(bias),
        out_bias: bias,
        mlp_bias: bias,
        qk_norm: if part.qk_norm == Some(true) { QkNorm::PerHead } else { QkNorm::No },
        parallel_block: part.parallel_block.unwrap_or(false),
        sliding_window: part.sliding_window,
        logit_softcap: part.logit_softcap.is_some(),
        // One matrix for queries, keys and values is how the GPT family is written.
        fused_qkv: !gated,
        moe: part.moe.as_ref().map(|moe| experts(moe, sizes.intermediate)).transpose()?,
        mla: part.mla.as_ref().map(|mla| latent(mla, sizes.head_dim)),
        mtp_layers: part.mtp_layers.unwrap_or(0),
        ..Decoder::of_sizes(sizes)
    })
}

/// The sizes of a transformer's stack, given and derived.
///
/// # Errors
/// A size that is missing or does not divide another.
fn sizes_of(part: &ArchitecturePart) -> Result<Sizes, Fault> {
    let need = |key: &str, value: Option<u64>| value.ok_or_else(|| fault(key, "is needed for a decoder transformer"));
    let hidden = need("hidden_size", part.hidden_size)?;
    let layers = need("num_layers", part.num_layers)?;
    let heads = need("num_attention_heads", part.num_attention_heads)?;
    let kv_heads = part.num_kv_heads.unwrap_or(heads);
    if kv_heads == 0 || heads % kv_heads != 0 {
        return Err(fault("num_kv_heads", format!("{kv_heads} do not divide num_attention_heads {heads}")));
    }
    let head_dim = match part.head_dim {
        Some(dim) => dim,
        None if heads > 0 && hidden % heads == 0 => hidden / heads,
        None => return Err(fault("num_attention_heads", format!("{heads} heads do not divide hidden_size {hidden}"))),
    };
    let (intermediate, vocab) = (part.intermediate_taken(hidden), part.vocabulary_taken());
    Ok(Sizes { hidden, layers, heads, kv_heads, head_dim, intermediate, vocab })
}

/// A transformer of tokens.
fn of_transformer(
    part: &ArchitecturePart,
    kind: ModelType,
    layout: Layout,
) -> Result<(Architecture, Vec<String>), Fault> {
    let encodes = kind == ModelType::TransformerEncoder;
    let mut said = Vec::new();
    let mut assume = |key: &str, value: String| said.push(format!("{HERE}.{key}: {value}"));
    let sizes = sizes_of(part)?;
    let Sizes { hidden, layers, heads, vocab, .. } = sizes;
    if part.vocab_size.is_none() {
        assume("vocab_size", format!("{vocab} (GPT-2's)"));
    }
    let activation = part.activation.unwrap_or_else(|| {
        assume("activation", "gelu".to_owned());
        Activation::Gelu
    });
    let gated = part.is_gated();
    if part.intermediate_size.is_none() {
        assume("intermediate_size", sizes.intermediate.to_string());
    }
    let decoder = with_choices(part, sizes, activation)?;
    let open: [(&str, bool, String); 4] = [
        ("norm", part.norm.is_none(), decoder.norm.to_string()),
        ("position", part.position.is_none(), decoder.position.to_string()),
        ("tie_embeddings", part.tie_embeddings.is_none(), decoder.tie_embeddings.to_string()),
        ("linear_bias", part.linear_bias.is_none(), decoder.mlp_bias.to_string()),
    ];
    for (key, _, value) in open.into_iter().filter(|(_, open, _)| *open) {
        assume(key, format!("{value} (as {} has it)", if gated { "Llama" } else { "GPT-2" }));
    }
    let decoder = match &decoder.mla {
        Some(mla) => Decoder {
            head_dim: mla.qk_nope_head_dim + mla.qk_rope_head_dim,
            rotary_dim: mla.qk_rope_head_dim,
            kv_heads: heads,
            ..decoder
        },
        None => decoder,
    };
    let family = match layout {
        Layout::Nanogpt => Family::Nanogpt,
        _ if decoder.moe.is_some() => Family::Mixtral,
        _ if gated => Family::Llama,
        _ => Family::Gpt2,
    };
    let name = format!("transformer {layers} x {hidden}");
    if encodes {
        // Megatron's BERT normalises before, transformers' behind.
        let megatron = layout == Layout::Megatron;
        let stack = Decoder { post_norm: !megatron, final_norm: megatron, embedding_norm: !megatron, ..decoder };
        let pooler = part.pooler.unwrap_or(false);
        let head = if megatron && pooler { TextHead::Pretraining } else { TextHead::MaskedLm };
        let ends = Ends::Text { types: 2, pooler, head };
        return Ok((
            Architecture { name, family: Family::Bert, shape: ModelShape::Encoder(Encoder { stack, ends }) },
            said,
        ));
    }
    Ok((Architecture { name, family, shape: ModelShape::Decoder(decoder) }, said))
}

const fn act(activation: Activation) -> Act {
    match activation {
        Activation::Gelu | Activation::Geglu => Act::Gelu,
        Activation::Relu => Act::Relu,
        Activation::Relu2 => Act::Relu2,
        Activation::Swiglu => Act::Silu,
    }
}

fn experts(part: &MoePart, intermediate: u64) -> Result<Moe, Fault> {
    let experts = part.num_experts.ok_or_else(|| fault("moe.num_experts", "is needed"))?;
    let per_token = part.experts_per_token.unwrap_or(2.min(experts));
    if per_token > experts {
        return Err(fault("moe.experts_per_token", format!("{per_token} is more than num_experts {experts}")));
    }
    Ok(Moe {
        experts,
        per_token,
        intermediate: part.intermediate_size.unwrap_or(intermediate),
        latent: None,
        shared_intermediate: part.shared_intermediate_size.unwrap_or(0),
        shared_gate: false,
        first_dense: part.first_dense_layers.unwrap_or(0),
        frequency: part.layer_frequency.unwrap_or(1).max(1),
        offset: 0,
        dense_layers: Vec::new(),
        router_bias: false,
        expert_bias: false,
        score_bias: false,
    })
}

fn latent(part: &MlaPart, head_dim: u64) -> Mla {
    Mla {
        q_lora_rank: part.q_lora_rank.unwrap_or(0),
        kv_lora_rank: part.kv_lora_rank.unwrap_or(512),
        qk_nope_head_dim: part.qk_nope_head_dim.unwrap_or(head_dim),
        qk_rope_head_dim: part.qk_rope_head_dim.unwrap_or(64),
        v_head_dim: part.v_head_dim.unwrap_or(head_dim),
    }
}

/// Published shapes of the Llama family that stand in for a bare size: billions, hidden, layers,
/// heads, KV heads, feed-forward width, vocabulary (arXiv 2302.13971 table 2, 2307.09288, 2407.21783 table 3).
const STANDARD: [(f64, u64, u64, u64, u64, u64, u64); 8] = [
    (0.11, 768, 12, 12, 12, 2048, 32_000),
    (1.1, 2048, 22, 32, 4, 5632, 32_000),
    (3.2, 3072, 28, 24, 8, 8192, 128_256),
    (6.74, 4096, 32, 32, 32, 11_008, 32_000),
    (13.0, 5120, 40, 40, 40, 13_824, 32_000),
    (32.5, 6656, 60, 52, 52, 17_920, 32_000),
    (69.0, 8192, 80, 64, 8, 28_672, 32_000),
    (405.9, 16_384, 126, 128, 8, 53_248, 128_256),
];

/// Layers of the deepest model that stands in for a bare size.
const MOST_LAYERS: f64 = 10_000.0;

/// A Llama-like model of about `billions` parameters: the nearest published shape, with as many layers
/// as come nearest to the size.
///
/// # Errors
/// Where the size is not a positive number, is beyond 100 000 billion, or asks for more than 10 000 of the widest layers.
pub fn of_size(billions: f64) -> Result<(Architecture, Vec<String>), Fault> {
    if !(billions > 0.0 && billions <= 1e5) {
        return Err(Fault::of(
            keys::model::size_billions,
            format!("must be above 0 and at most 100000, is {billions}"),
        ));
    }
    let distance = |size: f64| (size.ln() - billions.ln()).abs();
    let nearest = STANDARD.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0))).unwrap_or(&STANDARD[3]);
    let (_, hidden, published, heads, kv_heads, intermediate, vocab) = *nearest;
    let ends = 2.0 * vocab as f64 * hidden as f64;
    let attention = 2.0 * hidden as f64 * hidden as f64 * (1.0 + kv_heads as f64 / heads as f64);
    let layer = attention + 3.0 * hidden as f64 * intermediate as f64;
    let fitted = ((billions * 1e9 - ends) / layer).round().max(1.0);
    if fitted > MOST_LAYERS {
        let most = (ends + MOST_LAYERS * layer) / 1e9;
        let words =
            format!("{billions}: is {fitted} layers of {hidden}; at most {most:.0}, or give model.architecture");
        return Err(Fault::of(keys::model::size_billions, words));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let fitted = fitted as u64;
    // A published model's own size keeps its own depth.
    let layers = if (nearest.0 / billions - 1.0).abs() < 0.06 { published } else { fitted };
    if billions * 1e9 < ends {
        let least = (ends + layer) / 1e6;
        let words = format!(
            "{billions}: no Llama-like model is that small, as its vocabulary alone takes more; at least {:.3}, or give \
             model.architecture",
            least / 1e3
        );
        return Err(Fault::of(keys::model::size_billions, words));
    }
    let part = ArchitecturePart {
        hidden_size: Some(hidden),
        num_layers: Some(layers),
        num_attention_heads: Some(heads),
        num_kv_heads: Some(kv_heads),
        intermediate_size: Some(intermediate),
        vocab_size: Some(vocab),
        max_position_embeddings: Some(4096),
        activation: Some(Activation::Swiglu),
        ..ArchitecturePart::default()
    };
    let (architecture, mut said) = of_fields(&part, None, Layout::Transformers)?;
    said.push(format!(
        "model.size_billions: {billions} stands for a Llama-like model: {layers} layers, hidden {hidden}, {heads} heads \
         ({kv_heads} KV), feed-forward {intermediate}, vocabulary {vocab}"
    ));
    let name = format!("llama-like {billions}B");
    Ok((Architecture { name, ..architecture }, said))
}
