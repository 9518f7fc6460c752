//! Training scripts in Python that have their settings in calls: unsloth's notebooks and scripts, and those that
//! build `TrainingArguments` or TRL's configurations themselves. Read, never run.

use super::arguments;
use super::common::ImportContext;
use super::data_arguments;
use super::imported::ImportedPlan;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::python::ScriptReader;
use super::python_models::{self, models};
use super::rollout;
use super::rows::not_modelled;
use super::script_defaults;
use super::script_doubts;
use super::script_effects;
use super::script_head;
use super::script_modules::{called_text, project_text, takes_unsloth};
use super::settings::Settings;
use super::trainer::{self, WeightStorage};
use super::trainer_by_name;
use super::unread::account_for;
use super::{
    idle_arguments, model, own_config, own_loop, preset_length, python_adapters, python_lengths, python_sizes,
};
use super::{trl, vision};
use crate::plan::keys;

/// Calls whose keywords are `TrainingArguments`.
pub const ARGUMENTS: [&str; 10] = [
    "TrainingArguments",
    "SFTConfig",
    "DPOConfig",
    "ORPOConfig",
    "KTOConfig",
    "GRPOConfig",
    "RewardConfig",
    "CPOConfig",
    "RLOOConfig",
    "Seq2SeqTrainingArguments",
];

/// TRL's configurations, and the method whose defaults they have.
const TRL: [(&str, &str); 8] = [
    ("SFTConfig", "sft"),
    ("DPOConfig", "dpo"),
    ("ORPOConfig", "orpo"),
    ("KTOConfig", "kto"),
    ("CPOConfig", "cpo"),
    ("RewardConfig", "reward"),
    ("GRPOConfig", "grpo"),
    ("RLOOConfig", "rloo"),
];

/// No longer text is looked into.
const LONGEST: usize = 2_000_000;

/// Whether a script has its settings in such calls.
pub fn is_script(content: &str) -> bool {
    let calls = |names: &[&str]| names.iter().any(|name| call(content, name).is_some());
    // `Trainer.predict` alone trains nothing.
    let trains = content.contains(".train(") || ![".predict(", ".evaluate("].iter().any(|call| content.contains(call));
    content.len() <= LONGEST
        && trains
        && (calls(&ARGUMENTS) || trainer_by_name::trains_alone(content))
        && (!models(content).is_empty() || trainer_by_name::trains(content))
}

/// Whether a script trains a model that other parts of its project, or a notebook, hand to it.
pub fn is_part(content: &str) -> bool {
    [".train(", "Trainer("].iter().all(|part| content.contains(part))
        && ARGUMENTS.iter().any(|name| call(content, name).is_some())
}

/// Whether a script fills its arguments in from a command line, so that it says little by itself.
pub fn parses_arguments(content: &str) -> bool {
    ["HfArgumentParser(", "TrlParser(", "H4ArgumentParser(", "ArgumentParser("]
        .iter()
        .any(|part| content.contains(part))
}

/// Where the first call of `name` stands; a class of that name is none.
pub fn call(content: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + content.get(from..)?.find(&format!("{name}("))?;
        let before = content.get(..at)?;
        let line = before.rsplit('\n').next().unwrap_or("").trim_start();
        let joined = before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_');
        let within = ["class ", "def ", "from ", "import "].iter().any(|word| line.starts_with(word));
        // What is commented out is not called.
        if !joined && !within && !line.starts_with('#') {
            return Some(at);
        }
        from = at + name.len();
    }
}

/// Whether the program is such a script, without arguments of its own that may say otherwise.
pub fn runs(context: &ImportContext) -> bool {
    own_loop::training_text(context).is_some_and(|(_, content)| is_script(&content) || is_part(&content))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let (path, content) = own_loop::training_text(context).unwrap_or_default();
    let path = &path;
    let options = trainer::completed_options(arguments::read(&context.program.words).options, context);
    let mut opened = ImportedPlan::default();
    let file = own_loop::configuration(context, &options, &mut opened).map_or_else(Settings::default, |(file, _)| file);
    let given = own_config::flattened(&file).with(options.clone());
    let mut imported = read(path, &content, file.with(given.clone()), context);
    opened.notes.into_iter().for_each(|line| imported.note(line));
    if opened.unread.is_some() || own_loop::is_told_elsewhere(context, &options) {
        imported.unread.get_or_insert_with(|| opened.unread.unwrap_or_else(|| "the file of its arguments".to_owned()));
    }
    let whole = project_text(context, path, &content);
    let settled = [idle_arguments::names(&given, &whole), data_arguments::names(&given, &whole)];
    settled.iter().flatten().for_each(|name| given.accept(name));
    // What the script asks its file for, and does by calls that were followed.
    let followed = |key: &str| imported.get(key).is_some_and(|found| !matches!(found.origin, Origin::Default { .. }));
    if followed(keys::training::activation_checkpointing) {
        given.accept("gradient_checkpointing");
    }
    if followed(keys::lora::rank) {
        ["use_lora", "use_peft"].iter().for_each(|name| given.accept(name));
    }
    account_for(&mut imported, &given);
    trainer::spread(&mut imported, path, &content, context);
    imported
}

/// The plan of a script.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = read(name, content, Settings::default(), context);
    trainer::of_notebook(&mut imported, content);
    imported
}

fn read(name: &str, content: &str, given: Settings, context: &ImportContext) -> ImportedPlan {
    let whole = project_text(context, name, content);
    let (run, told) = context.run.with_versions_of(&whole, &given);
    let mut imported = of_versions(name, (content, &whole), given, &context.with_run(&run));
    told.into_iter().for_each(|line| imported.note(line));
    imported
}

/// The same with the versions that run, of a script alone and with the modules of its project.
fn of_versions(name: &str, (content, whole): (&str, &str), given: Settings, context: &ImportContext) -> ImportedPlan {
    // A script without a model of its own has it from a module of its project.
    let own = models(content);
    let unsloth = takes_unsloth(if own.is_empty() { whole } else { content });
    let mut imported = ImportedPlan::of(if unsloth { "unsloth" } else { "transformers" });
    imported.say(keys::model::framework, "pytorch", Origin::Program(format!("calls in {name}")));
    let reader = ScriptReader::of_project(name, content, whole, given.clone(), context.outside());
    let mut settings = Settings::defaults("transformers 4.57", trainer::DEFAULTS);
    let configured = TRL.iter().find(|(call, _)| self::call(content, call).is_some()).map(|(_, method)| *method);
    let method = configured.or_else(|| trainer_by_name::method_alone(content));
    if let Some(method) = method {
        settings.over(trl::defaults(method));
    }
    if unsloth {
        settings.over(configured.map_or_else(Settings::default, |_| trl::of_unsloth(context)));
        settings.over(trainer::reentrant::of_unsloth());
    }
    let models = if own.is_empty() { models(whole) } else { own };
    let calls = ScriptCalls::of(&reader, content, &models);
    calls.fill_in(&mut settings, &reader);
    let split = (unsloth && configured == Some("grpo")).then(|| trl::whole_groups(&mut settings)).flatten();
    let named = named_model(&mut settings, &calls.made, &given);
    let open = trainer::apply_versions(&mut imported, &mut settings, context, method).filter(|_| !unsloth);
    match named.filter(|found| !found.value.is_empty()) {
        Some(found) => model::set(&mut imported, context, found),
        None => {
            let otherwise = "the name of the model is not written in the script";
            python_sizes::tell(&mut imported, &mut settings, &reader, otherwise);
        }
    }
    // unsloth loads every checkpoint with a tower by the class for pictures and text (`unsloth/models/loader.py`, `FastModel`).
    if unsloth {
        vision::whole(&mut imported);
    } else {
        python_models::put_tower(&mut imported, &models, whole);
    }
    let uncut = python_lengths::leave_uncut(&mut settings, &mut imported, &reader);
    let called = called_text(context, name, content);
    python_lengths::set(&mut imported, &settings, &reader, (name, content), (whole, &called));
    preset_length::drop_endless(&mut imported, context);
    let open_length = imported.missing.iter().any(|missing| missing.key == keys::model::sequence_length);
    if call(content, "SFTTrainer").is_some() && !uncut && !open_length {
        python_lengths::set_usual(&mut imported, unsloth);
    }
    python_adapters::set(&mut imported, &calls, &reader, content, unsloth);
    if let Some(found) = calls.adapted.text("use_gradient_checkpointing") {
        let on = !matches!(found.value.to_lowercase().as_str(), "false" | "none");
        settings.set("gradient_checkpointing", on.into(), found.origin);
    }
    if unsloth {
        recompute_unasked(&mut settings, &calls);
    }
    python_adapters::precision_of(&mut settings, &calls.made, unsloth);
    trainer::set(&mut imported, &settings, context, stored(&settings, unsloth));
    trainer::leave_open(&mut imported, open);
    if let Some(why) = split {
        imported.drop(keys::training::micro_batch_size);
        imported.miss(keys::training::micro_batch_size, why);
    }
    // unsloth patches TRL's trainers.
    if method.is_some() && !unsloth {
        trl::loss_in_parts(&mut imported, method, &settings, context);
        trl::adapters(&mut imported, context, Some(&reader));
    }
    script_doubts::reconcile(&mut imported, &reader, None, reader.own());
    if reader.divided.get() {
        share_steps(&mut imported);
    }
    if unsloth {
        imported
            .note("unsloth's own kernels keep less than those that are counted, and its checkpoints go to the host");
        imported.say(keys::training::loss, "fused", Origin::Program("unsloth's fused cross entropy".to_owned()));
    }
    set_method(&mut imported, context, content, (&calls, &reader), (&settings, method));
    note_other_training(&mut imported, &reader, content);
    script_effects::say_several(&mut imported, &reader, &models);
    if calls.handed_on {
        imported.unread = Some("what the script hands to its arguments by `**`".to_owned());
    }
    if reader.asked.get() {
        imported.note("the script's own arguments are taken at their defaults");
    }
    settings.accept("model_init_kwargs");
    // What its model is handed by a keyword was read under the other name.
    settings.accept("dtype");
    for name in ["attn_implementation", "quantization_config", "load_in_4bit", "load_in_8bit", "device_map"] {
        settings.accept(&format!("model_init_kwargs.{name}"));
    }
    let typed = ["torch_dtype", "dtype"].iter().any(|name| calls.is_handed_on(name));
    if models.is_empty() && !typed && trainer_by_name::hands_on_unknown(content) {
        not_modelled(&mut imported, "model_init_kwargs: in which type the model is loaded is not followed");
    }
    account_for(&mut imported, &settings);
    imported
}

/// What unsloth trains, whole or by adapters of its own, is recomputed unless told otherwise (`unsloth/models/llama.py`,
/// `get_peft_model`; `unsloth/models/vision.py`, `post_patch_model`).
fn recompute_unasked(settings: &mut Settings, calls: &ScriptCalls) {
    const NAME: &str = "use_gradient_checkpointing";
    let adapted = calls.adapted.get("r").map(|found| found.origin.clone());
    let Some(trained) = adapted.or_else(|| Some(calls.made.on("full_finetuning")?.origin)) else { return };
    if calls.adapted.get(NAME).is_some() {
        return;
    }
    let told = calls.made.text(NAME);
    let on = told.as_ref().is_none_or(|found| !matches!(found.value.to_lowercase().as_str(), "false" | "none"));
    let origin = told.map_or(Origin::Derived(format!("{trained}: unsloth recomputes")), |found| found.origin);
    settings.set("gradient_checkpointing", on.into(), origin);
}

/// What the calls of a script say.
pub struct ScriptCalls {
    /// The model.
    pub made: Settings,
    /// The arguments of its trainer.
    arguments: Settings,
    /// Whether those get more by `**`.
    handed_on: bool,
    /// The adapters.
    pub adapted: Settings,
    /// Whether the adapters' rank comes from a file of settings that has none: no run comes there.
    pub rank_is_absent: bool,
}

impl ScriptCalls {
    /// The calls in the script of `reader`, which makes its model by one of `models`.
    fn of(reader: &ScriptReader, content: &str, models: &[String]) -> Self {
        let models: Vec<&str> = models.iter().map(String::as_str).collect();
        let mut made = reader.calls_of_model(&models);
        if models.is_empty() {
            made = trainer_by_name::made(reader, content);
        }
        // The reader's marks are those of any call so far: each is cleared before the call that it is asked about.
        reader.open.set(false);
        let arguments = reader.calls(&ARGUMENTS);
        // What is called nowhere that is read may be told anything.
        let unseen = arguments.iter().next().is_none() && ARGUMENTS.iter().any(|name| call(content, name).is_some());
        let handed_on = reader.open.get() || unseen;
        reader.absent.set(false);
        let adapted = reader.calls(&python_adapters::CALLS);
        let rank_is_absent = reader.absent.get() && adapted.get("r").is_some() && adapted.whole("r").is_none();
        Self { made, arguments, handed_on, adapted, rank_is_absent }
    }

    /// Whether the trainer hands that word on to what loads the model.
    fn is_handed_on(&self, name: &str) -> bool {
        self.arguments.text(&format!("model_init_kwargs.{name}")).is_some()
    }

    /// Takes the trainer's arguments, and what the trainer and the model are told beside them.
    fn fill_in(&self, settings: &mut Settings, reader: &ScriptReader) {
        settings.adopt_all(&self.arguments, |name| (name != "0").then(|| name.to_owned()));
        let trainer_call = reader.calls(&trainer_by_name::TRAINERS);
        for name in ["max_seq_length", "max_length"] {
            for source in [&trainer_call, &self.made] {
                // TRL's own longest sample is a default of its arguments, which the trainer's keyword goes over.
                if !self.arguments.holds(name) && source.holds(name) && !settings.is_set(name) {
                    settings.adopt(name, source, name);
                }
            }
        }
        for name in ["attn_implementation", "use_flash_attention_2", "torch_dtype", "dtype"] {
            settings.adopt(name, &self.made, name);
            let handed = format!("model_init_kwargs.{name}");
            if !settings.is_set(name) && self.arguments.text(&handed).is_some() {
                settings.adopt(name, &self.arguments, &handed);
            }
        }
    }
}

/// The name of the model, which the settings get too.
fn named_model(settings: &mut Settings, made: &Settings, given: &Settings) -> Option<Setting<String>> {
    // What a file of settings names, the script may hand through functions that are not followed.
    let told = || given.first_text(&["model_name_or_path", "base_model", "model_name", "model_id", "model_path"]);
    let named = made.first_text(&["model_name", "0", "pretrained_model_name_or_path"]).or_else(told);
    if let Some(found) = named.clone().filter(|found| !found.value.is_empty()) {
        settings.set("model_name_or_path", found.value.into(), found.origin);
        settings.accept("model_name_or_path");
    }
    named
}

/// TRL's trainers and configurations but those of supervised training.
const KINDS: [&str; 8] = ["DPO", "ORPO", "KTO", "GRPO", "Reward", "CPO", "PPO", "GKD"];

/// What the method of training changes of a plan, or else a head that is not the vocabulary's.
fn set_method(
    imported: &mut ImportedPlan,
    context: &ImportContext,
    content: &str,
    (calls, reader): (&ScriptCalls, &ScriptReader),
    (settings, method): (&Settings, Option<&str>),
) {
    if method == Some("grpo") && calls.made.is("fast_inference") {
        return not_modelled(imported, "fast_inference: vLLM in the training process, on the policy's own weights");
    } else if matches!(method, Some("grpo" | "rloo")) {
        return rollout::of_script(imported, settings, context);
    }
    let made = |kind: &&&str| call(content, &format!("{kind}Trainer")).is_some();
    let several: Vec<&str> = ["SFT"].iter().chain(&KINDS).filter(made).copied().collect();
    if several.len() > 1 {
        let names = several.join(", ");
        return not_modelled(imported, &format!("a script of several trainers ({names}): counted as supervised"));
    }
    let kind = KINDS
        .into_iter()
        .find(|kind| ["Config", "Trainer"].iter().any(|end| call(content, &format!("{kind}{end}")).is_some()));
    if let Some(method) = kind.and_then(TrainingMethod::of_name).or_else(|| TrainingMethod::of_script(content)) {
        method.apply(imported);
    } else {
        script_head::of_script(imported, reader);
    }
}

/// Parts that a script freezes, and libraries other than `PyTorch` that it trains with.
fn note_other_training(imported: &mut ImportedPlan, reader: &ScriptReader, content: &str) {
    let name = reader.name();
    if imported.get(keys::lora::rank).is_none() && reader.freezes() {
        not_modelled(imported, &format!("{name} freezes parts of the model: all are counted as trained"));
    }
    if let Some(library) = script_defaults::other_library(content) {
        not_modelled(imported, &format!("{name} trains with {library}: the plan counts what PyTorch holds"));
    }
}

/// `gradient_accumulation_steps = gradient_accumulation_steps // world_size`: what was told is the whole batch.
fn share_steps(imported: &mut ImportedPlan) {
    const STEPS: &str = "training.gradient_accumulation_steps";
    let Some((micro, steps)) = imported.whole(keys::training::micro_batch_size).zip(imported.whole(STEPS)) else {
        return;
    };
    let origin =
        Origin::Derived(format!("micro batch {micro} x {steps} steps, which the script shares among its ranks"));
    imported.say(keys::model::batch_size, micro.saturating_mul(steps), origin);
    imported.drop(STEPS);
}

/// In what the weights are loaded, by the script's call or by the version that runs.
fn stored(settings: &Settings, unsloth: bool) -> WeightStorage {
    let dtype = settings.first_text(&["torch_dtype", "dtype"]).map(|found| found.value).unwrap_or_default();
    let half = unsloth || ["bfloat16", "float16"].iter().any(|name| dtype.contains(name));
    if half { WeightStorage::Half } else { WeightStorage::Full }
}

/// The keywords of the first call of `name` in a file; an argument without a name is called by its place.
pub fn keywords_of(file: &str, content: &str, name: &str) -> Settings {
    ScriptReader::new(file, content, Settings::default()).calls(&[name])
}
