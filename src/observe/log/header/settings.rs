//! Settings that a log prints whole, one a line.

use super::whole;
use crate::reading::{StatedCheckpointing, StatedSettings, StatedType};

/// In which form settings are printed, which says whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsBlock {
    /// transformers' `TrainingArguments(` with `name=value,`.
    TrainingArguments,
    /// Megatron's and DeepSpeed's `name ....... value`.
    Dotted,
    /// torchtune's `Running … with resolved config:` in YAML.
    Torchtune,
    /// Composer's and llm-foundry's configuration in YAML.
    Foundry,
    /// nanoGPT's `Overriding config with …:` in Python.
    NanoGpt,
}

impl SettingsBlock {
    /// The block that begins with a line.
    pub fn beginning(line: &str) -> Option<Self> {
        if line.trim_end().ends_with("Arguments(") || line.trim_end().ends_with("Config(") {
            return Some(Self::TrainingArguments);
        }
        if line.contains("with resolved config:") {
            return Some(Self::Torchtune);
        }
        if line.contains("Overriding config with ") || line.starts_with("Overriding: ") {
            return Some(Self::NanoGpt);
        }
        // llm-foundry, `command_utils/train.py` and `utils/config_utils.py`, `log_config`.
        let foundry = ["device_train_microbatch_size: ", "global_train_batch_size: "];
        foundry.iter().any(|name| line.starts_with(name)).then_some(Self::Foundry)
    }

    /// Whether a line that states nothing ends it.
    pub fn ends(self, line: &str) -> bool {
        match self {
            Self::TrainingArguments => line.trim() == ")",
            Self::Dotted => false,
            Self::Torchtune | Self::Foundry => line.contains(" - ") && line.contains("INFO"),
            Self::NanoGpt => line.starts_with("iter ") || line.starts_with("step "),
        }
    }

    /// The setting of a line.
    pub fn setting(self, line: &str) -> Option<(&str, &str)> {
        let line = line.trim_end();
        let (name, value) = match self {
            Self::TrainingArguments => line.trim_start().strip_suffix(',')?.split_once('=')?,
            Self::Torchtune | Self::Foundry => line.trim_start().split_once(": ")?,
            Self::NanoGpt => {
                line.strip_prefix("Overriding: ").unwrap_or(line).split('#').next().unwrap_or("").split_once(" = ")?
            }
            Self::Dotted => return None,
        };
        is_name(name).then_some((name, value.trim()))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// `  micro_batch_size ................................ 4`, whatever a launcher puts before it.
pub fn dotted(line: &str) -> Option<(&str, &str)> {
    let (before, value) = line.split_once(" ..")?;
    let name = before.rsplit([' ', ':', ']']).next()?;
    let value = value.trim_start_matches('.');
    // GPT-NeoX goes on: `32...........................updated`.
    let written = value.split("..").next().unwrap_or(value);
    (is_name(name) && value.starts_with(' ')).then(|| (name, written.trim()))
}

/// Takes what a setting states.
pub fn apply(block: SettingsBlock, name: &str, value: &str, stated: &mut StatedSettings) {
    match block {
        SettingsBlock::TrainingArguments => arguments(name, value, stated),
        SettingsBlock::Dotted => megatron(name, value, stated),
        SettingsBlock::Torchtune => torchtune(name, value, stated),
        SettingsBlock::Foundry => foundry(name, value, stated),
        SettingsBlock::NanoGpt => nanogpt(name, value, stated),
    }
}

/// transformers, `training_args.py`. Where neither `bf16` nor `fp16` is on, accelerate's own settings may have turned one
/// on: that states nothing.
fn arguments(name: &str, value: &str, stated: &mut StatedSettings) {
    match (name, value) {
        ("bf16", "True") => stated.compute = Some(StatedType::Bf16),
        ("fp16", "True") => stated.compute = Some(StatedType::Fp16),
        ("gradient_checkpointing" | "activation_checkpointing", "True") => {
            stated.checkpointing = Some(StatedCheckpointing::Full);
        }
        ("gradient_checkpointing", "False") => stated.checkpointing = Some(StatedCheckpointing::None),
        ("per_device_train_batch_size", _) => stated.micro_batch = whole(value),
        ("gradient_accumulation_steps", _) => stated.accumulation = whole(value),
        _ => {}
    }
}

/// Megatron-LM, `training/arguments.py`, `_print_args`; GPT-NeoX, `arguments.py`; DeepSpeed, `runtime/config.py`,
/// `print`.
fn megatron(name: &str, value: &str, stated: &mut StatedSettings) {
    match (name, value) {
        ("micro_batch_size" | "train_micro_batch_size_per_gpu", _) => stated.micro_batch = whole(value),
        ("global_batch_size" | "train_batch_size", _) => stated.global_batch = whole(value).or(stated.global_batch),
        ("gradient_accumulation_steps", _) => stated.accumulation = whole(value).or(stated.accumulation),
        ("seq_length", _) => stated.sequence = whole(value),
        ("world_size", _) => stated.world = whole(value),
        ("tensor_model_parallel_size" | "model_parallel_size", _) => stated.tensor = whole(value).or(Some(1)),
        // NeoX has 0 for no pipeline.
        ("pipeline_model_parallel_size" | "pipe_parallel_size", _) => stated.pipeline = whole(value).or(Some(1)),
        ("context_parallel_size", _) => stated.context = whole(value),
        ("expert_model_parallel_size", _) => stated.expert = whole(value),
        ("use_distributed_optimizer", "True") => stated.distributed_optimizer = Some(true),
        ("use_distributed_optimizer", "False") => stated.distributed_optimizer = Some(false),
        ("num_layers", _) => stated.layers = whole(value),
        ("hidden_size", _) => stated.hidden = whole(value),
        ("bf16" | "bfloat16_enabled", "True") => stated.compute = Some(StatedType::Bf16),
        ("fp16" | "fp16_enabled", "True") => stated.compute = Some(StatedType::Fp16),
        ("params_dtype", _) => {
            let stored = number_type(value.trim_start_matches("torch."));
            stated.weights = stored;
            // It is fp32 where neither `--bf16` nor `--fp16` is said (`validate_args`).
            stated.compute = stored.or(stated.compute);
        }
        ("precision", _) => stated.compute = number_type(value),
        ("recompute_granularity", "full") => stated.checkpointing = Some(StatedCheckpointing::Full),
        ("recompute_granularity", "selective") => stated.checkpointing = Some(StatedCheckpointing::Selective),
        ("recompute_granularity", "None") => stated.checkpointing = Some(StatedCheckpointing::None),
        ("checkpoint_activations", "True") => stated.checkpointing = Some(StatedCheckpointing::Full),
        _ => {}
    }
}

/// torchtune, `config/_utils.py`, `log_config`.
fn torchtune(name: &str, value: &str, stated: &mut StatedSettings) {
    match (name, value) {
        ("batch_size", _) => stated.micro_batch = whole(value),
        ("gradient_accumulation_steps", _) => stated.accumulation = whole(value),
        ("epochs", _) => stated.epochs = whole(value),
        ("dtype", _) => (stated.weights, stated.compute) = (number_type(value), number_type(value)),
        ("enable_activation_checkpointing", "true" | "True") => stated.checkpointing = Some(StatedCheckpointing::Full),
        ("enable_activation_checkpointing", "false" | "False") => {
            stated.checkpointing = Some(StatedCheckpointing::None);
        }
        _ => {}
    }
}

/// llm-foundry, `utils/config_utils.py`, `TrainConfig`.
fn foundry(name: &str, value: &str, stated: &mut StatedSettings) {
    match (name, value) {
        ("device_train_microbatch_size", _) => stated.micro_batch = whole(value),
        ("global_train_batch_size", _) => stated.global_batch = whole(value),
        ("max_seq_len", _) => stated.sequence = whole(value),
        ("n_params", _) => stated.params = whole(value),
        ("precision", "amp_bf16") => stated.compute = Some(StatedType::Bf16),
        ("precision", "amp_fp16") => stated.compute = Some(StatedType::Fp16),
        ("precision", "fp32") => stated.compute = Some(StatedType::Fp32),
        ("activation_checkpointing", "true") => stated.checkpointing = Some(StatedCheckpointing::Full),
        ("activation_checkpointing", "false") => stated.checkpointing = Some(StatedCheckpointing::None),
        _ => {}
    }
}

/// nanoGPT, `configurator.py`. `gradient_accumulation_steps` is of all ranks there.
fn nanogpt(name: &str, value: &str, stated: &mut StatedSettings) {
    match name {
        "batch_size" => stated.micro_batch = whole(value),
        "block_size" => stated.sequence = whole(value),
        "max_iters" => stated.steps = whole(value),
        "dtype" => stated.compute = number_type(value.trim_matches(['\'', '"'])),
        _ => {}
    }
}

/// A type by one of its names.
pub fn number_type(name: &str) -> Option<StatedType> {
    match name.trim() {
        "bfloat16" | "bf16" => Some(StatedType::Bf16),
        "float16" | "fp16" | "half" => Some(StatedType::Fp16),
        "float32" | "fp32" | "float" => Some(StatedType::Fp32),
        _ => None,
    }
}
