//! accelerate: `accelerate launch`'s arguments, its YAML, and the variables that it sets for
//! the processes that it starts (`src/accelerate/utils/launch.py` at 16cb6eb8).

mod left;

use crate::common::ImportContext;
use crate::deepspeed;
use crate::imported::ImportedPlan;
use crate::launch::{Launcher, LauncherKind, World};
use crate::origin::{Origin, Setting};
use crate::plan::keys;
use crate::rows::{SettingKind, SettingRow, take};
use crate::settings::{Settings, is_open};
use crate::trainer::reentrant;
use crate::unread::account_for;

pub use left::{account_for_file, compare_accumulation};

/// Variables of a started process, and the settings of the YAML that they come from.
const VARIABLES: &[(&str, &str)] = &[
    ("ACCELERATE_MIXED_PRECISION", "mixed_precision"),
    ("ACCELERATE_USE_FSDP", "use_fsdp"),
    ("ACCELERATE_USE_DEEPSPEED", "use_deepspeed"),
    ("ACCELERATE_DEEPSPEED_ZERO_STAGE", "deepspeed_config.zero_stage"),
    ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "gradient_accumulation_steps"),
    ("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "deepspeed_config.offload_optimizer_device"),
    ("ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "deepspeed_config.offload_param_device"),
    ("ACCELERATE_DEEPSPEED_CONFIG_FILE", "deepspeed_config.deepspeed_config_file"),
    ("FSDP_SHARDING_STRATEGY", "fsdp_config.fsdp_sharding_strategy"),
    ("FSDP_RESHARD_AFTER_FORWARD", "fsdp_config.fsdp_reshard_after_forward"),
    ("FSDP_VERSION", "fsdp_config.fsdp_version"),
    ("FSDP_OFFLOAD_PARAMS", "fsdp_config.fsdp_offload_params"),
    ("FSDP_ACTIVATION_CHECKPOINTING", "fsdp_config.fsdp_activation_checkpointing"),
    ("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "parallelism_config.parallelism_config_dp_replicate_size"),
    ("PARALLELISM_CONFIG_DP_SHARD_SIZE", "parallelism_config.parallelism_config_dp_shard_size"),
    ("PARALLELISM_CONFIG_TP_SIZE", "parallelism_config.parallelism_config_tp_size"),
    ("PARALLELISM_CONFIG_CP_SIZE", "parallelism_config.parallelism_config_cp_size"),
    ("PARALLELISM_CONFIG_SP_SIZE", "parallelism_config.parallelism_config_sp_size"),
];

/// Arguments of `accelerate launch` that the YAML has under a heading.
const SECTIONS: &[(&str, &str)] = &[
    ("fsdp_", "fsdp_config"),
    ("zero_stage", "deepspeed_config"),
    ("offload_", "deepspeed_config"),
    ("gradient_accumulation_steps", "deepspeed_config"),
    ("gradient_clipping", "deepspeed_config"),
    ("deepspeed_config_file", "deepspeed_config"),
    ("parallelism_config_", "parallelism_config"),
];

/// Whether settings are accelerate's YAML.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("compute_environment") || (settings.holds("distributed_type") && settings.holds("num_processes"))
}

/// The world of a launcher; what accelerate's arguments leave open its YAML says, or the GPUs do.
pub fn configured(context: &ImportContext, launcher: &Launcher, world: World) -> World {
    if launcher.kind != LauncherKind::Accelerate {
        return world;
    }
    let settings = of_launcher(context, launcher, &mut ImportedPlan::default());
    let gpus = || context.visible_gpus();
    let single = settings.text("distributed_type").filter(|kind| kind.value.eq_ignore_ascii_case("no"));
    let one = single.map(|kind| kind.map(|_| 1));
    // A number that only the run knows is not that of the GPUs.
    let told = settings.get("num_processes").is_some();
    let total = settings.whole("num_processes").or(one).or_else(|| gpus().filter(|_| !told));
    let default =
        || Setting::new(1, Origin::Default { framework: "accelerate", option: "--num_machines 1".to_owned() });
    World { total, nodes: settings.whole("num_machines").or_else(|| Some(default())), per_node: None }.completed()
}

/// A launcher's own settings: its YAML, and its arguments over that.
fn of_launcher(context: &ImportContext, launcher: &Launcher, imported: &mut ImportedPlan) -> Settings {
    let mut settings = Settings::default();
    let path = launcher.options.text("config_file").map(|found| found.value).or_else(|| default_config(context));
    if launcher.options.get("config_file").is_some() && launcher.options.text("config_file").is_none() {
        settings.set(UNREAD, "the launcher's --config_file".into(), Origin::Argument("--config_file".to_owned()));
        settings.adopt_all(&launcher.options, |name| (name != "config_file").then(|| name.to_owned()));
        return settings;
    }
    if let Some(path) = path {
        let named = launcher.options.get("config_file").is_some();
        if named || context.run.files.read(&path).is_ok() {
            match context.settings(&path, imported) {
                Some(file) => settings.over(file),
                None => settings.set(UNREAD, path.into(), Origin::Argument("--config_file".to_owned())),
            }
        }
    }
    settings.adopt_all(&launcher.options, |name| {
        let section = SECTIONS.iter().find(|(start, _)| name.starts_with(start));
        Some(section.map_or_else(|| name.to_owned(), |(_, section)| format!("{section}.{name}")))
    });
    let named = settings.get(DEEPSPEED_FILE).is_some();
    let read = settings.text(DEEPSPEED_FILE).is_some_and(|path| context.run.files.read(&path.value).is_ok());
    if named && !read && settings.get(UNREAD).is_none() {
        settings.set(UNREAD, "--deepspeed_config_file".into(), Origin::Argument("--deepspeed_config_file".to_owned()));
    }
    settings
}

/// Where accelerate is told a configuration of DeepSpeed's.
const DEEPSPEED_FILE: &str = "deepspeed_config.deepspeed_config_file";

/// Stands among the settings for a file that could not be read.
const UNREAD: &str = "unread_config_file";

/// Takes out what the Trainer does by itself, where accelerate's file, which may say otherwise, was not read.
pub fn distrust(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(file) = settings.text(UNREAD) else { return };
    for key in ["distribution.sharding", "distribution.engine", "training.precision"] {
        let why = format!("{}, which may say it, was not read", file.value);
        imported.doubt_default(key, why.clone());
        imported.miss(key, why);
    }
}

/// Where `accelerate config` writes.
fn default_config(context: &ImportContext) -> Option<String> {
    let variable = |name: &str| context.variable(name).map(|found| found.value);
    let home = variable("HF_HOME").or_else(|| variable("HOME").map(|home| format!("{home}/.cache/huggingface")))?;
    Some(format!("{home}/accelerate/default_config.yaml"))
}

/// What accelerate is told: by its launcher, or by the variables that one sets.
pub fn settings(context: &ImportContext, imported: &mut ImportedPlan) -> Option<Settings> {
    let launcher = context.launchers.iter().find(|launcher| launcher.kind == LauncherKind::Accelerate);
    let mut settings = launcher.map(|launcher| of_launcher(context, launcher, imported)).unwrap_or_default();
    for (variable, name) in VARIABLES {
        if let Some(found) = context.variable(variable) {
            settings.set(name, found.value.into(), found.origin);
        }
    }
    let anything = settings.iter().next().is_some();
    anything.then_some(settings)
}

/// The plan of a YAML alone.
pub fn of_file(settings: &Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("accelerate");
    // Without a way to distribute there is one process, whatever number stands beside it.
    let alone = settings.text("distributed_type").filter(|kind| kind.value.eq_ignore_ascii_case("no"));
    imported
        .set(keys::cluster::num_gpus, alone.map(|kind| kind.map(|_| 1)).or_else(|| settings.whole("num_processes")));
    imported.set(keys::cluster::nodes, settings.whole("num_machines"));
    set(&mut imported, settings, context, true);
    imported.miss(keys::model::preset, "an accelerate configuration names no model");
    imported.miss(keys::training::precision, "no mixed_precision: the script says it");
    account_for(&mut imported, settings);
    imported
}

/// Sets what accelerate decides: precision where `weights` are fp32 (else autocast changes
/// nothing that is stored), sharding, offloading.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, weights: bool) {
    // Files of accelerate before 0.5 have a switch for it (`commands/config/config_args.py`).
    let old = settings.on("fp16").filter(|_| settings.get("mixed_precision").is_none());
    let mixed = settings.text("mixed_precision").or_else(|| old.map(|found| found.map(|_| "fp16".to_owned())));
    if let Some(found) = mixed.filter(|_| weights) {
        let word = match found.value.to_lowercase().as_str() {
            "bf16" => Some("bf16-mixed"),
            "fp16" => Some("fp16-mixed"),
            "fp8" => Some("fp8-mixed"),
            "no" | "false" => Some("fp32"),
            _ => None,
        };
        imported.set(keys::training::precision, word.map(|word| found.map(|_| word)));
    }
    let kind = settings.text("distributed_type").map_or(String::new(), |found| found.value.to_uppercase());
    if kind == "FSDP" || settings.is("use_fsdp") {
        set_fsdp(imported, &settings.below("fsdp_config"));
        // Sizes decide what is wrapped under SIZE_BASED_WRAP alone (`utils/dataclasses.py`, `set_auto_wrap_policy`).
        let policy = settings.get("fsdp_config.fsdp_auto_wrap_policy").and_then(|found| found.value.as_str());
        if policy.is_some_and(|found| found.eq_ignore_ascii_case("TRANSFORMER_BASED_WRAP")) {
            settings.accept("fsdp_config.fsdp_min_num_params");
        }
    }
    if kind == "DEEPSPEED" || settings.is("use_deepspeed") {
        deepspeed_part(imported, settings, context);
    }
    if kind == "MEGATRON_LM" || settings.is("use_megatron_lm") {
        megatron_part(imported, settings);
    }
    if kind == "MULTI_GPU" {
        imported
            .set(keys::distribution::sharding, settings.text("distributed_type").map(|found| found.map(|_| "none")));
        imported.set(keys::distribution::engine, settings.text("distributed_type").map(|found| found.map(|_| "ddp")));
    }
    let dynamo = settings
        .first_text(&["dynamo_config.dynamo_backend", "dynamo_backend"])
        .filter(|found| !found.value.eq_ignore_ascii_case("no"));
    // These backends run the captured operators as they are (torch/_dynamo/backends/debugging.py).
    let fuses = |found: &str| !["eager", "aot_eager"].iter().any(|plain| found.eq_ignore_ascii_case(plain));
    imported.set(keys::training::compile, dynamo.map(|found| found.map(|backend| fuses(&backend))));
    for (name, key) in [("tp", "distribution.tensor_parallel"), ("cp", "distribution.context_parallel")] {
        let found = settings.whole(&format!("parallelism_config.parallelism_config_{name}_size"));
        imported.set(key, found.filter(|found| found.value > 1));
    }
    // Ulysses: a sequence is split too, heads are exchanged for it.
    let ulysses = settings.whole("parallelism_config.parallelism_config_sp_size").filter(|found| found.value > 1);
    imported.set(keys::distribution::cp_comm, ulysses.clone().map(|found| found.map(|_| "a2a")));
    imported.set(keys::distribution::context_parallel, ulysses);
    let shard = settings.whole("parallelism_config.parallelism_config_dp_shard_size").filter(|found| found.value > 1);
    let replicas =
        settings.whole("parallelism_config.parallelism_config_dp_replicate_size").filter(|found| found.value > 1);
    if replicas.is_some() {
        imported.set(keys::distribution::shard_group, shard);
    }
}

/// Whether PyTorch's FSDP frees what it gathers and reduces gradients layer by layer, in a step of several micro-batches:
/// only there it matters whether a loop waits for the last of them.
pub fn reduces_by_unit(imported: &ImportedPlan) -> bool {
    let is = |key: &str, words: &[&str]| {
        imported.get(key).and_then(|found| found.value.as_str()).is_some_and(|word| words.contains(&word))
    };
    is(keys::distribution::sharding, &["zero3"])
        && is(keys::distribution::engine, &["fsdp1", "fsdp2"])
        && imported.whole(keys::training::gradient_accumulation_steps).is_some_and(|steps| steps > 1)
}

/// Sharding as FSDP's settings have it, by their names with or without `fsdp_`.
pub fn set_fsdp(imported: &mut ImportedPlan, settings: &Settings) {
    const READ: [&str; 5] =
        ["version", "sharding_strategy", "reshard_after_forward", "offload_params", "activation_checkpointing"];
    for name in READ {
        let told = settings.get(&format!("fsdp_{name}")).or_else(|| settings.get(name));
        if let Some(found) = told.filter(|found| found.value.as_str().is_some_and(is_open)) {
            imported.note(format!("{}: not known here, accelerate's default is taken", found.origin));
        }
    }
    let text = |name: &str| settings.text(&format!("fsdp_{name}")).or_else(|| settings.text(name));
    let flag = |name: &str| settings.flag(&format!("fsdp_{name}")).or_else(|| settings.flag(name));
    let version = text("version").or_else(|| settings.text("fsdp_version"));
    // Read by the first FSDP alone (utils/dataclasses.py, `FullyShardedDataParallelPlugin.__post_init__`).
    let first = version.as_ref().is_none_or(|found| found.value != "2");
    let told = text("sharding_strategy").filter(|_| first);
    let strategy = told.clone().map(|found| found.map(|name| strategy(&name)));
    // FSDP2 says it by whether what was gathered is freed after the forward pass.
    let reshard = text("reshard_after_forward").map(|found| {
        found.map(|name| match name.to_lowercase().as_str() {
            "false" | "shard_grad_op" => "zero2",
            "no_shard" => "none",
            _ => "zero3",
        })
    });
    let default = Setting::new(
        "zero3",
        Origin::Default { framework: "accelerate", option: "fsdp_sharding_strategy FULL_SHARD".to_owned() },
    );
    imported.set(keys::distribution::sharding, Some(strategy.or(reshard).unwrap_or(default)));
    let usual = Origin::Default { framework: "accelerate", option: "fsdp_version 1".to_owned() };
    let engine = version.map_or(Setting::new("fsdp1", usual), |found| {
        found.map(|version| if version == "2" { "fsdp2" } else { "fsdp1" })
    });
    imported.set(keys::distribution::engine, Some(engine));
    if let Some(found) =
        told.filter(|found| found.value.to_uppercase().contains("HYBRID") || matches!(found.value.as_str(), "4" | "5"))
    {
        imported.note(format!("{}: shards within a node; distribution.shard_group is the GPUs of one", found.origin));
    }
    let offload = flag("offload_params").or_else(|| flag("cpu_offload")).filter(|found| found.value);
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "parameters")));
    let recompute = flag("activation_checkpointing").filter(|found| found.value);
    if let Some(found) = recompute {
        imported.say(keys::training::activation_checkpointing, "full", found.origin.clone());
        reentrant::wrapped(imported, found.origin);
    }
}

/// A strategy of FSDP by name or number (`torch.distributed.fsdp.ShardingStrategy`).
pub fn strategy(name: &str) -> &'static str {
    match name.to_uppercase().as_str() {
        "SHARD_GRAD_OP" | "2" | "HYBRID_SHARD_ZERO2" | "_HYBRID_SHARD_ZERO2" | "5" => "zero2",
        "NO_SHARD" | "3" => "none",
        _ => "zero3",
    }
}

/// Megatron-LM below accelerate (`utils/dataclasses.py`, `MegatronLMPlugin`): its degrees, and the micro batches of
/// a step.
fn megatron_part(imported: &mut ImportedPlan, settings: &Settings) {
    const ROWS: &[SettingRow] = &[
        (&["tp_degree"], keys::distribution::tensor_parallel, SettingKind::Whole),
        (&["pp_degree"], keys::distribution::pipeline_parallel, SettingKind::Whole),
        (&["num_micro_batches"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
        (&["sequence_parallelism"], keys::distribution::sequence_parallel, SettingKind::Flag),
        (&["use_distributed_optimizer"], keys::training::distributed_optimizer, SettingKind::Flag),
        (&["recompute_activations"], keys::training::activation_checkpointing, SettingKind::On("selective")),
        (&["gradient_clipping"], keys::training::gradient_clipping, SettingKind::Clipped),
    ];
    let mut own = Settings::default();
    for section in [settings.clone(), settings.below("megatron_lm_config")] {
        own.adopt_all(&section, |name| name.strip_prefix("megatron_lm_").map(str::to_owned));
    }
    let origin = Origin::Derived("accelerate's Megatron-LM plugin".to_owned());
    imported.say(keys::model::framework, "megatron", origin.clone());
    imported.say(keys::distribution::engine, "megatron", origin);
    take(imported, &own, ROWS);
    let half = settings.text("mixed_precision").and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "bf16" => Some("bf16-fp32-master"),
            "fp16" => Some("fp16-fp32-master"),
            _ => None,
        })
    });
    imported.set(keys::training::precision, half);
}

/// What `mixed_precision` fills into a DeepSpeed file that leaves it open: 16-bit weights with fp32 masters, no autocast.
fn stored_by_deepspeed(imported: &mut ImportedPlan) {
    let Some(found) = imported.get(keys::training::precision).cloned() else { return };
    let word = match found.value.as_str() {
        Some("bf16-mixed") => "bf16-fp32-master",
        Some("fp16-mixed") => "fp16-fp32-master",
        _ => return,
    };
    imported.say(keys::training::precision, word, found.origin);
}

/// `mixed_precision` fills a section that the file leaves to `auto` or has not (`DeepSpeedPlugin.set_mixed_precision`),
/// whatever type the weights were loaded in.
fn fill_precision(imported: &mut ImportedPlan, file: &Settings, settings: &Settings) {
    let Some(found) = settings.text("mixed_precision") else { return };
    let (section, word) = match found.value.as_str() {
        "bf16" => ("bf16", "bf16-fp32-master"),
        "fp16" => ("fp16", "fp16-fp32-master"),
        _ => return,
    };
    let other = file.is("bf16.enabled") || file.is("fp16.enabled");
    let enabled = file.text(&format!("{section}.enabled"));
    if other || enabled.is_some_and(|told| told.value != "auto") {
        return;
    }
    imported.say(keys::training::precision, word, found.origin.clone());
    if file.whole("zero_optimization.stage").is_some_and(|stage| stage.value > 0) {
        imported.say(keys::training::gradient_dtype, section, found.origin);
    }
}

fn deepspeed_part(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    imported.say(keys::distribution::engine, "deepspeed", Origin::Derived("accelerate's DeepSpeed plugin".to_owned()));
    if let Some(path) = settings.text(DEEPSPEED_FILE) {
        let file = context.settings(&path.value, imported);
        if let Some(file) = &file {
            deepspeed::set(imported, file);
        }
        stored_by_deepspeed(imported);
        if let Some(file) = &file {
            fill_precision(imported, file, settings);
            account_for(imported, file);
        }
        if let Some(found) = settings.text("mixed_precision").filter(|found| found.value == "fp8") {
            imported.drop(keys::training::precision);
            imported.miss(
                keys::training::precision,
                format!("{} fp8: what DeepSpeed stores then is not followed", found.origin),
            );
        }
        return;
    }
    let default = || Setting::new(2, Origin::Default { framework: "accelerate", option: "--zero_stage 2".to_owned() });
    // A file that only the run knows: no stage is taken for it.
    if settings.get(DEEPSPEED_FILE).is_some() && settings.whole("deepspeed_config.zero_stage").is_none() {
        return;
    }
    let stage = settings.whole("deepspeed_config.zero_stage").unwrap_or_else(default);
    let gradients = stage.value > 0;
    let third = stage.value == 3;
    imported.set(keys::distribution::sharding, Some(stage.map(deepspeed::stage)));
    let device = |name: &str| {
        settings.text(&format!("deepspeed_config.{name}")).filter(|found| !found.value.eq_ignore_ascii_case("none"))
    };
    if let Some(found) = device("offload_param_device").filter(|_| third) {
        imported.set(keys::training::cpu_offload, Some(found.map(|_| "parameters")));
        settings.accept("deepspeed_config.offload_optimizer_device");
    } else if let Some(found) = device("offload_optimizer_device") {
        imported.set(keys::training::cpu_offload, Some(found.map(|_| "optimizer")));
    }
    imported
        .set("training.gradient_accumulation_steps", settings.whole("deepspeed_config.gradient_accumulation_steps"));
    let clipping = settings.number("deepspeed_config.gradient_clipping");
    imported.set(keys::training::gradient_clipping, clipping.map(|found| found.map(|norm| norm > 0.0)));
    // DeepSpeed keeps 16-bit weights and fp32 masters, not autocast.
    let word = settings.text("mixed_precision").and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "bf16" => Some(("bf16-fp32-master", "bf16")),
            "fp16" => Some(("fp16-fp32-master", "fp16")),
            _ => None,
        })
    });
    if let Some(found) = word {
        imported.say(keys::training::precision, found.value.0, found.origin.clone());
        imported.set(keys::training::gradient_dtype, Some(found.map(|(_, gradients)| gradients)).filter(|_| gradients));
    }
}
