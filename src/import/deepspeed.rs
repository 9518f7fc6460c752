//! DeepSpeed's JSON (<https://www.deepspeed.ai/docs/config-json/>).

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{Settings, number, text};
use super::unread::account_for;
use super::{file, model};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "DeepSpeed 0.18";

/// Whether the program takes a DeepSpeed configuration.
pub fn runs(context: &ImportContext) -> bool {
    config_path(context).is_some()
}

fn config_path(context: &ImportContext) -> Option<Setting<String>> {
    let options = arguments::read(&context.program.words).options;
    let path = options.first_text(&["deepspeed_config", "ds_config", "deepspeed"])?;
    path.value.ends_with(".json").then_some(path)
}

/// The plan of a script of one's own that DeepSpeed trains.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("DeepSpeed");
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    if let Some(settings) = config_path(context).and_then(|path| context.settings(&path.value, &mut imported)) {
        set(&mut imported, &settings);
        account_for(&mut imported, &settings);
    }
    let options = arguments::read(&context.program.words).options;
    let named = options.first_text(&["model_name_or_path", "lm_model_name_or_path", "model_name", "model"]);
    match named {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, format!("{} does not tell its model", context.program.shown())),
    }
    imported.set(
        keys::model::sequence_length,
        options.first_whole(&["max_seq_len", "max_seq_length", "seq_length", "seq_len", "block_size", "max_length"]),
    );
    imported.fill(
        keys::training::micro_batch_size,
        options.first_whole(&[
            "per_device_train_batch_size",
            "micro_batch_size",
            "train_micro_batch_size",
            "batch_size",
        ]),
    );
    own_batch(&mut imported, &options);
    let recompute = ["gradient_checkpointing", "activation_checkpointing", "checkpoint_activations"]
        .iter()
        .find_map(|name| options.on(name));
    imported.set(keys::training::activation_checkpointing, recompute.map(|found| found.map(|_| "full")));
    account_for(&mut imported, &options);
    imported
}

/// A script may feed batches of another size than its configuration names.
fn own_batch(imported: &mut ImportedPlan, options: &Settings) {
    let Some(own) = options.first_whole(&["batchsize", "batch_size", "train_batch_size", "bs"]) else { return };
    let told = imported.whole(keys::training::micro_batch_size);
    if told.is_some_and(|told| told != own.value) && imported.whole(keys::model::batch_size) != Some(own.value) {
        for key in ["training.micro_batch_size", "model.batch_size", "training.gradient_accumulation_steps"] {
            imported.drop(key);
            imported.miss(key, format!("{} {} and the configuration say two sizes", own.origin, own.value));
        }
    }
}

/// The plan of the file alone.
pub fn of_file(settings: &Settings) -> ImportedPlan {
    let mut imported = ImportedPlan::of("DeepSpeed");
    set(&mut imported, settings);
    account_for(&mut imported, settings);
    imported.miss(keys::model::preset, "a DeepSpeed configuration names no model");
    // What a project calls a template its code fills in (PKU-Alignment/safe-rlhf, `configs/deepspeed_config.py`).
    if settings.iter().any(|(_, found)| matches!(&found.origin, Origin::File { name, .. } if name.contains("template")))
    {
        not_modelled(&mut imported, "a template: what its project's code puts in goes over it");
        imported.unread.get_or_insert_with(|| "what fills the template in".to_owned());
    }
    imported
}

/// Configurations that come with a tool by their names: its name, stage and what goes to the host. All take their types
/// from the tool's own arguments, or bf16 (`axolotl/deepspeed_configs`, `LLaMA-Factory/examples/deepspeed`).
const SHIPPED: [(&str, &str, u64, &str); 11] = [
    ("deepspeed_configs/zero1.json", "axolotl 0.13", 1, ""),
    ("deepspeed_configs/zero2.json", "axolotl 0.13", 2, "optimizer"),
    ("deepspeed_configs/zero3.json", "axolotl 0.13", 3, ""),
    ("deepspeed_configs/zero3_bf16.json", "axolotl 0.13", 3, ""),
    ("deepspeed_configs/zero3_bf16_cpuoffload_all.json", "axolotl 0.13", 3, "optimizer param"),
    ("deepspeed_configs/zero3_bf16_cpuoffload_params.json", "axolotl 0.13", 3, "param"),
    ("ds_z0_config.json", "LLaMA-Factory 0.9", 0, ""),
    ("ds_z2_config.json", "LLaMA-Factory 0.9", 2, ""),
    ("ds_z2_offload_config.json", "LLaMA-Factory 0.9", 2, "optimizer"),
    ("ds_z3_config.json", "LLaMA-Factory 0.9", 3, ""),
    ("ds_z3_offload_config.json", "LLaMA-Factory 0.9", 3, "optimizer param"),
];

/// LLaVA's own (`scripts/*.json` of haotian-liu/LLaVA), which its many copies start with as they are.
const SHIPPED_BY_LLAVA: [(&str, &str, u64, &str); 3] = [
    ("scripts/zero2.json", "LLaVA 1.2", 2, ""),
    ("scripts/zero3.json", "LLaVA 1.2", 3, ""),
    ("scripts/zero3_offload.json", "LLaVA 1.2", 3, "optimizer param"),
];

/// A configuration that comes with a tool, by the path that names it where the file is not at hand.
pub fn shipped(path: &str) -> Option<Settings> {
    shipped_in(&SHIPPED, path)
}

/// The same of LLaVA's. All overlap their reductions; the one that offloads makes DeepSpeed's own `AdamW`.
pub fn shipped_by_llava(path: &str) -> Option<Settings> {
    let mut settings = shipped_in(&SHIPPED_BY_LLAVA, path)?;
    let origin = settings.get("zero_optimization.stage")?.origin.clone();
    settings.set("zero_optimization.overlap_comm", true.into(), origin.clone());
    if settings.holds("zero_optimization.offload_optimizer.device") {
        settings.set("optimizer.type", "AdamW".into(), origin);
    }
    Some(settings)
}

fn shipped_in(table: &[(&str, &'static str, u64, &str)], path: &str) -> Option<Settings> {
    let ends = |name: &str| path == name || path.ends_with(&format!("/{name}"));
    let (name, framework, stage, host) = table.iter().find(|(name, ..)| ends(name))?;
    let mut settings = Settings::default();
    let mut put = |key: &str, value: serde_json::Value| {
        settings.set(key, value, Origin::Default { framework, option: format!("{name}: {key}") });
    };
    put("zero_optimization.stage", (*stage).into());
    let bf16 = if name.contains("bf16") { true.into() } else { "auto".into() };
    put("bf16.enabled", bf16);
    if !name.contains("bf16") {
        put("fp16.enabled", "auto".into());
    }
    put("gradient_accumulation_steps", "auto".into());
    for what in host.split_whitespace() {
        put(&format!("zero_optimization.offload_{what}.device"), "cpu".into());
    }
    Some(settings)
}

/// A stage of ZeRO in a plan's words.
pub fn stage(stage: u64) -> &'static str {
    match stage {
        0 => "none",
        1 => "zero1",
        2 => "zero2",
        _ => "zero3",
    }
}

/// Sets what a DeepSpeed configuration says. `auto` says nothing: whoever fills it in does.
pub fn set(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::distribution::engine, "deepspeed", Origin::Derived("a DeepSpeed configuration".to_owned()));
    imported.set(keys::training::micro_batch_size, settings.whole("train_micro_batch_size_per_gpu"));
    imported.set(keys::model::batch_size, settings.whole("train_batch_size"));
    imported.set(keys::training::gradient_accumulation_steps, settings.whole("gradient_accumulation_steps"));
    let stages = settings.whole("zero_optimization.stage");
    let level = stages.as_ref().map_or(0, |found| found.value);
    imported.set(
        keys::distribution::sharding,
        Some(
            stages.map_or_else(|| Setting::new("none", default("zero_optimization.stage 0")), |found| found.map(stage)),
        ),
    );
    precision(imported, settings, level);
    if let Some(found) = settings.text("optimizer.type") {
        optimizer(imported, settings, found);
    }
    imported.set(
        keys::training::weight_decay,
        settings.number("optimizer.params.weight_decay").filter(|found| (0.0..=1.0).contains(&found.value)),
    );
    imported.set(
        keys::training::gradient_clipping,
        settings.number("gradient_clipping").map(|found| found.map(|norm| norm > 0.0)),
    );
    // Parameters go to the host in stage 3 alone.
    let parameters = host(settings, "offload_param", "cpu_offload_params").filter(|_| level == 3);
    let states = host_state(settings);
    if let Some(origin) = parameters {
        imported.say(keys::training::cpu_offload, "parameters", origin);
    } else if let Some(origin) = states {
        imported.say(keys::training::cpu_offload, "optimizer", origin);
    }
    imported.set(
        keys::distribution::tensor_parallel,
        settings.first_whole(&["tensor_parallel.autotp_size"]).filter(|found| found.value > 0),
    );
    let group = settings.whole("zero_optimization.zero_hpz_partition_size").filter(|found| found.value > 1);
    if let Some(found) = group {
        imported.note(format!(
            "{}: a second copy of the weights in groups of {} has no word in a plan",
            found.origin, found.value
        ));
    }
    let kept = settings.first_text(&["data_types.grad_accum_dtype"]);
    imported.set(keys::training::gradient_dtype, kept.filter(|found| found.value != "auto"));
    let reduce = settings
        .text("communication_data_type")
        .filter(|found| ["fp16", "bf16", "bfp16", "fp32"].contains(&found.value.as_str()));
    imported.set(
        keys::distribution::reduce_dtype,
        reduce.map(|found| found.map(|name| if name == "bfp16" { "bf16".to_owned() } else { name })),
    );
    imported.set(keys::distribution::overlap_grad_reduce, settings.flag("zero_optimization.overlap_comm"));
    imported.set(keys::training::compile, settings.flag("compile.deepcompile"));
    if matches!(level, 1 | 2) {
        bucket(imported, settings);
    }
}

/// The buffer that gradients are gathered in before they are reduced is counted at DeepSpeed's own size, which a file may
/// go over (`runtime/zero/stage_1_and_2.py`, `setup_buckets`); `auto` is the hidden size squared (transformers,
/// `integrations/deepspeed.py`, `trainer_config_finalize`).
fn bucket(imported: &mut ImportedPlan, settings: &Settings) {
    const NAME: &str = "zero_optimization.reduce_bucket_size";
    const USUAL: f64 = 5e8;
    let Some(found) = settings.get(NAME) else { return };
    let said = match (number(&found.value), text(&found.value)) {
        (Some(size), _) if (size - USUAL).abs() < 1.0 => return,
        (Some(size), _) => format!("a buffer of {size:.0} elements"),
        (None, Some(word)) if word == "auto" => "a buffer of the hidden size squared".to_owned(),
        _ => return,
    };
    imported.note(format!("{}: {said}; one of 500000000, DeepSpeed's own, is counted", found.origin));
}

/// What sends a part to the host or the disk: its section, or the switch that older releases have in its place.
fn host(settings: &Settings, section: &str, old: &str) -> Option<Origin> {
    let name = format!("zero_optimization.{section}.device");
    let found = settings.text(&name).filter(|found| found.value != "none");
    let (known, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| ["cpu", "nvme"].contains(&found.value.as_str()));
    if !others.is_empty() {
        settings.refuse(&name);
    }
    let switch = || settings.on(&format!("zero_optimization.{old}")).map(|found| found.origin);
    known.into_iter().next().map(|found| found.origin).or_else(switch)
}

/// What sends the optimizer's states there.
fn host_state(settings: &Settings) -> Option<Origin> {
    host(settings, "offload_optimizer", "cpu_offload")
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// 16-bit weights with fp32 masters and states. Gradients stay in the weights' type where ZeRO
/// shards them (`engine.get_data_types`: fp32 only for bf16 without ZeRO).
fn precision(imported: &mut ImportedPlan, settings: &Settings, stage: u64) {
    let on = |names: &[&str]| names.iter().find_map(|name| settings.flag(name)).filter(|found| found.value);
    let (word, gradients) = if let Some(found) = on(&["bf16.enabled", "bfloat16.enabled"]) {
        (found.map(|_| "bf16-fp32-master"), Some("bf16").filter(|_| stage > 0))
    } else if let Some(found) = on(&["fp16.enabled"]) {
        (found.map(|_| "fp16-fp32-master"), Some("fp16"))
    } else {
        let auto =
            |name: &str| settings.get(name).is_some_and(|found| text(&found.value).is_some_and(|word| word == "auto"));
        // accelerate puts a section in where none is (`DeepSpeedPlugin.set_mixed_precision`), of what has other blanks to fill.
        let halves = ["bf16", "fp16", "bfloat16", "amp"].into_iter().any(|name| settings.holds(name));
        let blank = ["train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"];
        if ["bf16.enabled", "fp16.enabled"].into_iter().any(auto) || (!halves && blank.into_iter().any(auto)) {
            imported.miss(keys::training::precision, "`auto`: whoever fills the configuration in says it");
            return;
        }
        (Setting::new("fp32", default("neither bf16 nor fp16 enabled")), None)
    };
    if let Some(gradients) = gradients {
        let said = format!("gradients in the weights' type, ZeRO stage {stage}");
        imported.say(keys::training::gradient_dtype, gradients, default(&said));
    }
    imported.set(keys::training::precision, Some(word));
    without_masters(imported, settings);
}

/// Masters and gradients in the weights' own type (`runtime/precision_config.py`: `bf16_master_weights_and_grads`,
/// `fp16_master_weights_and_grads`); the states stay in fp32 unless they are told to follow.
fn without_masters(imported: &mut ImportedPlan, settings: &Settings) {
    for half in ["bf16", "fp16"] {
        let named =
            [format!("{half}.{half}_master_weights_and_grads"), format!("{half}.{half}_master_weights_and_gradients")];
        let Some(found) = named.iter().find_map(|name| settings.on(name)) else { continue };
        imported.say(keys::training::precision, half, found.origin.clone());
        imported.say(keys::training::gradient_dtype, half, found.origin.clone());
        if settings.on(&format!("{half}.{half}_optimizer_states")).is_none() {
            imported.say(keys::training::optimizer_state_dtype, "fp32", found.origin);
        }
    }
}

/// Adam is `FusedAdam`, on the host `DeepSpeedCPUAdam`, unless told to take PyTorch's (`runtime/engine.py`,
/// `_configure_basic_optimizer`).
fn optimizer(imported: &mut ImportedPlan, settings: &Settings, found: Setting<String>) {
    let name = found.value.to_lowercase();
    let torch = settings.is("optimizer.params.torch_adam");
    if (name == "adam" || name == "adamw") && !torch {
        let word = if host_state(settings).is_some() { "adamw" } else { "adamw-fused" };
        return imported.say(keys::training::optimizer, word, found.origin);
    }
    if name.contains("onebit") || name.contains("zeroone") || name == "lamb" {
        imported.note(format!("{}: `{}` is counted as Adam: two states", found.origin, found.value));
        return imported.say(keys::training::optimizer, "adamw", found.origin);
    }
    common::set_optimizer(imported, Some(found));
}

/// Whether settings are a DeepSpeed configuration.
pub fn is_config(settings: &Settings) -> bool {
    let own =
        ["zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "fp16.enabled", "bf16.enabled"];
    // Others have a section of these names among many of their own.
    let foreign = settings.iter().filter(|(name, _)| {
        let first = name.split('.').next().unwrap_or(name);
        !KNOWN.contains(&first)
    });
    own.iter().any(|name| settings.holds(name)) && foreign.count() <= 3 && !file::is_plan(settings)
}

/// Names of its sections and settings (<https://www.deepspeed.ai/docs/config-json/>).
const KNOWN: [&str; 52] = [
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "optimizer",
    "scheduler",
    "communication_data_type",
    "prescale_gradients",
    "gradient_predivide_factor",
    "sparse_gradients",
    "fp16",
    "bf16",
    "bfloat16",
    "amp",
    "gradient_clipping",
    "zero_optimization",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "zero_allow_comm_data_type_fp32",
    "steps_per_print",
    "wall_clock_breakdown",
    "dump_state",
    "aio",
    "autotuning",
    "flops_profiler",
    "activation_checkpointing",
    "sparse_attention",
    "data_efficiency",
    "curriculum_learning",
    "tensorboard",
    "wandb",
    "csv_monitor",
    "comet",
    "elasticity",
    "comms_logger",
    "compression_training",
    "checkpoint",
    "data_types",
    "tensor_parallel",
    "compile",
    "pipeline",
    "hybrid_engine",
    "monitor_config",
    "seed",
    "nebula",
    "disable_allgather",
    "eigenvalue",
    "progressive_layer_drop",
    "timers",
    "torch_autocast",
    "zero_quantized_weights",
    "sequence_parallel_size",
    "graph_harvesting",
];
