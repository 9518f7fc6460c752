//! NeMo-Automodel: `automodel CONFIG.yaml` and its recipes' files (`nemo_automodel/components/distributed/config.py`,
//! `training/step_scheduler.py`, `_peft/lora.py`, `_transformers/auto_model.py` of its main branch in 2026).

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::World;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take, usual};
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, fused_adam, model, nemo_rl, rollout};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "NeMo-Automodel of 2026";

/// `StepSchedulerConfig`, `FSDP2Config`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("step_scheduler.global_batch_size", DefaultValue::Whole(32)),
    ("distributed.strategy", DefaultValue::Text("fsdp2")),
    ("distributed.activation_checkpointing", DefaultValue::Flag(false)),
];

const ROWS: &[SettingRow] = &[
    (&["step_scheduler.global_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["step_scheduler.local_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["distributed.tp_size"], keys::distribution::tensor_parallel, SettingKind::Several),
    (&["distributed.pp_size"], keys::distribution::pipeline_parallel, SettingKind::Several),
    (&["distributed.cp_size"], keys::distribution::context_parallel, SettingKind::Several),
    (&["distributed.ep_size"], keys::distribution::expert_parallel, SettingKind::Several),
    (&["distributed.dp_size"], keys::distribution::data_parallel, SettingKind::Whole),
    (&["distributed.sequence_parallel"], keys::distribution::sequence_parallel, SettingKind::Flag),
    (&["compile.enabled"], keys::training::compile, SettingKind::Flag),
    (&["clip_grad_norm.max_norm", "max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
];

/// Whether settings are NeMo-Automodel's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("step_scheduler.local_batch_size")
        && settings.text("model._target_").is_some_and(|found| found.value.to_lowercase().contains("nemo"))
}

fn config(context: &ImportContext) -> Option<String> {
    let read = arguments::read(&context.program.words);
    let named = read.options.first_text(&["config", "c"]).map(|found| found.value);
    named.or_else(|| read.words.into_iter().find(|word| word.ends_with(".yaml")))
}

/// Whether the program is its command, or takes such a file.
pub fn runs(context: &ImportContext) -> bool {
    let command = matches!(context.program.name(), "automodel" | "nemo_automodel.cli.app");
    let reads = |path: String| {
        let mut quiet = ImportedPlan::default();
        context.settings(&path, &mut quiet).is_some_and(|settings| is_config(&settings))
    };
    command || (context.program.python && config(context).is_some_and(reads))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("NeMo-Automodel");
    let read = arguments::read(&context.program.words);
    let mut settings = config(context).and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    // `--step_scheduler.local_batch_size 4` goes over the file.
    settings.adopt_all(&read.options, |name| name.contains('.').then(|| name.to_owned()));
    if let Some(found) = read.options.whole("nproc_per_node") {
        // `ci.nodes`: on how many nodes its makers start a recipe (`tests/ci_tests/utils/generate_ci_tests.py`).
        let nodes = read.options.whole("nnodes").or_else(|| settings.whole("ci.nodes").filter(|nodes| nodes.value > 0));
        match nodes {
            Some(nodes) => {
                let world = World { total: None, nodes: Some(nodes), per_node: Some(found) }.completed();
                imported.set(keys::cluster::num_gpus, world.total);
                imported.set(keys::cluster::nodes, world.nodes);
            }
            None => imported.set(keys::cluster::num_gpus, Some(found)),
        }
    }
    set(&mut imported, settings, context);
    for (name, _) in read.options.iter().filter(|(name, _)| name.contains('.') || matches!(*name, "config" | "c")) {
        read.options.accept(name);
    }
    account_for(&mut imported, &read.options);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("NeMo-Automodel");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// As a task of SkyPilot it runs a process on each GPU that it asks for (`components/launcher/skypilot/config.py`).
fn of_skypilot(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("skypilot.accelerators") else { return };
    let count = found.value.rsplit_once(':').map_or(Some(1), |(_, count)| count.trim().parse().ok());
    let nodes = settings.whole("skypilot.num_nodes");
    if imported.get(keys::cluster::num_gpus).is_some() {
        return;
    }
    let per_node = count.map(|count: u64| Setting::new(count, found.origin));
    let world = World {
        total: None,
        nodes: nodes.or_else(|| Some(Setting::new(1, default("skypilot.num_nodes 1")))),
        per_node,
    };
    let world = world.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.say(keys::model::framework, "pytorch", Origin::Program("NeMo-Automodel's own keys".to_owned()));
    match settings.first_text(&["model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path"]) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no model.pretrained_model_name_or_path"),
    }
    take(imported, settings, ROWS);
    precision(imported, settings);
    match settings.text("optimizer._target_") {
        // FlashOptim's states and corrections of weights have types of their own.
        Some(found) if found.value.contains("flashoptim") => {
            not_modelled(imported, &format!("{}: {}: its states", found.origin, found.value));
            imported.miss(keys::training::optimizer, format!("`{}` has no word in a plan", found.value));
        }
        Some(found) if fused_adam::is_meant(&found.value) => {
            common::set_optimizer(imported, Some(found));
            fused_adam::set(imported, settings, "optimizer");
        }
        target => {
            // PyTorch's own asked for its fused kernel.
            let fused = settings.on("optimizer.fused");
            common::set_optimizer(imported, target);
            let plain = imported.get(keys::training::optimizer).is_some_and(|found| found.value == "adamw");
            imported.set(keys::training::optimizer, fused.filter(|_| plain).map(|found| found.map(|_| "adamw-fused")));
        }
    }
    of_skypilot(imported, settings);
    recompute(imported, settings);
    sharding(imported, settings);
    pipeline(imported, settings, context);
    mixed_precision(imported, settings);
    low_rank(imported, settings);
    sequence(imported, settings);
    let fused = settings.text("loss_fn._target_").filter(|found| found.value.ends_with("FusedLinearCrossEntropy"));
    imported.set(keys::training::loss, fused.map(|found| found.map(|_| "fused")));
    imported.fill(
        keys::training::attention,
        settings.text("model.attn_implementation").map(|found| found.map(|name| super::trainer::implementation(&name))),
    );
    imported.set(keys::training::attention, settings.text("model.backend.attn").and_then(nemo_rl::attention));
    nemo_rl::own_modules(imported, settings, "model.backend");
    beside(imported, settings, context);
    usual(settings, "distributed.dp_size", &["none"]);
    // `ci.`: what its own tests take beside the file.
    let beside = ["checkpoint.", "ci."];
    for (name, _) in settings.iter().filter(|(name, _)| beside.iter().any(|part| name.starts_with(part))) {
        settings.accept(name);
    }
    // Batches are as long as their longest sample, up to a multiple.
    settings.accept("dataloader.collate_fn.pad_seq_len_divisible");
    for name in ["model._target_", "model.trust_remote_code", "peft.use_triton", "recipe", "seed", "benchmark"] {
        settings.accept(name);
    }
    account_for(imported, settings);
}

/// Weights are kept as `torch_dtype` says, `auto` means bf16 (`auto_model.py`, `from_pretrained`); FSDP2 computes in bf16.
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let told = settings.first_text(&["model.torch_dtype", "model.dtype", "model.config.torch_dtype"]);
    let word = match told.as_ref().map(|found| found.value.trim_start_matches("torch.")) {
        None | Some("auto" | "bf16" | "bfloat16") => "bf16",
        Some("float32" | "fp32") => "bf16-mixed",
        Some(_) => return settings.refuse("model.torch_dtype"),
    };
    imported.set(
        keys::training::precision,
        Some(told.map_or_else(|| Setting::new(word, default("torch_dtype auto")), |found| found.map(|_| word))),
    );
    if settings.is("fp8.enabled") {
        not_modelled(imported, "fp8: torchao's FP8 linear layers");
    }
}

fn recompute(imported: &mut ImportedPlan, settings: &Settings) {
    const NAME: &str = "distributed.activation_checkpointing";
    let word = settings.flag(NAME).map(|found| found.map(|on| if on { "full" } else { "none" }));
    let named = settings.text(NAME).and_then(|found| {
        found.and_then(|word| match word.as_str() {
            "full" => Some("full"),
            "selective" => Some("selective-op"),
            _ => None,
        })
    });
    imported.set(keys::training::activation_checkpointing, word.or(named));
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings) {
    // Older files name the manager's class.
    let strategy = settings.first_text(&["distributed._target_", "distributed.strategy"]);
    let Some(found) = strategy else { return };
    let name = found.value.to_lowercase();
    let (engine, sharded) = if name.contains("megatron") {
        ("megatron-fsdp", "zero3")
    } else if name.contains("fsdp2") {
        ("fsdp2", "zero3")
    } else if name.contains("ddp") {
        ("ddp", "none")
    } else {
        return settings.refuse("distributed.strategy");
    };
    imported.say(keys::distribution::engine, engine, found.origin.clone());
    imported.say(keys::distribution::sharding, sharded, found.origin);
    settings.accept("distributed.strategy");
    let replicas = settings.whole("distributed.dp_replicate_size").filter(|found| found.value > 1);
    if let Some(found) = replicas {
        not_modelled(imported, &format!("{}: shards in {} groups", found.origin, found.value));
    }
}

/// A local batch runs through the pipeline in micro batches of their own size (`pipelining/config.py`, `PipelineConfig`).
fn pipeline(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const SIZE: &str = "distributed.pipeline.pp_microbatch_size";
    const SCHEDULE: &str = "distributed.pipeline.pp_schedule";
    let piped = imported.whole(keys::distribution::pipeline_parallel).is_some_and(|stages| stages > 1);
    settings.accept(SIZE);
    settings.accept(SCHEDULE);
    // What stages hand on is in the type that all compute in.
    const HANDED_ON: &str = "distributed.pipeline.dtype";
    usual(settings, HANDED_ON, &["bf16", "bfloat16", "torch.bfloat16"]);
    if !piped {
        return;
    }
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    let size = settings.whole(SIZE).unwrap_or_else(|| Setting::new(1, default("pp_microbatch_size 1")));
    one_by_one(imported, settings, size.value);
    imported.set(keys::training::micro_batch_size, Some(size));
    let schedule =
        settings.text(SCHEDULE).unwrap_or_else(|| Setting::new("1f1b".to_owned(), default("pp_schedule 1f1b")));
    match schedule.value.to_lowercase().as_str() {
        "1f1b" => imported.set(keys::distribution::pipeline_schedule, Some(schedule)),
        "gpipe" => imported.set(keys::distribution::pipeline_schedule, Some(schedule.map(|_| "gpipe"))),
        "interleaved1f1b" => {
            imported.set(keys::distribution::pipeline_schedule, Some(schedule.map(|_| "interleaved")));
            interleaved(imported, settings, context);
        }
        _ => not_modelled(imported, &format!("{}: the schedule {}", schedule.origin, schedule.value)),
    }
}

/// Each local batch goes through the pipeline by itself, and the next one waits until it has come back
/// (`recipes/llm/train_ft.py`, `_forward_backward_step`).
fn one_by_one(imported: &mut ImportedPlan, settings: &Settings, micro: u64) {
    let (Some(local), Some(whole)) =
        (settings.whole("step_scheduler.local_batch_size"), imported.whole(keys::model::batch_size))
    else {
        return;
    };
    let degree = |key| imported.whole(key).unwrap_or(1).max(1);
    let split = degree(keys::distribution::tensor_parallel)
        .saturating_mul(degree(keys::distribution::pipeline_parallel))
        .saturating_mul(degree(keys::distribution::context_parallel));
    let replicas = imported.whole(keys::cluster::num_gpus).map_or(1, |gpus| (gpus / split).max(1));
    if whole > local.value.saturating_mul(replicas) {
        let said = format!(
            "{}: each {} micro batches go through the pipeline by themselves",
            local.origin,
            local.value / micro.max(1)
        );
        not_modelled(imported, &said);
    }
}

/// Two stages on each rank unless their layers are told (`pipelining/functional.py`, `calculate_virtual_stages`).
fn interleaved(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const LAYERS: &str = "distributed.pipeline.layers_per_stage";
    let stages = imported.whole(keys::distribution::pipeline_parallel).unwrap_or(1);
    let Some(told) = settings.whole(LAYERS) else {
        let origin = Origin::Default { framework: VERSION, option: "two stages a rank".to_owned() };
        return imported.say(keys::distribution::virtual_pipeline, 2, origin);
    };
    let preset = imported.get(keys::model::preset).and_then(|found| found.value.as_str());
    let layers = preset.and_then(|name| context.catalog.model(name)?.hf_config.get("num_hidden_layers")?.as_u64());
    match layers.map(|layers| layers.div_ceil(told.value.max(1)).div_ceil(stages)) {
        Some(pieces) => imported.set(keys::distribution::virtual_pipeline, Some(told.map(|_| pieces))),
        None => not_modelled(imported, &format!("{}: {} layers a stage", told.origin, told.value)),
    }
}

/// What FSDP2 computes and reduces in (`distributed/config.py`, `FSDP2Config.mp_policy`).
fn mixed_precision(imported: &mut ImportedPlan, settings: &Settings) {
    const POLICY: &str = "distributed.mp_policy";
    let half = |name: &str| {
        settings
            .text(&format!("{POLICY}.{name}"))
            .filter(|found| found.value.trim_start_matches("torch.") == "bfloat16")
    };
    for name in ["_target_", "output_dtype", "cast_forward_inputs"] {
        settings.accept(&format!("{POLICY}.{name}"));
    }
    if half("param_dtype").is_none() && settings.text(&format!("{POLICY}.param_dtype")).is_some() {
        settings.refuse(&format!("{POLICY}.param_dtype"));
    }
    let reduced = settings.text(&format!("{POLICY}.reduce_dtype")).and_then(|found| {
        found.and_then(|word| match word.trim_start_matches("torch.") {
            "bfloat16" => Some("bf16"),
            "float32" => Some("fp32"),
            _ => None,
        })
    });
    imported.set(keys::distribution::reduce_dtype, reduced);
}

fn low_rank(imported: &mut ImportedPlan, settings: &Settings) {
    if !settings.holds("peft") {
        return;
    }
    adapters::set(imported, settings.whole("peft.dim"), (VERSION, 8), None);
    if settings.holds("quantization") {
        let bits = [("quantization.load_in_4bit", 4_u64), ("quantization.load_in_8bit", 8)];
        let found = bits.iter().find_map(|(name, bits)| settings.on(name).map(|found| found.map(|_| *bits)));
        imported.set(keys::lora::base_bits, found);
    }
    if settings.is("peft.match_all_linear") {
        let all = Setting::new(vec!["all-linear".to_owned()], Origin::Derived("peft.match_all_linear".to_owned()));
        adapters::set_targets(imported, Some(all));
    } else if let Some(found) = settings.texts("peft.target_modules") {
        // `*_proj` is each linear layer of a transformer's blocks.
        let whole = found.value.iter().any(|name| name.contains("*_proj"));
        let names = found.map(|names| if whole { vec!["all-linear".to_owned()] } else { names });
        adapters::set_targets(imported, Some(names));
    }
    imported
        .set(keys::lora::dropout, settings.number("peft.dropout").filter(|found| (0.0..1.0).contains(&found.value)));
}

/// Packed samples have their own length; else the dataset's.
fn sequence(imported: &mut ImportedPlan, settings: &Settings) {
    let packed = settings.whole("packed_sequence.packed_sequence_size").filter(|found| found.value > 0);
    let dataset = settings.first_whole(&["dataset.seq_len", "dataset.seq_length", "dataset.max_length"]);
    imported.set(keys::model::sequence_length, packed.or(dataset));
    imported.miss(keys::model::sequence_length, "neither packed_sequence.packed_sequence_size nor the dataset says it");
}

fn beside(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    // Made as the student is, and sharded with it (`nemo_automodel/recipes/llm/kd.py`, `_build_teacher_model`).
    if let Some(found) = settings.text("teacher_model.pretrained_model_name_or_path") {
        if settings.is("separate_meshes") {
            not_modelled(
                imported,
                "separate_meshes: the teacher is on ranks of its own, which the number of GPUs includes",
            );
        } else {
            rollout::frozen(imported, context, &found, "the teacher");
        }
        not_modelled(imported, "distillation: the teacher's pass and its logits");
    }
    if settings.text("model._target_").is_some_and(|found| !found.value.contains("CausalLM")) {
        not_modelled(imported, "a model that is no language model alone");
    }
    if settings.holds("qat") {
        not_modelled(imported, "quantisation-aware training");
    }
}
