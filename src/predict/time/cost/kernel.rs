//! Time of one kernel on the job's GPU: the roofs with what kernels reach of them.

use super::attention::{attention_kernels, in_three_products};
use super::clock::{clock_rate, matrix_clock, multiprocessors, tf32_clock, vector_clock};
use super::matmul::MatrixUnit;
use crate::catalog::{AttentionCurve, Fp8Scales, Generation};
use crate::model::{Element, MatMul, Unit};
use crate::plan::keywords::Fp8Recipe;
use crate::predict::job::Job;
use crate::units::{FlopsPerSec, Seconds};

/// The dense peak of a unit on the job's GPU, and its name. Linear layers within blocks (`layer`) multiply in FP8
/// where the plan says so.
pub(in crate::predict) fn peak(job: &Job, unit: Unit, layer: bool) -> (FlopsPerSec, &'static str) {
    let peaks = &job.hardware.gpu.peaks;
    let vector = peaks.fp32.or(peaks.tf32).or(peaks.bf16).or(peaks.fp16).unwrap_or(FlopsPerSec(1e12));
    let element = match unit {
        Unit::Vector => return (vector, "fp32"),
        Unit::Attention(Element::F32) if in_three_products(job).is_some() => {
            return (in_three_products(job).unwrap_or(vector), "fp32");
        }
        Unit::Attention(element) => element,
        Unit::Matrix(element) if layer && job.storage.fp8 && element != Element::F32 => {
            // A GPU without FP8 units multiplies in bf16 what it holds in FP8 (vLLM, fp8_marlin).
            let wider = || peaks.bf16.map_or((vector, "fp32"), |peak| (peak, "bf16"));
            return peaks.fp8.map_or_else(wider, |peak| (peak, "fp8"));
        }
        // PyTorch lets convolutions take TF32 unless told not to (`torch.backends.cudnn.allow_tf32`, CUDA semantics), matmuls
        // only where it is told so.
        Unit::Convolution(Element::F32) => return peaks.tf32.map_or((vector, "fp32"), |peak| (peak, "tf32")),
        Unit::Matrix(element) | Unit::Convolution(element) => element,
    };
    match element {
        Element::F16 => peaks.fp16.map_or((vector, "fp32"), |peak| (peak, "fp16")),
        // A GPU without bf16 units computes it on the vector units.
        Element::Bf16 | Element::Fp8 => peaks.bf16.map_or((vector, "fp32"), |peak| (peak, "bf16")),
        _ if job.storage.tf32 => peaks.tf32.map_or((vector, "fp32"), |peak| (peak, "tf32")),
        _ => (vector, "fp32"),
    }
}

/// Rates of the job's GPU.
pub(in crate::predict) struct Kernels<'a> {
    pub(super) job: &'a Job,
    /// DRAM bandwidth that long kernels reach, bytes a second.
    bandwidth: f64,
    /// The same of kernels that normalise rows.
    rows: f64,
    /// Time of a kernel beside its bytes and operations.
    pub start: Seconds,
    /// Share of the clock that the power limit leaves matrix units.
    pub(super) clock: f64,
    /// The same in TF32.
    pub(super) tf32_clock: f64,
    /// The same of vector units.
    pub(super) vector_clock: f64,
    pub(super) multiprocessors: f64,
    /// Operations a second of large 16-bit matmuls.
    half: f64,
    pub(super) attention: &'a AttentionCurve,
}

impl<'a> Kernels<'a> {
    pub fn of(job: &'a Job) -> Self {
        let (curves, gpu) = (&job.speed.curves, &job.hardware.gpu);
        let clock = matrix_clock(job);
        let in_training = curves.matrix.in_training;
        let half = gpu.peaks.bf16.or(gpu.peaks.fp16).map_or(1e12, |peak| peak.0) * curves.matrix.half * clock;
        let dram = gpu.bandwidth.0 * if gpu.inline_ecc { curves.memory.inline_ecc } else { 1.0 };
        Self {
            job,
            bandwidth: dram * curves.memory.share,
            rows: dram * curves.memory.rows,
            start: Seconds(curves.memory.kernel_us * 1e-6),
            clock: clock * in_training,
            tf32_clock: tf32_clock(job) * in_training,
            vector_clock: vector_clock(job) * in_training,
            half: half * in_training,
            multiprocessors: multiprocessors(gpu),
            attention: curves.attention(attention_kernels(job)),
        }
    }

    /// Operations a second that large kernels of a unit sustain.
    pub fn sustained(&self, unit: Unit, layer: bool) -> f64 {
        let (peak, name) = peak(self.job, unit, layer);
        let matrix = &self.job.speed.curves.matrix;
        match (unit, name) {
            (Unit::Vector, _) | (_, "fp32") => peak.0 * matrix.fp32 * self.vector_clock,
            (_, "fp8") => peak.0 * matrix.fp8 * self.clock * scaled(self.job.speed.fp8_recipe, matrix.fp8_scales),
            // TF32 is allowed, not demanded (cuBLAS, CUBLAS_COMPUTE_32F_FAST_TF32): where a GPU's vector units are as
            // quick, fp32 stays.
            (_, "tf32") => {
                let vector = self.job.hardware.gpu.peaks.fp32.map_or(0.0, |peak| peak.0);
                (peak.0 * matrix.tf32 * self.tf32_clock).max(vector * matrix.fp32 * self.vector_clock)
            }
            _ => peak.0 * matrix.half * self.clock,
        }
    }

    /// What is left of a unit's rate in the matmuls of the backward pass: of the input's gradient and of the weight's.
    pub fn backward(&self, unit: Unit, layer: bool) -> (f64, f64) {
        let (_, name) = peak(self.job, unit, layer);
        let mut shares = self.job.speed.curves.matrix.backward.iter();
        shares.find(|(element, ..)| element == name).map_or((1.0, 1.0), |(_, input, weight)| (*input, *weight))
    }

    /// Operations a second, at so many for each clock of each multiprocessor.
    pub fn per_clock(&self, operations: f64) -> f64 {
        operations * clock_rate(&self.job.hardware.gpu) * self.multiprocessors * self.clock
    }

    /// Operations a second of a batch of matmuls over heads, `rate` where the heads lie aligned. Heads are views of one
    /// tensor whose first elements lie a head's size apart. Where that is no multiple of 16 bytes, cuBLAS has no kernel of
    /// the matrix units for the batch (NVIDIA, "Matrix Multiplication Background User's Guide", section 3: 16 bytes), and
    /// vector units multiply: BLOOM's trials with heads of 108 and 150 took 1.4 times as long as with 144 and 216
    /// (bigscience, train/tr11-176B-ml/chronicles-prequel.md). Of both sizes the smaller one is the head's.
    pub fn of_heads(&self, rate: f64, product: &MatMul, element: u64) -> f64 {
        let head = product.inner.min(product.columns).saturating_mul(element);
        if element > 2 || head.is_multiple_of(16) { rate } else { rate.min(self.sustained(Unit::Vector, false)) }
    }

    /// Time of a batch of matmuls at a sustained rate.
    pub fn product(&self, product: &MatMul, unit: Unit, rate: f64) -> Seconds {
        let curve = &self.job.speed.curves.matrix;
        let rate = if product.batch > 1 && product.layer { rate * curve.grouped } else { rate };
        // No faster than the vector units: it is they that multiply.
        let on_vector_units = rate <= self.sustained(Unit::Vector, false);
        let has_blocks = self.job.hardware.gpu.generation != Generation::Cpu;
        let product = if on_vector_units && has_blocks { in_whole_tiles(product) } else { *product };
        let matrix = MatrixUnit {
            rate,
            fill: self.fill(unit, product.layer, rate),
            multiprocessors: self.multiprocessors,
            bandwidth: self.bandwidth,
            start: curve.start_us * 1e-6,
        };
        Seconds(matrix.seconds(&product))
    }

    /// Inner size in which a rate takes as long as filling and draining a tile. Memory sets that time, not the
    /// multipliers: it was fitted on 16-bit matmuls, and slower units take no longer over it.
    fn fill(&self, unit: Unit, layer: bool, rate: f64) -> f64 {
        let matrix = &self.job.speed.curves.matrix;
        let (_, name) = peak(self.job, unit, layer);
        let slower = if matches!(name, "fp32" | "tf32") { (rate / self.half).min(1.0) } else { 1.0 };
        matrix.fill * slower
    }

    /// Time that `bytes` of DRAM traffic take, of kernels that normalise `rows` or of others.
    pub fn memory(&self, bytes: u64, rows: bool) -> Seconds {
        Seconds(bytes as f64 / if rows { self.rows } else { self.bandwidth })
    }
}

/// Rows or columns of the smallest tile that vector units' kernels compute, of which all of their tiles are multiples, and
/// the part of the inner size that they take at a time (NVIDIA/cutlass, python/cutlass_library/generator.py,
/// `GenerateSM50_Simt` and `GenerateSM60_Simt`: tiles of 32, 64 and 128 by 8; cuBLAS's kernels bear such sizes in their
/// names).
const VECTOR_TILE: u64 = 32;
const VECTOR_INNER: u64 = 8;

/// The matmul that kernels of vector units compute: a result's last tile is computed whole, where it does not end with one
/// (NVIDIA, "Matrix Multiplication Background User's Guide", section 4.2, tile quantization). A result no wider than a
/// tile has kernels that reduce rows instead.
fn in_whole_tiles(product: &MatMul) -> MatMul {
    let whole = |size: u64| if size > VECTOR_TILE { size.next_multiple_of(VECTOR_TILE) } else { size };
    let inner = product.inner.next_multiple_of(VECTOR_INNER);
    MatMul { rows: whole(product.rows), columns: whole(product.columns), inner, ..*product }
}

/// What is left of the FP8 rate where scales are applied within the matmul: all of it with one scale a tensor, and where
/// Blackwell's matrix units apply those of MXFP8.
const fn scaled(recipe: Fp8Recipe, scales: Fp8Scales) -> f64 {
    match recipe {
        Fp8Recipe::Delayed | Fp8Recipe::Tensorwise | Fp8Recipe::Mxfp8 => 1.0,
        Fp8Recipe::Rowwise => scales.rowwise,
        Fp8Recipe::Blockwise => scales.blockwise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 108 columns are four tiles of 32, 150 rows five; 108 of the inner size are 14 parts of 8. 16 rows are no whole tile.
    #[test]
    fn vector_units_compute_whole_tiles() {
        let product = |rows, inner, columns| MatMul { batch: 8, rows, inner, columns, layer: false };
        assert_eq!(in_whole_tiles(&product(2048, 2048, 108)), product(2048, 2048, 128));
        assert_eq!(in_whole_tiles(&product(150, 2048, 2048)), product(160, 2048, 2048));
        assert_eq!(in_whole_tiles(&product(16, 108, 64)), product(16, 112, 64));
    }
}
