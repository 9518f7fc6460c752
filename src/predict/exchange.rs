//! What a step's collectives cost beyond what runs beside them.

use super::cost::Pass;
use super::job::Job;
use super::link::Group;
use super::play::Recompute;
use super::resident::quantised;
use super::step::Step;
use crate::model::{CollectiveKind, Part, RankGroup, Tape};
use crate::plan::keywords::{Framework, Sharding};

/// Share of data-parallel traffic that can run beside the passes: all but the last bucket
/// (PyTorch DDP, arXiv 2006.15704, and FSDP, arXiv 2304.11277, overlap by bucket and by layer).
const OVERLAPPED: f64 = 0.9;
/// Share that is left to wait for of tensor-parallel collectives that run in pieces beside the products they feed
/// (Transformer Engine's userbuffers and torch's async tensor parallel: the first piece, and what the products miss).
const PIECES: f64 = 0.35;

/// Parameters of a tape on this rank: those of experts have ranks of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weights {
    /// Trained, outside of experts.
    pub dense: f64,
    /// Trained, of experts.
    pub expert: f64,
    /// Bytes of those that are not trained, as they are gathered.
    pub frozen: f64,
}

impl Weights {
    pub fn of(job: &Job, tape: &Tape) -> Self {
        let mut weights = Self::default();
        for weight in tape.weights.iter().filter(|weight| !weight.tied) {
            let count = weight.numel.saturating_mul(weight.copies) as f64;
            if !weight.trained {
                let gathered = job.storage.compute.bytes() as f64;
                weights.frozen += count * quantised(job, weight).map_or(gathered, |each| each as f64 / 1000.0);
            } else if weight.part == Part::Expert {
                weights.expert += count;
            } else {
                weights.dense += count;
            }
        }
        weights
    }

    pub fn add(&mut self, other: Self) {
        self.dense += other.dense;
        self.expert += other.expert;
        self.frozen += other.frozen;
    }
}

/// Seconds that a micro-batch waits for collectives within the model, in one tape.
pub(super) fn within(job: &Job, step: &Step, tape: &Tape, pass: &Pass, (train, again): (bool, bool)) -> f64 {
    let degrees = &job.degrees;
    let whole = again && !tape.plain && matches!(step.recompute, Recompute::All);
    let each = tape.collectives.iter().map(|one| {
        let group = match one.group {
            RankGroup::Tensor => Group { ranks: degrees.tensor, stride: 1 },
            RankGroup::Context => Group { ranks: degrees.context, stride: degrees.tensor },
            RankGroup::Expert => Group { ranks: degrees.expert, stride: degrees.expert_tensor },
        };
        let once = group.seconds(job, one.kind, one.bytes as f64);
        let forward = f64::from(one.forward) * once * if whole { 2.0 } else { 1.0 };
        let backward = if train { f64::from(one.backward) * once } else { 0.0 };
        exposed(job, one.group, (forward, backward), pass)
    });
    each.sum()
}

/// What of a group's collectives nothing hides.
fn exposed(job: &Job, group: RankGroup, (forward, backward): (f64, f64), pass: &Pass) -> f64 {
    let stack = &job.speed.stack;
    let beside = |hidden: f64| hidden * stack.contention;
    match group {
        RankGroup::Tensor if job.speed.overlap_tensor => {
            let all = forward + backward;
            all * PIECES + beside(all * (1.0 - PIECES))
        }
        RankGroup::Tensor => {
            let hidden = backward * stack.tensor_overlap;
            forward + backward - hidden + beside(hidden)
        }
        RankGroup::Expert if job.speed.overlap_experts => {
            let computing = pass.forward + pass.backward;
            let all = forward + backward;
            (all - computing).max(0.0) + beside(all.min(computing))
        }
        RankGroup::Expert => forward + backward,
        // Keys and values of the next block come in while this one's scores are computed.
        RankGroup::Context => {
            let (computing, back) = pass.attention;
            (forward - computing).max(0.0)
                + (backward - back).max(0.0)
                + beside(forward.min(computing) + backward.min(back))
        }
    }
}

/// Seconds that a micro-batch waits for a fully sharded tape: its weights are gathered while the tape before it
/// computes, its gradients scattered while the next does.
pub(super) fn sharded(job: &Job, weights: Weights, pass: &Pass, train: bool) -> f64 {
    let degrees = &job.degrees;
    let group = Group { ranks: degrees.shard_ranks, stride: degrees.tensor };
    let count = weights.dense + weights.expert;
    let gathered = count.mul_add(job.storage.compute.bytes() as f64, weights.frozen);
    let gather = group.seconds(job, CollectiveKind::AllGather, gathered);
    let (before, after) = match (job.degrees.sharding, train) {
        (Sharding::Zero3, true) => {
            let scatter = group.seconds(job, CollectiveKind::AllGather, count * job.storage.reduce.bytes() as f64);
            (gather, gather + scatter)
        }
        (Sharding::Zero3, false) => (gather, 0.0),
        _ => (0.0, 0.0),
    };
    let waits = |comm: f64, computing: f64| {
        let hidden = comm.min(computing);
        comm - hidden + hidden * job.speed.stack.contention
    };
    waits(before, pass.forward) + waits(after, pass.backward)
}

/// Seconds in which groups that each hold all of the weights sum their gradients (FSDP's hybrid sharding,
/// arXiv 2304.11277, section 3.2.2).
fn replicated(job: &Job, weights: Weights) -> f64 {
    let degrees = &job.degrees;
    let reduce = job.storage.reduce.bytes() as f64;
    let over = |ranks: u64, stride: u64, shards: u64, count: f64| {
        let group = Group { ranks: ranks / shards.max(1), stride: stride.saturating_mul(shards) };
        group.seconds(job, CollectiveKind::AllReduce, count / shards.max(1) as f64 * reduce)
    };
    let ranks = degrees.data.saturating_mul(degrees.context);
    let of_experts = degrees.expert.saturating_mul(degrees.expert_tensor);
    let replicas = ranks.saturating_mul(degrees.tensor) / of_experts.max(1);
    over(ranks, degrees.tensor, degrees.shard_ranks, weights.dense)
        + over(replicas, of_experts, degrees.expert_shard_ranks, weights.expert)
}

/// Seconds that a step waits for the data-parallel exchange of a stage's gradients and weights, once a step; the
/// passes of one micro-batch run beside it.
pub(super) fn between(job: &Job, weights: Weights, pass: &Pass) -> f64 {
    let degrees = &job.degrees;
    let dense = Group { ranks: degrees.shard_ranks.max(degrees.data * degrees.context), stride: degrees.tensor };
    let experts = Group { ranks: degrees.expert_shard_ranks, stride: degrees.expert * degrees.expert_tensor };
    let over = |kind: CollectiveKind, bytes: f64| {
        dense.seconds(job, kind, weights.dense * bytes)
            + if weights.expert > 0.0 { experts.seconds(job, kind, weights.expert * bytes) } else { 0.0 }
    };
    let gradient = job.storage.exchanged.bytes() as f64;
    let weight = job.storage.weight.bytes() as f64;
    let waits = |comm: f64, computing: f64, overlaps: bool| {
        let hidden = if overlaps { (comm * OVERLAPPED).min(computing) } else { 0.0 };
        comm - hidden + hidden * job.speed.stack.contention
    };
    let (gradients, gathered) = match degrees.sharding {
        // Within a group gradients are scattered layer by layer; its share is then summed over the other groups.
        Sharding::Zero3 => (replicated(job, weights), 0.0),
        Sharding::None => (over(CollectiveKind::AllReduce, gradient), 0.0),
        Sharding::Zero1 | Sharding::Zero2 => {
            let weight = if job.framework == Framework::Megatron { weight } else { job.storage.compute.bytes() as f64 };
            (over(CollectiveKind::AllGather, gradient), over(CollectiveKind::AllGather, weight))
        }
    };
    waits(gradients, pass.backward, job.speed.overlap_gradients)
        + waits(gathered, pass.forward, job.speed.overlap_weights)
}
