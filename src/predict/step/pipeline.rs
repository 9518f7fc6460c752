//! What a pipeline adds to a stage's memory: micro-batches under way, the inputs that each stage loads, and what a
//! step leaves behind.

use crate::plan::keywords::{CpuOffload, Mode, Schedule, Sharding};
use crate::predict::job::optimizer::rounded;
use crate::predict::job::{Job, StageLayers};
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::predict::step::rounds::Rounds;

/// What a pipeline's step leaves behind until the next one: each of Megatron's model chunks keeps the hidden state
/// that it was sent last, whose gradient is retained with it (megatron-core 0.16, transformer/transformer_block.py,
/// `set_input_tensor`; pipeline_parallel/schedules.py, `input_tensor.retain_grad()`).
pub(in crate::predict) fn left_over(job: &Job, step: &StepTapes, layers: &StageLayers, first: bool) -> u64 {
    if !job.profile.pipeline.keeps_last_received.is || job.stages.len() < 2 || job.training.mode == Mode::Inference {
        return 0;
    }
    let chunks = (layers.chunks.len() as u64).saturating_sub(u64::from(first));
    sent(step).saturating_mul(2 * chunks)
}

/// Whether it trains in stages that are PyTorch's (torch/distributed/pipelining).
pub(in crate::predict) fn trains_in_stages(job: &Job) -> bool {
    job.profile.pipeline.buffers_per_micro_batch.is && job.stages.len() > 1 && job.training.mode == Mode::Train
}

/// Whether a stage's weights stay gathered from the first micro-batch's forward pass to the last one's backward pass,
/// and its gradients whole until then: torchtitan's default under a pipeline (distributed/fsdp.py,
/// `get_fsdp_reshard_after_forward_policy`; PyTorch, torch/distributed/pipelining/stage.py,
/// `backward_maybe_with_nosync`, which reduces behind the last backward pass alone).
pub(in crate::predict) fn is_whole(job: &Job) -> bool {
    job.degrees.sharding == Sharding::Zero3 && trains_in_stages(job)
}

/// Buffers of a stage for what its neighbours send: PyTorch's stages have one for each micro-batch's activations and one
/// for its gradients from the first step on (torch/distributed/pipelining/stage.py, `_prepare_forward_infra` and
/// `_create_grad_recv_info`). Inputs of micro-batches under way lie in theirs, and count as saved.
pub(in crate::predict) fn received(job: &Job, step: &StepTapes, index: usize) -> u64 {
    if !trains_in_stages(job) {
        return 0;
    }
    let stages = job.stages.len();
    let chunks = job.degrees.virtual_pipeline;
    let all = job.batch.accumulation.saturating_mul(chunks);
    let each = |is_end: bool| all.saturating_sub(if is_end { job.batch.accumulation } else { 0 });
    let (forward, backward) = (each(index == 0), each(index + 1 == stages));
    let idle = forward.saturating_sub(under_way(job, index));
    sent(step).saturating_mul(idle.saturating_add(backward))
}

/// Bytes that a stage sends on for a micro-batch.
fn sent(step: &StepTapes) -> u64 {
    let tape = step.walk.kinds.first().map(|(_, tape)| tape);
    tape.and_then(|tape| tape.input().map(|id| tape.get(id).allocated())).unwrap_or(0)
}

/// The micro-batch's ids, labels and masks on a stage.
pub(in crate::predict) fn inputs(job: &Job, step: &StepTapes, first: bool, last: bool) -> u64 {
    if !loaded_by_stage(job) {
        return step.walk.inputs;
    }
    let tokens = job.batch.micro.saturating_mul(job.batch.sequence.div_ceil(job.degrees.context));
    let of = |bytes: u64| rounded(tokens.saturating_mul(bytes));
    // Token and position ids; labels and the mask of the loss. Plans do not say whether the loader makes an
    // attention mask as well: it is left out.
    let ids = if first { 2 * of(8) } else { 0 };
    let labels = if last { of(8) + of(4) } else { 0 };
    ids + labels
}

/// Whether each stage loads only what it reads (megatron, training/utils.py, get_batch_on_this_tp_rank).
pub(in crate::predict) fn loaded_by_stage(job: &Job) -> bool {
    job.profile.pipeline.loads_by_stage.is && job.training.mode == Mode::Train && job.decoder().is_some()
}

/// Passes of a chunk that stage `index` makes forward before its first one backward, and as many backward after its last
/// one forward.
pub(in crate::predict) fn warm_up(job: &Job, index: usize) -> u64 {
    let behind = behind(job, index);
    if job.degrees.virtual_pipeline > 1 { Rounds::of(job).warm_up(behind) } else { behind.min(job.batch.accumulation) }
}

/// Stages behind stage `index`.
fn behind(job: &Job, index: usize) -> u64 {
    (job.stages.len() as u64).saturating_sub(1 + index as u64)
}

/// Passes of a chunk that stage `index` has made forward and not yet backward, at most.
fn under_way(job: &Job, index: usize) -> u64 {
    let all = job.batch.accumulation.saturating_mul(job.degrees.virtual_pipeline);
    match job.degrees.schedule {
        Schedule::Gpipe => all,
        Schedule::OneFOneB => (behind(job, index) + 1).min(all),
        Schedule::Interleaved => (warm_up(job, index) + 1).min(all),
    }
}

/// Saved bytes of the micro-batches that are under way beside the one that is played.
pub(in crate::predict) fn in_flight(job: &Job, index: usize, held: &StageTapes<'_>) -> u64 {
    if job.stages.len() < 2 {
        return 0;
    }
    let chunks = job.degrees.virtual_pipeline;
    let (offload, by_module) =
        (job.training.cpu_offload == CpuOffload::Activations, !job.training.offload_modules.is_empty());
    let until = job.training.offload_layers.unwrap_or(u64::MAX);
    let here =
        |layer: u64| -> u64 { held.step.layer(layer).stays_here(offload && layer < until, by_module).iter().sum() };
    let ends = if held.first { held.step.first.retained_bytes() } else { 0 };
    let waiting = if job.degrees.schedule == Schedule::Interleaved && chunks > 1 {
        let of = |(first, layers): &(u64, u64)| (*first..first + layers).map(here).fold(0, u64::saturating_add);
        let mut each: Vec<u64> = job.stages[index].chunks.iter().map(of).collect();
        if let Some(first) = each.first_mut() {
            *first = first.saturating_add(ends);
        }
        if let Some(last) = each.last_mut().filter(|_| held.last) {
            *last = last.saturating_add(held.step.last.retained_bytes());
        }
        let one = each.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        Rounds::of(job).most(behind(job, index), &each).saturating_sub(one)
    } else {
        let one = held.layers.iter().map(|layer| here(*layer)).fold(ends, u64::saturating_add);
        (one / chunks).saturating_mul(under_way(job, index).saturating_sub(chunks))
    };
    waiting.saturating_add(deferred(job, held))
}

/// Operands of the output matrix's weight gradients that wait for the pipeline to drain: the hidden state and the
/// gradient of the logits, in 16 bit, of so many micro-batches (megatron-core, core/tensor_parallel/layers.py,
/// `embedding_activation_buffer` and `grad_output_buffer`).
fn deferred(job: &Job, held: &StageTapes<'_>) -> u64 {
    if !held.last || !job.training.deferred_head {
        return 0;
    }
    let Some(block) = job.decoder() else { return 0 };
    let rows = block.padded_vocab(job.vocab_multiple()).div_ceil(job.degrees.tensor);
    let tokens = job.batch.micro.saturating_mul(job.batch.sequence.div_ceil(job.degrees.context));
    let one = tokens.saturating_mul(rows.saturating_add(block.hidden)).saturating_mul(job.storage.seen.bytes());
    one.saturating_mul(job.batch.accumulation.min(DEFERRED))
}

/// Micro-batches that wait at most. Megatron's default defers all, but every configuration that it ships with this
/// defers two (tests/functional_tests/test_cases/gpt/*defer_embedding_wgrad_compute*, `--wgrad-deferral-limit: 2`).
const DEFERRED: u64 = 2;
