//! ChatLearn: `python chatlearn/entrypoint.py grpo --config-file TEMPLATE.yaml KEY=VALUE…` (`chatlearn/configs`,
//! `chatlearn/models/fsdp_module.py`, `chatlearn/models/megatron_module.py` of its main branch in 2026).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::trainer::reentrant;
use super::unread::account_for;
use super::{model, rollout};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "ChatLearn of 2026";

/// `OptimizerConfig`, `BaseModelConfig`, `FSDPConfig`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("models.policy_trainer.optimizer.clip_grad", DefaultValue::Number(1.0)),
    ("models.policy_trainer.optimizer.weight_decay", DefaultValue::Number(0.01)),
];

const ROWS: &[SettingRow] = &[
    (&["models.policy_trainer.optimizer.clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["models.policy_trainer.optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["models.policy_trainer.num_gpu"], keys::cluster::num_gpus, SettingKind::Whole),
    (&["runtime_args.train_global_batch_size"], keys::model::batch_size, SettingKind::Whole),
];

const MEGATRON: &[SettingRow] = &[
    (&["models.policy_trainer.tensor_model_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Whole),
    (
        &["models.policy_trainer.pipeline_model_parallel_size"],
        keys::distribution::pipeline_parallel,
        SettingKind::Whole,
    ),
    (&["models.policy_trainer.context_parallel_size"], keys::distribution::context_parallel, SettingKind::Whole),
    (&["models.policy_trainer.expert_model_parallel_size"], keys::distribution::expert_parallel, SettingKind::Several),
    (
        &["models.policy_trainer.expert_tensor_parallel_size"],
        keys::distribution::expert_tensor_parallel,
        SettingKind::Whole,
    ),
    (&["models.policy_trainer.sequence_parallel"], keys::distribution::sequence_parallel, SettingKind::Flag),
    (&["models.policy_trainer.use_distributed_optimizer"], keys::training::distributed_optimizer, SettingKind::Flag),
];

/// What of the trainer changes nothing of a plan: rates, clips of the ratio, what is generated, saved and checked.
const OF_NO_BEARING: [&str; 14] = [
    "generation_batch_size",
    "gpu_per_process",
    "trainable",
    "pos_clip_ratio",
    "neg_clip_ratio",
    "entropy_coef",
    "kl_coef",
    "save_hf",
    "meta_init",
    "train_micro_batch_size",
    "use_group_sequence_policy",
    "max_prompt_tokens_length",
    "max_response_tokens_length",
    "model_provider_module",
];

/// Whether settings are one of its templates.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("models.policy_trainer") && settings.holds("runtime_args")
}

/// Whether the program is its entry, or Pai-Megatron-Patch's beside its models (`examples/qwen3/chatlearn_entrypoint.py`).
pub fn runs(context: &ImportContext) -> bool {
    context.program.path.ends_with("chatlearn/entrypoint.py") || context.program.name() == "chatlearn_entrypoint.py"
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ChatLearn");
    let words = &context.program.words;
    let file = match arguments::read(words).options.first_text(&["config_file", "c"]) {
        Some(path) => context.configuration(&path.value, &mut imported),
        None => {
            imported.unread = Some("the file of --config-file".to_owned());
            None
        }
    };
    let method = words.iter().find(|word| !word.starts_with('-')).filter(|word| *word != "grpo");
    if let Some(method) = method {
        not_modelled(&mut imported, &format!("{method}: another method than GRPO"));
    }
    let given: Vec<String> =
        words.iter().filter(|word| word.contains('=') && !word.starts_with('-')).cloned().collect();
    set(&mut imported, file.unwrap_or_default().with(arguments::overrides(&given)), context);
    imported
}

/// The plan of a template alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ChatLearn");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let mut settings = Settings::defaults(VERSION, DEFAULTS).with(file);
    settings.interpolate();
    let settings = &settings;
    // The engine loads the published checkpoint; Megatron's trainer loads another form of the same.
    let named = settings.first_text(&["models.policy.load", "models.policy_trainer.load"]);
    match named.map(|found| found.map(|path| path.trim_end_matches('/').to_owned())) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no models.policy.load"),
    }
    take(imported, settings, ROWS);
    // `WORLD_SIZE` is the number of its nodes (`scripts/base_env.sh`).
    if imported.get(keys::cluster::num_gpus).is_none() {
        imported.miss(keys::cluster::num_gpus, "models.policy_trainer.num_gpu is no number");
    }
    lengths(imported, settings);
    imported.say(keys::training::attention, "flash", default("attn_implementation flash_attention_2"));
    match settings.text("runtime_args.train_backend").map(|found| found.value).as_deref() {
        Some("megatron") => on_megatron(imported, settings),
        _ => on_fsdp(imported, settings),
    }
    companions(imported, settings);
    for (name, _) in settings.iter() {
        let trained = name.strip_prefix("models.policy_trainer.");
        let other = trained.is_none() && (name.starts_with("models.") || name.starts_with("runtime_args."));
        if other || trained.is_some_and(|name| OF_NO_BEARING.contains(&name) || name.starts_with("free_gpu_memory.")) {
            settings.accept(name);
        }
    }
    account_for(imported, settings);
}

/// A prompt with its answer; a pass holds packed tokens, or so many samples (`split_microbatch`). The tokens are those of
/// all ranks of a sequence.
fn lengths(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |name: &str| settings.whole(name);
    let both = whole("models.policy.max_prompt_tokens_length").zip(whole("models.policy.max_response_tokens_length"));
    if let Some((prompt, answer)) = both {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
    }
    if settings.is("models.policy_trainer.packing") {
        rollout::packed(imported, whole("models.policy_trainer.max_token_in_packing"));
    } else {
        settings.accept("models.policy_trainer.max_token_in_packing");
        imported.set(keys::training::micro_batch_size, whole("runtime_args.train_micro_batch_size"));
    }
}

/// fp32 shards that compute in bf16, every layer recomputed, whatever `gradient_checkpointing` says.
fn on_fsdp(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::model::framework, "pytorch", Origin::Program("runtime_args.train_backend: fsdp".to_owned()));
    imported.say(keys::training::precision, "bf16-mixed", default("MixedPrecisionPolicy(param_dtype=bf16)"));
    imported.say(keys::distribution::reduce_dtype, "fp32", default("MixedPrecisionPolicy(reduce_dtype=fp32)"));
    imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW"));
    imported.say(keys::training::activation_checkpointing, "full", default("gradient_checkpointing_enable()"));
    reentrant::say(imported, Some(Setting::new(true, default("gradient_checkpointing_enable()"))));
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    imported.say(keys::distribution::sharding, "zero3", default("fully_shard(reshard_after_forward=True)"));
    settings.accept("models.policy_trainer.gradient_checkpointing");
    let group = settings.whole("models.policy_trainer.fsdp_size").filter(|found| found.value > 1);
    let total = imported.whole(keys::cluster::num_gpus);
    if group.as_ref().is_some_and(|found| Some(found.value) != total) {
        imported.set(keys::distribution::shard_group, group);
    }
    let several = |found: &Setting<u64>| found.value > 1;
    if let Some(found) = settings.whole("models.policy_trainer.ulysses_sequence_parallel_size").filter(several) {
        imported.set(keys::distribution::context_parallel, Some(found));
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
}

fn on_megatron(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::model::framework, "megatron", Origin::Program("runtime_args.train_backend".to_owned()));
    imported.say(keys::distribution::engine, "megatron", Origin::Program("runtime_args.train_backend".to_owned()));
    take(imported, settings, MEGATRON);
    let sixteen = settings.flag("models.policy_trainer.bf16").is_none_or(|found| found.value);
    imported.say(
        keys::training::precision,
        if sixteen { "bf16-fp32-master" } else { "fp32" },
        default("models.policy_trainer.bf16"),
    );
    imported.say(keys::training::optimizer, "adamw-fused", default("Megatron's Adam"));
    let granularity = settings.text("models.policy_trainer.recompute_granularity");
    let word = match granularity.as_ref().map(|found| found.value.as_str()) {
        Some("full") => "full",
        Some("selective") => "selective",
        _ => "none",
    };
    let origin = granularity.map_or_else(|| default("recompute_granularity null"), |found| found.origin);
    imported.say(keys::training::activation_checkpointing, word, origin);
    for name in ["tokenizer_type", "tokenizer_model", "trust_remote_code", "fsdp_size"] {
        settings.accept(&format!("models.policy_trainer.{name}"));
    }
}

/// The engine on the same GPUs sleeps while the trainer trains, and the trainer's weights and states lie on the host while
/// it generates, where `free_gpu_memory` says so; the reference's weights are on the host but for its pass.
fn companions(imported: &mut ImportedPlan, settings: &Settings) {
    let together = settings.texts("runtime_args.colocation").map(|found| found.value).unwrap_or_default();
    let beside = |name: &str| together.iter().any(|other| other == name);
    if beside("policy") && beside("policy_trainer") {
        let moved = |what: &str| settings.is(&format!("models.policy_trainer.free_gpu_memory.{what}"));
        let all = moved("offload_weights") && moved("offload_optimizer_states");
        let share = settings.number("models.policy.gpu_memory_utilization");
        let why = Origin::Derived("the engine sleeps while the trainer trains".to_owned());
        rollout::engine(imported, share, Setting::new(if all { "nothing" } else { "states" }, why));
    } else {
        imported.note("the engine that generates has GPUs of its own");
    }
    if settings.is("models.ref_policy.free_gpu_memory.offload_weights") {
        imported.note("the reference's weights lie on the host: its pass is not in the time");
    } else if beside("ref_policy") {
        imported.say(keys::training::reference_model, true, default("ref_policy"));
    }
}
