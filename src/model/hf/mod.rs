//! Hugging Face configurations as architectures. Field names and defaults are those of
//! the configuration classes in transformers 4.57.6 (`models/*/configuration_*.py`).

mod decoder;
mod diffusers;
mod encoder;
mod encoder_decoder;
mod heads;
mod image;
mod keys;
mod related;

use serde_json::{Map, Value};

use super::{Architecture, Family, ModelShape};
use crate::plan::Fault;
use keys::Keys;

/// What a `config.json` describes, and what had to be assumed to read it.
///
/// # Errors
/// Where a size is absent, not a number or absurd, or the model is of a kind that has no walk.
pub fn from_hf(config: &Map<String, Value>) -> Result<(Architecture, Vec<String>), Fault> {
    let mut assumptions = Vec::new();
    // A composite configuration (Gemma 3, Llama 4) holds the language model under `text_config`.
    let outer = Keys::of(config);
    let keys = match outer.inner("text_config") {
        Some(inner) if inner.has("hidden_size") => {
            assumptions.push("model.hf_config: only the text part (text_config) is predicted".to_owned());
            inner
        }
        _ => outer,
    };
    if let Some(class) = keys.text(&["_class_name"]) {
        return Ok((diffusers::read(config, class)?, assumptions));
    }
    let model_type = keys.text(&["model_type"]).or_else(|| outer.text(&["model_type"]));
    let class = outer.first_text("architectures");
    let near = model_type.and_then(related::of);
    let (family, known) = match near {
        Some(near) => (near.family, true),
        None => family_of(keys, model_type)?,
    };
    if near.is_some() {
        let name = model_type.unwrap_or_default();
        let family = model_name(family);
        assumptions.push(format!(
            "model.hf_config.model_type: {name}: parameters as its class has them, activations as {family}'s modules keep them"
        ));
    }
    if !known {
        let name = model_type.unwrap_or("absent");
        assumptions.push(format!("model.hf_config.model_type: {name} read as {} by its keys", model_name(family)));
    }
    let shape = match family {
        Family::Bert | Family::Roberta | Family::Vit => ModelShape::Encoder(encoder::read(keys, family, class)?),
        Family::T5 | Family::Whisper => ModelShape::EncoderDecoder(encoder_decoder::read(keys, family, class)?),
        Family::Resnet => ModelShape::ResidualNet(image::residual_net(keys, class)?),
        _ => {
            let stack = decoder::read(keys, family)?;
            let stack = match near {
                Some(near) => (near.fields)(stack, keys)?,
                None => stack,
            };
            ModelShape::Decoder(heads::of_decoder(stack, keys, family, class)?)
        }
    };
    let mut architecture = Architecture { name: String::new(), family, shape };
    let named = model_type.unwrap_or_else(|| model_name(family));
    architecture.name = match architecture.block() {
        Some(block) => format!("{named} {} x {}", block.layers, block.hidden),
        None => format!("{named} of {} blocks", architecture.layers()),
    };
    Ok((architecture, assumptions))
}

/// Every family by its `model_type`.
const FAMILIES: [(&str, Family); 29] = [
    ("bert", Family::Bert),
    ("roberta", Family::Roberta),
    // RoBERTa's modules under other names.
    ("xlm-roberta", Family::Roberta),
    ("camembert", Family::Roberta),
    ("vit", Family::Vit),
    ("t5", Family::T5),
    // T5's modules with other defaults.
    ("mt5", Family::T5),
    ("whisper", Family::Whisper),
    ("resnet", Family::Resnet),
    ("gpt2", Family::Gpt2),
    ("opt", Family::Opt),
    ("gpt_neox", Family::GptNeox),
    ("bloom", Family::Bloom),
    ("falcon", Family::Falcon),
    ("llama", Family::Llama),
    ("mistral", Family::Mistral),
    ("mixtral", Family::Mixtral),
    ("qwen2", Family::Qwen2),
    ("qwen2_moe", Family::Qwen2Moe),
    ("qwen3", Family::Qwen3),
    ("qwen3_moe", Family::Qwen3Moe),
    ("gemma", Family::Gemma),
    ("gemma2", Family::Gemma2),
    ("gemma3_text", Family::Gemma3Text),
    ("phi", Family::Phi),
    ("phi3", Family::Phi3),
    ("deepseek_v2", Family::DeepseekV2),
    ("deepseek_v3", Family::DeepseekV3),
    ("gpt_oss", Family::GptOss),
];

/// The `model_type` of a family.
fn model_name(family: Family) -> &'static str {
    FAMILIES.iter().find(|(_, known)| *known == family).map_or("llama", |(name, _)| name)
}

/// Kinds of model that are known by name and have no walk: encoders with modules of their own, and stacks that mix
/// attention with recurrence or have none, whose keys look like a decoder's.
const OTHERS: [&str; 31] = [
    "albert",
    "bamba",
    "bart",
    "clip",
    "convnext",
    "deberta",
    "deberta-v2",
    "deit",
    "dinov2",
    "distilbert",
    "electra",
    "falcon_h1",
    "falcon_mamba",
    "granitemoehybrid",
    "jamba",
    "lfm2",
    "mamba",
    "mamba2",
    "mbart",
    "minimax",
    "modernbert",
    "mpnet",
    "nemotron_h",
    "qwen3_next",
    "recurrent_gemma",
    "rwkv",
    "swin",
    "umt5",
    "xlstm",
    "zamba",
    "zamba2",
];

/// The family of a `model_type`, or the nearest by the keys that are there; whether it was known.
fn family_of(keys: Keys<'_>, model_type: Option<&str>) -> Result<(Family, bool), Fault> {
    if let Some(name) = model_type {
        let known = FAMILIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some((_, family)) = known {
            return Ok((*family, true));
        }
        if OTHERS.contains(&name) || keys.flag("is_encoder_decoder", false)? {
            return Err(Keys::fault("model_type", format!("{name}: models of this kind are not predicted")));
        }
    }
    let encoder = keys.has("hidden_sizes");
    if encoder || !(keys.has("hidden_size") || keys.has("n_embd")) {
        return Err(Keys::fault(
            "model_type",
            format!("{}: not a decoder transformer's configuration (no hidden_size)", model_type.unwrap_or("absent")),
        ));
    }
    let experts = keys.has("num_experts") || keys.has("num_local_experts") || keys.has("n_routed_experts");
    let family = if keys.has("kv_lora_rank") {
        Family::DeepseekV3
    } else if keys.has("n_embd") {
        Family::Gpt2
    } else if keys.has("num_local_experts") {
        Family::Mixtral
    } else if experts && keys.has("shared_expert_intermediate_size") {
        Family::Qwen2Moe
    } else if experts {
        Family::Qwen3Moe
    } else if keys.has("final_logit_softcapping") {
        Family::Gemma2
    } else {
        Family::Llama
    };
    Ok((family, false))
}
