//! Time of a step: operators on their roofs, collectives that nothing hides, and the
//! pipeline's bubble.

use super::cost::{Cost, peak};
use super::job::Job;
use super::prediction::StepTime;
use super::resident::Resident;
use super::step::Step;
use crate::catalog::Link;
use crate::model::{CollectiveKind, Input, RankGroup, Tape, Unit};
use crate::plan::keywords::{Mode, Sharding};
use crate::units::{BytesPerSec, Flops, Seconds};

/// Share of a link's rate that collectives reach: calculon, systems/a100_80g.json (NVLink 0.65, network 0.9).
const NODE_EFFICIENCY: f64 = 0.65;
const NETWORK_EFFICIENCY: f64 = 0.9;
/// Latency where the catalogue has none (calculon, systems/a100_80g.json).
const LATENCY: f64 = 20e-6;
/// Share of data-parallel traffic that the backward pass hides where it is overlapped: all but the last bucket
/// (PyTorch DDP, arXiv 2006.15704, and FSDP, arXiv 2304.11277, overlap by bucket and by layer).
const OVERLAPPED: f64 = 0.9;

struct Path<'a> {
    link: &'a Link,
    efficiency: f64,
}

/// The link that a group of `ranks` ranks, `stride` apart, talks over.
fn path<'a>(job: &'a Job, ranks: u64, stride: u64) -> Path<'a> {
    let hardware = &job.hardware;
    if ranks.saturating_mul(stride) <= hardware.node_gpus {
        Path { link: &hardware.interconnect, efficiency: NODE_EFFICIENCY }
    } else {
        Path { link: &hardware.network, efficiency: NETWORK_EFFICIENCY }
    }
}

/// A ring collective: latency and `scale` times the bytes, less one rank's share.
fn collective(path: &Path<'_>, bytes: f64, ranks: u64, scale: f64) -> f64 {
    if ranks < 2 {
        return 0.0;
    }
    let share = (ranks - 1) as f64 / ranks as f64;
    path.link.latency.map_or(LATENCY, |latency| latency.0)
        + bytes * scale * share / (path.link.each_way.0 * path.efficiency)
}

fn of_tape(job: &Job, tape: &Tape, train: bool) -> f64 {
    let degrees = &job.degrees;
    let each = tape.collectives.iter().map(|one| {
        let (ranks, stride) = match one.group {
            RankGroup::Tensor => (degrees.tensor, 1),
            RankGroup::Context => (degrees.context, degrees.tensor),
            RankGroup::Expert => (degrees.expert, degrees.expert_tensor),
        };
        let scale = if one.kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
        let runs = f64::from(one.forward) + if train { f64::from(one.backward) } else { 0.0 };
        runs * collective(&path(job, ranks, stride), one.bytes as f64, ranks, scale)
    });
    each.sum()
}

/// Collectives within the model, of one stage and a whole step.
fn within(job: &Job, step: &Step, layers: &[u64], ends: (bool, bool), train: bool) -> f64 {
    let mut seconds: f64 = layers.iter().map(|layer| of_tape(job, step.tape(*layer), train)).sum();
    if ends.0 {
        seconds += of_tape(job, &step.walk.first, train);
    }
    if ends.1 {
        seconds += of_tape(job, &step.walk.last, train);
    }
    if job.stages.len() > 1 {
        let bytes = job.batch.micro as f64
            * job.batch.sequence as f64
            * job.decoder().map_or(0, |decoder| decoder.hidden) as f64
            * 2.0;
        let cut = if job.degrees.sequence_parallel { job.degrees.tensor } else { 1 } * job.degrees.context;
        let stride = job.degrees.num_gpus / job.stages.len() as u64;
        let path = path(job, 2, stride);
        let one = LATENCY + bytes / cut as f64 / (path.link.each_way.0 * path.efficiency);
        seconds += one * if train { 4.0 } else { 2.0 } * job.degrees.virtual_pipeline as f64;
    }
    seconds * job.batch.accumulation as f64
}

/// Seconds of one micro-batch in layer `layer`: its kernels and the collectives within it.
pub(super) fn of_layer(job: &Job, step: &Step, layer: u64) -> f64 {
    let cost = super::cost::of_stage(job, step, &[layer], (false, false), &Resident::default());
    let kernels = (cost.compute.0 + cost.memory_bound.0) / job.batch.accumulation as f64;
    kernels + of_tape(job, step.tape(layer), job.training.mode == Mode::Train)
}

/// Data-parallel traffic of a step: what a rank's gradients and gathered weights cost.
fn between(job: &Job, resident: &Resident) -> f64 {
    let degrees = &job.degrees;
    let ranks = degrees.shard_ranks.max(degrees.data);
    let path = path(job, ranks, degrees.tensor);
    let gradients = resident.trained as f64 * job.storage.gradient.bytes() as f64;
    let weights = resident.params as f64 * job.storage.compute.bytes() as f64;
    match degrees.sharding {
        Sharding::None => collective(&path, gradients, ranks, 2.0),
        Sharding::Zero1 | Sharding::Zero2 => {
            collective(&path, gradients, ranks, 1.0) + collective(&path, weights, ranks, 1.0)
        }
        Sharding::Zero3 => {
            let passes = job.batch.accumulation as f64;
            passes * (2.0 * collective(&path, weights, ranks, 1.0) + collective(&path, gradients, ranks, 1.0))
        }
    }
}

/// The step's time and what comes of it.
pub(super) fn of_step(
    job: &Job,
    step: &Step,
    cost: &Cost,
    layers: &[u64],
    ends: (bool, bool),
    resident: &Resident,
) -> StepTime {
    let train = job.training.mode == Mode::Train;
    let kernels = cost.compute.0 + cost.memory_bound.0;
    let passes = kernels - cost.optimizer.0;
    let inner = within(job, step, layers, ends, train);
    let outer = if train { between(job, resident) } else { 0.0 };
    let hidden = (outer * OVERLAPPED).min(passes * 2.0 / 3.0);
    let communication = inner + outer - hidden;
    let stages = job.stages.len() as f64;
    let micro_batches = job.batch.accumulation as f64;
    // (p - 1) / (v m) of the time of the passes (arXiv 2104.04473, section 2.2).
    let bubble = (passes + inner) * (stages - 1.0) / (micro_batches * job.degrees.virtual_pipeline as f64);
    let seconds = kernels + communication + bubble;
    finish(job, cost, [seconds, communication, bubble])
}

fn finish(job: &Job, cost: &Cost, [seconds, communication, bubble]: [f64; 3]) -> StepTime {
    let input = job.architecture.input();
    let tokens = job.batch.tokens() as f64;
    let gpus = job.degrees.num_gpus as f64;
    let per_gpu = tokens / seconds / gpus;
    let train = job.training.mode == Mode::Train;
    // (6 N + 12 L h s) a token, N with embeddings (CONTRACT); a third of it is the forward pass.
    let seen = job.batch.sequence.saturating_add(job.batch.past) as f64;
    let attention = job
        .decoder()
        .map_or(0.0, |decoder| 12.0 * decoder.layers as f64 * (decoder.heads * decoder.head_dim) as f64 * seen);
    let share = if train { 1.0 } else { 1.0 / 3.0 };
    let (dense, _) = peak(job, Unit::Matrix(job.storage.compute));
    let own = cost.flops.forward + cost.flops.backward - cost.flops.recompute;
    // The formula is one of single stacks that read tokens; for others the operators of the walk are counted.
    let formula = matches!(input, Input::Tokens(_));
    let by_formula = (6.0 * job.params.active as f64 + attention) * share * per_gpu;
    let model_flops = if formula { by_formula } else { own.0 / seconds };
    let mfu = (formula && train && dense.0 > 0.0).then(|| model_flops / dense.0);
    let has_tokens = !matches!(input, Input::Image(..) | Input::Captioned(_));
    let again = if own.0 > 0.0 { 1.0 + cost.flops.recompute.0 / own.0 } else { 1.0 };
    let bytes = cost.traffic.total().as_f64();
    let hours = job.total_tokens.filter(|_| train && has_tokens).map(|all| all / (tokens / seconds) / 3600.0);
    StepTime {
        step: Seconds(seconds),
        compute: cost.compute,
        memory_bound: cost.memory_bound,
        communication: Seconds(communication),
        bubble: Seconds(bubble),
        tokens_per_s: has_tokens.then_some(tokens / seconds),
        tokens_per_s_per_gpu: has_tokens.then_some(per_gpu),
        samples_per_s: job.batch.global as f64 / seconds,
        model_flops_per_gpu: Flops(model_flops).per_second(),
        mfu,
        hfu: mfu.map(|mfu| mfu * again),
        bandwidth: BytesPerSec(bytes / seconds),
        mbu: bytes / seconds / job.hardware.gpu.bandwidth.0,
        total_hours: hours,
        total_cost: hours.zip(job.price_per_gpu_hour).map(|(hours, price)| hours * gpus * price),
    }
}

impl Flops {
    /// A count of operations in a second, as a rate.
    const fn per_second(self) -> crate::units::FlopsPerSec {
        crate::units::FlopsPerSec(self.0)
    }
}
