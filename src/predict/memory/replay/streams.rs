//! What FSDP's streams keep (PyTorch 2.9, torch/distributed/fsdp). The caching allocator has a pool for each stream: whole
//! weights are gathered in that of the `unshard` stream, the shards that are cast or copied for it in that of
//! `pre_unshard`, and reduced gradients lie in that of `post_backward` (_runtime_utils.py, `_init_streams`). A block that
//! another stream reads is free again only when that stream has come past it (`record_stream`), which the host, running
//! ahead, knows of the last but one layer: `limit_all_gathers` waits for that one before it gathers
//! (_limiter_utils.py, `_FreeEventQueue`).

use super::blocks::{Allocator, BlockIndex, Memory, Request};
use crate::catalog::Generation;
use crate::model::{Tape, Weight};
use crate::plan::keywords::{CpuOffload, Engine, Sharding};
use crate::predict::job::Job;
use crate::predict::memory::few_bits::quantised;
use crate::predict::memory::resident::stored;
use crate::predict::memory::shards::trained;
use crate::predict::step::StageTapes;
use std::collections::VecDeque;

/// Layers whose weights were given back and of which the host does not know whether the GPU is done with them
/// (_limiter_utils.py, `_max_num_inflight_all_gathers`).
const IN_FLIGHT: usize = 2;

/// DDP's buckets: the first, and the others (torch/nn/parallel/distributed.py, `bucket_cap_mb`;
/// torch/csrc/distributed/c10d/reducer.hpp, `kDefaultFirstBucketBytes`).
const FIRST_BUCKET: u64 = 1 << 20;
const BUCKET: u64 = 25 << 20;

/// A layer's bytes, or the root's, as FSDP holds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Before it is sharded, in the type of the weights.
    pub made: u64,
    /// Its shard that is cast, or copied to the GPU, before it is gathered.
    staged: u64,
    /// Gathered.
    whole: u64,
    /// Its gradients in one flat tensor.
    gradient: u64,
    /// The same in the type that they are reduced in, where that is another.
    cast: u64,
    /// A rank's part of those.
    reduced: u64,
    /// That part in the type of the weights, where it is another.
    kept: u64,
}

/// What ranks beside this one make the allocator hold.
#[derive(Debug, PartialEq)]
pub(super) enum Replicas {
    /// Nothing.
    None,
    /// The buckets that DDP reduces gradients in.
    Buckets(Vec<u64>),
    /// FSDP: the root, then each kind of layer. Whether shards lie in host memory.
    Units(Vec<Unit>, bool),
}

/// Whether FSDP gathers weights and gives them back, layer by layer.
pub(in crate::predict) fn is_fsdp(job: &Job) -> bool {
    let degrees = &job.degrees;
    let full = degrees.sharding == Sharding::Zero3 && !degrees.stays_gathered;
    degrees.num_gpus > 1 && degrees.engine == Engine::Fsdp1 && full
}

/// Whether data-parallel ranks alone take part, whose streams are known.
pub(super) fn applies(job: &Job) -> bool {
    let degrees = &job.degrees;
    let cut = [degrees.tensor, degrees.pipeline, degrees.context, degrees.expert, degrees.expert_tensor];
    let offload = job.training.cpu_offload;
    let engine = match degrees.sharding {
        Sharding::None => degrees.engine == Engine::Ddp && offload == CpuOffload::None,
        _ => is_fsdp(job) && matches!(offload, CpuOffload::None | CpuOffload::Parameters),
    };
    let gpus = degrees.num_gpus > 1 && job.hardware.gpu.generation != Generation::Cpu;
    gpus && engine && cut.iter().all(|ranks| *ranks < 2)
}

impl Replicas {
    pub(super) fn of(held: &StageTapes<'_>) -> Self {
        let job = held.job;
        let walk = &held.step.walk;
        if job.degrees.num_gpus < 2 {
            return Self::None;
        }
        // Gradients that are views of the buckets are all that there is.
        if !is_fsdp(job) && job.degrees.bucket_views {
            return Self::None;
        }
        if !is_fsdp(job) {
            let layers = walk.order.iter().map(|kind| &walk.kinds[*kind].1);
            let tapes: Vec<&Tape> = std::iter::once(&walk.first).chain(layers).chain([&walk.last]).collect();
            return Self::Buckets(buckets(job, &tapes));
        }
        let kinds = walk.kinds.iter().map(|(_, tape)| unit(held, &[tape]));
        let units = std::iter::once(unit(held, &[&walk.first, &walk.last])).chain(kinds).collect();
        Self::Units(units, job.training.cpu_offload == CpuOffload::Parameters)
    }

    /// Whether each rank holds a part of weights, gradients and states.
    pub(super) const fn shards(&self) -> bool {
        matches!(self, Self::Units(..))
    }

    /// Whether those lie in host memory.
    pub(super) const fn offloads(&self) -> bool {
        matches!(self, Self::Units(_, true))
    }
}

/// A unit of so many tapes.
fn unit(held: &StageTapes<'_>, tapes: &[&Tape]) -> Unit {
    let (job, storage) = (held.job, &held.job.storage);
    let ranks = job.degrees.shard_ranks.max(1);
    let sum = |of: &dyn Fn(&Tape) -> u64| tapes.iter().map(|tape| of(tape)).fold(0, u64::saturating_add);
    let bytes = |weight: &Weight| match quantised(job, weight) {
        Some(few) => weight.numel.saturating_mul(few.gathered()) / 1000,
        None => weight.numel.saturating_mul(stored(job, weight).bytes()),
    };
    let made = sum(&|tape| {
        let own = tape.weights.iter().filter(|weight| !weight.tied);
        own.fold(0, |sum, weight| sum.saturating_add(bytes(weight).saturating_mul(weight.copies)))
    });
    let whole = sum(&|tape| held.whole(tape).0);
    let gradients = sum(&trained);
    let in_type = |bytes: u64| gradients.saturating_mul(bytes);
    let [compute, reduce, kept] = [storage.compute, storage.reduce, storage.gradient];
    let offloads = job.training.cpu_offload == CpuOffload::Parameters;
    let staged = if offloads || storage.weight != compute { whole / ranks } else { 0 };
    Unit {
        made,
        staged: if offloads && storage.weight != compute { staged.saturating_add(made / ranks) } else { staged },
        whole,
        gradient: in_type(compute.bytes()),
        cast: if reduce == compute { 0 } else { in_type(reduce.bytes()) },
        reduced: in_type(reduce.bytes()).div_ceil(ranks),
        kept: if kept == reduce { 0 } else { in_type(kept.bytes()).div_ceil(ranks) },
    }
}

/// DDP's buckets, filled from the last weight on until each has its bytes (torch/csrc/distributed/c10d/reducer.cpp,
/// `compute_bucket_assignment_by_size`).
fn buckets(job: &Job, tapes: &[&Tape]) -> Vec<u64> {
    let element = job.storage.gradient.bytes();
    let (mut all, mut open) = (Vec::new(), 0_u64);
    let weights = tapes.iter().rev().flat_map(|tape| tape.weights.iter().rev());
    for weight in weights.filter(|weight| weight.trained && !weight.tied) {
        for _ in 0..weight.copies {
            open = open.saturating_add(weight.numel.saturating_mul(element));
            let cap = if all.is_empty() { FIRST_BUCKET } else { BUCKET };
            if open >= cap {
                all.push(std::mem::take(&mut open));
            }
        }
    }
    all.extend((open > 0).then_some(open));
    all
}

/// What a layer gave back and the GPU may still read.
#[derive(Debug)]
struct Freed {
    whole: BlockIndex,
    staged: Option<BlockIndex>,
    /// Flat gradients of layers before it, on their way to the other ranks.
    gradients: Vec<BlockIndex>,
}

/// The pools of FSDP's streams.
#[derive(Debug)]
pub(super) struct StreamPools<'a> {
    units: &'a [Unit],
    offloads: bool,
    unshard: Allocator,
    pre_unshard: Allocator,
    post_backward: Allocator,
    /// Weights that are gathered, by the place of their tape.
    gathered: Vec<(usize, BlockIndex, Option<BlockIndex>)>,
    freed: VecDeque<Freed>,
    /// Flat gradients of the last layer.
    sent: Vec<BlockIndex>,
    /// Flat gradients that wait for the last micro-batch, by the place of their tape.
    whole: Vec<(usize, BlockIndex)>,
    /// Reduced gradients of this rank, by the place of their tape.
    reduced: Vec<(usize, BlockIndex)>,
}

impl<'a> StreamPools<'a> {
    pub(super) fn of(replicas: &'a Replicas) -> Option<Self> {
        let Replicas::Units(units, offloads) = replicas else { return None };
        let pool = || Allocator::within(u64::MAX);
        Some(Self {
            units,
            offloads: *offloads,
            unshard: pool(),
            pre_unshard: pool(),
            post_backward: pool(),
            gathered: Vec::new(),
            freed: VecDeque::new(),
            sent: Vec::new(),
            whole: Vec::new(),
            reduced: Vec::new(),
        })
    }

    /// The most bytes of their segments.
    pub(super) fn most(&self) -> u64 {
        self.unshard.most().saturating_add(self.pre_unshard.most()).saturating_add(self.post_backward.most())
    }

    /// The most bytes that were asked for of each.
    pub(super) fn most_asked(&self) -> u64 {
        let gathered = self.unshard.most_asked().saturating_add(self.pre_unshard.most_asked());
        gathered.saturating_add(self.post_backward.most_asked())
    }

    /// The root, then each kind of layer.
    pub(super) const fn units(&self) -> &'a [Unit] {
        self.units
    }

    /// Bytes of a unit's flat gradient.
    pub(super) fn gradient(&self, unit: usize) -> u64 {
        self.units[unit].gradient
    }

    /// The weights of the tape at `at`, unless they were gathered ahead (`_unshard`).
    pub(super) fn gather(&mut self, at: usize, unit: usize, compute: &mut impl Memory) {
        let Unit { whole, staged, .. } = self.units[unit];
        if whole == 0 || self.gathered.iter().any(|(place, ..)| *place == at) {
            return;
        }
        let staged = (staged > 0).then(|| self.pre_unshard.take(Request::of(staged)));
        if self.freed.len() >= IN_FLIGHT {
            self.wait(compute);
        }
        self.gathered.push((at, self.unshard.take(Request::of(whole)), staged));
    }

    /// They are given back (`_reshard`), while computation may still read them.
    pub(super) fn release(&mut self, at: usize) {
        let Some(found) = self.gathered.iter().position(|(place, ..)| *place == at) else { return };
        let (_, whole, staged) = self.gathered.swap_remove(found);
        self.freed.push_back(Freed { whole, staged, gradients: std::mem::take(&mut self.sent) });
    }

    /// A flat gradient is added to that of the micro-batches before, where those are not reduced.
    pub(super) fn accumulate(&mut self, at: usize, flat: BlockIndex, compute: &mut impl Memory) -> BlockIndex {
        let Some(found) = self.whole.iter().position(|(place, _)| *place == at) else { return flat };
        compute.give(flat);
        self.whole.swap_remove(found).1
    }

    /// It waits for the next micro-batch (`_post_backward_hook` under `no_sync`).
    pub(super) fn keep_whole(&mut self, at: usize, flat: BlockIndex) {
        self.whole.push((at, flat));
    }

    /// A flat gradient is reduced (`_post_backward_hook`).
    pub(super) fn reduce(&mut self, at: usize, unit: usize, flat: BlockIndex) {
        let Unit { cast, reduced, kept, .. } = self.units[unit];
        let pool = &mut self.post_backward;
        let cast = (cast > 0).then(|| pool.take(Request::of(cast)));
        let part = pool.take(Request::of(reduced));
        let own = if kept > 0 { pool.take(Request::of(kept)) } else { part };
        if own != part {
            pool.give(part);
        }
        // Later micro-batches are added to the first; parts in host memory are copied there.
        if self.offloads || self.reduced.iter().any(|(place, _)| *place == at) {
            pool.give(own);
        } else {
            self.reduced.push((at, own));
        }
        cast.into_iter().for_each(|cast| self.post_backward.give(cast));
        self.sent.push(flat);
    }

    /// The host waits for the GPU: behind each micro-batch it reads the loss (transformers, trainer.py,
    /// `logging_nan_inf_filter`).
    pub(super) fn finish(&mut self, compute: &mut impl Memory) {
        while !self.freed.is_empty() {
            self.wait(compute);
        }
        std::mem::take(&mut self.sent).into_iter().for_each(|block| compute.give(block));
    }

    /// Gradients are set to none.
    pub(super) fn drop_gradients(&mut self) {
        for (_, block) in std::mem::take(&mut self.reduced) {
            self.post_backward.give(block);
        }
    }

    /// The GPU is done with the first of what was given back.
    fn wait(&mut self, compute: &mut impl Memory) {
        let Some(Freed { whole, staged, gradients }) = self.freed.pop_front() else { return };
        self.unshard.give(whole);
        staged.into_iter().for_each(|block| self.pre_unshard.give(block));
        gradients.into_iter().for_each(|block| compute.give(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Four layers of 40 MiB beside a root of 100 MiB, there and back on two ranks. Three layers are there at most: the
    /// one that runs, the one gathered ahead, and the one before whose end the host has not seen. Flat gradients are the
    /// one just made and two on their way; before the first layer nothing is gathered, so that nobody waits: a fourth.
    /// Reduced ones stay: 4 x 20 + 50.
    #[test]
    fn three_layers_are_there_at_most() {
        let unit =
            |whole: u64| Unit { made: whole, staged: 0, whole, gradient: whole, cast: 0, reduced: whole / 2, kept: 0 };
        let replicas = Replicas::Units(vec![unit(100 * MIB), unit(40 * MIB)], false);
        let mut streams = StreamPools::of(&replicas).unwrap();
        let mut compute = Allocator::within(u64::MAX);
        streams.gather(0, 0, &mut compute);
        for layer in 1..5 {
            streams.gather(layer, 1, &mut compute);
            streams.release(layer);
        }
        assert_eq!(streams.unshard.most(), (100 + 2 * 40) * MIB, "one that runs, one that may still be read");
        streams.gather(4, 1, &mut compute);
        for layer in (1..5).rev() {
            if layer > 1 {
                streams.gather(layer - 1, 1, &mut compute);
            }
            let flat = compute.take(Request::of(streams.gradient(1)));
            assert!(layer == 1 || compute.most() <= 3 * 40 * MIB);
            streams.release(layer);
            streams.reduce(layer, 1, flat);
        }
        assert_eq!(streams.unshard.most(), (100 + 3 * 40) * MIB);
        assert_eq!(compute.most(), 4 * 40 * MIB);
        let flat = compute.take(Request::of(streams.gradient(0)));
        streams.release(0);
        streams.reduce(0, 0, flat);
        streams.finish(&mut compute);
        assert_eq!(streams.post_backward.most(), (4 * 20 + 50) * MIB);
        let reserved = streams.most();
        streams.drop_gradients();
        assert_eq!(streams.most(), reserved, "what is free stays reserved");
        assert!(streams.freed.is_empty() && streams.gathered.is_empty() && streams.reduced.is_empty());
    }

    /// Two micro-batches of which only the last is reduced: the first one's flat gradient of 40 MiB waits, the second one's is
    /// added to it and goes. What is reduced is that sum, 40 MiB for two ranks' 20.
    #[test]
    fn what_is_not_reduced_waits_in_the_pool_of_the_passes() {
        let unit = Unit { made: 0, staged: 0, whole: 0, gradient: 40 * MIB, cast: 0, reduced: 20 * MIB, kept: 0 };
        let replicas = Replicas::Units(vec![unit, unit], false);
        let mut streams = StreamPools::of(&replicas).unwrap();
        let mut compute = Allocator::within(u64::MAX);
        let first = compute.take(Request::of(streams.gradient(1)));
        assert_eq!(streams.accumulate(1, first, &mut compute), first);
        streams.keep_whole(1, first);
        streams.finish(&mut compute);
        assert_eq!((streams.most(), compute.most()), (0, 40 * MIB));
        let second = compute.take(Request::of(streams.gradient(1)));
        assert_ne!(second, first);
        assert_eq!(streams.accumulate(1, second, &mut compute), first);
        streams.reduce(1, 1, first);
        streams.finish(&mut compute);
        assert_eq!((streams.most(), compute.most()), (20 * MIB, 80 * MIB));
        assert!(streams.whole.is_empty() && streams.sent.is_empty());
    }
}
