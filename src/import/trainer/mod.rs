//! Hugging Face's Trainer: `TrainingArguments`, the arguments of the example scripts and of
//! TRL, and training loops on accelerate with the same names.

pub mod attention;
mod checkpoint_types;
mod command;
mod length;
mod lmflow;
mod lora_call;
mod option_names;
pub mod reentrant;
mod script;
mod sharding;
mod spread;
mod versions;

use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::World;
use super::liger;
use super::methods::{self, TrainingMethod};
use super::origin::{Origin, Setting};
use super::own_loop;
use super::python::ScriptReader;
use super::python_models;
use super::script_defaults::script_of;
use super::settings::{DefaultValue, Settings};
use super::text;
use super::trl;
use super::unread::account_for;
use super::vision;
use super::{accelerate, arguments};
use crate::plan::keys;

pub use attention::implementation;
pub use checkpoint_types::published;
pub use command::import;
pub use length::by_section as length_by_section;
pub use option_names::completed as completed_options;
pub use spread::{of_notebook, spread, spread_alone};
pub use versions::apply_to as apply_versions;

/// The version whose defaults are meant.
const VERSION: &str = "transformers 4.57";

/// `TrainingArguments` where nothing is said. AdamW is the fused one with `PyTorch` 2.8 and later.
pub const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("per_device_train_batch_size", DefaultValue::Whole(8)),
    ("gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("weight_decay", DefaultValue::Number(0.0)),
    ("max_grad_norm", DefaultValue::Number(1.0)),
    ("optim", DefaultValue::Text("adamw_torch_fused")),
    ("gradient_checkpointing", DefaultValue::Flag(false)),
    (reentrant::NAME, DefaultValue::Flag(true)),
];

/// Words that only these commands have.
const OWN: [&str; 2] = ["per_device_train_batch_size", "per_gpu_train_batch_size"];

/// Names of the model, which evaluations and servers have too: what trains has one of the others beside it.
const NAMES: [&str; 2] = ["model_name_or_path", "config_name"];
const TRAINING: [&str; 9] = [
    "do_train",
    "num_train_epochs",
    "gradient_accumulation_steps",
    "learning_rate",
    "max_train_steps",
    "max_steps",
    "lora_r",
    "train_batch_size",
    "gradient_checkpointing",
];

/// Whether the program takes `TrainingArguments`.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let has = |names: &[&str]| names.iter().any(|name| options.holds(name));
    // It evaluates or generates alone: a script that asks for `do_train` does nothing without it.
    let asks = || {
        known_script(context).is_some_and(|name| !name.contains("no_trainer"))
            || script_of(context).is_some_and(|(_, text)| text.contains("if training_args.do_train"))
    };
    let other =
        ["do_predict", "do_eval"].iter().any(|name| options.is(name)) && (!options.holds("num_train_epochs") || asks());
    if options.flag("do_train").map_or(other, |found| !found.value) {
        return false;
    }
    let named = has(&OWN) || (has(&NAMES) && has(&TRAINING));
    named
        || config_file(context).is_some()
        || known_script(context).is_some()
        || own_loop::trains(context)
        || (context.program.name().starts_with("trl") && trl::method(context).is_some())
}

/// Whether settings are `TrainingArguments` with a model's name, as recipes and TRL's configurations have them.
pub fn is_config(settings: &Settings) -> bool {
    // A model that is to be filled in is there without a value.
    settings.iter().any(|(name, _)| name == "model_name_or_path") && OWN.iter().any(|name| settings.holds(name))
}

/// Whether settings are `TrainingArguments` alone: a recipe whose command names the model.
pub fn is_recipe(settings: &Settings) -> bool {
    const BESIDE: [&str; 4] = ["num_train_epochs", "gradient_accumulation_steps", "max_steps", "learning_rate"];
    OWN.iter().any(|name| settings.holds(name)) && BESIDE.iter().filter(|name| settings.holds(name)).count() >= 2
}

/// What is said of a file of arguments whose script nobody names.
pub const NO_SCRIPT: &str =
    "the script is not named: its own defaults are not known, those of TrainingArguments are taken";

/// The plan of such a file alone.
pub fn of_file(file: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("transformers");
    imported.note(NO_SCRIPT);
    let mut settings = Settings::defaults(VERSION, DEFAULTS).with(file);
    imported.say(keys::model::framework, "pytorch", Origin::Program("the names of TrainingArguments".to_owned()));
    let open = versions::apply(&mut imported, &mut settings, context).or_else(|| raised(&settings));
    let method = TrainingMethod::of_settings(&settings, name);
    methods::accept_names(method, &settings, context);
    set_all(&mut imported, &settings, context, None);
    if let Some(method) = method {
        methods::of_trainer(method, &mut imported, &settings, context);
    }
    by_launcher(&mut imported);
    leave_open(&mut imported, open);
    imported
}

/// Why the type of what a base of 4 or 8 bits keeps whole is open in a project's own file: `prepare_model_for_kbit_training`
/// (peft) raises it to fp32, and whether that is called only the script says.
fn raised(settings: &Settings) -> Option<String> {
    let quantised = ["load_in_4bit", "load_in_8bit"].iter().any(|name| settings.is(name));
    let dtype = settings.first_text(&["torch_dtype", "dtype", "model_dtype"])?;
    let own = matches!(&dtype.origin, Origin::File { key, .. } if key.contains('.'));
    (quantised && own && stored(settings) == WeightStorage::Half)
        .then(|| format!("{}: the script may raise what is not quantised to fp32", dtype.origin))
}

/// Takes the types of weights out, where the versions that run leave them open.
pub fn leave_open(imported: &mut ImportedPlan, why: Option<String>) {
    // DeepSpeed's masters are what they are, whatever the checkpoint's type is.
    let masters = imported
        .get(keys::training::precision)
        .and_then(|found| found.value.as_str())
        .is_some_and(|word| word.ends_with("-fp32-master"));
    if let Some(why) = why.filter(|_| !masters) {
        imported.drop(keys::training::precision);
        imported.drop(keys::training::autocast);
        imported.miss(keys::training::precision, why);
    }
}

/// The launcher of a script shards. What is stored follows from that: `bf16` means autocast under `DistributedDataParallel`,
/// fp32 masters under DeepSpeed, and fp32 shards under FSDP.
pub fn by_launcher(imported: &mut ImportedPlan) {
    let open = imported.is_default("distribution.sharding");
    for key in ["distribution.sharding", "distribution.engine"] {
        imported.doubt_default(key, "the launcher of the script says it");
    }
    let adapters = imported.get(keys::lora::rank).is_some();
    if imported.is_default("training.precision") || (open && !adapters) {
        let told = imported.get(keys::training::precision).map(|found| found.origin.to_string()).unwrap_or_default();
        imported.drop(keys::training::precision);
        imported.drop(keys::training::autocast);
        imported
            .miss(keys::training::precision, format!("{told}: what is stored follows from the launcher's sharding"));
    }
}

/// The launcher's autocast over weights of the same 16 bits: where a preparation raises what is not quantised to fp32, it
/// computes in 16 bits all the same (`script_adapters::prepare`).
fn autocast(imported: &mut ImportedPlan, launched: &Settings) {
    let Some(found) = launched.text("mixed_precision") else { return };
    let word = found.value.to_lowercase();
    let same = imported.get(keys::training::precision).is_some_and(|told| told.value == word.as_str());
    if same && matches!(word.as_str(), "bf16" | "fp16") {
        imported.say(keys::training::precision, word, found.origin);
    }
}

fn set_all(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, reader: Option<&ScriptReader>) {
    let settings = &mut settings.clone();
    script::set_model(imported, settings, context, reader);
    length::length(imported, settings, context);
    script::low_rank(imported, settings, context, reader);
    set(imported, settings, context, stored(settings));
    let classes = reader.map(|reader| python_models::models(reader.content())).unwrap_or_default();
    python_models::put_tower(imported, &classes, reader.map_or("", ScriptReader::whole));
    vision::of_llava(imported, settings);
    spread::by_argument(settings, context, reader);
    account_for(imported, settings);
}

/// Scripts of transformers that may be run with a file of arguments alone.
fn known_script(context: &ImportContext) -> Option<&'static str> {
    const SCRIPTS: [&str; 11] = [
        "run_clm.py",
        "run_clm_no_trainer.py",
        "run_mlm.py",
        "run_mlm_no_trainer.py",
        "run_fim.py",
        "run_glue.py",
        "run_summarization.py",
        "run_translation.py",
        "run_qa.py",
        "run_squad.py",
        "run_plm.py",
    ];
    SCRIPTS.iter().find(|name| **name == context.program.name()).copied()
}

/// The one argument that holds all the others: `run_clm.py args.json`, TRL's `--config sft.yaml`.
fn config_file(context: &ImportContext) -> Option<String> {
    let words = &context.program.words;
    let given = arguments::read(words).options.text("config").filter(|_| known_script(context).is_some());
    let alone = match words.as_slice() {
        [only] if only.ends_with(".json") && known_script(context).is_some() => Some(only.clone()),
        _ => None,
    };
    // `HfArgumentParser.parse_yaml_file`, and the parsers made from it: the file stands in place of the arguments.
    let first = words.first().filter(|word| word.ends_with(".yaml") || word.ends_with(".yml"));
    let read = |path: &&String| {
        let text = context.run.files.read(path).ok();
        text.and_then(|text| text::yaml(path, &text).ok()).is_some_and(|settings| is_config(&settings))
    };
    let stands = first.filter(read).cloned();
    given.map(|found| found.value).or(alone).or_else(|| trl::config_file(context)).or(stands)
}

/// Without a launcher the Trainer wraps the model in `DataParallel` over every GPU in sight.
pub fn data_parallel(imported: &mut ImportedPlan, context: &ImportContext) {
    if context.world.total.is_some() || !context.launchers.is_empty() || imported.get(keys::cluster::num_gpus).is_some()
    {
        return;
    }
    let cpu = imported.get(keys::hardware::gpu_type).filter(|found| found.value == "cpu");
    if let Some(origin) = cpu.map(|found| found.origin.clone()) {
        return common::on_cpu(imported, origin);
    }
    let Some(gpus) = context.visible_gpus() else {
        return imported
            .miss("cluster.num_gpus", "no launcher; a Trainer by itself takes every GPU in sight, and none is");
    };
    if gpus.value > 1 {
        imported.note("no launcher: nn.DataParallel over all GPUs in sight, whose first holds the outputs of all");
    }
    let world = World::here(gpus.value, gpus.origin);
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

/// How the weights are stored by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightStorage {
    /// In fp32: autocast computes in 16 bits.
    Full,
    /// In 16 bits, gradients and states too.
    Half,
}

fn stored(settings: &Settings) -> WeightStorage {
    let dtype = settings.first_text(&["torch_dtype", "dtype", "model_dtype"]);
    match dtype {
        Some(found) if ["bfloat16", "float16", "bf16", "fp16"].contains(&found.value.as_str()) => WeightStorage::Half,
        _ => WeightStorage::Full,
    }
}

/// Sets what `TrainingArguments` say, whoever filled them in. `stored` is how the weights are kept.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, stored: WeightStorage) {
    let micro =
        settings.first_whole(&["per_gpu_train_batch_size", "per_device_train_batch_size", "per_gpu_batch_size"]);
    imported.set(keys::training::micro_batch_size, micro);
    let steps = settings.whole("gradient_accumulation_steps");
    let steps_given = settings.is_set("gradient_accumulation_steps");
    imported.set(keys::training::gradient_accumulation_steps, steps);
    precision(imported, settings, stored);
    let launched = accelerate::settings(context, imported).unwrap_or_default().with(settings.below(trl::LAUNCH));
    let unread = launched.clone();
    if launched.iter().next().is_some() {
        let told = ["bf16", "fp16"].iter().any(|name| settings.is(name));
        accelerate::set(imported, &launched, context, stored == WeightStorage::Full && !told);
        autocast(imported, &launched);
        if steps_given {
            accelerate::compare_accumulation(imported, &launched, settings);
        } else {
            imported.set(keys::training::gradient_accumulation_steps, launched.whole("gradient_accumulation_steps"));
        }
    }
    common::set_optimizer(imported, settings.text("optim"));
    attention::set(imported, settings);
    attention::of_model(imported, context);
    if let Some(found) = settings.on("use_cpu").or_else(|| settings.on("no_cuda")) {
        imported.say(keys::hardware::gpu_type, "cpu", found.origin);
    }
    // transformers 5.2x: the old name counts where the new one is not set (`training_args.py`, `__post_init__`).
    let names = [
        "activation_checkpointing",
        "gradient_checkpointing",
        "grad_checkpoint",
        "grad_checkpointing",
        "use_gradient_checkpointing",
    ];
    let set = names.iter().find(|name| settings.is_set(name)).unwrap_or(&"gradient_checkpointing");
    let recompute = settings.flag(set);
    if recompute.as_ref().is_some_and(|found| found.value)
        || imported.get(keys::training::activation_checkpointing).is_none()
    {
        let word = recompute.map(|found| found.map(|on| if on { "full" } else { "none" }));
        imported.set(keys::training::activation_checkpointing, word);
        reentrant::set(imported, settings);
    }
    // Whoever says how to compile compiles (`training_args.py`, `__post_init__`).
    let how = settings.first_text(&["torch_compile_backend", "torch_compile_mode", "torchdynamo"]);
    let compile = settings.on("torch_compile").or_else(|| how.map(|found| found.map(|_| true)));
    imported.set(keys::training::compile, compile);
    let liger = ["use_liger_kernel", "use_liger", "enable_liger_kernel"].iter().find_map(|name| settings.flag(name));
    if let Some(found) = &liger {
        liger::of_script(imported, found, context);
    }
    imported.set(keys::training::loss, liger.filter(|found| found.value).map(|found| found.map(|_| "fused")));
    imported.set(
        keys::training::weight_decay,
        settings.number("weight_decay").filter(|found| (0.0..=1.0).contains(&found.value)),
    );
    imported
        .set("training.gradient_clipping", settings.number("max_grad_norm").map(|found| found.map(|norm| norm > 0.0)));
    imported.set(keys::training::deterministic, settings.flag("full_determinism"));
    sharding::set(imported, settings, context, stored);
    under_autocast(imported, settings, &unread);
    let twice = unread.on("fsdp_config.fsdp_activation_checkpointing");
    if let Some((wrapped, asked)) = twice.zip(settings.on("gradient_checkpointing")) {
        imported.note(format!(
            "{} and {}: the Trainer refuses both at once (`trainer.py`, `create_accelerator_and_postprocess`)",
            wrapped.origin, asked.origin
        ));
    }
    methods::options(imported, settings);
    accelerate::distrust(imported, &unread);
    accelerate::account_for_file(imported, &unread);
}

/// Weights that were loaded in 16 bits lie under autocast where the arguments or the launcher ask for mixed precision
/// (accelerate, accelerator.py: `native_amp` of all but DeepSpeed and Megatron).
fn under_autocast(imported: &mut ImportedPlan, settings: &Settings, launched: &Settings) {
    let is = |key: &str, word: &str| imported.get(key).is_some_and(|found| found.value == word);
    let Some(word) = ["bf16", "fp16"].into_iter().find(|word| is(keys::training::precision, word)) else { return };
    if is(keys::distribution::engine, "deepspeed") {
        return;
    }
    let of_launcher = || launched.text("mixed_precision").filter(|found| found.value.eq_ignore_ascii_case(word));
    let found = settings.on(word).map(|found| found.origin).or_else(|| of_launcher().map(|found| found.origin));
    if let Some(origin) = found {
        imported.say(keys::training::autocast, true, origin);
    }
}

fn precision(imported: &mut ImportedPlan, settings: &Settings, stored: WeightStorage) {
    let on = |name: &str| settings.on(name);
    let dtype = settings.first_text(&["torch_dtype", "dtype"]);
    let half = stored == WeightStorage::Half;
    // Of matrices in 16 bits nothing is multiplied in TF32.
    settings.accept("tf32");
    let word = if let Some(found) = on("bf16") {
        found.map(|_| if half { "bf16" } else { "bf16-mixed" })
    } else if let Some(found) = on("fp16") {
        found.map(|_| if half { "fp16" } else { "fp16-mixed" })
    } else if let Some(found) = dtype.filter(|_| stored == WeightStorage::Half) {
        found.map(|name| if name.contains("bf") { "bf16" } else { "fp16" })
    } else if let Some(found) = on("tf32") {
        found.map(|_| "tf32")
    } else {
        Setting::new("fp32", Origin::Default { framework: VERSION, option: "neither bf16 nor fp16".to_owned() })
    };
    imported.set(keys::training::precision, Some(word));
}
