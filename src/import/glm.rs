//! The fine-tuning scripts of ChatGLM3 and GLM-4: `finetune.py DATA MODEL configs/lora.yaml` (`THUDM/GLM-4`,
//! `finetune/finetune.py`, `finetune/configs/`, 2025).

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::trainer::{self, WeightStorage};
use super::unread::account_for;
use super::{adapters, model, text};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "GLM-4's finetune.py";

/// Whether settings are those of such a script.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("training_args.per_device_train_batch_size")
        && settings.holds("data_config")
        && !settings.holds("model_config")
}

fn configuration(context: &ImportContext) -> Option<String> {
    let named = context.program.name().starts_with("finetune");
    context.program.words.get(2).filter(|word| named && word.ends_with(".yaml")).cloned()
}

/// Whether the program is such a script.
pub fn runs(context: &ImportContext) -> bool {
    let read = |path: String| context.run.files.read(&path).ok().and_then(|text| text::yaml(&path, &text).ok());
    configuration(context).and_then(read).is_some_and(|settings| is_config(&settings))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("GLM");
    let file = configuration(context).and_then(|path| context.configuration(&path, &mut imported)).unwrap_or_default();
    if let Some(name) = context.program.words.get(1) {
        model::set(&mut imported, context, Setting::new(name.clone(), Origin::Program(context.program.shown())));
    }
    set(&mut imported, &file, context);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: &Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("GLM");
    imported.miss(keys::model::preset, "the command of the script names it");
    set(&mut imported, file, context);
    imported
}

fn set(imported: &mut ImportedPlan, file: &Settings, context: &ImportContext) {
    imported.say(keys::model::framework, "pytorch", Origin::Program("GLM's own keys".to_owned()));
    let mut settings = Settings::defaults("transformers 4.57", trainer::DEFAULTS).with(file.below("training_args"));
    // ChatGLM3's script names no type: its modules are made in that of the model's configuration (`modeling_chatglm.py`).
    let third = imported
        .get(keys::model::preset)
        .is_some_and(|found| ["chatglm2", "chatglm3"].iter().any(|name| found.value.to_string().contains(name)));
    let (dtype, option) = match third {
        true => ("float16", "config.torch_dtype float16"),
        false => ("bfloat16", "torch_dtype bfloat16"),
    };
    settings.set("torch_dtype", dtype.into(), Origin::Default { framework: VERSION, option: option.to_owned() });
    // `main` of both, whatever its arguments are.
    let option = "model.gradient_checkpointing_enable()".to_owned();
    settings.set("gradient_checkpointing", true.into(), Origin::Default { framework: VERSION, option });
    trainer::set(imported, &settings, context, WeightStorage::Half);
    // What is trained is raised to fp32 before (`finetune.py`, `for param in filter(requires_grad)`) where adapters train.
    let both = file.whole("max_input_length").zip(file.whole("max_output_length"));
    if let Some((input, output)) = both {
        let origin = Origin::Derived(format!("{} + {}", input.origin, output.origin));
        imported.say(keys::model::sequence_length, input.value.saturating_add(output.value), origin);
    }
    if let Some(kind) = file.text("peft_config.peft_type") {
        if kind.value == "LORA" {
            adapters::set(imported, file.whole("peft_config.r"), ("peft", 8), None);
            // peft's own for ChatGLM (`utils/constants.py`, `TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING`).
            let usual = || {
                let option = "target_modules of chatglm".to_owned();
                Setting::new(vec!["query_key_value".to_owned()], Origin::Default { framework: "peft", option })
            };
            adapters::set_targets(imported, Some(file.texts("peft_config.target_modules").unwrap_or_else(usual)));
            let dropout = file.number("peft_config.lora_dropout").filter(|found| (0.0..1.0).contains(&found.value));
            imported.set(keys::lora::dropout, dropout);
        } else {
            not_modelled(
                imported,
                &format!("{}: {} adapters; the plan trains the whole model", kind.origin, kind.value),
            );
        }
    }
    if file.is("freezeV") {
        let vision = context.program.name().contains("vision");
        if vision {
            not_modelled(imported, "freezeV: the vision tower, frozen beside the language model");
        }
        file.accept("freezeV");
    }
    for name in ["combine", "peft_config.lora_alpha", "peft_config.task_type"] {
        file.accept(name);
    }
    account_for(imported, &settings);
    let mut rest = file.clone();
    for (name, _) in file.iter() {
        if name.starts_with("training_args.") || name.starts_with("data_config.") {
            rest.set(name, serde_json::Value::Null, Origin::Derived(String::new()));
        }
    }
    account_for(imported, &rest);
}
