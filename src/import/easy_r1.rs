//! EasyR1: `-m verl.trainer.main config=CONFIG.yaml KEY=VALUE…` (`verl/workers/actor/config.py`, `verl/trainer/config.py`,
//! `verl/workers/fsdp_workers.py` of its main branch in 2026).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, model, rollout, vision};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "EasyR1 of 2026";

/// `ActorConfig`, `ModelConfig`, `FSDPConfig`, `DataConfig`, `TrainerConfig`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("worker.actor.global_batch_size", DefaultValue::Whole(256)),
    ("worker.actor.micro_batch_size_per_device_for_update", DefaultValue::Whole(4)),
    ("worker.actor.max_grad_norm", DefaultValue::Number(1.0)),
    ("worker.actor.padding_free", DefaultValue::Flag(true)),
    ("worker.actor.dynamic_batching", DefaultValue::Flag(true)),
    ("worker.actor.use_torch_compile", DefaultValue::Flag(true)),
    ("worker.actor.model.enable_gradient_checkpointing", DefaultValue::Flag(true)),
    ("worker.actor.optim.weight_decay", DefaultValue::Number(0.01)),
    ("worker.actor.optim.strategy", DefaultValue::Text("adamw")),
    ("worker.actor.fsdp.enable_full_shard", DefaultValue::Flag(true)),
    ("worker.rollout.n", DefaultValue::Whole(1)),
    ("worker.rollout.gpu_memory_utilization", DefaultValue::Number(0.6)),
    ("data.max_pixels", DefaultValue::Whole(4_194_304)),
    ("data.max_prompt_length", DefaultValue::Whole(512)),
    ("data.max_response_length", DefaultValue::Whole(512)),
    ("trainer.nnodes", DefaultValue::Whole(1)),
    ("trainer.n_gpus_per_node", DefaultValue::Whole(8)),
];

const ROWS: &[SettingRow] = &[
    (&["worker.actor.max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["worker.actor.optim.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["worker.actor.ulysses_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["worker.actor.fsdp.enable_cpu_offload"], keys::training::cpu_offload, SettingKind::On("parameters")),
];

/// Whether settings are EasyR1's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("worker.actor.model") && settings.holds("worker.rollout")
}

/// Whether the program is EasyR1's trainer.
pub fn runs(context: &ImportContext) -> bool {
    context.program.path == "verl.trainer.main"
        && context.program.words.iter().any(|word| word.starts_with("worker.") || word.starts_with("config="))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("EasyR1");
    let given = arguments::overrides(&context.program.words);
    let file = given.text("config").and_then(|path| context.configuration(&path.value, &mut imported));
    set(&mut imported, file.unwrap_or_default().with(given), context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("EasyR1");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.say(keys::model::framework, "pytorch", Origin::Program("EasyR1's own keys".to_owned()));
    match settings.text("worker.actor.model.model_path") {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no worker.actor.model.model_path"),
    }
    take(imported, settings, ROWS);
    batches(imported, settings);
    // fp32 shards, `MixedPrecision(param_dtype=bf16)`, unless the weights themselves are (`fsdp_workers.py`).
    let half = settings.text("worker.actor.fsdp.torch_dtype").filter(|found| found.value.starts_with("bf"));
    let word = half.map_or_else(
        || Setting::new("bf16-mixed", default("fp32 shards, MixedPrecision bf16")),
        |found| found.map(|_| "bf16"),
    );
    imported.set(keys::training::precision, Some(word));
    match settings.text("worker.actor.optim.strategy") {
        Some(found) if found.value == "adamw" => imported.set(keys::training::optimizer, Some(found)),
        Some(found) => {
            not_modelled(imported, &format!("{}: states and a compensation in bf16", found.value));
            imported.miss(keys::training::optimizer, format!("`{}` has no word in a plan", found.value));
        }
        None => {}
    }
    imported.say(keys::training::attention, "flash", default("attn_implementation flash_attention_2"));
    let recompute = settings.flag("worker.actor.model.enable_gradient_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    let full = settings.flag("worker.actor.fsdp.enable_full_shard");
    imported.set(keys::distribution::sharding, full.map(|found| found.map(|on| if on { "zero3" } else { "zero2" })));
    imported.say(keys::distribution::engine, "fsdp1", default("FullyShardedDataParallel"));
    imported.say(keys::distribution::sync_each_micro_batch, true, default("dp_actor.py: no no_sync in it"));
    imported.say(keys::training::loss, "te_fused", default("log_probs_from_logits: flash-attn's cross-entropy"));
    if imported.get(keys::distribution::context_parallel).is_some() {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
    if let Some(rank) = settings.whole("worker.actor.model.lora.rank").filter(|found| found.value > 0) {
        adapters::set(imported, Some(rank), (VERSION, 8), None);
        adapters::set_targets(imported, settings.texts("worker.actor.model.lora.target_modules"));
    } else {
        // A rank of 0 makes no adapters, wherever they would be.
        for name in ["exclude_modules", "target_modules"] {
            settings.accept(&format!("worker.actor.model.lora.{name}"));
        }
    }
    // Samples without their padding are at most as long as is counted; where a ratio is clipped changes nothing.
    for name in ["padding_free", "clip_ratio_high", "clip_ratio_low", "clip_ratio_dual"] {
        settings.accept(&format!("worker.actor.{name}"));
    }
    tower(imported, settings);
    companions(imported, settings);
    for (name, _) in settings.iter() {
        let beside =
            ["rollout.", "worker.ref", "worker.reward", "critic", "algorithm.", ".offload.", "_for_experience"];
        if beside.iter().any(|part| name.contains(part)) || name == "config" {
            settings.accept(name);
        }
    }
    account_for(imported, settings);
}

/// The tower trains unless it is frozen (`model.visual`, the merger with it); an image is in the prompt.
fn tower(imported: &mut ImportedPlan, settings: &Settings) {
    let frozen = settings.is("worker.actor.model.freeze_vision_tower");
    let room = settings.whole("data.max_prompt_length").map(|found| found.map(|tokens| tokens.saturating_mul(28 * 28)));
    let pixels = settings.whole("data.max_pixels");
    if let Some((pixels, room)) = pixels.zip(room) {
        vision::say(imported, !frozen, if room.value < pixels.value { room } else { pixels });
    }
    settings.accept("worker.actor.model.freeze_vision_tower");
}

/// The engine sleeps while the actor trains; the reference is there where the divergence is, and lies on the host
/// where FSDP offloads it (`trainer/ray_trainer.py`, `workers/fsdp_workers.py`).
fn companions(imported: &mut ImportedPlan, settings: &Settings) {
    let moved = |what: &str| settings.is(&format!("worker.actor.offload.{what}"));
    let all = moved("offload_params") && moved("offload_optimizer");
    let share = settings.number("worker.rollout.gpu_memory_utilization");
    let why = Origin::Derived("the engine sleeps while the actor trains".to_owned());
    rollout::engine(imported, share, Setting::new(if all { "nothing" } else { "states" }, why));
    let none = settings.is("algorithm.disable_kl") || imported.get(keys::lora::rank).is_some();
    let on_host = ["worker.ref.fsdp.enable_cpu_offload", "worker.ref.offload.offload_params"]
        .iter()
        .any(|name| settings.is(name));
    match (none, on_host) {
        (true, _) => {}
        (false, true) => imported.note("the reference's weights lie on the host: its pass is not in the time"),
        (false, false) => imported.say(keys::training::reference_model, true, default("algorithm.disable_kl false")),
    }
    if settings.text("algorithm.adv_estimator").is_some_and(|found| found.value == "gae") {
        not_modelled(imported, "the critic");
    }
}

/// The actor's batch is of prompts, each with its answers; a pass is counted at the longest sample.
fn batches(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |name: &str| settings.whole(name);
    if let Some((prompt, answer)) = whole("data.max_prompt_length").zip(whole("data.max_response_length")) {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
    }
    if let Some((prompts, answers)) = whole("worker.actor.global_batch_size").zip(whole("worker.rollout.n")) {
        let origin = Origin::Derived(format!("{} x {} answers", prompts.origin, answers.value));
        imported.say(keys::model::batch_size, prompts.value.saturating_mul(answers.value), origin);
    }
    let micro = whole("worker.actor.micro_batch_size_per_device_for_update");
    if settings.is("worker.actor.dynamic_batching") {
        let why =
            "dynamic_batching: as many samples a pass as micro_batch_size_per_device_for_update of full length hold";
        imported.note(why);
    }
    imported.set(keys::training::micro_batch_size, micro);
    let world = World { total: None, nodes: whole("trainer.nnodes"), per_node: whole("trainer.n_gpus_per_node") };
    let world = world.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    imported.miss(keys::cluster::num_gpus, "trainer.nnodes or trainer.n_gpus_per_node is no number");
}
