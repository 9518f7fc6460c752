//! What a step's collectives cost beyond what runs beside them.

use crate::framework::WholeBuckets;
use crate::model::{CONTEXT_PAIR, Collective, CollectiveKind, Element, Part, RankGroup, Tape, is_covered};
use crate::plan::keywords::{Engine, Sharding};
use crate::predict::job::Job;
use crate::predict::memory::few_bits::quantised;
use crate::predict::step::accumulates_whole;
use crate::predict::step::pipeline::is_whole;
use crate::predict::step::play::Recompute;
use crate::predict::time::cost::Pass;
use crate::predict::time::hidden::hides;
use crate::predict::time::link::{LinkGroup, Volume};
use crate::predict::time::pass_costs::PassCosts;
use crate::predict::time::terms::Exchange;
use crate::units::Seconds;

/// Parameters of a tape on this rank: those of experts have ranks of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct Weights {
    /// Trained, outside of experts.
    pub dense: f64,
    /// Trained, of experts.
    pub expert: f64,
    /// Bytes of those that are not trained, as they are gathered.
    pub frozen: f64,
    /// Of the trained ones outside of experts, and of experts, those that are gathered in FP8 (torchao, float8/fsdp_utils.py,
    /// `WeightWithDynamicFloat8CastTensor`; Megatron's --fp8-param-gather).
    in_fp8: [f64; 2],
}

impl Weights {
    pub fn of(job: &Job, tape: &Tape) -> Self {
        let mut weights = Self::default();
        for weight in tape.weights.iter().filter(|weight| !weight.tied) {
            let count = weight.numel.saturating_mul(weight.copies) as f64;
            let in_fp8 = job.storage.fp8_weights && is_covered(weight.part) && weight.numel > weight.rows;
            let in_fp8 = if in_fp8 { count } else { 0.0 };
            if !weight.trained {
                let gathered = job.storage.compute.bytes() as f64;
                weights.frozen += count * quantised(job, weight).map_or(gathered, |few| few.gathered() as f64 / 1000.0);
            } else if weight.part == Part::Expert {
                weights.expert += count;
                weights.in_fp8[1] += in_fp8;
            } else {
                weights.dense += count;
                weights.in_fp8[0] += in_fp8;
            }
        }
        weights
    }

    pub fn add(&mut self, other: Self, count: f64) {
        self.dense += other.dense * count;
        self.expert += other.expert * count;
        self.frozen += other.frozen * count;
        for (all, more) in self.in_fp8.iter_mut().zip(other.in_fp8) {
            *all += more * count;
        }
    }

    /// Bytes of the trained ones outside of experts, and of experts, at so many each.
    fn bytes(&self, each: f64) -> [f64; 2] {
        [self.dense * each, self.expert * each]
    }

    /// Bytes of all of the trained ones, at so many each.
    pub fn whole(self, each: f64) -> f64 {
        self.bytes(each).iter().sum()
    }

    /// The same as they are gathered, where those that are not in FP8 have so many each.
    fn gathered(&self, each: f64) -> [f64; 2] {
        let [dense, expert] = self.bytes(each);
        let spared = self.in_fp8.map(|count| count * (each - Element::Fp8.bytes() as f64));
        [dense - spared[0], expert - spared[1]]
    }

    /// Bytes of all of them as they are gathered, trained or not.
    pub fn all_gathered(&self, each: f64) -> f64 {
        self.gathered(each).iter().sum::<f64>() + self.frozen
    }
}

/// Collectives beside one micro-batch.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct OverlappedCollectives {
    /// Waiting for them.
    pub waits: PassCosts,
    /// What they take in all, hidden or not.
    pub comm: PassCosts,
    /// Of the passes, what hides some: it hides no others.
    hides: PassCosts,
}

impl OverlappedCollectives {
    /// Collectives that nothing hides.
    pub fn bare(waits: PassCosts) -> Self {
        Self { waits, comm: waits, hides: PassCosts::default() }
    }

    /// Collectives of which `hides` run behind the passes and delay them.
    fn of(job: &Job, comm: PassCosts, hides: PassCosts) -> Self {
        Self { waits: comm - hides + hides * job.speed.stack.contention, comm, hides }
    }

    pub fn add(&mut self, other: Self, count: f64) {
        self.waits += other.waits * count;
        self.comm += other.comm * count;
        self.hides += other.hides * count;
    }

    /// What is left of a pass to hide other collectives.
    pub fn left(&self, card: PassCosts) -> PassCosts {
        card.beyond(self.hides)
    }
}

/// Collectives within the model that one micro-batch runs in one tape.
pub(in crate::predict) fn within(
    job: &Job,
    tape: &Tape,
    pass: &Pass,
    flags: (bool, Recompute),
) -> OverlappedCollectives {
    each_within(job, tape, pass, flags, |_, _, _, _, _| ())
}

/// The same; each collective, its group, its runs, what they take and what is waited for of it are told as it is added.
pub(in crate::predict) fn each_within(
    job: &Job,
    tape: &Tape,
    pass: &Pass,
    (train, again): (bool, Recompute),
    mut tell: impl FnMut(&Collective, LinkGroup, f64, PassCosts, PassCosts),
) -> OverlappedCollectives {
    let (degrees, recompute) = (&job.degrees, if tape.plain { Recompute::Nothing } else { again });
    // Where recomputation stops early nothing asks for what the tape's last scatter brings.
    let last = tape.collectives.iter().rposition(|one| one.kind == CollectiveKind::ReduceScatter);
    let unasked = last.filter(|_| !(job.modules.reruns_all.is || tape.reruns_all));
    let mut all = OverlappedCollectives::default();
    for (at, one) in tape.collectives.iter().enumerate() {
        let group = match one.group {
            RankGroup::Tensor => LinkGroup { ranks: degrees.tensor, stride: 1 },
            RankGroup::Context => LinkGroup { ranks: degrees.context, stride: degrees.tensor },
            RankGroup::ContextPair => LinkGroup { ranks: CONTEXT_PAIR, stride: degrees.tensor },
            RankGroup::ContextPairs => {
                LinkGroup { ranks: degrees.context / CONTEXT_PAIR, stride: degrees.tensor.saturating_mul(CONTEXT_PAIR) }
            }
            RankGroup::Expert => LinkGroup { ranks: degrees.expert, stride: degrees.expert_tensor },
        };
        let once = group.seconds(job, one.kind, one.bytes as f64);
        let forward = f64::from(one.forward) * once;
        let backward = if train { f64::from(one.backward) * once } else { Seconds::ZERO };
        let runs_again = match recompute {
            Recompute::All => unasked != Some(at),
            // torchtitan keeps what other collectives bring (distributed/activation_checkpoint.py, `_save_list`).
            Recompute::SelectiveOp { .. } => one.kind == CollectiveKind::AllGather,
            Recompute::Nothing | Recompute::Modules(_) => false,
        };
        let again = if runs_again { forward } else { Seconds::ZERO };
        let left = Pass { card: all.left(pass.card), ..*pass };
        let hides = hides(job, (one.group, one.kind), (PassCosts { forward, backward }, again), &left);
        let mut added = OverlappedCollectives::of(job, PassCosts { forward, backward: backward + again }, hides);
        if one.group == RankGroup::Expert {
            added.hides = PassCosts { forward: hides.backward, backward: hides.forward };
        }
        let runs = u64::from(one.forward) * (1 + u64::from(runs_again)) + u64::from(one.backward) * u64::from(train);
        tell(one, group, runs as f64, added.comm, added.waits);
        all.add(added, 1.0);
    }
    all
}

/// How often the backward pass gathers a sharded tape's weights; none where there is no such pass. FSDP2's hooks are called
/// inside of the checkpoint of transformers' layers (modeling_layers.py, `GradientCheckpointingLayer.__call__`): run again by the
/// reentrant kind, a layer gives its weights back before its backward pass asks for them (_fully_shard/_fsdp_state.py,
/// `_post_forward`); the other kind runs it again once they are there (`_pre_forward`). FSDP1 wraps the layer and its checkpoint.
pub(in crate::predict) fn backward_gathers(job: &Job, tape: &Tape, (train, again): (bool, Recompute)) -> Option<u8> {
    let twice = tape.reruns_all && !tape.plain && again == Recompute::All && job.degrees.engine == Engine::Fsdp2;
    train.then_some(if job.degrees.stays_gathered { 0 } else { 1 + u8::from(twice) })
}

/// Collectives of a fully sharded tape beside one micro-batch: its weights are gathered while the tape before it
/// computes, its gradients scattered while the next does. `within` are the tape's own collectives.
pub(in crate::predict) fn sharded(
    job: &Job,
    weights: Weights,
    pass: &Pass,
    within: &OverlappedCollectives,
    gathers: Option<u8>,
) -> OverlappedCollectives {
    if job.degrees.sharding != Sharding::Zero3 || is_whole(job) {
        return OverlappedCollectives::default();
    }
    let PassCosts { forward: gather, backward: scatter } = resharded(job, weights);
    let again = f64::from(gathers.unwrap_or(0)) * gather;
    let scatter = if gathers.is_some() { scatter } else { Seconds::ZERO };
    let of = |forward: Seconds, backward: Seconds| {
        let comm = PassCosts { forward, backward };
        let hidden = comm.least(within.left(pass.card));
        let mut all = OverlappedCollectives::of(job, comm, hidden);
        // They go on while the GPU waits for its host, and delay no kernel there.
        all.waits = all.waits - (comm - hidden).least(pass.held);
        all
    };
    if !accumulates_whole(job) {
        return of(gather, again + scatter);
    }
    // The first micro-batch scatters nothing, the last one all; what stays gathered comes in once.
    let later = if job.degrees.stays_gathered { Seconds::ZERO } else { gather };
    let share = 1.0 / job.batch.accumulation as f64;
    let mut all = OverlappedCollectives::default();
    all.add(of(gather, again), share);
    all.add(of(later, again), 1.0 - 2.0 * share);
    all.add(of(later, again + scatter), share);
    all
}

/// Time in which fully sharded weights are gathered, and their gradients scattered.
fn resharded(job: &Job, weights: Weights) -> PassCosts {
    let group = LinkGroup { ranks: job.degrees.shard_ranks, stride: job.degrees.tensor };
    let gathered = weights.all_gathered(job.storage.compute.bytes() as f64);
    let scattered = weights.whole(job.storage.reduce.bytes() as f64);
    PassCosts {
        forward: group.seconds(job, CollectiveKind::AllGather, gathered),
        backward: group.seconds(job, CollectiveKind::AllGather, scattered),
    }
}

/// Bytes of the buckets in which gradients and weights are exchanged, at so many each.
fn bucket(job: &Job, each: f64) -> f64 {
    match job.degrees.engine {
        // torch/nn/parallel/distributed.py, `bucket_cap_mb`.
        Engine::Ddp => 25.0 * 1024.0 * 1024.0,
        // deepspeed/runtime/zero/config.py, `reduce_bucket_size` and `allgather_bucket_size`.
        Engine::Deepspeed => 5e8 * each,
        // megatron-core, core/distributed/distributed_data_parallel.py, `bucket_size`: one bucket where nothing overlaps.
        Engine::Megatron if !job.speed.overlap_gradients => f64::INFINITY,
        Engine::Megatron | Engine::MegatronFsdp => (1e6 * job.degrees.data as f64).max(40e6) * each,
        // A layer each.
        Engine::Fsdp1 | Engine::Fsdp2 => f64::INFINITY,
    }
}

/// Share of an exchange of `bytes` that no pass is left to hide: its last bucket of gradients, its first one of weights
/// (PyTorch DDP, arXiv 2006.15704, and FSDP, arXiv 2304.11277, overlap by bucket and by layer).
fn last_bucket(job: &Job, bytes: f64, each: f64) -> f64 {
    if job.degrees.engine.is_fsdp() {
        let layers = job.stages.iter().map(|stage| stage.chunks.iter().map(|(_, count)| *count).sum()).max();
        return 1.0 / layers.unwrap_or(1_u64).max(1) as f64;
    }
    (bucket(job, each) / bytes.max(1.0)).min(1.0)
}

/// What groups that each hold all of the weights take to sum their gradients (FSDP's hybrid sharding,
/// arXiv 2304.11277, section 3.2.2).
fn replicated(job: &Job, weights: Weights, each: f64) -> Volume {
    let degrees = &job.degrees;
    let over = |ranks: u64, stride: u64, shards: u64, count: f64| {
        let group = LinkGroup { ranks: ranks / shards.max(1), stride: stride.saturating_mul(shards) };
        let bytes = count / shards.max(1) as f64 * each;
        group.in_buckets(job, CollectiveKind::AllReduce, (bytes, bucket(job, each)))
    };
    let ranks = degrees.data.saturating_mul(degrees.context);
    let of_experts = degrees.expert.saturating_mul(degrees.expert_tensor);
    let replicas = ranks.saturating_mul(degrees.tensor) / of_experts.max(1);
    over(ranks, degrees.tensor, degrees.shard_ranks, weights.dense)
        + over(replicas, of_experts, degrees.expert_shard_ranks, weights.expert)
}

/// Time that a step waits for the data-parallel exchange of a stage's gradients and weights, once a step; the
/// passes of one micro-batch run beside it, `left` of them that hide nothing else.
pub(in crate::predict) fn between(job: &Job, weights: Weights, left: PassCosts) -> Seconds {
    between_ranks(job, weights, left).waits
}

/// Whether DeepSpeed sums gradients on every rank that only some of them keep.
fn sums_whole(job: &Job) -> bool {
    let by_rule = match job.profile.data_parallel.sums_whole_buckets.is {
        WholeBuckets::None => false,
        WholeBuckets::Bf16 => job.storage.compute == Element::Bf16,
        WholeBuckets::All => true,
    };
    by_rule && job.degrees.engine == Engine::Deepspeed
}

/// Gradients that are summed or scattered and weights that are gathered beside the passes, of what no layer does by itself:
/// gradients, weights.
fn exchanged(job: &Job, weights: Weights) -> (Volume, Volume) {
    let degrees = &job.degrees;
    let dense = |ranks: u64| LinkGroup { ranks, stride: degrees.tensor };
    let experts = LinkGroup { ranks: degrees.expert_shard_ranks, stride: degrees.expert * degrees.expert_tensor };
    let over = |kind: CollectiveKind, ranks: u64, [of_dense, of_experts]: [f64; 2], each: f64| {
        let bucket = bucket(job, each);
        let experts =
            if of_experts > 0.0 { experts.in_buckets(job, kind, (of_experts, bucket)) } else { Volume::default() };
        dense(ranks).in_buckets(job, kind, (of_dense, bucket)) + experts
    };
    let all = degrees.shard_ranks.max(degrees.data * degrees.context);
    let (reduced, exchanged) = (job.storage.reduce.bytes() as f64, job.storage.exchanged.bytes() as f64);
    let gradient = weights.bytes(exchanged);
    match degrees.sharding {
        // Within a group gradients are scattered layer by layer; its share is then summed over the other groups.
        Sharding::Zero3 => (replicated(job, weights, reduced), Volume::default()),
        Sharding::None => (over(CollectiveKind::AllReduce, all, gradient, exchanged), Volume::default()),
        // ZeroRedundancyOptimizer steps behind DDP, which sums the gradients; then each rank sends all others what it has
        // updated (torch/distributed/optim/zero_redundancy_optimizer.py, `_sync_params`).
        Sharding::Zero1 if degrees.engine == Engine::Ddp => {
            let bytes: f64 = weights.bytes(job.storage.weight.bytes() as f64).iter().sum();
            let sent = dense(all).in_buckets(job, CollectiveKind::AllGather, (bytes, bytes / all as f64));
            (over(CollectiveKind::AllReduce, all, gradient, exchanged), sent)
        }
        Sharding::Zero1 | Sharding::Zero2 => {
            // In the type that they are stored in (DeepSpeed, runtime/zero/stage_1_and_2.py, `all_gather_dp_groups`).
            let each = job.storage.weight.bytes() as f64;
            let gathered = over(CollectiveKind::AllGather, degrees.shard_ranks, weights.gathered(each), each);
            // Within a group of those that share states out gradients are scattered and weights gathered; groups sum theirs.
            let kind = if sums_whole(job) { CollectiveKind::AllReduce } else { CollectiveKind::AllGather };
            let scattered = over(kind, degrees.shard_ranks, gradient, exchanged);
            let between =
                if degrees.shard_ranks < all { replicated(job, weights, exchanged) } else { Volume::default() };
            (scattered + between, gathered)
        }
    }
}

/// Weights come in as the first micro-batch runs; gradients go behind the last one (PyTorch,
/// torch/distributed/pipelining/stage.py, `run_post_backward`), when nothing is left to hide them.
fn between_whole(job: &Job, weights: Weights, left: PassCosts) -> Exchange {
    let PassCosts { forward: gathered, backward: scattered } = resharded(job, weights);
    let hides = PassCosts { forward: gathered * (1.0 - last_bucket(job, f64::INFINITY, 1.0)), backward: Seconds::ZERO };
    let reduced = job.storage.reduce.bytes() as f64;
    let between = replicated(job, weights, reduced);
    let comm = PassCosts { forward: gathered, backward: scattered + between.seconds };
    let own = weights.all_gathered(job.storage.compute.bytes() as f64) + weights.whole(reduced);
    let own = if job.degrees.shard_ranks > 1 { own } else { 0.0 };
    let runs = if own > 0.0 { 2.0 } else { 0.0 } + if between.bytes > 0.0 { 1.0 } else { 0.0 };
    let waits = OverlappedCollectives::of(job, comm, hides.least(left)).waits.all();
    Exchange { comm, waits, bytes: own + between.bytes, runs }
}

/// The same with what the exchange takes in all.
pub(in crate::predict) fn between_ranks(job: &Job, weights: Weights, left: PassCosts) -> Exchange {
    let (degrees, exchanged) = (&job.degrees, job.storage.exchanged.bytes() as f64);
    if degrees.sharding == Sharding::Zero3 && is_whole(job) {
        return between_whole(job, weights, left);
    }
    let (gradients, gathered) = self::exchanged(job, weights);
    let all_bytes = |each: f64| weights.bytes(each).iter().sum::<f64>();
    let hidden = |comm: Seconds, each: f64, overlaps: bool| {
        if overlaps { comm * (1.0 - last_bucket(job, all_bytes(each), each)) } else { Seconds::ZERO }
    };
    let most = PassCosts {
        forward: hidden(
            gathered.seconds,
            job.storage.compute.bytes() as f64,
            job.speed.overlap_weights && degrees.engine != Engine::Ddp,
        ),
        backward: hidden(gradients.seconds, exchanged, job.speed.overlap_gradients),
    };
    let comm = PassCosts { forward: gathered.seconds, backward: gradients.seconds };
    let waits = OverlappedCollectives::of(job, comm, most.least(left)).waits;
    // Where gradients are shared out, each micro-batch's are summed as they come (deepspeed/runtime/zero/stage_1_and_2.py,
    // `reduce_ready_partitions_and_remove_grads`: partition_gradients or is_gradient_accumulation_boundary).
    // So do FSDP's groups that each hold all weights, unless they wait for the last one (torch/distributed/fsdp,
    // _runtime_utils.py, `_reduce_grad`; _fully_shard/_fsdp_collectives.py, `foreach_reduce`).
    let each = match degrees.sharding {
        Sharding::Zero2 => degrees.engine == Engine::Deepspeed,
        Sharding::Zero3 => degrees.engine.is_fsdp() && !accumulates_whole(job),
        Sharding::None | Sharding::Zero1 => false,
    };
    let times = if each { job.batch.accumulation as f64 } else { 1.0 };
    let all = |of: PassCosts| PassCosts { backward: of.backward * times, ..of };
    let runs = if gradients.bytes > 0.0 { times } else { 0.0 } + if gathered.bytes > 0.0 { 1.0 } else { 0.0 };
    Exchange { comm: all(comm), waits: all(waits).all(), bytes: gradients.bytes * times + gathered.bytes, runs }
}
