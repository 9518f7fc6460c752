//! What other models and engines hold on a GPU beside the model that trains.

use crate::plan::keywords::{GenerationBeside, Sharding};
use crate::predict::job::Job;
use crate::predict::job::optimizer::rounded;
use crate::predict::memory::StageRun;
use crate::predict::prediction::{Words, words};
use crate::units::Bytes;

/// Where an engine's part of the memory is read.
pub(in crate::predict) const ENGINE_SOURCE: &str =
    "vllm, config/cache.py, gpu_memory_utilization; device_allocator/cumem.py (sleep gives its memory back)";

/// Other frozen models: in the weights' type, shared out by the ranks that share out the weights.
pub(in crate::predict) fn frozen_models(job: &Job) -> Bytes {
    let degrees = &job.degrees;
    let split = degrees.tensor.saturating_mul(degrees.pipeline).max(1);
    let ranks = if degrees.sharding == Sharding::Zero3 { degrees.shard_ranks.max(1) } else { 1 };
    let own = job.training.companions.frozen.div_ceil(split.saturating_mul(ranks));
    Bytes(rounded(own.saturating_mul(job.storage.weight.bytes())))
}

/// Thousandths of the GPU's memory that an engine takes while it generates.
fn per_mille(job: &Job) -> u64 {
    // A share lies between 0 and 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    job.training.companions.generation.map_or(0, |engine| (engine.share * 1000.0).round() as u64)
}

fn engine(job: &Job) -> Bytes {
    Bytes(job.hardware.capacity.0 / 1000 * per_mille(job))
}

/// An engine's memory where it keeps that while the model trains.
pub(in crate::predict) fn standing_engine(job: &Job) -> Bytes {
    let stands = job.training.companions.generation.is_some_and(|engine| engine.beside == GenerationBeside::Step);
    if stands { engine(job) } else { Bytes::ZERO }
}

/// What an engine that sleeps while the model trains takes beyond the step's own `reserved` bytes once it wakes: what
/// the step held beyond the states is free by then.
pub(in crate::predict) fn woken_engine(job: &Job, run: &StageRun, reserved: u64) -> Bytes {
    let resident = &run.resident;
    let gradients = if resident.gradients_stay { resident.gradients } else { Bytes::ZERO };
    let beside = match job.training.companions.generation.map(|engine| engine.beside) {
        None | Some(GenerationBeside::Step) => return Bytes::ZERO,
        Some(GenerationBeside::States) => resident.lasting() + gradients,
        Some(GenerationBeside::Nothing) => Bytes::ZERO,
    };
    (engine(job) + beside).saturating_sub(Bytes(reserved))
}

/// How an engine's bytes come about.
pub(in crate::predict) fn engine_formula(job: &Job) -> Words {
    let Some(engine) = job.training.companions.generation else { return Words::NONE };
    let part = words![per_mille(job), " / 1000 of ", job.hardware.capacity];
    match engine.beside {
        GenerationBeside::Step => part,
        GenerationBeside::States => part.then(words![" beside the states, beyond the step's own peak"]),
        GenerationBeside::Nothing => part.then(words![" alone, beyond the step's own peak"]),
    }
}
