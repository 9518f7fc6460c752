//! The small models that torchtitan tries itself out with, by their flavor `debugmodel`.

use serde_json::Value;

use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::settings::DefaultValue;
use crate::text::arguments;

/// Keys of a plan, and what a shape has there.
type Shape = &'static [(&'static str, DefaultValue)];

/// `llama3_configs`, `llama4_configs` and `deepseekv3_configs` (`torchtitan/models/*/__init__.py`).
const MODELS: [(&str, Shape); 3] = [
    // TransformerModelArgs(dim=256, n_layers=6, n_heads=16, vocab_size=2048)
    ("llama3", &[(keys::architecture::intermediate_size, DefaultValue::Whole(768))]),
    (
        "deepseek_v3",
        &[
            (keys::architecture::intermediate_size, DefaultValue::Whole(1024)),
            (keys::moe::num_experts, DefaultValue::Whole(8)),
            (keys::moe::experts_per_token, DefaultValue::Whole(3)),
            (keys::moe::intermediate_size, DefaultValue::Whole(256)),
            (keys::moe::shared_intermediate_size, DefaultValue::Whole(512)),
            (keys::moe::first_dense_layers, DefaultValue::Whole(1)),
            (keys::mla::kv_lora_rank, DefaultValue::Whole(512)),
            (keys::mla::qk_nope_head_dim, DefaultValue::Whole(128)),
            (keys::mla::qk_rope_head_dim, DefaultValue::Whole(64)),
            (keys::mla::v_head_dim, DefaultValue::Whole(128)),
        ],
    ),
    // Two thirds of 4 x 256, up to a multiple of 256; of experts, and of the one that every token visits, half of that (its
    // `model.py`, `TransformerBlock`: `hidden_dim_denom`).
    (
        "llama4",
        &[
            (keys::architecture::intermediate_size, DefaultValue::Whole(768)),
            (keys::moe::num_experts, DefaultValue::Whole(8)),
            (keys::moe::experts_per_token, DefaultValue::Whole(1)),
            (keys::moe::intermediate_size, DefaultValue::Whole(512)),
            (keys::moe::shared_intermediate_size, DefaultValue::Whole(512)),
            (keys::moe::layer_frequency, DefaultValue::Whole(2)),
        ],
    ),
];

/// What all have alike.
const ALIKE: Shape = &[
    (keys::architecture::activation, DefaultValue::Text("swiglu")),
    (keys::architecture::norm, DefaultValue::Text("rmsnorm")),
    (keys::architecture::linear_bias, DefaultValue::Flag(false)),
    (keys::architecture::tie_embeddings, DefaultValue::Flag(false)),
];

/// What versions have differently: torchtitan's names and today's numbers.
const SIZES: [(&str, &str, u64); 4] = [
    ("dim", keys::architecture::hidden_size, 256),
    ("n_layers", keys::architecture::num_layers, 6),
    ("n_heads", keys::architecture::num_attention_heads, 16),
    ("vocab_size", keys::architecture::vocab_size, 2048),
];

/// Sets the shape of a model's `debugmodel`, where it is known.
pub(super) fn set(
    imported: &mut ImportedPlan,
    (model, flavor): (&str, &Setting<String>),
    origin: &Origin,
    context: &ImportContext,
) -> bool {
    let Some((_, shape)) = MODELS.iter().find(|(name, _)| *name == model) else { return false };
    let own = own_sizes(flavor, context);
    // The widths follow from this one, and `debugmodel_irope` of Llama 4 attends otherwise.
    let wider = own.iter().any(|(name, size)| name == "dim" && *size != 256);
    if wider || model == "llama4" && flavor.value.contains('_') {
        return false;
    }
    for (name, key, usual) in SIZES {
        // Before it had one the tokenizer's was taken (`train.py`: `model_config.vocab_size = tokenizer.n_words`).
        if name == "vocab_size" && !own.is_empty() && own.iter().all(|(own, _)| own != name) {
            imported.miss(key, format!("{origin}: the tokenizer's own size, which is not known here"));
            continue;
        }
        let told = own.iter().find(|(own, _)| own == name).map_or(usual, |(_, size)| *size);
        imported.say(key, told, origin.clone());
    }
    for (key, value) in shape.iter().chain(ALIKE) {
        let value = match value {
            DefaultValue::Whole(value) => Value::from(*value),
            DefaultValue::Number(value) => Value::from(*value),
            DefaultValue::Flag(value) => Value::from(*value),
            DefaultValue::Text(value) => Value::from(*value),
        };
        imported.say(key, value, origin.clone());
    }
    true
}

/// The numbers that the project around a file of settings gives the flavor: `"debugmodel": DeepSeekV3ModelArgs(dim=256, …)`
/// in the module of the folder above the file's own, or where that was while the files stood apart.
fn own_sizes(flavor: &Setting<String>, context: &ImportContext) -> Vec<(String, u64)> {
    let Origin::File { name, .. } = &flavor.origin else { return Vec::new() };
    let above = name.rsplit_once('/').and_then(|(folder, _)| folder.rsplit_once('/')).map(|(above, _)| above);
    let places = above.into_iter().chain(["torchtitan/models/llama3", "torchtitan/models/llama"]);
    let named = format!("\"{}\": ", flavor.value);
    let own = places.filter_map(|folder| context.run.files.read(&format!("{folder}/__init__.py")).ok());
    let Some(text) = own.into_iter().find(|text| text.contains(&named)) else { return Vec::new() };
    // Of several models the one that torchtitan calls llama3.
    let text = text.split_once("llama3_configs").map_or(text.as_str(), |(_, rest)| rest);
    let made = text.split_once(&named).and_then(|(_, rest)| rest.split_once('('));
    let parts = made.map(|(_, rest)| arguments(rest)).unwrap_or_default();
    let number = |part: &String| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    parts.iter().filter_map(number).collect()
}
