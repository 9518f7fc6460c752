//! How the Trainer shards: DeepSpeed or FSDP, by its own arguments.

use serde_json::Value;

use super::super::common::ImportContext;
use super::super::imported::ImportedPlan;
use super::super::origin::{Origin, Setting};
use super::super::script_doubts::code;
use super::super::script_files::near;
use super::super::script_modules::project_text;
use super::super::settings::Settings;
use super::super::unread::account_for;
use super::super::{accelerate, deepspeed, script_defaults, text, versions};
use super::{VERSION, WeightStorage};
use crate::plan::keys;

/// Sets sharding, and what goes with it.
pub fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, stored: WeightStorage) {
    if by_deepspeed(imported, settings, context) {
        return;
    }
    if let Some(stage) = settings.whole("zero_stage") {
        return own_zero(imported, settings, stage, context);
    }
    let options = settings.texts("fsdp");
    match options.filter(|found| found.value.iter().any(|word| !word.is_empty() && word != "false")) {
        Some(options) => by_fsdp(imported, settings, context, &options),
        None => {
            let option = "neither fsdp nor deepspeed".to_owned();
            let default = Setting::new("none", Origin::Default { framework: VERSION, option });
            imported.fill(keys::distribution::sharding, Some(default));
            // accelerate's own settings may have turned it on.
            if imported.get(keys::distribution::sharding).is_none_or(|found| found.value == "none") {
                let ddp = Origin::Default { framework: VERSION, option: "DistributedDataParallel".to_owned() };
                imported.fill(keys::distribution::engine, Some(Setting::new("ddp", ddp)));
                return;
            }
        }
    }
    each_micro_batch(imported, settings, context);
    // The launcher's engine may be another.
    if imported.get(keys::distribution::engine).is_some_and(|found| found.value == "deepspeed") {
        masters_under_plugin(imported);
        return adam_on_the_host(imported);
    }
    let accelerate = versions::of(&context.run.versions, "accelerate");
    // `accelerator.py`, `prepare_model`: nothing is raised before.
    if accelerate.and_then(|range| range.is_within((0, 0), versions::FSDP_UPCASTS)) != Some(true) {
        mixed_under_fsdp(imported, stored);
    }
}

/// What a loop of one's own may leave to DeepSpeed's file altogether.
const FED: [&str; 5] = [
    keys::training::micro_batch_size,
    keys::training::gradient_accumulation_steps,
    keys::training::weight_decay,
    keys::training::gradient_clipping,
    keys::training::activation_checkpointing,
];

/// Whether a DeepSpeed configuration, a file or inline, decides; then what it says is set.
fn by_deepspeed(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) -> bool {
    let path = settings.text("deepspeed").filter(|found| !["true", "false"].contains(&found.value.as_str()));
    let path = path.or_else(|| settings.text("deepspeed_config"));
    let path = path.map(|path| at_hand(path, imported, context));
    let file = match &path {
        Some(path) if path.value.trim_start().starts_with('{') => {
            text::yaml(&path.origin.to_string(), &path.value).ok()
        }
        Some(path) if context.run.files.read(&path.value).is_err() && shipped(&path.value, context).is_some() => {
            imported.note(format!("{}: not at hand, taken as it comes with its tool", path.value));
            shipped(&path.value, context)
        }
        Some(path) => context.settings(&path.value, imported),
        None => Some(settings.below("deepspeed")).filter(deepspeed::is_config),
    };
    let Some(file) = file else {
        if let Some(path) = &path {
            // What is stored, and where, that file decides.
            imported.say(keys::distribution::engine, "deepspeed", path.origin.clone());
            for key in ["distribution.sharding", "training.precision"] {
                imported.drop(key);
                imported.miss(key, format!("{}, which says it, was not read", path.value));
            }
            // Such a file may bring its optimizer; a loop of one's own takes its batches from it too.
            let given = ["per_device_train_batch_size", "per_gpu_train_batch_size", "train_batch_size", "batch_size"]
                .iter()
                .any(|name| settings.is_set(name));
            let batches = if given { &[][..] } else { &FED[..] };
            for key in [keys::training::optimizer].iter().chain(batches) {
                imported.doubt_default(key, format!("{}, which may say it, was not read", path.value));
            }
        }
        return path.is_some();
    };
    let (before, steps) =
        (imported.get(keys::training::precision).cloned(), imported.whole(keys::training::gradient_accumulation_steps));
    deepspeed::set(imported, &file);
    if file.flag("zero_force_ds_cpu_optimizer").is_none_or(|found| found.value) {
        adam_on_the_host(imported);
    }
    account_for(imported, &file);
    auto_precision(imported, &file, before.map(|inferred| Setting::new(inferred.value, inferred.origin)));
    if file.whole("gradient_accumulation_steps").is_none() && steps.is_none() {
        imported.drop(keys::training::gradient_accumulation_steps);
    }
    true
}

/// The Trainer's own `AdamW` whose states go to the host: accelerate puts `DeepSpeedCPUAdam` in its place (`accelerator.py`,
/// `_prepare_deepspeed`; `utils/deepspeed.py`, `map_pytorch_optim_to_deepspeed`).
fn adam_on_the_host(imported: &mut ImportedPlan) {
    let fused = imported.get(keys::training::optimizer).filter(|found| found.value == "adamw-fused").cloned();
    let paged = imported.get(keys::training::optimizer_state_dtype).is_some();
    if let Some(found) = fused.filter(|_| imported.get(keys::training::cpu_offload).is_some() && !paged) {
        let origin = Origin::Derived(format!("{}: DeepSpeedCPUAdam in its place, on the host", found.origin));
        imported.say(keys::training::optimizer, "adamw", origin);
    }
}

/// The Trainer's `bf16` is accelerate's mixed precision, and that its DeepSpeed plugin's: weights in 16 bits and fp32 masters,
/// whatever the launcher's file says (`training_args.py`, `__post_init__`; `DeepSpeedPlugin.set_mixed_precision`).
fn masters_under_plugin(imported: &mut ImportedPlan) {
    let Some(found) = imported.get(keys::training::precision).cloned() else { return };
    let (word, gradients) = match found.value.as_str() {
        Some("bf16-mixed" | "bf16") => ("bf16-fp32-master", "bf16"),
        Some("fp16-mixed" | "fp16") => ("fp16-fp32-master", "fp16"),
        _ => return,
    };
    imported.say(keys::training::precision, word, found.origin.clone());
    if imported.get(keys::distribution::sharding).is_some_and(|stage| stage.value != "none") {
        imported.say(keys::training::gradient_dtype, gradients, found.origin);
    }
}

/// The same file where it lies beside the settings that name it, and not where the run looks for it.
fn at_hand(path: Setting<String>, imported: &mut ImportedPlan, context: &ImportContext) -> Setting<String> {
    let Origin::File { name, .. } = &path.origin else { return path };
    if context.run.files.read(&path.value).is_ok() {
        return path;
    }
    let Ok((_, there)) = near(context.run.files, name, &path.value) else { return path };
    imported.note(format!("{there}: found in this project, not where the run looks for it"));
    path.map(|_| there)
}

/// A configuration that comes with the tool that runs; LLaVA's names are used by others for other things.
fn shipped(path: &str, context: &ImportContext) -> Option<Settings> {
    let of_llava = context.program.path.contains("llava/train/train");
    deepspeed::shipped(path).or_else(|| deepspeed::shipped_by_llava(path).filter(|_| of_llava))
}

/// `--fsdp "full_shard auto_wrap"`, and what `--fsdp_config` adds.
fn by_fsdp(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext, options: &Setting<Vec<String>>) {
    let below = settings.below("fsdp_config");
    // A file, or the same inline (transformers, `training_args.py`: `_VALID_DICT_FIELDS`).
    let config = settings.text("fsdp_config").and_then(|found| match found.value.trim_start().starts_with('{') {
        true => text::yaml(&found.origin.to_string(), &found.value).ok(),
        false if found.value.ends_with(".json") => context.settings(&found.value, imported),
        false => None,
    });
    let mut config = config.unwrap_or_else(|| below.clone());
    if !["version", "fsdp_version"].iter().any(|name| config.holds(name)) {
        config.adopt("version", &below, "version");
    }
    accelerate::set_fsdp(imported, &config);
    let named = options
        .value
        .iter()
        .find(|word| word.ends_with("shard") || word.contains("shard_grad_op") || word.contains("zero2"));
    if let Some(word) = named {
        imported.say(keys::distribution::sharding, accelerate::strategy(word), options.origin.clone());
    }
    if options.value.iter().any(|word| word == "offload") {
        imported.say(keys::training::cpu_offload, "parameters", options.origin.clone());
    }
}

/// `accelerator_config` with `gradient_accumulation_kwargs: {sync_each_batch: true}`, inline or in a file: the Trainer leaves
/// `no_sync` out (trainer.py, `_inner_training_loop`; accelerate, `GradientAccumulationPlugin`).
fn each_micro_batch(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    const SETTING: &str = "gradient_accumulation_kwargs.sync_each_batch";
    let file = settings.text("accelerator_config").and_then(|found| match found.value.trim_start().starts_with('{') {
        true => text::yaml(&found.origin.to_string(), &found.value).ok(),
        false => context.settings(&found.value, imported),
    });
    let told = settings.below("accelerator_config").on(SETTING).or_else(|| file?.on(SETTING));
    if accelerate::reduces_by_unit(imported) {
        imported.set(keys::distribution::sync_each_micro_batch, told);
    }
}

/// A script that makes its DeepSpeed configuration out of its own arguments, as DeepSpeed-Chat
/// does (`training/utils/ds_utils.py`: fp16 unless `--dtype bf16`).
fn own_zero(imported: &mut ImportedPlan, settings: &Settings, stage: Setting<u64>, context: &ImportContext) {
    imported.say(keys::distribution::engine, "deepspeed", stage.origin.clone());
    // `AdamOptimizer = DeepSpeedCPUAdam if args.offload else FusedAdam` (DeepSpeed-Chat, `main.py`; safe-rlhf,
    // `supervised_trainer.py`).
    let guessed =
        imported.get(keys::training::optimizer).is_none_or(|found| matches!(found.origin, Origin::Default { .. }));
    if guessed {
        let host = settings.on("offload").is_some()
            || settings.text("offload").is_some_and(|found| found.value != "none" && found.value != "false");
        let (word, class) = if host { ("adamw", "DeepSpeedCPUAdam") } else { ("adamw-fused", "FusedAdam") };
        let origin = Origin::Default { framework: "DeepSpeed-Chat", option: class.to_owned() };
        imported.say(keys::training::optimizer, word, origin);
    }
    let (gradients, partitions) = (stage.value > 0, stage.value > 2);
    imported.set(keys::distribution::sharding, Some(stage.map(deepspeed::stage)));
    let default = || Origin::Default { framework: "DeepSpeed-Chat", option: "--dtype fp16".to_owned() };
    // `safe_rlhf/configs/deepspeed_config.py`, `get_deepspeed_train_config`: `--bf16 True` in place of a name.
    let flags = ["bf16", "fp16"].into_iter().filter(|name| settings.is_set(name));
    let flag = flags.clone().find_map(|name| settings.on(name).map(|found| found.map(|_| name.to_owned())));
    if flag.is_none() && flags.count() > 0 {
        return;
    }
    // NiuTrans' scripts after DeepSpeed-Chat (`training/utils/ds_utils.py`): `--precision bf16`.
    let named = settings.text("precision").filter(|found| ["bf16", "fp16"].contains(&found.value.as_str()));
    let dtype = settings.text("dtype").or(named).or(flag);
    let dtype = match dtype.map_or_else(|| written_type(context), WrittenType::Known) {
        WrittenType::Known(found) => Some(found),
        WrittenType::Nowhere => Some(Setting::new("fp16".to_owned(), default())),
        WrittenType::Either(path) => {
            for key in ["training.precision", "training.gradient_dtype"] {
                imported.drop(key);
            }
            imported
                .miss(keys::training::precision, format!("{path}: its configuration of DeepSpeed has fp16 and bf16"));
            None
        }
    };
    if let Some(dtype) = dtype {
        let half = if dtype.value.contains("bf16") { "bf16" } else { "fp16" };
        imported.say(keys::training::precision, format!("{half}-fp32-master"), dtype.origin.clone());
        if gradients {
            imported.say(keys::training::gradient_dtype, half, dtype.origin);
        }
    }
    own_offload(imported, settings, partitions);
}

/// What such a script sends to the host: DeepSpeed-Chat has a switch, safe-rlhf a word for it. Parameters go there where
/// they are shared out.
fn own_offload(imported: &mut ImportedPlan, settings: &Settings, partitions: bool) {
    let word =
        settings.text("offload").filter(|found| ["optimizer", "parameter", "all"].contains(&found.value.as_str()));
    let offload = match word {
        Some(found) => {
            Some(found.map(|what| if what == "optimizer" || !partitions { "optimizer" } else { "parameters" }))
        }
        None => settings.on("offload").map(|found| found.map(|_| "optimizer")),
    };
    if settings.text("offload").is_some_and(|found| found.value == "none") {
        settings.accept("offload");
    }
    imported.set(keys::training::cpu_offload, offload);
}

/// What a configuration of DeepSpeed says of its type that a script's own project writes down.
enum WrittenType {
    Known(Setting<String>),
    /// It has sections for both types, in this script.
    Either(String),
    Nowhere,
}

/// The type of a configuration that the script's own project writes down: the only one that it has a section for, or that
/// it turns on where it turns the other off.
fn written_type(context: &ImportContext) -> WrittenType {
    let Some((path, text)) = script_defaults::script_of(context) else { return WrittenType::Nowhere };
    let text = project_text(context, &path, &text);
    let lines: Vec<String> = code(&text).map(|line| line.replace('\'', "\"")).collect();
    let fp16 = section(&lines, "fp16");
    let bf16 = section(&lines, "bf16").or_else(|| section(&lines, "bfloat16"));
    let word = match (fp16, bf16) {
        (None, None) => return WrittenType::Nowhere,
        (Some(_), None) | (Some(Some(true)), Some(Some(false))) => "fp16",
        (None, Some(_)) | (Some(Some(false)), Some(Some(true))) => "bf16",
        _ => return WrittenType::Either(path),
    };
    WrittenType::Known(Setting::new(
        word.to_owned(),
        Origin::Program(format!("{path}: its configuration of DeepSpeed")),
    ))
}

/// Whether lines have a section of that name, and whether it is turned on, where that is written down.
fn section(lines: &[String], name: &str) -> Option<Option<bool>> {
    let start = lines.iter().position(|line| line.contains(&format!("\"{name}\": {{")))?;
    let body = lines.get(start..)?.iter().take_while(|line| !line.starts_with('}'));
    let value = body.filter_map(|line| line.split_once("\"enabled\":")).map(|(_, value)| value.trim()).next();
    Some(value.and_then(|value| match value.trim_end_matches([',', '}', ' ']) {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }))
}

/// With FSDP accelerate raises what it trains to fp32 where it computes in 16 bits.
fn mixed_under_fsdp(imported: &mut ImportedPlan, stored: WeightStorage) {
    let Some(inferred) = imported.get(keys::training::precision).cloned() else { return };
    let (WeightStorage::Half, Some(word)) = (stored, inferred.value.as_str()) else { return };
    if imported.get(keys::lora::rank).is_some() || !matches!(word, "bf16" | "fp16") {
        return;
    }
    let mixed = format!("{word}-mixed");
    imported.say(
        keys::training::precision,
        mixed,
        Origin::Derived(format!("{}; FSDP keeps fp32 shards", inferred.origin)),
    );
}

/// `"bf16": {"enabled": "auto"}`: as the Trainer's own argument, with masters.
fn auto_precision(imported: &mut ImportedPlan, file: &Settings, before: Option<Setting<Value>>) {
    // accelerate puts a section in that is not there (`DeepSpeedPlugin.set_mixed_precision`).
    let auto = |name: &str| {
        let section = name.trim_end_matches(".enabled");
        !file.holds(section) || file.text(name).is_some_and(|found| found.value == "auto")
    };
    let both = auto("bf16.enabled") || auto("fp16.enabled");
    let named = file.is("bf16.enabled") || file.is("fp16.enabled");
    let Some(before) = before.filter(|_| both && !named) else { return };
    let word = match before.value.as_str() {
        Some(word) if word.starts_with("bf16") && auto("bf16.enabled") => Some(("bf16-fp32-master", "bf16")),
        Some(word) if word.starts_with("fp16") && auto("fp16.enabled") => Some(("fp16-fp32-master", "fp16")),
        _ => None,
    };
    if let Some((precision, gradients)) = word {
        imported.say(keys::training::precision, precision, before.origin.clone());
        if file.whole("zero_optimization.stage").is_some_and(|found| found.value > 0) {
            imported.say(keys::training::gradient_dtype, gradients, before.origin);
        }
    }
}
