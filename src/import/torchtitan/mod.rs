//! torchtitan: its TOML files in both layouts (`[training]` and `[experimental]` up to 2025,
//! `[parallelism]` since), its registry of configurations in Python (2026), and the arguments
//! that go over either. Names and defaults: `torchtitan/config/job_config.py` at 9810191b^,
//! `torchtitan/config_manager.py` at 82afc842^, `torchtitan/config/configs.py` at b5bcd76c.

mod debug;
mod graphs;
mod known;
mod python;
mod releases;
mod renamed;
mod types;

use serde_json::{Value, json};

use super::arguments;
use super::common::{self, ImportContext};
use super::imported::ImportedPlan;
use super::model;
use super::origin::{Origin, Setting};
use super::rows::not_modelled;
use super::settings::Settings;
use super::unread::account_for;
use crate::plan::keys;
use crate::plan::torchtitan::FLAVORS;
use known::{DEFAULTS, VERSION, registered};
use renamed::renamed;

pub use python::{chosen, is_python, of_python};

/// Whether the program is torchtitan's.
pub fn runs(context: &ImportContext) -> bool {
    let program = context.program;
    let words = &program.words;
    let has = |name: &str| words.iter().any(|word| word.split('=').next() == Some(name));
    let own = ["torchtitan.train", "torchtitan.trainer", "train_spec", "torchtitan.experiments"];
    (program.module && own.iter().any(|name| program.path.starts_with(name)))
        || program.path.ends_with("torchtitan/train.py")
        || has("--job.config_file")
        || has("--job.config-file")
        || (program.name() == "train.py" && has("--training.seq_len"))
}

/// The plan of such a command.
pub fn import(context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("torchtitan");
    let given = arguments::read(&context.program.words).options;
    let mut settings = Settings::defaults(VERSION, DEFAULTS);
    if let Some(name) = given.text("config") {
        registered(&mut settings, &name, &mut imported);
    }
    let path = given.first_text(&["job.config_file"]);
    if let Some(file) = path.and_then(|path| context.configuration(&path.value, &mut imported)) {
        settings.over(renamed(&file));
    }
    settings.over(renamed(&given));
    if given.holds("config") {
        // The module whose registry has it: names of configurations tell it by themselves.
        settings.accept("module");
    }
    imported.say(keys::model::framework, "torchtitan", Origin::Program(context.program.shown()));
    set(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    imported
}

/// The plan of a file alone.
pub fn of_file(file: Settings, context: &ImportContext) -> ImportedPlan {
    let mut imported = ImportedPlan::of("torchtitan");
    imported.say(keys::model::framework, "torchtitan", Origin::Program("torchtitan's own keys".to_owned()));
    let settings = Settings::defaults(VERSION, DEFAULTS).with(renamed(&file));
    set(&mut imported, &settings, context);
    account_for(&mut imported, &settings);
    imported
}

/// Whether settings are torchtitan's.
pub fn is_config(settings: &Settings) -> bool {
    settings.holds("model.flavor") || (settings.holds("training.seq_len") && settings.holds("parallelism"))
}

fn set(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    // What is written between the steps.
    for name in ["enable_checkpoint", "model_weights_only", "export_dtype", "interval_type", "async_mode"] {
        settings.accept(&format!("checkpoint.{name}"));
    }
    architecture(imported, settings, context);
    imported.set(keys::model::sequence_length, settings.whole("training.seq_len"));
    degrees(imported, settings, context);
    batch(imported, settings);
    types::precision(imported, settings);
    types::without_shards(imported, context);
    optimizer(imported, settings, context);
    imported.set(
        keys::training::loss,
        // `ChunkedLossWrapper` goes through head, loss and their backward pass a part of the tokens at a time.
        settings.flag("loss.chunked").map(|found| found.map(|on| if on { "fused" } else { "plain" })),
    );
    let recomputed = recomputation(imported, settings);
    imported.set(keys::training::activation_checkpointing, Some(recomputed));
    imported.set(keys::training::compile, compiled(settings));
    // What each layer's step has used is gone when the norm is taken, behind the last backward pass (train.py).
    let early = settings.flag("optimizer.early_step_in_backward").filter(|early| early.value);
    let clips = settings.number("training.max_norm").map(|found| found.map(|norm| norm > 0.0));
    imported.set(keys::training::gradient_clipping, early.map(|found| found.map(|_| false)).or(clips));
    imported.set(
        keys::training::deterministic,
        settings.flag("debug.deterministic").or_else(|| settings.flag("training.deterministic")),
    );
    graphs::say(imported, settings, context);
    releases::since_2026(imported, settings);
    let offload = settings.on("training.enable_cpu_offload");
    imported.set(keys::training::cpu_offload, offload.map(|found| found.map(|_| "parameters")));
}

fn architecture(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let (Some(name), Some(flavor)) = (settings.text("model.name"), settings.text("model.flavor")) else { return };
    if imported.unread.is_some() && !settings.is_set("model.flavor") {
        return imported.miss(keys::model::preset, "no --model.flavor, and the file that says it was not read");
    }
    let plain = flavor.value.split('_').next().unwrap_or("").to_owned();
    let origin = Origin::Derived(format!("{} {} ({})", name.value, flavor.value, flavor.origin));
    if let Some((.., preset)) =
        FLAVORS.iter().find(|(model, known, _)| *model == name.value && known.eq_ignore_ascii_case(&plain))
    {
        return imported.say(keys::model::preset, *preset, origin);
    }
    if plain == "debugmodel" && debug::set(imported, (&name.value, &flavor), &origin, context) {
        return;
    }
    // `experiments/deepseek_v3` names its models as Hugging Face does: `deepseek-ai/DeepSeek-V2-Lite`.
    if flavor.value.contains('/') {
        return model::set(imported, context, flavor);
    }
    // `experiments/transformers_modeling_backend`: the modules are those of transformers.
    if let Some(found) = settings.text("hf_transformers.model") {
        not_modelled(imported, &format!("{}: transformers' own modules in place of torchtitan's", found.origin));
        return model::set(imported, context, found);
    }
    let folder = settings.first_text(&["model.hf_assets_path", "hf_assets_path"]);
    match folder {
        Some(found) => model::set(imported, context, found),
        None => imported.miss(keys::model::preset, format!("{} {} is not known here", name.value, flavor.value)),
    }
}

fn degrees(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let degree = |name: &str| settings.whole(&format!("parallelism.{name}_degree")).filter(|found| found.value > 0);
    let one = |name: &str| Setting::new(1, Origin::Default { framework: VERSION, option: format!("{name}_degree 1") });
    for (name, key) in [
        ("tensor_parallel", keys::distribution::tensor_parallel),
        ("pipeline_parallel", keys::distribution::pipeline_parallel),
        ("context_parallel", keys::distribution::context_parallel),
    ] {
        imported.set(key, degree(name).or_else(|| Some(one(name))));
    }
    imported.set(keys::distribution::expert_parallel, degree("expert_parallel").filter(|found| found.value > 1));
    if imported.get(keys::distribution::expert_parallel).is_some() {
        imported.set(
            keys::distribution::expert_tensor_parallel,
            degree("expert_tensor_parallel").or_else(|| Some(one("expert_tensor_parallel"))),
        );
    } else {
        // It counts beside expert ranks alone (`distributed/parallel_dims.py`).
        settings.accept("parallelism.expert_tensor_parallel_degree");
    }
    let value = |imported: &ImportedPlan, key: &str| imported.whole(key).unwrap_or(1);
    let (tensor, stages) =
        (value(imported, "distribution.tensor_parallel"), value(imported, "distribution.pipeline_parallel"));
    if tensor > 1 {
        let told = settings.flag("parallelism.enable_sequence_parallel");
        let default =
            Origin::Default { framework: VERSION, option: "sequence parallel with tensor parallel".to_owned() };
        imported.set(keys::distribution::sequence_parallel, told.or_else(|| Some(Setting::new(true, default))));
        imported
            .set(keys::distribution::async_tensor_parallel, settings.flag("parallelism.enable_async_tensor_parallel"));
    }
    if stages > 1 {
        schedule(imported, settings);
    } else {
        settings.accept("parallelism.pipeline_parallel_schedule");
    }
    if value(imported, "distribution.context_parallel") > 1 {
        let rotate = settings.text("parallelism.context_parallel_rotate_method");
        imported.set(
            keys::distribution::cp_comm,
            rotate.map(|found| found.map(|name| if name == "alltoall" { "p2p" } else { "all_gather" })),
        );
    }
    let context_ranks = value(imported, "distribution.context_parallel");
    sharding(imported, settings, context, [tensor.saturating_mul(stages), context_ranks]);
}

/// Replicas and shards: the shards take what is left where nobody says how many. Whoever shares a sequence shares the weights out
/// too (`distributed/parallel_dims.py`: fsdp_enabled where dp_shard or cp is, over the mesh dp_shard_cp).
fn sharding(
    imported: &mut ImportedPlan,
    settings: &Settings,
    context: &ImportContext,
    [model_ranks, sequence_ranks]: [u64; 2],
) {
    let others = model_ranks.saturating_mul(sequence_ranks);
    const KEY: &str = "distribution.sharding";
    let replicas = settings.whole("parallelism.data_parallel_replicate_degree").filter(|found| found.value > 0);
    let given = settings.whole("parallelism.data_parallel_shard_degree").filter(|found| found.value > 0);
    // -1: what is left.
    settings.accept("parallelism.data_parallel_shard_degree");
    let copies = replicas.as_ref().map_or(1, |found| found.value);
    let rest = context.world.total.as_ref().and_then(|world| world.value.checked_div(others.checked_mul(copies)?));
    let shards = given.clone().or_else(|| {
        let origin =
            Origin::Default { framework: VERSION, option: "data_parallel_shard_degree -1: what is left".to_owned() };
        rest.map(|shards| Setting::new(shards, origin))
    });
    // `models/llama3/infra/parallelize.py`: weights stay whole after the forward pass of a pipeline's stage by default.
    let policy = settings.text("parallelism.fsdp_reshard_after_forward").map(|found| found.value);
    let staged = imported.whole(keys::distribution::pipeline_parallel).is_some_and(|stages| stages > 1);
    let sharded = match policy.as_deref() {
        Some("never") => "zero2",
        Some("default") if staged => "zero2",
        _ => "zero3",
    };
    if staged && policy.is_none() {
        imported.note(
            "a stage's weights may stay whole between its passes (fsdp_reshard_after_forward): counted as sharded",
        );
    }
    match shards {
        Some(shards) => {
            let ranks = shards.value.saturating_mul(copies);
            imported.states_shards = given.is_some();
            if given.is_some() || context.world.total.is_some() {
                let origin =
                    Origin::Derived(format!("{copies} replicas x {} shards ({})", shards.value, shards.origin));
                imported.say(keys::distribution::data_parallel, ranks, origin);
            }
            let group = shards.map(|each| each.saturating_mul(sequence_ranks));
            let shares = group.value > 1;
            imported.set(KEY, Some(group.clone().map(|_| if shares { sharded } else { "none" })));
            engine(imported, shares);
            if copies > 1 && shares {
                imported.set(keys::distribution::shard_group, Some(group));
            }
        }
        // A file by itself: FSDP as soon as there is more than one rank.
        None => {
            let origin = Origin::Default { framework: VERSION, option: "data_parallel_shard_degree -1".to_owned() };
            imported.say(KEY, sharded, origin);
            engine(imported, true);
        }
    }
}

fn engine(imported: &mut ImportedPlan, shards: bool) {
    let option = if shards { "fully_shard" } else { "replicate" };
    let origin = Origin::Default { framework: VERSION, option: option.to_owned() };
    imported.say(keys::distribution::engine, if shards { "fsdp2" } else { "ddp" }, origin);
}

fn schedule(imported: &mut ImportedPlan, settings: &Settings) {
    let Some(name) = settings.text("parallelism.pipeline_parallel_schedule") else { return };
    let lower = name.value.to_lowercase();
    let word = if lower.contains("gpipe") {
        "gpipe"
    } else if lower == "1f1b" {
        "1f1b"
    } else {
        "interleaved"
    };
    if !["gpipe", "1f1b", "interleaved1f1b"].contains(&lower.as_str()) {
        imported.note(format!("schedule {} is counted as {word}", name.value));
    }
    if word == "interleaved" {
        let origin = Origin::Default { framework: VERSION, option: "two stages a rank in looped schedules".to_owned() };
        imported.say(keys::distribution::virtual_pipeline, 2, origin);
    }
    imported.set(keys::distribution::pipeline_schedule, Some(name.map(|_| word)));
}

/// `local_batch_size` samples a data-parallel rank and step of accumulation; a pipeline takes them in pieces.
fn batch(imported: &mut ImportedPlan, settings: &Settings) {
    let sequence = settings.whole("training.seq_len").map_or(1, |found| found.value.max(1));
    let tokens = settings.whole("training.num_tokens_per_microbatch_per_dp_rank");
    let samples = tokens.map(|found| {
        let origin = Origin::Derived(format!("{}: {} tokens / {sequence}", found.origin, found.value));
        Setting::new(found.value / sequence, origin)
    });
    let newest = samples.is_some();
    let Some(local) = samples.or_else(|| settings.whole("training.local_batch_size")).filter(|found| found.value > 0)
    else {
        return;
    };
    let stages = imported.whole(keys::distribution::pipeline_parallel).unwrap_or(1);
    let pieces = pieces(settings, &local, stages, newest);
    let global = settings.whole("training.global_batch_size").filter(|found| found.value > 0).or_else(|| {
        let tokens = settings.whole("training.num_tokens_per_train_step").filter(|found| found.value > 0)?;
        Some(tokens.map(|tokens| tokens / sequence))
    });
    imported.set(keys::model::batch_size, global.clone());
    match pieces {
        Some(pieces) if pieces.value > 1 => {
            let micro = if newest { local.value } else { (local.value / pieces.value).max(1) };
            let shown = format!("{} samples in {} pieces through the pipeline", local.value, pieces.value);
            imported.say(keys::training::micro_batch_size, micro, Origin::Derived(shown));
            if global.is_none() {
                imported.set(keys::training::gradient_accumulation_steps, Some(pieces));
            }
        }
        _ => imported.set(keys::training::micro_batch_size, Some(local)),
    }
}

/// Into how many pieces a pipeline takes a rank's samples.
fn pieces(settings: &Settings, local: &Setting<u64>, stages: u64, newest: bool) -> Option<Setting<u64>> {
    if stages < 2 {
        // Without stages nothing is cut into pieces.
        settings.accept("parallelism.pipeline_parallel_microbatch_size");
        return None;
    }
    if newest {
        return settings.whole("parallelism.num_pp_microbatches");
    }
    if let Some(count) = settings.whole("parallelism.pipeline_parallel_microbatches") {
        // No piece is less than a sample.
        return Some(count.map(|count| count.min(local.value)));
    }
    let size = settings.whole("parallelism.pipeline_parallel_microbatch_size").filter(|found| found.value > 0);
    let default = Origin::Default { framework: VERSION, option: "pipeline_parallel_microbatch_size 1".to_owned() };
    let size = size.unwrap_or_else(|| Setting::new(1, default));
    Some(Setting::new(local.value / size.value, size.origin))
}

/// What the arguments of a checkout of 2024 have where nobody says it (`torchtitan/config_manager.py`).
fn own_fused(context: &ImportContext) -> Option<Setting<bool>> {
    const SOURCE: &str = "torchtitan/config_manager.py";
    let text = context.run.files.read(SOURCE).ok()?;
    let declared = text.split_once("\"--optimizer.fused\",")?.1.split("add_argument(").next()?;
    let origin = Origin::Derived(format!("{SOURCE}: --optimizer.fused"));
    Some(Setting::new(declared.contains("default=True"), origin))
}

fn optimizer(imported: &mut ImportedPlan, settings: &Settings, context: &ImportContext) {
    let Some(name) = settings.text("optimizer.name") else { return };
    let kernels = settings.text("optimizer.implementation");
    let fused = settings.flag("optimizer.fused");
    let fused = fused.clone().filter(|_| settings.is_set("optimizer.fused")).or_else(|| own_fused(context)).or(fused);
    let word = match (common::optimizer(&name.value), kernels, fused) {
        (Some("adamw"), Some(kernels), _) => kernels.map(|name| match name.as_str() {
            "for-loop" => "adamw-loop",
            "foreach" => "adamw",
            _ => "adamw-fused",
        }),
        (Some("adamw"), None, Some(fused)) => fused.map(|fused| if fused { "adamw-fused" } else { "adamw" }),
        (Some("adamw"), None, None) => Setting::new(
            "adamw-fused",
            Origin::Default { framework: VERSION, option: "optimizer.implementation fused".to_owned() },
        ),
        _ => return common::set_optimizer(imported, Some(name)),
    };
    imported.set(keys::training::optimizer, Some(word));
    common::say_foreach(imported);
    imported.set(keys::training::optimizer_in_backward, settings.flag("optimizer.early_step_in_backward"));
    imported.set(keys::training::weight_decay, settings.number("optimizer.weight_decay"));
}

fn recomputation(imported: &mut ImportedPlan, settings: &Settings) -> Setting<Value> {
    let default = Origin::Default { framework: VERSION, option: "activation_checkpoint.mode selective".to_owned() };
    let mode =
        settings.text("activation_checkpoint.mode").unwrap_or_else(|| Setting::new("selective".to_owned(), default));
    let option = settings.text("activation_checkpoint.selective_ac_option");
    match mode.value.as_str() {
        "none" => mode.map(|_| "none".into()),
        "full" => mode.map(|_| "full".into()),
        "memory_budget" => {
            imported.note("activation_checkpoint.mode memory_budget has no word in a plan: counted as selective-op");
            mode.map(|_| "selective-op".into())
        }
        _ => match option {
            Some(option) => option.map(|option| match option.parse::<u64>() {
                Ok(every) => json!({ "every": every }),
                Err(_) => "selective-op".into(),
            }),
            None => mode.map(|_| "selective-op".into()),
        },
    }
}

/// `compile.enable`, where the model is among what is compiled.
fn compiled(settings: &Settings) -> Option<Setting<bool>> {
    let found = settings.flag("compile.enable")?;
    let model = settings.texts("compile.components").is_none_or(|parts| parts.value.iter().any(|part| part == "model"));
    Some(found.map(|on| on && model))
}
