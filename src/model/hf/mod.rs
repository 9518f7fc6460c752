//! Hugging Face configurations as architectures. Field names and defaults are those of
//! the configuration classes in transformers 4.57.6 (`models/*/configuration_*.py`).

mod absent;
mod composite;
mod counts;
mod cuts;
mod decoder;
mod defaults;
mod delta;
mod diffusers;
mod encoder;
mod encoder_decoder;
mod formula;
mod heads;
mod image;
mod keys;
mod lfm2;
mod mixtures;
mod related;
mod sight;
mod state_space;
mod windows;

pub use counts::ClassCount;
pub use heads::instead as with_head;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Architecture, Family, ModelShape};
use crate::framework::Profile;
use crate::plan::Fault;
use composite::language_model;
use counts::NoCount;
use keys::Keys;

/// What helps where a class has no rules here.
pub(super) const HELP: &str =
    "`memwall trace --hf` reads it in PyTorch, or describe a model like it under model.architecture";

/// Keys that the rules here read, whatever their value; the formulas of classes know only some.
const READ_HERE: [&str; 62] = [
    "attention_bias",
    "attention_out_bias",
    "attention_types",
    "attn_config.attn_impl",
    "attn_layer_indices",
    "attn_layer_offset",
    "attn_layer_period",
    "bias",
    "block_ff_dim",
    "classifier_pooling",
    "conv_bias",
    "decoder_sparse_step",
    "depths",
    "depths.len",
    "do_layer_norm_before",
    "embedding_size",
    "enable_bias",
    "expert_layer_offset",
    "expert_layer_period",
    "feed_forward_proj",
    "first_k_dense_replace",
    "full_attn_idxs",
    "head_dim",
    "hidden_sizes",
    "hidden_sizes.len",
    "interleave_moe_layer_step",
    "intermediate_size",
    "is_gated_act",
    "layer_type",
    "layer_types",
    "mamba_d_state",
    "mamba_expand",
    "mlp_bias",
    "mlp_multipliers",
    "mlp_only_layers",
    "moe_layer_end_index",
    "moe_layer_interval",
    "moe_layers",
    "multi_query",
    "n_inner",
    "new_decoder_architecture",
    "no_rope_layers",
    "norm_rel_ebd",
    "num_hidden_layers",
    "parallel_attn",
    "pos_att_type",
    "position_biased_input",
    "position_buckets",
    "qk_layernorm",
    "qkv_bias",
    "relative_attention",
    "share_att_key",
    "shared_intermediate_size",
    "ssm_multipliers",
    "state_size",
    "tie_embedding",
    "tie_word_embeddings",
    "topk_method",
    "use_bias",
    "use_parallel_residual",
    "use_qk_norm",
    "use_qkv_bias",
];

/// What a `config.json` describes, and what had to be assumed to read it.
///
/// # Errors
/// Where a size is absent, not a number or absurd, or the class that it names has no checked rules.
pub fn from_hf(config: &Map<String, Value>) -> Result<(Architecture, Vec<String>), Fault> {
    let mut assumptions = Vec::new();
    let config = &*composite::tied_once(config);
    let outer = Keys::of(config);
    if let Some(class) = outer.text(&["_class_name"]) {
        return Ok((diffusers::read(config, class)?, assumptions));
    }
    let (keys, is_part) = language_model(outer);
    let Some(model_type) = keys.text(&["model_type"]).or_else(|| outer.text(&["model_type"])) else {
        return Err(Keys::fault("model_type", "is absent: without it no class of transformers is meant"));
    };
    let class = outer.first_text("architectures");
    let count = count_of(config);
    let near = related::of(model_type);
    let family = near.map(|near| near.family).or_else(|| family_of(model_type));
    let Some(family) = family else { return Err(without_rules(model_type, class, &count)) };
    if let Err(no_count @ NoCount::Class { .. }) = &count {
        return Err(refused(model_type, class, no_count));
    }
    if near.is_some() {
        let family = model_name(family);
        assumptions.push(format!(
            "model.hf_config.model_type: {model_type}: {family}'s modules, with what its class writes in its own way"
        ));
    }
    assumptions.extend(related::remarks(model_type).iter().map(|line| (*line).to_owned()));
    let mut shape = shape(keys, family, near, class)?;
    if let ModelShape::Decoder(decoder) = &mut shape {
        decoder.class_rules.cut_by_plan = cuts::CUT_BY_PLAN.contains(&model_type);
    }
    let leaves_tower = class.is_some_and(composite::leaves_tower);
    let sees = !leaves_tower && sees(outer, &mut shape)?;
    let is_part = is_part && !sees && !leaves_tower;
    if family == Family::ModernBert && !keys.has("reference_compile") {
        assumptions.push(
            "model.hf_config.reference_compile: false (where Triton is, transformers 4 compiles feed-forward \
                          blocks, whose kernels keep less)"
                .to_owned(),
        );
    }
    if let Err(no_count @ NoCount::Key { key }) = &count
        && !is_part
        && !sees
        && !READ_HERE.contains(&key.as_str())
    {
        return Err(refused(model_type, class, no_count));
    }
    absent::check_function(keys)?;
    let mut architecture = Architecture { name: String::new(), family, shape };
    let encodes = matches!(architecture.shape, ModelShape::Decoder(_) | ModelShape::Encoder(_));
    let absent = architecture.block().filter(|_| encodes).map_or_else(Vec::new, |block| absent::sizes(keys, block));
    architecture.name = match architecture.block() {
        Some(block) => format!("{model_type} {} x {}", block.layers, block.hidden),
        None => format!("{model_type} of {} blocks", architecture.layers()),
    };
    let own = architecture.count(Profile::standard(), 1).total;
    if is_part {
        part_of(own, &architecture, count.as_ref().ok())?;
        let whole = count.map_or(String::new(), |count| format!(": {own} of {} parameters", count.total));
        assumptions.push(format!("model.hf_config.text_config: only the language model is predicted{whole}"));
        architecture.name.push_str(", language model only");
    } else if let Ok(count) = count {
        check(own, &architecture, &count)?;
    }
    left_out(outer, &mut architecture, &mut assumptions);
    assumptions.extend(absent);
    Ok((architecture, assumptions))
}

fn shape(
    keys: Keys<'_>,
    family: Family,
    near: Option<related::RelatedModel>,
    class: Option<&str>,
) -> Result<ModelShape, Fault> {
    Ok(match family {
        family if family.is_encoder() => ModelShape::Encoder(encoder::read(keys, family, class)?),
        Family::T5 | Family::Whisper | Family::Bart | Family::Mbart => {
            ModelShape::EncoderDecoder(encoder_decoder::read(keys, family, class)?)
        }
        Family::Resnet => ModelShape::ResidualNet(image::residual_net(keys, class)?),
        _ => {
            let stack = decoder::read(keys, near.map_or(family, |near| near.read_as))?;
            let stack = match near {
                Some(near) => (near.fields)(stack, keys)?,
                None => stack,
            };
            delta::check(&stack, keys)?;
            ModelShape::Decoder(heads::of_decoder(stack, keys, family, class)?)
        }
    })
}

/// Puts the tower before a language model, where the file has one with rules.
fn sees(outer: Keys<'_>, shape: &mut ModelShape) -> Result<bool, Fault> {
    let ModelShape::Decoder(decoder) = shape else { return Ok(false) };
    decoder.sight = sight::read(outer, decoder)?.map(Arc::new);
    // Positions by time, height and width are each sample's own.
    if outer.text(&["model_type"]).is_some_and(|kind| kind.starts_with("qwen3_5")) {
        decoder.class_rules.sample_tables = decoder.sight.is_some();
    }
    if outer.text(&["model_type"]) == Some("paligemma") {
        decoder.class_rules.always_masked = decoder.sight.is_some();
        decoder.class_rules.typed_mask = decoder.sight.is_some();
        // The head is its own class's, which caps nothing.
        decoder.logit_softcap = false;
    }
    Ok(decoder.sight.is_some())
}

/// Parameters of the class that a `config.json` names, as transformers builds it.
///
/// # Errors
/// Why there is no count.
fn count_of(config: &Map<String, Value>) -> Result<ClassCount, NoCount> {
    let keys = Keys::of(config);
    let model_type = keys.text(&["model_type"]).ok_or(NoCount::Type)?;
    counts::of(config, model_type, keys.first_text("architectures"))
}

/// Parameters of the class that a `config.json` names, where they are known, whether or not its memory is.
#[must_use]
pub fn class_count(config: &Map<String, Value>) -> Option<ClassCount> {
    count_of(&composite::tied_once(config)).ok()
}

/// The rules here and the class itself are set against each other. Some formulas know head and embedding as one matrix,
/// whatever the file says of them.
fn check(own: u64, architecture: &Architecture, count: &ClassCount) -> Result<(), Fault> {
    let head = match &architecture.shape {
        ModelShape::Decoder(d) if !d.tie_embeddings => d.vocab.saturating_mul(d.hidden),
        _ => 0,
    };
    let is_near = |own: u64| own.abs_diff(count.total).saturating_mul(200) <= count.total;
    if is_near(own) || own.saturating_sub(head) == count.total {
        return Ok(());
    }
    let ClassCount { class, total, .. } = count;
    Err(Keys::fault("architectures", format!("{class} has {total} parameters, by the rules here {own}; {HELP}")))
}

/// A language model stands for the whole where it is most of it.
fn part_of(own: u64, architecture: &Architecture, count: Option<&ClassCount>) -> Result<(), Fault> {
    let is_most =
        count.is_none_or(|count| own <= count.total && own.saturating_mul(4) >= count.total.saturating_mul(3));
    if is_most && matches!(architecture.shape, ModelShape::Decoder(_)) {
        return Ok(());
    }
    if let Some(ClassCount { class, total, .. }) = count.filter(|count| own > count.total) {
        let said = format!("{class} has {total} parameters, its language model alone {own} by the rules here; {HELP}");
        return Err(Keys::fault("text_config", said));
    }
    let whole = count.map_or(String::new(), |ClassCount { class, total, .. }| format!(" of {class}'s {total}"));
    let said = format!("a part with {own}{whole} parameters, and the others have no checked rules; {HELP}");
    Err(Keys::fault("text_config", said))
}

/// The one sentence for a class without rules.
fn without_rules(model_type: &str, class: Option<&str>, count: &Result<ClassCount, NoCount>) -> Fault {
    match count {
        Ok(ClassCount { class, total, .. }) => {
            let said = format!("{class} has {total} parameters; what its modules save has no checked rules; {HELP}");
            Keys::fault("architectures", said)
        }
        Err(no_count @ NoCount::Class { .. }) => refused(model_type, class, no_count),
        Err(_) => refused(model_type, class, &NoCount::Type),
    }
}

fn refused(model_type: &str, class: Option<&str>, no_count: &NoCount) -> Fault {
    let class = class.unwrap_or(model_type);
    match no_count {
        NoCount::Type => {
            Keys::fault("model_type", format!("models of the kind {model_type} have no checked rules; {HELP}"))
        }
        NoCount::Class { main } => {
            let said = format!("{class} is no class of {model_type} with checked rules ({main} is); {HELP}");
            Keys::fault("architectures", said)
        }
        NoCount::Key { key } => Keys::fault(key, format!("{class} with this value has no checked rules; {HELP}")),
    }
}

/// What the file describes and the prediction leaves out: said in the headline.
fn left_out(keys: Keys<'_>, architecture: &mut Architecture, assumptions: &mut Vec<String>) {
    if let Some(method) = keys.inner("quantization_config").and_then(|inner| inner.text(&["quant_method"])) {
        architecture.name.push_str(&format!(", without its {method} storage"));
        assumptions.push(format!(
            "model.hf_config.quantization_config: the file's weights are stored in {method}; the plan's precision is \
             predicted"
        ));
    }
}

/// Every family by its `model_type`.
const FAMILIES: [(&str, Family); 50] = [
    ("bert", Family::Bert),
    ("roberta", Family::Roberta),
    // RoBERTa's modules under other names.
    ("xlm-roberta", Family::Roberta),
    ("camembert", Family::Roberta),
    ("distilbert", Family::Distilbert),
    ("electra", Family::Electra),
    ("albert", Family::Albert),
    ("deberta-v2", Family::Deberta),
    ("modernbert", Family::ModernBert),
    ("vit", Family::Vit),
    ("t5", Family::T5),
    // T5's modules with other defaults.
    ("mt5", Family::T5),
    // mT5's modules with a bias by distance in each layer.
    ("umt5", Family::T5),
    ("whisper", Family::Whisper),
    ("bart", Family::Bart),
    ("mbart", Family::Mbart),
    // mBART's layers without a norm over the embedding, and sinusoids for positions.
    ("pegasus", Family::Mbart),
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
    ("qwen3_next", Family::Qwen3Next),
    ("qwen3_5_text", Family::Qwen35),
    ("qwen3_5_moe_text", Family::Qwen35Moe),
    ("gemma", Family::Gemma),
    ("gemma2", Family::Gemma2),
    ("gemma3_text", Family::Gemma3Text),
    ("phi", Family::Phi),
    ("phi3", Family::Phi3),
    ("deepseek_v2", Family::DeepseekV2),
    ("deepseek_v3", Family::DeepseekV3),
    ("gpt_oss", Family::GptOss),
    ("lfm2", Family::Lfm2),
    ("mamba", Family::Mamba),
    // Mamba's modules with norms within the kernel.
    ("falcon_mamba", Family::Mamba),
    ("mamba2", Family::Mamba2),
    ("bamba", Family::Bamba),
    ("granitemoehybrid", Family::GraniteHybrid),
    ("falcon_h1", Family::FalconH1),
    ("nemotron_h", Family::NemotronH),
    ("jamba", Family::Jamba),
];

/// The `model_type` of a family.
fn model_name(family: Family) -> &'static str {
    FAMILIES.iter().find(|(_, known)| *known == family).map_or("llama", |(name, _)| name)
}

/// The family of a `model_type`.
fn family_of(model_type: &str) -> Option<Family> {
    FAMILIES.iter().find(|(known, _)| known.eq_ignore_ascii_case(model_type)).map(|(_, family)| *family)
}
