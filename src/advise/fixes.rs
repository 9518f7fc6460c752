//! Changes that may help a plan, cheapest first, each with its effect computed by predicting the changed plan.

use rayon::prelude::*;

use super::follow::give_way;
use super::walls::throughput;
use crate::catalog::Catalog;
use crate::plan::keywords::{Attention, CpuOffload, Framework, Loss, Mode, Optimizer, Precision, Sharding};
use crate::plan::{Change, Checkpointing, Overlay, Plan};
use crate::predict::{Job, Outline, Verdict, outline};
use crate::units::{SignedBytes, three_figures};

/// A change with its effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Fix {
    /// What it is, in a few words.
    pub name: String,
    /// What it changes in the plan's text.
    pub change: Change,
    /// The figures of the changed plan.
    pub outline: Outline,
    /// Against the plan as it is.
    pub memory: SignedBytes,
    /// Throughput of the changed plan over that of the plan as it is, less 1.
    pub speed: f64,
    /// The changed plan fits.
    pub fits: bool,
}

impl Fix {
    /// Name and effect in a line: `checkpointing full: -41.0 GiB, 24 % slower; fits`.
    #[must_use]
    pub fn line(&self, before: &Outline) -> String {
        let speed = self.speed * 100.0;
        let speed = if speed.abs() < 0.5 {
            "as fast".to_owned()
        } else if speed < 0.0 {
            // Half as fast takes twice as long: what a step takes is what people compare.
            format!("{} % more time", three_figures(100.0 * (1.0 / (1.0 + self.speed) - 1.0)))
        } else {
            format!("{} % faster", three_figures(speed))
        };
        let fits = match (before.capacity.verdict(), self.outline.capacity.verdict()) {
            (Verdict::DoesNotFit, Verdict::Fits) => "; fits",
            (Verdict::DoesNotFit, Verdict::Tight) => "; fits, tight",
            (Verdict::DoesNotFit, Verdict::DoesNotFit) => "; does not fit yet",
            (_, Verdict::DoesNotFit) => "; does not fit any more",
            _ => "",
        };
        format!("{}: {}, {speed}{fits}", self.name, self.memory)
    }
}

/// Every change that is possible and does something, cheapest first: what costs nothing before what costs time,
/// what costs time before what costs GPUs' links.
#[must_use]
pub fn fixes(plan: &Plan, job: &Job, before: &Outline, catalog: &Catalog) -> Vec<Fix> {
    let candidates = candidates(plan, job);
    candidates.into_par_iter().filter_map(|(name, change)| fix(plan, before, catalog, name, change)).collect()
}

fn fix(plan: &Plan, before: &Outline, catalog: &Catalog, name: String, change: Change) -> Option<Fix> {
    let mut change = change;
    let keys: Vec<&str> = change.set.iter().map(|(key, _)| *key).collect();
    let gone = give_way(plan, &keys);
    change.remove.extend(gone);
    let mut changed = plan.clone();
    Overlay::read(&change, std::path::Path::new("")).ok()?.apply(&mut changed);
    let job = Job::resolve(&changed, catalog).ok()?;
    let outline = outline(&job);
    let memory = outline.capacity.needed - before.capacity.needed;
    let speed = throughput(&outline) / throughput(before) - 1.0;
    // A change that does nothing is none.
    let nothing = memory.magnitude().as_f64() < 1e-3 * before.capacity.needed.as_f64() && speed.abs() < 1e-3;
    let fits = outline.capacity.needed <= outline.capacity.bytes;
    (!nothing).then_some(Fix { name, change, outline, memory, speed, fits })
}

/// In the order of their cost.
fn candidates(plan: &Plan, job: &Job) -> Vec<(String, Change)> {
    let mut all = Vec::new();
    batch(job, &mut all);
    if job.training.mode == Mode::Train {
        kernels(job, &mut all);
        recomputation(job, &mut all);
        states(job, &mut all);
        sharding(plan, job, &mut all);
    } else if job.storage.kv_cache.is_none() && job.training.use_cache {
        all.push(("KV cache in fp8".to_owned(), Change::to("training.kv_cache_dtype", "fp8")));
    }
    degrees(plan, job, &mut all);
    offload(job, &mut all);
    all
}

type Candidates = Vec<(String, Change)>;

/// The same batch in other pieces.
fn batch(job: &Job, all: &mut Candidates) {
    let each = job.batch.global / job.degrees.data.max(1);
    let change = |micro: u64| {
        Change::to("training.micro_batch_size", micro.to_string()).and("model.batch_size", job.batch.global.to_string())
    };
    let micro = job.batch.micro;
    let smaller = (1..micro).rev().filter(|smaller| each.is_multiple_of(*smaller));
    for smaller in smaller.take(2).chain((micro > 1).then_some(1)) {
        all.push((format!("micro batch {smaller}, accumulated"), change(smaller)));
    }
    let larger = (micro + 1..=each).find(|larger| each.is_multiple_of(*larger));
    all.extend(larger.map(|larger| (format!("micro batch {larger}"), change(larger))));
    all.dedup_by(|a, b| a.1 == b.1);
}

/// Kernels that keep less.
fn kernels(job: &Job, all: &mut Candidates) {
    let training = &job.training;
    if training.attention != Attention::Flash && job.decoder().is_some() {
        all.push(("fused attention".to_owned(), Change::to("training.attention", "flash")));
    }
    let loss = match (job.framework, training.loss) {
        (Framework::Megatron, Loss::VocabParallel) => Some(Loss::VocabParallelFused),
        (_, Loss::Hf | Loss::Plain) => Some(Loss::Fused),
        _ => None,
    };
    all.extend(loss.map(|loss| ("fused loss".to_owned(), Change::to("training.loss", loss.name()))));
    if !training.compile && matches!(job.framework, Framework::Pytorch | Framework::Torchtitan | Framework::Nanogpt) {
        all.push(("torch.compile".to_owned(), Change::to("training.compile", "true")));
    }
    let precision = match job.storage.precision {
        Precision::Fp32 | Precision::Tf32 => Some(Precision::Bf16Mixed),
        Precision::Bf16Fp32Master | Precision::Bf16Mixed if job.hardware.gpu.peaks.fp8.is_some() => {
            Some(Precision::Fp8Mixed)
        }
        _ => None,
    };
    all.extend(
        precision
            .map(|precision| (format!("precision {precision}"), Change::to("training.precision", precision.name()))),
    );
}

fn recomputation(job: &Job, all: &mut Candidates) {
    let selective =
        if job.framework == Framework::Torchtitan { Checkpointing::SelectiveOp } else { Checkpointing::Selective };
    let further = match job.training.checkpointing {
        Checkpointing::None => vec![selective, Checkpointing::Full],
        Checkpointing::Full => vec![Checkpointing::None, selective],
        _ => vec![Checkpointing::None, Checkpointing::Full],
    };
    for way in further {
        all.push((format!("checkpointing {way}"), Change::to("training.activation_checkpointing", way.to_string())));
    }
}

fn states(job: &Job, all: &mut Candidates) {
    let adam = matches!(job.training.optimizer, Optimizer::Adamw | Optimizer::AdamwFused | Optimizer::AdamwLoop);
    if adam && job.framework != Framework::Megatron {
        all.push(("8-bit optimizer".to_owned(), Change::to("training.optimizer", Optimizer::Adamw8bit.name())));
    }
    if job.training.optimizer == Optimizer::Adamw {
        all.push(("fused optimizer".to_owned(), Change::to("training.optimizer", Optimizer::AdamwFused.name())));
    }
}

fn sharding(plan: &Plan, job: &Job, all: &mut Candidates) {
    let degrees = &job.degrees;
    if degrees.data * degrees.context < 2 {
        return;
    }
    let possible: &[Sharding] = match job.framework {
        Framework::Megatron => &[Sharding::None, Sharding::Zero1],
        _ => Sharding::ALL,
    };
    for sharding in possible.iter().filter(|sharding| **sharding != degrees.sharding) {
        let mut change = Change::to("distribution.sharding", sharding.name());
        if plan.training.distributed_optimizer.is_some() {
            change.remove.push("training.distributed_optimizer");
        }
        all.push((format!("sharding {sharding}"), change));
    }
}

/// Degrees doubled and halved: replicas follow.
fn degrees(plan: &Plan, job: &Job, all: &mut Candidates) {
    let degrees = &job.degrees;
    if degrees.tensor > 1 && !degrees.sequence_parallel && job.training.mode == Mode::Train {
        all.push(("sequence parallel".to_owned(), Change::to("distribution.sequence_parallel", "true")));
    }
    let keys = [
        ("tensor parallel", "distribution.tensor_parallel", degrees.tensor),
        ("pipeline parallel", "distribution.pipeline_parallel", degrees.pipeline),
        ("context parallel", "distribution.context_parallel", degrees.context),
    ];
    for (name, key, now) in keys {
        for to in [now * 2, now / 2].into_iter().filter(|to| *to > 0) {
            let within = degrees.tensor * degrees.pipeline * degrees.context / now * to;
            let cuts = key != keys[2].1 || job.batch.sequence.is_multiple_of(2 * to);
            if !degrees.num_gpus.is_multiple_of(within) || !cuts {
                continue;
            }
            let mut change = Change::to(key, to.to_string());
            let replicas = degrees.num_gpus / within;
            if plan.distribution.data_parallel.is_some() {
                change = change.and("distribution.data_parallel", replicas.to_string());
            }
            if plan.cluster.num_gpus.is_none() {
                change = change.and("cluster.num_gpus", degrees.num_gpus.to_string());
            }
            all.push((format!("{name} {to}"), change));
        }
    }
    let layers = job.architecture.layers();
    if degrees.pipeline > 1 && job.training.mode == Mode::Train {
        let more = (degrees.virtual_pipeline + 1..=layers / degrees.pipeline)
            .find(|chunks| layers.is_multiple_of(degrees.pipeline * chunks));
        all.extend(more.map(|chunks| {
            (format!("{chunks} chunks a stage"), Change::to("distribution.virtual_pipeline", chunks.to_string()))
        }));
    }
}

fn offload(job: &Job, all: &mut Candidates) {
    let possible: &[CpuOffload] = match job.training.mode {
        Mode::Train => &[CpuOffload::Optimizer, CpuOffload::Activations, CpuOffload::Parameters],
        Mode::Inference => &[CpuOffload::Parameters],
    };
    if job.training.cpu_offload == CpuOffload::None {
        for what in possible {
            all.push((format!("offload of {what}"), Change::to("training.cpu_offload", what.name())));
        }
    }
}
