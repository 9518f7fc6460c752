//! NeMo-RL: `examples/run_sft.py --config CONFIG.yaml KEY=VALUE…` and its kin (`examples/configs/*.yaml` of its main
//! branch in 2026; the workers load weights in fp32: `nemo_rl/models/policy/dtensor_policy_worker.py`).

mod megatron;

use serde_json::Value;

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::World;
use super::methods::{self, TrainingMethod, reference_on_host};
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::Settings;
use super::unread::account_for;
use super::{adapters, model, rollout, vision};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "NeMo-RL of 2026";

/// Configurations in each other by `defaults`.
const DEEPEST: usize = 8;

const ROWS: &[SettingRow] = &[
    (&["policy.train_global_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["policy.train_micro_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["policy.max_total_sequence_length"], keys::model::sequence_length, SettingKind::Whole),
    (&["policy.max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
];

const TENSORS: &[SettingRow] = &[
    (&["policy.optimizer.kwargs.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["policy.dtensor_cfg.tensor_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Several),
    (&["policy.dtensor_cfg.context_parallel_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["policy.dtensor_cfg.expert_parallel_size"], keys::distribution::expert_parallel, SettingKind::Several),
    (&["policy.dtensor_cfg.sequence_parallel"], keys::distribution::sequence_parallel, SettingKind::Flag),
    (&["policy.dtensor_cfg.cpu_offload"], keys::training::cpu_offload, SettingKind::On("parameters")),
];

/// Whether settings are NeMo-RL's.
pub fn is_config(settings: &Settings) -> bool {
    let own = ["policy.dtensor_cfg", "policy.megatron_cfg", "policy.train_global_batch_size", "policy.model_name"];
    let named = own.iter().any(|name| settings.holds(name));
    let over = settings.text("defaults").is_some_and(|found| found.value.ends_with(".yaml"));
    (named && settings.holds("cluster")) || (over && (settings.holds("policy") || settings.holds("cluster")))
}

/// Whether the program is one of its scripts.
pub fn runs(context: &ImportContext) -> bool {
    let name = context.program.name();
    let named = name.starts_with("run_") && name.ends_with(".py");
    let config = arguments::read(&context.program.words).options.text("config");
    named
        && config.is_some_and(|found| {
            let mut quiet = ImportedPlan::default();
            context.settings(&found.value, &mut quiet).is_some_and(|settings| is_config(&settings))
        })
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("NeMo-RL");
    let read = arguments::read(&context.program.words);
    let path = read.options.text("config").map(|found| found.value).unwrap_or_default();
    let file = context.configuration(&path, &mut imported).unwrap_or_default();
    let settings = whole(&mut imported, file, &path, context).with(arguments::overrides(&context.program.words));
    set(&mut imported, settings, &format!("{} {path}", context.program.name()), context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("NeMo-RL");
    let settings = whole(&mut imported, file, name, context);
    set(&mut imported, settings, name, context);
    imported
}

/// The file over those that it names as its `defaults`.
fn whole(imported: &mut ImportedPlan, file: Settings, name: &str, context: &ImportContext) -> Settings {
    let (mut layers, mut path) = (vec![file], name.to_owned());
    for _ in 0..DEEPEST {
        let Some(below) = layers.last().and_then(|layer| layer.text("defaults")) else { break };
        let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
        path = format!("{folder}/{}", below.value);
        let Some(next) = context.configuration(&path, imported) else { break };
        layers.push(next);
    }
    let mut settings = Settings::default();
    layers.into_iter().rev().for_each(|layer| settings.over(layer));
    settings.interpolate();
    settings
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

fn set(imported: &mut ImportedPlan, settings: Settings, named: &str, context: &ImportContext) {
    let settings = &settings;
    match settings.text("policy.model_name") {
        Some(found) => {
            model::set(imported, context, found);
            // `models/policy/utils.py`, `AUTOMODEL_FACTORY`: the class for pictures and text where there is one.
            vision::whole(imported);
        }
        None => imported.miss(keys::model::preset, "no policy.model_name"),
    }
    take(imported, settings, ROWS);
    for name in ["dynamic_batching", "sequence_packing"] {
        if settings.is(&format!("policy.{name}.enabled")) {
            imported.drop(keys::training::micro_batch_size);
            rollout::packed(imported, settings.whole(&format!("policy.{name}.train_mb_tokens")));
            imported.miss(
                keys::training::micro_batch_size,
                format!("policy.{name}: as many samples a pass as train_mb_tokens hold"),
            );
        }
    }
    padding(settings);
    // Checkpoints are saved between steps; their weights are converted as they are loaded (`nemo_rl/models/megatron/`).
    for name in ["checkpointing.enabled", "policy.megatron_cfg.converter_type"] {
        settings.accept(name);
    }
    if settings.is("policy.megatron_cfg.enabled") {
        megatron::set(imported, settings);
    } else {
        settings.accept("policy.dtensor_cfg.enabled");
        on_tensors(imported, settings);
    }
    let world = World {
        total: None,
        nodes: settings.whole("cluster.num_nodes"),
        per_node: settings.whole("cluster.gpus_per_node"),
    }
    .completed();
    let apart = settings.flag("policy.generation.colocated.enabled").is_some_and(|found| !found.value);
    let world = if apart { beside_an_engine(settings, &world) } else { Some(world) };
    if let Some(world) = world {
        imported.set(keys::cluster::num_gpus, world.total);
        imported.set(keys::cluster::nodes, world.nodes);
        imported.set(keys::cluster::gpus_per_node, world.per_node);
    } else {
        imported
            .miss(keys::cluster::num_gpus, "some of cluster's GPUs generate: policy.generation.colocated.resources");
    }
    method(imported, settings, named);
    let beside =
        ["generation", "grpo.", "loss_fn", "env.", "sft.", "dpo.", "rm.", "distillation.", "logger.", "cfg.env"];
    for (name, _) in settings.iter() {
        if beside.iter().any(|part| name.contains(part)) || matches!(name, "defaults" | "policy.refit_buffer_size_gb") {
            settings.accept(name);
        }
    }
    // Prompts that are longer are dropped, or cut to it (`nemo_rl/data/processors.py`).
    settings.accept("data.max_input_seq_length");
    account_for(imported, settings);
}

/// What an engine with GPUs of its own leaves of a cluster to the policy: the others of one node, or the other nodes; none
/// where reward models, teachers or environments take some as well (`nemo_rl/algorithms/grpo.py`, `setup`).
fn beside_an_engine(settings: &Settings, world: &World) -> Option<World> {
    let other = |(name, found): (&str, &Setting<Value>)| {
        name.contains("reward_model.resources")
            || name.ends_with("num_gpu_nodes")
            || name.contains("teacher") && name.ends_with("enabled") && found.value == true
    };
    if !settings.iter().any(|(name, _)| name.starts_with("grpo.")) || settings.iter().any(other) {
        return None;
    }
    let resource = |name: &str| settings.whole(&format!("policy.generation.colocated.resources.{name}"));
    let (nodes, per_node) = (world.nodes.as_ref()?.value, world.per_node.as_ref()?.value);
    let (taken, all) =
        if nodes == 1 { (resource("gpus_per_node")?, per_node) } else { (resource("num_nodes")?, nodes) };
    let left = all.checked_sub(taken.value).filter(|left| *left > 0)?;
    let left = Setting::new(left, Origin::Derived(format!("{all} - {} that generate ({})", taken.value, taken.origin)));
    let (nodes, per_node) =
        if nodes == 1 { (world.nodes.clone(), Some(left)) } else { (Some(left), world.per_node.clone()) };
    Some(World { total: None, nodes, per_node }.completed())
}

/// Packs are filled up to a multiple of so many tokens, and are put in some order.
fn padding(settings: &Settings) {
    const NAMES: [&str; 3] = ["sequence_length_round", "make_sequence_length_divisible_by", "microbatch_order"];
    for (name, _) in settings.iter().filter(|(name, _)| NAMES.iter().any(|end| name.ends_with(end))) {
        settings.accept(name);
    }
}

/// FSDP2 over fp32 weights, computing in `policy.precision`.
fn on_tensors(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::model::framework, "pytorch", Origin::Program("policy.dtensor_cfg".to_owned()));
    take(imported, settings, TENSORS);
    let precision = settings.text("policy.precision").and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "bfloat16" | "bf16" => Some("bf16-mixed"),
            "float16" => Some("fp16-mixed"),
            "float32" => Some("fp32"),
            _ => None,
        })
    });
    if precision.is_none() {
        settings.refuse("policy.precision");
    }
    imported.set(keys::training::precision, precision);
    imported.say(keys::distribution::engine, "fsdp2", default("fully_shard"));
    imported.say(keys::distribution::sharding, "zero3", default("fully_shard"));
    let recompute = settings.flag("policy.dtensor_cfg.activation_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    let name = settings.text("policy.optimizer.name");
    let off = |name: &str| settings.flag(&format!("policy.optimizer.kwargs.{name}")).is_some_and(|found| !found.value);
    let loop_ = off("foreach") && off("fused");
    match name {
        Some(found) if loop_ && common::optimizer(&found.value) == Some("adamw") => {
            imported.set(keys::training::optimizer, Some(found.map(|_| "adamw-loop")));
        }
        other => common::set_optimizer(imported, other),
    }
    fused_adam(imported, settings);
    automodel(imported, settings);
    let replicas = settings.whole("policy.dtensor_cfg.dp_replicate_size").filter(|found| found.value > 1);
    if let Some(found) = replicas {
        not_modelled(imported, &format!("{}: shards in {} groups", found.origin, found.value));
    }
    if settings.is("policy.dtensor_cfg.lora_cfg.enabled") {
        adapters::set(imported, settings.whole("policy.dtensor_cfg.lora_cfg.dim"), (VERSION, 8), None);
        let all = settings.is("policy.dtensor_cfg.lora_cfg.match_all_linear");
        let names = settings.texts("policy.dtensor_cfg.lora_cfg.target_modules");
        let linear = || Setting::new(vec!["all-linear".to_owned()], Origin::Derived("match_all_linear".to_owned()));
        adapters::set_targets(imported, if all { Some(linear()) } else { names });
        let of = |name: &str| format!("policy.dtensor_cfg.lora_cfg.{name}");
        imported.set(
            keys::lora::dropout,
            settings.number(&of("dropout")).filter(|found| (0.0..1.0).contains(&found.value)),
        );
        if let Some(found) = settings.texts(&of("exclude_modules")).filter(|found| !found.value.is_empty()) {
            not_modelled(imported, &format!("{}: modules without adapters", found.origin));
        }
    }
    for (name, _) in settings.iter() {
        if name.starts_with("policy.megatron_cfg") || name.contains("lora_cfg") {
            settings.accept(name);
        }
    }
    // One kernel for all parameters in the place of one for each kind of arithmetic.
    let fused = settings.on("policy.optimizer.kwargs.fused");
    if imported.get(keys::training::optimizer).is_some_and(|found| found.value == "adamw") {
        imported.set(keys::training::optimizer, fused.map(|found| found.map(|_| "adamw-fused")));
    }
    for name in ["foreach", "fused", "betas", "eps"] {
        settings.accept(&format!("policy.optimizer.kwargs.{name}"));
    }
}

/// What NeMo-Automodel loads the policy's model with (`models/automodel/setup.py`); a `backend` gives its own models
/// modules that are none of transformers' (`components/models/common/utils.py`, `BackendConfig`).
fn automodel(imported: &mut ImportedPlan, settings: &Settings) {
    // How the checkpoint is read and the router computes, what is forced off (fused rotary embeddings), and what is
    // ignored by now (`enable_deepep`).
    const IDLE: [&str; 8] = [
        "policy.dequantize_base_checkpoint",
        "policy.dtensor_cfg.automodel_kwargs.backend._target_",
        "policy.dtensor_cfg.automodel_kwargs.backend.fake_balanced_gate",
        "policy.dtensor_cfg.automodel_kwargs.backend.enable_hf_state_dict_adapter",
        "policy.dtensor_cfg.automodel_kwargs.backend.rope_fusion",
        "policy.dtensor_cfg.automodel_kwargs.backend.enable_deepep",
        "policy.dtensor_cfg.automodel_kwargs.backend.gate_precision",
        "policy.dtensor_cfg.automodel_kwargs.force_hf",
    ];
    let section = "policy.dtensor_cfg.automodel_kwargs";
    let named = [format!("{section}.attn_implementation"), format!("{section}.backend.attn")];
    let found = named.iter().find_map(|name| settings.text(name));
    imported.set(keys::training::attention, found.and_then(attention));
    IDLE.iter().for_each(|name| settings.accept(name));
    let liger = format!("{section}.use_liger_kernel");
    if let Some(found) = settings.on(&liger) {
        not_modelled(imported, &format!("{}: Liger's modules, which keep less", found.origin));
    }
    own_modules(imported, settings, &format!("{section}.backend"));
}

/// The modules that NeMo-Automodel's own models are made of, in the place of transformers'.
pub fn own_modules(imported: &mut ImportedPlan, settings: &Settings, section: &str) {
    let backend = settings.below(section);
    let parts: Vec<String> = ["attn", "linear", "rms_norm", "experts", "dispatcher"]
        .iter()
        .filter_map(|name| Some(format!("{name} {}", backend.text(name)?.value)))
        .collect();
    if !parts.is_empty() {
        not_modelled(imported, &format!("{section}: NeMo-Automodel's own modules ({})", parts.join(", ")));
    }
}

/// What the policy's model is loaded with.
pub fn attention(found: Setting<String>) -> Option<Setting<&'static str>> {
    found.and_then(|name| match name.as_str() {
        "eager" => Some("eager"),
        "sdpa" => Some("sdpa"),
        "flash_attention_2" | "flash_attention_3" | "te" => Some("flash"),
        _ => None,
    })
}

/// Transformer Engine's `FusedAdam` keeps its states in the types that it is told, over fp32 weights without masters.
fn fused_adam(imported: &mut ImportedPlan, settings: &Settings) {
    let of = |name: &str| format!("policy.optimizer.kwargs.{name}");
    let kind = |name: &str| {
        settings.text(&of(name)).and_then(|found| {
            found.and_then(|text| match text.rsplit('.').next() {
                Some("bfloat16") => Some("bf16"),
                Some("float16") => Some("fp16"),
                Some("float32") => Some("fp32"),
                _ => None,
            })
        })
    };
    match (kind("exp_avg_dtype"), kind("exp_avg_sq_dtype")) {
        (Some(first), Some(second)) if first.value == second.value => {
            imported.set(keys::training::optimizer_state_dtype, Some(first));
        }
        (None, None) => {}
        (first, second) => {
            let origin = first.or(second).map(|found| found.origin.to_string()).unwrap_or_default();
            not_modelled(imported, &format!("{origin}: moments in two types"));
        }
    }
    let half = settings.text("policy.precision").is_some_and(|found| found.value.contains("16"));
    if half && settings.is(&of("master_weights")) {
        not_modelled(imported, "policy.optimizer.kwargs.master_weights: masters of weights that may be in 16 bits");
    }
    for name in ["master_weights", "store_param_remainders", "exp_avg_dtype", "exp_avg_sq_dtype"] {
        settings.accept(&of(name));
    }
}

/// A colocated engine has the GPU while the policy's weights and states lie on the host (`dtensor_policy_worker.py`,
/// `offload_before_refit` and `offload_after_refit`); the reference's weights take the place of the policy's for a pass.
fn generation(imported: &mut ImportedPlan, settings: &Settings) {
    let section = "policy.generation";
    imported.note(methods::ON_HOST);
    if settings.flag(&format!("{section}.colocated.enabled")).is_some_and(|found| !found.value) {
        return imported.note("the engine that generates has GPUs of its own");
    }
    // vLLM takes that many bytes for keys and values then, whatever share it is told (`vllm/config/cache.py`).
    if let Some(found) = settings.get(&format!("{section}.vllm_kwargs.kv_cache_memory_bytes")) {
        let said = "what the engine that generates takes of the GPUs beside its keys and values";
        return not_modelled(imported, &format!("{}: {said}", found.origin));
    }
    let backend = settings.text(&format!("{section}.backend")).map_or_else(String::new, |found| found.value);
    let names: &[&str] = match backend.as_str() {
        "trtllm" => &["trtllm_cfg.gpu_memory_utilization"],
        "sglang" => &["sglang_cfg.mem_fraction_static"],
        _ => &["vllm_cfg.gpu_memory_utilization", "sglang_cfg.mem_fraction_static"],
    };
    let share = names.iter().find_map(|name| settings.number(&format!("{section}.{name}")));
    let why = Origin::Derived(format!("{section}.colocated: the policy is on the host while answers are generated"));
    rollout::engine(imported, share, Setting::new("nothing", why));
}

/// The section that is there names the method; `dpo` takes pairs, which the worker counts as two sequences.
fn method(imported: &mut ImportedPlan, settings: &Settings, named: &str) {
    let sections = [
        ("distillation", TrainingMethod::Distillation),
        ("dpo", TrainingMethod::Dpo),
        ("rm", TrainingMethod::Reward),
        ("ppo", TrainingMethod::Ppo),
        ("grpo", TrainingMethod::Grpo),
    ];
    let found = sections.iter().find(|(section, _)| settings.holds(section)).map(|(_, method)| *method);
    if settings.holds("sft") && found.is_none() {
        return;
    }
    match found.or_else(|| TrainingMethod::of_name(named)) {
        Some(TrainingMethod::Grpo) => generation(imported, settings),
        Some(method) => {
            method.apply(imported);
            reference_on_host(imported);
        }
        None => {}
    }
}
