//! The plan of a command that starts a script on the Trainer, or one with a loop of its own and the same names.

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::methods::{self, TrainingMethod};
use super::super::origin::Origin;
use super::super::own_loop::{self, OwnLoop};
use super::super::python::ScriptReader;
use super::super::rows::not_modelled;
use super::super::settings::{DefaultValue, Settings, UNKNOWN};
use super::super::text::arguments as arguments_of;
use super::super::vision_parts::WholeModel;
use super::super::{
    arguments, data_arguments, idle_arguments, own_config, script_adapters, script_defaults, script_doubts, trl,
};
use super::super::{
    python_calls, python_lengths, script_classes, script_head, script_loading, script_modules, script_patches,
    trainer_by_name,
};
use super::lmflow;
use super::{DEFAULTS, VERSION, config_file, data_parallel, known_script, leave_open, set_all, versions};
use super::{lora_call, option_names, reentrant};
use crate::plan::keys;

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let text =
        script_defaults::script_of(context).map(|(path, text)| script_modules::project_text(context, &path, &text));
    let options = arguments::read(&context.program.words).options;
    let (run, told) = context.run.with_versions_of(&text.unwrap_or_default(), &options);
    let mut imported = of_versions(&context.with_run(&run));
    told.into_iter().for_each(|line| imported.note(line));
    imported
}

/// The same with the versions that run.
fn of_versions(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("transformers");
    let looped = own_loop_of(context);
    if let Some(path) = &looped {
        imported.note(format!("{path}: a training loop of its own: the defaults of TrainingArguments are not taken"));
    }
    let looped = looped.is_some();
    let method = trl::method(context).or_else(|| trl::parsed(context));
    let (mut settings, told) = gathered(&mut imported, context, looped, method);
    let own = OwnLoop::of(context, &mut settings, &told);
    let script = script_defaults::script_of(context).map(|(path, text)| {
        let whole = script_modules::project_text(context, &path, &text);
        (path, text, whole)
    });
    if let Some((path, _, whole)) = &script {
        leave_idle(&mut imported, &mut settings, (path, whole), looped);
    }
    let reader = script.as_ref().map(|(path, text, whole)| {
        let trainer = if looped { Settings::default() } else { Settings::defaults(VERSION, &UNTOLD) };
        // What a script asks of its arguments is what the installed version gives them.
        let mut given = settings.clone();
        versions::defaults(&mut ImportedPlan::default(), &mut given, context, method);
        let known = trainer.with(lora_call::own_file(context, &settings, &mut imported)).with(given);
        ScriptReader::of_project(path, text, whole, known, context.outside())
    });
    if let Some(reader) = reader.as_ref().filter(|_| !looped) {
        if written(&mut settings, reader) {
            imported.unread.get_or_insert_with(|| "what the script hands to its arguments by `**`".to_owned());
        }
        cut_by_trainer(&mut settings, reader);
        python_lengths::leave_uncut(&mut settings, &mut imported, reader);
    }
    imported.say(keys::model::framework, "pytorch", Origin::Program(context.program.shown()));
    trl::complete(&mut settings, context, &mut imported);
    chats_defaults(&mut settings);
    let mut open = None;
    if let Some(reader) = &reader {
        if !looped && !settings.holds("torch_dtype") {
            match script_loading::weights_type(reader) {
                Ok(told) => settings.over(told),
                Err(why) => open = Some(why),
            }
        }
        settings.over(script_adapters::loaded_bits(reader, &settings));
    }
    let optimizer = settings.holds("optim");
    let of_version = versions::apply_to(&mut imported, &mut settings, context, method);
    if method.is_some() && trl::method(context).is_none() && !context.run.versions.contains_key("trl") {
        imported.note("the version of TRL is not known: its defaults are those of 1.0");
    }
    own_optimizer(&mut settings, looped && !optimizer);
    if context.program.name().contains("_no_trainer") && reader.is_none() {
        settings.over(Settings::defaults("transformers' examples without Trainer", &NO_TRAINER));
    }
    let kind = method_of(context, &settings);
    methods::accept_names(kind, &settings, context);
    // DeepSpeed-Chat puts it in for every dropout of the model (`dschat/utils/model/model_utils.py`, `configure_dropout`).
    if settings.holds("zero_stage") {
        let share = settings.number("dropout").filter(|found| (0.0..1.0).contains(&found.value));
        imported.set(keys::training::dropout, share);
    }
    set_all(&mut imported, &settings, context, reader.as_ref());
    // `unsloth/models/loader.py`, which a script may take in place of transformers' own classes.
    if settings.is("use_unsloth") {
        not_modelled(&mut imported, "--use_unsloth: its own modules, loss and checkpoints, which keep less");
    }
    if let Some(reader) = &reader {
        if method.is_none() {
            length_of_script(&mut imported, &settings, reader, context);
        }
        script_loading::attention(&mut imported, reader);
        reentrant::of_argument(&mut imported, &settings, reader);
        script_patches::say(&mut imported, reader, context);
        let text = own.as_ref().map_or_else(|| reader.content(), OwnLoop::text);
        script_doubts::reconcile(&mut imported, reader, looped.then_some(text), &settings);
        script_adapters::loaded_for_training(&mut imported, reader);
        script_doubts::adapters(&mut imported, reader, &settings);
    }
    if method.is_some() {
        trl::adapters(&mut imported, context, reader.as_ref());
    }
    trl::loss_in_parts(&mut imported, method, &settings, context);
    let loops = own.is_some();
    if let Some(own) = own {
        own.settle(&mut imported, context);
    }
    leave_open(&mut imported, open.or(of_version));
    match (kind, &reader) {
        // What else such a script loads may have a head of its own: a model that rewards.
        (Some(method), _) => methods::of_trainer(method, &mut imported, &settings, context),
        (None, Some(reader)) => script_head::of_script(&mut imported, reader),
        (None, None) => script_head::of_name(&mut imported, context, &settings),
    }
    let parted = imported.tower.as_ref().and_then(|tower| tower.whole.as_ref()).is_some_and(WholeModel::is_parted);
    let adapted = imported.get(keys::lora::rank).is_some();
    if let Some(reader) = reader.filter(|reader| !adapted && !parted && reader.freezes()) {
        not_modelled(
            &mut imported,
            &format!("{} freezes parts of the model: all are counted as trained", reader.name()),
        );
    }
    if !loops {
        data_parallel(&mut imported, context);
    }
    imported
}

/// The length of a sample that only a name of the script's own says, or its calls of a tokenizer.
fn length_of_script(imported: &mut ImportedPlan, settings: &Settings, reader: &ScriptReader, context: &ImportContext) {
    let said = imported.missing.iter().any(|missing| missing.key == keys::model::sequence_length);
    let prompts = own_loop::makes_its_samples(reader.whole());
    if said || prompts || imported.get(keys::model::sequence_length).is_some() {
        return;
    }
    let (name, content) = (reader.name(), reader.content());
    let called = script_modules::called_text(context, name, content);
    python_lengths::set(imported, settings, reader, (name, content), (reader.whole(), &called));
}

/// Takes out what a script declares and never reads; the Trainer has its own default in its place.
fn leave_idle(imported: &mut ImportedPlan, settings: &mut Settings, (path, whole): (&str, &str), looped: bool) {
    data_arguments::names(settings, whole).iter().for_each(|name| settings.accept(name));
    let usual = if looped { Settings::default() } else { Settings::defaults(VERSION, DEFAULTS) };
    for name in idle_arguments::names(settings, whole) {
        if settings.is_set(&name) {
            imported.note(format!("{path} declares --{name} and never reads it: without effect"));
        } else if usual.get(&name).is_none() {
            continue;
        }
        settings.set(&name, serde_json::Value::Null, Origin::Program(String::new()));
        settings.adopt(&name, &usual, &name);
    }
}

/// The defaults, the file of arguments over them and the command's options over both; and what a file of the script's
/// own says as it stands there. A loop of its own takes none of the Trainer's defaults.
fn gathered(
    imported: &mut ImportedPlan,
    context: &ImportContext,
    looped: bool,
    method: Option<&str>,
) -> (Settings, Settings) {
    let mut settings = if looped { Settings::default() } else { Settings::defaults(VERSION, DEFAULTS) };
    if let Some(method) = method {
        settings.over(trl::defaults(method));
    }
    own_defaults(imported, &mut settings, context);
    let options = option_names::completed(arguments::read(&context.program.words).options, context);
    let options = option_names::left_alone(options, imported, context);
    let mut told = Settings::default();
    if let Some(file) = config_file(context).and_then(|path| context.configuration(&path, imported)) {
        settings.over(file);
        options.accept("config");
    } else if let Some((file, sections)) = own_loop::configuration(context, &options, imported) {
        settings.over(if sections { own_config::flattened(&file) } else { file.clone() });
        told = file;
    } else if own_loop::is_told_elsewhere(context, &options) {
        imported.unread.get_or_insert_with(|| "the file of its arguments".to_owned());
    }
    settings.over(options);
    (settings, told)
}

/// Arguments of the Trainer that decide what a step holds.
const STEP_ARGUMENTS: [&str; 6] =
    ["bf16", "fp16", "gradient_checkpointing", "optim", "per_device_train_batch_size", "gradient_accumulation_steps"];

/// What `examples/pytorch/*/run_*_no_trainer.py` do, where they are not at hand: `torch.optim.AdamW`, and no norm of gradients.
const NO_TRAINER: [(&str, DefaultValue); 2] =
    [("optim", DefaultValue::Text("adamw_torch")), ("max_grad_norm", DefaultValue::Number(0.0))];

/// Others that a plan has keys for.
const FURTHER: [&str; 7] = [
    "torch_compile",
    "use_liger_kernel",
    "attn_implementation",
    "max_grad_norm",
    "weight_decay",
    reentrant::ARGUMENTS,
    reentrant::NAME,
];

/// Those that scripts ask for, and that are off where nobody says so.
const UNTOLD: [(&str, DefaultValue); 3] =
    [("bf16", DefaultValue::Flag(false)), ("fp16", DefaultValue::Flag(false)), ("tf32", DefaultValue::Flag(false))];

/// Those that shard.
const SHARDING: [&str; 3] = ["fsdp", "fsdp_config", "deepspeed"];

/// What a script that makes `TrainingArguments` itself gives them by expressions, over its own arguments: `bf16=not
/// args.fp16`. One that is not followed leaves its default open, where nobody says it.
fn written(settings: &mut Settings, reader: &ScriptReader) -> bool {
    let parses = own_loop::parses(reader.content()) && !makes_arguments(reader);
    let in_step = |name: &str| STEP_ARGUMENTS.contains(&name) || SHARDING.contains(&name);
    let made = if parses {
        reader.set_afterwards(|name| in_step(name) || FURTHER.contains(&name))
    } else {
        reader.open.set(false);
        reader.calls(&python_calls::ARGUMENTS)
    };
    // What is called nowhere that is read may be told anything.
    let calls = |name: &&str| python_calls::call(reader.content(), name).is_some();
    let unseen = made.iter().next().is_none() && python_calls::ARGUMENTS.iter().any(calls);
    let open = !parses && (reader.open.get() || unseen);
    let unused = if parses { Vec::new() } else { not_handed_on(reader.content(), &made, settings) };
    for (name, found) in made.iter() {
        // What the script sets of what a parser has filled in goes over the command's.
        let taken = parses || !settings.is_set(name);
        let new = settings.get(name).is_none_or(|before| before.value != found.value);
        if taken && new && (in_step(name) || found.value != UNKNOWN) {
            settings.set(name, found.value.clone(), found.origin.clone());
        }
    }
    for name in unused {
        settings.set(name, serde_json::Value::Null, Origin::Program(String::new()));
    }
    open
}

/// Whether a script makes the Trainer's arguments itself and its parser fills in classes of its own alone: what they are
/// not handed is the library's default.
fn makes_arguments(reader: &ScriptReader) -> bool {
    let whole = reader.whole();
    let makes = python_calls::ARGUMENTS.iter().any(|name| python_calls::call(whole, name).is_some());
    makes && script_classes::fills_own_alone(reader.content(), &[whole])
}

/// The length that a script hands to TRL's trainer itself, beside its arguments: `SFTTrainer(max_seq_length=args.block)`.
fn cut_by_trainer(settings: &mut Settings, reader: &ScriptReader) {
    let call = reader.calls(&trainer_by_name::TRAINERS);
    for name in ["max_seq_length", "max_length"] {
        if call.whole(name).is_some_and(|found| found.value > 0) {
            settings.adopt(name, &call, name);
        }
    }
}

/// Arguments of the Trainer's names that a script declares for itself and does not hand to the `TrainingArguments` that
/// it makes: they shard nothing.
fn not_handed_on(text: &str, made: &Settings, settings: &Settings) -> Vec<&'static str> {
    const FEWEST: usize = 3;
    let elsewhere = ["deepspeed.initialize(", "HfDeepSpeedConfig(", "FullyShardedDataParallel("];
    let open = python_calls::ARGUMENTS.iter().filter_map(|name| python_calls::call(text, name)).any(|at| {
        let rest = text.get(at..).and_then(|rest| rest.split_once('(')).map_or("", |(_, rest)| rest);
        arguments_of(rest).iter().any(|part| part.trim().starts_with('*'))
    });
    if open || made.iter().count() < FEWEST || elsewhere.iter().any(|part| text.contains(part)) {
        return Vec::new();
    }
    let later = |name: &str| text.contains(&format!("training_args.{name} ="));
    SHARDING.into_iter().filter(|name| settings.holds(name) && made.get(name).is_none() && !later(name)).collect()
}

/// The optimizer of a script that does not leave it to the Trainer; `silent` is a loop that says none.
fn own_optimizer(settings: &mut Settings, silent: bool) {
    if silent {
        // A loop makes its own: what the Trainer of that version would take is none of it.
        settings.set("optim", serde_json::Value::Null, Origin::Program(String::new()));
    }
    // LMFlow's optimizers of its own (`src/lmflow/args.py`).
    if settings.is("use_customized_optim") {
        let own = settings.clone();
        settings.adopt("optim", &own, "customized_optim");
    }
}

/// The method of training: by the name of the script, by an option for the stage, or by what the script makes.
fn method_of(context: &ImportContext, settings: &Settings) -> Option<TrainingMethod> {
    let named = TrainingMethod::of_name(trl::method(context).unwrap_or_else(|| context.program.name()));
    let told = || script_defaults::script_of(context).and_then(|(_, text)| TrainingMethod::of_script(&text));
    let asked = || {
        let names = ["training_stage", "train_stage", "stage"];
        names.iter().find_map(|name| TrainingMethod::of_name(&settings.text(name)?.value))
    };
    named.or_else(asked).or_else(told)
}

/// A script that makes no Trainer has a loop of its own, with defaults of its own.
fn own_loop_of(context: &ImportContext) -> Option<String> {
    let (path, text) = own_loop::training_text(context)?;
    let known = known_script(context).is_some() || trl::method(context).is_some();
    // DeepSpeed-Chat's and those after it are known.
    let chat = arguments::read(&context.program.words).options.holds("zero_stage");
    let arguments = python_calls::ARGUMENTS.iter().any(|name| python_calls::call(&text, name).is_some());
    let whole =
        text.contains("add_argument(") && !text.contains("Trainer") && !text.contains("HfArgumentParser") && !arguments;
    ((whole || own_loop::loops(&text)) && !known && !chat).then_some(path)
}

/// What the script that runs has as the defaults of its own arguments; one that cannot be read may have any.
fn own_defaults(imported: &mut ImportedPlan, settings: &mut Settings, context: &ImportContext) {
    let known = known_script(context).is_some() || trl::method(context).is_some();
    match script_defaults::script_of(context) {
        Some((path, text)) => {
            settings.over(script_defaults::of_project(context, &path, &text));
            if let Some(library) = script_defaults::other_library(&text) {
                not_modelled(imported, &format!("{path} trains with {library}: the plan counts what PyTorch holds"));
                imported.unread = Some(path.clone());
            }
            if let Some(pipeline) = lmflow::own_arguments(context, &text) {
                let batch = "per_device_train_batch_size";
                settings.set(batch, serde_json::Value::Null, Origin::Program(String::new()));
                imported.miss(keys::training::micro_batch_size, format!("{pipeline}, has one of its own"));
                imported.unread = Some(pipeline);
            }
            if !known && own_loop::hides(context) {
                imported.unread = Some("what trains, in modules that the script imports".to_owned());
            }
            if text.contains("import colossalai") || text.contains("from colossalai") {
                not_modelled(imported, "Colossal-AI's plugins: how they store and shard is the script's");
                imported.unread = Some(path);
            }
        }
        None if context.program.path.contains("llava/train/train") => {
            imported.note(format!("{}: not at hand, its arguments are LLaVA's own", context.program.shown()));
            settings.over(Settings::defaults("LLaVA 1.2", &LLAVA));
            // `train_mem.py`: by the memory-efficient attention, whatever its version calls it.
            if context.program.name() == "train_mem.py" {
                let flash = [("attn_implementation", DefaultValue::Text("flash_attention_2"))];
                settings.over(Settings::defaults("LLaVA's train_mem.py", &flash));
            }
        }
        None if !known && !context.program.path.is_empty() => imported.note(format!(
            "{}: not read, the defaults of its own arguments are not known; those of TrainingArguments are taken",
            context.program.shown()
        )),
        None => {}
    }
}

/// What LLaVA has of its own in place of the Trainer's (`llava/train/train.py`, `TrainingArguments`).
const LLAVA: [(&str, DefaultValue); 2] =
    [("optim", DefaultValue::Text("adamw_torch")), ("model_max_length", DefaultValue::Whole(512))];

/// DeepSpeed-Chat's steps have a batch of their own where nobody says it
/// (`step1_supervised_finetuning/main.py`, `step2_reward_model_finetuning/main.py`: 16).
fn chats_defaults(settings: &mut Settings) {
    if settings.holds("zero_stage") && !settings.is_set("per_device_train_batch_size") {
        let default = [("per_device_train_batch_size", DefaultValue::Whole(16))];
        settings.over(Settings::defaults("DeepSpeed-Chat", &default));
    }
}
