//! TRL: `trl sft` and its kin, and the scripts that they run. Names and defaults:
//! `trl/cli`, `trl/accelerate_configs`, `trl/trainer/*_config.py` of TRL 1.0 (2026); scripts of older
//! versions have the same names and say more themselves.

use serde_json::Value;

use super::arguments;
use super::common::ImportContext;
use super::imported::ImportedPlan;
use super::launch::{World, base};
use super::origin::{Origin, Setting};
use super::python::{PassedArgument, ScriptReader};
use super::rows::not_modelled;
use super::script_defaults::script_of;
use super::settings::{DefaultValue, Settings};
use super::trainer::reentrant;
use super::trainer_by_name;
use super::versions::{self, NEWEST};
use crate::plan::keys;

/// The version whose defaults are meant.
const VERSION: &str = "TRL";

/// What TRL's own configurations change of `TrainingArguments`, and its `ModelConfig`.
const DEFAULTS: &[(&str, DefaultValue)] = &[
    ("gradient_checkpointing", DefaultValue::Flag(true)),
    ("bf16", DefaultValue::Flag(true)),
    (reentrant::NAME, DefaultValue::Flag(false)),
    ("lora_r", DefaultValue::Whole(16)),
    ("lora_dropout", DefaultValue::Number(0.05)),
];

/// Ways of training that have a script of that name, and the longest sample where nobody says it.
const METHODS: &[(&str, Option<u64>)] = &[
    ("sft", Some(1024)),
    ("dpo", Some(1024)),
    ("kto", Some(1024)),
    ("reward", Some(1024)),
    ("reward_modeling", Some(1024)),
    ("orpo", Some(1024)),
    ("cpo", Some(1024)),
    ("bco", Some(1024)),
    ("prm", Some(1024)),
    ("gkd", Some(1024)),
    ("grpo", None),
    ("rloo", None),
    ("online_dpo", None),
];

/// Where TRL's own scripts stand in its repository.
const OF_TRL: [&str; 3] = ["trl/scripts/", "examples/scripts/", "scripts/"];

/// How a script of one's own trains by TRL, whose configuration its parser fills in:
/// `TrlParser((ScriptArguments, SFTConfig, ModelConfig))`.
pub fn parsed(context: &ImportContext) -> Option<&'static str> {
    const CONFIGS: [(&str, &str); 9] = [
        ("SFTConfig", "sft"),
        ("DPOConfig", "dpo"),
        ("KTOConfig", "kto"),
        ("RewardConfig", "reward"),
        ("ORPOConfig", "orpo"),
        ("CPOConfig", "cpo"),
        ("GRPOConfig", "grpo"),
        ("RLOOConfig", "rloo"),
        // `trl/experimental/prm/prm_trainer.py`: the loss of the classes of steps, and nothing beside the model.
        ("PRMConfig", "prm"),
    ];
    let (_, text) = script_of(context)?;
    // A class of the script's own of that name has defaults of its own.
    let own = |name: &str| text.contains(&format!("class {name}"));
    let of_trl = text.contains("from trl");
    let filled = text.match_indices("Parser((").find_map(|(at, part)| {
        let behind = text.get(at + part.len()..)?.split(')').next()?;
        let names: Vec<&str> = behind.split(',').map(str::trim).filter(|name| !own(name)).collect();
        let known = CONFIGS.iter().find(|(name, _)| names.contains(name)).map(|(_, method)| *method);
        known.or_else(|| names.iter().any(|name| is_further(&text, name)).then_some(FURTHER))
    });
    filled.filter(|_| of_trl)
}

/// A way of training of TRL's that has no rules here: its configuration has the defaults of all.
pub const FURTHER: &str = "further";

/// Whether a class is another configuration of TRL's, `SSDConfig` of `trl.experimental.ssd`: all are
/// `trl/trainer/base_config.py`, `_BaseConfig`.
fn is_further(text: &str, name: &str) -> bool {
    let imports = |line: &str| {
        let (module, names) = line.strip_prefix("from trl")?.split_once(" import ")?;
        Some(module.starts_with('.') && names.split([',', '(', ')']).any(|one| one.trim() == name))
    };
    name.ends_with("Config") && text.lines().any(|line| imports(line.trim()) == Some(true))
}

/// Where `trl` puts what it tells `accelerate launch`.
pub const LAUNCH: &str = "launch";

/// How TRL trains here, if it does: `sft`, `dpo`, …
pub fn method(context: &ImportContext) -> Option<&'static str> {
    let program = context.program;
    let named = if is_command(context) {
        program.words.first()?.as_str()
    } else if program.module {
        program.path.strip_prefix("trl.scripts.")?
    } else {
        base(&program.path).strip_suffix(".py")?
    };
    // Others have scripts of these names too: theirs is at hand and does not take TRL's arguments.
    if !program.module && !is_command(context) {
        let others = match context.run.files.read(&program.path) {
            Ok(text) => !text.contains("TrlParser"),
            // Of one that is not at hand the place tells.
            Err(_) => !OF_TRL.iter().any(|place| program.path.starts_with(place) || program.path.contains("trl/")),
        };
        if others {
            return None;
        }
    }
    METHODS.iter().find(|(name, _)| *name == named).map(|(name, _)| *name)
}

/// Whether it is the command itself, which starts accelerate.
fn is_command(context: &ImportContext) -> bool {
    matches!(context.program.name(), "trl" | "trl.cli" | "trl.cli.main")
}

/// TRL's defaults for a method.
pub fn defaults(method: &str) -> Settings {
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    if let Some((_, Some(longest))) = METHODS.iter().find(|(name, _)| *name == method) {
        settings.over(Settings::defaults(VERSION, &[("max_length", DefaultValue::Whole(*longest))]));
    }
    if matches!(method, "grpo" | "rloo") {
        settings.over(Settings::defaults(VERSION, &[("max_completion_length", DefaultValue::Whole(256))]));
    }
    // `trl/trainer/rloo_config.py`: a reference is held unless it is 0.
    if method == "rloo" {
        settings.over(Settings::defaults(VERSION, &[("beta", DefaultValue::Number(0.05))]));
    }
    settings
}

/// unsloth takes whole groups of answers: a batch that holds no whole one becomes as large as one. Releases of 2026 count
/// the steps of accumulation with it (`unsloth/models/rl.py`, `check_num_generations`). Returns why the batch is open.
pub fn whole_groups(settings: &mut Settings) -> Option<String> {
    const BATCH: &str = "per_device_train_batch_size";
    let answers = settings.whole("num_generations").unwrap_or_else(|| {
        Setting::new(8, Origin::Default { framework: "unsloth 2025.2", option: "num_generations 8".to_owned() })
    });
    let batch = settings.whole(BATCH)?;
    let steps = settings.whole("gradient_accumulation_steps").map_or(1, |found| found.value);
    let is_whole = |samples: u64| answers.value > 0 && samples.is_multiple_of(answers.value);
    if is_whole(batch.value) || answers.value == 0 {
        return None;
    }
    if is_whole(batch.value.saturating_mul(steps)) {
        return Some(format!(
            "{} {}: unsloth before 2026 takes {}, a group's answers",
            batch.origin, batch.value, answers.value
        ));
    }
    settings.set(
        BATCH,
        answers.value.into(),
        Origin::Derived(format!("{}: whole groups of unsloth's", answers.origin)),
    );
    None
}

/// unsloth puts configurations of its own in the place of TRL's since 2025.2, whose defaults are others
/// (`unsloth/models/rl.py`, `_patch_trl_rl_trainers`: `replacements`).
pub fn of_unsloth(context: &ImportContext) -> Settings {
    const OWN: &[(&str, DefaultValue)] = &[
        ("optim", DefaultValue::Text("adamw_8bit")),
        ("weight_decay", DefaultValue::Number(0.01)),
        ("per_device_train_batch_size", DefaultValue::Whole(4)),
        ("gradient_accumulation_steps", DefaultValue::Whole(2)),
    ];
    let stated = versions::of(&context.run.versions, "unsloth");
    match stated.and_then(|range| range.is_within((2025, 2), NEWEST)) {
        Some(false) => Settings::default(),
        _ => Settings::defaults("unsloth 2025.2", OWN),
    }
}

/// The rank of a script of one's own that leaves its adapters to TRL: `get_peft_config(model_args)` makes them of
/// `ModelConfig`, whose `lora_r` is 16.
pub fn usual_rank(context: &ImportContext) -> Option<Setting<u64>> {
    let (_, text) = script_of(context)?;
    let option = "lora_r 16".to_owned();
    text.contains("get_peft_config(").then(|| Setting::new(16, Origin::Default { framework: VERSION, option }))
}

/// Supervised fine-tuning takes head and loss in parts, of which nothing is kept (`trainer/sft_trainer.py`,
/// `_chunked_cross_entropy_loss`: each under a checkpoint, multiplied in fp32), as `chunked_nll` says and newer releases do by
/// themselves; Liger's own loss stands before it.
pub fn loss_in_parts(imported: &mut ImportedPlan, method: Option<&str>, settings: &Settings, context: &ImportContext) {
    let newer = versions::of(&context.run.versions, "trl")
        .is_some_and(|range| range.is_within(versions::NLL_IN_PARTS, NEWEST) == Some(true));
    let told =
        settings.text("loss_type").filter(|found| found.value == "chunked_nll" || (newer && found.value == "nll"));
    if method == Some("sft") && imported.get(keys::training::loss).is_none() {
        if let Some(found) = &told {
            not_modelled(
                imported,
                &format!("{}: the time of the head, which its backward pass computes again", found.origin),
            );
        }
        imported.set(keys::training::loss, told.map(|found| found.map(|_| "fused")));
    }
}

/// TRL casts the adapters of a quantised base to bf16: those of 4 bits under bf16 (`trainer/*_trainer.py` of 0.9 to 0.26,
/// `peft_module_casting_to_bf16`), whatever is quantised since 0.27 (`param.data.to(torch.bfloat16)`).
pub fn adapters(imported: &mut ImportedPlan, context: &ImportContext, reader: Option<&ScriptReader>) {
    let Some(bits) = imported.whole(keys::lora::base_bits) else { return };
    // FSDP raises what trains to fp32 again (accelerate, `prepare_model`: `param.data.to(torch.float32)`).
    let sharded = imported.get(keys::distribution::engine).and_then(|found| found.value.as_str());
    if sharded.is_some_and(|engine| engine.starts_with("fsdp")) {
        return;
    }
    let since = |library: &str, version| {
        versions::of(&context.run.versions, library).map(|range| range.is_within(version, NEWEST) == Some(true))
    };
    // TRL 0.27 asks for transformers 4.56.2.
    let newer = since("trl", (0, 27)).or_else(|| since("transformers", (4, 56))).unwrap_or(true);
    // Under `args.bf16` alone: weights that are loaded in bf16 are no autocast.
    let told = imported.get(keys::training::precision).filter(|found| !found.origin.to_string().contains("dtype"));
    let precision = told.and_then(|found| found.value.as_str());
    if newer || (bits == 4 && precision.is_some_and(|word| word.starts_with("bf16"))) {
        let option = "adapters of a quantised base in bf16".to_owned();
        imported.say(keys::lora::dtype, "bf16", Origin::Default { framework: VERSION, option });
    }
    let prepares = versions::of(&context.run.versions, "trl").and_then(|range| range.is_within((0, 0), PREPARES));
    if prepares == Some(true) && reader.is_none_or(|reader| makes_adapters(reader)) {
        prepare_base(imported, bits);
    }
}

/// Before that release TRL's trainers prepare a quantised base for the adapters that they make themselves
/// (`trainer/sft_trainer.py` of 0.7 to 0.25, `prepare_model_for_kbit_training`).
const PREPARES: (u64, u64) = (0, 26);

/// Whether a script leaves its adapters to TRL's trainer.
fn makes_adapters(reader: &ScriptReader) -> bool {
    let passed = reader.passed(&trainer_by_name::TRAINERS, "peft_config");
    passed.iter().any(|(passed, certain)| *certain && matches!(passed, PassedArgument::Made(..)))
}

/// What such a preparation raises to fp32: the norms, the embeddings and the head. Under bf16 and 4 bits TRL casts the latter
/// two back (`trainer/utils.py`, `peft_module_casting_to_bf16`).
fn prepare_base(imported: &mut ImportedPlan, bits: u64) {
    let Some(found) = imported.get(keys::training::precision) else { return };
    let autocast = !found.origin.to_string().contains("dtype");
    let origin = Origin::Derived(format!("{}: TRL raises what is not quantised to fp32", found.origin));
    match found.value.as_str().unwrap_or_default() {
        "fp16" if autocast => imported.say(keys::training::precision, "fp16-mixed", origin),
        "bf16" if autocast && bits != 4 => imported.say(keys::training::precision, "bf16-mixed", origin),
        "fp16" | "bf16" if !autocast => imported.say(keys::training::precision, "fp32", origin),
        _ => {}
    }
}

/// What follows from what was said: half precision of one kind alone, the length of a rollout, the
/// launcher that `trl` starts.
pub fn complete(settings: &mut Settings, context: &ImportContext, imported: &mut ImportedPlan) {
    if parsed(context) == Some(FURTHER) {
        not_modelled(imported, "a way of training of TRL's that has no rules here: what it holds beside the model");
    }
    let Some(method) = method(context) else { return };
    // `bf16` is on unless `fp16` is.
    if settings.is("fp16") && !settings.is_set("bf16") {
        settings.set("bf16", Value::Bool(false), Origin::Argument("--fp16".to_owned()));
    }
    if let (Some(prompt), Some(answer)) = (settings.whole("max_prompt_length"), settings.whole("max_completion_length"))
        && METHODS.contains(&(method, None))
    {
        let origin = Origin::Derived(format!("{} + {}", prompt.origin, answer.origin));
        settings.set("max_length", prompt.value.saturating_add(answer.value).into(), origin);
    }
    if is_command(context) {
        launcher(settings, context, imported);
    }
}

/// `trl` hands what its parser does not know to `accelerate launch`: `--num_processes`, and by
/// `--accelerate_config` a file or one of its own.
fn launcher(settings: &mut Settings, context: &ImportContext, imported: &mut ImportedPlan) {
    let mut told = Settings::default();
    if let Some(named) = settings.text("accelerate_config").or_else(|| settings.text("config_file")) {
        told = bundled(&named).or_else(|| context.settings(&named.value, imported)).unwrap_or_default();
    }
    for name in ["num_processes", "num_machines", "mixed_precision"] {
        told.adopt(name, settings, name);
    }
    if context.world.total.is_none() {
        let total = told.whole("num_processes").or_else(|| context.visible_gpus());
        if total.is_none() {
            imported.miss(keys::cluster::num_gpus, "trl starts accelerate on every GPU in sight, and none is");
        }
        let one =
            || Setting::new(1, Origin::Default { framework: "accelerate", option: "--num_machines 1".to_owned() });
        let nodes = told.whole("num_machines").or_else(|| Some(one()));
        let world = World { total, nodes, per_node: None }.completed();
        imported.set(keys::cluster::num_gpus, world.total);
        imported.set(keys::cluster::nodes, world.nodes);
        imported.set(keys::cluster::gpus_per_node, world.per_node);
    }
    settings.adopt_all(&told, |name| Some(format!("{LAUNCH}.{name}")));
}

/// The configurations of accelerate that come with TRL: each for eight GPUs of a node, in bf16.
fn bundled(named: &Setting<String>) -> Option<Settings> {
    let own: &[(&str, Value)] = match named.value.as_str() {
        "single_gpu" => &[("distributed_type", "NO".into()), ("num_processes", 1.into())],
        "multi_gpu" => &[("distributed_type", "MULTI_GPU".into())],
        "fsdp1" => &[
            ("distributed_type", "FSDP".into()),
            ("fsdp_config.fsdp_reshard_after_forward", "FULL_SHARD".into()),
            ("fsdp_config.fsdp_version", 1.into()),
        ],
        "fsdp2" => &[
            ("distributed_type", "FSDP".into()),
            ("fsdp_config.fsdp_reshard_after_forward", true.into()),
            ("fsdp_config.fsdp_version", 2.into()),
        ],
        "zero1" => &[("distributed_type", "DEEPSPEED".into()), ("deepspeed_config.zero_stage", 1.into())],
        "zero2" => &[("distributed_type", "DEEPSPEED".into()), ("deepspeed_config.zero_stage", 2.into())],
        "zero3" => &[("distributed_type", "DEEPSPEED".into()), ("deepspeed_config.zero_stage", 3.into())],
        _ => return None,
    };
    let shared = [("mixed_precision", "bf16".into()), ("num_processes", 8.into()), ("num_machines", 1.into())];
    let mut settings = Settings::default();
    for (name, value) in shared.iter().chain(own) {
        settings.set(name, value.clone(), Origin::Argument(format!("--accelerate_config {}", named.value)));
    }
    Some(settings)
}

/// The file of arguments that such a command names.
pub fn config_file(context: &ImportContext) -> Option<String> {
    method(context)?;
    arguments::read(&context.program.words).options.text("config").map(|found| found.value)
}
