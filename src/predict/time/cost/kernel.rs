//! Time of one kernel on the job's GPU: the roofs with what kernels reach of them.

use super::matmul::MatrixUnit;
use crate::catalog::AttentionCurve;
use crate::model::{Element, MatMul, Scores, Unit};
use crate::plan::keywords::Fp8Recipe;
use crate::predict::job::Job;
use crate::units::FlopsPerSec;

/// The dense peak of a unit on the job's GPU, and its name. Linear layers within blocks (`layer`) multiply in FP8
/// where the plan says so.
pub(in crate::predict) fn peak(job: &Job, unit: Unit, layer: bool) -> (FlopsPerSec, &'static str) {
    let peaks = &job.hardware.gpu.peaks;
    let vector = peaks.fp32.or(peaks.tf32).or(peaks.bf16).or(peaks.fp16).unwrap_or(FlopsPerSec(1e12));
    let element = match unit {
        Unit::Vector => return (vector, "fp32"),
        Unit::Attention(element) => element,
        Unit::Matrix(element) if layer && job.storage.fp8 && element != Element::F32 => {
            return peaks.fp8.or(peaks.bf16).map_or((vector, "fp32"), |peak| (peak, "fp8"));
        }
        Unit::Matrix(element) => element,
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
    job: &'a Job,
    /// DRAM bandwidth that long kernels reach, bytes a second.
    bandwidth: f64,
    /// The same of kernels that normalise rows.
    rows: f64,
    /// Seconds of a kernel beside its bytes and operations.
    pub start: f64,
    /// Share of the clock that the power limit leaves matrix units.
    clock: f64,
    multiprocessors: f64,
    /// Operations a second of large 16-bit matmuls.
    half: f64,
    attention: &'a AttentionCurve,
}

impl<'a> Kernels<'a> {
    pub fn of(job: &'a Job) -> Self {
        let (curves, gpu) = (&job.speed.curves, &job.hardware.gpu);
        let clock = clock(job);
        let in_training = curves.matrix.in_training;
        let half = gpu.peaks.bf16.or(gpu.peaks.fp16).map_or(1e12, |peak| peak.0) * curves.matrix.half * clock;
        Self {
            job,
            bandwidth: gpu.bandwidth.0 * curves.memory.share,
            rows: gpu.bandwidth.0 * curves.memory.rows,
            start: curves.memory.kernel_us * 1e-6,
            clock: clock * in_training,
            half: half * in_training,
            // Cards without a count in the catalogue: no waves are told apart.
            multiprocessors: gpu.sm_count.map_or(1.0, |count| count as f64),
            attention: curves.attention(job.speed.stack.attention),
        }
    }

    /// Operations a second that large kernels of a unit sustain.
    pub fn sustained(&self, unit: Unit, layer: bool) -> f64 {
        let (peak, name) = peak(self.job, unit, layer);
        let matrix = &self.job.speed.curves.matrix;
        match (unit, name) {
            (Unit::Vector, _) | (_, "fp32") => peak.0 * matrix.fp32 * self.clock,
            (_, "fp8") => peak.0 * matrix.fp8 * self.clock * scaled(self.job.speed.fp8_recipe),
            // TF32 is allowed, not demanded (cuBLAS, CUBLAS_COMPUTE_32F_FAST_TF32): where a GPU's vector units are as
            // quick, fp32 stays.
            (_, "tf32") => {
                let vector = self.job.hardware.gpu.peaks.fp32.map_or(0.0, |peak| peak.0);
                (peak.0 * matrix.tf32).max(vector * matrix.fp32) * self.clock
            }
            _ => peak.0 * matrix.half * self.clock,
        }
    }

    /// Operations a second, at so many for each clock of each multiprocessor.
    pub fn per_clock(&self, operations: f64) -> f64 {
        let clock = self.job.hardware.gpu.boost_clock.map_or(BOOST, |clock| clock.0 * 1e6);
        operations * clock * self.multiprocessors
    }

    /// Whether vector units compute what a matrix unit would.
    pub fn is_vector(&self, unit: Unit) -> bool {
        peak(self.job, unit, false).1 == "fp32"
    }

    /// Seconds of a batch of matmuls at a sustained rate.
    pub fn product(&self, product: &MatMul, unit: Unit, rate: f64) -> f64 {
        let curve = &self.job.speed.curves.matrix;
        let rate = if product.batch > 1 && product.layer { rate * curve.grouped } else { rate };
        let matrix = MatrixUnit {
            rate,
            fill: self.fill(unit, product.layer, rate),
            multiprocessors: self.multiprocessors,
            bandwidth: self.bandwidth,
            start: curve.start_us * 1e-6,
        };
        matrix.seconds(product)
    }

    /// Inner size in which a rate takes as long as filling and draining a tile. Memory sets that time, not the
    /// multipliers: it was fitted on 16-bit matmuls, and slower units take no longer over it.
    fn fill(&self, unit: Unit, layer: bool, rate: f64) -> f64 {
        let matrix = &self.job.speed.curves.matrix;
        let (_, name) = peak(self.job, unit, layer);
        let slower = if matches!(name, "fp32" | "tf32") { (rate / self.half).min(1.0) } else { 1.0 };
        matrix.fill * slower
    }

    /// Seconds of fused attention forward, and backward with its five matmuls for two.
    pub fn attention(&self, scores: &Scores, element: Element, flops: f64) -> (f64, f64) {
        let (peak, name) = peak(self.job, Unit::Attention(element), false);
        let curve = &self.job.speed.curves.matrix;
        let own = if name == "fp32" { curve.fp32 } else { self.clock / curve.in_training };
        let own = if self.job.degrees.context > 1 { own * self.job.speed.stack.ring } else { own };
        let (forward, backward) = self.attention.shares(scores.dim as f64);
        let blocks = scores.heads as f64 * (scores.queries as f64 / 128.0).ceil() / self.multiprocessors;
        let generates = scores.queries == 1;
        let ramp = if generates {
            // The rows of one matrix instruction are as many heads of a single query as share their keys (FlashAttention's
            // pack_gqa).
            (scores.sharing as f64 / 16.0).min(1.0)
        } else {
            scores.queries as f64 / (scores.queries as f64 + self.attention.ramp)
        };
        let least = flops * scores.visible / (peak.0 * own * ramp);
        let (fill_forward, fill_backward) = self.attention.fill;
        // A single query's keys are split until every multiprocessor has some (Flash-Decoding, PyTorch blog, 2023).
        let filled = |fill: f64| if generates { 1.0 } else { blocks / (blocks + fill) };
        (least / (forward * filled(fill_forward)), 2.5 * least / (backward * filled(fill_backward)))
    }

    /// Seconds that `bytes` of DRAM traffic take, of kernels that normalise `rows` or of others.
    pub fn memory(&self, bytes: u64, rows: bool) -> f64 {
        bytes as f64 / if rows { self.rows } else { self.bandwidth }
    }
}

/// What is left of the FP8 rate where scales are applied within the matmul: one for each row and column slows its end,
/// one for each block its loop (torchao, float8/README.md: Llama-3 8B on 8 H100 trains 25 % faster than in BF16 with one
/// scale a tensor and 10 % with one a row; `DeepGEMM`'s README: 1.5 of 1.98 PFLOP/s at best on H800). Blackwell applies
/// MXFP8's in the matrix unit, which has to read them (Megatron Bridge, performance summary, 26.06: Llama-3 70B takes 8 %
/// longer a step than with one scale a tensor on 32 GB200, 12 % on 32 GB300, three quarters of it in matmuls).
const fn scaled(recipe: Fp8Recipe) -> f64 {
    match recipe {
        Fp8Recipe::Delayed | Fp8Recipe::Tensorwise => 1.0,
        Fp8Recipe::Mxfp8 => 0.88,
        Fp8Recipe::Rowwise => 0.7,
        Fp8Recipe::Blockwise => 0.85,
    }
}

/// Clock of GPUs of which the catalogue has none, Hz: between A100's and H100's.
const BOOST: f64 = 1.6e9;

/// Matrix clock over that at which the curve's shares were taken: what the board's own power limit or the plan's leaves
/// of it, or adds, up to the highest clock.
fn clock(job: &Job) -> f64 {
    let curve = &job.speed.curves.matrix;
    let gpu = &job.hardware.gpu;
    let Some(board) = gpu.tdp else { return 1.0 };
    let limit = job.hardware.power_limit_w.map_or(board.0, |limit| limit.min(board.0));
    let peak = gpu.peaks.bf16.or(gpu.peaks.fp16);
    let taken = curve.watts_per_tflop.zip(peak).map_or(board.0, |(watts, peak)| watts * peak.0 * 1e-12);
    let idle = taken * curve.idle_power;
    let ratio = ((limit - idle) / (taken - idle)).max(0.05).powf(curve.clock_power);
    ratio.min((curve.most / curve.half).max(1.0))
}
