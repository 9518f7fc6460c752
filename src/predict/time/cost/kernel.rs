//! Time of one kernel on the job's card: the roofs with what kernels reach of them.

use crate::catalog::AttentionCurve;
use crate::model::{Element, Product, Scores, Unit};
use crate::plan::keywords::Fp8Recipe;
use crate::predict::job::Job;
use crate::units::FlopsPerSec;

/// The dense peak of a unit on the job's card, and its name. Linear layers within blocks (`layer`) multiply in FP8
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
        // A card without bf16 units computes it on the vector units.
        Element::Bf16 | Element::Fp8 => peaks.bf16.map_or((vector, "fp32"), |peak| (peak, "bf16")),
        _ if job.storage.tf32 => peaks.tf32.map_or((vector, "fp32"), |peak| (peak, "tf32")),
        _ => (vector, "fp32"),
    }
}

/// Tiles of the result by side, as parts of the largest, with what a smaller one keeps of its rate: it reads more
/// for each operation (NVIDIA, "Matrix Multiplication Background User's Guide", section 4.1).
const TILES: [(f64, f64, f64); 3] = [(1.0, 1.0, 1.0), (0.5, 1.0, 0.92), (0.5, 0.5, 0.78)];
/// Share of the last, partly filled wave of tiles that is lost: kernels split their last tiles along the inner size
/// (the same guide, section 4.2; stream-K, arXiv 2301.03598), so not all of it.
const LOST_OF_LAST_WAVE: f64 = 0.5;

/// Rates of the job's card.
pub(in crate::predict) struct Kernels<'a> {
    job: &'a Job,
    /// DRAM bandwidth that long kernels reach, bytes a second.
    bandwidth: f64,
    /// Seconds of a kernel beside its bytes and operations.
    pub start: f64,
    /// Share of the clock that the power limit leaves matrix units.
    clock: f64,
    multiprocessors: f64,
    attention: &'a AttentionCurve,
}

impl<'a> Kernels<'a> {
    pub fn of(job: &'a Job) -> Self {
        let (curves, gpu) = (&job.speed.curves, &job.hardware.gpu);
        Self {
            job,
            bandwidth: gpu.bandwidth.0 * curves.memory.share,
            start: curves.memory.kernel_us * 1e-6,
            clock: clock(job),
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
            (Unit::Vector, _) | (_, "fp32") => peak.0 * matrix.fp32,
            (_, "fp8") => peak.0 * matrix.fp8 * self.clock * scaled(self.job.speed.fp8_recipe),
            // TF32 is allowed, not demanded (cuBLAS, CUBLAS_COMPUTE_32F_FAST_TF32): where a card's vector units are as
            // quick, fp32 stays.
            (_, "tf32") => {
                let vector = self.job.hardware.gpu.peaks.fp32.map_or(0.0, |peak| peak.0);
                (peak.0 * matrix.tf32 * self.clock).max(vector * matrix.fp32)
            }
            _ => peak.0 * matrix.half * self.clock,
        }
    }

    /// Seconds of a batch of products at a sustained rate: whole tiles, nearly whole waves of them over the
    /// multiprocessors, each filled and drained once.
    pub fn product(&self, product: &Product, unit: Unit, rate: f64) -> f64 {
        let curve = &self.job.speed.curves.matrix;
        let [rows, inner, columns, batch] =
            [product.rows, product.inner, product.columns, product.batch].map(|size| size as f64);
        let rate = if product.batch > 1 && product.layer { rate * curve.grouped } else { rate };
        let depth = 2.0 * (inner / rate + self.fill(unit, product.layer, rate));
        let tiled = TILES.map(|(tall, wide, keeps)| {
            // Thin products have tiles as thin, down to the 16 rows of one matrix instruction.
            let (tall, wide) =
                ((curve.tile[0] * tall).min(rows.max(16.0)), (curve.tile[1] * wide).min(columns.max(16.0)));
            let waves = (rows / tall).ceil() * (columns / wide).ceil() * batch / self.multiprocessors;
            let last = waves.ceil() - waves;
            let waves = if waves < 1.0 { 1.0 } else { last.mul_add(LOST_OF_LAST_WAVE, waves) };
            waves * self.multiprocessors * tall * wide * depth / keeps
        });
        tiled.into_iter().fold(f64::INFINITY, f64::min)
    }

    /// Seconds for an operation of filling and draining a tile, as a share of its sides' product. Memory sets them, not
    /// the multipliers: they were fitted on 16-bit products, and slower units take no longer over it.
    fn fill(&self, unit: Unit, layer: bool, rate: f64) -> f64 {
        let peaks = &self.job.hardware.gpu.peaks;
        let matrix = &self.job.speed.curves.matrix;
        let (_, name) = peak(self.job, unit, layer);
        let half = peaks.bf16.or(peaks.fp16).map(|peak| peak.0 * matrix.half * self.clock);
        matrix.fill / half.filter(|_| matches!(name, "fp32" | "tf32")).map_or(rate, |half| half.max(rate))
    }

    /// Seconds of fused attention forward, and backward with its five products for two.
    pub fn attention(&self, scores: &Scores, element: Element, flops: f64) -> (f64, f64) {
        let (peak, name) = peak(self.job, Unit::Attention(element), false);
        let own = if name == "fp32" { self.job.speed.curves.matrix.fp32 } else { self.clock };
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

    /// Seconds that `bytes` of DRAM traffic take.
    pub fn memory(&self, bytes: u64) -> f64 {
        bytes as f64 / self.bandwidth
    }
}

/// What is left of the FP8 rate where scales are applied within the product: one for each row and column slows its end,
/// one for each block its loop (torchao, float8/README.md: Llama-3 8B on 8 H100 trains 25 % faster than in BF16 with one
/// scale a tensor and 10 % with one a row; `DeepGEMM`'s README: 1.5 of 1.98 PFLOP/s at best on H800). Blackwell applies
/// MXFP8's in the matrix unit, which has to read them (Megatron Bridge, performance summary, 26.06: Llama-3 70B takes 8 %
/// longer a step than with one scale a tensor on 32 GB200, 12 % on 32 GB300, three quarters of it in products).
const fn scaled(recipe: Fp8Recipe) -> f64 {
    match recipe {
        Fp8Recipe::Delayed | Fp8Recipe::Tensorwise => 1.0,
        Fp8Recipe::Mxfp8 => 0.88,
        Fp8Recipe::Rowwise => 0.7,
        Fp8Recipe::Blockwise => 0.85,
    }
}

/// The largest share of its dense peak that a card was seen to sustain: H200, 8192^3 in BF16 on random data, 790 of 989
/// TFLOP/s.
const BEST: f64 = 0.8;

/// Boards that allow this much more power for each operation of their peak than those that the shares were taken on, or
/// as much less, are of another kind: a workstation's feeds more than matrix units.
const OF_A_KIND: f64 = 1.25;

/// Matrix clock over that at which the curve's shares were taken: what a power limit leaves of it, and what a board's own
/// limit adds where it allows more power for each operation of its peak than those cards had.
fn clock(job: &Job) -> f64 {
    let curve = &job.speed.curves.matrix;
    let gpu = &job.hardware.gpu;
    let Some(board) = gpu.tdp else { return 1.0 };
    let at = |watts: f64, of: f64| {
        let idle = of * curve.idle_power;
        ((watts - idle) / (of - idle)).max(0.05).powf(curve.clock_power)
    };
    let limited = job.hardware.power_limit_w.map_or(1.0, |limit| at(limit.min(board.0), board.0));
    let taken = curve.watts_per_tflop.zip(gpu.peaks.bf16).map_or(board.0, |(watts, peak)| watts * peak.0 * 1e-12);
    let ratio = board.0 / taken;
    if !(1.0 / OF_A_KIND..=OF_A_KIND).contains(&ratio) {
        return limited;
    }
    let most = (BEST / curve.half.max(curve.fp8).max(curve.grouped)).max(1.0);
    limited * at(board.0, taken).min(most)
}
