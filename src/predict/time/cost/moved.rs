//! What reads and writes DRAM about an operator without computing: casts to FP8, and copies about collectives.

use crate::catalog::Generation;
use crate::framework::Gather;
use crate::model::{Home, Op, Tape, TensorId, Work};
use crate::plan::keywords::{Fp8Recipe, Mode};
use crate::predict::job::Job;
use crate::predict::memory::few_bits::quantised;
use crate::predict::step::gathers_fp8;

/// Bytes that turning one operand of an FP8 matmul into FP8 moves, for each element: read once, and once more for
/// its largest value where that must be known first; written as it lies and transposed, where matmuls need that:
/// Blackwell's take either way (`is_non_tn_fp8_gemm_supported`), but with a scale for each block.
/// (Transformer Engine, pytorch/tensor/: `Float8Quantizer` casts by an older scale, `Float8CurrentScalingQuantizer`
/// finds the scale first, `Float8BlockQuantizer` and `MXFP8Quantizer` write rows and columns in one pass;
/// torchao's rowwise scales read once for each direction.)
const fn cast_bytes(recipe: Fp8Recipe, generation: Generation) -> u64 {
    let turned = if matches!(generation, Generation::Blackwell) { 0 } else { 1 };
    match recipe {
        Fp8Recipe::Blockwise | Fp8Recipe::Mxfp8 => 4,
        Fp8Recipe::Delayed => 3 + turned,
        Fp8Recipe::Rowwise => 6,
        Fp8Recipe::Tensorwise => 5 + turned,
    }
}

/// Bytes of the casts to FP8 before an operator's forward matmul, and before its backward ones. Weights are cast
/// once a step by Megatron (`is_first_microbatch`), else with every pass.
pub(in crate::predict) fn cast_traffic(job: &Job, tape: &Tape, op: &Op) -> (u64, u64) {
    let covered = matches!(op.work, Work::Product(product) if product.layer);
    if !covered || !job.storage.fp8 || job.training.mode == Mode::Inference {
        return (0, 0);
    }
    let each = cast_bytes(job.speed.fp8_recipe, job.hardware.gpu.generation);
    let numel = |id: Option<&TensorId>| id.map_or(0, |id| tape.get(*id).numel);
    let inputs = tape.ids(op.inputs);
    let passes = if job.modules.fp8_weights_once.is { job.batch.accumulation } else { 1 };
    let weight = (numel(inputs.get(1)) / passes.max(1)).saturating_mul(each);
    let (input, result) = (inputs.first(), tape.ids(op.outputs).first());
    let (input, turned) = input.map_or((0, 0), |id| cast_input(job, tape, (op, *id), each));
    let backward = match result {
        // The gradient of what is summed and scattered is cast, gathered, and turned round.
        Some(id) if casts_shards(job) && sent(tape, *id).is_some() => on_shard(job, numel(result), each),
        _ => numel(result).saturating_mul(each),
    };
    (input.saturating_add(weight), turned.saturating_add(backward))
}

/// Whether inputs are cast where they are shards, once for all the matmuls that read them, and each rank then turns the
/// whole round for the backward matmuls (torchao, float8/float8_tensor_parallel.py and float8_ops.py). Transformer
/// Engine's tapes have shards as inputs.
fn casts_shards(job: &Job) -> bool {
    job.modules.fp8_gathers.is && gathers_fp8(job) && job.degrees.sequence_parallel
}

/// The collective that brings a tensor or takes it away.
fn sent(tape: &Tape, id: TensorId) -> Option<&Op> {
    let touches = |op: &&Op| tape.ids(op.inputs).contains(&id) || tape.ids(op.outputs).contains(&id);
    tape.ops.iter().filter(|op| op.work == Work::Sent).find(touches)
}

/// Bytes of casting a shard of `numel` elements in one direction, and of turning the whole round.
const fn on_shard(job: &Job, numel: u64, each: u64) -> u64 {
    (numel / job.degrees.tensor).saturating_mul(each - 1).saturating_add(numel.saturating_mul(TURNED))
}

/// Bytes read and written to turn one FP8 element's matrix round.
const TURNED: u64 = 2;

/// Bytes of the cast of an operator's input, forward and backward.
fn cast_input(job: &Job, tape: &Tape, (op, id): (&Op, TensorId), each: u64) -> (u64, u64) {
    let numel = tape.get(id).numel;
    if !casts_shards(job) || sent(tape, id).is_none() {
        return (numel.saturating_mul(each), 0);
    }
    let reads = |other: &&Op| matches!(other.work, Work::Product(_)) && tape.ids(other.inputs).first() == Some(&id);
    if tape.ops.iter().find(reads).is_some_and(|first| std::ptr::eq(first, op)) {
        let turned = numel.saturating_mul(TURNED);
        (on_shard(job, numel, each).saturating_sub(turned), turned)
    } else {
        (0, 0)
    }
}

/// Bytes that are copied about a collective of sequence parallel, forward and backward. DTensor's gather along the
/// sequence from the outermost dimension and put the parts in order; to scatter, they are cut so first (PyTorch,
/// torch/distributed/_functional_collectives.py, `all_gather_tensor` and `reduce_scatter_tensor`). In pieces beside their
/// matmuls, gathers find their place, and the ranks' partial results are summed by a kernel
/// (torch/distributed/_symmetric_memory, `_fused_matmul_reduce_scatter_impl`).
pub(in crate::predict) fn rearranged(job: &Job, tape: &Tape, op: &Op) -> (u64, u64) {
    if job.modules.gather.is != Gather::Saved || !job.degrees.sequence_parallel {
        return (0, 0);
    }
    let both = || tape.ids(op.inputs).iter().chain(tape.ids(op.outputs));
    let whole = both().map(|id| tape.get(*id).numel).max().unwrap_or(0);
    let element = tape.ids(op.inputs).first().map_or(0, |id| tape.get(*id).element.bytes());
    let of_layer = |other: &Op| {
        matches!(other.work, Work::Product(product) if product.layer)
            && both().any(|id| tape.ids(other.inputs).contains(id) || tape.ids(other.outputs).contains(id))
    };
    let gathered = if gathers_fp8(job) && tape.ops.iter().any(of_layer) { 1 } else { element };
    let (gather, scatter) = if job.speed.overlap_tensor {
        (0, whole.saturating_add(whole / job.degrees.tensor).saturating_mul(element))
    } else {
        (whole.saturating_mul(2 * gathered), whole.saturating_mul(2 * element))
    };
    match op.name {
        "all_gather" => (gather, scatter),
        "reduce_scatter" => (scatter, gather),
        _ => (0, 0),
    }
}

/// Bytes that turning a quantized base's weights into 16 bit moves: read as they are stored, written as they are
/// multiplied (bitsandbytes, autograd/_functions.py, `MatMul4Bit`: forward and backward each call `dequantize_4bit`, and
/// so does `MatMul8bitLt`). Servers multiply them as they are.
pub(super) fn dequantized(job: &Job, tape: &Tape, op: &Op) -> u64 {
    if job.training.mode == Mode::Inference || !matches!(op.work, Work::Product(_)) {
        return 0;
    }
    let made = |id: &TensorId| match tape.get(*id).home {
        Home::Weight(at) => quantised(job, &tape.weights[at as usize])
            .map_or(0, |few| tape.get(*id).numel.saturating_mul(few.all() + 1000 * job.storage.compute.bytes()) / 1000),
        _ => 0,
    };
    tape.ids(op.inputs).iter().map(made).sum()
}
