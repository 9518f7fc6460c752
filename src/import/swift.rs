//! ms-swift: `swift sft|pt|rlhf` and `megatron sft|pt|rlhf` (`swift/arguments`, `swift/trainers/arguments.py`,
//! `swift/megatron/arguments/megatron_args.py` at 36023605).

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::methods::TrainingMethod;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::{DefaultValue, Settings, UNKNOWN};
use super::trainer::{self, WeightStorage};
use super::unread::account_for;
use super::{adapters, arguments, megatron, model, preset_length, rollout, swift_names, swift_packing, vision};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "ms-swift 4";

const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("per_device_train_batch_size", DefaultValue::Whole(1)),
    ("gradient_checkpointing", DefaultValue::Flag(true)),
    ("tuner_type", DefaultValue::Text("lora")),
    ("lora_rank", DefaultValue::Whole(8)),
    ("lora_dropout", DefaultValue::Number(0.05)),
    ("target_modules", DefaultValue::Text("all-linear")),
    ("weight_decay", DefaultValue::Number(0.1)),
    ("max_grad_norm", DefaultValue::Number(1.0)),
    ("optim", DefaultValue::Text("adamw_torch_fused")),
    ("torch_dtype", DefaultValue::Text("bfloat16")),
];

const ON_MEGATRON: &[(&str, DefaultValue)] = &[
    ("micro_batch_size", DefaultValue::Whole(1)),
    ("global_batch_size", DefaultValue::Whole(16)),
    ("recompute_granularity", DefaultValue::Text("selective")),
    ("cross_entropy_loss_fusion", DefaultValue::Flag(true)),
    ("weight_decay", DefaultValue::Number(0.1)),
    ("tuner_type", DefaultValue::Text("full")),
    ("lora_rank", DefaultValue::Whole(8)),
    ("lora_dropout", DefaultValue::Number(0.05)),
    ("target_modules", DefaultValue::Text("all-linear")),
    ("bf16", DefaultValue::Flag(true)),
    ("use_distributed_optimizer", DefaultValue::Flag(true)),
];

/// The command and whether Megatron's core trains: `swift sft`, `megatron pt`, `python swift/cli/sft.py`.
fn command<'a>(context: &'a ImportContext<'a>) -> Option<(&'a str, bool)> {
    const TRAINING: [&str; 3] = ["sft", "pt", "rlhf"];
    let program = context.program;
    let first = program.words.first().map_or("", String::as_str);
    // Where the script stands only the run knows; its own options tell.
    if program.path.contains(UNKNOWN) {
        let options = arguments::read(&program.words).options;
        let own = ["tuner_type", "train_type", "rlhf_type"].iter().any(|name| options.holds(name));
        let named = if options.holds("rlhf_type") { "rlhf" } else { "sft" };
        return (own && options.holds("model") && options.holds("dataset")).then_some((named, false));
    }
    match program.name() {
        "swift" | "swift.cli.main" => TRAINING.contains(&first).then_some((first, false)),
        "megatron" | "swift.cli._megatron.main" => TRAINING.contains(&first).then_some((first, true)),
        // Its second version's own scripts (`examples/pytorch/llm/llm_sft.py`).
        "llm_sft.py" | "llm_rlhf.py" | "llm_dpo.py" if swift_names::are_of_version_two(&program.words) => {
            Some((if program.name() == "llm_sft.py" { "sft" } else { "rlhf" }, false))
        }
        _ => {
            let path = program.path.trim_end_matches(".py");
            let name = path.rsplit(['/', '.']).next().unwrap_or("");
            let own = ["swift/cli/", "swift.cli."].iter().any(|part| path.contains(part));
            (own && TRAINING.contains(&name)).then(|| (name, path.contains("megatron")))
        }
    }
}

/// Whether the program is ms-swift.
pub fn runs(context: &ImportContext) -> bool {
    command(context).is_some()
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ms-swift");
    let (name, on_megatron) = command(context).map_or((String::new(), false), |(name, core)| (name.to_owned(), core));
    let given = arguments::read(&context.program.words);
    let file = swift_names::file(&given).and_then(|path| context.configuration(&path, &mut imported));
    let file = file.map(|file| by_role(&mut imported, file));
    world(&mut imported, context);
    set(&mut imported, file.unwrap_or_default().with(given.options), (&name, on_megatron), context);
    imported
}

/// Whether settings are those of `swift sft file.yaml`.
pub fn is_config(settings: &Settings) -> bool {
    let tuned = ["tuner_type", "train_type", "rlhf_type", "train.tuner_type"].iter().any(|name| settings.holds(name));
    tuned && settings.holds("model") && settings.holds("dataset") && !settings.holds("model_name_or_path")
}

/// A role's own settings, by themselves: that the section is known says nothing of what stands in it.
fn section(file: &Settings, name: &str) -> Settings {
    let mut own = Settings::default();
    for (name, found) in file.below(name).iter().filter(|(name, _)| *name != "gpus") {
        own.set(name, found.value.clone(), found.origin.clone());
    }
    own
}

/// The settings of a file in which a role's own stand in its section, where Ray starts it, and the GPUs that train.
fn by_role(imported: &mut ImportedPlan, file: Settings) -> Settings {
    imported.set(keys::cluster::num_gpus, file.first_whole(&["device_groups.nproc_per_node", "train.gpus"]));
    let (own, rollout) = (section(&file, "train"), section(&file, "rollout"));
    for name in ["ENV", "device_groups", "train", "rollout", "use_ray", "colocate_groups"] {
        let names: Vec<String> =
            file.iter().map(|(key, _)| key.to_owned()).filter(|key| key.starts_with(name)).collect();
        names.iter().for_each(|key| file.accept(key));
    }
    file.with(own).with(rollout)
}

/// The plan of such a file.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("ms-swift");
    let settings = by_role(&mut imported, file);
    imported.miss(keys::cluster::num_gpus, "the command that takes the file says it: NPROC_PER_NODE");
    let on_megatron = ["micro_batch_size", "tensor_model_parallel_size"].iter().any(|name| settings.holds(name));
    let kind = if settings.holds("rlhf_type") { "rlhf" } else { "sft" };
    set(&mut imported, settings, (kind, on_megatron), context);
    imported
}

fn set(imported: &mut ImportedPlan, given: Settings, (name, on_megatron): (&str, bool), context: &ImportContext) {
    let usual = Settings::defaults(VERSION, if on_megatron { ON_MEGATRON } else { DEFAULTS });
    let (settings, open) = swift_names::read(usual, given, (name, on_megatron));
    if on_megatron {
        core(imported, &settings, context);
        // A mean over values that are there (`swift/megatron/trainers/dpo_trainer.py`, `loss_func`).
        settings.accept("rpo_alpha");
    } else {
        trained(imported, &settings, context);
    }
    swift_names::accept_usual(&settings);
    if let Some(why) = open.filter(|_| imported.get(keys::lora::rank).is_some()) {
        imported.miss(keys::lora::targets, why);
    }
    kinds(imported, &settings, name, context);
    task(imported, &settings);
    account_for(imported, &settings);
}

/// `--task_type`: a head of classes in place of the vocabulary's, or of another kind.
fn task(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(found) = settings.text("task_type") else { return };
    let core = imported.get(keys::model::framework).is_some_and(|found| found.value == "megatron");
    let classes = match found.value.as_str() {
        "causal_lm" | "generative_reranker" => return,
        "seq_cls" => settings.whole("num_labels").filter(|found| found.value > 0),
        "reranker" if !core => Some(Setting::new(1, found.origin.clone())),
        _ => None,
    };
    match classes {
        Some(classes) => imported.set(keys::model::classes, Some(classes)),
        None => not_modelled(
            imported,
            &format!("{} {}: a head of its own in place of the vocabulary's", found.origin, found.value),
        ),
    }
    settings.accept("problem_type");
}

/// Who says that it is swift.
fn program(context: &ImportContext) -> Origin {
    let shown = context.program.shown();
    Origin::Program(if shown.is_empty() { "ms-swift's own keys".to_owned() } else { shown })
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// It starts torchrun itself where `NPROC_PER_NODE` or `NNODES` says so, else one process.
fn world(imported: &mut ImportedPlan, context: &ImportContext) {
    // Ray's file says it, of the section that trains.
    let told = imported.get(keys::cluster::num_gpus).is_some();
    if told || context.world.total.is_some() || !context.launchers.is_empty() {
        return;
    }
    let whole =
        |name: &str| context.variable(name).and_then(|found| found.and_then(|text| text.trim().parse::<u64>().ok()));
    let one = |what: &str| Setting::new(1, default(what));
    let nodes = whole("NNODES").unwrap_or_else(|| one("NNODES 1"));
    let per_node = whole("NPROC_PER_NODE").unwrap_or_else(|| one("no NPROC_PER_NODE: one process"));
    let told = context.variable("NPROC_PER_NODE").is_some_and(|found| found.value.trim().parse::<u64>().is_err());
    if told {
        return imported.miss(keys::cluster::num_gpus, "NPROC_PER_NODE is set where the script does not show");
    }
    if let Some(gpus) = context.visible_gpus().filter(|gpus| per_node.value == 1 && gpus.value > 1) {
        not_modelled(imported, &format!("one process spreads the layers over {} GPUs", gpus.value));
        return imported.miss(keys::cluster::num_gpus, "one process has the layers on all GPUs in sight");
    }
    let world = World { total: None, nodes: Some(nodes), per_node: Some(per_node) }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

fn named(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    match settings.first_text(&["model", "model_id_or_path"]) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, "no --model"),
    }
    match settings.whole("max_length") {
        Some(found) => imported.set(keys::model::sequence_length, Some(found)),
        None => longest(imported, settings, context),
    }
    swift_packing::say(imported, settings);
    // `model_name` and `model_author` are what the model is taught to say of itself.
    for name in ["packing", "padding_free", "packing_length", "packing_strategy", "model_name", "model_author"] {
        settings.accept(name);
    }
}

/// Without `--max_length` samples are cut at the model's own longest (`arguments/base_args/base_args.py`,
/// `model_info.max_model_len`).
fn longest(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let why = "no --max_length: samples are cut at the model's own longest";
    let named = settings.first_text(&["model", "model_id_or_path"]).map(|found| found.value).unwrap_or_default();
    match preset_length::longest_of(imported, context, &named) {
        Some(tokens) => {
            imported.say(keys::model::sequence_length, tokens, default(why));
            imported.note(format!("{why}, {tokens} in the catalogue: shorter data needs less than the plan"));
        }
        None => imported.miss(keys::model::sequence_length, format!("{why}, which is not known here")),
    }
}

/// The Trainer, by swift's defaults.
fn trained(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    imported.say(keys::model::framework, "pytorch", program(context));
    named(imported, settings, context);
    let mut arguments = settings.clone();
    let full = settings.text("tuner_type").is_some_and(|found| found.value == "full");
    low_rank(imported, settings, context);
    // Computes in the type that it stores: `--torch_dtype`.
    if let Some(found) = settings.text("torch_dtype") {
        let flags: &[(&str, bool)] = match found.value.as_str() {
            "bfloat16" => &[("bf16", true), ("fp16", false)],
            "float16" => &[("bf16", false), ("fp16", true)],
            _ => &[("bf16", false), ("fp16", false)],
        };
        for (name, on) in flags.iter().filter(|(name, _)| !settings.is_set(name)) {
            arguments.set(name, Value::Bool(*on), found.origin.clone());
        }
    }
    if let Some(found) = settings.text("attn_impl") {
        let word = match found.value.as_str() {
            "flash_attn" | "flash_attention_2" | "flash_attention_3" => "flash_attention_2",
            "eager" => "eager",
            _ => "sdpa",
        };
        arguments.set("attn_implementation", word.into(), found.origin);
    }
    accumulation(&mut arguments, settings, imported, context);
    swift_names::bundled(&mut arguments, settings);
    // Under half precision with full training the weights are raised to fp32 (`_check_... float16`), not in bf16.
    let half = settings.text("torch_dtype").is_some_and(|found| found.value == "bfloat16");
    let stored = if half || !full { WeightStorage::Half } else { WeightStorage::Full };
    trainer::set(imported, &arguments, context, stored);
    trainer::reentrant::of_swift(imported, settings);
    let sequence = settings.whole("sequence_parallel_size").filter(|found| found.value > 1);
    imported.set(keys::distribution::cp_comm, sequence.clone().map(|found| found.map(|_| "a2a")));
    imported.set(keys::distribution::context_parallel, sequence);
    let tensor = settings.whole("deepspeed_autotp_size").filter(|found| found.value > 1);
    imported.set(keys::distribution::tensor_parallel, tensor);
}

/// Where nobody says it, a step is of 16 samples: `ceil(16 / batch / ranks)`.
fn accumulation(arguments: &mut Settings, settings: &Settings, imported: &ImportedPlan, context: &ImportContext) {
    if settings.is_set("gradient_accumulation_steps") {
        return;
    }
    let micro = settings.whole("per_device_train_batch_size").map_or(1, |found| found.value.max(1));
    let ranks =
        context.world.total.as_ref().map(|found| found.value).or_else(|| imported.whole(keys::cluster::num_gpus));
    let Some(ranks) = ranks.filter(|ranks| *ranks > 0) else { return };
    let steps = 16_u64.div_ceil(micro.saturating_mul(ranks)).max(1);
    arguments.set("gradient_accumulation_steps", steps.into(), default("gradient_accumulation_steps 16 / batch"));
}

fn low_rank(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    swift_names::say_other_code(imported, settings);
    let Some(kind) = settings.text("tuner_type") else { return };
    match kind.value.as_str() {
        "full" => {}
        "lora" | "adalora" | "longlora" | "lora_llm" => {
            // Nothing quantises without a method (`quant_args.py`, `get_quantization_config`); before 3.0 bitsandbytes did.
            let bits = settings.whole("quant_bits").filter(|_| swift_names::quantises(imported, settings));
            let bits = bits.or_else(|| settings.whole("quantization_bit")).filter(|bits| matches!(bits.value, 4 | 8));
            // AdaLoRA has its ranks in a setting of its own, and begins with more than it ends with (`tuner_args.py`).
            let (rank, usual) = match kind.value.as_str() {
                "adalora" => ("adalora_init_r", 12),
                _ => ("lora_rank", 8),
            };
            let told = settings.whole(rank).filter(|_| kind.value != "adalora" || settings.is_set(rank));
            adapters::set(imported, told, (VERSION, usual), bits);
            swift_names::say_kind(imported, settings, &kind.value);
            let other = settings.text("quant_method").filter(|found| found.value != "bnb");
            adapters::set_double_quant(imported, settings.flag("bnb_4bit_use_double_quant"), VERSION, other);
            let targets = settings.texts("target_modules").map(|found| {
                found.map(|names| names.into_iter().map(|name| name.replace("ALL", "all")).collect::<Vec<_>>())
            });
            adapters::set_targets(imported, targets);
            swift_names::leave_experts(imported, settings);
            adapters::take_saved(imported, settings.texts("modules_to_save"));
            let dropout = settings.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value));
            imported.set(keys::lora::dropout, dropout);
        }
        other => {
            imported.miss(keys::lora::rank, format!("--tuner_type {other} has no word in a plan"));
            not_modelled(imported, &format!("--tuner_type {other}: counted as if all weights were trained"));
        }
    }
    // `freeze_vit` and `freeze_aligner` are true where nobody says otherwise.
    vision::whole(imported);
    let trains = settings.flag("freeze_vit").is_some_and(|found| !found.value);
    if let Some(tower) = imported.tower.as_mut() {
        (tower.frozen, tower.trained) = (!trains, trains);
        vision::limit_images(tower, settings.whole("max_pixels"), context);
    }
    for name in ["freeze_vit", "freeze_aligner", "freeze_llm", "freeze_parameters", "freeze_parameters_ratio"] {
        let Some(found) = settings.get(name) else { continue };
        let off = ["false", "0", "0.0", "[]", "\"false\""].contains(&found.value.to_string().as_str());
        if !off && !name.contains("vit") && !name.contains("aligner") {
            not_modelled(imported, &format!("{}: which parts are frozen", found.origin));
        }
        settings.accept(name);
    }
    // Adapters are merged when they are saved.
    for name in ["lora_alpha", "merge_lora"] {
        settings.accept(name);
    }
}

/// Megatron's core with a model of the hub.
fn core(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    imported.say(keys::model::framework, "megatron", program(context));
    named(imported, settings, context);
    megatron::train(imported, settings, context);
    // The model's own, which its bridge sets, goes over Megatron's default of a tenth.
    if !settings.is_set("hidden_dropout") {
        imported.drop(keys::training::dropout);
    }
    low_rank(imported, settings, context);
    let none = settings.text("recompute_granularity").filter(|found| found.value == "none");
    imported.set(keys::training::activation_checkpointing, none);
}

fn kinds(imported: &mut ImportedPlan, settings: &Settings, name: &str, context: &ImportContext) {
    if name != "rlhf" {
        return;
    }
    let kind = settings.text("rlhf_type").map_or_else(|| "dpo".to_owned(), |found| found.value);
    match TrainingMethod::of_name(&kind) {
        Some(TrainingMethod::Grpo) => {
            answers(imported, settings);
            rollout::SWIFT.apply(imported, settings, context);
            rollout::devices_of_its_own(imported, settings, context);
        }
        Some(TrainingMethod::Distillation) => teacher(imported, settings, context),
        Some(method) => method.apply(imported),
        None => not_modelled(imported, &format!("{kind}: what it holds beside the trained model")),
    }
}

/// Prompts are cut to `max_length`; their answers come on top (`rlhf_trainers/rollout_mixin.py`).
fn answers(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(prompt) = settings.whole("max_length") else {
        // The engine answers no longer ones.
        return imported.set(keys::model::sequence_length, settings.whole("vllm_max_model_len"));
    };
    let usual = || Setting::new(512, default("max_completion_length 512"));
    let answer = settings.first_whole(&["max_completion_length", "response_length"]).unwrap_or_else(usual);
    let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
    imported.say(keys::model::sequence_length, prompt.value.saturating_add(answer.value), origin);
}

/// The teacher is frozen beside the student; a server of its own has GPUs of its own (`--teacher_model_server`).
fn teacher(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    match settings.text("teacher_model") {
        Some(found) => rollout::frozen(imported, context, &found, "the teacher"),
        None if settings.holds("teacher_model_server") => imported.note("the teacher has GPUs of its own"),
        None => not_modelled(imported, "distillation: the teacher beside"),
    }
    if settings.is("offload_teacher_model") && imported.get(keys::training::frozen_models_billions).is_some() {
        imported.drop(keys::training::frozen_models_billions);
        imported.note("offload_teacher_model: the teacher's weights lie on the host while the student trains");
    }
    rollout::SWIFT.generation(imported, settings);
    const READ: [&str; 5] = ["teacher_model", "teacher_model_server", "offload_teacher_model", "lmbda", "seq_kd"];
    READ.iter().for_each(|name| settings.accept(name));
}
