//! Megatron-Bridge's recipes in Python: functions that make a `ConfigContainer` (`src/megatron/bridge/recipes/` at
//! 2026-08-22). What they set are attributes of Megatron's own configurations.

mod module;
mod recipe;
pub mod script;

use serde_json::Value;

use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::origin::{Origin, Setting};
use super::refused::Refused;
use super::rows::not_modelled;
use super::settings::{Settings, UNKNOWN};
use super::{adapters, megatron, model, nemo_recipes, vision};
use crate::plan::keys;
use module::RecipeModule;
use recipe::{BridgeRecipe, MADE};

/// The version whose defaults are meant.
const VERSION: &str = "Megatron-Bridge";

/// Options of `scripts/training/run_recipe.py`, and the settings that they are (`COMMON_OVERRIDE_FIELDS`).
const OPTIONS: &[(&[&str], &str)] = &[
    (&["max_steps", "ms"], "train.train_iters"),
    (&["global_batch_size", "gb"], "train.global_batch_size"),
    (&["micro_batch_size", "mb"], "train.micro_batch_size"),
    (&["seq_length", "sl"], "dataset.seq_length"),
    (&["tensor_model_parallel_size", "tp"], "model.tensor_model_parallel_size"),
    (&["pipeline_model_parallel_size", "pp"], "model.pipeline_model_parallel_size"),
    (&["context_parallel_size", "cp"], "model.context_parallel_size"),
    (&["virtual_pipeline_model_parallel_size", "vp"], "model.virtual_pipeline_model_parallel_size"),
    (&["expert_model_parallel_size", "ep"], "model.expert_model_parallel_size"),
    (&["expert_tensor_parallel_size", "etp"], "model.expert_tensor_parallel_size"),
];

/// Where the recipes lie in its repository.
const RECIPES: &str = "src/megatron/bridge/recipes/__init__.py";

/// Attributes by the names of Megatron's arguments; all others have the same.
const NAMES: &[(&str, &str)] = &[
    ("model.virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"),
    ("model.num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"),
    ("model.num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"),
    ("comm_overlap.tp_comm_overlap", "tp_comm_overlap"),
    ("comm_overlap.overlap_grad_reduce", "overlap_grad_reduce"),
    ("comm_overlap.overlap_param_gather", "overlap_param_gather"),
    ("comm_overlap.overlap_moe_expert_parallel_comm", "overlap_moe_expert_parallel_comm"),
    // Either section turns Megatron's FSDP on (`training/config.py`, `ConfigContainer.validate`).
    ("dist.use_megatron_fsdp", "use_megatron_fsdp"),
    ("dist.use_torch_fsdp2", "use_torch_fsdp2"),
    ("mixed_precision.fp8_param_gather", "fp8_param_gather"),
    ("mixed_precision.fp8_recipe", "fp8_recipe"),
    ("mixed_precision.fp8", "fp8_format"),
];

/// Types of torch's, and Megatron's words for them.
const TYPES: [(&str, &str); 4] = [("float32", "fp32"), ("bfloat16", "bf16"), ("float16", "fp16"), ("uint8", "fp8")];

/// What `distributed_fused_adam_with_cosine_annealing` makes where nobody says otherwise (`recipes/utils/optimizer_utils.py`).
const USUAL: [(&str, &str); 3] = [("optimizer", "adam"), ("weight_decay", "0.1"), ("clip_grad", "1.0")];

/// Settings that are read here, or change nothing that is held.
const QUIET: [&str; 9] =
    ["checkpoint.", "dataset.", "logger.", "rng.", "scheduler.", "tokenizer.", "validation.", "dist.", "env_vars"];

/// Whether a script makes such configurations.
pub fn is_recipe(content: &str) -> bool {
    content.contains("-> ConfigContainer") && content.contains("cfg.model") && content.contains("megatron.bridge")
}

/// The recipe of a file that is meant.
///
/// # Errors
/// It has several, and none is chosen, or no such.
fn chosen(name: &str, all: Vec<String>, which: Option<usize>) -> Result<String, Refused> {
    let count = all.len();
    let at = match which {
        Some(which) => which.checked_sub(1),
        None if count == 1 => Some(0),
        None if count == 0 => None,
        None => return Err(Refused::Several { file: name.to_owned(), commands: all }),
    };
    let found = at.and_then(|at| all.into_iter().nth(at));
    found.ok_or_else(|| Refused::NoTool(format!("{name}: it has {count} recipes")))
}

/// The plan of such a file.
///
/// # Errors
/// It has several recipes, and none is chosen, or no such.
pub fn of_file(name: &str, content: &str, context: &ImportContext) -> Result<ImportedPlan, Refused> {
    let module = RecipeModule::new(context, name.to_owned(), content);
    let function = chosen(name, module.recipes(), context.run.which)?;
    let mut imported = ImportedPlan::of(VERSION);
    imported.say(keys::model::framework, "megatron", Origin::Program("a recipe of Megatron-Bridge's".to_owned()));
    if let Some(recipe) = BridgeRecipe::of(&module, &function, &[]) {
        set(&mut imported, &recipe, &Settings::default(), context);
    }
    // `qwen3_8b_pretrain_4gpu_h100_bf16_config`
    let gpus = function.split('_').find_map(|part| part.strip_suffix("gpu")?.parse::<u64>().ok());
    let origin = Origin::Program(format!("the name {function}"));
    imported.set(keys::cluster::num_gpus, gpus.map(|gpus| Setting::new(gpus, origin)));
    Ok(imported)
}

/// The settings that options of its script stand for.
pub fn options(given: &Settings) -> Settings {
    let mut settings = Settings::default();
    for (names, setting) in OPTIONS {
        for name in *names {
            settings.adopt(setting, given, name);
        }
    }
    settings
}

/// The recipe that options name: `--recipe`, or `--model` with `--mode` (`run_recipe.py`, `_resolve_recipe_name`).
pub fn recipe_name(given: &Settings) -> Option<Setting<String>> {
    let whole = given.first_text(&["recipe", "model_recipe_name", "factory"]);
    let mode = given.text("mode").map(|found| found.value);
    let task = mode.map(|mode| if matches!(mode.as_str(), "lora" | "dora") { "peft".to_owned() } else { mode });
    let made = given.text("model").zip(task).map(|(model, task)| model.map(|stem| format!("{stem}_{task}_config")));
    whole.or(made)
}

/// The recipe of that name, where Megatron-Bridge's own text is around the program; `--mode dora` is its scheme.
pub fn named(context: &ImportContext, name: &str, given: &Settings) -> Option<BridgeRecipe> {
    let index = RecipeModule::find(context, &context.program.path, RECIPES)?;
    let families = index.handed_on();
    let home = families.iter().find(|family| family.defining(name).is_some())?;
    let mode = given.text("mode").map(|found| found.value).filter(|mode| matches!(mode.as_str(), "lora" | "dora"));
    let scheme = mode.map(|mode| ("peft_scheme".to_owned(), format!("\"{mode}\"")));
    BridgeRecipe::of(home, name, scheme.as_slice())
}

/// A type of torch's in the words of Megatron's arguments.
fn word(value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    TYPES.iter().find(|(theirs, _)| *theirs == text).map(|(_, ours)| Value::from(*ours))
}

/// Sets what a recipe says, with `over` over it.
pub fn set(imported: &mut ImportedPlan, recipe: &BridgeRecipe, over: &Settings, context: &ImportContext) {
    let mut own = recipe.settings();
    if over.text("mixed_precision").is_some() {
        own.set(&format!("mixed_precision.{MADE}"), Value::Null, Origin::Program("an override".to_owned()));
    }
    let own = own.with(over.clone());
    let made = |section: &str| own.text(&format!("{section}.{MADE}")).map(|found| found.value).unwrap_or_default();
    named_model(imported, &own, context);
    let mut settings = Settings::default();
    for (name, value) in USUAL.iter().filter(|_| made("optimizer").contains("fused_adam")) {
        settings.set(name, (*value).into(), Origin::Default { framework: VERSION, option: (*name).to_owned() });
    }
    for (name, found) in own.iter().filter(|(name, found)| !name.ends_with(MADE) && !found.value.is_null()) {
        let renamed = NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let same = ["model.", "train.", "optimizer.", "ddp."].iter().find_map(|section| name.strip_prefix(section));
        if let Some(ours) = renamed.or(same.filter(|rest| !rest.contains('.'))) {
            match word(&found.value) {
                Some(word) => settings.set(ours, word, found.origin.clone()),
                None => settings.adopt(ours, &own, name),
            }
        }
    }
    distributed(&mut settings, &own, &made("optimizer"));
    // The runner gives the model the length of the data, where that is said over the recipe.
    const LENGTHS: [&str; 3] = ["model.seq_length", "dataset.seq_length", "dataset.sequence_length"];
    let length = over.first_whole(&LENGTHS).or_else(|| own.first_whole(&LENGTHS));
    if let Some(found) = length {
        own.accept("model.seq_length");
        // Both may be said, as they have to agree (`training/config.py`, `ConfigContainer.validate`).
        for name in LENGTHS.iter().filter(|name| over.whole(name).is_some_and(|other| other.value == found.value)) {
            over.accept(name);
        }
        settings.set("seq_length", found.value.into(), found.origin);
    }
    // Packed samples are as long as their packs (`data/datasets/packed_sequence.py`, `PackedSequenceSpecs`).
    let packed = own.whole("dataset.packed_sequence_specs.packed_sequence_size");
    let other = |found: &Setting<u64>| settings.whole("seq_length").is_none_or(|length| length.value != found.value);
    if let Some(found) = packed.filter(|found| found.value > 0 && other(found)) {
        not_modelled(imported, &format!("{}: samples are packed to {} tokens", found.origin, found.value));
    }
    let precise = precision(imported, &mut settings, &own);
    if let Some(found) = own.flag("model.gradient_accumulation_fusion") {
        settings.set("no_gradient_accumulation_fusion", (!found.value).into(), found.origin);
    }
    megatron::train(imported, &settings, context);
    if !precise {
        imported.drop(keys::training::precision);
        imported.miss(keys::training::precision, "the recipe's mixed_precision is not read");
    }
    loss(imported, &own);
    imported.drop(keys::training::dropout);
    if made("peft").is_empty() && own.text("peft").is_some() {
        not_modelled(imported, "peft: adapters that are not read");
    }
    low_rank(imported, &own.below("peft"), &made("peft"));
    frozen(imported, &own);
    for call in &recipe.open {
        not_modelled(imported, &format!("{call}(…): what it changes is not followed"));
        imported.unread.get_or_insert_with(|| format!("{call}(…)"));
    }
    unknown(imported, &own);
}

/// Where one of both settings is on, both are (`training/config.py`, `_validate_and_sync_distributed_optimizer_settings`);
/// the optimizer of `distributed_fused_adam_with_cosine_annealing` has it on.
fn distributed(settings: &mut Settings, own: &Settings, made: &str) {
    let name = |section: &str| format!("{section}.use_distributed_optimizer");
    let usual = || Setting::new(true, Origin::Default { framework: VERSION, option: made.to_owned() });
    let optimizer = own.flag(&name("optimizer")).or_else(|| made.contains("fused_adam").then(usual));
    let both = [own.flag(&name("ddp")), optimizer];
    let told = both.iter().flatten().find(|found| found.value).or_else(|| both.iter().flatten().next());
    if let Some(found) = told {
        settings.set("use_distributed_optimizer", found.value.into(), found.origin.clone());
    }
}

/// `AutoBridge.from_hf_pretrained("Qwen/Qwen3-8B").to_megatron_provider(…)`; others give sizes of their own.
fn named_model(imported: &mut ImportedPlan, own: &Settings, context: &ImportContext) {
    let made = own.text(&format!("model.{MADE}")).map(|found| found.value).unwrap_or_default();
    let named = own.first_text(&["model.0", "model.hf_path", "model.path"]);
    match named.filter(|_| made.starts_with("AutoBridge.from_hf")) {
        Some(found) => {
            model::set(imported, context, found);
            // A checkpoint of pictures and text makes a provider of both.
            vision::whole(imported);
            if let Some(tower) = imported.tower.as_mut() {
                tower.frozen |= own.is("model.freeze_vision_model");
            }
        }
        None => imported.miss(keys::model::preset, format!("the recipe's model is made by {made}, which is not read")),
    }
    for size in ["num_layers", "hidden_size", "num_moe_experts", "mtp_num_layers"] {
        if let Some(found) = own.whole(&format!("model.{size}")).filter(|found| found.value > 0) {
            not_modelled(imported, &format!("{}: {} over the model's own", found.origin, found.value));
        }
    }
}

/// The switches of a `MixedPrecisionConfig` that a recipe makes itself: `bf16=True`, `fp8="hybrid"`. Whether they say it.
fn own_precision(imported: &mut ImportedPlan, settings: &mut Settings, own: &Settings) -> bool {
    // Types that go with the switch, and how a loss is scaled.
    const WITH: [&str; 13] = [
        "fp32",
        "fp16",
        "bf16",
        "fp8",
        "fp8_recipe",
        "fp8_param_gather",
        "grad_reduce_in_fp32",
        "params_dtype",
        "pipeline_dtype",
        "autocast_dtype",
        "autocast_enabled",
        "loss_scale",
        "initial_loss_scale",
    ];
    let fields = own.below("mixed_precision");
    let further = fields.iter().map(|(name, _)| name).filter(|name| *name != MADE && !WITH.contains(name));
    let further: Vec<&str> = further.collect();
    if !further.is_empty() {
        not_modelled(imported, &format!("mixed_precision: {}", further.join(", ")));
    }
    let on = |name: &str| own.on(&format!("mixed_precision.{name}"));
    let half = ["bf16", "fp16"].iter().find_map(|name| Some((*name, on(name)?)));
    let Some((name, found)) = half else { return on("fp32").is_some() };
    settings.set(name, true.into(), found.origin);
    // `MixedPrecisionConfig`: its own value goes over that of `ddp` (`MixedPrecisionConfig.setup`).
    if let Some(summed) = own.flag("mixed_precision.grad_reduce_in_fp32")
        && !summed.value
        && name == "bf16"
    {
        settings.set("grad_reduce_in_bf16", true.into(), summed.origin);
    }
    if settings.holds("fp8_format") && !settings.holds("fp8_recipe") {
        let usual = Origin::Default { framework: VERSION, option: "fp8_recipe tensorwise".to_owned() };
        settings.set("fp8_recipe", "tensorwise".into(), usual);
    }
    true
}

/// `bf16_mixed`, or a recipe of 8 bits by name (`training/mixed_precision.py`). Whether it is read.
fn precision(imported: &mut ImportedPlan, settings: &mut Settings, own: &Settings) -> bool {
    let made = own.text(&format!("mixed_precision.{MADE}"));
    let named = made.filter(|found| found.value != "MixedPrecisionConfig" && !found.value.starts_with("get_"));
    let found = named.or_else(|| own.first_text(&["mixed_precision", "mixed_precision.0"]));
    let Some(found) = found else {
        return own_precision(imported, settings, own);
    };
    let half = if found.value.starts_with("fp16") { "fp16" } else { "bf16" };
    settings.set(half, true.into(), found.origin.clone());
    for (part, format, recipe) in [
        ("fp8_delayed", "hybrid", "delayed"),
        ("fp8_current", "hybrid", "tensorwise"),
        ("fp8_subchannel", "e4m3", "blockwise"),
        ("mxfp8", "e4m3", "mxfp8"),
    ] {
        if found.value.contains(part) {
            settings.set("fp8_format", format.into(), found.origin.clone());
            settings.set("fp8_recipe", recipe.into(), found.origin.clone());
        }
    }
    if found.value.contains("fp4") {
        not_modelled(imported, &format!("{}: matrix multiplications in FP4", found.value));
    }
    // The precision's own value, fp32 where nobody sets it, goes over that of `ddp` (`update_config_with_precision_overrides`).
    let fp32 = own.flag("mixed_precision.grad_reduce_in_fp32").is_none_or(|found| found.value);
    own.accept("ddp.grad_reduce_in_fp32");
    if !fp32 && half == "bf16" {
        settings.set("grad_reduce_in_bf16", true.into(), found.origin);
    }
    true
}

/// The providers fuse their loss where a recipe does not say otherwise.
fn loss(imported: &mut ImportedPlan, own: &Settings) {
    if own.flag("model.cross_entropy_loss_fusion").is_none() {
        nemo_recipes::fused_loss(imported, VERSION);
    }
}

/// Adapters by the names of Megatron's layers (`peft/lora.py`), as the class `made` makes them; none where it is empty.
pub fn low_rank(imported: &mut ImportedPlan, own: &Settings, made: &str) {
    const LAYERS: [&str; 4] = ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"];
    if made.is_empty() {
        return;
    }
    adapters::set(imported, own.whole("dim"), (VERSION, 32), None);
    let usual = || {
        let all = LAYERS.iter().map(|name| (*name).to_owned()).collect();
        Setting::new(all, Origin::Default { framework: VERSION, option: "target_modules".to_owned() })
    };
    let targets: Setting<Vec<String>> = own.texts("target_modules").unwrap_or_else(usual);
    let known = |name: &String| LAYERS.contains(&name.as_str());
    if !targets.value.iter().all(known) {
        not_modelled(imported, &format!("{}: adapters on {}", targets.origin, targets.value.join(", ")));
    }
    adapters::set_core_targets(imported, targets.map(|names| names.into_iter().filter(known).collect()));
    let dropout = own.number("dropout").map_or(0.0, |found| found.value);
    let origin = Origin::Default { framework: VERSION, option: "dropout".to_owned() };
    imported.set(keys::lora::dropout, Some(Setting::new(dropout, origin)));
    if made.contains("DoRA") || own.text("0").is_some_and(|found| found.value.eq_ignore_ascii_case("dora")) {
        not_modelled(imported, "DoRA: a magnitude for each output and the norm of each adapted weight");
    }
}

fn frozen(imported: &mut ImportedPlan, own: &Settings) {
    for name in ["freeze_language_model", "freeze_vision_projection"] {
        if own.is(&format!("model.{name}")) {
            not_modelled(imported, &format!("model.{name}: parts that are frozen"));
        }
    }
}

/// Says what a plan needs and the recipe sets to what is not known.
fn unknown(imported: &mut ImportedPlan, own: &Settings) {
    // A section is made by a call, a value that is has been computed.
    // What turns positions into angles holds nothing, and a builder is called later, if at all.
    const IDLE: [&str; 2] = ["model.rotary_", "model._"];
    let computed = |name: &str, value: &Value| {
        value.as_str() == Some(UNKNOWN) || (name.ends_with(MADE) && name.split('.').count() > 2)
    };
    let open: Vec<&str> = own
        .iter()
        .filter(|(name, found)| computed(name, &found.value))
        .filter(|(name, _)| !QUIET.iter().any(|part| name.starts_with(part) || *name == part.trim_end_matches('.')))
        .filter(|(name, _)| !IDLE.iter().any(|part| name.starts_with(part)))
        .map(|(name, _)| name.trim_end_matches(MADE).trim_end_matches('.'))
        .collect();
    // A section that is computed stands for what is in it.
    let within =
        |name: &&str| open.iter().any(|other| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('.')));
    let open: Vec<&str> = open.iter().copied().filter(|name| !within(name)).collect();
    if !open.is_empty() {
        not_modelled(imported, &format!("what the recipe computes for {}", open.join(", ")));
    }
}
