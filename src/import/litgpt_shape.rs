//! The model of a litgpt checkpoint, by the `model_config.yaml` beside its weights (litgpt 0.5, `config.py`, `Config`).

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
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

/// What a `Config` is where nobody says otherwise (`config.py`, its fields).
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("block_size", DefaultValue::Whole(4096)),
    ("n_layer", DefaultValue::Whole(16)),
    ("n_embd", DefaultValue::Whole(4096)),
    ("n_head", DefaultValue::Whole(32)),
    ("vocab_size", DefaultValue::Whole(50_254)),
    ("padding_multiple", DefaultValue::Whole(512)),
    ("norm_class_name", DefaultValue::Text("LayerNorm")),
    ("mlp_class_name", DefaultValue::Text("GptNeoxMLP")),
    ("parallel_residual", DefaultValue::Flag(true)),
    ("bias", DefaultValue::Flag(true)),
];

/// A `model_config` that a command is given, with what follows from it (`config.py`, `Config.__post_init__`).
pub fn completed(given: Settings) -> Settings {
    const VERSION: &str = "litgpt 0.5";
    let given = if given.holds("init_args") { given.below("init_args") } else { given };
    for name in ["name", "class_path", "norm_eps", "rotary_percentage", "rope_base", "gelu_approximate"] {
        given.accept(name);
    }
    for (name, _) in given.iter().filter(|(name, _)| name.starts_with("hf_config.")) {
        given.accept(name);
    }
    let mut settings = Settings::defaults(VERSION, DEFAULTS).with(given);
    let whole = |settings: &Settings, name: &str| settings.whole(name).map(|found| found.value);
    let follows = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    let padded = whole(&settings, "vocab_size").zip(whole(&settings, "padding_multiple"));
    if let Some((vocabulary, multiple)) = padded.filter(|_| settings.get("padded_vocab_size").is_none()) {
        let size = vocabulary.next_multiple_of(multiple.max(1));
        settings.set("padded_vocab_size", size.into(), follows("vocab_size, padded to padding_multiple"));
    }
    let four_times = whole(&settings, "n_embd").filter(|_| settings.get("intermediate_size").is_none());
    if let Some(size) = four_times.and_then(|size| size.checked_mul(4)) {
        settings.set("intermediate_size", size.into(), follows("intermediate_size: 4 x n_embd"));
    }
    settings
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `Config(n_layer=3, n_embd=128, vocab_size=500, padding_multiple=64).__post_init__()`: 500 is padded to 8 x 64 = 512,
    /// the MLP is 4 x 128 = 512 wide; 16 layers and 32 heads where nobody says.
    #[test]
    fn a_config_is_completed_as_litgpt_does() {
        let text = "n_layer: 3\nn_embd: 128\nvocab_size: 500\npadding_multiple: 64\n";
        let settings = completed(text::yaml("m.yaml", text).unwrap());
        let whole = |name: &str| settings.whole(name).unwrap().value;
        assert_eq!([whole("n_layer"), whole("n_embd"), whole("n_head")], [3, 128, 32]);
        assert_eq!([whole("padded_vocab_size"), whole("intermediate_size")], [512, 512]);
    }
}
