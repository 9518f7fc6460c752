//! The model of a litgpt checkpoint, by the `model_config.yaml` beside its weights (litgpt 0.5, `config.py`, `Config`).

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::Settings;
use super::text;
use crate::plan::keys;

const ROWS: &[SettingRow] = &[
    (&["n_embd"], keys::architecture::hidden_size, SettingKind::Whole),
    (&["n_layer"], keys::architecture::num_layers, SettingKind::Whole),
    (&["n_head"], keys::architecture::num_attention_heads, SettingKind::Whole),
    (&["n_query_groups"], keys::architecture::num_kv_heads, SettingKind::Whole),
    (&["head_size"], keys::architecture::head_dim, SettingKind::Whole),
    (&["intermediate_size"], keys::architecture::intermediate_size, SettingKind::Whole),
    (&["padded_vocab_size"], keys::architecture::vocab_size, SettingKind::Whole),
    (&["block_size"], keys::architecture::max_position_embeddings, SettingKind::Whole),
    (&["bias"], keys::architecture::linear_bias, SettingKind::Flag),
    (&["parallel_residual"], keys::architecture::parallel_block, SettingKind::Flag),
    (&["norm_qk"], keys::architecture::qk_norm, SettingKind::Flag),
];

/// The settings in a checkpoint's folder, where it has some.
pub fn of_checkpoint(context: &ImportContext, folder: &str) -> Option<Settings> {
    let path = format!("{}/model_config.yaml", folder.trim_end_matches('/'));
    let text = context.run.files.read(&path).ok()?;
    text::yaml(&path, &text).ok().filter(|settings| settings.whole("n_embd").is_some())
}

/// Sets the architecture that they tell.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    take(imported, settings, ROWS);
    let program = |what: &str| Origin::Program(format!("litgpt 0.5, model.py: {what}"));
    let word = |name: &str, words: &[(&str, &'static str)]| {
        let found = settings.text(name)?;
        let (_, word) = words.iter().find(|(own, _)| *own == found.value)?;
        Some(found.map(|_| *word))
    };
    let activations = [("GptNeoxMLP", "gelu"), ("LLaMAMLP", "swiglu"), ("GemmaMLP", "geglu")];
    match word("mlp_class_name", &activations) {
        Some(found) => imported.set(keys::architecture::activation, Some(found)),
        None => imported.miss(keys::architecture::activation, "its mlp_class_name is not followed"),
    }
    imported
        .set(keys::architecture::norm, word("norm_class_name", &[("LayerNorm", "layernorm"), ("RMSNorm", "rmsnorm")]));
    imported.say(
        keys::architecture::norm_bias,
        settings.text("norm_class_name").is_none_or(|found| found.value != "RMSNorm"),
        program("its norms"),
    );
    imported.say(keys::architecture::position, "rope", program("rotary embeddings"));
    imported.say(keys::architecture::tie_embeddings, false, program("a head of its own"));
    let either = settings.on("bias").or_else(|| settings.on("attn_bias"));
    imported
        .set(keys::architecture::qkv_bias, Some(either.unwrap_or_else(|| Setting::new(false, program("attention")))));
    for name in ["sliding_window_size", "post_attention_norm", "post_mlp_norm", "lm_head_bias", "shared_attention_norm"]
    {
        let off = settings.get(name).is_none_or(|found| found.value.is_null() || found.value == false);
        if !off {
            not_modelled(imported, &format!("{name} of the checkpoint's model_config.yaml"));
        }
    }
}
