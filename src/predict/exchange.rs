//! What a step's collectives cost beyond what runs beside them.

use super::cost::Pass;
use super::job::Job;
use super::link::Group;
use super::play::Recompute;
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
    pub dense: f64,
    pub expert: f64,
}

impl Weights {
    pub fn of(tape: &Tape) -> Self {
        let mut weights = Self::default();
        for weight in tape.weights.iter().filter(|weight| !weight.tied && weight.trained) {
            let count = weight.numel.saturating_mul(weight.copies) as f64;
            if weight.part == Part::Expert {
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
    let gather = group.seconds(job, CollectiveKind::AllGather, count * job.storage.compute.bytes() as f64);
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
        Sharding::Zero3 => return 0.0,
        Sharding::None => (over(CollectiveKind::AllReduce, gradient), 0.0),
        Sharding::Zero1 | Sharding::Zero2 => {
            let weight = if job.framework == Framework::Megatron { weight } else { job.storage.compute.bytes() as f64 };
            (over(CollectiveKind::AllGather, gradient), over(CollectiveKind::AllGather, weight))
        }
    };
    waits(gradients, pass.backward, job.speed.overlap_gradients)
        + waits(gathered, pass.forward, job.speed.overlap_weights)
}
