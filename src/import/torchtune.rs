//! torchtune: `tune run`, its YAML and `key=value` over it (recipes at bd2a0fc7).

mod recomputed;

use super::adapters;
use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::launch::base;
use super::methods::TrainingMethod;
use super::model;
use super::origin::{Origin, Setting};
use super::rollout;
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::Settings;
use super::unread::account_for;
use super::vision;
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "torchtune 0.6";

/// Builders of one structure, which take its sizes: gated MLPs, RMS norms, no biases, a head of its own.
const FAMILIES: [&str; 4] = ["llama2", "llama3", "llama3_1", "mistral"];

/// Ways to train in the names of recipes.
const RECIPES: [&str; 8] = [
    "full_finetune",
    "lora_finetune",
    "qat_distributed",
    "qat_lora",
    "lora_dpo",
    "full_dpo",
    "knowledge_distillation",
    "ppo_full_finetune",
];

/// Whether the program is one of torchtune's recipes.
pub fn runs(context: &ImportContext) -> bool {
    let name = context.program.name();
    let configured = context.program.words.iter().any(|word| word == "--config" || word.starts_with("--config="));
    configured && RECIPES.iter().any(|recipe| name.starts_with(recipe))
}

/// Whether settings are torchtune's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("model._component_")
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("torchtune");
    let given = arguments::read(&context.program.words);
    let mut settings = Settings::default();
    match given.options.text("config") {
        Some(name) => settings.over(config(context, &name.value, &mut imported).unwrap_or_default()),
        None => imported.note("no --config"),
    }
    settings.over(arguments::overrides(&given.words));
    settings.interpolate();
    imported.say(keys::model::framework, "torchtitan", Origin::Program(context.program.shown()));
    let distributed = !context.program.name().contains("single_device");
    set(&mut imported, &settings, context, distributed);
    account_for(&mut imported, &settings);
    if context.program.name().starts_with("ppo") {
        reinforced(&mut imported);
    }
    imported
}

/// Reinforcement by PPO: `batch_size` is what is generated, and three models stand beside the policy
/// (`recipes/ppo_full_finetune_single_device.py`: `_ref_policy_model`, `_reward_model`, `_value_model`).
fn reinforced(imported: &mut ImportedPlan) {
    not_modelled(imported, "PPO: a reference, a reward and a value model beside the policy");
    for key in [keys::training::micro_batch_size, keys::model::batch_size, keys::training::gradient_accumulation_steps]
    {
        imported.drop(key);
        imported.miss(key, "ppo_batch_size says it, and how often a batch is gone over");
    }
}

/// The plan of a file alone.
pub fn of_file(mut file: Settings, name: &str, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("torchtune");
    imported.say(keys::model::framework, "torchtitan", Origin::Program("torchtune's own keys".to_owned()));
    file.interpolate();
    let single = name.contains("single_device");
    if single {
        imported.say(keys::cluster::num_gpus, 1, Origin::Derived("a recipe for a single device".to_owned()));
    }
    set(&mut imported, &file, context, !single);
    account_for(&mut imported, &file);
    imported
}

/// A file, or a configuration that comes with the recipes: beside the recipe's script, or in
/// the environment of the process.
fn config(context: &ImportContext, name: &str, imported: &mut ImportedPlan) -> Option<Settings> {
    if name.ends_with(".yaml") || name.ends_with(".yml") {
        return context.settings(name, imported);
    }
    let beside = context.program.path.rsplit_once('/').map(|(folder, _)| format!("{folder}/configs/{name}.yaml"));
    let named = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|home| Some(context.variable(home)?.value));
    // An environment that nobody activated: its interpreter is called by its path.
    let called = context.run.command.iter().take(2).filter_map(|word| Some(word.split_once("/bin/")?.0.to_owned()));
    let installed = named.chain(called).flat_map(|home| {
        (9..=15).map(move |minor| format!("{home}/lib/python3.{minor}/site-packages/recipes/configs/{name}.yaml"))
    });
    // A script of the checkout's starts it with the recipes of that.
    let of_checkout = std::iter::once(format!("recipes/configs/{name}.yaml"));
    let found =
        beside.into_iter().chain(installed).chain(of_checkout).find(|path| context.run.files.read(path).is_ok());
    let Some(path) = found else {
        imported.note(format!("--config {name}: not found beside the recipe or in the process's environment"));
        return None;
    };
    context.settings(&path, imported)
}

/// The tower before a language model: its builders load it, frozen unless `encoder_trainable` says otherwise (torchtune 0.7,
/// `models/llama4/_model_builders.py`).
fn encoder(imported: &mut ImportedPlan, settings: &Settings) {
    vision::whole(imported);
    if let Some(tower) = imported.tower.as_mut() {
        let trains = settings.text("model.encoder_trainable").map(|found| found.value.to_lowercase());
        tower.trained = trains.is_some_and(|word| !["false", "frozen"].contains(&word.as_str()));
        tower.frozen = !tower.trained;
        settings.accept("model.encoder_trainable");
    }
    // Then the layers that look at the images are trained alone (`models/llama3_2_vision/_model_builders.py`).
    if settings.flag("model.decoder_trainable").is_some_and(|found| !found.value) {
        not_modelled(imported, "model.decoder_trainable: False freezes the language model but for its fusion layers");
    }
}

/// Knowledge distillation: the teacher's weights stand beside the student's, in the same type, and it passes each batch first
/// (`recipes/knowledge_distillation_single_device.py`, `_setup_teacher_model`, `_loss_step`).
fn teacher(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(component) = settings.text("teacher_model._component_") else { return };
    let builder = component.value.rsplit('.').next().unwrap_or("").to_owned();
    match names(&builder).iter().find_map(|name| model::preset(context, name)) {
        Some(preset) => rollout::frozen(imported, context, &component.map(|_| preset), "the teacher"),
        None => not_modelled(imported, &format!("the teacher {builder}: not in the catalogue")),
    }
    not_modelled(imported, "the teacher's pass and its logits");
    for name in ["_component_", "checkpoint_dir", "checkpoint_files", "recipe_checkpoint", "output_dir", "model_type"] {
        settings.accept(&format!("teacher_checkpointer.{name}"));
    }
    ["kd_ratio", "kd_loss._component_"].iter().for_each(|name| settings.accept(name));
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, distributed: bool) {
    architecture(imported, settings, context);
    encoder(imported, settings);
    teacher(imported, settings, context);
    let length = settings.first_whole(&["tokenizer.max_seq_len", "dataset.max_seq_len", "max_seq_len"]);
    imported.set(keys::model::sequence_length, length);
    imported.miss(keys::model::sequence_length, "tokenizer.max_seq_len is not set: the data decides");
    imported.set(keys::training::micro_batch_size, settings.whole("batch_size"));
    let default = |option: &str| Origin::Default { framework: VERSION, option: option.to_owned() };
    let steps = settings.whole("gradient_accumulation_steps");
    imported.set(
        keys::training::gradient_accumulation_steps,
        Some(steps.unwrap_or_else(|| Setting::new(1, default("gradient_accumulation_steps 1")))),
    );
    let word = settings.text("dtype").map(|found| {
        found.map(|name| match name.as_str() {
            "bf16" => "bf16",
            "fp16" => "fp16",
            _ => "fp32",
        })
    });
    imported.set(keys::training::precision, word);
    optimizer(imported, settings);
    memory(imported, settings);
    let loss = settings.first_text(&["loss._component_", "loss"]);
    // A loss that takes all logits at once is given them in fp32 (`modules/transformer.py`: `self.output(h).float()`).
    let chunked = |name: &str| name.contains("Chunked") || name.contains("LinearCrossEntropy");
    imported
        .set(keys::training::loss, loss.map(|found| found.map(|name| if chunked(&name) { "chunked" } else { "hf" })));
    let clipped = settings.number("clip_grad_norm").map(|found| found.map(|norm| norm > 0.0));
    let none = || Setting::new(false, Origin::Default { framework: VERSION, option: "clip_grad_norm null".to_owned() });
    imported.set(keys::training::gradient_clipping, Some(clipped.unwrap_or_else(none)));
    lora(imported, settings, context);
    if distributed {
        sharding(imported, settings);
    }
    kinds(imported, settings);
}

fn kinds(imported: &mut ImportedPlan, settings: &Settings) {
    if settings.text("loss._component_").is_some_and(|found| found.value.contains("DPOLoss")) {
        TrainingMethod::Dpo.apply(imported);
    }
    if settings.text("quantizer._component_").is_some_and(|found| found.value.to_lowercase().contains("qat")) {
        not_modelled(imported, "quantisation-aware training: fake-quantised copies of weights and activations");
    }
}

/// Recomputation, offloading, compilation.
fn memory(imported: &mut ImportedPlan, settings: &Settings) {
    recomputed::say(imported, settings);
    imported.set(keys::training::compile, settings.flag("compile"));
    imported.set(keys::training::optimizer_in_backward, settings.flag("optimizer_in_bwd"));
    let offload = settings.on("enable_activation_offloading").map(|found| found.map(|_| "activations"));
    let parameters = settings.on("fsdp_cpu_offload").map(|found| found.map(|_| "parameters"));
    imported.set(keys::training::cpu_offload, offload.or(parameters));
}

fn sharding(imported: &mut ImportedPlan, settings: &Settings) {
    let above_one = |found: &Setting<u64>| found.value > 1;
    imported.set(keys::distribution::tensor_parallel, settings.whole("tensor_parallel_dim").filter(above_one));
    imported.set(keys::distribution::context_parallel, settings.whole("context_parallel_dim").filter(above_one));
    let kept =
        settings.flag("fsdp_reshard_after_forward").filter(|found| !found.value).map(|found| found.map(|_| "zero2"));
    let default =
        Setting::new("zero3", Origin::Default { framework: VERSION, option: "FSDP2 over all ranks".to_owned() });
    imported.set(keys::distribution::sharding, Some(kept.unwrap_or(default.clone())));
    imported.set(keys::distribution::engine, Some(default.map(|_| "fsdp2")));
    if settings.whole("data_parallel_replicate_dim").filter(above_one).is_some() {
        imported.set(keys::distribution::shard_group, settings.whole("data_parallel_shard_dim").filter(above_one));
    }
}

/// `torchtune.models.llama3_1.qlora_llama3_1_8b`: a builder's name tells model and adapters.
fn architecture(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(component) = settings.text("model._component_") else {
        return imported.miss(keys::model::preset, "no model._component_");
    };
    let builder = component.value.rsplit('.').next().unwrap_or("").to_owned();
    let plain = builder.strip_prefix("qlora_").or_else(|| builder.strip_prefix("lora_")).unwrap_or(&builder);
    if let Some(preset) = names(plain).iter().find_map(|name| model::preset(context, name)) {
        return imported.say(keys::model::preset, preset, named(component, &builder));
    }
    if FAMILIES.contains(&plain) && settings.whole("model.embed_dim").is_some() {
        return family(imported, settings, &component.value);
    }
    // The checkpoint's folder mostly is the hub's.
    let folder = settings.first_text(&["checkpointer.checkpoint_dir", "checkpoint_dir"]);
    match folder.map(|found| found.map(|path| base(path.trim_end_matches('/')).to_owned())) {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, format!("{builder}: not known here")),
    }
}

/// A model by the builder of its family and sizes of one's own: torchtune 0.6, `models/…/_component_builders.py`.
fn family(imported: &mut ImportedPlan, settings: &Settings, builder: &str) {
    const ROWS: &[SettingRow] = &[
        (&["model.embed_dim"], keys::architecture::hidden_size, SettingKind::Whole),
        (&["model.num_layers"], keys::architecture::num_layers, SettingKind::Whole),
        (&["model.num_heads"], keys::architecture::num_attention_heads, SettingKind::Whole),
        (&["model.num_kv_heads"], keys::architecture::num_kv_heads, SettingKind::Whole),
        (&["model.vocab_size"], keys::architecture::vocab_size, SettingKind::Whole),
        (&["model.max_seq_len"], keys::architecture::max_position_embeddings, SettingKind::Whole),
        (&["model.intermediate_dim"], keys::architecture::intermediate_size, SettingKind::Whole),
    ];
    take(imported, settings, ROWS);
    let origin = || Origin::Default { framework: VERSION, option: builder.to_owned() };
    if let (None, Some(width)) = (settings.whole("model.intermediate_dim"), settings.whole("model.embed_dim")) {
        // scale_hidden_dim_for_mlp
        let inner = (4 * (2 * width.value / 3)).next_multiple_of(256);
        imported.say(keys::architecture::intermediate_size, inner, origin());
    }
    imported.say(keys::architecture::activation, "swiglu", origin());
    imported.say(keys::architecture::norm, "rmsnorm", origin());
    imported.say(keys::architecture::position, "rope", origin());
    for key in [
        keys::architecture::linear_bias,
        keys::architecture::qkv_bias,
        keys::architecture::norm_bias,
        keys::architecture::tie_embeddings,
    ] {
        imported.say(key, false, origin());
    }
}

fn named(found: Setting<String>, builder: &str) -> Origin {
    match found.origin {
        Origin::File { name, line, key } => Origin::File { name, line, key: format!("{key}: {builder}") },
        other => other,
    }
}

/// Names that a builder's may stand for in the catalogue: `llama3_1_8b` is llama-3.1-8b.
pub fn names(builder: &str) -> Vec<String> {
    let plain = builder.strip_suffix("_base").or_else(|| builder.strip_suffix("_instruct")).unwrap_or(builder);
    let parts: Vec<&str> = plain.split('_').collect();
    let Some((family, rest)) = parts.split_first() else { return Vec::new() };
    let digits = family.len() - family.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (word, version) = family.split_at(family.len() - digits);
    let number = |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit());
    let (minor, size) = match rest {
        // `qwen2_5_0_5b`: the point is written as a line, in versions and in sizes.
        [minor, size @ ..] if number(minor) && !size.is_empty() && !version.is_empty() => {
            (Some(*minor), size.join("."))
        }
        size => (None, size.join(".")),
    };
    let full = |minor: Option<&str>, size: &str| {
        let version = minor.map_or_else(|| version.to_owned(), |minor| format!("{version}.{minor}"));
        let joined = if word == "llama" || word == "gemma" || word == "phi" {
            format!("{word}-{version}")
        } else {
            format!("{word}{version}")
        };
        format!("{}-{size}", joined.trim_end_matches('-'))
    };
    // Both readings of a leading number: of the version, or of the size.
    vec![full(minor, &size), full(None, &rest.join(".")), format!("{family}-{}", rest.join("-"))]
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(component) = settings.text("optimizer._component_") else { return };
    let fused = settings.on("optimizer.fused");
    let name = component.clone().map(|name| name.rsplit('.').next().unwrap_or("").to_owned());
    match (common::optimizer(&name.value), fused) {
        (Some("adamw"), Some(fused)) => imported.set(keys::training::optimizer, Some(fused.map(|_| "adamw-fused"))),
        _ => common::set_optimizer(imported, Some(name)),
    }
    common::say_foreach(imported);
    imported.set(
        keys::training::weight_decay,
        settings.number("optimizer.weight_decay").filter(|found| (0.0..=1.0).contains(&found.value)),
    );
}

/// Adapters, by the builder's name: where its configuration is not at hand by the recipe's, whose quantised models the
/// configurations call `qlora` (`recipes/configs/llama3_1/8B_qlora_single_device.yaml`).
fn lora(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let component = settings.text("model._component_").or_else(|| {
        let recipe = context.program.name();
        let adapts = settings.get("model._component_").is_none() && recipe.split('_').any(|word| word == "lora");
        let name = arguments::read(&context.program.words).options.text("config");
        adapts.then(|| match name.filter(|found| found.value.contains("qlora")) {
            Some(found) => found.map(|_| "qlora_".to_owned()),
            None => Setting::new("lora_".to_owned(), Origin::Program(context.program.shown())),
        })
    });
    let Some(component) = component else { return };
    let builder = component.value.rsplit('.').next().unwrap_or("").to_owned();
    if !builder.contains("lora_") {
        return;
    }
    let quantised = settings.is("model.quantize_base") || builder.starts_with("qlora");
    let bits = quantised.then(|| Setting::new(4, component.origin.clone()));
    adapters::set(imported, settings.whole("model.lora_rank"), (VERSION, 8), bits);
    if !settings.holds("model._component_") && settings.texts("model.lora_attn_modules").is_none() {
        imported.miss(keys::lora::targets, "the configuration says it (model.lora_attn_modules)");
    }
    settings.accept("model.apply_lora_to_mlp");
    let modules = settings.texts("model.lora_attn_modules").map(|found| {
        found.map(|names| {
            let mut names: Vec<String> =
                names.into_iter().map(|name| if name == "output_proj" { "o_proj".to_owned() } else { name }).collect();
            if settings.is("model.apply_lora_to_mlp") {
                names.extend(["gate_proj", "up_proj", "down_proj"].map(str::to_owned));
            }
            names
        })
    });
    adapters::set_targets(imported, modules);
    if settings.is("model.use_dora") {
        not_modelled(imported, "DoRA: a magnitude for each output and the norm of each adapted weight");
    }
    imported.set(
        keys::lora::dropout,
        settings.number("model.lora_dropout").filter(|found| (0.0..1.0).contains(&found.value)),
    );
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn builders_name_models() {
        for (builder, name) in [
            ("llama3_8b", "llama-3-8b"),
            ("llama3_1_70b", "llama-3.1-70b"),
            ("llama2_7b", "llama-2-7b"),
            ("qwen2_5_7b_instruct", "qwen2.5-7b"),
            ("qwen2_5_0_5b_base", "qwen2.5-0.5b"),
            ("qwen2_0_5b", "qwen2-0.5b"),
            ("gemma_2b", "gemma-2b"),
            ("gemma2_9b", "gemma-2-9b"),
            ("mistral_7b", "mistral-7b"),
            ("phi3_mini", "phi-3-mini"),
            ("qwen3_0_6b_instruct", "qwen3-0.6b"),
        ] {
            assert!(names(builder).iter().any(|found| found == name), "{builder}: {:?}", names(builder));
        }
    }
}
