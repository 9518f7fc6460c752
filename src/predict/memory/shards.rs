//! Buffers of sharded training: whole weights while their layer runs, whole gradients until they are reduced.
//! Each framework has rules of its own.

use crate::model::{Tape, Weight, is_covered};
use crate::plan::keywords::{Engine, Sharding};
use crate::predict::memory::few_bits::quantised;
use crate::predict::memory::resident::Resident;
use crate::predict::step::StageTapes;
use crate::predict::step::accumulates_whole;
use crate::predict::step::pipeline::is_whole;
use crate::units::Bytes;

/// DeepSpeed's defaults, in elements (runtime/zero/config.py, 0.19): of the buffer that gradients are reduced in, of
/// what is fetched ahead, and how far ahead a weight is used again that is not released.
const REDUCE_BUCKET: u64 = 500_000_000;
const PREFETCH_BUCKET: u64 = 50_000_000;
const REUSE_DISTANCE: u64 = 1_000_000_000;

impl StageTapes<'_> {
    /// Adds the buffers that ranks which share a model need.
    pub(in crate::predict) fn buffers(&self, sum: &mut Resident) {
        let job = self.job;
        let degrees = &job.degrees;
        sum.gathered_layers = 2;
        if degrees.data.saturating_mul(degrees.context) < 2 {
            return;
        }
        match (degrees.engine, degrees.sharding) {
            (Engine::MegatronFsdp, Sharding::Zero3) => self.megatron_fsdp(sum),
            (Engine::MegatronFsdp | Engine::Megatron, _) => {}
            // DeepSpeed without ZeRO puts gradients together in one flat tensor after another when the backward pass is
            // over (runtime/engine.py, buffered_allreduce_fallback).
            (Engine::Deepspeed, Sharding::None) => {
                sum.reduce_bucket = Bytes(job.storage.gradient.bytes()) * REDUCE_BUCKET.min(sum.trained);
            }
            // DeepSpeed, runtime/zero/stage_1_and_2.py, setup_buckets: made when the backward pass begins, of a size
            // that no model's own changes; two that take turns under `overlap_comm`, which is off below stage 3 unless told.
            (Engine::Deepspeed, Sharding::Zero1 | Sharding::Zero2) => {
                let buckets = 1 + u64::from(job.speed.overlap_gradients);
                sum.reduce_bucket = Bytes(job.storage.compute.bytes()) * REDUCE_BUCKET * buckets;
            }
            // DistributedDataParallel reduces in buckets beside the gradients, unless those are views of them; so it does
            // where ZeroRedundancyOptimizer shares the states out.
            (Engine::Ddp, Sharding::None | Sharding::Zero1) if degrees.bucket_views => {}
            (Engine::Ddp | Engine::Fsdp1 | Engine::Fsdp2, Sharding::None | Sharding::Zero1 | Sharding::Zero2) => {
                sum.buckets = Bytes(job.storage.gradient.bytes()) * sum.trained;
            }
            (Engine::Deepspeed, Sharding::Zero3) => self.deepspeed(sum),
            (Engine::Ddp | Engine::Fsdp1 | Engine::Fsdp2, Sharding::Zero3) => self.fsdp(sum),
        }
    }

    /// The largest layer by `of`. What stands between layers and is none of them is the root's.
    fn most(&self, of: fn(&Tape) -> u64) -> u64 {
        self.units().map(of).max().unwrap_or(0)
    }

    /// Each kind of layer that is a unit of its own.
    fn units(&self) -> impl Iterator<Item = &Tape> {
        self.step.walk.kinds.iter().map(|(_, tape)| tape).filter(|tape| !is_between(tape))
    }

    /// `of` all that belongs to no layer: the ends that this stage has, and what stands between its layers, as the
    /// embeddings of a second stack do (accelerate, utils/dataclasses.py, `set_auto_wrap_policy`: the classes of blocks
    /// are wrapped, the rest is the outermost unit's).
    pub(super) fn outside(&self, of: fn(&Tape) -> u64) -> u64 {
        let between = self.tapes().filter(|(tape, _)| is_between(tape));
        let walk = &self.step.walk;
        let ends = [(self.first, &walk.first), (self.last, &walk.last)];
        let ends = ends.into_iter().filter(|(there, tape)| *there && !is_between(tape)).map(|(_, tape)| (tape, 1));
        between.chain(ends).fold(0, |sum: u64, (tape, times)| sum.saturating_add(of(tape).saturating_mul(times)))
    }

    /// PyTorch's FSDP: the root's weights and those of two layers, gradients of a layer and their copies in the type
    /// that they are reduced in.
    fn fsdp(&self, sum: &mut Resident) {
        let storage = &self.job.storage;
        let [seen, reduced] = [storage.compute, storage.reduce].map(|element| Bytes(element.bytes()));
        let walk = &self.step.walk;
        let both = self.outside(trained);
        self.gathered(sum);
        sum.gathered = sum.root + sum.unsharded_layer;
        let layer = self.most(trained);
        sum.unsharded_gradients = seen * layer;
        sum.head_gradients = if self.last { seen * trained(&walk.last) } else { Bytes::ZERO };
        if is_whole(self.job) {
            // New gradients are added to those in the type of the reduction (_fsdp_param.py,
            // `accumulate_unsharded_grad_if_needed`); what is reduced at the end finds room that activations left.
            sum.root = self.tapes().map(|(tape, times)| self.whole(tape) * times).sum();
            (sum.unsharded_layer, sum.gathered_layers) = (Bytes::ZERO, 0);
            sum.accumulated = self.tapes().map(|(tape, times)| reduced * trained(tape) * times).sum();
            sum.gradients_before = false;
            return;
        }
        if accumulates_whole(self.job) {
            // FSDP1 adds to `.grad` of the flat parameter, FSDP2 in the type of the reduction (_fsdp_param.py,
            // `to_accumulated_grad_if_needed`).
            let each = if self.job.degrees.engine == Engine::Fsdp2 { reduced } else { seen };
            sum.accumulated = self.tapes().map(|(tape, times)| each * trained(tape) * times).sum();
            sum.gradients_before = false;
        }
        if self.job.degrees.stays_gathered {
            let layers = self.layers.iter().map(|layer| self.step.tape(*layer)).filter(|tape| !is_between(tape));
            let layers: Bytes = layers.map(|tape| self.whole(tape)).sum();
            sum.live = sum.root + layers;
        }
        sum.reduced_layer = reduced * layer;
        sum.reduced_root = reduced * both;
    }

    /// DeepSpeed's ZeRO 3 (runtime/zero/stage3.py and partitioned_param_coordinator.py): a buffer for gradients from
    /// the start on; what is used again within 1e9 elements is not released, so that the last half of as many are
    /// there when the loss is; beside the layer that runs some is fetched ahead.
    fn deepspeed(&self, sum: &mut Resident) {
        let seen = Bytes(self.job.storage.compute.bytes());
        self.gathered(sum);
        sum.root = Bytes::ZERO;
        sum.unsharded_layer = self.step.walk.kinds.iter().map(|(_, tape)| self.whole(tape)).max().unwrap_or_default();
        sum.gathered_layers = 1;
        sum.unsharded_layer += seen * PREFETCH_BUCKET.min(sum.params);
        sum.buckets = seen * REDUCE_BUCKET;
        sum.live = seen * (REUSE_DISTANCE / 2).min(sum.params);
        sum.unsharded_gradients = seen * self.most(trained);
    }

    /// Megatron FSDP (megatron-core, core/distributed/fsdp/src/megatron_fsdp): layers are its units; what is in none,
    /// which is the ends, stays gathered (param_and_grad_buffer.py, `AllGatherPipeline.reset`). Beside the layer that
    /// runs others are gathered ahead until they have half of the suggested communication size, 1e9 elements or two
    /// layers (megatron_fsdp.py, `suggested_AG_prefetch_size`), and whole gradients are freed only when those before
    /// them have more than all of it (`wait_for_previous_grad_reduce`).
    fn megatron_fsdp(&self, sum: &mut Resident) {
        let walk = &self.step.walk;
        let gradient = Bytes(self.job.storage.gradient.bytes());
        self.gathered(sum);
        sum.buckets = std::mem::take(&mut sum.root);
        let layer = self.most(Tape::parameters);
        let suggested = 1_000_000_000_u64.max(layer.saturating_mul(2));
        let ahead = (suggested / 2).div_ceil(layer.max(1));
        sum.gathered_layers = ahead.saturating_add(1).min(self.layers.len() as u64);
        sum.reduce_queue = Some(gradient * suggested);
        sum.unsharded_gradients = gradient * self.most(trained);
        sum.head_gradients = if self.last { gradient * trained(&walk.last) } else { Bytes::ZERO };
        sum.reduced_root = if self.first { gradient * trained(&walk.first) } else { Bytes::ZERO };
    }

    /// Whole weights of the ends and of the largest layer, in the type that they compute in.
    pub(in crate::predict) fn gathered(&self, sum: &mut Resident) {
        let seen = Bytes(self.job.storage.compute.bytes());
        sum.root = seen * self.outside(Tape::parameters);
        sum.unsharded_layer = self.units().map(|tape| self.whole(tape)).max().unwrap_or_default();
    }

    /// A tape's weights as they are gathered: in the type that they compute in, but torchao gathers the linear
    /// layers' in FP8 (torchao, float8/fsdp_utils.py, `WeightWithDynamicFloat8CastTensor`), and bitsandbytes' packed
    /// weights are gathered packed (bitsandbytes, docs/source/fsdp_qlora.md, `quant_storage`), without their scales.
    pub(in crate::predict) fn whole(&self, tape: &Tape) -> Bytes {
        let (job, seen) = (self.job, self.job.storage.compute.bytes());
        let matrix = |weight: &Weight| is_covered(weight.part) && weight.numel > weight.rows;
        let bytes = |weight: &Weight| match quantised(job, weight) {
            Some(few) => weight.numel.saturating_mul(few.gathered()) / 1000,
            None if job.storage.fp8_weights && matrix(weight) => weight.numel,
            None => weight.numel.saturating_mul(seen),
        };
        let own = tape.weights.iter().filter(|weight| !weight.tied);
        Bytes(own.fold(0, |sum: u64, weight| sum.saturating_add(bytes(weight).saturating_mul(weight.copies))))
    }
}

/// Whether a tape is what a traced model runs between its blocks: a trace says which of its segments are blocks.
pub(super) const fn is_between(tape: &Tape) -> bool {
    tape.traced && tape.plain
}

/// Parameters of a tape that get gradients, tied ones left out.
pub(in crate::predict) fn trained(tape: &Tape) -> u64 {
    let own = tape.weights.iter().filter(|weight| weight.trained && !weight.tied);
    own.fold(0, |sum: u64, weight| sum.saturating_add(weight.numel.saturating_mul(weight.copies)))
}
