//! A plan as torchtitan's TOML (`torchtitan/config/job_config.py`).

use std::fmt::Write;

use super::shape::{self, ExportDegrees};
use super::{ExportedPlan, recomputation_name};
use crate::catalog::Catalog;
use crate::plan::keys::{self, Plan};
use crate::plan::keywords::{CpuOffload, Engine, Fp8Recipe, Framework, Optimizer, Precision, Schedule, Sharding};
use crate::plan::torchtitan::flavor_of;
use crate::plan::types::Checkpointing;

/// The file.
pub fn toml(plan: &Plan, catalog: &Catalog) -> ExportedPlan {
    let mut text = String::new();
    let mut notes = Vec::new();
    let degrees = ExportDegrees::of(plan);
    section(&mut text, "model", &model(plan, catalog, &mut notes));
    section(&mut text, FLOAT8, &float8(plan, &mut notes));
    section(&mut text, "optimizer", &optimizer(plan, &mut notes));
    section(&mut text, "training", &training(plan, catalog, degrees, &mut notes));
    section(&mut text, "parallelism", &parallelism(plan, degrees, &mut notes));
    section(&mut text, "activation_checkpoint", &recomputation(plan, &mut notes));
    let compile = vec![("enable", plan.training.compile.unwrap_or(false).to_string())];
    section(&mut text, "compile", &compile);
    unsaid(plan, &mut notes);
    ExportedPlan { text, notes, refused: None }
}

type Lines = Vec<(&'static str, String)>;

fn section(text: &mut String, name: &str, lines: &Lines) {
    if lines.is_empty() {
        return;
    }
    let blank = if text.is_empty() { "" } else { "\n" };
    // A text takes whatever is written to it.
    let _ = writeln!(text, "{blank}[{name}]");
    for (key, value) in lines {
        let _ = writeln!(text, "{key} = {value}");
    }
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

fn model(plan: &Plan, catalog: &Catalog, notes: &mut Vec<String>) -> Lines {
    let mut lines = Vec::new();
    let preset = plan.model.preset.as_deref().and_then(|name| catalog.model(name));
    match preset.and_then(|preset| flavor_of(&preset.name)) {
        Some((name, flavor)) => lines.extend([("name", quoted(name)), ("flavor", quoted(flavor))]),
        None => {
            notes.push(no_flavor());
            lines.extend([("name", quoted("llama3")), ("flavor", quoted(UNREGISTERED))]);
        }
    }
    if plan.training.precision == Some(Precision::Fp8Mixed) {
        lines.push(("converters", format!("[\"{FLOAT8}\"]")));
    }
    lines
}

/// The converter's name and that of its table (`torchtitan/components/quantization/float8.py`, `register_model_converter`).
const FLOAT8: &str = "quantize.linear.float8";

/// How FP8 is scaled (`torchtitan/config/job_config.py`, `Float8Linear`): a scale a tensor, where nothing is said.
fn float8(plan: &Plan, notes: &mut Vec<String>) -> Lines {
    let mut lines = Lines::new();
    if plan.training.precision != Some(Precision::Fp8Mixed) {
        return lines;
    }
    match plan.training.fp8_recipe {
        None => {}
        Some(Fp8Recipe::Tensorwise | Fp8Recipe::Rowwise) => {
            lines.extend(plan.training.fp8_recipe.map(|recipe| ("recipe_name", quoted(recipe.name()))));
        }
        Some(other) => {
            notes.push(format!("training.fp8_recipe: {other} is none of torchtitan's float8; tensorwise it is"))
        }
    }
    // A recipe by its name leaves the all-gather in 16 bits: its own fields are read without one alone.
    if plan.training.fp8_param_gather == Some(true) && plan.training.fp8_recipe != Some(Fp8Recipe::Rowwise) {
        lines.retain(|(key, _)| *key != "recipe_name");
        lines.push(("enable_fsdp_float8_all_gather", "true".to_owned()));
    }
    lines
}

/// A flavor that nobody has, so that what reads the file stops: without one torchtitan trains its `debugmodel`.
pub const UNREGISTERED: &str = "unregistered";

/// What is said of a shape that is none of torchtitan's.
pub fn no_flavor() -> String {
    format!("model: torchtitan has no flavor of that shape; register one in the place of `{UNREGISTERED}`")
}

fn optimizer(plan: &Plan, notes: &mut Vec<String>) -> Lines {
    let kernels = match plan.training.optimizer {
        None | Some(Optimizer::AdamwFused) => "fused",
        Some(Optimizer::Adamw) => "foreach",
        Some(Optimizer::AdamwLoop) => "for-loop",
        Some(other) => {
            notes.push(format!("training.optimizer: {other} is none of torchtitan's"));
            return Vec::new();
        }
    };
    let mut lines = vec![("name", quoted("AdamW")), ("implementation", quoted(kernels))];
    lines.extend(plan.training.weight_decay.map(|decay| ("weight_decay", format!("{decay:?}"))));
    lines.extend(plan.training.optimizer_in_backward.map(|on| ("early_step_in_backward", on.to_string())));
    lines
}

/// Micro batch, accumulation steps and global batch. A plan of torchtitan's own that leaves both open has its batch cut into as
/// many micro batches as there are stages (predict/job/batch.rs).
pub(super) fn batch(plan: &Plan, degrees: ExportDegrees) -> (Option<u64>, Option<u64>, Option<u64>) {
    let training = &plan.training;
    let open = training.micro_batch_size.is_none() && training.gradient_accumulation_steps.is_none();
    if degrees.pipeline > 1 && open && plan.model.framework == Some(Framework::Torchtitan) {
        let mut cut = plan.clone();
        cut.training.gradient_accumulation_steps = Some(degrees.pipeline);
        return shape::batch(&cut, degrees.data);
    }
    shape::batch(plan, degrees.data)
}

/// A rank's samples of one step of accumulation go through a pipeline in pieces of the micro batch.
fn training(plan: &Plan, catalog: &Catalog, degrees: ExportDegrees, notes: &mut Vec<String>) -> Lines {
    let mut lines = Vec::new();
    let (micro, steps, global) = batch(plan, degrees);
    let local = if degrees.pipeline > 1 {
        micro.zip(steps.or(Some(1))).and_then(|(micro, steps)| micro.checked_mul(steps))
    } else {
        micro
    };
    lines.extend(local.map(|size| ("local_batch_size", size.to_string())));
    lines.extend(global.map(|size| ("global_batch_size", size.to_string())));
    let sequence = shape::sequence(plan, shape::positions(plan, catalog));
    lines.push(("seq_len", sequence.to_string()));
    match plan.training.precision {
        None | Some(Precision::Bf16Mixed | Precision::Fp8Mixed) => {}
        Some(Precision::Bf16) => lines.push(("dtype", quoted("bfloat16"))),
        Some(Precision::Fp32) => lines.push(("mixed_precision_param", quoted("float32"))),
        Some(other) => notes.push(format!("training.precision: {other} is none of torchtitan's; bf16-mixed it is")),
    }
    lines.extend(plan.training.gradient_clipping.filter(|on| !on).map(|_| ("max_norm", "0.0".to_owned())));
    offload(plan, notes, || lines.push(("enable_cpu_offload", "true".to_owned())));
    lines
}

/// Calls `on` where parameters go to the host.
pub fn offload(plan: &Plan, notes: &mut Vec<String>, on: impl FnOnce()) {
    match plan.training.cpu_offload {
        None | Some(CpuOffload::None) => {}
        Some(CpuOffload::Parameters) => on(),
        Some(other) => notes.push(format!("training.cpu_offload: {other} is none of torchtitan's")),
    }
}

fn parallelism(plan: &Plan, degrees: ExportDegrees, notes: &mut Vec<String>) -> Lines {
    notes.extend(shape::other_engine(plan, "torchtitan", &[Engine::Fsdp2, Engine::Ddp]));
    let (replicas, shards) = data_degrees(plan, degrees, notes);
    let mut lines = vec![
        ("data_parallel_replicate_degree", replicas.to_string()),
        ("data_parallel_shard_degree", shards.to_string()),
        ("tensor_parallel_degree", degrees.tensor.to_string()),
        ("pipeline_parallel_degree", degrees.pipeline.to_string()),
        ("context_parallel_degree", degrees.context.to_string()),
    ];
    lines.extend(resharding(plan, degrees).map(|policy| ("fsdp_reshard_after_forward", quoted(policy))));
    lines.extend(plan.distribution.expert_parallel.map(|ranks| ("expert_parallel_degree", ranks.to_string())));
    lines.extend(
        plan.distribution.expert_tensor_parallel.map(|ranks| ("expert_tensor_parallel_degree", ranks.to_string())),
    );
    lines.extend(plan.distribution.async_tensor_parallel.map(|on| ("enable_async_tensor_parallel", on.to_string())));
    if degrees.pipeline > 1 {
        let name = match plan.distribution.pipeline_schedule {
            Some(Schedule::Gpipe) => "GPipe",
            Some(Schedule::Interleaved) => "Interleaved1F1B",
            Some(Schedule::OneFOneB) | None => "1F1B",
        };
        lines.push(("pipeline_parallel_schedule", quoted(name)));
        lines.extend(batch(plan, degrees).0.map(|micro| ("pipeline_parallel_microbatch_size", micro.to_string())));
    }
    lines
}

/// `fsdp_reshard_after_forward`, where the default (`default`: always, but for the stages of a pipeline) means another
/// thing (`torchtitan/distributed/fsdp.py`, `get_fsdp_reshard_after_forward_policy`).
pub fn resharding(plan: &Plan, degrees: ExportDegrees) -> Option<&'static str> {
    match (shape::sharding(plan), degrees.pipeline > 1) {
        (Sharding::Zero2, _) => Some("never"),
        (Sharding::Zero3, true) => Some("always"),
        _ => None,
    }
}

/// Replicas and shards.
pub fn data_degrees(plan: &Plan, degrees: ExportDegrees, notes: &mut Vec<String>) -> (u64, u64) {
    let (replicas, shards) = match shape::sharding(plan) {
        // FSDP2 that keeps parameters whole behind the forward pass: `resharding` says it.
        Sharding::Zero3 | Sharding::Zero2 => {
            // Its FSDP runs over the ranks of a sequence too (`parallel_dims.py`, dp_shard_cp), which its degree leaves out.
            let all = degrees.data.saturating_mul(degrees.context);
            let group = plan.distribution.shard_group.unwrap_or(all).max(1);
            if !group.is_multiple_of(degrees.context) {
                notes.push(format!(
                    "distribution.shard_group: {group} is less than whole sequences of {} ranks, which torchtitan shards over",
                    degrees.context
                ));
            }
            let shards = (group / degrees.context).max(1);
            (degrees.data / shards, shards)
        }
        Sharding::None => {
            if degrees.context > 1 {
                notes.push(format!(
                    "distribution.sharding: none; torchtitan shards over the {} ranks of a sequence all the same",
                    degrees.context
                ));
            }
            (degrees.data, 1)
        }
        other => {
            notes.push(format!(
                "distribution.sharding: {other} is none of torchtitan's; its FSDP shards parameters too"
            ));
            (1, degrees.data)
        }
    };
    (replicas.max(1), shards)
}

fn recomputation(plan: &Plan, notes: &mut Vec<String>) -> Lines {
    let mode = |mode: &str| vec![("mode", quoted(mode))];
    match &plan.training.activation_checkpointing {
        None | Some(Checkpointing::None) => mode("none"),
        Some(Checkpointing::Full) => mode("full"),
        Some(Checkpointing::SelectiveOp) => vec![("mode", quoted("selective")), ("selective_ac_option", quoted("op"))],
        Some(Checkpointing::Every(each)) => {
            vec![("mode", quoted("selective")), ("selective_ac_option", quoted(&each.to_string()))]
        }
        Some(other) => {
            notes.push(format!(
                "training.activation_checkpointing: {} is none of torchtitan's",
                recomputation_name(other)
            ));
            Vec::new()
        }
    }
}

/// What torchtitan has no key for.
pub fn unsaid(plan: &Plan, notes: &mut Vec<String>) {
    for (key, set) in [
        (keys::training::lora, plan.training.lora.is_some()),
        (keys::training::dropout, plan.training.dropout.is_some_and(|share| share > 0.0)),
        (keys::distribution::virtual_pipeline, plan.distribution.virtual_pipeline.is_some_and(|pieces| pieces > 2)),
    ] {
        if set {
            notes.push(format!("{key}: no key says it"));
        }
    }
}
