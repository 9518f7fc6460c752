//! Time of a convolution: an implicit matmul of the output's positions by the windows' elements, and what turns tensors
//! from NCHW into the order that matrix units read.
//!
//! With the matmul's constants alone the 84 forward convolutions in FP16 of DeepBench's V100 and T4 tables
//! (baidu-research/DeepBench, results/train) are met within a median of 2 and 8 %.

use super::kernel::peak;
use super::tape::Tally;
use crate::catalog::{ConvolutionCurve, Generation};
use crate::model::{Convolution, MatMul, Op, Unit};
use crate::predict::job::Job;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::{Bytes, Seconds};

/// What is left of the matmul's rate for the gradient of the input and of the weight: the medians of the same tables on
/// V100 take 1.11 to 1.36 and 1.13 to 1.23 times as long as the matmul of their shape.
const OF_INPUT: f64 = 0.86;
const OF_WEIGHT: f64 = 0.84;
/// Channels are padded to so many elements, the first layer's few to four (cuDNN developer guide, "Tensor Core
/// operations": NHWC kernels take multiples of 8, padded by cuDNN; its first-layer kernels 4).
const PADDED: u64 = 8;
const FEW: u64 = 4;
/// Multiplications that Winograd's F(2x2, 3x3) saves of a window of nine, of the 2.25 that it could (Lavin and Gray, arXiv
/// 1509.09308, table 5: 1.48 to 2.0 of them in FP32).
const WINOGRAD: f64 = 1.6;

/// Which of a convolution's matmuls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvolutionKernel {
    /// The output.
    Forward,
    /// The input's gradient.
    Input,
    /// The weight's gradient.
    Weight,
}

/// The matmul that a convolution is in that direction.
#[must_use]
pub fn implicit(conv: &Convolution, direction: ConvolutionKernel) -> MatMul {
    let pad = |channels: u64| if channels <= FEW { FEW } else { channels.next_multiple_of(PADDED) };
    let (from, to) = (pad(conv.from), pad(conv.to));
    let [rows, inner, columns] = match direction {
        ConvolutionKernel::Forward => [conv.positions, from * conv.window, to],
        // Positions that the stride leaves out get no matmuls: as many operations as forward.
        ConvolutionKernel::Input => [conv.positions, to * conv.window, from],
        ConvolutionKernel::Weight => [to, conv.positions, from * conv.window],
    };
    MatMul { batch: 1, rows, inner, columns, layer: false }
}

/// What is left of the matmul's rate in that direction, and of the multiplications where vector units compute windows
/// of nine.
pub(super) fn keeps(
    conv: &Convolution,
    direction: ConvolutionKernel,
    vector: bool,
    measured: Option<&ConvolutionCurve>,
) -> f64 {
    if let Some(curve) = measured {
        let (forward, input, weight) = if conv.window == 1 { curve.pointwise } else { curve.window };
        return match direction {
            ConvolutionKernel::Forward => forward,
            ConvolutionKernel::Input => input,
            ConvolutionKernel::Weight => weight,
        };
    }
    let saved = if vector && conv.window == 9 && !conv.strided { WINOGRAD } else { 1.0 };
    let keeps = match direction {
        ConvolutionKernel::Forward => 1.0,
        ConvolutionKernel::Input => OF_INPUT,
        ConvolutionKernel::Weight => OF_WEIGHT,
    };
    keeps * saved
}

/// Whether a convolution's kernels take NHWC while its tensors are NCHW: those of matrix units do. What oneDNN's kernels of a
/// CPU turn round is part of their measured time.
fn is_turned(job: &Job, name: &str) -> bool {
    job.hardware.gpu.generation != Generation::Cpu && name != "fp32" && !job.training.channels_last
}

/// How one kernel of a convolution runs.
struct ConvolutionRun {
    compute: Seconds,
    /// Bytes that turning its tensors moves: each is read and written once for each kernel that reads it, as its result is
    /// (cuDNN's nchwToNhwc and nhwcToNchw kernels around each call).
    turned: u64,
}

impl Tally<'_> {
    /// A convolution on the compute roof, and turning its tensors round.
    pub(super) fn convolutions(&mut self, op: &Op, conv: &Convolution) -> (PassCosts, PassCosts) {
        let forward = self.convolution(op, conv, ConvolutionKernel::Forward);
        let (mut compute, mut turned) = (Seconds::ZERO, 0);
        for (needed, direction) in self.needs(op).into_iter().zip([ConvolutionKernel::Input, ConvolutionKernel::Weight])
        {
            if needed && self.trains {
                let one = self.convolution(op, conv, direction);
                compute += one.compute;
                turned += one.turned;
            }
        }
        self.sums.traffic.activations += Bytes(forward.turned + turned);
        let [turned_forward, turned_backward] =
            [forward.turned, turned].map(|bytes| self.moves("convolution.transform", bytes));
        let compute = PassCosts { forward: forward.compute, backward: compute };
        (compute, PassCosts { forward: turned_forward, backward: turned_backward })
    }

    /// One kernel of it: on matrix units, or, where they would have TF32 only, on vector units if those are quicker, which
    /// take NCHW as it is. cuDNN times both where it may, and its heuristics take Winograd's FP32 kernel for windows of nine
    /// on GPUs whose TF32 is no faster than their FP32.
    fn convolution(&self, op: &Op, conv: &Convolution, direction: ConvolutionKernel) -> ConvolutionRun {
        let product = implicit(conv, direction);
        let measured = self.job.speed.curves.convolution.as_ref();
        let on = |unit, vector| {
            let rate = self.kernels.sustained(unit, false) * keeps(conv, direction, vector, measured);
            self.kernels.product(&product, unit, rate)
        };
        let (_, name) = peak(self.job, op.unit, false);
        let compute = on(op.unit, name == "fp32");
        let bytes = |span| self.tape.ids(span).first().map_or(0, |id| self.tape.get(*id).bytes());
        let tensors = bytes(op.inputs) + bytes(op.outputs);
        let turned = if is_turned(self.job, name) { 2 * tensors } else { 0 };
        if name == "tf32" {
            let vector = on(Unit::Vector, true);
            let moved = self.kernels.memory(tensors, false);
            let with = |compute: Seconds| Seconds(compute.0.hypot(moved.0));
            if with(vector) < with(compute) + self.kernels.memory(turned, false) {
                return ConvolutionRun { compute: vector, turned: 0 };
            }
        }
        ConvolutionRun { compute, turned }
    }
}
