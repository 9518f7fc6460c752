//! LLaMA-Factory's YAML and arguments (`src/llamafactory/hparams` at ff6d4d12).

mod loaded;
mod starter;

use super::adapters;
use super::arguments;
use super::axolotl::self_launched;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::script_defaults;
use super::settings::{DefaultValue, Settings};
use super::text;
use super::trainer::{self, WeightStorage};
use super::unread::account_for;
use super::versions;
use super::vision;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "LLaMA-Factory 0.9";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("cutoff_len", DefaultValue::Whole(2048)),
    ("finetuning_type", DefaultValue::Text("lora")),
    ("lora_target", DefaultValue::Text("all")),
    ("lora_dropout", DefaultValue::Number(0.0)),
    ("flash_attn", DefaultValue::Text("auto")),
];

/// The scripts that its releases before 0.8, and the tools that it came from (LLaMA-Efficient-Tuning and
/// ChatGLM-Efficient-Tuning), were started by.
const OLD_SCRIPTS: [&str; 6] =
    ["train_bash.py", "train_sft.py", "train_pt.py", "train_rm.py", "train_ppo.py", "train_dpo.py"];

/// What those have in common; the targets of adapters differ, and their dropout, which was 0.1 and became 0
/// (`hparams/data_args.py` and `hparams/finetuning_args.py` of 0.1 to 0.7: 512 + 512 tokens, later `cutoff_len` 1024).
const OLD_DEFAULTS: &[(&str, DefaultValue)] = &[
    ("cutoff_len", DefaultValue::Whole(1024)),
    ("finetuning_type", DefaultValue::Text("lora")),
    ("flash_attn", DefaultValue::Text("auto")),
];

/// Where a checkout declares its arguments, beside the script that starts it.
const OWN_CLASSES: [&str; 7] = [
    "llamafactory/hparams/data_args.py",
    "llamafactory/hparams/finetuning_args.py",
    "llamafactory/hparams/model_args.py",
    "llmtuner/hparams/data_args.py",
    "llmtuner/hparams/finetuning_args.py",
    "llmtuner/hparams/model_args.py",
    "utils/config.py",
];

/// Whether the program is LLaMA-Factory.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    let launched = ["llamafactory-cli", "lmf", "llamafactory", "llamafactory.cli"].contains(&program.name());
    let scripts: [&str; 4] =
        ["llamafactory/launcher.py", "llamafactory/train", "llamafactory/v1/", "LLaMA-Factory/src/train"];
    let script =
        scripts.iter().any(|part| program.path.contains(part)) || program.path.starts_with("llamafactory.train");
    let read = |path: String| text::yaml(&path, &context.run.files.read(&path).ok()?).ok();
    if config(context).and_then(read).is_some_and(|file| !trains(&file.with(arguments::read(&program.words).options))) {
        return false;
    }
    let text = || context.run.files.read(&config(context)?).ok();
    (launched && matches!(program.words.first().map(String::as_str), Some("train" | "sft" | "dpo" | "rm")))
        || script
        || (!launched && program.words.iter().any(|word| word.starts_with("--finetuning_type")))
        || (!launched && text().is_some_and(|text| text.contains("finetuning_type:")))
}

fn config(context: &ImportContext) -> Option<String> {
    let endings = [".yaml", ".yml", ".json"];
    let words = context.program.words.iter().take_while(|word| !word.starts_with("--"));
    // `deepspeed=ds_z3.json` goes over a setting of the file (`hparams/parser.py`, `read_args`).
    words.filter(|word| endings.iter().any(|ending| word.ends_with(ending)) && !word.contains('=')).last().cloned()
}

/// Whether settings are LLaMA-Factory's.
pub fn is_config(settings: &Settings) -> bool {
    // Others call their way of training so too; its own files name a stage, a template or the data beside it.
    let own = ["stage", "template", "dataset", "per_device_train_batch_size"].iter().any(|name| settings.holds(name));
    let named = settings.holds("stage") && settings.holds("model_name_or_path");
    trains(settings) && (is_v1(settings) || (settings.holds("finetuning_type") && own) || named)
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("LLaMA-Factory");
    let mut settings = defaults(context);
    if let Some(file) = config(context).and_then(|path| context.configuration(&path, &mut imported)) {
        settings.over(file);
    }
    // Options are read below.
    let words: Vec<String> = context.program.words.iter().filter(|word| !word.starts_with('-')).cloned().collect();
    settings.over(arguments::overrides(&words));
    settings.over(arguments::read(&context.program.words).options);
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    if context.world.total.is_none() && starter::starts_torchrun(context) {
        self_launched(&mut imported, context, "llamafactory-cli starts torchrun on every GPU in sight");
    }
    set(&mut imported, &settings, context);
    starter::say_modules(&mut imported, context);
    account_for(&mut imported, &settings);
    imported
}

/// What nobody has to say: by the release, over which the classes of the checkout go that the script stands in.
fn defaults(context: &ImportContext) -> Settings {
    let old = OLD_SCRIPTS.contains(&context.program.name());
    let of_release = if old {
        Settings::defaults("LLaMA-Factory before 0.8", OLD_DEFAULTS)
    } else {
        Settings::defaults(VERSION, DEFAULTS)
    };
    let started = context.program.path.rsplit_once('/').filter(|_| context.program.python);
    let folder = match started {
        Some((folder, _)) => folder,
        None if context.program.python => return of_release,
        // Its own command is started where the checkout begins.
        None => "src",
    };
    let mut own = Settings::default();
    for path in
        OWN_CLASSES.iter().filter(|file| old || !file.starts_with("utils")).map(|file| format!("{folder}/{file}"))
    {
        if let Ok(text) = context.run.files.read(&path) {
            own.over(script_defaults::read(&path, &text));
        }
    }
    of_release.with(own)
}

/// The length of a sample. Before `cutoff_len` it was that of a question and its answer, or of a block of a text
/// (`extras`' and `data`'s `preprocess_dataset` of 0.1).
fn length(imported: &mut ImportedPlan, settings: &Settings) {
    let longest = settings.whole("cutoff_len");
    let parts = settings.whole("max_source_length").filter(|_| !settings.is_set("cutoff_len"));
    let Some(source) = parts else { return imported.set(keys::model::sequence_length, longest) };
    if settings.text("stage").is_some_and(|found| found.value == "pt") {
        return imported.set(keys::model::sequence_length, Some(source));
    }
    let default = Origin::Default { framework: "LLaMA-Factory 0.1", option: "max_target_length 512".to_owned() };
    let target = settings.whole("max_target_length").unwrap_or_else(|| Setting::new(512, default));
    let origin = Origin::Derived(format!("{} + {}", source.origin, target.origin));
    imported.say(keys::model::sequence_length, source.value.saturating_add(target.value), origin);
}

/// The plan of a file alone.
pub fn of_file(file: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("LLaMA-Factory");
    imported.say(keys::model::framework, "pytorch", Origin::Program("LLaMA-Factory's own keys".to_owned()));
    let settings = defaults(context).with(file);
    set(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    shared_by_launcher(&mut imported, name);
    imported
}

/// A file of `accelerate launch` whose name says that it shards, and that says nothing of it itself
/// (`examples/ascend/qwen3vlmoe_lora_sft_fsdp.yaml`).
fn shared_by_launcher(imported: &mut ImportedPlan, name: &str) {
    let base = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let Some(word) = ["fsdp", "zero2", "zero3", "deepspeed"].into_iter().find(|word| base.contains(word)) else {
        return;
    };
    let none = imported.get(keys::distribution::sharding).is_some_and(|found| found.value == "none");
    let both = [keys::distribution::sharding, keys::distribution::engine];
    if none && both.iter().all(|key| imported.is_default(key)) {
        for key in both {
            imported.doubt_default(key, format!("the file is named after `{word}`: its launcher says it"));
        }
    }
}

/// The layout of 2026 (`src/llamafactory/v1/config`).
fn is_v1(settings: &Settings) -> bool {
    let model = settings.holds("model") || settings.holds("train_dataset") || settings.holds("peft_config");
    (settings.holds("model_class") && model) || (settings.holds("dist_config") && settings.holds("cutoff_len"))
}

/// The names of 2026 as the ones before.
fn renamed(settings: &Settings) -> Settings {
    const NAMES: &[(&str, &str)] = &[
        ("model", "model_name_or_path"),
        ("micro_batch_size", "per_device_train_batch_size"),
        ("peft_config.name", "finetuning_type"),
        ("peft_config.r", "lora_rank"),
        ("peft_config.lora_dropout", "lora_dropout"),
        ("peft_config.target_modules", "lora_target"),
        ("quant_config.quantization_bit", "quantization_bit"),
        ("dist_config.config_file", "deepspeed"),
        ("optim_config.name", "optim"),
        ("optim_config.wd", "weight_decay"),
        ("optim_config.weight_decay", "weight_decay"),
    ];
    let default = |option: &str| Origin::Default { framework: "LLaMA-Factory v1", option: option.to_owned() };
    let mut now = settings.clone();
    now.set("finetuning_type", "full".into(), default("no peft_config"));
    now.set("per_device_train_batch_size", 1.into(), default("micro_batch_size 1"));
    now.set("optim", "adamw_torch".into(), default("optim_config AdamW"));
    // Weights are loaded in 16 bits, and trained so.
    now.set("pure_bf16", true.into(), default("bf16 true"));
    for (theirs, ours) in NAMES {
        now.adopt(ours, settings, theirs);
    }
    if let Some(found) = settings.flag("bf16").filter(|found| !found.value) {
        now.set("pure_bf16", false.into(), found.origin);
    }
    if let Some(found) = settings.flag("enable_activation_checkpointing").filter(|found| !found.value) {
        now.set("disable_gradient_checkpointing", true.into(), found.origin);
    }
    if let Some(found) = settings.text("dist_config.name").filter(|found| found.value == "fsdp2") {
        now.set("distribution.sharding", "zero3".into(), found.origin);
    }
    now
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    starter::ray_workers(imported, settings);
    if !is_v1(settings) {
        return set_arguments(imported, settings, context);
    }
    let mut settings = renamed(settings);
    starter::v1_stage(&mut settings, context);
    set_arguments(imported, &settings, context);
    imported.set(keys::model::batch_size, settings.whole("global_batch_size"));
    if imported.get(keys::model::batch_size).is_some() {
        imported.drop(keys::training::gradient_accumulation_steps);
    }
    imported.set(keys::distribution::context_parallel, settings.whole("cp_size").filter(|found| found.value > 1));
    loaded::of_v1(imported, &settings);
}

/// Megatron's core trains where the environment says `USE_MCA` or `USE_MEGATRON_BRIDGE`, and only then do
/// its arguments count.
fn on_megatron(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let asked = ["USE_MCA", "USE_MEGATRON_BRIDGE"].iter().find_map(|name| context.variable(name));
    let degrees = [
        ("tensor_model_parallel_size", keys::distribution::tensor_parallel),
        ("pipeline_model_parallel_size", keys::distribution::pipeline_parallel),
        ("context_parallel_size", keys::distribution::context_parallel),
        ("expert_model_parallel_size", keys::distribution::expert_parallel),
    ];
    // A file alone does not show the environment; its keys mean nothing elsewhere.
    let named = degrees.iter().find_map(|(name, _)| settings.whole(name)).map(|found| found.origin);
    let Some(origin) = asked.map(|found| found.origin).or(named) else { return };
    imported.say(keys::model::framework, "megatron", origin.clone());
    imported.say(keys::training::precision, "bf16-fp32-master", origin.clone());
    for (name, key) in degrees {
        imported.set(key, settings.whole(name));
    }
    imported.set(keys::distribution::sequence_parallel, settings.flag("sequence_parallel"));
    imported.set(keys::training::distributed_optimizer, settings.flag("use_distributed_optimizer"));
    imported.set(keys::training::moe_grouped_gemm, settings.flag("moe_grouped_gemm"));
    let recomputed = settings.text("recompute_granularity").filter(|found| found.value != "none");
    let nothing = Setting::new("none".to_owned(), Origin::Derived("no recompute_granularity".to_owned()));
    imported.set(keys::training::activation_checkpointing, Some(recomputed.unwrap_or(nothing)));
    imported.say(keys::training::optimizer, "adamw-fused", origin.clone());
    imported.say(keys::training::attention, "flash", origin.clone());
    // Megatron-Bridge's providers fuse the loss unless told otherwise (`models/gpt_provider.py`); its own arguments tell it
    // from mcore_adapter (`llamafactory/hparams`, `MegatronBridgeArguments`).
    let bridge = context.variable("USE_MEGATRON_BRIDGE").is_some()
        || ["use_packed_sequences", "export_hf_on_finish", "mixed_precision"].iter().any(|name| settings.is_set(name));
    let fused = bridge && settings.flag("cross_entropy_loss_fusion").is_none_or(|found| found.value);
    imported.say(keys::training::loss, if fused { "vocab_parallel_fused" } else { "vocab_parallel" }, origin);
    imported.drop(keys::distribution::sharding);
    imported.drop(keys::distribution::engine);
}

fn set_arguments(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    match settings.text("model_name_or_path") {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no model_name_or_path"),
    }
    length(imported, settings);
    let mut arguments = Settings::defaults("transformers 4.57", trainer::DEFAULTS).with(settings.clone());
    versions::apply(versions::TRAINER, &context.run.versions, &mut arguments, imported);
    match settings.text("flash_attn") {
        // v1 has the names of transformers (`v1/config/arg_utils.py`, `AttentionFunction`).
        Some(found) if matches!(found.value.as_str(), "fa2" | "flash_attention_2") => {
            arguments.set("attn_implementation", "flash_attention_2".into(), found.origin)
        }
        Some(found) if matches!(found.value.as_str(), "disabled" | "eager") => {
            arguments.set("attn_implementation", "eager".into(), found.origin)
        }
        Some(found) => arguments.set("attn_implementation", "sdpa".into(), found.origin),
        None => {}
    }
    // Blocks are recomputed unless that is turned off. `fp4` and `nf4` take as much.
    ["gradient_checkpointing", "quantization_method", "quantization_type"]
        .iter()
        .for_each(|name| settings.accept(name));
    let off = settings.on("disable_gradient_checkpointing");
    let default = Origin::Default { framework: VERSION, option: "gradient checkpointing on".to_owned() };
    arguments.set("gradient_checkpointing", off.is_none().into(), off.map_or(default, |found| found.origin));
    trainer::reentrant::of_llama_factory(&mut arguments, settings, is_v1(settings));
    lora(imported, settings);
    // Weights are loaded in the computing type; what is trained is raised to fp32 but for some.
    let pure = settings.on("pure_bf16");
    if let Some(found) = &pure {
        arguments.set("bf16", true.into(), found.origin.clone());
    }
    let keeps = loaded::keeps_its_type(imported, settings);
    let stored = if keeps { WeightStorage::Half } else { WeightStorage::Full };
    trainer::set(imported, &arguments, context, stored);
    // `hparams/finetuning_args.py`, `pure_bf16`: without AMP.
    if pure.is_some() {
        imported.drop(keys::training::autocast);
    }
    trainer::reentrant::not_under_fsdp2(imported);
    loaded::loaded_type(imported, settings);
    imported.set(keys::training::optimizer, settings.on("use_muon").map(|found| found.map(|_| "muon")));
    // `freeze_vision_tower` is true where nobody says otherwise, `image_max_pixels` 768 x 768 (`hparams/`).
    vision::whole(imported);
    let trains = settings.flag("freeze_vision_tower").is_some_and(|found| !found.value);
    let usual = Origin::Default { framework: VERSION, option: "image_max_pixels".to_owned() };
    let pixels = settings.whole("image_max_pixels").unwrap_or(Setting::new(768 * 768, usual));
    vision::say(imported, trains, pixels);
    for name in ["freeze_vision_tower", "freeze_multi_modal_projector", "image_max_pixels", "video_max_pixels"] {
        settings.accept(name);
    }
    method(imported, settings);
    on_megatron(imported, settings, context);
    if settings.is("use_unsloth") {
        imported.note("use_unsloth: its own kernels keep less than those that are counted");
    }
}

/// `stage: dpo`, whose `pref_loss` may be ORPO's or `SimPO`'s; optimizers that have a switch of their own.
fn method(imported: &mut ImportedPlan, settings: &Settings) {
    let stage = settings.text("stage").map(|found| found.value).unwrap_or_default();
    let loss = settings.text("pref_loss").map(|found| found.value).filter(|_| stage == "dpo").unwrap_or_default();
    if let Some(method) = TrainingMethod::of_name(&loss).or_else(|| TrainingMethod::of_name(&stage)) {
        method.apply(imported);
        // `AutoModelForCausalLMWithValueHead` (trl) has both heads.
        if imported.get(keys::model::classes).is_some() {
            imported.drop(keys::model::classes);
            not_modelled(imported, "reward model: a head of one value beside the vocabulary's");
        }
    }
    // `create_ref_model` (`train/trainer_utils.py`): a frozen copy of the model, none with adapters.
    if let Some(found) = settings.on("use_asft_loss").filter(|_| imported.get(keys::lora::rank).is_none()) {
        imported.say(keys::training::reference_model, true, found.origin.clone());
        imported.note(format!("{}: a reference model beside, which is counted", found.origin));
    }
    for name in ["use_galore", "use_apollo", "use_badam", "use_adam_mini"] {
        if let Some(found) = settings.on(name) {
            not_modelled(imported, &format!("{}: its states", found.origin));
            imported.drop(keys::training::optimizer);
            imported.miss(keys::training::optimizer, format!("{} has no word in a plan", found.origin));
        }
    }
}

/// Adapters that are loaded and trained on, with the shape that they have (`model/adapter.py`, `_setup_lora_tuning`).
fn loaded(imported: &mut ImportedPlan, settings: &Settings) {
    let found = settings.text("adapter_name_or_path").filter(|_| !settings.is("create_new_adapter"));
    if let Some(found) = found {
        not_modelled(imported, &format!("{}: adapters trained on: their own rank goes over this", found.origin));
    }
}

/// Whether settings train: one that only predicts or evaluates has the same names (`train/sft/workflow.py`, `do_train`).
fn trains(settings: &Settings) -> bool {
    settings.is("do_train") || !["do_predict", "do_eval"].iter().any(|name| settings.is(name))
}

fn lora(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(kind) = settings.text("finetuning_type") else { return };
    match kind.value.as_str() {
        "lora" | "oft" => {
            let bits = settings.whole("quantization_bit").filter(|found| matches!(found.value, 4 | 8));
            adapters::set(imported, settings.whole("lora_rank"), (VERSION, 8), bits);
            loaded(imported, settings);
            let other = settings
                .text("quantization_method")
                .filter(|found| !matches!(found.value.as_str(), "bnb" | "bitsandbytes"));
            adapters::set_double_quant(imported, settings.flag("double_quantization"), VERSION, other);
            match settings.texts("lora_target") {
                None => imported.miss(keys::lora::targets, "no lora_target, which these releases need"),
                told => adapters::set_targets(imported, told),
            }
            loaded::saved(imported, settings);
            if kind.value == "oft" {
                not_modelled(imported, "OFT: rotations in place of LoRA's matrices");
            }
            match settings.number("lora_dropout") {
                None => imported.miss(keys::lora::dropout, "no lora_dropout, whose default was 0.1 and became 0"),
                told => imported.set(keys::lora::dropout, told.filter(|found| (0.0..1.0).contains(&found.value))),
            }
        }
        "freeze" => loaded::freeze(imported, settings),
        "full" => loaded::leave_adapters(settings),
        _ => {}
    }
}
