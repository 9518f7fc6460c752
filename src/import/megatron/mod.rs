//! Megatron-LM's arguments, and what Megatron-DeepSpeed adds to them. Names and meaning are
//! those of `megatron/training/arguments.py` and the configuration classes that it is made of.

mod degrees;
mod engine_experts;
mod shape;
mod slime;
mod training;

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "Megatron-LM core 0.16";

/// What `arguments.py` fills in, where it matters here.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("tensor_model_parallel_size", DefaultValue::Whole(1)),
    ("pipeline_model_parallel_size", DefaultValue::Whole(1)),
    ("context_parallel_size", DefaultValue::Whole(1)),
    ("hidden_dropout", DefaultValue::Number(0.1)),
    ("optimizer", DefaultValue::Text("adam")),
    ("normalization", DefaultValue::Text("LayerNorm")),
    ("position_embedding_type", DefaultValue::Text("learned_absolute")),
    ("attention_backend", DefaultValue::Text("auto")),
    ("weight_decay", DefaultValue::Number(0.01)),
    ("clip_grad", DefaultValue::Number(1.0)),
];

/// Whether the program takes Megatron's arguments.
pub fn runs(context: &ImportContext) -> bool {
    let words = &context.program.words;
    let has =
        |name: &str| words.iter().any(|word| word.split('=').next().is_some_and(|word| word.replace('_', "-") == name));
    let script = context.program.name();
    if context.program.name() == "megatron" || is_evaluation(context) {
        return false;
    }
    let layers = ["--num-layers", "--hybrid-layer-pattern", "--hybrid-override-pattern"].iter().any(|name| has(name));
    let shape = layers && has("--hidden-size") && has("--num-attention-heads");
    shape && (has("--micro-batch-size") || has("--tensor-model-parallel-size") || has("--batch-size"))
        || (script.starts_with("pretrain_") && (shape || has("--micro-batch-size")))
        || (has("--tensor-model-parallel-size") && (has("--micro-batch-size") || has("--actor-num-nodes")))
}

/// Of `tasks/` some only evaluate, with the same arguments (`tasks/main.py`, `tasks/msdp/main.py`).
fn is_evaluation(context: &ImportContext) -> bool {
    let task = arguments::read(&context.program.words).options.text("task");
    let named = task.map(|found| found.value.to_uppercase()).unwrap_or_default();
    ["EVAL", "LAMBADA", "WIKITEXT", "ZEROSHOT", "-PROMPT"].iter().any(|part| named.contains(part))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Megatron-LM");
    let given = arguments::read(&context.program.words).options;
    let rollouts = slime::is_meant(&given);
    let given = if rollouts { slime::with_defaults(given) } else { given };
    let settings = Settings::defaults(VERSION, DEFAULTS).with(given);
    imported.say(keys::model::framework, "megatron", Origin::Program(context.program.shown()));
    if let Some(file) = settings.text("yaml_cfg") {
        imported.note(format!("--yaml-cfg {}: not read", file.value));
    }
    if let Some(task) = settings.text("task") {
        not_modelled(&mut imported, &format!("--task {}: heads and encoders of the task's own", task.value));
    }
    // Two halves of a batch in turn hide what tensor-parallel ranks exchange (DeepSpeedExamples, `training/DeepSpeed-Domino`).
    let program = context.run.files.read(&context.program.path).unwrap_or_default();
    if program.contains("from domino") || program.contains("import domino") || program.contains("DominoModule") {
        not_modelled(&mut imported, "DeepSpeed-Domino: halves of a batch whose tensor-parallel exchange is hidden");
    }
    // Layers that a module of the project's own gives (`megatron/training/models/gpt.py`); the core's are those of the shape.
    let spec =
        settings.texts("spec").filter(|found| found.value.first().is_some_and(|word| !word.contains("megatron.core")));
    if let Some(found) = spec {
        not_modelled(&mut imported, &format!("--spec {}: layers of the project's own", found.value.join(" ")));
    }
    // `slime/utils/arguments.py` and Megatron's own: a layer more that predicts the next but one, and a gate for each head.
    let further = settings.whole("mtp_num_layers").is_some();
    for name in ["enable_mtp_training", "attention_output_gate"] {
        // How many layers predict further `--mtp-num-layers` says (`slime/utils/arguments.py` asks for it).
        if let Some(found) = settings.on(name).filter(|_| name != "enable_mtp_training" || !further) {
            not_modelled(&mut imported, &format!("{}: layers that no size tells", found.origin));
        }
    }
    if let Some(class) = seeing_model(&program) {
        let path = &context.program.path;
        not_modelled(
            &mut imported,
            &format!("{path}: {class}, which holds more than the language model of the arguments"),
        );
    }
    // slime's patch of Megatron (`scripts/low_precision/run-qwen3-30B-A3B-int4.sh`).
    if let Some(found) = context.variable("OPEN_TRAINING_INT4_FAKE_QAT_FLAG").filter(|found| found.value == "1") {
        not_modelled(&mut imported, &format!("{}: weights as 4 bits have them, made anew in each pass", found.origin));
    }
    if settings.is("use_checkpoint_args") {
        imported.note("--use-checkpoint-args: the checkpoint's own shape goes over the arguments");
    }
    if rollouts {
        imported.tool = "slime".to_owned();
    }
    let own = rollouts.then(|| settings.clone());
    all(&mut imported, settings, context);
    if let Some(settings) = own {
        slime::set(&mut imported, &settings);
    }
    imported
}

/// The class that a program builds of pictures, sound and text: `Qwen3OmniModel(vision_transformer_config=…)`
/// (`megatron/core/models/multimodal/llava_model.py`, `LLaVAModel`, and those after it).
fn seeing_model(program: &str) -> Option<&str> {
    const TOWERS: [&str; 3] = ["vision_transformer_config=", "vision_config=", "audio_transformer_config="];
    if !TOWERS.iter().any(|keyword| program.contains(keyword)) {
        return None;
    }
    program.lines().find_map(|line| {
        let class = line.split_once(" = ")?.1.split_once('(')?.0.trim();
        let plain = class.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.".contains(letter));
        (plain && class.ends_with("Model") && !class.ends_with("GPTModel")).then_some(class)
    })
}

/// Sets everything of a run whose names are Megatron's.
pub fn all(imported: &mut ImportedPlan, given: Settings, context: &ImportContext) {
    let settings = Settings::defaults(VERSION, DEFAULTS).with(given);
    let job = Job { context, settings: &settings };
    shape::set(imported, &job);
    training::set(imported, &job);
    degrees::set(imported, &job);
    account_for(imported, &settings);
}

/// Sets how Megatron's arguments train, where the model comes from elsewhere.
pub fn train(imported: &mut ImportedPlan, given: &Settings, context: &ImportContext) {
    let settings = Settings::defaults(VERSION, DEFAULTS).with(given.clone());
    let job = Job { context, settings: &settings };
    training::set(imported, &job);
    degrees::set(imported, &job);
}

/// The settings with what surrounds them.
struct Job<'a> {
    context: &'a ImportContext<'a>,
    settings: &'a Settings,
}

impl Job<'_> {
    fn is(&self, name: &str) -> bool {
        self.settings.is(name)
    }

    /// A flag that turns something off (`--no-…`, `--disable-…`): what it leaves.
    fn unless(&self, name: &str) -> Option<Setting<bool>> {
        self.settings.flag(name).map(|found| found.map(|off| !off))
    }

    fn value(&self, name: &str) -> u64 {
        self.settings.whole(name).map_or(1, |found| found.value.max(1))
    }

    /// A default with its name.
    fn default(option: &str) -> Origin {
        Origin::Default { framework: VERSION, option: option.to_owned() }
    }
}
