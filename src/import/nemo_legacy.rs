//! NeMo 1's own modules, which stand where neither Megatron-Core nor Transformer Engine is asked for, and its tokenizers
//! (NeMo 1.5 to 1.23, `nlp/models/language_modeling/megatron_gpt_model.py`, `nlp/modules/common/megatron/attention.py`).

use super::imported::ImportedPlan;
use super::origin::Origin;
use super::precision_aware::short;
use super::rows::not_modelled;
use super::settings::Settings;
use crate::plan::keys;

/// `model.tokenizer`: a kind of Megatron's, or a name on the hub (`nlp/modules/common/tokenizer_utils.py`,
/// `get_nmt_tokenizer`).
pub fn tokenizer(settings: &mut Settings, file: &Settings) {
    let Some(library) = file.text("model.tokenizer.library") else { return };
    let Some(kind) = file.text("model.tokenizer.type") else { return };
    match library.value.as_str() {
        "megatron" => settings.set("tokenizer_type", kind.value.into(), kind.origin),
        "huggingface" => settings.set("tokenizer_name_or_path", kind.value.into(), kind.origin),
        _ => {}
    }
}

/// What is counted of modules that write their attention out: `mcore_gpt`, `transformer_engine` and `use_flash_attention`
/// are off where a file does not say them. A file of overrides leaves them to the recipe.
pub fn modules(imported: &mut ImportedPlan, file: &Settings) {
    let whole =
        file.holds("model.num_layers") && file.holds("model.hidden_size") && file.holds("model.encoder_seq_length");
    if !whole || file.is("model.mcore_gpt") || file.is("model.transformer_engine") {
        return;
    }
    let origin = |option: &str| Origin::Default { framework: "NeMo 1", option: option.to_owned() };
    imported.say(keys::model::transformer_impl, "local", origin("transformer_engine false"));
    if file.is("model.use_flash_attention") {
        imported
            .set(keys::training::attention, file.on("model.use_flash_attention").map(|found| found.map(|_| "flash")));
    } else {
        imported.say(keys::training::attention, "eager", origin("use_flash_attention false"));
    }
}

/// What distributed Adams hold where weights are 16-bit (`megatron_amp_O2`): gradients in one buffer of a type of its own,
/// and Apex's, beside bf16 weights, the 16 bits that they lack, where neither masters are asked for nor weights are in FP8
/// (`megatron_base_model.py`, `setup_optimization`; `megatron_gpt_model.py`, `grad_reduce_in_fp32`; Apex's
/// `DistributedFusedAdam`).
pub fn distributed_adam(imported: &mut ImportedPlan, file: &Settings) {
    let of = |name: &str| format!("model.optim.{name}");
    let Some(kind) = file.text(&of("name")).filter(|found| found.value.contains("distributed")) else { return };
    let in_bf16 = imported
        .get(keys::training::precision)
        .is_some_and(|found| matches!(found.value.as_str(), Some("bf16-fp32-master" | "fp8-mixed")));
    if !file.is("model.megatron_amp_O2") || !in_bf16 {
        return;
    }
    file.accept("model.megatron_amp_O2");
    if let Some(found) = file.text(&of("grad_sync_dtype")).map(|found| found.map(|word| short(&word))) {
        imported.say(keys::training::gradient_dtype, found.value, found.origin);
    }
    if kind.value != "distributed_fused_adam" {
        return;
    }
    if let Some(found) = file.text(&of("dtype")).filter(|found| short(&found.value) != "fp32") {
        not_modelled(imported, &format!("{}: moments and masters in {}", found.origin, found.value));
    } else if !file.is(&of("store_params")) && !file.is("model.fp8_params") {
        let origin = Origin::Default { framework: "NeMo 1", option: "store_param_remainders true".to_owned() };
        imported.say(keys::training::master_dtype, "int16", origin);
    }
}
