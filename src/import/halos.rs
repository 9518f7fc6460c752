//! HALOs and the DPO repository that it began with: `launch.py loss=kto model=llama …` (`ContextualAI/HALOs`,
//! `config/config.yaml`, `config/model/base_model.yaml`, `launch.py`, 2025) and `train.py loss=dpo model=pythia28 …`
//! (`eric-mitchell/direct-preference-optimization`, `config/config.yaml`, `trainers.py`).

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::methods::TrainingMethod;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{DefaultValue, Settings};
use super::trainer::{self, WeightStorage};
use super::unread::account_for;
use crate::plan::keys;

/// `config.yaml` of the DPO repository.
const DPO: &[(&str, DefaultValue)] = &[
    ("batch_size", DefaultValue::Whole(4)),
    ("gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("max_grad_norm", DefaultValue::Number(10.0)),
    ("max_length", DefaultValue::Whole(512)),
    ("optimizer", DefaultValue::Text("RMSprop")),
    ("activation_checkpointing", DefaultValue::Flag(false)),
    ("trainer", DefaultValue::Text("BasicTrainer")),
    ("model.policy_dtype", DefaultValue::Text("float32")),
    ("loss", DefaultValue::Text("sft")),
];

/// `config.yaml` and `base_model.yaml` of HALOs.
const HALOS: &[(&str, DefaultValue)] = &[
    ("model.batch_size", DefaultValue::Whole(32)),
    ("model.gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("model.max_grad_norm", DefaultValue::Number(1.0)),
    ("model.max_length", DefaultValue::Whole(1250)),
    ("model.activation_checkpointing", DefaultValue::Flag(true)),
    ("optimizer", DefaultValue::Text("AdamW")),
    ("weight_decay", DefaultValue::Number(0.01)),
    ("model.peft.lora_r", DefaultValue::Whole(64)),
    ("model.peft.lora_dropout", DefaultValue::Number(0.05)),
];

/// What `config/model/` of the DPO repository names.
const MODELS: [(&str, &str); 7] = [
    ("gpt2-large", "gpt2-large"),
    ("gpt2-xl", "gpt2-xl"),
    ("gptj", "EleutherAI/gpt-j-6b"),
    ("llama7b", "huggyllama/llama-7b"),
    ("pythia28", "EleutherAI/pythia-2.8b"),
    ("pythia69", "EleutherAI/pythia-6.9b"),
    ("gpt2", "gpt2"),
];

fn given(context: &ImportContext) -> Settings {
    arguments::overrides(&context.program.words)
}

/// Whether the program is one of both.
pub fn runs(context: &ImportContext) -> bool {
    let settings = given(context);
    let named = settings.get("model").is_some() || settings.holds("model.name_or_path");
    let own = settings.holds("exp_name") || settings.holds("trainer");
    ["launch.py", "train.py"].contains(&context.program.name()) && named && settings.get("loss").is_some() && own
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let settings = given(context);
    if context.program.name() == "launch.py" { halos(settings, context) } else { direct(settings, context) }
}

fn halos(given: Settings, context: &ImportContext) -> ImportedPlan {
    const VERSION: &str = "HALOs of 2025";
    let mut imported = ImportedPlan::of("HALOs");
    let settings = &Settings::defaults(VERSION, HALOS).with(given);
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    match settings.text("model.name_or_path") {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "no ++model.name_or_path"),
    }
    imported.set(keys::model::sequence_length, settings.whole("model.max_length"));
    let mut inner = Settings::default();
    for (ours, theirs) in [
        ("gradient_accumulation_steps", "model.gradient_accumulation_steps"),
        ("gradient_checkpointing", "model.activation_checkpointing"),
        ("max_grad_norm", "model.max_grad_norm"),
        ("attn_implementation", "model.attn_implementation"),
        ("weight_decay", "weight_decay"),
        ("optim", "optimizer"),
    ] {
        inner.adopt(ours, settings, theirs);
    }
    if inner.get("attn_implementation").is_none() {
        let pythia = settings.text("model").is_some_and(|found| found.value.contains("pythia"));
        let word = if pythia { "eager" } else { "flash_attention_2" };
        inner.set("attn_implementation", word.into(), default("config/model: attn_implementation"));
    }
    let half = settings.text("model.policy_dtype").is_none_or(|found| found.value.ends_with("float16"));
    let storage = if half { WeightStorage::Half } else { WeightStorage::Full };
    if half {
        inner.set("bf16", true.into(), default("policy_dtype bfloat16"));
    }
    // `train.py`: `checkpoint_wrapper(checkpoint_impl=NO_REENTRANT)`.
    inner.set(trainer::reentrant::NAME, false.into(), default("CheckpointImpl.NO_REENTRANT"));
    trainer::set(&mut imported, &inner, context, storage);
    imported.set(keys::model::batch_size, settings.whole("model.batch_size"));
    if settings.is("model.use_peft") {
        super::adapters::set(&mut imported, settings.whole("model.peft.lora_r"), (VERSION, 64), None);
        let all = Setting::new(vec!["all-linear".to_owned()], default("target_modules all-linear"));
        super::adapters::set_targets(&mut imported, Some(settings.texts("model.peft.target_modules").unwrap_or(all)));
        imported.set(
            keys::lora::dropout,
            settings.number("model.peft.lora_dropout").filter(|found| (0.0..1.0).contains(&found.value)),
        );
    }
    by_loss(&mut imported, settings);
    account_for(&mut imported, settings);
    imported
}

fn direct(given: Settings, context: &ImportContext) -> ImportedPlan {
    const VERSION: &str = "direct-preference-optimization";
    let mut imported = ImportedPlan::of("DPO");
    let settings = &Settings::defaults(VERSION, DPO).with(given);
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    let named = settings.text("model").and_then(|found| {
        let name = MODELS.iter().find(|(short, _)| *short == found.value)?.1;
        Some(found.map(|_| name.to_owned()))
    });
    match settings.text("model.name_or_path").or(named) {
        Some(found) => model::set(&mut imported, context, found),
        None => imported.miss(keys::model::preset, "model= names a file that is not known, and no model.name_or_path"),
    }
    imported.set(keys::model::batch_size, settings.whole("batch_size"));
    imported.set(keys::training::gradient_accumulation_steps, settings.whole("gradient_accumulation_steps"));
    imported.set(keys::model::sequence_length, settings.whole("max_length"));
    let clipped = settings.number("max_grad_norm").map(|found| found.map(|norm| norm > 0.0));
    imported.set(keys::training::gradient_clipping, clipped);
    super::common::set_optimizer(&mut imported, settings.text("optimizer"));
    let recompute = settings.flag("activation_checkpointing");
    imported.set(
        keys::training::activation_checkpointing,
        recompute.map(|found| found.map(|on| if on { "full" } else { "none" })),
    );
    let mixed = settings.text("model.fsdp_policy_mp");
    let word = match (mixed, settings.text("model.policy_dtype")) {
        (Some(mixed), _) => Some(mixed.map(|name| if name.starts_with("b") { "bf16-mixed" } else { "fp16-mixed" })),
        (None, Some(kept)) => Some(kept.map(|name| match name.as_str() {
            "bfloat16" => "bf16",
            "float16" => "fp16",
            _ => "fp32",
        })),
        (None, None) => None,
    };
    imported.set(keys::training::precision, word);
    if let Some(found) = settings.text("trainer") {
        if found.value.contains("FSDP") {
            imported.say(keys::distribution::sharding, "zero3", found.origin.clone());
            imported.say(keys::distribution::engine, "fsdp1", found.origin);
        } else {
            not_modelled(&mut imported, &format!("{}: one process with layers over all GPUs in sight", found.value));
            imported.miss(keys::distribution::sharding, format!("{} shards nothing", found.value));
        }
        // `train.py`: `mp.spawn(worker_main, nprocs=torch.cuda.device_count())`.
        match context.visible_gpus() {
            Some(gpus) => {
                let world = World::here(gpus.value, gpus.origin);
                imported.set(keys::cluster::num_gpus, world.total);
                imported.set(keys::cluster::nodes, world.nodes);
                imported.set(keys::cluster::gpus_per_node, world.per_node);
            }
            None => imported.miss(keys::cluster::num_gpus, "the script takes every GPU in sight"),
        }
    }
    imported.say(keys::training::attention, "eager", default("transformers of 2023"));
    by_loss(&mut imported, settings);
    account_for(&mut imported, settings);
    imported
}

fn by_loss(imported: &mut ImportedPlan, settings: &Settings) {
    let loss = settings.text("loss").map(|found| found.value).unwrap_or_default();
    match (loss.as_str(), TrainingMethod::of_name(&loss)) {
        ("ipo", _) => TrainingMethod::Dpo.apply(imported),
        ("sft" | "csft", _) => {}
        (_, Some(method)) => method.apply(imported),
        (other, None) => not_modelled(imported, &format!("loss={other}: what is held beside the model")),
    }
    for name in ["loss", "model", "trainer", "loss.beta", "datasets", "exp_name", "mode"] {
        settings.accept(name);
    }
}
