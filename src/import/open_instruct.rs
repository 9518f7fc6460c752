//! open-instruct's `grpo_fast.py`: learners under DeepSpeed, placed by Ray, that train on packs of answers, and vLLM's
//! engines beside them; its `grpo.py`, which trains by OLMo-core; files of arguments for its `finetune.py` and `dpo_tune_cache.py` (`open_instruct/grpo_fast.py`, `grpo_utils.py`, `data_loader.py`, `utils.py`,
//! `get_train_ds_config`, at b0b9a8e and in the releases of 2025).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::python::ScriptReader;
use super::python_calls::call;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings, whole};
use super::unread::account_for;
use super::{deepspeed, documented, model, rollout, script_defaults, trainer};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "open-instruct";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("per_device_train_batch_size", DefaultValue::Whole(1)),
    ("pack_length", DefaultValue::Whole(512)),
    ("deepspeed_stage", DefaultValue::Whole(0)),
    ("weight_decay", DefaultValue::Number(0.0)),
    ("max_grad_norm", DefaultValue::Number(1.0)),
    ("beta", DefaultValue::Number(0.05)),
    ("load_ref_policy", DefaultValue::Flag(true)),
    ("fused_optimizer", DefaultValue::Flag(false)),
    ("sequence_parallel_size", DefaultValue::Whole(1)),
];

const ROWS: &[SettingRow] = &[
    (&["per_device_train_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["pack_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["sequence_parallel_size"], keys::distribution::context_parallel, SettingKind::Several),
];

/// What places and feeds the engines, and makes answers: none of it changes what a learner holds.
const ANSWERS: [&str; 9] =
    ["vllm_", "response_", "max_prompt_token_length", "max_token_length", "num_", "non_stop_", "stop_", "tool", "kl_"];

/// Whether the program is its trainer of reinforcement.
pub fn runs(context: &ImportContext) -> bool {
    let named = |name: &str| {
        context.program.name() == format!("{name}.py")
            || context.program.path.ends_with(&format!("open_instruct.{name}"))
    };
    let by_olmo = || script_defaults::script_of(context).is_some_and(|(_, text)| trains_by_olmo(&text));
    named("grpo_fast") || named("grpo") && by_olmo()
}

/// Whether a script's learners are OLMo-core's (`open_instruct/grpo_olmo_core_actor.py`), whatever is asked of DeepSpeed.
fn trains_by_olmo(text: &str) -> bool {
    text.contains("OLMoCoreModelGroup")
}

/// Whether settings are arguments of its scripts in a file (`configs/train_configs`, `utils.py`, `ArgumentParserPlus`).
pub fn is_config(settings: &Settings) -> bool {
    let mixed = ["dataset_mixer", "dataset_mixer_list", "dataset_name"].iter().any(|name| settings.holds(name));
    mixed && settings.holds("model_name_or_path") && settings.holds("with_tracking")
}

/// The plan of such a file alone: what its script makes of it, where the project is around it. The launcher is another's.
pub fn of_file(file: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let pairs = name.contains("dpo") || ["beta", "loss_type"].iter().any(|option| file.holds(option));
    let script = if pairs { "dpo_tune_cache.py" } else { "finetune.py" };
    let above = std::iter::successors(Some(name), |path| path.rsplit_once('/').map(|(folder, _)| folder)).skip(1);
    let folders = above.map(|folder| format!("{folder}/")).chain((!name.starts_with('/')).then(String::new));
    let mut paths = folders.map(|folder| format!("{folder}open_instruct/{script}"));
    let Some(path) = paths.find(|path| context.run.files.read(path).is_ok()) else {
        return trainer::of_file(file, name, context);
    };
    let words = ["accelerate", "launch", &path, name].map(str::to_owned);
    let mut imported = documented::started(&words, name, context);
    imported.note(format!("read as {path} reads it; the launcher is not in it"));
    for key in [keys::cluster::num_gpus, keys::cluster::nodes, keys::cluster::gpus_per_node] {
        imported.drop(key);
    }
    imported.drop(keys::distribution::data_parallel);
    imported.drop(keys::model::batch_size);
    imported.miss(keys::cluster::num_gpus, "the launcher of the script says it");
    trainer::by_launcher(&mut imported);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("open-instruct");
    let script = script_defaults::script_of(context);
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    if let Some((path, text)) = &script {
        settings.over(script_defaults::of_project(context, path, text));
    }
    settings.over(arguments::read(&context.program.words).options);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.text("model_name_or_path") {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no --model_name_or_path"),
    }
    take(&mut imported, &settings, ROWS);
    if imported.get(keys::distribution::context_parallel).is_some() {
        imported.say(keys::distribution::cp_comm, "a2a", default("Ulysses"));
    }
    learners(&mut imported, &settings);
    if let Some((path, _)) = script.as_ref().filter(|(_, text)| trains_by_olmo(text)) {
        by_olmo(&mut imported, &settings, path);
    } else {
        states(&mut imported, &settings);
        checkpointing(&mut imported, &settings, script.as_ref());
        trainer::reentrant::of_transformers(&mut imported, &context.run.versions);
        imported.say(keys::training::attention, "flash", default("FlashAttention, which its package requires"));
    }
    let switched = script.as_ref().is_some_and(|(_, text)| text.contains("if args.load_ref_policy"));
    beside(&mut imported, &settings, switched);
    account(&mut imported, &settings);
    imported
}

/// `--num_learners_per_node 6 8`: ranks that train; the engines have GPUs of their own, but for `--single_gpu_mode`.
fn learners(imported: &mut ImportedPlan, settings: &Settings) {
    let listed = settings.get("num_learners_per_node").cloned();
    let counts: Option<Vec<u64>> = match listed.as_ref().map(|found| &found.value) {
        Some(serde_json::Value::Array(items)) => items.iter().map(whole).collect(),
        Some(one) => whole(one).map(|count| vec![count]),
        None => Some(vec![1]),
    };
    let origin = listed.map_or_else(|| default("--num_learners_per_node 1"), |found| found.origin);
    let Some(counts) = counts.filter(|counts| !counts.is_empty()) else {
        return imported.miss(keys::cluster::num_gpus, format!("{origin} is not known"));
    };
    let total = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    imported.say(keys::cluster::num_gpus, total, origin.clone());
    imported.say(keys::cluster::nodes, counts.len() as u64, origin);
    imported.miss(keys::training::gradient_accumulation_steps, "a step takes as many packs as the answers fill");
}

/// Learners of OLMo-core, whose train module decides the types, the sharding and what is recomputed; what DeepSpeed is told is
/// read by nobody (`grpo_olmo_core_actor.py`, `setup_model`).
fn by_olmo(imported: &mut ImportedPlan, settings: &Settings, path: &str) {
    not_modelled(
        imported,
        &format!("{path} trains by OLMo-core's train module, whose types and shards are not followed"),
    );
    for key in [
        keys::training::precision,
        keys::training::optimizer,
        keys::training::attention,
        keys::training::activation_checkpointing,
        keys::distribution::sharding,
        keys::distribution::engine,
    ] {
        imported.miss(key, format!("{path}: OLMo-core's train module decides it"));
    }
    let idle = |name: &&&str| settings.is_set(name);
    for name in ["deepspeed_stage", "deepspeed_zpg", "deepspeed_offload_param"].iter().filter(idle) {
        imported.note(format!("--{name}: read by nobody in {path}"));
        settings.accept(name);
    }
}

/// DeepSpeed around torch's `AdamW`: bf16 with fp32 masters, gradients summed in fp32 (`get_train_ds_config`).
fn states(imported: &mut ImportedPlan, settings: &Settings) {
    imported
        .set(keys::distribution::sharding, settings.whole("deepspeed_stage").map(|found| found.map(deepspeed::stage)));
    imported.say(keys::distribution::engine, "deepspeed", default("get_train_ds_config"));
    imported.say(keys::training::precision, "bf16-fp32-master", default("get_train_ds_config, bf16"));
    imported.say(keys::training::gradient_dtype, "fp32", default("grad_accum_dtype fp32"));
    let fused = settings.is("fused_optimizer");
    let word = if fused { "adamw-fused" } else { "adamw" };
    imported.say(keys::training::optimizer, word, default("torch.optim.AdamW"));
    let parameters = settings.on("deepspeed_offload_param").map(|found| found.map(|_| "parameters"));
    let optimizer = settings.on("deepspeed_offload_optimizer").map(|found| found.map(|_| "optimizer"));
    imported.set(keys::training::cpu_offload, parameters.or(optimizer));
    if let Some(found) = settings.text("optimizer_type").filter(|found| found.value != "adamw") {
        super::common::set_optimizer(imported, Some(found));
    }
}

/// Since 2026 every policy is recomputed, whatever it is told.
fn checkpointing(imported: &mut ImportedPlan, settings: &Settings, script: Option<&(String, String)>) {
    const CALL: &str = "gradient_checkpointing_enable";
    let always = script.is_some_and(|(path, text)| {
        let reader = ScriptReader::new(path, text, settings.clone());
        call(text, CALL).is_some() && reader.reached(&[CALL]) == Some(true)
    });
    let told = settings.flag("gradient_checkpointing").filter(|found| found.value);
    match told {
        Some(found) => imported.set(keys::training::activation_checkpointing, Some(found.map(|_| "full"))),
        None if always => imported.say(keys::training::activation_checkpointing, "full", default(CALL)),
        None => imported.say(keys::training::activation_checkpointing, "none", default("gradient_checkpointing False")),
    }
}

/// What is held beside the policy; `switched` is whether the script loads a reference by its switch alone, whatever `beta` is.
fn beside(imported: &mut ImportedPlan, settings: &Settings, switched: bool) {
    let beta = settings.number("beta").map_or(0.0, |found| found.value);
    let loaded = settings.flag("load_ref_policy").is_none_or(|found| found.value);
    if loaded && (beta > 0.0 || switched) {
        let why = if switched { "load_ref_policy".to_owned() } else { format!("beta {beta}") };
        imported.say(keys::training::reference_model, true, Origin::Derived(format!("{why}: a reference")));
    }
    if settings.is("single_gpu_mode") {
        let usual = || Setting::new(0.9, default("vllm_gpu_memory_utilization 0.9"));
        let share = settings.number("vllm_gpu_memory_utilization").unwrap_or_else(usual);
        let origin = Origin::Derived("single_gpu_mode".to_owned());
        rollout::engine(imported, Some(share), Setting::new("step", origin));
    } else {
        imported.note("vLLM's engines have GPUs of their own, which the plan's are not");
    }
    let zpg = settings.whole("deepspeed_zpg").filter(|found| found.value > 1 && settings.is_set("deepspeed_zpg"));
    let three = settings.whole("deepspeed_stage").is_some_and(|found| found.value == 3);
    if let Some(found) = zpg.filter(|_| three) {
        not_modelled(imported, &format!("{}: a second copy of the weights within {} ranks", found.origin, found.value));
    }
}

fn account(imported: &mut ImportedPlan, settings: &Settings) {
    let names: Vec<String> = settings.iter().map(|(name, _)| name.to_owned()).collect();
    for name in names.iter().filter(|name| ANSWERS.iter().any(|part| name.starts_with(part))) {
        settings.accept(name);
    }
    for name in
        ["gather_whole_model", "total_episodes", "apply_verifiable_reward", "reward_model_multiplier", "packing"]
    {
        settings.accept(name);
    }
    account_for(imported, settings);
}
