//! SkyRL: `-m skyrl.train.entrypoints.main_base trainer.…=… generator.…=…` (`NovaSky-AI/SkyRL`,
//! `skyrl/train/config/config.py`, `skyrl/backends/skyrl_train/distributed/fsdp_strategy.py`,
//! `skyrl/backends/skyrl_train/workers/megatron/megatron_worker.py` of 2026).

mod sft;

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::origin::{Origin, Setting};
use super::recomputed;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::trainer::reentrant;
use super::unread::account_for;
use super::{adapters, model, rollout};
use crate::plan::keys;
use crate::precision_aware::{self, MegatronRunKind};

/// The version whose defaults are meant.
const VERSION: &str = "SkyRL of 2026";

/// `TrainerConfig`, `PolicyConfig`, `PlacementConfig`, `GeneratorConfig`, `MegatronConfig`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("trainer.strategy", DefaultValue::Text("fsdp")),
    ("trainer.policy_mini_batch_size", DefaultValue::Whole(256)),
    ("trainer.micro_train_batch_size_per_gpu", DefaultValue::Whole(1)),
    ("trainer.max_prompt_length", DefaultValue::Whole(512)),
    ("trainer.gradient_checkpointing", DefaultValue::Flag(true)),
    ("trainer.flash_attn", DefaultValue::Flag(true)),
    ("trainer.placement.colocate_all", DefaultValue::Flag(true)),
    ("trainer.placement.colocate_policy_ref", DefaultValue::Flag(true)),
    ("trainer.placement.policy_num_nodes", DefaultValue::Whole(1)),
    ("trainer.algorithm.use_kl_loss", DefaultValue::Flag(true)),
    ("trainer.policy.optimizer_config.weight_decay", DefaultValue::Number(0.01)),
    ("trainer.policy.optimizer_config.max_grad_norm", DefaultValue::Number(1.0)),
    ("trainer.policy.fsdp_config.reshard_after_forward", DefaultValue::Flag(true)),
    ("generator.n_samples_per_prompt", DefaultValue::Whole(5)),
    ("generator.sampling_params.max_generate_length", DefaultValue::Whole(1024)),
    ("generator.inference_engine.gpu_memory_utilization", DefaultValue::Number(0.8)),
];

const ROWS: &[SettingRow] = &[
    (&["trainer.policy.optimizer_config.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["trainer.policy.optimizer_config.max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["trainer.micro_train_batch_size_per_gpu"], keys::training::micro_batch_size, SettingKind::Whole),
];

const MEGATRON: &str = "trainer.policy.megatron_config";

/// Whether the program takes SkyRL's settings: its own entry point, or one of a project that is built upon it.
pub fn runs(context: &ImportContext) -> bool {
    let begins = |start: &str| context.program.words.iter().any(|word| word.trim_start_matches('+').starts_with(start));
    let skyrl = context.program.path.starts_with("skyrl");
    sft::runs(context)
        || begins("trainer.policy.model.path=") && (skyrl || begins("generator.") || begins("trainer.placement."))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    if sft::runs(context) {
        return sft::import(context);
    }
    let mut imported = ImportedPlan::of("SkyRL");
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(arguments::overrides(&context.program.words));
    policy(&mut imported, settings, context);
    samples(&mut imported, settings);
    companions(&mut imported, settings);
    for (name, _) in settings.iter() {
        let beside = ["generator.", "environment.", "trainer.algorithm.", "trainer.ref.", "trainer.critic", "data."];
        if beside.iter().any(|part| name.starts_with(part)) || OTHERS.contains(&name) || is_detail(name) {
            settings.accept(name);
        }
    }
    account_for(&mut imported, settings);
    imported
}

/// What trains: its model, its GPUs and its strategy.
fn policy(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let program = Origin::Program(context.program.shown());
    match settings.text("trainer.policy.model.path") {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no trainer.policy.model.path"),
    }
    take(imported, settings, ROWS);
    world(imported, settings);
    match settings.text("trainer.strategy").map(|found| found.value).as_deref() {
        Some("megatron") => {
            imported.say(keys::model::framework, "megatron", program);
            on_megatron(imported, settings);
        }
        Some("fsdp" | "fsdp2") => {
            imported.say(keys::model::framework, "pytorch", program);
            on_tensors(imported, settings);
        }
        _ => settings.refuse("trainer.strategy"),
    }
    if let Some(rank) = settings.whole("trainer.policy.model.lora.rank").filter(|found| found.value > 0) {
        adapters::set(imported, Some(rank), (VERSION, 8), None);
        let linear = || Setting::new(vec!["all-linear".to_owned()], default("lora.target_modules all-linear"));
        let targets = settings.texts("trainer.policy.model.lora.target_modules").unwrap_or_else(linear);
        adapters::set_targets(imported, Some(targets));
        let dropout = settings.number("trainer.policy.model.lora.dropout");
        imported.set(keys::lora::dropout, dropout.filter(|found| (0.0..1.0).contains(&found.value)));
        let left_out =
            settings.texts("trainer.policy.model.lora.exclude_modules").filter(|found| !found.value.is_empty());
        if let Some(found) = left_out {
            not_modelled(imported, &format!("{}: modules without adapters", found.origin));
        }
    }
}

/// Passes without gradients, samples of a rollout, and ways of checkpointing, which change nothing of the plan.
const OTHERS: [&str; 8] = [
    "trainer.train_batch_size",
    "trainer.max_ckpts_to_keep",
    "trainer.policy.megatron_config.optimizer_config_kwargs.overlap_cpu_optimizer_d2h",
    "trainer.eval_batch_size",
    "trainer.micro_forward_batch_size_per_gpu",
    "trainer.update_epochs_per_batch",
    "trainer.policy.optimizer_config.offload_after_step",
    "trainer.remove_microbatch_padding",
];

/// What changes nothing of adapters' sizes, where there are any (`train/config/config.py`, `SkyRLLoraConfig`).
fn is_detail(name: &str) -> bool {
    const DETAILS: [&str; 7] =
        ["rank", "alpha", "target_modules", "init_method", "lora_sync_path", "max_loras", "max_cpu_loras"];
    DETAILS.iter().any(|end| name.strip_suffix(end).is_some_and(|section| section.ends_with(".lora.")))
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The policy's GPUs; whoever generates or judges may have others.
fn world(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |name: &str| settings.whole(&format!("trainer.placement.{name}"));
    let one = || Setting::new(1, default("trainer.placement.policy_num_gpus_per_node 1"));
    let told = settings.holds("trainer.placement.policy_num_gpus_per_node");
    let per_node = whole("policy_num_gpus_per_node").or_else(|| (!told).then(one));
    let world = World { total: None, nodes: whole("policy_num_nodes"), per_node }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    imported.miss(keys::cluster::num_gpus, "trainer.placement.policy_num_gpus_per_node is no number");
}

/// fp32 shards under FSDP2 that compute in bf16 and reduce in fp32, `torch.optim.AdamW` over them (`fsdp_strategy.py`,
/// `_fsdp_init_model` and `_fsdp_init_train_model`); log-probabilities are flash-attn's cross-entropy, which writes the gradient
/// over the 16-bit logits (`torch_utils.py`, `logprobs_from_logits`), and no pass waits with its gradients.
fn on_tensors(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::training::precision, "bf16-mixed", default("fp32 shards, MixedPrecisionPolicy bf16"));
    imported.say(keys::distribution::reduce_dtype, "fp32", default("MixedPrecisionPolicy: reduce_dtype"));
    imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW"));
    imported.say(keys::training::loss, "te_fused", default("logprobs_from_logits: flash-attn's cross-entropy"));
    imported.say(keys::distribution::sync_each_micro_batch, true, default("fsdp_strategy.py: no no_sync in it"));
    let flash = settings.flag("trainer.flash_attn");
    imported.set(keys::training::attention, flash.map(|found| found.map(|on| if on { "flash" } else { "sdpa" })));
    let recompute = settings.flag("trainer.gradient_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    let kind = settings.flag("trainer.gradient_checkpointing_use_reentrant");
    let usual = || Setting::new(false, default("gradient_checkpointing_use_reentrant false"));
    reentrant::say(imported, Some(kind.unwrap_or_else(usual)));
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    let reshard = settings.flag("trainer.policy.fsdp_config.reshard_after_forward");
    imported.set(keys::distribution::sharding, reshard.map(|found| found.map(|on| if on { "zero3" } else { "zero2" })));
    let total = imported.whole(keys::cluster::num_gpus);
    let group = settings.whole("trainer.policy.fsdp_config.fsdp_size");
    settings.accept("trainer.policy.fsdp_config.fsdp_size");
    let group = group.filter(|group| group.value > 0 && total.is_none_or(|total| group.value < total));
    imported.set(keys::distribution::shard_group, group);
    let offload = settings.on("trainer.policy.fsdp_config.cpu_offload");
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "parameters")));
    let ulysses = settings.whole("trainer.policy.sequence_parallel_size").filter(|found| found.value > 1);
    if ulysses.is_some() {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
    imported.set(keys::distribution::context_parallel, ulysses);
    for (name, _) in settings.iter().filter(|(name, _)| name.starts_with(MEGATRON)) {
        settings.accept(name);
    }
}

/// Megatron's core under a distributed optimizer; layers are recomputed unless told otherwise.
fn on_megatron(imported: &mut ImportedPlan, settings: &Settings) {
    let degrees: [(&str, &'static str); 5] = [
        ("tensor_model_parallel_size", keys::distribution::tensor_parallel),
        ("pipeline_model_parallel_size", keys::distribution::pipeline_parallel),
        ("context_parallel_size", keys::distribution::context_parallel),
        ("expert_model_parallel_size", keys::distribution::expert_parallel),
        ("expert_tensor_parallel_size", keys::distribution::expert_tensor_parallel),
    ];
    for (name, key) in degrees {
        imported.set(key, settings.whole(&format!("{MEGATRON}.{name}")));
    }
    let split = imported.whole(keys::distribution::tensor_parallel).unwrap_or(1) > 1;
    imported.say(keys::distribution::sequence_parallel, split, default("sequence_parallel with tensor parallelism"));
    imported.say(keys::distribution::engine, "megatron", default("trainer.strategy megatron"));
    imported.say(keys::training::precision, "bf16-fp32-master", default("bf16"));
    imported.say(keys::training::distributed_optimizer, true, default("use_distributed_optimizer"));
    imported.say(keys::training::optimizer, "adamw-fused", default("megatron's adam"));
    let flash = settings.flag("trainer.flash_attn").filter(|found| found.value);
    imported.set(keys::training::attention, flash.map(|found| found.map(|_| "flash")));
    imported.set(keys::training::moe_grouped_gemm, settings.flag(&format!("{MEGATRON}.moe_grouped_gemm")));
    // One that is neither is DeepEP's, or HybridEP's.
    let dispatcher = settings.text(&format!("{MEGATRON}.moe_token_dispatcher_type"));
    let dispatcher = dispatcher.filter(|found| matches!(found.value.as_str(), "allgather" | "alltoall"));
    if imported.whole(keys::distribution::expert_parallel).is_some_and(|degree| degree > 1) {
        imported.set(keys::distribution::moe_dispatcher, dispatcher);
    }
    let section = format!("{MEGATRON}.transformer_config_kwargs");
    let full = || Setting::new("full".to_owned(), default("transformer_config_kwargs.recompute_granularity full"));
    let told = settings.holds(&format!("{section}.recompute_granularity"));
    let granularity = settings.text(&format!("{section}.recompute_granularity"));
    let none = || Setting::new("none".to_owned(), default("recompute_granularity null"));
    let granularity = granularity.filter(|found| !matches!(found.value.as_str(), "null" | "None"));
    let usual = if told { none } else { full };
    imported.set(keys::training::activation_checkpointing, Some(granularity.unwrap_or_else(usual)));
    recomputed::say(imported, settings, |name| format!("{section}.{name}"));
    let section = format!("{MEGATRON}.optimizer_config_kwargs");
    let offload = settings.on(&format!("{section}.optimizer_cpu_offload"));
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "optimizer")));
    let run = MegatronRunKind {
        bf16: true,
        offloaded: settings.is(&format!("{section}.optimizer_cpu_offload")),
        fp8_recipe: None,
        whole_masters: false,
    };
    precision_aware::set(imported, settings, |name| format!("{section}.{name}"), &run);
    const NAMES: [&str; 5] =
        ["recompute_method", "recompute_num_layers", "optimizer_offload_fraction", "moe_router_dtype", "ddp_config"];
    let part = settings.number(&format!("{section}.optimizer_offload_fraction"));
    if offload_in_part(imported, part.map(|part| part.value)) {
        not_modelled(imported, "optimizer_offload_fraction: a part of the states goes to the host");
    }
    for (name, _) in settings.iter().filter(|(name, _)| NAMES.iter().any(|end| name.ends_with(end))) {
        settings.accept(name);
    }
}

fn offload_in_part(imported: &ImportedPlan, part: Option<f64>) -> bool {
    imported.get(keys::training::cpu_offload).is_some() && part.is_some_and(|part| part > 0.0 && part < 1.0)
}

/// A mini batch is counted in prompts, each with its answers; of several turns the whole talk is one sample
/// (`GeneratorConfig.max_input_length`).
fn samples(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |name: &str| settings.whole(name);
    let prompt = whole("generator.max_input_length").or_else(|| whole("trainer.max_prompt_length"));
    if let Some((prompt, answer)) = prompt.zip(whole("generator.sampling_params.max_generate_length")) {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
    }
    if let Some((prompts, answers)) =
        whole("trainer.policy_mini_batch_size").zip(whole("generator.n_samples_per_prompt"))
    {
        let origin = Origin::Derived(format!("{} x {} answers", prompts.origin, answers.value));
        imported.say(keys::model::batch_size, prompts.value.saturating_mul(answers.value), origin);
    }
    // `skyrl/train/trainer.py`, `compute_prompt_mini_batch_boundaries`: a prompt has as many samples as its talks have turns.
    if let Some(found) = settings.on("generator.step_wise_trajectories") {
        imported.drop(keys::model::batch_size);
        let why = format!("{}: each turn of a talk is a sample of its own", found.origin);
        imported.miss(keys::training::gradient_accumulation_steps, why);
    }
    if let Some(tokens) = whole("trainer.max_tokens_per_microbatch").filter(|found| found.value > 0) {
        imported.drop(keys::training::micro_batch_size);
        // The number is a pass's, whatever ranks share it.
        let context = imported.whole(keys::distribution::context_parallel).unwrap_or(1).max(1);
        rollout::packed(imported, Some(tokens.map(|tokens| tokens / context)));
    }
    settings.accept("trainer.max_tokens_per_microbatch");
}

/// A colocated engine sleeps while the policy trains, and the policy lies on the host while it generates; so does the
/// reference, which is there where the divergence is (`skyrl/train/trainer.py`, `offload_to_cpu`).
fn companions(imported: &mut ImportedPlan, settings: &Settings) {
    let colocated = settings.is("trainer.placement.colocate_all");
    if colocated {
        let names = ["generator.gpu_memory_utilization", "generator.inference_engine.gpu_memory_utilization"];
        let share = names.iter().find_map(|name| settings.number(name));
        let why = Origin::Derived("trainer.placement.colocate_all: the policy is on the host meanwhile".to_owned());
        rollout::engine(imported, share, Setting::new("nothing", why));
    } else {
        imported.note("the engine that generates has GPUs of its own");
    }
    let divergence = ["use_kl_loss", "use_kl_in_reward"];
    let reference = divergence.iter().any(|name| settings.is(&format!("trainer.algorithm.{name}")));
    if reference && (colocated || settings.is("trainer.placement.colocate_policy_ref")) {
        imported.note("the reference's weights lie on the host while the policy trains: its pass is not in the time");
    }
    for name in ["colocate_policy_ref", "ref_num_nodes", "ref_num_gpus_per_node"] {
        settings.accept(&format!("trainer.placement.{name}"));
    }
    if settings.text("trainer.algorithm.advantage_estimator").is_some_and(|found| found.value == "gae") {
        return not_modelled(imported, "the critic");
    }
    // Where a critic would be.
    for name in ["critic_num_nodes", "critic_num_gpus_per_node"] {
        settings.accept(&format!("trainer.placement.{name}"));
    }
}
