//! What the run's log states in its header, against what the plan says. What a hook tells comes before it.

use super::mismatch::{ABOUT_SAME_SIZE, SAME_SIZE, other_adapters};
use super::settings::ToldSettings;
use crate::app::state::State;
use crate::model::{Decoder, Element};
use crate::plan::keywords::{Position, Precision, Sharding};
use crate::plan::{Checkpointing, keys};
use crate::predict::{Job, Prediction};
use crate::reading::{StatedCheckpointing, StatedSettings, StatedType};
use crate::units::{counted, grouped, parameter_count};

/// Below this share of the planned trained parameters adapters may be what is trained.
pub(super) const ADAPTERS: f64 = 0.1;

/// One step of gradient accumulation, and several.
pub(super) const STEP: &str = "step of accumulation";
pub(super) const STEPS: &str = "steps of accumulation";

const DISTRIBUTED_OPTIMIZER: &str = "training.distributed_optimizer";

/// What stands behind each: who says so.
const BY_LOG: &str = "by its log";

/// What the log states and no hook has told so far: one that is heard tells of the batch some steps later.
fn of_log(state: &State, job: &Job) -> StatedSettings {
    let mut stated = state.run.telemetry.log_states(&state.monitor).clone();
    let Some(run) = state.run.telemetry.hooked(&state.monitor, state.now) else { return stated };
    if run.about.as_ref().is_some_and(|about| about.params_are_all) {
        (stated.params, stated.trainable, stated.layers, stated.hidden) = (None, None, None, None);
    }
    let told = ToldSettings::of(run, job);
    if told.tells(keys::training::precision) {
        (stated.weights, stated.compute) = (None, None);
    }
    if told.tells(keys::training::activation_checkpointing) {
        stated.checkpointing = None;
    }
    if told.tells(keys::training::micro_batch_size) {
        stated.micro_batch = None;
    }
    if told.tells(keys::training::gradient_accumulation_steps) {
        (stated.accumulation, stated.global_batch, stated.tokens) = (None, None, None);
    }
    if told.tells(keys::model::sequence_length) {
        stated.sequence = None;
    }
    stated
}

/// The model that runs, where its log counts other parameters than the plan has.
pub fn other_model(state: &State, job: &Job, prediction: &Prediction) -> Option<String> {
    let stated = &of_log(state, job);
    let by_name = state.plans.run.as_ref()?.plan().document()?.value("model.size_billions").is_none();
    let same_size = if by_name { SAME_SIZE } else { ABOUT_SAME_SIZE };
    if let Some(other) = by_name.then(|| shape(stated, job)).flatten() {
        return Some(other);
    }
    let planned = prediction.params;
    let within =
        |by: u64| move |count: u64, whole: u64| count.abs_diff(whole) as f64 <= same_size * whole as f64 + by as f64;
    let is = within(0);
    if let Some(all) = stated.params {
        let is = within(stated.params_within);
        // Adapters may be counted with the model or not.
        let base = all.saturating_sub(stated.trainable.filter(|trained| *trained < all).unwrap_or(0));
        // nanoGPT leaves the position embeddings out (`model.py`, `get_num_params`).
        let without_positions = planned.total.saturating_sub(position_table(job));
        let same = is(all, planned.total)
            || is(base, planned.total)
            || is(all, without_positions)
            || is(all, planned.total - planned.trainable);
        return (!same).then(|| {
            format!("{} parameters {BY_LOG}, the plan has {}", parameter_count(all), parameter_count(planned.total))
        });
    }
    let trained = stated.trainable?;
    // Under FSDP1 transformers counts what a rank holds of the flat parameters (`get_model_param_count`).
    let parts = [1, job.degrees.data, job.degrees.data * job.degrees.context, prediction.num_gpus];
    let same = parts.into_iter().any(|part| is(trained.saturating_mul(part.max(1)), planned.trainable));
    if same || (trained as f64) < ADAPTERS * planned.trainable as f64 {
        return None;
    }
    Some(format!(
        "{} trained parameters {BY_LOG}, the plan has {}",
        parameter_count(trained),
        parameter_count(planned.trainable)
    ))
}

/// Blocks and width, where a log states them and too little of the parameters: those of one pipeline stage tell nothing
/// of the others.
fn shape(stated: &StatedSettings, job: &Job) -> Option<String> {
    let decoder = job.decoder().filter(|_| stated.params.is_none())?;
    let (layers, hidden) = (stated.layers?, stated.hidden?);
    ((layers, hidden) != (decoder.layers, decoder.hidden)).then(|| {
        format!("{layers} layers of width {hidden} {BY_LOG}, the plan has {} of {}", decoder.layers, decoder.hidden)
    })
}

/// Parameters of the learned positions; 0 where there are none.
fn position_table(job: &Job) -> u64 {
    let learned = job.decoder().filter(|decoder| decoder.position == Position::Learned);
    let size = |decoder: &Decoder| Some(decoder.max_positions?.saturating_mul(decoder.hidden));
    learned.and_then(size).unwrap_or(0)
}

/// What the run does otherwise than its plan, as its log states: each in a few words, the last one with who says so.
pub fn other_settings(state: &State, job: &Job, prediction: &Prediction) -> Vec<String> {
    let stated = &of_log(state, job);
    let mut told: Vec<String> = [
        trained(stated, job, prediction),
        weights(stated, job),
        compute(stated, job),
        checkpointing(stated, job),
        samples(stated, job),
        sequence(stated, job),
    ]
    .into_iter()
    .flatten()
    .chain(degrees(stated, job))
    .collect();
    if let Some(last) = told.last_mut() {
        last.push_str(&format!(" ({BY_LOG})"));
    }
    told
}

/// Far fewer parameters are trained.
fn trained(stated: &StatedSettings, job: &Job, prediction: &Prediction) -> Option<String> {
    let trained = stated.trainable?;
    let planned = prediction.params.trainable;
    let parts = prediction.num_gpus.max(1);
    let few = (trained.saturating_mul(parts) as f64) < ADAPTERS * planned as f64;
    let but =
        if stated.params.is_some() { "adapters or frozen parts" } else { "another model, adapters or frozen parts" };
    if job.training.lora.is_some() {
        // Of a count that the log says is not of all nobody knows what else is trained.
        return other_adapters(trained, job, prediction).filter(|_| stated.params.is_some());
    }
    few.then(|| {
        format!("{} trained parameters, the plan {}: {but}", parameter_count(trained), parameter_count(planned))
    })
}

fn weights(stated: &StatedSettings, job: &Job) -> Option<String> {
    let stored = stated.weights?;
    let runs = match stored {
        StatedType::Fp32 => Element::F32,
        StatedType::Bf16 => Element::Bf16,
        StatedType::Fp16 => Element::F16,
    };
    (runs != job.storage.weight && job.training.lora.is_none())
        .then(|| format!("weights in {}, the plan's precision is {}", stored.name(), job.storage.precision.name()))
}

/// Whether matrices are multiplied in that type under a precision.
pub(super) fn computes_in(precision: Precision, runs: StatedType) -> bool {
    match precision {
        Precision::Fp32 | Precision::Tf32 => runs == StatedType::Fp32,
        Precision::Bf16Mixed | Precision::Bf16 | Precision::Bf16Fp32Master => runs == StatedType::Bf16,
        Precision::Fp16Mixed | Precision::Fp16 | Precision::Fp16Fp32Master => runs == StatedType::Fp16,
        // What is not multiplied in FP8 is in either.
        Precision::Fp8Mixed => runs != StatedType::Fp32,
    }
}

fn compute(stated: &StatedSettings, job: &Job) -> Option<String> {
    let runs = stated.compute?;
    let planned = job.storage.precision;
    (!computes_in(planned, runs))
        .then(|| format!("matrices in {}, the plan's precision is {}", runs.name(), planned.name()))
}

fn checkpointing(stated: &StatedSettings, job: &Job) -> Option<String> {
    use StatedCheckpointing as S;
    match (stated.checkpointing?, &job.training.checkpointing) {
        (S::Full | S::Selective, Checkpointing::None) => Some("activation checkpointing, the plan has none".to_owned()),
        (S::None, planned @ (Checkpointing::Full | Checkpointing::Selective | Checkpointing::Every(_))) => {
            Some(format!("no activation checkpointing, the plan has {planned}"))
        }
        (S::Full, Checkpointing::Selective) => {
            Some("full activation checkpointing, the plan's is selective".to_owned())
        }
        (S::Selective, Checkpointing::Full) => {
            Some("selective activation checkpointing, the plan's is full".to_owned())
        }
        _ => None,
    }
}

/// The batch, by its parts; by the whole where these are not stated or agree.
fn samples(stated: &StatedSettings, job: &Job) -> Option<String> {
    let batch = &job.batch;
    let differs = |runs: Option<u64>, planned: u64| runs.filter(|runs| *runs != planned);
    let parts = [
        differs(stated.micro_batch, batch.micro)
            .map(|runs| format!("micro batch {runs}, the plan's is {}", batch.micro)),
        differs(stated.accumulation, batch.accumulation)
            .map(|runs| format!("{}, the plan has {}", counted(runs, STEP, STEPS), grouped(batch.accumulation))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        return Some(parts.join("; "));
    }
    if let Some(runs) = differs(stated.global_batch, batch.global) {
        return Some(format!("{} samples a step, the plan {}", grouped(runs), grouped(batch.global)));
    }
    let planned = batch.tokens();
    // As many samples of another length: that is told by itself.
    let as_many = |tokens: u64| stated.sequence.is_some_and(|length| batch.global.checked_mul(length) == Some(tokens));
    let runs = differs(stated.tokens, planned).filter(|runs| job.decoder().is_some() && !as_many(*runs))?;
    Some(format!("{} tokens a step, the plan {}", grouped(runs), grouped(planned)))
}

fn sequence(stated: &StatedSettings, job: &Job) -> Option<String> {
    let runs = stated.sequence.filter(|runs| *runs != job.batch.sequence && job.decoder().is_some())?;
    Some(format!("samples of {} tokens, the plan of {}", grouped(runs), grouped(job.batch.sequence)))
}

/// How ranks share the model out. Without a world nobody says that the data-parallel degree differs; with one, the number
/// of GPUs does.
fn degrees(stated: &StatedSettings, job: &Job) -> impl Iterator<Item = String> {
    let planned = &job.degrees;
    let told = [
        ("tensor parallel", stated.tensor, planned.tensor),
        ("pipeline parallel", stated.pipeline, planned.pipeline),
        ("context parallel", stated.context, planned.context),
        ("expert parallel", stated.expert, planned.expert),
    ];
    let parts = told.into_iter().filter_map(|(name, runs, planned)| {
        let runs = runs.filter(|runs| *runs != planned)?;
        Some(format!("{name} {runs}, the plan {planned}"))
    });
    parts.chain(distributed_optimizer(stated, job))
}

/// Megatron's own flag: under it the optimizer's states are shared out (`--use-distributed-optimizer`).
fn distributed_optimizer(stated: &StatedSettings, job: &Job) -> Option<String> {
    let by_flag = has_flag(job);
    match (stated.distributed_optimizer.filter(|_| by_flag)?, job.degrees.sharding) {
        (true, Sharding::None) => Some("a distributed optimizer, the plan has none".to_owned()),
        (false, Sharding::Zero1) => Some("no distributed optimizer, the plan has one".to_owned()),
        _ => None,
    }
}

fn has_flag(job: &Job) -> bool {
    job.profile.support.own_keys.is.contains(&DISTRIBUTED_OPTIMIZER)
}

/// What the log states as the plan says it, by keys of a plan, each with every value of which it is true: no cause has
/// the run do otherwise.
pub fn as_planned(state: &State, job: &Job, prediction: &Prediction) -> Vec<(&'static str, String)> {
    let stated = &of_log(state, job);
    let mut told: Vec<(&'static str, String)> = Vec::new();
    let counts = stated.params.is_some() || stated.trainable.is_some_and(|_| job.training.lora.is_none());
    let is_of_shape =
        |decoder: &Decoder| (stated.layers, stated.hidden) == (Some(decoder.layers), Some(decoder.hidden));
    let known = counts || job.decoder().is_some_and(is_of_shape);
    if known && other_model(state, job, prediction).is_none() {
        told.push((keys::model::preset, job.architecture.name.clone()));
    }
    let numbers = [
        (keys::training::micro_batch_size, stated.micro_batch),
        (keys::training::gradient_accumulation_steps, stated.accumulation),
        (keys::model::batch_size, stated.global_batch),
        (keys::model::sequence_length, stated.sequence),
    ];
    told.extend(numbers.into_iter().filter_map(|(key, runs)| Some((key, runs?.to_string()))));
    if let Some(runs) = stated.compute.or(stated.weights) {
        let may_be = Precision::ALL.iter().filter(|one| computes_in(**one, runs));
        told.extend(may_be.map(|one| (keys::training::precision, one.name().to_owned())));
    }
    let words: &[&str] = match stated.checkpointing {
        Some(StatedCheckpointing::None) => &["none"],
        Some(StatedCheckpointing::Selective) => &["selective", "selective-op"],
        Some(StatedCheckpointing::Full) => &["full"],
        None => &[],
    };
    told.extend(words.iter().map(|word| (keys::training::activation_checkpointing, (*word).to_owned())));
    if let Some(runs) = stated.distributed_optimizer.filter(|_| has_flag(job)) {
        told.push((DISTRIBUTED_OPTIMIZER, runs.to_string()));
    }
    told
}

/// Whether the log says how many tokens a step has, and that the plan's has as many.
pub fn tokens_as_planned(state: &State, job: &Job) -> bool {
    of_log(state, job).tokens == Some(job.batch.tokens())
}
