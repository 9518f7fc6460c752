//! NVIDIA NeMo: Megatron-Bridge's recipes and overrides (`scripts/training/run_recipe.py` at 067f987d), NeMo 1's
//! YAML (`examples/nlp/language_modeling/conf/megatron_gpt_config.yaml`) and `nemo llm pretrain --factory`.

use serde_json::Value;

use super::arguments;
use super::bridge;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::World;
use super::megatron;
use super::methods::{TrainingMethod, reference_on_host};
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::settings::Settings;
use super::unread::{account_for, account_for_top};
use super::{nemo_legacy, nemo_recipes, nemo_trainer};
use crate::plan::keys;

/// Overrides of Megatron-Bridge by their names; what is not said the recipe decides.
const BRIDGE: &[SettingRow] = &[
    (
        &["model.seq_length", "dataset.seq_length", "dataset.sequence_length"],
        keys::model::sequence_length,
        SettingKind::Whole,
    ),
    (&["train.global_batch_size"], keys::model::batch_size, SettingKind::Whole),
    (&["train.micro_batch_size"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["optimizer.weight_decay"], keys::training::weight_decay, SettingKind::Share),
    (&["optimizer.clip_grad"], keys::training::gradient_clipping, SettingKind::Clipped),
    (&["model.tensor_model_parallel_size"], keys::distribution::tensor_parallel, SettingKind::Whole),
    (&["model.pipeline_model_parallel_size"], keys::distribution::pipeline_parallel, SettingKind::Whole),
    (&["model.virtual_pipeline_model_parallel_size"], keys::distribution::virtual_pipeline, SettingKind::Several),
    (&["model.context_parallel_size"], keys::distribution::context_parallel, SettingKind::Whole),
    (&["model.expert_model_parallel_size"], keys::distribution::expert_parallel, SettingKind::Whole),
    (&["model.expert_tensor_parallel_size"], keys::distribution::expert_tensor_parallel, SettingKind::Whole),
    (&["model.sequence_parallel"], keys::distribution::sequence_parallel, SettingKind::Flag),
    (&["model.moe_grouped_gemm"], keys::training::moe_grouped_gemm, SettingKind::Flag),
    (&["model.gradient_accumulation_fusion"], keys::training::gradient_accumulation_fusion, SettingKind::Flag),
    (&["ddp.overlap_grad_reduce"], keys::distribution::overlap_grad_reduce, SettingKind::Flag),
    (&["ddp.overlap_param_gather"], keys::distribution::overlap_param_gather, SettingKind::Flag),
    (&["ddp.use_distributed_optimizer"], keys::training::distributed_optimizer, SettingKind::Flag),
    (
        &["ddp.fp8_param_gather", "mixed_precision.fp8_param_gather"],
        keys::training::fp8_param_gather,
        SettingKind::Flag,
    ),
    (&["ddp.num_distributed_optimizer_instances"], keys::distribution::optimizer_instances, SettingKind::Several),
    (&["comm_overlap.tp_comm_overlap"], keys::distribution::overlap_tensor_parallel, SettingKind::Flag),
];

/// Whether settings are Megatron-Bridge's.
pub fn is_bridge(settings: &Settings) -> bool {
    let parts = ["train.train_iters", "train.global_batch_size", "train.micro_batch_size"];
    let own = ["optimizer", "scheduler", "checkpoint", "ddp", "dist", "logger", "mixed_precision", "comm_overlap"];
    parts.iter().any(|name| settings.holds(name))
        && own.iter().any(|name| settings.holds(name))
        && settings.iter().any(|(name, _)| name.starts_with("model.") || name.starts_with("dataset."))
        && !settings.holds("checkpoint_dir")
        && !settings.holds("model_name")
}

/// Whether settings are NeMo 1's.
pub fn is_nemo(settings: &Settings) -> bool {
    settings.holds("trainer")
        && settings.holds("model.micro_batch_size")
        && settings.holds("model.optim")
        && (settings.holds("model.tensor_model_parallel_size") || settings.holds("model.global_batch_size"))
        && ["num_layers", "encoder_seq_length", "seq_length", "data.seq_length", "restore_from_path"]
            .iter()
            .any(|name| settings.holds(&format!("model.{name}")))
        && !["unet_config", "first_stage_config", "vision", "noise_scheduler", "mm_cfg"]
            .iter()
            .any(|name| settings.holds(&format!("model.{name}")))
}

/// Whether the program takes recipes.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    let has = |name: &str| program.words.iter().any(|word| word.split('=').next() == Some(name));
    let named = has("--recipe") || has("--model_recipe_name") || (has("--model") && has("--mode"));
    let recipe = program.name() == "run_recipe.py" && named;
    let factory = matches!(program.name(), "nemo" | "nemo_run") && has("--factory");
    let first = program.name().starts_with("megatron_") && program.words.iter().any(|word| word.starts_with("model."));
    recipe || factory || first || (program.path.contains("Megatron-Bridge") && recipe_of(context).is_some())
}

fn recipe_of(context: &ImportContext) -> Option<Setting<String>> {
    bridge::recipe_name(&arguments::read(&context.program.words).options)
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let given = arguments::read(&context.program.words);
    let overrides = arguments::overrides(&context.program.words);
    if context.program.name().starts_with("megatron_") && overrides.holds("model") {
        let mut imported = ImportedPlan::of("NeMo");
        let file =
            given.options.text("config_path").zip(given.options.text("config_name")).and_then(|(folder, name)| {
                let ending = if name.value.ends_with(".yaml") { "" } else { ".yaml" };
                context.configuration(&format!("{}/{}{ending}", folder.value, name.value), &mut imported)
            });
        if file.is_none() {
            imported.unread.get_or_insert_with(|| "the configuration beside the script".to_owned());
        }
        imported.say(keys::model::framework, "megatron", Origin::Program(context.program.shown()));
        nemo(&mut imported, &file.unwrap_or_default().with(overrides), context);
        return imported;
    }
    let nemo = context.program.name().starts_with("nemo");
    let mut imported = ImportedPlan::of(if nemo { "NeMo" } else { "Megatron-Bridge" });
    imported.say(keys::model::framework, "megatron", Origin::Program(context.program.shown()));
    if let Some(found) = recipe_of(context) {
        recipe(&mut imported, context, &found);
    }
    let mut settings = Settings::default();
    if let Some(file) =
        given.options.text("config_file").and_then(|path| context.configuration(&path.value, &mut imported))
    {
        settings.over(file);
    }
    settings.over(bridge::options(&given.options));
    settings.over(overrides);
    let own = recipe_of(context).filter(|_| !nemo);
    match own.and_then(|found| bridge::named(context, &found.value, &given.options)) {
        Some(made) => {
            imported.notes.retain(|line| !line.ends_with("what the recipe itself decides is not read"));
            imported.missing.retain(|missing| missing.key != keys::model::preset);
            bridge::set(&mut imported, &made, &settings, context);
            account_for(&mut imported, &settings);
        }
        None => self::overrides(&mut imported, &settings),
    }
    world(&mut imported, &settings);
    imported
}

/// The plan of an override file alone.
pub fn of_bridge(file: &Settings) -> ImportedPlan {
    let mut imported = ImportedPlan::of("Megatron-Bridge");
    imported.say(keys::model::framework, "megatron", Origin::Program("Megatron-Bridge's own keys".to_owned()));
    imported.miss(keys::model::preset, "an override file names no recipe, and the recipe has the model");
    overrides(&mut imported, file);
    imported
}

/// `llama3_8b_pretrain_config`: the model's name, and what is done with it.
pub fn recipe(imported: &mut ImportedPlan, context: &ImportContext, found: &Setting<String>) {
    match nemo_recipes::preset_of(context, &found.value) {
        Some(preset) => imported.say(keys::model::preset, preset, found.origin.clone()),
        None => imported.miss(keys::model::preset, format!("{}: not known here", found.value)),
    }
    imported.note(format!("{}: what the recipe itself decides is not read", found.value));
}

/// What the settings of a recipe say that is not read itself.
pub fn overrides(imported: &mut ImportedPlan, settings: &Settings) {
    take(imported, settings, BRIDGE);
    nemo_recipes::fused_loss(imported, "Megatron-Bridge");
    let unfused = settings.flag("model.cross_entropy_loss_fusion").filter(|found| !found.value);
    imported.set(keys::training::loss, unfused.map(|found| found.map(|_| "vocab_parallel")));
    let granularity = settings.text("model.recompute_granularity");
    match granularity.as_ref().map(|found| found.value.as_str()) {
        Some("selective") => {
            let modules = settings.texts("model.recompute_modules").filter(|found| found.value != ["core_attn"]);
            let value = modules.map(|found| found.map(|names| serde_json::json!({ "modules": names })));
            imported
                .set("training.activation_checkpointing", value.or(granularity.map(|found| found.map(Value::from))));
        }
        Some("full") => imported.set(keys::training::activation_checkpointing, granularity),
        Some(_) => settings.refuse("model.recompute_granularity"),
        None => imported.miss(keys::training::activation_checkpointing, "the recipe decides"),
    }
    let precision = settings.text("mixed_precision").and_then(|found| {
        found.and_then(|name| match name.as_str() {
            "bf16_mixed" => Some("bf16-fp32-master"),
            "fp16_mixed" => Some("fp16-fp32-master"),
            name if name.contains("fp8") => Some("fp8-mixed"),
            _ => None,
        })
    });
    imported.set(keys::training::precision, precision);
    let fp8 = settings.first_text(&["model.fp8", "mixed_precision.fp8"]);
    imported.set(keys::training::precision, fp8.map(|found| found.map(|_| "fp8-mixed")));
    let recipe = settings.first_text(&["model.fp8_recipe", "mixed_precision.fp8_recipe"]);
    imported.set(keys::training::fp8_recipe, recipe);
    imported.miss(keys::training::precision, "the recipe decides");
    for key in ["model.batch_size", "training.micro_batch_size", "model.sequence_length"] {
        imported.miss(key, "the recipe decides");
    }
    for key in ["distribution.tensor_parallel", "distribution.pipeline_parallel", "distribution.context_parallel"] {
        imported.miss(key, "the recipe decides");
    }
    if settings.is("dist.use_megatron_fsdp") || settings.is("ddp.use_megatron_fsdp") {
        let strategy = settings.text("ddp.data_parallel_sharding_strategy");
        let word = strategy.map(|found| {
            found.map(|name| match name.as_str() {
                "optim" => "zero1",
                "optim_grads" => "zero2",
                "no_shard" => "none",
                _ => "zero3",
            })
        });
        imported.set(keys::distribution::sharding, word);
    }
    for name in
        ["dist.use_megatron_fsdp", "dist.use_torch_fsdp2", "model.recompute_method", "model.recompute_num_layers"]
    {
        settings.accept(name);
    }
    account_for(imported, settings);
}

fn world(imported: &mut ImportedPlan, settings: &Settings) {
    let nodes = settings.first_whole(&["trainer.num_nodes"]);
    let Some(per_node) = settings.first_whole(&["trainer.devices", "trainer.gpus"]) else { return };
    let world = World { total: None, nodes, per_node: Some(per_node) }.completed();
    imported.set(keys::cluster::num_gpus, world.total);
    imported.set(keys::cluster::nodes, world.nodes);
    imported.set(keys::cluster::gpus_per_node, world.per_node);
}

/// The plan of NeMo 1's YAML alone.
pub fn of_nemo(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("NeMo");
    imported.say(keys::model::framework, "megatron", Origin::Program("NeMo's own keys".to_owned()));
    nemo(&mut imported, &file, context);
    imported
}

/// NeMo 1's names as Megatron's arguments.
fn nemo(imported: &mut ImportedPlan, file: &Settings, context: &ImportContext) {
    let file = &multiplied(file);
    // `nemo/collections/nlp/models/language_modeling/megatron_griffin_model.py`, `megatron_mamba_model.py`
    for (kind, what) in [("griffin", "recurrent layers beside attention"), ("mamba", "layers of Mamba")] {
        if let Some(found) = file.text("name").filter(|found| found.value.contains(kind)) {
            not_modelled(imported, &format!("{} {}: {what}, all counted as attention", found.origin, found.value));
        }
    }
    const NAMES: &[(&str, &str)] = &[
        ("encoder_seq_length", "seq_length"),
        ("activations_checkpoint_granularity", "recompute_granularity"),
        ("activations_checkpoint_method", "recompute_method"),
        ("activations_checkpoint_num_layers", "recompute_num_layers"),
        ("optim.weight_decay", "weight_decay"),
        ("share_embeddings_and_output_weights", "share_embeddings"),
        ("num_moe_experts", "num_experts"),
        ("virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"),
        ("data.seq_length", "seq_length"),
        ("fp8", "fp8_flag"),
        ("activation", "activation_name"),
        ("bias", "with_bias"),
    ];
    let mut settings = Settings::default();
    settings.adopt_all(file, |name| {
        let inner = name.strip_prefix("model.")?;
        let renamed = NAMES.iter().find(|(theirs, _)| *theirs == inner).map_or(inner, |(_, ours)| *ours);
        Some(renamed.to_owned())
    });
    activation(&mut settings, file);
    nemo_legacy::tokenizer(&mut settings, file);
    if let Some(found) = file.flag("model.bias").filter(|found| !found.value) {
        settings.set("disable_bias_linear", Value::Bool(true), found.origin);
    }
    if let Some(found) = file.flag("model.share_embeddings_and_output_weights").filter(|found| !found.value) {
        settings.set("untie_embeddings_and_output_weights", Value::Bool(true), found.origin);
    }
    if let Some(found) = file.whole("model.num_query_groups") {
        settings.set("group_query_attention", Value::Bool(true), found.origin);
    }
    if let Some(found) = file.text("model.normalization").filter(|found| found.value.contains("rmsnorm")) {
        settings.set("normalization", "RMSNorm".into(), found.origin);
    }
    precision(&mut settings, file);
    let shaped = file.holds("model.num_layers") && file.holds("model.hidden_size");
    if let Some(found) = file.text("model.optim.name") {
        if found.value.contains("distributed") {
            settings.set("use_distributed_optimizer", Value::Bool(true), found.origin.clone());
        }
        settings.set("optimizer", "adam".into(), found.origin.clone());
        if !found.value.contains("adam") {
            settings.refuse("optimizer");
        }
    }
    nemo_trainer::clipping(&mut settings, file);
    world(imported, file);
    if !file.is("model.fsdp") {
        settings.accept("fsdp_sharding_strategy");
    }
    megatron::all(imported, settings, context);
    nemo_legacy::modules(imported, file);
    if !shaped {
        from_checkpoint(imported);
    }
    unscaled(imported, file);
    nemo_legacy::distributed_adam(imported, file);
    if let Some(method) = file.iter().find_map(|(name, _)| aligned(name)) {
        method.apply(imported);
        reference_on_host(imported);
    }
    if file.is("model.fsdp") {
        not_modelled(imported, "model.fsdp: PyTorch's FSDP under NeMo");
    }
    nemo_trainer::account(imported, file);
    account_for_top(
        imported,
        file,
        &["model", "trainer", "name", "exp_manager", "restore_from_path", "hydra", "defaults", "run"],
    );
}

/// Puts in what `${multiply:4, ${.hidden_size}}` and `${.encoder_seq_length}` refer to: settings of the same section.
fn multiplied(file: &Settings) -> Settings {
    let mut settings = file.clone();
    for (name, found) in file.iter() {
        let Some(inner) = found.value.as_str().and_then(|text| text.strip_prefix("${")?.strip_suffix('}')) else {
            continue;
        };
        let (factor, reference) = match inner.strip_prefix("multiply:").and_then(|rest| rest.split_once(',')) {
            Some((factor, rest)) => {
                (factor.trim().parse().ok(), rest.trim().trim_start_matches("${").trim_end_matches('}'))
            }
            None => (Some(1), inner),
        };
        let section = name.rsplit_once('.').map_or("", |(section, _)| section);
        let value = reference.strip_prefix('.').and_then(|key| file.whole(&format!("{section}.{key}")));
        if let Some(value) = value.zip(factor).and_then(|(value, factor): (_, u64)| value.value.checked_mul(factor)) {
            settings.set(name, value.into(), found.origin.clone());
        }
    }
    settings
}

/// NeMo's one name for what Megatron has flags for.
fn activation(settings: &mut Settings, file: &Settings) {
    let say = |settings: &mut Settings, name: &str, found: &Setting<String>| {
        settings.set(name, Value::Bool(true), found.origin.clone());
    };
    let Some(found) = file.text("model.activation").map(|found| found.map(|name| name.replace('-', "_"))) else {
        return;
    };
    let known = ["swiglu", "geglu", "squared_relu"].into_iter().find(|word| found.value.contains(word));
    match known.or_else(|| (found.value == "silu").then_some("swiglu")) {
        Some(word) => say(settings, word, &found),
        None if !found.value.contains("gelu") => return settings.refuse("activation_name"),
        None => {}
    }
    settings.accept("activation_name");
}

/// A checkpoint that a run starts from has the shape; Megatron's defaults are none of its.
fn from_checkpoint(imported: &mut ImportedPlan) {
    let shape: Vec<&str> =
        imported.values.iter().map(|found| found.key).filter(|key| key.starts_with("model.architecture.")).collect();
    shape.into_iter().for_each(|key| imported.drop(key));
    imported.missing.retain(|missing| !missing.key.starts_with("model.architecture"));
    imported.miss(keys::model::architecture, "the checkpoint that the run starts from has it");
}

/// Without `megatron_amp_O2` weights stay in fp32 and autocast computes
/// (`nemo/collections/nlp/models/language_modeling/megatron_base_model.py`, `MegatronBaseModel.__init__`).
fn unscaled(imported: &mut ImportedPlan, file: &Settings) {
    let scaled = file.flag("model.megatron_amp_O2");
    let Some(found) = scaled.filter(|found| !found.value) else { return };
    let word = match imported.get(keys::training::precision).and_then(|inferred| inferred.value.as_str()) {
        Some("bf16-fp32-master") => "bf16-mixed",
        Some("fp16-fp32-master") => "fp16-mixed",
        _ => return,
    };
    imported.say(keys::training::precision, word, found.origin);
    imported.drop(keys::training::gradient_dtype);
}

/// NeMo-Aligner's sections of `trainer` name the method (`examples/nlp/gpt/conf` at its main branch).
fn aligned(name: &str) -> Option<TrainingMethod> {
    match name.strip_prefix("trainer.")?.split('.').next()? {
        "rm" => Some(TrainingMethod::Reward),
        "dpo" | "ipo" => Some(TrainingMethod::Dpo),
        "kto" => Some(TrainingMethod::Kto),
        "ppo" => Some(TrainingMethod::Ppo),
        "grpo" | "rs" => Some(TrainingMethod::Grpo),
        "knowledge_distillation" => Some(TrainingMethod::Distillation),
        _ => None,
    }
}

fn precision(settings: &mut Settings, file: &Settings) {
    let Some(found) = file.text("trainer.precision") else { return };
    match found.value.as_str() {
        "bf16" | "bf16-mixed" | "bf16-true" => settings.set("bf16", Value::Bool(true), found.origin),
        "16" | "16-mixed" => settings.set("fp16", Value::Bool(true), found.origin),
        _ => {}
    }
    if let Some(found) = file.on("model.fp8") {
        settings.set("fp8_format", "hybrid".into(), found.origin);
    }
    settings.accept("fp8_flag");
}
