//! What a script does to its model and to its Trainer by calls that no reader asks for.

mod own_parts;

use super::ScriptReader;
use super::script::{FollowedScript, LibraryCall};
use super::value::Known;
use crate::python_models::is_model;

/// Calls that give the model that they are handed, with what its other readers follow of it.
const WRAPPERS: [&str; 6] = [
    "get_peft_model",
    "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training",
    "PeftModel.from_pretrained",
    "DistributedDataParallel",
    "DDP",
];

/// Methods of a model that change neither what it holds nor what is trained of it, or that a reader follows.
const METHODS: [&str; 44] = [
    "__call__",
    "apply",
    "backward",
    "bfloat16",
    "buffers",
    "children",
    "config",
    "cpu",
    "cuda",
    "disable_adapter",
    "enable_input_require_grads",
    "eval",
    // vLLM's engine beside unsloth's models, and their adapters in files (`unsloth/models/llama.py`).
    "fast_generate",
    "forward",
    "generate",
    "get_input_embeddings",
    "get_memory_footprint",
    "get_nb_trainable_parameters",
    "get_output_embeddings",
    "gradient_checkpointing_disable",
    "gradient_checkpointing_enable",
    "half",
    "load_lora",
    "load_state_dict",
    "merge_and_unload",
    "modules",
    "named_buffers",
    "named_modules",
    "named_parameters",
    "no_sync",
    "num_parameters",
    "parameters",
    "print_trainable_parameters",
    "requires_grad_",
    "resize_token_embeddings",
    "save_checkpoint",
    "save_lora",
    "set_adapter",
    "state_dict",
    "step",
    "tie_weights",
    "to",
    "train",
    "zero_grad",
];

/// Methods of a Trainer that change nothing of its training.
const OF_TRAINERS: [&str; 25] = [
    "add_callback",
    "create_model_card",
    "evaluate",
    "fit",
    "get_eval_dataloader",
    "get_test_dataloader",
    "get_train_dataloader",
    "is_local_process_zero",
    "is_world_process_zero",
    "log",
    "log_metrics",
    "metrics_format",
    "num_examples",
    "pop_callback",
    "predict",
    "push_to_hub",
    "remove_callback",
    "save_metrics",
    "save_model",
    "save_pretrained",
    "save_state",
    "test",
    "train",
    "generate",
    "wait_for_everyone",
];

/// Parts of functions' names that look at a model, write it or run it and train nothing.
const LOOKS: [&str; 35] = [
    "accuracy",
    "check",
    "collat",
    "count",
    "debug",
    "eval",
    "find_",
    "flops",
    "generat",
    "getattr",
    "hasattr",
    "id",
    "infer",
    "info",
    "inspect",
    "isinstance",
    "len",
    "load_state",
    "log",
    "num_param",
    "parameters",
    "pipeline",
    "predict",
    "print",
    "push",
    "resize",
    "sample",
    "save",
    "signature",
    "state_dict",
    "summary",
    "test",
    "type",
    "unwrap",
    "watch",
];

/// Functions that make a Trainer, an engine or a chat's tokens of a model, which other readers follow.
const FOLLOWED: [&str; 17] = [
    "__init__",
    "accumulate",
    "clip_grad_norm_",
    "Trainer",
    "prepare",
    "initialize",
    "setup_chat_format",
    "FullyShardedDataParallel",
    "FSDP",
    "fully_shard",
    "DataParallel",
    "for_training",
    "for_inference",
    "train_on_responses_only",
    "UnslothVisionDataCollator",
    "apply_activation_checkpointing",
    "prepare_model",
];

impl ScriptReader<'_> {
    /// What the script does to the model that it trains, and to its Trainer, by calls of others that are not followed:
    /// `torch.compile` in line 12. Each once, in the order of the script.
    pub fn unfollowed_effects(&self) -> Vec<String> {
        let script = self.script.borrow();
        let mut found: Vec<(usize, String)> = Vec::new();
        for (at, call) in script.seen.iter().enumerate().filter(|(_, call)| !call.blindly) {
            let Some(name) = effect(&script, at, call) else { continue };
            if !found.iter().any(|(_, known)| *known == name) {
                found.push((call.line, name));
            }
        }
        let shown = |(line, name): (usize, String)| match line {
            line if line > 0 && line <= self.lines => format!("{name}( in line {line}"),
            _ => format!("{name}("),
        };
        found.into_iter().map(shown).collect()
    }
}

/// The name of what a call does to a model or a Trainer; none where it does nothing, or a reader follows it.
fn effect(script: &FollowedScript, at: usize, call: &LibraryCall) -> Option<String> {
    let path = call.names.last()?;
    let (owner, name) = path.rsplit_once('.').unwrap_or(("", path));
    if is_model_path(owner) {
        // unsloth's ways to write a model out: `save_pretrained_gguf`, `push_to_hub_merged`.
        let writes = ["save_pretrained", "push_to_hub"].iter().any(|start| name.starts_with(start));
        // What only gives a part of the model changes none: `get_decoder`, LLaVA's `get_model` and `get_vision_tower`.
        let gives = name.starts_with("get_");
        return (!writes && !gives && !METHODS.contains(&name) && !is_of_model(script, at, 0)).then(|| name.to_owned());
    }
    if owner.ends_with("Trainer") {
        let saves = name.trim_start_matches('_').starts_with("save");
        return (!saves && !OF_TRAINERS.contains(&name)).then(|| name.to_owned());
    }
    let handed = call.given.iter().any(|(_, value, _)| is_made_model(script, value, 0));
    let lower = name.to_lowercase();
    let looks = LOOKS.iter().any(|part| lower.contains(part)) || is_optimizer(name);
    let followed = FOLLOWED.iter().any(|end| name.ends_with(end)) || WRAPPERS.iter().any(|end| path.ends_with(end));
    (handed && !looks && !followed && !name.is_empty()).then(|| name.to_owned())
}

/// Optimizers are told apart by other readers.
fn is_optimizer(name: &str) -> bool {
    ["Adam", "SGD", "Lion", "Adafactor", "Optimizer"].iter().any(|part| name.contains(part))
}

/// No longer chain of wrappers stands around a model.
const LONGEST_CHAIN: usize = 8;

/// Whether a value is the model that a script loads, with or without what wraps it.
fn is_made_model(script: &FollowedScript, value: &Known, depth: usize) -> bool {
    matches!(value, Known::Made(_, Some(at)) if is_of_model(script, *at, depth))
}

/// Whether a call makes a model, or wraps one.
fn is_of_model(script: &FollowedScript, at: usize, depth: usize) -> bool {
    let Some(call) = script.seen.get(at).filter(|_| depth < LONGEST_CHAIN) else { return false };
    let wraps = || WRAPPERS.iter().any(|end| call.names.iter().any(|path| path.ends_with(end)));
    call.names.iter().any(|path| is_model_path(path)) && !call.names.iter().any(|path| path.ends_with(".config"))
        || wraps() && call.given.iter().any(|(_, value, _)| is_made_model(script, value, depth + 1))
}

/// Whether a path is that of a call that makes a model: `transformers.AutoModelForCausalLM.from_pretrained`.
fn is_model_path(path: &str) -> bool {
    let (owner, method) = path.rsplit_once('.').unwrap_or(("", path));
    let class = owner.rsplit('.').next().unwrap_or("");
    matches!(method, "from_pretrained" | "from_config") && is_model(class) || method == "get_peft_model"
}
