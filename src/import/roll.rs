//! ROLL's configurations (`roll/configs/*.py`, `roll/distributed/strategy/*.py`, `mcore_adapter/training_args.py` of 2026):
//! each role has a strategy and the GPUs of its `device_mapping`; its states go to the host while another role works.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::recomputed;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, model, rollout, vision};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "ROLL of 2026";

/// Roles that train, by the pipelines' names for them.
const ROLES: [&str; 4] = ["actor_train", "student_train", "sft_train", "dpo_train"];

/// `TrainingArguments`, `ModelArguments` and `PPOConfig`, below the role that trains.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("training_args.per_device_train_batch_size", DefaultValue::Whole(8)),
    ("training_args.gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("training_args.weight_decay", DefaultValue::Number(0.0)),
];

const ROWS: &[SettingRow] = &[
    (&["training_args.per_device_train_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["training_args.gradient_accumulation_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["training_args.weight_decay"], keys::training::weight_decay, SettingKind::Share),
];

const CORE: &[SettingRow] = &[
    (&["tensor_model_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Whole),
    (&["pipeline_model_parallel_size"], keys::distribution::pipeline_parallel, SettingKind::Whole),
    (&["context_parallel_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["expert_model_parallel_size"], keys::distribution::expert_parallel, SettingKind::Several),
    (&["expert_tensor_parallel_size"], keys::distribution::expert_tensor_parallel, SettingKind::Whole),
    (&["virtual_pipeline_model_parallel_size"], keys::distribution::virtual_pipeline, SettingKind::Several),
    (&["sequence_parallel"], keys::distribution::sequence_parallel, SettingKind::Flag),
    (&["use_distributed_optimizer"], keys::training::distributed_optimizer, SettingKind::Flag),
    (&["overlap_grad_reduce"], keys::distribution::overlap_grad_reduce, SettingKind::Flag),
    (&["moe_grouped_gemm"], keys::training::moe_grouped_gemm, SettingKind::Flag),
];

/// The role that trains.
fn role(settings: &Settings) -> Option<&'static str> {
    ROLES.iter().find(|role| settings.holds(&format!("{role}.strategy_args.strategy_name"))).copied()
}

/// Whether settings are ROLL's.
pub fn is_config(settings: &Settings) -> bool {
    role(settings).is_some_and(|role| settings.holds(&format!("{role}.device_mapping")))
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a file.
pub fn of_file(mut file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ROLL");
    file.interpolate();
    let Some(role) = role(&file) else { return imported };
    let own = &Settings::defaults(VERSION, DEFAULTS).with(file.below(role));
    let named = own.text("model_args.model_name_or_path").or_else(|| file.text("pretrain"));
    match named {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no pretrain"),
    }
    take(&mut imported, own, ROWS);
    lengths(&mut imported, &file);
    let norm = file.number("max_grad_norm").map(|found| found.map(|norm| norm > 0.0));
    let usual = || Setting::new(true, default("max_grad_norm 1.0"));
    imported.set(keys::training::gradient_clipping, Some(norm.unwrap_or_else(usual)));
    let gpus = own
        .get("device_mapping")
        .and_then(|found| Some(Setting::new(devices(&found.value.to_string())?.len() as u64, found.origin.clone())));
    imported.set(keys::cluster::num_gpus, gpus);
    imported.miss(keys::cluster::num_gpus, format!("{role}.device_mapping is no list of numbers"));
    // `default_actor_model_provider`: the class for pictures and text where the checkpoint has one.
    vision::whole(&mut imported);
    let strategy = own.text("strategy_args.strategy_name").map(|found| found.value).unwrap_or_default();
    match strategy.as_str() {
        "megatron_train" => on_megatron(&mut imported, own),
        "fsdp2_train" => on_fsdp(&mut imported, own),
        "deepspeed_train" => on_deepspeed(&mut imported, own),
        other => {
            not_modelled(&mut imported, &format!("the strategy {other}"));
            imported.unread = Some(format!("the strategy {other}"));
        }
    }
    attention(&mut imported, own);
    low_rank(&mut imported, own);
    if own.is("use_dynamic_batching_in_train") {
        imported.drop(keys::training::micro_batch_size);
        imported.drop(keys::training::gradient_accumulation_steps);
        rollout::packed(&mut imported, own.whole("max_tokens_per_microbatch_in_train"));
    }
    if file.holds("chosen_key") {
        TrainingMethod::Pairs.apply(&mut imported);
    }
    if file.is("is_offload_optimizer_states_in_train_step") {
        not_modelled(&mut imported, "optimizer states that go to the host within a step");
    }
    let frozen = own.text("model_args.freeze_module_prefix");
    if let Some(tower) = imported.tower.as_mut() {
        tower.frozen |= frozen.is_some_and(|found| found.value.contains("vision"));
        own.accept("model_args.freeze_module_prefix");
    }
    companions(&mut imported, &file, role);
    let quiet = [
        "data_args",
        "generating_args",
        "device_mapping",
        "infer_batch_size",
        "use_sequence_packing",
        "sequence_length_round",
    ];
    for (name, _) in own.iter() {
        if quiet.iter().any(|part| name.starts_with(part)) || name.ends_with("_infer") {
            own.accept(name);
        }
    }
    for name in [
        "model_args.dtype",
        "model_args.model_type",
        "use_dynamic_batching_in_train",
        "training_args.lr_scheduler_type",
    ] {
        own.accept(name);
    }
    account_for(&mut imported, own);
    let mut whole = Settings::default();
    whole.adopt_all(&file, |name| (!name.contains('.') && !OF_NO_BEARING.contains(&name)).then(|| name.to_owned()));
    account_for(&mut imported, &whole);
    imported
}

/// What the pipeline is told of its sampling and its losses (`roll/configs/base_config.py`, `roll/pipeline/*_config.py`).
const OF_NO_BEARING: [&str; 28] = [
    "pretrain",
    "reward_pretrain",
    "num_gpus_per_node",
    "rollout_batch_size",
    "num_return_sequences_in_group",
    "ppo_epochs",
    "adv_estimator",
    "advantage_clip",
    "value_clip",
    "whiten_advantages",
    "add_token_level_kl",
    "dual_clip_loss",
    "norm_mean_type",
    "norm_std_type",
    "difficulty_mask",
    "is_num_return_sequences_expand",
    "max_running_requests",
    "generate_opt_level",
    "init_kl_coef",
    "use_kl_loss",
    "kl_loss_coef",
    "entropy_loss_coef",
    "loss_agg_mode",
    "sequence_length",
    "prompt_length",
    "response_length",
    "async_generation_ratio",
    "max_additional_running_prompts",
];

/// No mapping has more.
const MOST_GPUS: u64 = 1 << 20;

/// The GPUs of a mapping: `list(range(0,8))`, `[0, 1]`, several of the former with a plus between.
fn devices(text: &str) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    let text = text.trim_matches('"');
    if !text.contains("range(") {
        let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
        return inner.split(',').map(|part| part.trim().parse().ok()).collect();
    }
    for part in text.split("range(").skip(1) {
        let (inner, _) = part.split_once(')')?;
        let numbers: Option<Vec<u64>> = inner.split(',').map(|number| number.trim().parse().ok()).collect();
        match numbers?.as_slice() {
            [end] if *end <= MOST_GPUS => found.extend(0..*end),
            [start, end] if *end <= MOST_GPUS => found.extend(*start..*end),
            _ => return None,
        }
    }
    Some(found)
}

/// A sample is a prompt with its answer, or of `sequence_length`.
fn lengths(imported: &mut ImportedPlan, file: &Settings) {
    let both = file.whole("prompt_length").zip(file.whole("response_length"));
    let sum = both.map(|(prompt, answer)| {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        Setting::new(prompt.value.saturating_add(answer.value), origin)
    });
    imported.set(keys::model::sequence_length, file.whole("sequence_length").or(sum));
}

fn on_megatron(imported: &mut ImportedPlan, own: &Settings) {
    let config = &own.below("strategy_args.strategy_config");
    imported.say(keys::model::framework, "megatron", Origin::Program("megatron_train".to_owned()));
    imported.say(keys::distribution::engine, "megatron", Origin::Program("megatron_train".to_owned()));
    imported.say(keys::training::precision, "bf16-fp32-master", default("model_args.dtype bf16"));
    imported.say(keys::training::optimizer, "adamw-fused", default("megatron's adam"));
    imported.say(keys::training::distributed_optimizer, false, default("use_distributed_optimizer false"));
    take(imported, config, CORE);
    pipeline(imported, config);
    let none = || Setting::new("none".to_owned(), default("no recompute_granularity"));
    match (config.text("recompute_granularity"), config.on("moe_layer_recompute")) {
        // `transformer_config.py`: it stands for the module of that name.
        (None, Some(found)) => {
            let modules = found.map(|_| serde_json::json!({"modules": ["moe"]}));
            imported.set(keys::training::activation_checkpointing, Some(modules));
        }
        (told, _) => imported.set(keys::training::activation_checkpointing, Some(told.unwrap_or_else(none))),
    }
    recomputed::say(imported, config, str::to_owned);
    for (name, _) in own.iter() {
        let known = CORE.iter().any(|(names, ..)| names.iter().any(|one| name.ends_with(one)));
        if known || name.contains("recompute") || name.ends_with("moe_token_dispatcher_type") {
            own.accept(name);
        }
    }
    // What is counted anyway.
    if config.is("bf16") {
        own.accept("strategy_args.strategy_config.bf16");
    }
    own.accept("model_args.disable_gradient_checkpointing");
}

/// Stages and their pieces; embedding and loss count as a layer each where both are told so.
fn pipeline(imported: &mut ImportedPlan, config: &Settings) {
    if imported.whole(keys::distribution::pipeline_parallel).is_none_or(|stages| stages < 2) {
        return;
    }
    let pieces = imported.whole(keys::distribution::virtual_pipeline).is_some_and(|pieces| pieces > 1);
    let word = if pieces { "interleaved" } else { "1f1b" };
    imported.say(keys::distribution::pipeline_schedule, word, default("mcore's schedules"));
    let both = ["account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"];
    let told = config.on(both[0]).filter(|_| config.is(both[1]));
    imported.set(keys::distribution::pipeline_counts_embedding_and_loss, told);
}

/// Weights lie in `param_dtype`, in fp32 without it (`_prepare_fsdp2_model`), and `AdamW` steps them as they are.
fn on_fsdp(imported: &mut ImportedPlan, own: &Settings) {
    let config = &own.below("strategy_args.strategy_config");
    imported.say(keys::model::framework, "pytorch", Origin::Program("fsdp2_train".to_owned()));
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    let whole = config.flag("reshard_after_forward").is_none_or(|found| found.value);
    imported.say(keys::distribution::sharding, if whole { "zero3" } else { "zero2" }, default("reshard_after_forward"));
    let stored = config.text("param_dtype").map(|found| match found.value.as_str() {
        "bf16" | "bfloat16" => found.map(|_| "bf16"),
        "fp16" | "float16" => found.map(|_| "fp16"),
        _ => found.map(|_| "fp32"),
    });
    let usual = || Setting::new("bf16-mixed", default("no param_dtype: fp32 shards, computing in bf16"));
    imported.set(keys::training::precision, Some(stored.unwrap_or_else(usual)));
    imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW"));
    let reduced =
        config.text("reduce_dtype").unwrap_or_else(|| Setting::new("fp32".to_owned(), default("reduce_dtype float32")));
    let reduced = reduced.map(|name| if name.starts_with("bf") { "bf16" } else { "fp32" });
    imported.set(keys::distribution::reduce_dtype, Some(reduced));
    imported.set(keys::training::cpu_offload, config.on("offload_policy").map(|found| found.map(|_| "parameters")));
    let ulysses = own.whole("model_args.ulysses_size").filter(|found| found.value > 1);
    if let Some(found) = ulysses {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
        imported.set(keys::distribution::context_parallel, Some(found));
    }
    let gpus = imported.whole(keys::cluster::num_gpus);
    let group =
        config.whole("fsdp_size").filter(|found| found.value > 0 && gpus.is_some_and(|gpus| found.value < gpus));
    imported.set(keys::distribution::shard_group, group);
    recomputed(imported, own);
    own.accept("strategy_args.strategy_config.fsdp_size");
    for (name, _) in own.iter().filter(|(name, _)| name.starts_with("strategy_args.strategy_config")) {
        let known = ["param_dtype", "reduce_dtype", "wrap_policy", "reshard", "offload_policy", "update"];
        if known.iter().any(|part| name.contains(part)) {
            own.accept(name);
        }
    }
}

/// `${deepspeed_zero3_cpuoffload}`: a stage of ROLL's own, by its name.
fn on_deepspeed(imported: &mut ImportedPlan, own: &Settings) {
    imported.say(keys::model::framework, "pytorch", Origin::Program("deepspeed_train".to_owned()));
    imported.say(keys::distribution::engine, "deepspeed", Origin::Program("deepspeed_train".to_owned()));
    imported.say(keys::training::precision, "bf16-fp32-master", default("bf16.enabled true"));
    imported.say(keys::training::optimizer, "adamw-fused", default("FusedAdam"));
    let named = own.text("strategy_args.strategy_config");
    let stage = named.and_then(|found| {
        found.and_then(|name| match name.split_once("zero")?.1.chars().next()? {
            '2' => Some("zero2"),
            '3' => Some("zero3"),
            _ => None,
        })
    });
    imported.set(keys::distribution::sharding, stage);
    imported.miss(keys::distribution::sharding, "strategy_config names no stage of ROLL's");
    if own.text("strategy_args.strategy_config").is_some_and(|found| found.value.contains("offload")) {
        imported.say(keys::training::cpu_offload, "optimizer", default("a stage with cpuoffload"));
    }
    recomputed(imported, own);
}

fn recomputed(imported: &mut ImportedPlan, own: &Settings) {
    let off = own.flag("model_args.disable_gradient_checkpointing");
    let off = off.unwrap_or_else(|| Setting::new(false, default("disable_gradient_checkpointing false")));
    imported.set(keys::training::activation_checkpointing, Some(off.map(|off| if off { "none" } else { "full" })));
}

fn attention(imported: &mut ImportedPlan, own: &Settings) {
    let named = own.text("model_args.attn_implementation");
    if named.is_some() {
        // None of its fields, which `from_dict` leaves out (`roll/configs/model_args.py`).
        own.accept("model_args.flash_attn");
    }
    let word = named.map(|found| match found.value.as_str() {
        "fa2" => found.map(|_| "flash"),
        _ => found.map(|_| "sdpa"),
    });
    let core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
    let usual = || Setting::new(if core { "flash" } else { "sdpa" }, default("attn_implementation"));
    imported.set(keys::training::attention, Some(word.unwrap_or_else(usual)));
}

fn low_rank(imported: &mut ImportedPlan, own: &Settings) {
    let Some(rank) = own.whole("model_args.lora_rank").filter(|found| found.value > 0) else { return };
    adapters::set(imported, Some(rank), (VERSION, 8), None);
    let targets = own.texts("model_args.lora_target").map(|found| {
        found.map(|names| {
            let split = names.iter().flat_map(|name| name.split(',')).map(|name| name.trim().to_owned());
            split.collect::<Vec<_>>()
        })
    });
    adapters::set_targets(imported, targets);
    own.accept("model_args.lora_alpha");
}

/// The engine of the rollout sleeps or has GPUs of its own; reference and critic are on the host while the actor trains.
fn companions(imported: &mut ImportedPlan, file: &Settings, role: &str) {
    let infer = if role == "student_train" { "student_infer" } else { "actor_infer" };
    if file.holds("reference.strategy_args") || file.holds("critic.strategy_args") || file.holds("teacher") {
        imported.note(
            "reference, critic and teacher are on the host while the model trains: their passes are not in the time",
        );
    }
    let list =
        |role: &str| file.get(&format!("{role}.device_mapping")).and_then(|found| devices(&found.value.to_string()));
    let Some(engine) = list(infer) else { return };
    let shared = list(role).is_some_and(|own| own.iter().any(|one| engine.contains(one)));
    if !shared {
        return imported.note("the engine of the rollout has GPUs of its own: the plan has those that train");
    }
    let names = ["gpu_memory_utilization", "mem_fraction_static"];
    let config = format!("{infer}.strategy_args.strategy_config");
    let share = names.iter().find_map(|name| file.number(&format!("{config}.{name}")));
    let why = Origin::Derived(format!("{infer} shares GPUs with {role}, whose states go to the host meanwhile"));
    rollout::engine(imported, share, Setting::new("nothing", why));
}

#[cfg(test)]
mod tests {
    use super::devices;

    #[test]
    fn mappings_are_counted() {
        for (text, told) in [
            ("list(range(0,16))", Some(16)),
            ("list(range(0,8)) + list(range(12,16))", Some(12)),
            ("[0, 1, 5]", Some(3)),
            ("list(range(0,n))", None),
        ] {
            assert_eq!(devices(text).map(|all| all.len()), told, "{text}");
        }
    }
}
