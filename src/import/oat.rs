//! oat: `-m oat.experiment.run_*`, and scripts on its arguments (`oat/args.py`, `oat/interface.py`,
//! `oat/utils/deepspeed.py` of its main branch in 2025).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, deepspeed, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "oat of 2025";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("gpus", DefaultValue::Whole(8)),
    ("num_groups", DefaultValue::Whole(1)),
    ("algo", DefaultValue::Text("DPO")),
    ("train_batch_size", DefaultValue::Whole(128)),
    ("train_batch_size_per_device", DefaultValue::Whole(1)),
    ("prompt_max_length", DefaultValue::Whole(1024)),
    ("generate_max_length", DefaultValue::Whole(512)),
    ("max_norm", DefaultValue::Number(1.0)),
    ("l2", DefaultValue::Number(0.0)),
    ("zero_stage", DefaultValue::Whole(2)),
    ("bf16", DefaultValue::Flag(true)),
    ("flash_attn", DefaultValue::Flag(true)),
    ("gradient_checkpointing", DefaultValue::Flag(false)),
    ("critic_type", DefaultValue::Text("drgrpo")),
];

const ROWS: &[SettingRow] = &[
    (&["train_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["train_batch_size_per_device"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["max_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["l2"], keys::training::weight_decay, SettingKind::Share),
];

/// Whether the program takes oat's arguments.
pub fn runs(context: &ImportContext) -> bool {
    let path = context.program.path.replace('/', ".");
    let options = arguments::read(&context.program.words).options;
    path.contains("oat.experiment.")
        || (options.holds("train_batch_size_per_device") && (options.holds("pretrain") || options.holds("zero_stage")))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("oat");
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    let given = arguments::read(&context.program.words).options;
    // `--no-use_fused_lm_head`: tyro's way to switch something off.
    let off: Vec<(String, Origin)> = given
        .iter()
        .filter_map(|(name, found)| Some((name.strip_prefix("no_")?.to_owned(), found.origin.clone())))
        .collect();
    settings.over(given);
    for (name, origin) in off {
        settings.accept(&format!("no_{name}"));
        settings.set(&name, false.into(), origin);
    }
    let settings = &settings;
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.text("pretrain") {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no --pretrain"),
    }
    take(&mut imported, settings, ROWS);
    length(&mut imported, settings);
    memory(&mut imported, settings);
    world(&mut imported, settings, context);
    if let Some(rank) = settings.whole("lora_rank").filter(|found| found.value > 0) {
        let bits = settings.on("load_in_4bit").map(|found| found.map(|_| 4));
        adapters::set(&mut imported, Some(rank), (VERSION, 8), bits);
        let all = Setting::new(vec!["all-linear".to_owned()], default("target_modules: every linear layer"));
        adapters::set_targets(&mut imported, Some(settings.texts("target_modules").unwrap_or(all)));
    }
    method(&mut imported, settings);
    account_for(&mut imported, settings);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn length(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |name: &str| settings.whole(name);
    if let Some(found) = whole("max_model_len") {
        return imported.set(keys::model::sequence_length, Some(found));
    }
    if let Some((prompt, answer)) = whole("prompt_max_length").zip(whole("generate_max_length")) {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
    }
}

fn memory(imported: &mut ImportedPlan, settings: &Settings) {
    let half = |name: &str| settings.on(name).map(|found| found.map(|_| name.to_owned()));
    let half = half("fp16").or_else(|| half("bf16"));
    let stage = settings.whole("zero_stage");
    imported.set(keys::training::precision, half.clone().map(|found| found.map(|name| format!("{name}-fp32-master"))));
    if stage.as_ref().is_some_and(|stage| stage.value > 0) {
        imported.set(keys::training::gradient_dtype, settings.text("grad_accum_dtype").or(half));
    }
    imported.set(keys::distribution::sharding, stage.map(|found| found.map(deepspeed::stage)));
    imported.say(keys::distribution::engine, "deepspeed", default("get_train_ds_config"));
    let offload = settings.on("adam_offload");
    let word = if offload.is_some() { "adamw" } else { "adamw-fused" };
    imported.say(keys::training::optimizer, word, default("FusedAdam, DeepSpeedCPUAdam with --adam_offload"));
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "optimizer")));
    let attention = settings.flag("flash_attn").map(|found| found.map(|on| if on { "flash" } else { "eager" }));
    imported.set(keys::training::attention, attention);
    let recompute = settings.flag("gradient_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    if settings.is("activation_offloading") {
        not_modelled(imported, "activation offloading: kept inputs go to the host");
    }
}

/// Learners take all GPUs of a group beside the actors, or the second half of them (`interface.py`); a launcher starts
/// learners alone.
fn world(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    if context.world.total.is_some() || !context.launchers.is_empty() && !settings.is_set("gpus") {
        return;
    }
    let Some(gpus) = settings.whole("gpus") else { return };
    let learners = if settings.is("collocate") { gpus } else { gpus.map(|gpus| gpus - gpus / 2) };
    let world = World { total: None, nodes: settings.whole("num_groups"), per_node: Some(learners) }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

fn method(imported: &mut ImportedPlan, settings: &Settings) {
    let algo = settings.text("algo").map(|found| found.value.to_uppercase()).unwrap_or_default();
    match algo.as_str() {
        "SFT" => {}
        "SIMPO" => TrainingMethod::Pairs.apply(imported),
        "PPO" => {
            let critic = settings.text("critic_type").is_some_and(|found| found.value == "ppo");
            let beside = if critic {
                "the critic, the reference and vLLM's engines"
            } else {
                "the reference and vLLM's engines"
            };
            not_modelled(imported, &format!("{algo}: {beside}; the plan is the learner's policy"));
        }
        _ => TrainingMethod::Dpo.apply(imported),
    }
    if algo != "SFT" && algo != "PPO" {
        not_modelled(imported, "vLLM's engines and the oracle beside the learner");
    }
    let fused = settings.flag("use_fused_lm_head").is_none_or(|found| found.value);
    if fused && (algo == "SFT" || algo == "PPO") {
        imported.say(keys::training::loss, "fused", default("use_fused_lm_head"));
    }
    for name in ["gpus", "num_groups", "collocate", "algo", "critic_type", "vllm_gpu_ratio", "vllm_sleep", "pretrain"] {
        settings.accept(name);
    }
}
