//! Names of earlier versions of ms-swift. The second has other defaults too (`swift/llm/utils/argument.py`,
//! `SftArguments`, and `swift/llm/utils/model.py`, `LoRATM`, of October 2024).

use serde_json::Value;

use super::arguments;
use super::imported::ImportedPlan;
use super::origin::Origin;
use super::rows::not_modelled;
use super::settings::{DefaultValue, Settings};
use super::versions;

const VERSION: &str = "ms-swift 2";

/// The file whose keys are arguments: `--config FILE`, or the word behind the command (`swift/cli/main.py`,
/// `parse_yaml_args`).
pub fn file(given: &arguments::Arguments) -> Option<String> {
    let is_file = |word: &&String| [".yaml", ".yml", ".json"].iter().any(|ending| word.ends_with(ending));
    given.options.text("config").map(|path| path.value).or_else(|| given.words.iter().find(is_file).cloned())
}

/// Names that it has alone.
const OWN: [&str; 8] = [
    "sft_type",
    "model_id_or_path",
    "template_type",
    "lora_target_modules",
    "lora_dropout_p",
    "lora_target_regex",
    "custom_train_dataset_path",
    "train_dataset_sample",
];

/// Its names, and those that came after them; a name of a model goes under its place.
const NAMES: [(&str, &str); 7] = [
    ("model_type", "model"),
    ("model_id_or_path", "model"),
    ("sft_type", "tuner_type"),
    ("batch_size", "per_device_train_batch_size"),
    ("lora_target_modules", "target_modules"),
    ("lora_dropout_p", "lora_dropout"),
    ("dtype", "torch_dtype"),
];

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("max_length", DefaultValue::Whole(2048)),
    ("optim", DefaultValue::Text("adamw_torch")),
    ("target_modules", DefaultValue::Text("DEFAULT")),
];

/// Models whose adapters sit on these by `DEFAULT` (`LoRATM.llama`).
const LIKE_LLAMA: [&str; 7] = ["llama", "qwen1.5", "qwen2", "mistral", "mixtral", "yi-", "gemma"];
const OF_LLAMA: [&str; 3] = ["q_proj", "k_proj", "v_proj"];

/// Whether a command line has names that only its second version has.
pub fn are_of_version_two(words: &[String]) -> bool {
    let given = arguments::read(words).options;
    OWN.iter().chain(&["model_type"]).any(|name| given.is_set(name))
}

/// What was given over the `usual` settings, under the names of today; why it is not told which weights are adapted, where
/// it is not.
pub fn read(usual: Settings, given: Settings, (name, on_megatron): (&str, bool)) -> (Settings, Option<String>) {
    if !on_megatron && OWN.iter().any(|name| given.is_set(name)) {
        return of_version_two(usual, given, name);
    }
    let mut settings = usual.with(given);
    // Names of version 3.
    for (old, now) in [("train_type", "tuner_type"), ("sft_type", "tuner_type"), ("model_type", "model")] {
        let last = settings.clone();
        if !settings.is_set(now) && last.is_set(old) {
            settings.adopt(now, &last, old);
        }
    }
    (settings, None)
}

/// The second version's defaults over those of later ones.
fn of_version_two(mut settings: Settings, given: Settings, name: &str) -> (Settings, Option<String>) {
    settings.over(Settings::defaults(VERSION, DEFAULTS));
    if name == "pt" {
        let whole = [("tuner_type", DefaultValue::Text("full")), ("target_modules", DefaultValue::Text("ALL"))];
        settings.over(Settings::defaults(VERSION, &whole));
    }
    settings.over(given.clone());
    for (old, now) in NAMES {
        if given.is_set(old) && (!given.is_set(now) || now == "model") {
            settings.adopt(now, &given, old);
            settings.set(old, Value::Null, Origin::Program(String::new()));
        }
    }
    let automatic = |word: &str| ["AUTO", "DEFAULT"].contains(&word);
    if settings.text("torch_dtype").is_some_and(|found| automatic(&found.value)) {
        // bf16 where the GPU has it and the table of its models says no other.
        settings.over(Settings::defaults(VERSION, &[("torch_dtype", DefaultValue::Text("bfloat16"))]));
    }
    let Some(told) = settings.texts("target_modules").filter(|found| found.value.iter().any(|word| automatic(word)))
    else {
        return (settings, None);
    };
    let model = settings.text("model").map(|found| found.value.to_lowercase().replace("1half", "1.5"));
    let model = model.as_deref().and_then(|path| path.trim_end_matches('/').rsplit('/').next()).unwrap_or("");
    let sees = ["-vl", "audio", "vision", "omni", "llava"].iter().any(|part| model.contains(part));
    let like = !sees && LIKE_LLAMA.iter().any(|start| model.trim_start_matches("meta-").starts_with(start));
    let others = told.value.iter().filter(|word| !automatic(word)).cloned();
    let all: Vec<String> = OF_LLAMA.map(str::to_owned).into_iter().chain(others).collect();
    let value = if like { Value::from(all) } else { Value::Null };
    settings.set("target_modules", value, told.origin.clone());
    (settings, (!like).then(|| format!("{} DEFAULT: by a table of its models", told.origin)))
}

/// Whether bits quantise a model as it is loaded: not without a method (`swift/arguments/base_args/quant_args.py`,
/// `get_quantization_config`).
pub fn quantises(imported: &mut ImportedPlan, settings: &Settings) -> bool {
    let told = settings.is_set("quant_method");
    if !told {
        imported.note("--quant_bits without --quant_method: ms-swift quantises nothing");
    }
    told
}

/// By default the tower is recomputed where the model is (`swift/arguments/sft_args.py`).
pub fn accept_usual(settings: &Settings) {
    const TOWER: &str = "vit_gradient_checkpointing";
    if settings.flag(TOWER).is_some_and(|found| found.value == settings.is("gradient_checkpointing")) {
        settings.accept(TOWER);
    }
    // Experts are timed as grouped.
    if settings.text("experts_impl").is_some_and(|found| found.value == "grouped_mm") {
        settings.accept("experts_impl");
    }
}

/// `--experts_impl grouped_mm`, how experts are multiplied, only transformers 5 takes (`swift/model/register.py`).
pub fn leave_experts(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.text("experts_impl").is_some_and(|found| found.value != "eager") {
        versions::adapters_of_experts(imported);
    }
}

/// `--deepspeed zero2_offload`: a configuration that comes with swift, its types as the Trainer's.
pub fn bundled(arguments: &mut Settings, settings: &Settings) {
    let Some(found) = settings.text("deepspeed") else { return };
    // Before 3 they are called `default-zero3` (`swift/llm/ds_config/zero3.json`).
    let (stage, offload) = match found.value.trim_start_matches("default-").replace('-', "_").as_str() {
        "zero0" => (0, false),
        "zero1" => (1, false),
        "zero2" => (2, false),
        "zero3" => (3, false),
        "zero2_offload" => (2, true),
        "zero3_offload" => (3, true),
        _ => return,
    };
    arguments.set("deepspeed", Value::Null, found.origin.clone());
    let auto = || Value::from("auto");
    let mut put = |name: &str, value: Value| arguments.set(&format!("deepspeed.{name}"), value, found.origin.clone());
    put("bf16.enabled", auto());
    put("fp16.enabled", auto());
    put("zero_optimization.stage", stage.into());
    put("gradient_accumulation_steps", auto());
    put("train_micro_batch_size_per_gpu", auto());
    if offload {
        put("zero_optimization.offload_optimizer.device", "cpu".into());
        if stage == 3 {
            put("zero_optimization.offload_param.device", "cpu".into());
        }
    }
}

/// What some kinds of adapters are beside LoRA's.
pub fn say_kind(imported: &mut ImportedPlan, settings: &Settings, kind: &str) {
    match kind {
        "adalora" => {
            settings.accept("adalora_target_r");
            imported.note("AdaLoRA: its ranks shrink from adalora_init_r to adalora_target_r; the first is counted");
        }
        // `tuners/longlora/longlora.py`, `LongLoRAModelType`: `embedder_and_normalizer`.
        "longlora" => {
            not_modelled(imported, "longlora: the embedding and the norms train too, and attention is in groups")
        }
        _ => {}
    }
}

/// What runs in place of the modules and losses that are counted.
pub fn say_other_code(imported: &mut ImportedPlan, settings: &Settings) {
    if let Some(found) = settings.text("tuner_backend").filter(|found| found.value == "unsloth") {
        not_modelled(
            imported,
            &format!("{}: unsloth's own kernels, which keep less than those that are counted", found.origin),
        );
    }
    // `rlhf_trainers/gkd_loss.py`, `jsd_loss`: log-probabilities of student and teacher over the whole vocabulary.
    if settings.text("rlhf_type").is_some_and(|found| found.value == "gkd") {
        not_modelled(imported, "distillation: its loss, which keeps the logits of both models");
    }
}
