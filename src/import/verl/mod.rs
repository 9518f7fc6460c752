//! verl: `-m verl.trainer.main_ppo KEY=VALUE…` and its supervised trainers (`verl/trainer/config` at b178a3cd).

mod companions;
mod core;
mod pools;
mod supervised;

use crate::arguments;
use crate::common::ImportContext;
use crate::imported::ImportedPlan;
use crate::launch::World;
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::rows::{SettingKind, SettingRow, not_modelled, take};
use crate::settings::{DefaultValue, Settings};
use crate::unread::account_for;
use crate::{adapters, liger, model, rollout, vision};

/// The version whose defaults are meant.
const VERSION: &str = "verl 0.7";

const SFT: &[(&str, DefaultValue)] = &[
    ("data.train_batch_size", DefaultValue::Whole(256)),
    ("data.micro_batch_size_per_gpu", DefaultValue::Whole(4)),
    ("data.max_length", DefaultValue::Whole(1024)),
    ("model.enable_gradient_checkpointing", DefaultValue::Flag(true)),
    ("model.strategy", DefaultValue::Text("fsdp2")),
    ("model.fsdp_config.model_dtype", DefaultValue::Text("fp32")),
    ("optim.weight_decay", DefaultValue::Number(0.01)),
    ("optim.clip_grad", DefaultValue::Number(1.0)),
];

const PPO: &[(&str, DefaultValue)] = &[
    ("data.max_prompt_length", DefaultValue::Whole(512)),
    ("data.max_response_length", DefaultValue::Whole(512)),
    ("actor_rollout_ref.actor.ppo_mini_batch_size", DefaultValue::Whole(256)),
    ("actor_rollout_ref.rollout.n", DefaultValue::Whole(1)),
    ("actor_rollout_ref.model.enable_gradient_checkpointing", DefaultValue::Flag(true)),
    ("actor_rollout_ref.actor.strategy", DefaultValue::Text("fsdp")),
    ("actor_rollout_ref.actor.optim.weight_decay", DefaultValue::Number(0.01)),
    ("actor_rollout_ref.actor.grad_clip", DefaultValue::Number(1.0)),
    ("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", DefaultValue::Whole(16384)),
    ("actor_rollout_ref.rollout.gpu_memory_utilization", DefaultValue::Number(0.5)),
    ("trainer.nnodes", DefaultValue::Whole(1)),
    ("trainer.n_gpus_per_node", DefaultValue::Whole(8)),
];

const PPO_ROWS: &[SettingRow] = &[
    (&["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["actor_rollout_ref.actor.optim.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["actor_rollout_ref.actor.grad_clip"], keys::training::gradient_clipping, SettingKind::Clipped),
    (
        &["actor_rollout_ref.actor.ulysses_sequence_parallel_size"],
        keys::distribution::context_parallel,
        SettingKind::Several,
    ),
];

/// How verl trains here: `sft` or `ppo`.
fn method(context: &ImportContext) -> Option<&'static str> {
    let path = context.program.path.trim_end_matches(".py").replace('/', ".");
    let last = path.rsplit('.').next().unwrap_or("");
    let own = path.starts_with("verl.") || path.contains(".verl.") || path.starts_with("recipe.");
    let keys = context.program.words.iter().any(|word| word.starts_with("actor_rollout_ref."));
    if keys {
        return Some("ppo");
    }
    // A project's own trainer after verl's, which asks for the same names.
    let after = context.program.words.iter().any(|word| word.starts_with("model.partial_pretrain="));
    ((own && matches!(last, "fsdp_sft_trainer" | "sft_trainer" | "sft_trainer_ray"))
        || (after && last == "fsdp_sft_trainer"))
        .then_some("sft")
        .or_else(|| (own && last.starts_with("main_")).then_some("ppo"))
}

/// Whether the program is verl.
pub fn runs(context: &ImportContext) -> bool {
    method(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("verl");
    let given = arguments::read(&context.program.words);
    let named = given.options.first_text(&["config_name"]);
    let settings =
        configured(&mut imported, context, &given.options).with(arguments::overrides(&context.program.words));
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    if method(context) == Some("sft") {
        supervised::set(&mut imported, Settings::defaults(VERSION, SFT).with(settings), context);
    } else {
        let megatron = named.is_some_and(|found| found.value.contains("megatron"));
        actor(&mut imported, Settings::defaults(VERSION, PPO).with(settings), megatron, context);
    }
    imported
}

/// The configuration that a run names, over verl's own where that stands in one file beside it (up to 0.4): an older
/// version has other defaults.
fn configured(imported: &mut ImportedPlan, context: &ImportContext, options: &Settings) -> Settings {
    const OWN: [&str; 4] = ["ppo_trainer", "ppo_megatron_trainer", "sft_trainer", "sft_trainer_engine"];
    let name = options.text("config_name").map(|found| found.value.trim_end_matches(".yaml").to_owned());
    let usual = if method(context) == Some("sft") { "sft_trainer" } else { "ppo_trainer" };
    if ["config", "config_name"].iter().any(|name| options.get(name).is_some() && options.text(name).is_none()) {
        imported.note("not understood: which configuration the command names (--config-name)");
        imported.unread = Some("the configuration that the command names".to_owned());
    }
    let mut settings = Settings::default();
    let base = name.as_deref().filter(|name| OWN.contains(name)).unwrap_or(usual);
    // hydra's `config_path="config"`: beside the module that runs.
    let module = context.program.path.trim_end_matches(".py").replace('.', "/");
    let folder = module.rsplit_once('/').map_or("verl/trainer", |(folder, _)| folder);
    let beside = format!("{folder}/config/{base}.yaml");
    let path = match context.run.files.read(&beside) {
        Ok(_) => beside,
        Err(_) => format!("verl/trainer/config/{base}.yaml"),
    };
    if context.run.files.read(&path).is_ok()
        && let Some(file) = context.settings(&path, imported)
    {
        // Before that key it was FSDP's first version.
        for key in ["model.strategy", "actor_rollout_ref.actor.strategy"] {
            if !file.holds(key) {
                let option = format!("{path}: no {key}");
                settings.set(key, "fsdp".into(), Origin::Default { framework: "verl's own file", option });
            }
        }
        settings.over(file.as_defaults("verl's own file"));
    }
    // Forks of old versions: `-m verl.trainer.main --config FILE`.
    if let Some(path) = options.text("config") {
        return match context.configuration(&path.value, imported) {
            Some(file) => settings.with(file),
            None => settings,
        };
    }
    let Some(name) = name.filter(|name| !OWN.contains(&name.as_str())) else { return settings };
    let folder = options.text("config_path").map_or("config".to_owned(), |found| found.value);
    match context.configuration(&format!("{folder}/{name}.yaml"), imported) {
        Some(file) => settings.with(file),
        None => settings,
    }
}

/// Whether settings are a configuration of verl's for reinforcement learning.
pub fn is_config(settings: &Settings) -> bool {
    let actor =
        settings.holds("actor_rollout_ref.actor.ppo_mini_batch_size") && settings.holds("actor_rollout_ref.rollout");
    actor || is_supervised(settings)
}

/// Whether settings are those of `fsdp_sft_trainer.py`.
fn is_supervised(settings: &Settings) -> bool {
    settings.holds("model.partial_pretrain") && settings.holds("data.train_batch_size")
}

/// The plan of a configuration alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("verl");
    imported.say(keys::model::framework, "pytorch", Origin::Program("verl's own keys".to_owned()));
    if is_supervised(&file) {
        let mut settings = Settings::defaults(VERSION, SFT);
        if !file.holds("model.strategy") {
            settings.set("model.strategy", "fsdp".into(), default("a file without model.strategy"));
        }
        supervised::set(&mut imported, settings.with(file), context);
    } else {
        actor(&mut imported, Settings::defaults(VERSION, PPO).with(file), false, context);
    }
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// What both trainers do: FSDP over fp32 shards, computing in bf16.
fn shared(
    imported: &mut ImportedPlan,
    recompute: Option<Setting<bool>>,
    dtype: Option<Setting<String>>,
    strategy: Option<Setting<String>>,
) {
    let recompute = recompute.map(|found| found.map(|on| if on { "full" } else { "none" }));
    imported.set(keys::training::activation_checkpointing, recompute);
    let word = dtype.filter(|found| found.value.starts_with("bf")).map(|found| found.map(|_| "bf16"));
    // Gradients are summed in fp32 whatever the weights are (`verl/workers/fsdp_workers.py`).
    imported.say(keys::distribution::reduce_dtype, "fp32", default("MixedPrecision: reduce_dtype"));
    imported.set(
        keys::training::precision,
        Some(word.unwrap_or_else(|| Setting::new("bf16-mixed", default("fp32 shards, MixedPrecision bf16")))),
    );
    imported.say(keys::training::attention, "flash", default("attn_implementation flash_attention_2"));
    imported.say(keys::distribution::sharding, "zero3", default("FSDP FULL_SHARD"));
    // `dp_actor.py`, `update_policy`; `fsdp_sft_trainer.py`, `training_step`.
    imported.say(keys::distribution::sync_each_micro_batch, true, default("no no_sync in its loops"));
    let engine = strategy.and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "fsdp" => Some("fsdp1"),
            "fsdp2" => Some("fsdp2"),
            _ => None,
        })
    });
    imported.set(keys::distribution::engine, engine);
    if imported.get(keys::distribution::context_parallel).is_some() {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
}

/// `optim.optimizer` of the module `optim.optimizer_impl` (`verl/workers/config/optimizer.py`, `build_optimizer`).
fn optimizer(imported: &mut ImportedPlan, settings: &Settings, section: &str) {
    let (name, module) = (format!("{section}.optimizer"), format!("{section}.optimizer_impl"));
    let module = settings.text(&module).map_or("torch.optim".to_owned(), |found| found.value);
    let Some(found) = settings.text(&name) else {
        return imported.say(keys::training::optimizer, "adamw", default("torch.optim.AdamW"));
    };
    let word = match (module.as_str(), found.value.as_str()) {
        ("torch.optim", "AdamW" | "Adam") => "adamw",
        ("bitsandbytes.optim", "AdamW8bit") => "adamw-8bit",
        _ => {
            settings.refuse(&name);
            return imported.miss(keys::training::optimizer, format!("{} has no word in a plan", found.origin));
        }
    };
    imported.set(keys::training::optimizer, Some(found.map(|_| word)));
}

/// `model.override_config.attn_implementation`, which goes over FlashAttention 2.
fn attention(imported: &mut ImportedPlan, settings: &Settings, section: &str) {
    liger::switched(imported, settings, &format!("{section}.use_liger"));
    // Also beside it, which only forks ask for.
    let names = ["override_config.attn_implementation", "attn_implementation"].map(|name| format!("{section}.{name}"));
    let found = names.iter().find_map(|name| settings.text(name).or_else(|| settings.text(&format!("+{name}"))));
    let word = found.map(|found| found.map(|name| crate::trainer::implementation(&name)));
    imported.set(keys::training::attention, word);
}

fn low_rank(imported: &mut ImportedPlan, settings: &Settings, section: &str) {
    let Some(rank) = settings.whole(&format!("{section}.lora_rank")).filter(|found| found.value > 0) else { return };
    adapters::set(imported, Some(rank), (VERSION, 8), None);
    let targets = settings.texts(&format!("{section}.target_modules"));
    let targets =
        targets.unwrap_or_else(|| Setting::new(vec!["all-linear".to_owned()], default("target_modules all-linear")));
    adapters::set_targets(imported, Some(targets));
}

/// How long a sample is: a prompt with its answer.
fn samples(imported: &mut ImportedPlan, settings: &Settings) {
    // Where a search answers in between, the first prompt and all that follows, both cut (`PeterGriffinJin/Search-R1`,
    // `search_r1/llm_agent/generation.py`, `_compose_final_output`).
    let searches =
        settings.is_set("data.max_start_length") && settings.flag("do_search").is_none_or(|found| found.value);
    let parts = if searches {
        ["data.max_start_length", "data.max_prompt_length"]
    } else {
        ["data.max_prompt_length", "data.max_response_length"]
    };
    let [first, second] = parts.map(|name| settings.whole(name));
    settings.accept("data.max_response_length");
    if searches {
        // Cut before it joins the talk, which is cut as a whole.
        settings.accept("data.max_obs_length");
    }
    let sum = first.zip(second);
    if let Some((prompt, answer)) = sum {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
    }
}

/// The actor of a reinforcement learning run; Ray starts it on every GPU of the pool.
fn actor(imported: &mut ImportedPlan, settings: Settings, megatron: bool, context: &ImportContext) {
    let settings = &settings;
    match settings.text("actor_rollout_ref.model.path") {
        Some(found) => {
            model::set(imported, context, found);
            // `get_hf_auto_model_class`: the class for pictures and text where the checkpoint has one.
            vision::whole(imported);
        }
        None => imported.miss(keys::model::preset, "no actor_rollout_ref.model.path"),
    }
    samples(imported, settings);
    let prompts = settings.whole("actor_rollout_ref.actor.ppo_mini_batch_size");
    if let Some((prompts, answers)) = prompts.zip(settings.whole("actor_rollout_ref.rollout.n")) {
        let origin = Origin::Derived(format!("{} x {} answers ({})", prompts.origin, answers.value, answers.origin));
        imported.say(keys::model::batch_size, prompts.value.saturating_mul(answers.value), origin);
    }
    take(imported, settings, PPO_ROWS);
    if settings.is("actor_rollout_ref.actor.use_dynamic_bsz") {
        imported.drop(keys::training::micro_batch_size);
        rollout::packed(imported, settings.whole("actor_rollout_ref.actor.ppo_max_token_len_per_gpu"));
    }
    pools::say(imported, settings, context);
    if settings.text("trainer.device").is_some_and(|found| found.value == "npu") {
        not_modelled(imported, "trainer.device npu: the run is on NPUs, the plan on GPUs");
    }
    let nodes = settings.whole("trainer.nnodes");
    // An asynchronous pipeline (`agentica-project/rllm`, its verl) trains on a part of a node, the rest generates.
    let per_node = settings.first_whole(&["trainer.n_training_gpus_per_node", "trainer.n_gpus_per_node"]);
    let world = World { total: None, nodes, per_node }.completed();
    // The old name means the samples of all ranks.
    let ulysses = imported.whole(keys::distribution::context_parallel).unwrap_or(1);
    let ranks = world.total.as_ref().map_or(1, |found| found.value) / ulysses;
    let all = settings.whole("actor_rollout_ref.actor.ppo_micro_batch_size");
    let dynamic = settings.is("actor_rollout_ref.actor.use_dynamic_bsz");
    if world.total.is_none() && all.is_some() {
        imported
            .miss(keys::training::micro_batch_size, "ppo_micro_batch_size is of all ranks, whose number is unknown");
    } else if imported.get(keys::training::micro_batch_size).is_none() && !dynamic {
        let share = all.clone().and_then(|found| found.and_then(|all| all.checked_div(ranks)));
        let share = share.filter(|found| found.value > 0);
        if let (None, Some(all)) = (&share, &all) {
            let why = format!("{} {} is of all {ranks} ranks: less than one each", all.origin, all.value);
            imported.miss(keys::training::micro_batch_size, why);
        }
        imported.set(keys::training::micro_batch_size, share);
    }
    imported.miss(keys::training::micro_batch_size, "no actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu");
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    imported.miss(keys::cluster::num_gpus, "trainer.nnodes or trainer.n_gpus_per_node is no number");
    // Logits in parts, made again in the backward pass (`verl/utils/experimental/torch_functional.py`, `FusedLinearForPPO`; under
    // Megatron `verl/utils/kernel/linear_cross_entropy.py`, by `verl/models/mcore/model_forward_fused.py`).
    let fused = settings.on("actor_rollout_ref.model.use_fused_kernels");
    let told = settings.text("actor_rollout_ref.actor.strategy");
    if megatron || told.is_some_and(|found| found.value == "megatron") {
        core::set(imported, settings);
        core::low_rank(imported, settings);
    } else {
        low_rank(imported, settings, "actor_rollout_ref.model");
        // Fewer than all ranks share a copy, the others hold it again (`fsdp_workers.py`, `create_device_mesh`).
        let size = settings.whole("actor_rollout_ref.actor.fsdp_config.fsdp_size");
        settings.accept("actor_rollout_ref.actor.fsdp_config.fsdp_size");
        let total = imported.whole(keys::cluster::num_gpus);
        let size = size.filter(|size| size.value > 0 && total.is_none_or(|total| size.value < total));
        imported.set(keys::distribution::shard_group, size);
        let recompute = settings.flag("actor_rollout_ref.model.enable_gradient_checkpointing");
        let dtype = settings.text("actor_rollout_ref.actor.fsdp_config.model_dtype");
        // The engine's own, which `actor.strategy` goes over (`verl/workers/fsdp_workers.py`, `ActorRolloutRefWorker`).
        settings.accept("actor_rollout_ref.actor.fsdp_config.strategy");
        core::accept_bf16(settings, "actor_rollout_ref.actor.fsdp_config.dtype");
        shared(imported, recompute, dtype, settings.text("actor_rollout_ref.actor.strategy"));
        // `get_sharding_strategy`: SHARD_GRAD_OP.
        let kept = settings.flag("actor_rollout_ref.actor.fsdp_config.reshard_after_forward");
        imported.set(keys::distribution::sharding, kept.filter(|on| !on.value).map(|found| found.map(|_| "zero2")));
        attention(imported, settings, "actor_rollout_ref.model");
        optimizer(imported, settings, "actor_rollout_ref.actor.optim");
    }
    let on_core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
    let fused = fused.map(|found| found.map(|_| "fused"));
    // flash-attn's cross-entropy takes the 16-bit logits as they are and writes their gradient over them (`dp_actor.py`,
    // `_forward_micro_batch`; `verl/utils/torch_functional.py`, `logprobs_from_logits`).
    let unfused = || Setting::new("te_fused", default("logprobs_from_logits: flash-attn's cross-entropy"));
    imported.set(keys::training::loss, fused.or_else(|| (!on_core).then(unfused)));
    let on_host = settings
        .iter()
        .map(|(name, _)| name)
        .find(|name| name.contains("actor.optim") && name.ends_with("optimizer_cpu_offload") && settings.is(name));
    if let Some(found) = on_host.and_then(|name| settings.on(name)) {
        imported.set(keys::training::cpu_offload, Some(found.map(|_| "optimizer")));
    }
    core::types_of_states(imported, settings, on_core);
    companions::set(imported, settings, on_core, context);
    for (name, _) in settings.iter() {
        // Environments, tools and searches of forks (`langfengQ/verl-agent`, `PeterGriffinJin/Search-R1`) make the prompts;
        // a mini-batch stays the samples that it names.
        const BESIDE: [&str; 23] = [
            "actor_rollout_ref.actor.state_masking",
            "actor_rollout_ref.actor.checkpoint.",
            "env.",
            "retriever.",
            "tool.",
            "trainer.controller_nsight_options.",
            "actor_rollout_ref.actor.entropy",
            "actor_rollout_ref.actor.loss_agg",
            "actor_rollout_ref.actor.policy_loss",
            "actor_rollout_ref.hybrid_engine",
            "actor_rollout_ref.model.use_shm",
            "actor_rollout_ref.model.lora_alpha",
            "actor_rollout_ref.rollout.",
            "actor_rollout_ref.ref.",
            "algorithm.",
            "reward_model.",
            "actor_rollout_ref.actor.kl",
            "actor_rollout_ref.actor.clip",
            "actor_rollout_ref.actor.use_kl_loss",
            "actor_rollout_ref.actor.use_dynamic_bsz",
            "actor_rollout_ref.actor.use_torch_compile",
            "actor_rollout_ref.actor.use_remove_padding",
            "actor_rollout_ref.actor.use_fused_kernels",
        ];
        let plain = name.trim_start_matches('+');
        let beside = BESIDE.iter().any(|part| plain.starts_with(part)) || companions::is_of_critic(imported, plain);
        if beside || (name.ends_with("_offload") && !name.ends_with("activation_offload")) {
            settings.accept(name);
        }
    }
    account_for(imported, settings);
}
