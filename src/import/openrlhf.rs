//! OpenRLHF: `-m openrlhf.cli.train_*`, its arguments up to 0.9 (`--pretrain`) and those of 2026 with dots
//! (`--model.model_name_or_path`); `openrlhf/cli` at v0.5.0, v0.9.9 and 3c3be623.

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::World;
use super::liger;
use super::methods::TrainingMethod;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::script_defaults;
use super::settings::Settings;
use super::unread::account_for;
use super::{adapters, deepspeed, rollout, vision};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "OpenRLHF 0.9";

const ROWS: &[SettingRow] = &[
    (&["train.batch_size", "train_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["train.micro_batch_size", "micro_train_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["max_norm", "actor.max_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["adam.weight_decay", "actor.adam.weight_decay", "l2"], keys::training::weight_decay, SettingKind::Share),
    (
        &["ds.tensor_parallel_size", "ds_tensor_parallel_size"],
        keys::distribution::tensor_parallel,
        SettingKind::Several,
    ),
    (&["ds.ring_attn_size", "ring_attn_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["ds.deepcompile", "deepcompile"], keys::training::compile, SettingKind::Flag),
    (&["ds.overlap_comm", "overlap_comm"], keys::distribution::overlap_grad_reduce, SettingKind::Flag),
];

/// The way of training that the module's name tells.
fn method<'a>(context: &'a ImportContext<'a>) -> Option<&'a str> {
    let path = context.program.path.trim_end_matches(".py").replace('/', ".");
    let options = arguments::read(&context.program.words).options;
    let own = path.contains("openrlhf.cli.train_") || (path.contains("train_") && is_fork(context));
    let named = context.program.path.trim_end_matches(".py").rsplit_once("train_").map(|(_, method)| method);
    // Whatever a copy calls it: roles have GPUs of Ray's.
    let placed = || ["actor_num_gpus_per_node", "actor.num_gpus_per_node"].iter().any(|name| options.holds(name));
    let placed = named.filter(|method| !method.starts_with("ppo") && placed()).map(|_| "ppo_ray");
    own.then(|| placed.or(named)).flatten()
}

/// Whether a program takes options that only OpenRLHF has together: a copy of it under a name of its own.
fn is_fork(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    ["pretrain", "micro_train_batch_size", "train_batch_size", "zero_stage"].iter().all(|name| options.holds(name))
}

/// Whether the program is OpenRLHF.
pub fn runs(context: &ImportContext) -> bool {
    method(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("OpenRLHF");
    // A copy's parser may have other defaults: where it lies in the checkout, they count.
    let parser = script_defaults::script_of(context).map(|(path, text)| script_defaults::read(&path, &text));
    let settings = parser.unwrap_or_default().with(arguments::read(&context.program.words).options);
    let method = method(context).unwrap_or("").to_owned();
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    let named = settings.first_text(&["model.model_name_or_path", "actor.model_name_or_path", "pretrain"]);
    match named {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "neither --pretrain nor --model.model_name_or_path"),
    }
    tower(&mut imported, &settings);
    batches(&mut imported, &settings, &method);
    take(&mut imported, &settings, ROWS);
    dynamic(&mut imported, &settings);
    precision(&mut imported, &settings);
    memory(&mut imported, &settings);
    attention(&mut imported, &settings, &method);
    low_rank(&mut imported, &settings);
    kinds(&mut imported, &settings, &method, context);
    match method.as_str() {
        "ppo" => accept_roles(&settings),
        name if name.starts_with("ppo") => actor(&mut imported, &settings),
        _ => {}
    }
    account_for(&mut imported, &settings);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// Since 2026 a checkpoint with a tower is loaded whole (`models/actor.py`, `is_vlm`), and trained so where nobody freezes
/// the tower.
fn tower(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.iter().any(|(name, _)| name.contains('.')) {
        vision::whole(imported);
    }
    let frozen = settings.is("actor.freeze_visual_encoder");
    if let Some(tower) = imported.tower.as_mut() {
        (tower.frozen, tower.trained) = (frozen, !frozen);
        settings.accept("actor.freeze_visual_encoder");
    }
}

/// What the parsers of the commands have where nothing is said.
fn batches(imported: &mut ImportedPlan, settings: &Settings, method: &str) {
    imported.say(keys::model::batch_size, 128, default("--train_batch_size 128"));
    let dotted = settings.iter().any(|(name, _)| name.contains('.'));
    let micro = match method {
        "rm" => 1,
        "ppo_ray" if dotted => 1,
        "ppo_ray" => 4,
        _ => 8,
    };
    imported.say(keys::training::micro_batch_size, micro, default(&format!("micro batch {micro}")));
    imported.say(keys::training::gradient_clipping, true, default("--max_norm 1.0"));
    imported.say(keys::training::weight_decay, 0.0, default("no weight decay"));
    let whole = |name: &str| settings.whole(name);
    let both = whole("prompt_max_len").zip(whole("generate_max_len")).map(|(prompt, answer)| {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        Setting::new(prompt.value.saturating_add(answer.value), origin)
    });
    let usual = if matches!(method, "dpo" | "rm" | "kto" | "kd") { 512 } else { 2048 };
    let length = settings.first_whole(&["data.max_len", "max_len"]).or(both);
    imported.set(
        keys::model::sequence_length,
        Some(length.unwrap_or_else(|| Setting::new(usual, default(&format!("--max_len {usual}"))))),
    );
}

/// `--train.dynamic_batch_enable`: as many samples a pass as `--train.max_tokens_per_gpu` holds, which no sample exceeds.
fn dynamic(imported: &mut ImportedPlan, settings: &Settings) {
    if !settings.is("train.dynamic_batch_enable") && !settings.is("use_dynamic_batch") {
        return;
    }
    imported.drop(keys::training::micro_batch_size);
    rollout::packed(imported, settings.first_whole(&["train.max_tokens_per_gpu", "train_max_tokens_per_gpu"]));
    imported.miss(keys::training::micro_batch_size, "dynamic batches: --train.max_tokens_per_gpu decides as it runs");
}

/// DeepSpeed keeps fp32 masters; since 0.8 the type is an argument with bf16 as its default.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let named = settings.first_text(&["ds.param_dtype", "param_dtype"]);
    let old = settings.on("bf16").map(|found| found.map(|_| "bf16".to_owned()));
    let dtype = named.or(old).unwrap_or_else(|| Setting::new("bf16".to_owned(), default("--param_dtype bf16")));
    let stage = settings.first_whole(&["ds.zero_stage", "zero_stage"]);
    let stage = stage.unwrap_or_else(|| Setting::new(2, default("--zero_stage 2")));
    let kept = settings.first_text(&["ds.grad_accum_dtype", "grad_accum_dtype"]);
    if stage.value > 0 {
        let kept = kept.unwrap_or_else(|| Setting::new(dtype.value.clone(), default("gradients in the weights' type")));
        imported.set(keys::training::gradient_dtype, Some(kept));
    }
    imported.set(keys::distribution::sharding, Some(stage.map(deepspeed::stage)));
    imported.say(keys::distribution::engine, "deepspeed", default("get_train_ds_config"));
    imported.set(keys::training::precision, Some(dtype.map(|name| format!("{name}-fp32-master"))));
}

fn memory(imported: &mut ImportedPlan, settings: &Settings) {
    const KEY: &str = "training.activation_checkpointing";
    // `models/actor.py`: AutoLigerKernelForCausalLM makes the model, whose logits the losses take.
    liger::switched(imported, settings, "use_liger_kernel");
    let names =
        ["model.gradient_checkpointing_enable", "actor.gradient_checkpointing_enable", "gradient_checkpointing"];
    let recompute = names.iter().find_map(|name| settings.on(name)).map(|found| found.map(|_| "full"));
    imported.set(KEY, Some(recompute.unwrap_or_else(|| Setting::new("none", default("no gradient checkpointing")))));
    let offload = settings.on("ds.adam_offload").or_else(|| settings.on("adam_offload"));
    let optimizer = settings.first_text(&["optim", "actor.optim"]);
    let word = match (&offload, optimizer) {
        (_, Some(found)) if found.value != "adam" => return common::set_optimizer(imported, Some(found)),
        (Some(found), _) => Setting::new("adamw", found.origin.clone()),
        (None, Some(found)) => found.map(|_| "adamw-fused"),
        (None, None) => Setting::new("adamw-fused", default("FusedAdam")),
    };
    imported.set(keys::training::optimizer, Some(word));
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "optimizer")));
}

/// Up to 0.8.9 attention was eager without `--flash_attn`; since 0.8.10 `--attn_implementation` says it, FlashAttention 2 where
/// nobody does. `--bf16` was an argument up to 0.9.2 (`cli/train_*.py`, `models/actor.py` at each tag).
fn attention(imported: &mut ImportedPlan, settings: &Settings, method: &str) {
    let flash = settings.on("flash_attn").map(|found| found.map(|_| "flash"));
    let named = settings.first_text(&["ds.attn_implementation", "attn_implementation"]);
    let word = named.map(|found| found.map(|name| super::trainer::implementation(&name))).or(flash);
    let packed = settings.is("packing_samples") || settings.is("ds.packing_samples");
    for name in ["ds.packing_samples", "packing_samples"] {
        settings.accept(name);
    }
    let old = method == "ppo" || settings.get("flash_attn").is_some();
    let word = word.or_else(|| match (old, packed) {
        (true, false) => Some(Setting::new("eager", default("eager without --flash_attn, before 0.8.10"))),
        (_, true) => Some(Setting::new("flash", default("packing_samples"))),
        (false, false) if settings.get("bf16").is_some() => None,
        (false, false) => Some(Setting::new("flash", default("attn_implementation flash_attention_2"))),
    });
    imported.set(keys::training::attention, word);
    imported.miss(keys::training::attention, "before 0.8.10 eager without --flash_attn, FlashAttention 2 since");
}

fn low_rank(imported: &mut ImportedPlan, settings: &Settings) {
    let bits = settings.on("ds.load_in_4bit").or_else(|| settings.on("load_in_4bit")).map(|found| found.map(|_| 4));
    let rank = settings.first_whole(&["ds.lora.rank", "lora_rank"]).filter(|found| found.value > 0);
    if rank.is_none() {
        return;
    }
    adapters::set(imported, rank, (VERSION, 8), bits);
    let targets = settings.texts("ds.lora.target_modules").or_else(|| settings.texts("target_modules"));
    let targets =
        targets.unwrap_or_else(|| Setting::new(vec!["all-linear".to_owned()], default("target_modules all-linear")));
    adapters::set_targets(imported, Some(targets));
    take(imported, settings, &[(&["ds.lora.dropout", "lora_dropout"], keys::lora::dropout, SettingKind::Share)]);
}

fn kinds(imported: &mut ImportedPlan, settings: &Settings, method: &str, context: &ImportContext) {
    match method {
        "dpo" => {
            // The reference is a model of its own, with adapters too.
            if imported.get(keys::lora::rank).is_some() {
                not_modelled(imported, "dpo: the reference model");
            }
            TrainingMethod::Dpo.apply(imported);
            reference_on_host(imported, settings);
        }
        "rm" => TrainingMethod::Reward.apply(imported),
        "kto" | "kd" => not_modelled(imported, &format!("{method}: the second model beside the trained one")),
        "ppo_ray" => companions(imported, settings, context),
        "ppo" => together(imported, settings, context),
        _ => {}
    }
}

/// `--ref_offload` of releases before 0.6: under ZeRO-3 the reference's weights lie on the host, under other stages nothing
/// moves (`openrlhf/utils/deepspeed.py`, `get_ds_eval_config`: stage 0 then).
fn reference_on_host(imported: &mut ImportedPlan, settings: &Settings) {
    let offloaded = settings.is("ref_offload") || is_offloaded(settings, "ref");
    for name in ["ref_offload", "ref.offload"] {
        settings.accept(name);
    }
    let sharding = imported.get(keys::distribution::sharding).and_then(|found| found.value.as_str().map(str::to_owned));
    if offloaded && sharding.as_deref() == Some("zero3") {
        imported.drop(keys::training::reference_model);
        imported.notes.retain(|line| !line.ends_with("a reference model beside, which is counted"));
        imported.note("--ref_offload: the reference's weights lie on the host: its pass is not in the time");
    }
}

/// Every role has GPUs of its own unless it is colocated (`cli/train_ppo_ray.py`): vLLM's engines sleep where they are
/// told to, and `--deepspeed_enable_sleep` puts the states of models on the host while others work.
fn companions(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let is = |name: &str| settings.is(&format!("train.{name}")) || settings.is(name);
    let all = is("colocate_all_models") || is("colocate_all");
    let engines = settings.first_whole(&["vllm.num_engines", "vllm_num_engines"]).is_some_and(|found| found.value > 0);
    let asleep = settings.is("ds.enable_sleep") || settings.is("deepspeed_enable_sleep");
    // Asynchronously generated answers come from GPUs apart: only what DeepSpeed trains is colocated then.
    let apart = is("async_enable") || is("async_train");
    if all && engines && !apart {
        let named = ["vllm.gpu_memory_utilization", "vllm_gpu_memory_utilization"];
        let told = named.iter().find_map(|name| settings.number(name));
        let share = told.unwrap_or_else(|| Setting::new(0.95, default("--vllm_gpu_memory_utilization 0.95")));
        let sleeps = settings.is("vllm.enable_sleep") || settings.is("vllm_enable_sleep");
        let word = match (sleeps, asleep) {
            (false, _) => "step",
            (true, true) => "nothing",
            (true, false) => "states",
        };
        rollout::engine(imported, Some(share), Setting::new(word, Origin::Derived("colocate_all_models".to_owned())));
    } else if !engines {
        imported.note("the actor generates its answers itself between the updates: that is not counted");
    } else {
        imported.note("vLLM's engines have GPUs of their own");
    }
    let kl = settings.number("algo.kl.init_coef").or_else(|| settings.number("init_kl_coef"));
    let reference = kl.is_none_or(|found| found.value > 0.0);
    let beside = all || is("colocate_actor_ref");
    if reference && beside && !is_offloaded(settings, "ref") && imported.get(keys::lora::rank).is_none() {
        imported.say(keys::training::reference_model, true, default("colocated, --init_kl_coef above 0"));
    }
    if !all {
        return;
    }
    let reward = settings.first_text(&["reward.model_name_or_path", "reward_pretrain"]);
    let offloaded = is_offloaded(settings, "reward");
    let estimator = settings.first_text(&["algo.advantage.estimator", "advantage_estimator"]);
    // A copy whose trainer is not called after PPO has a critic where an option names one.
    let named = context.program.name().contains("ppo") || settings.iter().any(|(name, _)| name.starts_with("critic"));
    let valued = estimator.map_or(named, |found| found.value == "gae");
    if valued && asleep {
        sleeping_critic(imported, settings, context, reward.as_ref());
    } else if valued {
        imported.say(keys::training::critic_model, true, default("--advantage_estimator gae"));
    }
    if let Some(found) = reward.filter(|_| !offloaded) {
        rollout::frozen(imported, context, &found, "the reward model");
    }
}

/// PPO without Ray, up to 0.5: every model is on every GPU, and the actor generates (`cli/train_ppo.py`).
fn together(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    imported.note("the actor generates its answers itself between the updates: that is not counted");
    let kl = settings.number("init_kl_coef").is_none_or(|found| found.value > 0.0);
    if kl && imported.get(keys::lora::rank).is_none() {
        imported.say(keys::training::reference_model, true, default("cli/train_ppo.py, initial_model"));
    }
    let reward = settings.text("reward_pretrain");
    let actor = settings.text("pretrain").map(|found| found.value);
    let estimator = settings.text("advantage_estimator");
    if estimator.is_none_or(|found| found.value == "gae") {
        // It begins as the reward model where no model of its own is named.
        match settings.text("critic_pretrain").or_else(|| reward.clone()) {
            Some(found) if actor.as_ref() != Some(&found.value) => {
                not_modelled(imported, &format!("the critic {}: another model than the actor", found.value));
            }
            _ => imported.say(keys::training::critic_model, true, default("cli/train_ppo.py, critic")),
        }
    }
    if let Some(found) = reward {
        rollout::frozen(imported, context, &found, "the reward model");
    }
}

/// Whether a frozen model waits on the host: `--reward.offload`, both at once in the arguments up to 0.9.
fn is_offloaded(settings: &Settings, role: &str) -> bool {
    settings.is("ref_reward_offload") || settings.is(&format!("{role}.offload"))
}

/// A critic's states and masters go to the host while it sleeps; its 16-bit weights stay (`offload_deepspeed_states`).
/// It begins as the first reward model, else as the actor (`cli/train_ppo_ray.py`).
fn sleeping_critic(
    imported: &mut ImportedPlan,
    settings: &Settings,
    context: &ImportContext,
    reward: Option<&Setting<String>>,
) {
    let first = |found: &Setting<String>| found.clone().map(|names| names.split(',').next().unwrap_or("").to_owned());
    let named = settings.first_text(&["critic.model_name_or_path", "critic_pretrain"]);
    let actor = || settings.first_text(&["actor.model_name_or_path", "pretrain"]);
    if let Some(found) = named.or_else(|| reward.map(first)).or_else(actor) {
        rollout::frozen(imported, context, &found, "the sleeping critic's weights,");
    }
}

/// Ray starts the actor on GPUs of its own.
fn actor(imported: &mut ImportedPlan, settings: &Settings) {
    let whole = |dotted: &str, old: &str, option: &str, usual: u64| {
        settings.first_whole(&[dotted, old]).unwrap_or_else(|| Setting::new(usual, default(option)))
    };
    let nodes = whole("actor.num_nodes", "actor_num_nodes", "--actor_num_nodes 1", 1);
    let per_node = whole("actor.num_gpus_per_node", "actor_num_gpus_per_node", "--actor_num_gpus_per_node 8", 8);
    let world = World { total: None, nodes: Some(nodes), per_node: Some(per_node) }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
    accept_roles(settings);
}

/// What is said of the other roles, and of how answers are made and judged.
fn accept_roles(settings: &Settings) {
    const ROLES: [&str; 10] = [
        "ref",
        "reward",
        "critic",
        "vllm",
        "rollout",
        "algo",
        "colocate",
        "micro_rollout_batch_size",
        "value_clip",
        "max_ckpt_num",
    ];
    for (name, _) in settings.iter() {
        if ROLES.iter().any(|part| name.starts_with(part)) {
            settings.accept(name);
        }
    }
}
