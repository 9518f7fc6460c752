//! Primus: an experiment's file over presets of its own repository, which are Megatron-LM's or torchtitan's settings by
//! their own names (`primus/core/config/yaml_loader.py`, `preset_loader.py`, `primus/configs/` at 2026-08-22).

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::{Program, World};
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::script_files::near;
use super::settings::{Settings, UNKNOWN};
use super::unread::account_for_top;
use super::{arguments, bridge, megatron, text, torchtitan};
use crate::plan::keys;

/// The version whose presets are meant.
const VERSION: &str = "Primus";

/// Presets in each other by `extends`.
const DEEPEST: usize = 8;

/// Attributes of Megatron's arguments whose option says the opposite (`megatron/training/arguments.py`, `store_false`).
const OPPOSITE: [(&str, &str); 2] =
    [("add_bias_linear", "disable_bias_linear"), ("gradient_accumulation_fusion", "no_gradient_accumulation_fusion")];

/// What Primus adds to Megatron, and what it changes.
const ADDED: [(&str, &str); 8] = [
    ("patch_zero_bubble", "schedules of zero bubbles"),
    ("patch_primus_pipeline", "Primus' own pipeline schedules"),
    ("patch_moe_overlap", "expert all-to-alls beside compute"),
    ("enable_primus_turbo", "Primus-Turbo's kernels in place of Transformer Engine's"),
    ("recompute_layer_ids", "layers that are recomputed by their numbers"),
    ("decoder_pipeline_manual_split_list", "layers of each stage by hand"),
    ("fp4", "matrix multiplications in FP4"),
    ("enable_odc", "gradients reduced by on-demand communication"),
];

/// The module that trains: `pre_trainer`.
fn module(settings: &Settings) -> Option<String> {
    let inner = settings.iter().find_map(|(name, _)| {
        let module = name.strip_prefix("modules.")?.strip_suffix(".framework")?;
        (!module.contains('.')).then(|| format!("modules.{module}"))
    });
    inner.filter(|module| settings.holds(&format!("{module}.config")))
}

/// What `primus-cli` is told to train: `primus-cli direct --numa -- train pretrain --config FILE --micro_batch_size 8`.
fn told(program: &Program) -> Option<&[String]> {
    let at = program.words.iter().position(|word| word == "train")?;
    let trains = program.words.get(at + 1).is_some_and(|word| matches!(word.as_str(), "pretrain" | "posttrain"));
    program.words.get(at + 2..).filter(|_| program.name() == "primus-cli" && trains)
}

/// Whether the program is Primus' own command and trains.
pub fn is_command(program: &Program) -> bool {
    told(program).is_some()
}

/// The same of a run.
pub fn runs(context: &ImportContext) -> bool {
    is_command(context.program)
}

/// The plan of such a command: its options go over the file's own (`primus/core/launcher/parser.py`).
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Primus");
    let options = arguments::read(told(context.program).unwrap_or_default()).options;
    let Some(path) = options.text("config").map(|found| found.value) else {
        imported.miss(keys::model::preset, "no --config");
        return imported;
    };
    let Some(mut file) = context.configuration(&path, &mut imported) else { return imported };
    let Some(module) = module(&file) else { return imported };
    for (name, found) in options.iter().filter(|(name, _)| *name != "config") {
        file.set(&format!("{module}.overrides.{name}"), found.value.clone(), found.origin.clone());
    }
    let mut imported = of_file(&file, &path, context);
    processes(&mut imported, context);
    imported
}

/// What starts the processes inside a container, or on a host that is one (`runner/primus-cli-direct.sh`).
fn processes(imported: &mut ImportedPlan, context: &ImportContext) {
    let mode = context.program.words.iter().find(|word| !word.starts_with('-')).map_or("", String::as_str);
    if !matches!(mode, "direct" | "container") {
        return imported.miss(keys::cluster::num_gpus, format!("primus-cli {mode} tells it"));
    }
    let number = |name: &str, usual: u64| {
        let told = context.variable(name);
        let usual = Setting::new(usual, Origin::Default { framework: VERSION, option: format!("{name} {usual}") });
        told.map_or(Some(usual), |found| found.and_then(|text| text.trim().parse::<u64>().ok()))
    };
    let single = context.program.words.iter().any(|word| word == "--single");
    let per_node = if single { 1 } else { 8 };
    let world = World { total: None, nodes: number("NNODES", 1), per_node: number("GPUS_PER_NODE", per_node) };
    let world = world.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

/// Whether settings are an experiment of Primus'.
pub fn is_config(settings: &Settings) -> bool {
    module(settings).is_some()
}

/// The plan of such a file.
pub fn of_file(file: &Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Primus");
    let Some(module) = module(file) else { return imported };
    let own = resolved(&file.below(&module), context);
    account_for_top(&mut imported, file, &["modules", "work_group", "user_name", "exp_name", "workspace", "platform"]);
    account_for_top(&mut imported, &own, &["framework", "config", "model", "overrides", "name"]);
    let framework = own.text("framework").map(|found| found.value).unwrap_or_default();
    if framework != "megatron" && framework != "torchtitan" {
        imported.miss(keys::model::preset, format!("the framework {framework} of Primus is not read"));
        return imported;
    }
    let mut settings = Settings::default();
    for (key, kind) in [("config", "modules"), ("model", "models")] {
        let Some(found) = own.text(key) else { continue };
        let ending = if found.value.ends_with(".yaml") { "" } else { ".yaml" };
        let path = format!("primus/configs/{kind}/{framework}/{}{ending}", found.value);
        let there = near(context.run.files, &context.run.files.absolute(name), &path).map(|(_, there)| there);
        match there.ok().and_then(|there| preset(context, &there, &path, DEEPEST)) {
            Some(layer) => settings.over(layer.as_defaults(VERSION)),
            None => {
                imported.note(format!("{path}: not found around the file"));
                if key == "model" {
                    imported.miss(keys::model::preset, format!("{path}, which has its sizes, was not read"));
                }
                imported.unread.get_or_insert(path);
            }
        }
    }
    settings.over(own.below("overrides"));
    match framework.as_str() {
        "torchtitan" => on_torchtitan(imported, settings, context),
        _ => {
            without_tokenizer(&mut settings, name, context);
            on_megatron(imported, settings, context)
        }
    }
}

/// A preset over those that it extends, in their order.
fn preset(context: &ImportContext, there: &str, shown: &str, deepest: usize) -> Option<Settings> {
    let text = context.run.files.read(there).ok()?;
    let own = resolved(&text::yaml(shown, &text).ok()?, context);
    let mut settings = Settings::default();
    let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    for below in own.texts("extends").map(|found| found.value).unwrap_or_default() {
        let inner = |path: &str| format!("{}{below}", folder(path));
        settings.over(preset(context, &inner(there), &inner(shown), deepest.checked_sub(1)?)?);
    }
    settings.over(own);
    Some(settings)
}

/// With what `${NAME:default}` stands for: the environment's value, else the default; without one nobody knows it.
fn resolved(settings: &Settings, context: &ImportContext) -> Settings {
    let mut resolved = settings.clone();
    for (name, found) in settings.iter() {
        let Some(text) = found.value.as_str().filter(|text| text.contains("${")) else { continue };
        let mut now = String::new();
        let mut rest = text;
        while let Some((before, (inner, after))) =
            rest.split_once("${").and_then(|(before, behind)| Some((before, behind.split_once('}')?)))
        {
            let (variable, default) = inner.split_once(':').map_or((inner, None), |(name, told)| (name, Some(told)));
            let given = context.variable(variable).map(|found| found.value);
            let given = given.or_else(|| context.run.variables.get(variable).cloned());
            now.push_str(before);
            now.push_str(&given.or(default.map(str::to_owned)).unwrap_or_else(|| UNKNOWN.to_owned()));
            rest = after;
        }
        now.push_str(rest);
        let value = if matches!(now.as_str(), "null" | "None" | "") { Value::Null } else { now.into() };
        resolved.set(name, value, found.origin.clone());
    }
    resolved
}

/// Mock data have a tokenizer of numbers alone, whose size a patch gives where the file has none
/// (`primus/backends/megatron/patches/args/mock_data_patches.py`, `patch_mock_data`).
fn without_tokenizer(settings: &mut Settings, name: &str, context: &ImportContext) {
    const PATCH: &str = "primus/backends/megatron/patches/args/mock_data_patches.py";
    const SIZE: &str = "\nDEFAULT_NULL_TOKENIZER_VOCAB_SIZE = ";
    if !settings.is("mock_data") || settings.whole("vocab_size").is_some() {
        return;
    }
    let text = near(context.run.files, &context.run.files.absolute(name), PATCH).map(|(text, _)| text);
    let Ok(text) = text else { return };
    let size = text.split_once(SIZE).and_then(|(_, rest)| rest.lines().next()?.trim().parse::<u64>().ok());
    if let Some(size) = size {
        let option = format!("{PATCH}: DEFAULT_NULL_TOKENIZER_VOCAB_SIZE under mock_data");
        settings.set("vocab_size", size.into(), Origin::Default { framework: VERSION, option });
        settings.accept("tokenizer_type");
        settings.accept("tokenizer_model");
    }
}

fn on_megatron(mut imported: ImportedPlan, mut settings: Settings, context: &ImportContext) -> ImportedPlan {
    imported.say(keys::model::framework, "megatron", Origin::Program("framework: megatron".to_owned()));
    for (attribute, option) in OPPOSITE {
        if let Some(found) = settings.flag(attribute) {
            settings.set(option, Value::Bool(!found.value), found.origin);
        }
    }
    for (name, what) in ADDED {
        let found = settings.get(name).filter(|found| !matches!(found.value.as_str(), Some("none" | "false")));
        if let Some(found) = found.filter(|found| found.value != Value::Bool(false)) {
            not_modelled(&mut imported, &format!("{name}: {what} ({})", found.origin));
        }
        settings.accept(name);
    }
    // `primus/backends/megatron/lora`, with the layers' names that Megatron-Bridge has.
    if settings.is("lora.enabled") {
        bridge::low_rank(&mut imported, &settings.below("lora"), "LoRA");
    }
    for name in
        ["model_type", "lora.alpha", "lora.dropout_position", "lora.lora_A_init_method", "lora.lora_B_init_method"]
    {
        settings.accept(name);
    }
    imported.set(keys::training::compile, settings.on("torch_compile.enable"));
    for name in ["moe_router_force_load_balancing", "mock_data", "add_bias_linear", "gradient_accumulation_fusion"] {
        settings.accept(name);
    }
    let turbo: Vec<String> =
        settings.iter().map(|(name, _)| name.to_owned()).filter(|name| name.contains("turbo")).collect();
    turbo.iter().for_each(|name| settings.accept(name));
    let kind = settings.text("model_type").map_or_else(|| "gpt".to_owned(), |found| found.value);
    let mixed = settings.is("is_hybrid_model") || settings.get("lfm_layer_types").is_some();
    if kind == "gpt" && !mixed {
        megatron::all(&mut imported, settings, context);
    } else {
        let kind = if mixed { "layers of other kinds than attention".to_owned() } else { format!("model_type {kind}") };
        imported.miss(keys::model::preset, format!("{kind}: its sizes are not read"));
        megatron::train(&mut imported, &settings, context);
    }
    imported
}

fn on_torchtitan(imported: ImportedPlan, settings: Settings, context: &ImportContext) -> ImportedPlan {
    let turbo = settings.is("primus_turbo.enable_primus_turbo");
    let converters = settings.texts("model.converters").map(|found| found.value).unwrap_or_default();
    let low = converters.iter().any(|name| name.contains("float8") || name.contains("mx"));
    settings.accept("model.converters");
    let names: Vec<String> = settings.iter().map(|(name, _)| name.to_owned()).collect();
    names.iter().filter(|name| name.starts_with("primus_turbo.")).for_each(|name| settings.accept(name));
    let mut read = torchtitan::of_file(settings, context);
    read.tool = imported.tool;
    read.unread = imported.unread;
    imported.notes.into_iter().for_each(|line| read.note(line));
    for missing in imported.missing {
        read.miss(missing.key, missing.why);
    }
    if turbo {
        not_modelled(&mut read, "enable_primus_turbo: Primus-Turbo's kernels in place of torchtitan's");
    }
    if low {
        not_modelled(&mut read, "model.converters: matrix multiplications in 8 bits");
    }
    read
}
