//! Oumi: `oumi train -c CONFIG.yaml --training.… …` (`src/oumi/core/configs/training_config.py`, `params/*_params.py`,
//! `core/distributed.py`, `builders/optimizers.py` at 2026-08-21).

mod tower;

use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::{DefaultValue, Settings};
use super::trainer::reentrant;
use super::unread::account_for;
use super::{accelerate, adapters, arguments, liger, model, rollout, trainer};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "Oumi of August 2026";

/// `TrainingParams` where nobody says otherwise.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("training.per_device_train_batch_size", DefaultValue::Whole(8)),
    ("training.gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("training.optimizer", DefaultValue::Text("adamw_torch")),
    ("training.weight_decay", DefaultValue::Number(0.0)),
    ("training.max_grad_norm", DefaultValue::Number(1.0)),
    ("training.enable_gradient_checkpointing", DefaultValue::Flag(false)),
    ("training.trainer_type", DefaultValue::Text("hf")),
    ("peft.lora_dropout", DefaultValue::Number(0.0)),
];

const ROWS: &[SettingRow] = &[
    (&["training.per_device_train_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["training.gradient_accumulation_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["training.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["training.max_grad_norm"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["training.compile"], keys::training::compile, SettingKind::Flag),
    (&["training.full_determinism"], keys::training::deterministic, SettingKind::Flag),
    (
        &["model.enable_liger_kernel", "training.trainer_kwargs.use_liger_kernel"],
        keys::training::loss,
        SettingKind::On("fused"),
    ),
];

/// Whether settings are Oumi's: the sections of a `TrainingConfig`.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("model.model_name")
        && settings.holds("training")
        && (settings.holds("training.trainer_type") || settings.holds("data.train.datasets"))
}

/// The program and the file that it is given: `oumi train -c FILE`.
fn configuration(context: &ImportContext) -> Option<String> {
    let program = context.program;
    let trains = program.name() == "oumi" && program.words.first().is_some_and(|word| word == "train");
    let options = arguments::read(&program.words).options;
    let named = options.first_text(&["config", "c"]).filter(|_| trains)?.value;
    // `oumi://configs/…` is of its own repository (`utils/config.py`, `resolve_and_fetch_config`).
    Some(named.strip_prefix("oumi://").map_or(named.clone(), str::to_owned))
}

/// Whether the program is Oumi's.
pub fn runs(context: &ImportContext) -> bool {
    configuration(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Oumi");
    let file = configuration(context).and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    let options = arguments::read(&context.program.words).options;
    for name in ["config", "c"] {
        options.accept(name);
    }
    set(&mut imported, file.with(options), context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Oumi");
    set(&mut imported, file, context);
    imported
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// Who trains: `TrainerType`, by its value or, as `OmegaConf` takes it, its name.
fn trainer_type(settings: &Settings) -> String {
    settings.text("training.trainer_type").map(|found| found.value.to_lowercase()).unwrap_or_default()
}

fn set(imported: &mut ImportedPlan, file: Settings, context: &ImportContext) {
    let mut settings = Settings::defaults(VERSION, DEFAULTS).with(file);
    settings.interpolate();
    let settings = &settings;
    imported.say(keys::model::framework, "pytorch", Origin::Program("Oumi's own keys".to_owned()));
    match settings.text("model.model_name").filter(|found| !found.value.is_empty()) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no model.model_name"),
    }
    tower::set(imported, settings);
    let who = trainer_type(settings);
    if who == "verl_grpo" {
        // Oumi fills in verl's own configuration (`core/trainers/verl_grpo_trainer.py`).
        not_modelled(imported, "training.trainer_type verl_grpo: verl's trainer, with its defaults");
        imported.miss(keys::training::micro_batch_size, "verl's configuration says it");
        return account_for(imported, settings);
    }
    take(imported, settings, ROWS);
    liger::switched(imported, settings, "model.enable_liger_kernel");
    liger::switched(imported, settings, "training.trainer_kwargs.use_liger_kernel");
    length(imported, settings, &who);
    recomputation(imported, settings);
    optimizer(imported, settings, &who);
    let attention = settings.text("model.attn_implementation");
    let usual = || Setting::new("sdpa", default("attn_implementation: that of transformers"));
    let attention = attention.map(|found| found.map(|name| trainer::implementation(&name)));
    imported.set(keys::training::attention, Some(attention.unwrap_or_else(usual)));
    precision(imported, settings);
    low_rank(imported, settings);
    sharding(imported, settings, context);
    quantised(imported, settings);
    match method(&who) {
        Some(TrainingMethod::Grpo) => {
            let mut own = settings.below("training.grpo");
            own.over(settings.below("training.trainer_kwargs"));
            if own.get("vllm_gpu_memory_utilization").is_none() {
                own.set("vllm_gpu_memory_utilization", 0.9.into(), default("vllm_gpu_memory_utilization"));
            }
            rollout::TRL.apply(imported, &own, context);
            for name in ["num_generations", "max_completion_length", "max_prompt_length"] {
                own.accept(name);
            }
        }
        Some(method) => method.apply(imported),
        None => {}
    }
    for name in [
        "training.trainer_type",
        "fsdp.forward_prefetch",
        "fsdp.state_dict_type",
        "fsdp.use_orig_params",
        "fsdp.transformer_layer_cls",
        "fsdp.backward_prefetch",
        "fsdp.sync_module_states",
        "fsdp.min_num_params",
        "data.train.collator_name",
        "data.train.use_torchdata",
        "data.train.stream",
        "data.train.pack",
        "training.empty_device_cache_steps",
        "training.include_performance_metrics",
        "model.load_pretrained_weights",
        "training.trainer_kwargs.max_seq_length",
        // Samples of full length are counted, packed or not.
        "training.trainer_kwargs.packing",
        "peft.lora_alpha",
        "peft.lora_init_weights",
    ] {
        settings.accept(name);
    }
    account_for(imported, settings);
}

/// The longest sample: TRL's trainers cut what they prepare (`TrainingConfig.__post_init__`, `max_length`; TRL,
/// `SFTConfig.max_length` and its kin, 1024), where no collator of Oumi's does it in their place.
fn length(imported: &mut ImportedPlan, settings: &Settings, who: &str) {
    if who == "trl_grpo" {
        settings.accept("model.model_max_length");
        return imported.miss(keys::model::sequence_length, "training.grpo says no lengths of prompts and answers");
    }
    let cuts = ["trl_sft", "trl_dpo", "trl_kto", "trl_gkd"].contains(&who);
    // Of KTO's trainer the model's length is not told.
    let names = ["model.model_max_length", "training.trainer_kwargs.max_length"];
    let told = settings.first_whole(if who == "trl_kto" { &names[1..] } else { &names });
    let usual = || Setting::new(1024, Origin::Default { framework: "TRL", option: "max_length 1024".to_owned() });
    imported.set(keys::model::sequence_length, told.or_else(|| (cuts && !tower::sees(settings)).then(usual)));
    imported
        .miss(keys::model::sequence_length, "no model.model_max_length: the tokenizer's limit, or the data, decides");
}

/// What the trainers of TRL hold beside the model.
fn method(who: &str) -> Option<TrainingMethod> {
    match who {
        "trl_dpo" => Some(TrainingMethod::Dpo),
        "trl_kto" => Some(TrainingMethod::Kto),
        "trl_grpo" => Some(TrainingMethod::Grpo),
        "trl_gkd" | "trl_gold" => Some(TrainingMethod::Distillation),
        _ => None,
    }
}

/// Under FSDP accelerate recomputes where the Trainer would (`get_accelerate_env_vars`, `FSDP_ACTIVATION_CHECKPOINTING`).
fn recomputation(imported: &mut ImportedPlan, settings: &Settings) {
    // `TrainingParams.to_hf` turns it off.
    let name = if settings.is("training.use_deterministic") {
        settings.accept("training.enable_gradient_checkpointing");
        "training.use_deterministic"
    } else {
        "training.enable_gradient_checkpointing"
    };
    let off = name == "training.use_deterministic";
    let word = settings.flag(name).map(|found| found.map(|on| if on && !off { "full" } else { "none" }));
    imported.set(keys::training::activation_checkpointing, word);
    // Nothing is handed on where nothing is said, and PyTorch's checkpoint then takes the reentrant kind.
    let told = settings.flag("training.gradient_checkpointing_kwargs.use_reentrant");
    let usual = || Setting::new(true, default("gradient_checkpointing_kwargs {}"));
    reentrant::say(imported, Some(told.unwrap_or_else(usual)));
}

/// Oumi's own loop builds its optimizer itself, fused on a GPU (`builders/optimizers.py`); the others are
/// `TrainingArguments`' by their names.
fn optimizer(imported: &mut ImportedPlan, settings: &Settings, who: &str) {
    let Some(found) = settings.text("training.optimizer") else { return };
    let own = who == "oumi" && matches!(found.value.to_lowercase().as_str(), "adam" | "adamw" | "adamw_torch");
    let momentum = settings.number("training.sgd_momentum").is_some_and(|found| found.value > 0.0);
    if who == "oumi" && found.value.eq_ignore_ascii_case("sgd") && momentum {
        return imported.say(keys::training::optimizer, "sgd-momentum", found.origin);
    }
    common::set_optimizer(imported, Some(found.map(|name| if own { "adamw_torch_fused".to_owned() } else { name })));
}

/// The type of the weights, and autocast over fp32 alone (`TrainingConfig.__post_init__`: no other weights may be mixed).
fn precision(imported: &mut ImportedPlan, settings: &Settings) {
    let dtype = settings.text("model.torch_dtype_str").map(|found| found.map(|name| name.to_lowercase()));
    let mixed = settings
        .text("training.mixed_precision_dtype")
        .map(|found| found.map(|name| name.to_lowercase()))
        .filter(|found| found.value != "none");
    let word = match (mixed, dtype) {
        (Some(found), _) if found.value == "bf16" => Some(found.map(|_| "bf16-mixed")),
        (Some(found), _) if found.value == "fp16" => Some(found.map(|_| "fp16-mixed")),
        (Some(_), _) => None,
        (None, Some(found)) => match found.value.as_str() {
            "bf16" | "bfloat16" => Some(found.map(|_| "bf16")),
            "fp16" | "float16" | "half" => Some(found.map(|_| "fp16")),
            "fp32" | "float32" | "f32" | "float" => Some(found.map(|_| "fp32")),
            _ => None,
        },
        (None, None) => None,
    };
    imported.set(keys::training::precision, word);
    imported.miss(keys::training::precision, "model.torch_dtype_str auto: the checkpoint's own type");
    if let Some(found) = settings.text("fsdp.mixed_precision").filter(|_| settings.is("fsdp.enable_fsdp")) {
        sharded_precision(imported, settings, found);
    }
}

/// What FSDP computes in. accelerate is told so by `ACCELERATE_MIXED_PRECISION` and raises 16-bit weights that train to fp32
/// shards (`accelerator.py`, `_prepare_fsdp`: "Upcasted low precision parameters"); Oumi's own trainer shards them in the
/// type that they have (`core/distributed.py`, `prepare_model_for_distributed`).
fn sharded_precision(imported: &mut ImportedPlan, settings: &Settings, found: Setting<String>) {
    let stored = imported.get(keys::training::precision).map(|told| told.value.clone());
    let own = settings.text("training.trainer_type").is_some_and(|told| told.value.eq_ignore_ascii_case("oumi"));
    let adapted = settings.is("training.use_peft");
    imported.drop(keys::training::precision);
    let word = match found.value.as_str() {
        "bf16" => "bf16-mixed",
        "fp16" => "fp16-mixed",
        _ => "",
    };
    let half = stored.as_ref().is_some_and(|stored| *stored == "bf16" || *stored == "fp16");
    let plain = word.trim_end_matches("-mixed");
    let word = if own && half && stored.is_some_and(|stored| stored == plain) { plain } else { word };
    // Frozen weights keep their type, and peft has adapters in fp32.
    if word.is_empty() || adapted || (own && half && word != plain) {
        imported.miss(keys::training::precision, format!("{}: FSDP's own mixed precision", found.origin));
    } else {
        imported.say(keys::training::precision, word, found.origin);
    }
}

/// Adapters (`PeftParams`): rank 8, four bits of one quantisation.
fn low_rank(imported: &mut ImportedPlan, settings: &Settings) {
    if !settings.is("training.use_peft") {
        return;
    }
    let usual = || Setting::new(4, default("q_lora_bits 4"));
    let bits = settings.on("peft.q_lora").map(|_| settings.whole("peft.q_lora_bits").unwrap_or_else(usual));
    adapters::set(imported, settings.whole("peft.lora_r"), (VERSION, 8), bits);
    let nested = settings.flag("peft.use_bnb_nested_quant");
    let nested = nested.unwrap_or_else(|| Setting::new(false, default("use_bnb_nested_quant false")));
    adapters::set_double_quant(imported, Some(nested), VERSION, None);
    adapters::set_targets(imported, settings.texts("peft.lora_target_modules"));
    imported.set(
        keys::lora::dropout,
        settings.number("peft.lora_dropout").filter(|found| (0.0..1.0).contains(&found.value)),
    );
    // `Linear4bit.forward` casts what comes in.
    let half = settings.text("peft.bnb_4bit_compute_dtype").is_some_and(|found| found.value.contains("16"));
    if imported.get(keys::lora::base_bits).is_some() && !half {
        not_modelled(imported, "peft.bnb_4bit_compute_dtype float32: products of the quantised weights in fp32");
    }
    for name in ["peft.bnb_4bit_quant_type", "peft.bnb_4bit_quant_storage"] {
        settings.accept(name);
    }
    for name in ["peft.lora_modules_to_save", "peft.lora_target_parameters", "peft.lora_exclude_modules"] {
        if let Some(found) = settings.texts(name).filter(|found| !found.value.is_empty()) {
            not_modelled(imported, &format!("{}: {}", found.origin, found.value.join(", ")));
        }
    }
}

/// Beside quantised weights peft's preparation raises what is not quantised to fp32, and no autocast computes in 16 bits
/// (`builders/models.py`, `build_peft_model`). Under FSDP every module is cast back after it, adapters too (`train.py`,
/// `coerce_model_to_dtype`).
fn quantised(imported: &mut ImportedPlan, settings: &Settings) {
    let told = imported.get(keys::training::precision).cloned().filter(|_| settings.is("peft.q_lora"));
    let (Some(told), Some(_)) = (told, imported.get(keys::lora::base_bits)) else { return };
    let Some(half) = told.value.as_str().filter(|word| *word == "bf16" || *word == "fp16") else { return };
    if settings.is("fsdp.enable_fsdp") {
        return imported.say(
            keys::lora::dtype,
            half,
            Origin::Derived(format!("{}: all modules are cast to it", told.origin)),
        );
    }
    imported.say(keys::training::precision, "fp32", default("prepare_model_for_kbit_training, without autocast"));
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    tower::frozen_layers(imported, settings);
    if settings.is("deepspeed.enable_deepspeed") {
        return by_deepspeed(imported, settings, context);
    }
    settings.accept("deepspeed.enable_deepspeed");
    if !settings.is("fsdp.enable_fsdp") {
        imported.say(keys::distribution::sharding, "none", default("neither fsdp nor deepspeed"));
        return imported.say(keys::distribution::engine, "ddp", default("neither fsdp nor deepspeed"));
    }
    let fsdp = settings.below("fsdp");
    accelerate::set_fsdp(imported, &fsdp);
    let wrap = fsdp.text("auto_wrap_policy");
    let whole = wrap.as_ref().is_none_or(|found| found.value.to_uppercase() == "NO_WRAP");
    if whole {
        let told = wrap.map_or_else(|| default("auto_wrap_policy NO_WRAP"), |found| found.origin);
        not_modelled(imported, &format!("{told}: the whole model is gathered as one unit"));
    }
}

/// `DeepSpeedParams.to_deepspeed`, or a file of DeepSpeed's own. Its masters follow from autocast, which the Trainer
/// fills in.
fn by_deepspeed(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let origin = settings.on("deepspeed.enable_deepspeed").map_or_else(|| default("deepspeed"), |found| found.origin);
    imported.say(keys::distribution::engine, "deepspeed", origin);
    let path = settings.text("deepspeed.deepspeed_config_path");
    let file = path.and_then(|path| context.configuration(&path.value, imported));
    let stage = match &file {
        Some(file) => file.whole("zero_optimization.stage"),
        None => settings.text("deepspeed.zero_stage").and_then(|found| {
            found.and_then(|name| name.rsplit('_').next().and_then(|number| number.parse::<u64>().ok()))
        }),
    };
    let usual = || Setting::new(0, default("zero_stage 0"));
    let stage = stage.unwrap_or_else(usual);
    imported.set(keys::distribution::sharding, Some(stage.map(super::deepspeed::stage)));
    let device = |part: &str| {
        let found = match &file {
            Some(file) => file.text(&format!("zero_optimization.{part}.device")),
            None => settings.text(&format!("deepspeed.{part}.device")),
        };
        found.filter(|found| !found.value.eq_ignore_ascii_case("none"))
    };
    let states = device("offload_optimizer").map(|found| found.map(|_| "optimizer"));
    let parameters = device("offload_param").map(|found| found.map(|_| "parameters"));
    imported.set(keys::training::cpu_offload, parameters.or(states));
    let told = imported.get(keys::training::precision).and_then(|found| found.value.as_str().map(str::to_owned));
    match told.as_deref().and_then(|word| word.strip_suffix("-mixed")) {
        Some(half) => {
            let origin = imported.get(keys::training::precision).map(|found| found.origin.clone());
            let origin = origin.unwrap_or_else(|| default("mixed_precision_dtype"));
            imported.say(keys::training::precision, format!("{half}-fp32-master"), origin.clone());
            imported.say(keys::training::gradient_dtype, half.to_owned(), origin);
        }
        None => {
            imported.drop(keys::training::precision);
            let why = "DeepSpeed's `auto` without training.mixed_precision_dtype: what it stores is not known here";
            imported.miss(keys::training::precision, why);
        }
    }
    for name in ["deepspeed.precision", "deepspeed.zero_stage", "deepspeed.zero_allow_untested_optimizer"] {
        settings.accept(name);
    }
}
