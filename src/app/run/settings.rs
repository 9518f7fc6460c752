//! What the process itself says of its training, against what the plan says: it is right, whatever its figures are.

use crate::app::state::State;
use crate::model::Element;
use crate::plan::Checkpointing;
use crate::plan::keywords::Optimizer;
use crate::predict::Job;
use crate::reading::{HookAbout, HookedRun};
use crate::units::grouped;

/// Parameters of one type are the model's if they are this share of all.
const MOST: f64 = 0.9;

/// Tokens of a step that are counted in two ways differ by less than this.
const SAME_TOKENS: f64 = 0.01;

/// What the attached process does otherwise than its plan, as its hook tells: each in a few words.
#[must_use]
pub fn other_settings(state: &State, job: &Job) -> Vec<String> {
    state.run.telemetry.hooked(&state.monitor, state.now).map_or_else(Vec::new, |run| told_settings(run, job))
}

/// What a process with the hook does otherwise than the plan that comes to `job`.
#[must_use]
pub fn told_settings(run: &HookedRun, job: &Job) -> Vec<String> {
    let about = run.about.as_ref();
    let told = [
        about.and_then(|about| weights(about, job)),
        about.and_then(|about| optimizer(about, job)),
        about.and_then(|about| checkpointing(about, job)),
        run.step.as_ref().and_then(|step| tokens(step.tokens?, job)),
    ];
    told.into_iter().flatten().collect()
}

/// The type that nearly all parameters are stored in.
fn weights(about: &HookAbout, job: &Job) -> Option<String> {
    let (name, count) = about.dtypes.first().filter(|_| about.params_are_all)?;
    let all: u64 = about.dtypes.iter().map(|(_, count)| count).sum();
    let (runs, word) = match name.as_str() {
        "float32" => (Element::F32, "fp32"),
        "bfloat16" => (Element::Bf16, "bf16"),
        "float16" => (Element::F16, "fp16"),
        _ => return None,
    };
    let packed = job.training.lora.is_some();
    let differs = *count as f64 >= MOST * all as f64 && runs != job.storage.weight && !packed;
    differs.then(|| format!("weights in {word}, the plan's precision is {}", job.storage.precision.name()))
}

/// The optimizer's class, where it is known.
fn optimizer(about: &HookAbout, job: &Job) -> Option<String> {
    use Optimizer as O;
    let class = about.optimizer.to_ascii_lowercase();
    let alike: &[O] = match class.trim_start_matches("deepspeed").trim_start_matches("fused").trim_start_matches("cpu")
    {
        "adam" | "adamw" => &[O::Adamw, O::AdamwFused, O::AdamwLoop],
        "adamw8bit" | "adam8bit" | "pagedadamw8bit" | "pagedadam8bit" => &[O::Adamw8bit],
        "sgd" => &[O::Sgd, O::SgdMomentum],
        "adafactor" => &[O::Adafactor],
        "lion" => &[O::Lion],
        "muon" => &[O::Muon],
        _ => return None,
    };
    let planned = job.training.optimizer;
    (!alike.contains(&planned)).then(|| format!("optimizer {}, the plan's is {}", about.optimizer, planned.name()))
}

/// Whether blocks are computed again; none of what only parts of them do.
fn checkpointing(about: &HookAbout, job: &Job) -> Option<String> {
    match (about.checkpointed?, &job.training.checkpointing) {
        (true, Checkpointing::None) => Some("activation checkpointing, the plan has none".to_owned()),
        (false, Checkpointing::Full) => Some("no activation checkpointing, the plan has full".to_owned()),
        _ => None,
    }
}

/// Tokens of a step on one GPU.
fn tokens(runs: u64, job: &Job) -> Option<String> {
    let batch = &job.batch;
    let planned = batch.micro * batch.accumulation * batch.sequence / job.degrees.context.max(1);
    let whole = job.degrees.tensor == 1 && job.degrees.pipeline == 1 && job.decoder().is_some() && planned > 0;
    let off = (runs as f64 / planned.max(1) as f64 - 1.0).abs();
    (whole && off > SAME_TOKENS)
        .then(|| format!("{} tokens a step and GPU, the plan {}", grouped(runs), grouped(planned)))
}
