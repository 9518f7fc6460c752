//! Time of a convolution: an implicit matmul of the output's positions by the windows' elements, and what turns tensors
//! from NCHW into the order that matrix units read.
//!
//! With the matmul's constants alone the 84 forward convolutions in FP16 of DeepBench's V100 and T4 tables
//! (baidu-research/DeepBench, results/train) are met within a median of 2 and 8 %.

use crate::catalog::{ConvolutionCurve, Generation};
use crate::model::{Convolution, Element, MatMul};
use crate::plan::keywords::Mode;
use crate::predict::job::Job;

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

/// Whether the kernels take NHWC while the tensors are NCHW: those of matrix units do. What oneDNN's kernels of a CPU turn
/// round is part of their measured time.
pub(super) fn transforms(job: &Job, element: Element) -> bool {
    if job.hardware.gpu.generation == Generation::Cpu {
        return false;
    }
    let has_tf32 = job.hardware.gpu.peaks.tf32.is_some();
    let on_matrix_units = element.bytes() < 4 || (job.storage.tf32 && has_tf32);
    on_matrix_units && !job.training.channels_last
}

/// Bytes that turning the tensors of a convolution moves, forward and backward: each is read and written once for each
/// kernel that reads it, as its result is (cuDNN's nchwToNhwc and nhwcToNchw kernels around each call).
pub(super) fn transformed(job: &Job, (input, output): (u64, u64), needs_input: bool) -> (u64, u64) {
    let once = 2 * (input + output);
    let backward = if needs_input { 2 * once } else { once };
    (once, if job.training.mode == Mode::Train { backward } else { 0 })
}
