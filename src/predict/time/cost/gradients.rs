//! Kernels that add gradients up and put their parts together.

use super::operator_row::Run;
use super::tape::Tally;
use crate::model::{Flow, Home, Op, Tape, Unit, Work};
use crate::predict::job::Job;
use crate::units::{Bytes, Seconds};

/// Bytes that a kernel beside a linear layer's backward matmuls reads for the gradient of its bias, which is the sum of
/// the output's gradient over the tokens: the engine reduces it to the bias's shape (torch/csrc/autograd/engine.cpp,
/// `validate_outputs`), and so does Megatron's own layer (core/tensor_parallel/layers.py, `grad_output.sum(dim=0)`).
/// Transformer Engine's matmul of the weight's gradient sums it on the way (common/gemm/cublaslt_gemm.cu,
/// `CUBLASLT_EPILOGUE_BGRADB`), and Inductor's kernels that make the output's gradient do.
pub(super) fn summed_for_bias(job: &Job, tape: &Tape, op: &Op) -> u64 {
    let biased = tape.flows(op.inputs).get(2).is_some_and(|flow| *flow != Flow::Stop);
    if !matches!(op.work, Work::Product(_)) || !biased || job.training.compile || job.modules.transformer_engine.is {
        return 0;
    }
    tape.ids(op.outputs).first().map(|id| tape.get(*id)).filter(|made| made.grad).map_or(0, |made| made.bytes())
}

impl Tally<'_> {
    /// The gradient of what was copied into another order is copied back.
    pub(super) fn reorders_gradient(&mut self, op: &Op) {
        let inputs = self.tape.ids(op.inputs).iter().map(|id| self.tape.get(*id));
        let bytes: u64 = inputs.filter(|one| one.grad).map(|one| one.bytes()).sum();
        if bytes == 0 || self.job.training.compile {
            return;
        }
        self.sums.traffic.activations += Bytes(2 * bytes);
        let seconds = self.moves("gradient.reorder", 2 * bytes);
        self.sums.pass.card.backward += seconds;
        self.launches.backward += 1.0;
    }

    /// The gradients of views of one tensor's parts are put together in one by a kernel (torch/csrc/autograd/
    /// FunctionsManual.cpp, `split_backward` and `chunk`'s: `cat`; `slice_backward` fills the rest with zeros).
    pub(super) fn joins_gradients(&mut self, op: &Op) {
        if self.job.training.compile || !self.tape.flows(op.inputs).contains(&Flow::New) {
            return;
        }
        let bytes = |span| self.tape.ids(span).iter().map(|id| self.tape.get(*id)).filter(|one| one.grad);
        let bytes = |span| bytes(span).map(|one| one.bytes()).fold(0, u64::saturating_add);
        let (whole, parts) = (bytes(op.inputs), bytes(op.outputs));
        if whole == 0 || parts == 0 {
            return;
        }
        self.sums.traffic.activations += Bytes(whole + parts);
        let seconds = self.moves("gradient.join", whole + parts);
        self.sums.pass.card.backward += seconds;
    }

    /// Gradients of tensors that several operators read are added up, by kernels of their own.
    pub(super) fn gradient_sums(&mut self) -> Seconds {
        if self.job.training.compile {
            return Seconds::ZERO;
        }
        let tape = self.tape;
        let mut readers = vec![0_u64; tape.tensors.len()];
        for op in &tape.ops {
            for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
                if *flow != Flow::Stop {
                    readers[id.0 as usize] += 1;
                }
            }
        }
        let (mut bytes, mut kernels) = (0_u64, 0_u64);
        for (tensor, readers) in tape.tensors.iter().zip(readers) {
            if readers > 1 && tensor.grad && !matches!(tensor.home, Home::Weight(_)) {
                // Two read, their sum written.
                bytes = bytes.saturating_add(tensor.bytes().saturating_mul(3 * (readers - 1)));
                kernels += readers - 1;
            }
        }
        if kernels == 0 {
            return Seconds::ZERO;
        }
        self.sums.traffic.activations += Bytes(bytes);
        self.add(
            ("gradient.add", Unit::Vector, false),
            Run { flops: 0.0, bytes, compute: Seconds::ZERO, long: Seconds::ZERO, kernels, rows: false },
        )
    }
}
