//! What the hook tells of the run's batch: samples and length of a pass, and passes of a step.

use super::settings::ToldSetting;
use crate::compare::SAME_TOKENS;
use crate::model::ModelShape;
use crate::plan::keys;
use crate::predict::Job;
use crate::reading::{HookModules, InputShape};
use crate::units::{counted, grouped};

/// All of it, where `tokens` are those of each step.
pub(super) fn told(modules: Option<&HookModules>, tokens: Option<u64>, job: &Job) -> impl Iterator<Item = ToldSetting> {
    let batch = modules.and_then(|modules| input_shape(modules, tokens, job));
    let told = [
        batch.map(|batch| samples(batch, job)),
        batch.and_then(|batch| length(batch, job)),
        tokens.and_then(|tokens| passes(tokens, batch, job)).or_else(|| counted_passes(modules?, job)),
    ];
    told.into_iter().flatten()
}

/// What the model took in a pass; none where ranks share out a sample.
fn input_shape(modules: &HookModules, tokens: Option<u64>, job: &Job) -> Option<InputShape> {
    let degrees = &job.degrees;
    if degrees.tensor * degrees.pipeline * degrees.context > 1 {
        return None;
    }
    match job.architecture.shape {
        // The samples alone are told.
        _ if is_tape_of_rows(job) => {
            InputShape::of_images(modules).filter(|images| takes_samples(modules, images.samples))
        }
        _ if job.batch.image == 0 => InputShape::of_tokens(modules, tokens),
        ModelShape::Encoder(_) | ModelShape::ResidualNet(_) => InputShape::of_images(modules),
        // What denoises counts its latents, and an image encoder beside it takes the pixels.
        _ => None,
    }
}

/// Whether the plan's model is a tape whose samples have neither tokens nor a side of their own.
fn is_tape_of_rows(job: &Job) -> bool {
    matches!(job.architecture.shape, ModelShape::Traced(_)) && job.batch.image == 0 && job.batch.sequence <= 1
}

/// Whether the model itself took a tensor of so many rows, one a sample: a layer inside may see frames or patches as such.
fn takes_samples(modules: &HookModules, samples: u64) -> bool {
    modules.kinds.iter().any(|kind| kind.name.is_empty() && kind.shape.first() == Some(&samples))
}

/// Whether a pass may be the samples of a micro batch in one row, behind each other, as loaders write them that pad nothing
/// (transformers, `DataCollatorWithFlattening`; TRL, `packing`).
fn is_joined(batch: InputShape, job: &Job) -> bool {
    let (micro, sequence) = (job.batch.micro, job.batch.sequence);
    let is_row = job.batch.image == 0 && batch.samples == 1 && micro > 1 && sequence > 0;
    is_row && batch.length > sequence && batch.length.is_multiple_of(sequence)
}

fn samples(batch: InputShape, job: &Job) -> ToldSetting {
    let (runs, planned) = (batch.samples, job.batch.micro);
    if is_joined(batch, job) {
        let key = keys::training::micro_batch_size;
        let words = || {
            let (length, sequence) = (grouped(batch.length), grouped(job.batch.sequence));
            format!(
                "a micro batch of {length} tokens in one row, the plan's is {} samples of {sequence}",
                grouped(planned)
            )
        };
        return if batch.length == planned.saturating_mul(job.batch.sequence) {
            ToldSetting::number(key, planned, planned, words)
        } else {
            ToldSetting::otherwise(key, words())
        };
    }
    let words = || format!("micro batch {}, the plan's is {}", grouped(runs), grouped(planned));
    ToldSetting::number(keys::training::micro_batch_size, runs, planned, words)
}

fn length(batch: InputShape, job: &Job) -> Option<ToldSetting> {
    if is_tape_of_rows(job) {
        return None;
    }
    let runs = batch.length;
    if job.batch.image > 0 {
        let planned = job.batch.image;
        let words = || format!("images of {runs} pixels a side, the plan's have {planned}");
        return Some(ToldSetting::number(keys::model::image_size, runs, planned, words));
    }
    if is_joined(batch, job) {
        return None;
    }
    // What a decoder reads beside an encoder may be what the embedding saw.
    let planned = job.batch.sequence;
    let words = || format!("sequences of {runs} tokens, the plan's have {planned}");
    (planned > 0 && job.batch.target != runs)
        .then(|| ToldSetting::number(keys::model::sequence_length, runs, planned, words))
}

/// Passes of a step as the hook has counted them, of a model that takes no tokens.
fn counted_passes(modules: &HookModules, job: &Job) -> Option<ToldSetting> {
    let (runs, planned) = (modules.passes?, job.batch.accumulation);
    let whole = job.degrees.tensor == 1 && job.degrees.pipeline == 1 && job.degrees.context == 1;
    // Of ids the tokens of a step tell more.
    let takes_tokens = job.decoder().is_some() && job.batch.image == 0;
    (whole && !takes_tokens).then(|| passes_setting(runs, planned))
}

fn passes_setting(runs: u64, planned: u64) -> ToldSetting {
    let words = || format!("{} a step, the plan {}", counted(runs, "pass", "passes"), grouped(planned));
    ToldSetting::number(keys::training::gradient_accumulation_steps, runs, planned, words)
}

/// Passes of a step on one GPU, by the tokens of both; tokens alone where no pass was looked into.
fn passes(runs: u64, batch: Option<InputShape>, job: &Job) -> Option<ToldSetting> {
    let planned = &job.batch;
    let key = keys::training::gradient_accumulation_steps;
    let whole = job.degrees.tensor == 1 && job.degrees.pipeline == 1 && job.decoder().is_some() && planned.sequence > 0;
    if !whole {
        return None;
    }
    if let Some(passes) = batch.filter(|_| planned.target == 0).and_then(|batch| batch.passes(runs)) {
        return Some(passes_setting(passes, planned.accumulation));
    }
    let expected = tokens_of_rank(job);
    let words = format!("{} tokens a step and GPU, the plan {}", grouped(runs), grouped(expected));
    (!are_as_many(runs, expected)).then_some(ToldSetting::otherwise(key, words))
}

/// Tokens of a step on one GPU, as planned.
fn tokens_of_rank(job: &Job) -> u64 {
    let planned = &job.batch;
    planned.micro * planned.accumulation * planned.sequence / job.degrees.context.max(1)
}

fn are_as_many(runs: u64, planned: u64) -> bool {
    (runs as f64 / planned.max(1) as f64 - 1.0).abs() <= SAME_TOKENS
}

/// Whether the tokens of a step on one GPU are as many as planned.
pub(super) fn tokens_are_as_planned(tokens: Option<u64>, job: &Job) -> bool {
    job.decoder().is_some() && tokens.is_some_and(|runs| are_as_many(runs, tokens_of_rank(job)))
}
