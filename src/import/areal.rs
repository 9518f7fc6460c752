//! AReaL's configurations (`areal/api/cli_args.py`, `areal/engine/fsdp_engine.py`, `areal/engine/megatron_engine.py`,
//! `areal/trainer/*_trainer.py` of 1.0, 2026): what trains has a backend, `fsdp:d4t2`, and packed passes.

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take, usual};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, arguments, model, rollout, text};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "AReaL 1.0";

/// `TrainEngineConfig`, `OptimizerConfig`, `GenerationHyperparameters`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("actor.gradient_checkpointing", DefaultValue::Flag(false)),
    ("actor.dtype", DefaultValue::Text("bfloat16")),
    ("actor.attn_impl", DefaultValue::Text("flash_attention_2")),
    ("actor.optimizer.type", DefaultValue::Text("adam")),
    ("actor.optimizer.weight_decay", DefaultValue::Number(0.01)),
    ("actor.optimizer.gradient_clipping", DefaultValue::Number(1.0)),
    ("actor.ppo_n_minibatches", DefaultValue::Whole(4)),
    ("gconfig.n_samples", DefaultValue::Whole(1)),
];

const ROWS: &[SettingRow] = &[
    (&["actor.optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["actor.optimizer.gradient_clipping"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["actor.fsdp.offload_params"], keys::training::cpu_offload, SettingKind::On("parameters")),
];

/// Sections and settings of what does not train: the rollout and its engines, other roles, data, logs, the launcher
/// (`areal/api/cli_args.py`).
const OTHERS: [&str; 39] = [
    "rollout",
    "gconfig",
    "eval_gconfig",
    "vllm",
    "sglang",
    "ref.",
    "critic.",
    "teacher.",
    "valid_dataset.",
    "saver.",
    "recover.",
    "checkpointer.",
    "evaluator.",
    "stats_logger.",
    "perf_tracer.",
    "session_tracer.",
    "launcher.",
    "scheduler.",
    "name_resolve.",
    "cluster.name_resolve.",
    "econfig.",
    "experiment_name",
    "trial_name",
    "seed",
    "enable_offload",
    "total_train_epochs",
    "total_train_steps",
    "total_train_n_seqs",
    "tokenizer_path",
    "weight_update_mode",
    "allocation_mode",
    "async_training",
    "workflow",
    "eval_workflow",
    "reward_fn",
    "n_trajs",
    "max_turns",
    "turn_discount",
    "max_tokens_per_trajectory",
];

/// Whether settings are AReaL's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("actor.path") && (settings.holds("actor.backend") || settings.holds("allocation_mode"))
}

/// The file that one of its starters is given: `python -m areal.launcher.local train.py --config grpo.yaml k=v`.
fn started_with(context: &ImportContext) -> Option<Setting<String>> {
    let file = arguments::read(&context.program.words).options.text("config")?;
    let text = context.run.files.read(&file.value).ok()?;
    is_config(&text::yaml(&file.value, &text).ok()?).then_some(file)
}

/// Whether the program is started with such a file.
pub fn runs(context: &ImportContext) -> bool {
    started_with(context).is_some()
}

/// The plan of such a command: what it says goes over the file.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut read = ImportedPlan::default();
    let file = started_with(context).and_then(|path| context.configuration(&path.value, &mut read)).unwrap_or_default();
    let mut imported = of_file(file.with(arguments::overrides(&context.program.words)), context);
    read.notes.into_iter().for_each(|line| imported.note(line));
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a file.
pub fn of_file(mut file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("AReaL");
    file.interpolate();
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    match settings.text("actor.path") {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no actor.path"),
    }
    take(&mut imported, settings, ROWS);
    let engine = backend(&mut imported, settings);
    match engine.as_deref() {
        Some("fsdp") => on_fsdp(&mut imported, settings),
        Some("megatron") => on_megatron(&mut imported, settings),
        Some(other) => {
            not_modelled(&mut imported, &format!("the engine {other}: how it stores and shards"));
            imported.unread = Some(format!("the engine {other}"));
        }
        None => imported.miss(keys::distribution::engine, "actor.backend tells it"),
    }
    attention(&mut imported, settings);
    batches(&mut imported, settings);
    companions(&mut imported, settings);
    let collectives = |found: &Setting<serde_json::Value>| found.value.to_string().contains("\"HCCL_");
    if settings.iter().any(|(name, found)| {
        name.starts_with("actor.scheduling_spec") && (name.contains("HCCL_") || collectives(found))
    }) {
        not_modelled(&mut imported, "actor.scheduling_spec: the run is on Ascend's NPUs, the plan on GPUs");
    }
    let runs_megatron = imported.get(keys::distribution::engine).is_some_and(|found| found.value == "megatron");
    for (name, _) in settings.iter() {
        let own = ["actor.", "train_dataset.batch_size", "train_dataset.max_length", "cluster."];
        // Above all sections, and in those of no role, a setting may be anybody's.
        let nobody = !OTHERS.iter().any(|part| name.starts_with(part));
        // The settings of an engine that the actor does not run by.
        let idle = name.starts_with("actor.archon.") && runs_megatron;
        let other = !nobody && !own.iter().any(|part| name.starts_with(part));
        if other || name.contains("scheduling_spec") || idle {
            settings.accept(name);
        }
    }
    for name in ["actor.max_new_tokens", "actor.mb_spec.granularity", "actor.disable_dropout", "actor.pad_to_maximum"] {
        settings.accept(name);
    }
    account_for(&mut imported, settings);
    imported
}

/// `fsdp:d4p1t2c1`, or `sglang:d4+fsdp:d4` for all: who trains, by which degrees (`areal/api/alloc_mode.py`).
fn backend(imported: &mut ImportedPlan, settings: &Settings) -> Option<String> {
    let found = settings.first_text(&["actor.backend", "allocation_mode"])?;
    let trains = |part: &&str| ["fsdp", "megatron", "archon"].iter().any(|name| part.starts_with(name));
    // Before engines had names the last part trained, by FSDP.
    let unnamed =
        || found.value.rsplit('+').next().filter(|part| !part.contains([':', '.'])).map(|part| format!("fsdp:{part}"));
    let part = found.value.split('+').map(str::trim).find(trains).map(str::to_owned).or_else(unnamed)?;
    let (engine, degrees) = part.split_once(':')?;
    let mut all = 1_u64;
    for (letter, key) in [
        ('d', keys::distribution::data_parallel),
        ('t', keys::distribution::tensor_parallel),
        ('p', keys::distribution::pipeline_parallel),
        ('c', keys::distribution::context_parallel),
    ] {
        let Some(degree) = degree(degrees, letter) else { continue };
        all = all.checked_mul(degree)?;
        // FSDP's context degree is Ulysses.
        if degree > 1 || letter == 'd' {
            imported.say(key, degree, found.origin.clone());
        }
    }
    if let Some(experts) = degree(degrees, 'e').filter(|experts| *experts > 1) {
        imported.say(keys::distribution::expert_parallel, experts, found.origin.clone());
        // One by default, whatever attention has (`api/alloc_mode.py`).
        let split = degrees.split_once("|ffn:").and_then(|(_, ffn)| degree(ffn, 't')).unwrap_or(1);
        imported.say(keys::distribution::expert_tensor_parallel, split, found.origin.clone());
    }
    imported.say(keys::cluster::num_gpus, all, found.origin);
    // The allocation says how many of them train.
    settings.accept("cluster.n_nodes");
    imported
        .set(keys::cluster::gpus_per_node, settings.whole("cluster.n_gpus_per_node").filter(|one| one.value <= all));
    Some(engine.to_owned())
}

/// The number behind a letter: 4 of `d4p1t2` for `d`. Degrees of experts have brackets of their own: `(attn:d4|ffn:e4)`.
fn degree(degrees: &str, letter: char) -> Option<u64> {
    let attention = degrees.split('|').next().unwrap_or(degrees).trim_start_matches("(attn:");
    let place = if letter == 'e' { degrees } else { attention };
    let (_, rest) = place.split_once(letter)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn on_fsdp(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::model::framework, "pytorch", Origin::Program("AReaL's own keys".to_owned()));
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    imported.say(keys::distribution::sharding, "zero3", default("fully_shard"));
    imported.say(keys::distribution::sync_each_micro_batch, true, default("train_batch: sets no gradient sync"));
    if imported.get(keys::distribution::context_parallel).is_some() {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
    // Weights, gradients and states in the one type: `from_pretrained(dtype)`, no fp32 copies.
    let word = settings.text("actor.dtype").and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "bfloat16" => Some("bf16"),
            "float16" => Some("fp16"),
            "float32" => Some("fp32"),
            _ => None,
        })
    });
    imported.set(keys::training::precision, word);
    // `AutoModelForTokenClassification` of one label (`areal/engine/fsdp_engine.py`, `_create_llm_actor_or_critic`).
    let scores = settings.on("actor.is_critic").map(|found| found.map(|_| 1));
    imported.set(keys::model::classes, scores);
    let reduced = settings.text("actor.grad_reduce_dtype").map(|found| found.value);
    let reduced = if reduced.as_deref() == Some("bfloat16") { "bf16" } else { "fp32" };
    imported.say(keys::distribution::reduce_dtype, reduced, default("grad_reduce_dtype float32"));
    let optimizer = settings.text("actor.optimizer.type").and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "adam" => Some("adamw-fused"),
            "adam_bf16" => Some("adamw"),
            "sgd" => Some("sgd"),
            _ => None,
        })
    });
    imported.set(keys::training::optimizer, optimizer);
    let recompute = settings.flag("actor.gradient_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    if settings.is("actor.use_lora") {
        adapters::set(imported, settings.whole("actor.lora_rank"), (VERSION, 32), None);
        let linear = || Setting::new(vec!["all-linear".to_owned()], default("target_modules all-linear"));
        let named = settings.texts("actor.target_modules").filter(|found| !found.value.is_empty());
        adapters::set_targets(imported, Some(named.unwrap_or_else(linear)));
    }
    for (name, _) in settings.iter().filter(|(name, _)| name.starts_with("actor.megatron")) {
        settings.accept(name);
    }
}

fn on_megatron(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::model::framework, "megatron", Origin::Program("actor.backend megatron".to_owned()));
    imported.say(keys::distribution::engine, "megatron", Origin::Program("actor.backend megatron".to_owned()));
    imported.say(keys::training::precision, "bf16-fp32-master", default("actor.dtype bfloat16"));
    usual(settings, "actor.dtype", &["bfloat16"]);
    imported.say(keys::training::distributed_optimizer, true, default("ddp.use_distributed_optimizer true"));
    imported.say(keys::training::optimizer, "adamw-fused", default("adam"));
    if settings.text("actor.optimizer.type").is_some_and(|found| found.value == "adam_bf16") {
        imported.say(keys::training::optimizer_state_dtype, "bf16", default("optimizer.type adam_bf16"));
    }
    let granularity = settings.text("actor.megatron.recompute_granularity");
    let usual = || Setting::new("full".to_owned(), default("recompute_granularity full"));
    let word = match settings.flag("actor.gradient_checkpointing") {
        Some(found) if !found.value => found.map(|_| "none".to_owned()),
        _ => granularity.unwrap_or_else(usual),
    };
    imported.set(keys::training::activation_checkpointing, Some(word));
    imported.set(
        keys::distribution::virtual_pipeline,
        settings.whole("actor.megatron.virtual_pipeline_parallel_size").filter(|found| found.value > 1),
    );
    if imported.get(keys::distribution::tensor_parallel).is_some() {
        imported.say(keys::distribution::sequence_parallel, true, default("sequence_parallel with tensor parallelism"));
    }
    // `DistributedDataParallelConfig`: gradients are summed in fp32 unless told otherwise.
    let halves = settings.flag("actor.megatron.ddp.grad_reduce_in_fp32").filter(|found| !found.value);
    imported.set(keys::training::gradient_dtype, halves.map(|found| found.map(|_| "bf16")));
    settings.accept("actor.grad_reduce_dtype");
    for name in ["recompute_method", "recompute_num_layers", "ddp.use_distributed_optimizer"] {
        settings.accept(&format!("actor.megatron.{name}"));
    }
    for (name, _) in settings.iter().filter(|(name, _)| name.starts_with("actor.fsdp")) {
        settings.accept(name);
    }
}

fn attention(imported: &mut ImportedPlan, settings: &Settings) {
    let named = settings.text("actor.attn_impl");
    imported.set(keys::training::attention, named.map(|found| found.map(|name| super::trainer::implementation(&name))));
}

/// A prompt and its answer, which is as long as `max_new_tokens` and, with its prompt, as `max_tokens`
/// (`infra/remote_inf_engine.py`, `agenerate`; `api/cli_args.py`, `GenerationHyperparameters`).
fn with_answer(settings: &Settings) -> Option<Setting<u64>> {
    let most = settings.whole("gconfig.max_tokens");
    let usual = || Origin::Default { framework: VERSION, option: "gconfig.max_new_tokens 16384".to_owned() };
    let answer = settings.whole("gconfig.max_new_tokens").unwrap_or_else(|| Setting::new(16_384, usual()));
    let both = settings.whole("train_dataset.max_length").map(|prompt| {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        Setting::new(prompt.value.saturating_add(answer.value), origin)
    });
    match (both, most) {
        (Some(both), Some(most)) => Some(if most.value < both.value { most } else { both }),
        (both, most) => both.or(most),
    }
}

/// A step takes a part of the batch's answers; a pass holds up to `max_tokens_per_mb` of them.
fn batches(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |name: &str| settings.whole(name);
    let answers = settings.is_set("gconfig.n_samples")
        || ["max_new_tokens", "max_tokens"].iter().any(|name| settings.holds(&format!("gconfig.{name}")));
    let length = if answers { with_answer(settings) } else { whole("train_dataset.max_length") };
    // Of several turns the whole talk is one sample.
    let talk = whole("max_tokens_per_trajectory");
    imported.set(keys::model::sequence_length, talk.or(length));
    let tokens = whole("actor.mb_spec.max_tokens_per_mb");
    let unbounded = imported.get(keys::model::sequence_length).is_none() && tokens.is_some();
    if unbounded && let Some(tokens) = tokens.clone() {
        // No sample may be longer than a pass.
        let origin = Origin::Derived(format!("{}: a pass of packed samples as one", tokens.origin));
        imported.say(keys::model::sequence_length, tokens.value, origin);
    }
    if tokens.is_none() {
        imported
            .miss(keys::training::micro_batch_size, "no mb_spec.max_tokens_per_mb: a rank's samples in n_mbs passes");
    }
    rollout::packed(imported, tokens);
    let Some(prompts) = whole("train_dataset.batch_size") else { return };
    let (samples, parts) =
        if answers { (whole("gconfig.n_samples"), whole("actor.ppo_n_minibatches")) } else { (None, None) };
    let number = |found: &Option<Setting<u64>>| found.as_ref().map_or(1, |found| found.value.max(1));
    let (samples, parts) = (number(&samples), number(&parts));
    // Chosen and rejected run together.
    let pairs = settings.text("train_dataset.type").is_some_and(|found| matches!(found.value.as_str(), "dpo" | "rw"));
    let samples = if pairs { 2 } else { samples };
    let all = prompts.value.saturating_mul(samples);
    let origin = Origin::Derived(format!("{} x {samples} / {parts} mini-batches", prompts.origin));
    let batch = (all / parts).max(1);
    if unbounded {
        let why = format!("{origin}: a step's {batch} samples are as many passes as their lengths fill");
        return imported.miss(keys::training::gradient_accumulation_steps, why);
    }
    imported.say(keys::model::batch_size, batch, origin);
}

/// The engine of the rollout has GPUs of its own; reference and critic stand on the actor's (`trainer/rl_trainer.py`).
fn companions(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.holds("rollout") {
        imported.note("the engine of the rollout has GPUs of its own: the plan has the actor's");
    }
    let beside = |role: &str| {
        settings.holds(&format!("{role}.path"))
            && settings
                .text(&format!("{role}.scheduling_strategy.type"))
                .is_some_and(|found| found.value == "colocation")
    };
    let pairs = settings.text("train_dataset.type").is_some_and(|found| found.value == "dpo");
    let divergence = settings.number("actor.kl_ctl").map_or(0.1, |found| found.value) > 0.0;
    if beside("ref") && (pairs || divergence) && imported.get(keys::lora::rank).is_none() {
        imported.say(keys::training::reference_model, true, default("actor.kl_ctl above 0: a reference beside"));
    }
    if settings.holds("critic.path") {
        let recomputes = |role: &str| settings.is(&format!("{role}.gradient_checkpointing"));
        if recomputes("actor") && !recomputes("critic") {
            not_modelled(imported, "the critic's own passes, which recompute nothing and keep more than the actor's");
        }
        if beside("critic")
            && settings.text("critic.path").map(|one| one.value) == settings.text("actor.path").map(|one| one.value)
        {
            imported.say(keys::training::critic_model, true, Origin::Program("critic, colocated".to_owned()));
        } else {
            not_modelled(imported, "the critic");
        }
    }
    if settings.holds("teacher.path") {
        not_modelled(imported, "the teacher");
    }
    if settings.is("enable_offload") {
        imported.note("enable_offload: a role's states go to the host while others work");
    }
}

#[cfg(test)]
mod tests {
    use super::degree;

    #[test]
    fn degrees_are_read_by_their_letters() {
        for (text, letter, told) in [
            ("d4p1t2", 'd', Some(4)),
            ("d4p1t2", 't', Some(2)),
            ("d4p1t2", 'c', None),
            ("(attn:d4p1t2|ffn:d1p1t1e8)", 'e', Some(8)),
            ("(attn:d4p1t2|ffn:d1p1t1e8)", 'd', Some(4)),
        ] {
            assert_eq!(degree(text, letter), told, "{text} {letter}");
        }
    }
}
