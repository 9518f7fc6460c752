//! How long the samples of a preset may be, and whether they have a length at all.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::base;
use crate::plan::keys;

/// The longest sequence of a model by its name: a preset's own stands for a variant of it only where both have it alike.
pub fn longest_of(imported: &ImportedPlan, context: &ImportContext, name: &str) -> Option<u64> {
    let plain = base(name).to_lowercase();
    let preset = imported.get(keys::model::preset)?.value.as_str()?.to_owned();
    let alike =
        plain == preset || ["llama-3", "llama-2", "mistral-7b-instruct-v0.3"].iter().any(|known| plain.contains(known));
    if alike {
        return longest(imported, context);
    }
    // Qwen/Qwen2.5-*-Instruct, config.json: max_position_embeddings 32768; of the bases from 7B on 131072.
    (preset.starts_with("qwen2.5-")
        && plain.ends_with("-instruct")
        && !["-vl-", "-math-"].iter().any(|part| plain.contains(part)))
    .then_some(32_768)
}

/// The longest sequence of a preset.
pub fn longest(imported: &ImportedPlan, context: &ImportContext) -> Option<u64> {
    let preset = imported.get(keys::model::preset)?.value.as_str()?.to_owned();
    let config = &context.catalog.model(&preset)?.hf_config;
    let positions = ["max_position_embeddings", "n_positions"].iter().find_map(|key| config.get(*key)?.as_u64())?;
    // RoBERTa's positions begin behind that of padding (models/roberta, padding_idx 1).
    let kind = config.get("model_type").and_then(|kind| kind.as_str());
    let unused = if matches!(kind, Some("roberta" | "xlm-roberta" | "camembert")) { 2 } else { 0 };
    Some(positions.saturating_sub(unused))
}

/// How many tokens the tokenizer of a preset leaves of a sample that is cut to no length: the checkpoints of these kinds
/// have one (tokenizer_config.json, `model_max_length`), those of language models mostly none.
pub fn of_tokenizer(imported: &ImportedPlan, context: &ImportContext) -> Option<u64> {
    let preset = imported.get(keys::model::preset)?.value.as_str()?.to_owned();
    let kind = context.catalog.model(&preset)?.hf_config.get("model_type")?.as_str()?.to_owned();
    match kind.as_str() {
        "bert" | "distilbert" | "roberta" | "xlm-roberta" | "gpt2" => longest(imported, context),
        "t5" if preset.starts_with("t5-") || preset.starts_with("flan-t5-") => Some(512),
        _ => None,
    }
}

/// Takes a length out that cuts no sample: a million tokens and more, beyond what is known that the model takes.
pub fn drop_endless(imported: &mut ImportedPlan, context: &ImportContext) {
    const ENDLESS: u64 = 1_000_000;
    let bound = imported.whole(keys::model::sequence_length).filter(|tokens| *tokens >= ENDLESS);
    let Some(tokens) = bound.filter(|tokens| longest(imported, context).is_none_or(|most| most < *tokens)) else {
        return;
    };
    imported.drop(keys::model::sequence_length);
    imported.miss(keys::model::sequence_length, format!("a bound of {tokens} tokens cuts no sample"));
}

/// What a sample of a preset is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresetInput {
    /// Words, whose length a plan has to say.
    Text,
    /// A stretch of sound, which has one length; its labels have another.
    Sound,
    /// An image, whose size the model has.
    Image,
}

/// What a sample of the preset is, where one is named.
pub fn input(imported: &ImportedPlan, context: &ImportContext) -> Option<PresetInput> {
    let preset = imported.get(keys::model::preset)?.value.as_str()?;
    let config = &context.catalog.model(preset)?.hf_config;
    let kind = config.get("model_type").and_then(|kind| kind.as_str()).unwrap_or("");
    Some(match kind {
        _ if config.contains_key("_class_name") => PresetInput::Image,
        "vit" | "resnet" => PresetInput::Image,
        "whisper" => PresetInput::Sound,
        _ => PresetInput::Text,
    })
}

/// Whether the preset reads one text and writes another; none where none is named.
pub fn is_pair(imported: &ImportedPlan, context: &ImportContext) -> Option<bool> {
    let preset = imported.get(keys::model::preset)?.value.as_str()?;
    let config = &context.catalog.model(preset)?.hf_config;
    let kind = config.get("model_type").and_then(|kind| kind.as_str());
    Some(matches!(kind, Some("t5" | "mt5" | "umt5" | "whisper")))
}
