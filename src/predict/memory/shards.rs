//! Buffers of sharded training: whole weights while their layer runs, whole gradients until they are reduced.
//! Each framework has rules of its own.

use crate::model::{Tape, is_covered};
use crate::plan::keywords::{Engine, Sharding};
use crate::predict::memory::resident::Resident;
use crate::predict::step::pipeline::is_whole;
use crate::predict::step::stage::StageTapes;

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
                sum.reduce_bucket = REDUCE_BUCKET.min(sum.trained).saturating_mul(job.storage.gradient.bytes());
            }
            // DeepSpeed, runtime/zero/stage_1_and_2.py, setup_buckets: made when the backward pass begins, of a size
            // that no model's own changes; one, as `overlap_comm` is off below stage 3.
            (Engine::Deepspeed, Sharding::Zero1 | Sharding::Zero2) => {
                sum.reduce_bucket = REDUCE_BUCKET.saturating_mul(job.storage.compute.bytes());
            }
            // DistributedDataParallel reduces in buckets beside the gradients (gradient_as_bucket_view is off); so it does
            // where ZeroRedundancyOptimizer shares the states out.
            (Engine::Ddp | Engine::Fsdp1 | Engine::Fsdp2, Sharding::None | Sharding::Zero1 | Sharding::Zero2) => {
                sum.buckets = sum.trained.saturating_mul(job.storage.gradient.bytes());
            }
            (Engine::Deepspeed, Sharding::Zero3) => self.deepspeed(sum),
            (Engine::Ddp | Engine::Fsdp1 | Engine::Fsdp2, Sharding::Zero3) => self.fsdp(sum),
        }
    }

    /// The largest layer by `of`.
    fn most(&self, of: fn(&Tape) -> u64) -> u64 {
        self.step.walk.kinds.iter().map(|(_, tape)| of(tape)).max().unwrap_or(0)
    }

    /// PyTorch's FSDP: the root's weights and those of two layers, gradients of a layer and their copies in the type
    /// that they are reduced in.
    fn fsdp(&self, sum: &mut Resident) {
        let storage = &self.job.storage;
        let (seen, reduced) = (storage.compute.bytes(), storage.reduce.bytes());
        let walk = &self.step.walk;
        let ends = [(self.first, &walk.first), (self.last, &walk.last)];
        let both: u64 = ends.iter().filter(|(there, _)| *there).map(|(_, tape)| trained(tape)).sum();
        self.gathered(sum);
        sum.gathered = sum.root.saturating_add(sum.unsharded_layer);
        let layer = self.most(trained);
        sum.unsharded_gradients = layer.saturating_mul(seen);
        sum.head_gradients = if self.last { trained(&walk.last).saturating_mul(seen) } else { 0 };
        if is_whole(self.job) {
            // New gradients are added to those in the type of the reduction (_fsdp_param.py,
            // `accumulate_unsharded_grad_if_needed`); what is reduced at the end finds room that activations left.
            let all = self.tapes().map(|(tape, times)| [self.whole(tape), trained(tape)].map(|one| one * times));
            let [weights, gradients] = all.fold([0_u64; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
            (sum.root, sum.unsharded_layer, sum.gathered_layers) = (weights, 0, 0);
            sum.accumulated = gradients.saturating_mul(reduced);
            sum.gradients_before = false;
            return;
        }
        if self.job.degrees.stays_gathered {
            let layers =
                self.layers.iter().fold(0, |all: u64, layer| all.saturating_add(self.whole(self.step.tape(*layer))));
            sum.live = sum.root.saturating_add(layers);
        }
        sum.reduced_layer = layer.saturating_mul(reduced);
        sum.reduced_root = both.saturating_mul(reduced);
    }

    /// DeepSpeed's ZeRO 3 (runtime/zero/stage3.py and partitioned_param_coordinator.py): a buffer for gradients from
    /// the start on; what is used again within 1e9 elements is not released, so that the last half of as many are
    /// there when the loss is; beside the layer that runs some is fetched ahead.
    fn deepspeed(&self, sum: &mut Resident) {
        let seen = self.job.storage.compute.bytes();
        self.gathered(sum);
        sum.root = 0;
        sum.gathered_layers = 1;
        sum.unsharded_layer = sum.unsharded_layer.saturating_add(PREFETCH_BUCKET.min(sum.params).saturating_mul(seen));
        sum.buckets = REDUCE_BUCKET.saturating_mul(seen);
        sum.live = (REUSE_DISTANCE / 2).min(sum.params).saturating_mul(seen);
        sum.unsharded_gradients = self.most(trained).saturating_mul(seen);
    }

    /// Megatron FSDP (megatron-core, core/distributed/fsdp/src/megatron_fsdp): layers are its units; what is in none,
    /// which is the ends, stays gathered (param_and_grad_buffer.py, `AllGatherPipeline.reset`). Beside the layer that
    /// runs others are gathered ahead until they have half of the suggested communication size, 1e9 elements or two
    /// layers (megatron_fsdp.py, `suggested_AG_prefetch_size`), and whole gradients are freed only when those before
    /// them have more than all of it (`wait_for_previous_grad_reduce`).
    fn megatron_fsdp(&self, sum: &mut Resident) {
        let walk = &self.step.walk;
        let gradient = self.job.storage.gradient.bytes();
        self.gathered(sum);
        sum.buckets = std::mem::take(&mut sum.root);
        let layer = self.most(Tape::parameters);
        let suggested = 1_000_000_000_u64.max(layer.saturating_mul(2));
        let ahead = (suggested / 2).div_ceil(layer.max(1));
        sum.gathered_layers = ahead.saturating_add(1).min(self.layers.len() as u64);
        sum.reduce_queue = Some(suggested.saturating_mul(gradient));
        sum.unsharded_gradients = self.most(trained).saturating_mul(gradient);
        sum.head_gradients = if self.last { trained(&walk.last).saturating_mul(gradient) } else { 0 };
        sum.reduced_root = if self.first { trained(&walk.first).saturating_mul(gradient) } else { 0 };
    }

    /// Whole weights of the ends and of the largest layer, in the type that they compute in.
    pub(in crate::predict) fn gathered(&self, sum: &mut Resident) {
        let seen = self.job.storage.compute.bytes();
        let kinds = self.step.walk.kinds.iter().map(|(_, tape)| self.whole(tape)).max().unwrap_or(0);
        let ends = [(self.first, &self.step.walk.first), (self.last, &self.step.walk.last)];
        let root: u64 = ends.iter().filter(|(there, _)| *there).map(|(_, tape)| tape.parameters()).sum();
        sum.root = root.saturating_mul(seen);
        sum.unsharded_layer = kinds;
    }

    /// Bytes of a tape's weights as they are gathered: in the type that they compute in, but torchao gathers the linear
    /// layers' in FP8 (torchao, float8/fsdp_utils.py, `WeightWithDynamicFloat8CastTensor`).
    fn whole(&self, tape: &Tape) -> u64 {
        let seen = self.job.storage.compute.bytes();
        let matrices = tape.weights.iter().filter(|weight| is_covered(weight.part) && weight.numel > weight.rows);
        let spared = if self.job.storage.fp8_weights { seen - 1 } else { 0 };
        let spared = matrices.fold(0, |sum: u64, weight| sum + weight.numel * weight.copies * spared);
        tape.parameters().saturating_mul(seen).saturating_sub(spared)
    }
}

/// Parameters of a tape that get gradients, tied ones left out.
fn trained(tape: &Tape) -> u64 {
    let own = tape.weights.iter().filter(|weight| weight.trained && !weight.tied);
    own.fold(0, |sum: u64, weight| sum.saturating_add(weight.numel.saturating_mul(weight.copies)))
}
