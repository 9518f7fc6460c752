//! DRAM traffic of an operator, from the tensors that its tape names.

use super::tape::reads_rows_slowly;
use crate::model::{Flow, Home, Op, Tape, TensorId, Work};
use crate::plan::keywords::{Engine, Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::memory::few_bits::quantised;
use crate::predict::step::pipeline::is_whole;
use crate::predict::step::{accumulates_whole, is_reduced_by_unit};

/// Arithmetic of an operator that PyTorch's counter leaves out: at least one operation for
/// each element that it reads or writes, whichever are more. It places the operator on the
/// roofline and takes no time: the bytes take longer.
pub(in crate::predict) fn arithmetic(tape: &Tape, op: &Op) -> f64 {
    if !op.elementwise || op.flops_forward > 0.0 {
        return 0.0;
    }
    let elements = |span| tape.ids(span).iter().map(|id| tape.get(*id).numel).max().unwrap_or(0);
    elements(op.inputs).max(elements(op.outputs)) as f64
}

/// Bytes that an operator reads and writes forward, and which of them are weights.
pub(in crate::predict) fn forward_bytes(job: &Job, tape: &Tape, op: &Op) -> (u64, u64) {
    let made: u64 = tape.ids(op.outputs).iter().fold(0, |sum, id| sum.saturating_add(tape.get(*id).bytes()));
    let (mut all, mut weights) = (made, 0_u64);
    // Statistics first, then the elements.
    let reads = if matches!(op.work, Work::Normalized | Work::GroupNormalized) { 2 } else { 1 };
    for id in tape.ids(op.inputs) {
        let bytes = match tape.get(*id).home {
            Home::Weight(at) => {
                let read = weight_bytes(job, tape, op, *id, at);
                weights = weights.saturating_add(read);
                read
            }
            _ => reads * tape.get(*id).bytes(),
        };
        all = all.saturating_add(bytes);
    }
    (all, weights)
}

/// Bytes read of a weight: as it is stored where an inference server multiplies it so, of a table that rows are
/// looked up in no more than those, of experts' those that run.
fn weight_bytes(job: &Job, tape: &Tape, op: &Op, id: TensorId, at: u32) -> u64 {
    let tensor = *tape.get(id);
    let numel = match op.work {
        Work::Product(product) if product.batch > 1 => {
            tensor.numel.min(product.batch.saturating_mul(product.inner).saturating_mul(product.columns))
        }
        _ => tensor.numel,
    };
    let bytes = numel.saturating_mul(tensor.element.bytes());
    if job.training.mode == Mode::Inference
        && let Some(few) = quantised(job, &tape.weights[at as usize])
    {
        return numel.saturating_mul(few.all()) / 1000;
    }
    match tape.ids(op.outputs) {
        [rows] if tape.ids(op.inputs) == [id] => bytes.min(tape.get(*rows).numel * tensor.element.bytes()),
        _ => bytes,
    }
}

/// What an operator's backward pass moves.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::predict) struct BackwardTraffic {
    pub activations: u64,
    pub parameters: u64,
    pub gradients: u64,
}

impl BackwardTraffic {
    pub const fn all(&self) -> u64 {
        self.activations.saturating_add(self.parameters).saturating_add(self.gradients)
    }
}

/// Activations, parameters and weight gradients that an operator's backward pass moves.
pub(in crate::predict) fn backward_bytes(job: &Job, tape: &Tape, op: &Op) -> BackwardTraffic {
    let mut moved = BackwardTraffic::default();
    let mut incoming = 0_u64;
    for id in tape.ids(op.outputs) {
        if tape.get(*id).grad {
            incoming = incoming.saturating_add(tape.get(*id).bytes());
        }
    }
    // Each matmul reads the output's gradient; so does the sum that is the bias's gradient.
    let flows = tape.flows(op.inputs);
    let reads =
        if op.unit.multiplies() { flows.iter().filter(|flow| **flow != Flow::Stop).count().max(1) as u64 } else { 1 };
    // Sums over the gradient and the saved input first, then the elements.
    // A norm's weight and bias have a kernel of their own, which reads both again.
    let parameters = flows.iter().skip(1).any(|flow| *flow != Flow::Stop);
    let twice = match op.work {
        Work::Normalized | Work::GroupNormalized => 2,
        Work::Rows if parameters && reads_rows_slowly(job) => 2,
        _ => 1,
    };
    moved.activations = incoming.saturating_mul(reads * twice);
    for id in tape.ids(op.saved) {
        let bytes = twice * tape.get(*id).bytes();
        if matches!(tape.get(*id).home, Home::Weight(_)) {
            moved.parameters = moved.parameters.saturating_add(bytes);
        } else {
            moved.activations = moved.activations.saturating_add(bytes);
        }
    }
    for (id, flow) in tape.ids(op.inputs).iter().zip(flows) {
        if matches!(flow, Flow::New | Flow::View | Flow::InPlace) {
            let tensor = tape.get(*id);
            if matches!(tensor.home, Home::Weight(_)) {
                let bytes = tensor.numel.saturating_mul(weight_gradient_bytes(job, tensor.element.bytes()));
                moved.gradients = moved.gradients.saturating_add(bytes);
            } else {
                moved.activations = moved.activations.saturating_add(tensor.bytes());
            }
        }
    }
    moved
}

/// Whether the kernels that compute weights' gradients add them to the main ones.
pub(super) fn adds_to_gradient(job: &Job) -> bool {
    job.profile.data_parallel.gradients_stay.is && job.training.gradient_accumulation_fusion
}

/// Bytes moved for each element of a weight's gradient: read and written where the matmul adds to the main gradient
/// itself; else written, and where the main one stays over the step read again with that, and their sum written.
fn weight_gradient_bytes(job: &Job, element: u64) -> u64 {
    let main = job.storage.gradient.bytes();
    if adds_to_gradient(job) {
        2 * main
    } else if job.profile.data_parallel.gradients_stay.is {
        2 * element + 2 * main
    } else {
        element
    }
}

/// In how many of so many micro-batches a weight's gradient that does not stay over the step is added to another one, by a
/// kernel of its own. The first micro-batch's are what they were made as (torch/csrc/autograd/functions/accumulate_grad.h takes
/// what it is handed where there is none); those that are reduced in each micro-batch are gone before the next one (FSDP layer by
/// layer; DeepSpeed, runtime/zero/stage_1_and_2.py and stage3.py, `partition_gradients`).
pub(super) fn additions(job: &Job) -> (u64, u64) {
    let batches = job.batch.accumulation.max(1);
    let by_partition = matches!(job.degrees.sharding, Sharding::Zero2 | Sharding::Zero3);
    let reduced =
        job.degrees.engine == Engine::Deepspeed && by_partition || is_reduced_by_unit(job) && !accumulates_whole(job);
    let stays = job.profile.data_parallel.gradients_stay.is;
    if stays || reduced { (0, 1) } else { (batches - 1, batches) }
}

/// Bytes that those additions move for an operator's weights, as the mean over the micro-batches.
pub(super) fn added_bytes(job: &Job, tape: &Tape, op: &Op) -> u64 {
    let (times, batches) = additions(job);
    if times == 0 {
        return 0;
    }
    // FSDP1 adds whole gradients in the type of the weights that it gathers (_runtime_utils.py, `_post_backward_hook`).
    let flat = job.degrees.engine == Engine::Fsdp1 && accumulates_whole(job);
    let main = if flat { job.storage.seen.bytes() } else { job.storage.gradient.bytes() };
    let inputs = tape.ids(op.inputs).iter().zip(tape.flows(op.inputs));
    let trained = inputs.filter(|(_, flow)| matches!(flow, Flow::New | Flow::View | Flow::InPlace));
    let weights = trained.map(|(id, _)| tape.get(*id)).filter(|tensor| matches!(tensor.home, Home::Weight(_)));
    let bytes: u64 = weights.map(|tensor| tensor.numel.saturating_mul(tensor.element.bytes() + 2 * main)).sum();
    bytes.saturating_mul(times) / batches
}

/// Bytes that FSDP moves within a GPU for each element of a tape's weights, forward and backward. FSDP2 copies what it
/// gathered into the parameters and gradients into the buffer that is reduced, in the type of the reduction
/// (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, `foreach_all_gather_copy_out` and
/// `foreach_reduce_scatter_copy_in`); FSDP1's parameters are views of the flat one, whose gradient is put together and
/// cast (torch/distributed/fsdp/_flat_param.py).
const fn sharded_bytes(job: &Job) -> (u64, u64) {
    let (compute, reduce) = (job.storage.compute.bytes(), job.storage.reduce.bytes());
    let flat = matches!(job.degrees.engine, Engine::Fsdp1);
    let gathered = if flat { 0 } else { 2 * compute };
    let cast = if flat && reduce != compute { compute + reduce } else { 0 };
    let put_together = if flat { 2 * compute } else { compute + reduce };
    (gathered, gathered + put_together + cast)
}

/// What sharding moves within a GPU in one pass through a tape, forward and backward, which gathers the weights so often.
pub(in crate::predict) fn sharding_traffic(job: &Job, tape: &Tape, gathers: Option<u8>) -> (u64, u64) {
    // Under a pipeline each weight is copied once a step, which is nothing beside its passes.
    if job.degrees.sharding != Sharding::Zero3 || job.degrees.shard_ranks < 2 || is_whole(job) {
        return (0, 0);
    }
    let (forward, backward) = sharded_bytes(job);
    let count = tape.parameters();
    let backward = gathers.map_or(0, |gathers| backward + u64::from(gathers.saturating_sub(1)) * forward);
    (count.saturating_mul(forward), count.saturating_mul(backward))
}
