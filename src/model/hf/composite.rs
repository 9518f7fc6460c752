//! Configurations of several models: a language model's own keys under `text_config`, beside those of a tower.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::counts;
use super::keys::Keys;

/// The language model of a composite configuration (LLaVA, Gemma 3), and whether it is one.
pub fn language_model(outer: Keys<'_>) -> (Keys<'_>, bool) {
    match outer.inner("text_config") {
        Some(inner) if inner.has("hidden_size") || inner.has("model_type") => (inner, true),
        _ => (outer, false),
    }
}

/// Whether a class is the language model alone, though its configuration has a tower (transformers 5,
/// models/auto/modeling_auto.py, `MODEL_FOR_CAUSAL_LM_MAPPING_NAMES`).
pub fn leaves_tower(class: &str) -> bool {
    matches!(class, "Qwen3_5ForCausalLM" | "Qwen3_5MoeForCausalLM")
}

/// The configuration with one word on whether head and embedding are one matrix. transformers 4 asks the language model's
/// keys, transformers 5 those at the top, to which it also moves the flag as it saves (`modeling_utils.py`,
/// `tie_weights`; models/qwen2_vl/configuration_qwen2_vl.py). Where both are given and differ, the language model's is
/// right for both: a checkpoint with a head of its own holds both matrices, and transformers 5 leaves them two.
pub fn tied_once(config: &Map<String, Value>) -> Cow<'_, Map<String, Value>> {
    const TIED: &str = "tie_word_embeddings";
    let given = |keys: &Map<String, Value>| keys.get(TIED).filter(|flag| flag.is_boolean()).cloned();
    let Some(Value::Object(inner)) = config.get("text_config") else { return Cow::Borrowed(config) };
    let mut one = match (given(inner), given(config)) {
        (Some(flag), Some(other)) if flag != other => Map::from_iter([(TIED.to_owned(), flag)]),
        (None, Some(flag)) if counts::is_new(config) => {
            let mut inner = inner.clone();
            inner.insert(TIED.to_owned(), flag);
            Map::from_iter([("text_config".to_owned(), Value::Object(inner))])
        }
        _ => return Cow::Borrowed(config),
    };
    let mut config = config.clone();
    config.append(&mut one);
    Cow::Owned(config)
}
