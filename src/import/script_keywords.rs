//! Keywords of a script's own calls that nothing was read of: adapters, quantisation and what loads the model are told
//! things that no plan holds, or that are not known here.

use super::imported::ImportedPlan;
use super::python::ScriptReader;
use super::python_adapters;
use super::python_models::models;
use super::settings::Settings;
use super::unread::account_for_call;
use crate::plan::keys;

/// What peft's `LoraConfig` and unsloth's `get_peft_model` take that is read elsewhere, is said there, or changes nothing
/// that is held (`peft/tuners/lora/config.py`, 0.17; `unsloth/models/llama.py`).
const ADAPTERS: [&str; 32] = [
    "r",
    "lora_r",
    "model",
    "bias",
    "task_type",
    "peft_type",
    "target_modules",
    "inference_mode",
    "fan_in_fan_out",
    "use_rslora",
    "init_lora_weights",
    "random_state",
    "loftq_config",
    "max_seq_length",
    "use_gradient_checkpointing",
    "modules_to_save",
    "use_dora",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "alpha_pattern",
    "exclude_modules",
    "target_parameters",
    "layer_replication",
    "trainable_token_indices",
    "base_model_name_or_path",
    "auto_mapping",
    "finetune_vision_layers",
    "finetune_language_layers",
    "finetune_attention_modules",
    "finetune_mlp_modules",
    "ensure_weight_tying",
];

/// What `BitsAndBytesConfig` and `GPTQConfig` take (`transformers/utils/quantization_config.py`, 4.57).
const QUANTISATION: [&str; 18] = [
    "load_in_4bit",
    "load_in_8bit",
    "bnb_4bit_compute_dtype",
    "bnb_4bit_quant_type",
    "bnb_4bit_use_double_quant",
    "bnb_4bit_quant_storage",
    "llm_int8_threshold",
    "llm_int8_skip_modules",
    "llm_int8_enable_fp32_cpu_offload",
    "llm_int8_has_fp16_weight",
    "bits",
    "disable_exllama",
    "use_exllama",
    "exllama_config",
    "dataset",
    "tokenizer",
    "group_size",
    "desc_act",
];

/// What `from_pretrained` takes (`transformers/modeling_utils.py`, 4.57; `unsloth/models/loader.py`).
const LOADING: [&str; 47] = [
    // Of these `trainer::spread` tells.
    "is_parallelizable",
    "model_parallel",
    "pretrained_model_name_or_path",
    "model_name",
    "config",
    "torch_dtype",
    "dtype",
    "device",
    "device_map",
    "trust_remote_code",
    "cache_dir",
    "token",
    "use_auth_token",
    "use_cache",
    "revision",
    "low_cpu_mem_usage",
    "attn_implementation",
    "use_flash_attention_2",
    "quantization_config",
    "local_files_only",
    "use_safetensors",
    "force_download",
    "from_tf",
    "from_flax",
    "ignore_mismatched_sizes",
    "max_memory",
    "offload_folder",
    "offload_state_dict",
    "load_in_4bit",
    "load_in_8bit",
    "load_in_16bit",
    "max_seq_length",
    "full_finetuning",
    "fast_inference",
    "gpu_memory_utilization",
    "max_lora_rank",
    "use_gradient_checkpointing",
    "num_labels",
    "id2label",
    "label2id",
    "problem_type",
    "return_dict",
    "output_hidden_states",
    "output_attentions",
    "pad_token_id",
    "eos_token_id",
    "rope_scaling",
];

/// What accelerate's `Accelerator` takes that is read elsewhere or changes nothing that is held (`accelerate/accelerator.py`,
/// 1.11); `split_batches` makes the loader's batch that of all processes.
const ACCELERATOR: [&str; 17] = [
    "device_placement",
    "mixed_precision",
    "gradient_accumulation_steps",
    "cpu",
    "dataloader_config",
    "deepspeed_plugin",
    "deepspeed_plugins",
    "fsdp_plugin",
    "rng_types",
    "log_with",
    "project_dir",
    "project_config",
    "gradient_accumulation_plugin",
    "step_scheduler_with_optimizer",
    "kwargs_handlers",
    "dynamo_backend",
    "even_batches",
];

/// Says what such calls are given that is not known.
pub fn say(imported: &mut ImportedPlan, reader: &ScriptReader) {
    let models = models(reader.whole());
    let models: Vec<&str> = models.iter().map(String::as_str).collect();
    let mut adapters = ADAPTERS.to_vec();
    if imported.get(keys::lora::dropout).is_some() {
        adapters.push("lora_dropout");
    }
    say_of(imported, reader, &python_adapters::CALLS, &adapters);
    say_of(imported, reader, &["BitsAndBytesConfig", "GPTQConfig"], &QUANTISATION);
    say_of(imported, reader, &["Accelerator"], &ACCELERATOR);
    if !models.is_empty() {
        let mut loading = LOADING.to_vec();
        // What is said of four bits beside them is handed on to their configuration.
        if imported.get(keys::lora::base_bits).is_some_and(|bits| bits.value == 4) {
            loading.extend(["bnb_4bit_use_double_quant", "bnb_4bit_quant_type", "bnb_4bit_compute_dtype"]);
        }
        account(imported, reader, &reader.calls_of_model(&models), &loading);
    }
}

/// Says what the first call of one of `names` is given, where the script has any.
fn say_of(imported: &mut ImportedPlan, reader: &ScriptReader, names: &[&str], known: &[&str]) {
    if names.iter().any(|name| reader.whole().contains(&format!("{name}("))) {
        account(imported, reader, &reader.calls(names), known);
    }
}

/// What a file of settings hands to a call has been accounted for there.
fn account(imported: &mut ImportedPlan, reader: &ScriptReader, given: &Settings, known: &[&str]) {
    let mut own = Settings::default();
    own.adopt_all(given, |name| reader.own().get(name).is_none().then(|| name.to_owned()));
    account_for_call(imported, &own, known);
}
