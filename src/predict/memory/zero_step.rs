//! What the step of DeepSpeed's ZeRO optimizer for fp16 takes, and what of that the caching allocator keeps.
//!
//! A tensor of more than 10 MiB has a segment of its own: the gradients that are freed behind a step leave many
//! segments of a weight's size each, and none for a flat tensor of a rank's whole share.

use crate::predict::job::Job;
use crate::predict::memory::StageRun;
use crate::predict::memory::resident::Resident;
use crate::units::Bytes;

/// Granule of segments.
const SEGMENT: u64 = 2 << 20;

/// DeepSpeed's default of `reduce_bucket_size`, in elements.
const REDUCE_BUCKET: u64 = 500_000_000;

/// What [`cached`] is.
pub(in crate::predict) const FORMULA: &str = "segments that hold a rank's share of gradients flat, in fp16 (2 B) and fp32 (4 B), \
     as far as activations do not use them, and the largest of its gradients in fp64 (8 B)";

/// Whose rules these are.
pub(in crate::predict) const SOURCE: &str = "deepspeed 0.6.5, runtime/zero/stage_1_and_2.py (step: single_grad_partition; get_grad_norm_direct; \
     initialize_optimizer_states), PyTorch 2.9, c10/cuda/CUDACachingAllocator.cpp (kLargeBuffer)";

/// Elements of a rank's share.
fn share(job: &Job, held: &Resident) -> u64 {
    held.trained.div_ceil(job.degrees.shard_ranks.max(1))
}

/// The step has its share of gradients flat in fp16 and fp32 beside that share, when the other ranks' are gone: `sum`'s
/// temporary is counted beside all gradients. Buckets are flattened when the last backward pass is over: activations
/// are gone then.
pub(super) fn allocate(job: &Job, sum: &mut Resident) {
    let own = share(job, sum).saturating_mul(2 + 2 + 4);
    sum.optimizer_temporary += Bytes(own).saturating_sub(sum.gradients);
    sum.reduce_bucket = Bytes::ZERO;
}

/// Bytes of segments that the step and the reduction before it leave beside those that the peak of `allocated` bytes uses.
/// The flat tensors' are there from the first step on: the optimizer is tried with gradients of zero before (4 bytes), and
/// its masters are made from a copy of the weights (2 bytes). A gradient in fp64 needs a segment of its own where neither
/// those nor a gradient of the largest weight leave as much.
pub(in crate::predict) fn cached(job: &Job, run: &StageRun, allocated: u64) -> u64 {
    if !job.is_stepped_by_zero() {
        return 0;
    }
    let held = &run.resident;
    let share = share(job, held);
    let bucket = if job.degrees.shard_ranks > 1 { 2 * REDUCE_BUCKET.min(held.trained) } else { 0 };
    let there = held.lasting() + held.gradients + Bytes(run.workspaces + run.inputs + run.kept);
    let others = allocated.saturating_sub(there.0);
    let flat = share.saturating_mul(2 + 4).max(bucket).saturating_sub(others);
    let norm = held.largest_own.min(share).saturating_mul(8);
    let room = share.saturating_mul(4).max(held.largest.saturating_mul(2));
    let norm = if norm > room { norm } else { 0 };
    Bytes(flat.saturating_add(norm)).round_up(SEGMENT).0
}
