//! llama-recipes, later llama-cookbook: `finetuning.py --enable_fsdp --model_name …`, its options filled into dataclasses
//! by Fire (`meta-llama/llama-cookbook`, `src/llama_cookbook/finetuning.py` and `configs/`; the package's earlier
//! `finetuning.py` where a project has a copy).

use super::accelerate;
use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::{SettingKind, SettingRow, not_modelled, take};
use super::script_defaults::script_of;
use super::script_modules::project_text;
use super::settings::{DefaultValue, Settings};
use super::unread::account_for;
use super::{adapters, launch};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "llama-cookbook";

/// `configs/training.py`, `configs/fsdp.py`, `configs/peft.py`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("batch_size_training", DefaultValue::Whole(4)),
    ("gradient_accumulation_steps", DefaultValue::Whole(1)),
    ("gradient_clipping", DefaultValue::Flag(false)),
    ("weight_decay", DefaultValue::Number(0.0)),
    ("batching_strategy", DefaultValue::Text("packing")),
    ("context_length", DefaultValue::Whole(4096)),
    ("sharding_strategy", DefaultValue::Text("FULL_SHARD")),
    ("fsdp_activation_checkpointing", DefaultValue::Flag(true)),
    ("lora_dropout", DefaultValue::Number(0.05)),
];

/// Sections that an option may name; without one it is the option of whichever has it (`utils/config_utils.py`,
/// `update_config`).
const SECTIONS: [&str; 4] = ["train_config", "fsdp_config", "lora_config", "quantization_config"];

/// Options that only this tool has.
const OWN: [&str; 6] = [
    "batch_size_training",
    "dist_checkpoint_root_folder",
    "low_cpu_fsdp",
    "fsdp_config.pure_bf16",
    "peft_method",
    "use_fast_kernels",
];

/// Options that are read elsewhere here, or change nothing that a plan says.
const IDLE: [&str; 8] = [
    "enable_fsdp",
    "low_cpu_fsdp",
    "use_fast_kernels",
    "mixed_precision",
    "one_gpu",
    "pure_bf16",
    "use_fp16",
    "dataset",
];

const ROWS: &[SettingRow] = &[
    (&["micro_batch_size", "batch_size_training"], keys::training::micro_batch_size, SettingKind::Whole),
    (&["gradient_accumulation_steps"], keys::training::gradient_accumulation_steps, SettingKind::Whole),
    (&["gradient_clipping"], keys::training::gradient_clipping, SettingKind::Flag),
    (&["weight_decay"], keys::training::weight_decay, SettingKind::Share),
];

/// Whether the program is its own: by its package, or by options that only it has beside a model's name.
pub fn runs(context: &ImportContext) -> bool {
    let options = arguments::read(&context.program.words).options;
    let module = context.program.path.replace('/', ".");
    let named = ["llama_recipes.finetuning", "llama_cookbook.finetuning"].iter().any(|name| module.contains(name));
    options.holds("model_name")
        && (named
            || (options.holds("enable_fsdp") || options.holds("use_peft"))
                && OWN.iter().any(|name| options.holds(name)))
}

fn default(option: &str) -> Origin {
    Origin::Default { framework: VERSION, option: option.to_owned() }
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("llama-recipes");
    let given = arguments::read(&context.program.words).options;
    let mut options = given.clone();
    for section in SECTIONS {
        options = options.with(given.below(section));
        let names: Vec<String> = options
            .iter()
            .map(|(name, _)| name.to_owned())
            .filter(|name| name.starts_with(&format!("{section}.")))
            .collect();
        names.iter().for_each(|name| options.accept(name));
    }
    let settings = &Settings::defaults(VERSION, DEFAULTS).with(options);
    imported.say(keys::model::framework, "transformers", Origin::Program(context.program.shown()));
    if let Some(found) = settings.text("model_name") {
        model::set(&mut imported, context, found);
    }
    take(&mut imported, settings, ROWS);
    let package = script_of(context).map(|(path, text)| project_text(context, &path, &text));
    let package = package.filter(|text| text.contains("class train_config") || text.contains("from_pretrained("));
    if package.is_none() {
        imported.note("the release of llama-recipes is not known: its defaults are those of llama-cookbook");
    }
    length(&mut imported, settings, package.as_deref());
    let sharded = settings.is("enable_fsdp");
    let bits = bits(settings);
    precision(&mut imported, settings, package.as_deref(), sharded, bits.is_some());
    imported.say(keys::training::attention, "sdpa", default("attn_implementation, transformers' own"));
    common::set_optimizer(&mut imported, Some(Setting::new("adamw".to_owned(), default("torch.optim.AdamW"))));
    if settings.text("optimizer").is_some_and(|found| found.value == "anyprecision") {
        imported.note("AnyPrecisionAdamW: its states in bf16, as those of AdamW on weights of bf16 are");
    }
    if sharded {
        shards(&mut imported, settings);
    } else {
        imported.say(keys::distribution::sharding, "none", default("without --enable_fsdp"));
        let word = if bits.is_some() && package.is_some_and(|text| text.contains("prepare_model_for")) {
            "full"
        } else {
            "none"
        };
        imported.say(keys::training::activation_checkpointing, word, default("without --enable_fsdp"));
    }
    low_rank(&mut imported, settings, bits);
    if settings.is("freeze_layers") || settings.is("freeze_LLM_only") {
        not_modelled(&mut imported, "--freeze_layers: layers that do not train");
    }
    alone(&mut imported, context, sharded);
    IDLE.iter().for_each(|name| settings.accept(name));
    account_for(&mut imported, settings);
    imported
}

/// Packed to a length, or as long as the longest sample of a batch.
fn length(imported: &mut ImportedPlan, settings: &Settings, package: Option<&str>) {
    let strategy = settings.text("batching_strategy").map(|found| found.value);
    settings.accept("context_length");
    if strategy.as_deref() == Some("padding") {
        return imported
            .miss(keys::model::sequence_length, "--batching_strategy padding: samples are as long as they are");
    }
    if package.is_some_and(|text| text.contains("class train_config") && !text.contains("context_length")) {
        return imported
            .miss(keys::model::sequence_length, "the package at hand has no context_length: its data sets pack");
    }
    imported.set(keys::model::sequence_length, settings.whole("context_length"));
}

/// `--quantization 4bit`, `8bit`; as a flag, in earlier releases the only way, 8.
fn bits(settings: &Settings) -> Option<Setting<u64>> {
    let found = settings.get("quantization")?;
    let bits = match found.value.as_str().map(str::to_lowercase).as_deref() {
        Some("4bit") => 4,
        Some("8bit" | "true") => 8,
        None if found.value == true => 8,
        _ => return None,
    };
    let origin = found.origin.clone();
    settings.accept("quantization");
    Some(Setting::new(bits, origin))
}

/// The checkpoint's own type since `torch_dtype="auto"`, fp32 before; brought to bf16 where FSDP is told `pure_bf16`.
/// FSDP gathers and reduces in bf16 either way (`policies/mixed_precision.py`, `bfSixteen`).
fn precision(imported: &mut ImportedPlan, settings: &Settings, package: Option<&str>, sharded: bool, quantised: bool) {
    if let Some(found) = settings.on("use_fp16") {
        let word = if sharded { "fp16" } else { "fp16-mixed" };
        return imported.set(keys::training::precision, Some(found.map(|_| word)));
    }
    let pure = settings.on("pure_bf16").filter(|_| sharded && !quantised);
    if let Some(found) = pure {
        return imported.set(keys::training::precision, Some(found.map(|_| "bf16")));
    }
    let loads = package.filter(|text| text.contains("from_pretrained(") && text.contains("train_config.model_name"));
    match loads.map(|text| text.contains("torch_dtype")) {
        Some(true) => imported.say(keys::training::precision, "bf16", default("torch_dtype auto: Llama's checkpoints")),
        Some(false) if quantised => imported.say(keys::training::precision, "bf16", default("of a quantised base")),
        Some(false) => {
            let word = if sharded { "bf16-mixed" } else { "fp32" };
            imported.say(keys::training::precision, word, default("the package at hand loads in fp32"));
        }
        None => imported.miss(
            keys::training::precision,
            "earlier releases load weights in fp32, later ones in the checkpoint's own type; --pure_bf16 says it",
        ),
    }
}

fn shards(imported: &mut ImportedPlan, settings: &Settings) {
    imported.say(keys::distribution::engine, "fsdp1", default("FullyShardedDataParallel"));
    let strategy = settings.text("sharding_strategy");
    let word = strategy
        .map(|found| found.map(|name| accelerate::strategy(launch::base(&name).rsplit('.').next().unwrap_or(""))));
    imported.set(keys::distribution::sharding, word);
    if settings.is("hsdp") {
        imported.set(
            keys::distribution::shard_group,
            settings.whole("sharding_group_size").filter(|group| group.value > 0),
        );
        settings.accept("replica_group_size");
    }
    let recompute = settings.flag("fsdp_activation_checkpointing");
    let word = recompute.map(|found| found.map(|on| if on { "full" } else { "none" }));
    imported.set(keys::training::activation_checkpointing, word);
    imported.set(keys::training::cpu_offload, settings.on("fsdp_cpu_offload").map(|found| found.map(|_| "parameters")));
    // `utils/train_utils.py` has no `no_sync`.
    if accelerate::reduces_by_unit(imported) {
        imported.say(keys::distribution::sync_each_micro_batch, true, default("train: no no_sync in it"));
    }
}

fn low_rank(imported: &mut ImportedPlan, settings: &Settings, bits: Option<Setting<u64>>) {
    let method = settings.text("peft_method").map(|found| found.value);
    if !settings.is("use_peft") {
        if bits.is_some() {
            not_modelled(imported, "--quantization without adapters");
        }
        return;
    }
    if method.as_deref().is_some_and(|word| word != "lora") {
        return not_modelled(imported, "--peft_method: adapters of another kind than LoRA");
    }
    let rank = settings.whole("r").unwrap_or_else(|| Setting::new(8, default("lora_config: r")));
    adapters::set(imported, Some(rank), (VERSION, 8), bits);
    let usual = || Setting::new(vec!["q_proj".to_owned(), "v_proj".to_owned()], default("lora_config: target_modules"));
    adapters::set_targets(imported, Some(settings.texts("target_modules").unwrap_or_else(usual)));
    imported
        .set(keys::lora::dropout, settings.number("lora_dropout").filter(|found| (0.0..1.0).contains(&found.value)));
}

/// Without a launcher one process trains.
fn alone(imported: &mut ImportedPlan, context: &ImportContext, sharded: bool) {
    if !sharded && context.launchers.is_empty() && context.world.total.is_none() {
        let world = launch::World::here(1, Origin::Program("no launcher: one process".to_owned()));
        imported.fill(keys::cluster::num_gpus, world.total);
        imported.fill(keys::cluster::nodes, world.nodes);
        imported.fill(keys::cluster::gpus_per_node, world.per_node);
    }
}
