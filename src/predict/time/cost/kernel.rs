//! Time of one kernel on the job's GPU: the roofs with what kernels reach of them.

use super::clock::{clock_rate, matrix_clock, multiprocessors, tf32_clock, vector_clock};
use super::cpu::left_by_mask;
use super::matmul::MatrixUnit;
use crate::catalog::{AttentionCurve, AttentionLibrary, Fp8Scales, Generation};
use crate::model::{Element, MatMul, Scores, Unit};
use crate::plan::keywords::Fp8Recipe;
use crate::predict::job::Job;
use crate::predict::step::takes_flash_attn;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::{FlopsPerSec, Seconds};

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
    job: &'a Job,
    /// DRAM bandwidth that long kernels reach, bytes a second.
    bandwidth: f64,
    /// The same of kernels that normalise rows.
    rows: f64,
    /// Time of a kernel beside its bytes and operations.
    pub start: Seconds,
    /// Share of the clock that the power limit leaves matrix units.
    clock: f64,
    /// The same in TF32.
    tf32_clock: f64,
    /// The same of vector units.
    vector_clock: f64,
    multiprocessors: f64,
    /// Operations a second of large 16-bit matmuls.
    half: f64,
    attention: &'a AttentionCurve,
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

    /// Time of fused attention, backward with its five matmuls for two.
    pub fn attention(&self, scores: &Scores, element: Element, flops: f64) -> PassCosts {
        let (forward, backward) = self.long_attention(scores, element);
        let there = (self.job.hardware.gpu.generation != Generation::Cpu).then_some(self.multiprocessors);
        let (reached_forward, reached_backward) = reached(self.attention, scores, there);
        let least = flops * scores.visible;
        let held_up = if self.job.training.deterministic && attention_kernels(self.job) == AttentionLibrary::Flash {
            one_block_after_another(scores, self.multiprocessors)
        } else {
            1.0
        };
        PassCosts {
            forward: Seconds(least / (forward * reached_forward)),
            backward: Seconds(held_up * BACKWARD_PRODUCTS * least / (backward * reached_backward)),
        }
    }

    /// Operations a second of long fused attention kernels, forward and backward.
    pub fn long_attention(&self, scores: &Scores, element: Element) -> (f64, f64) {
        let (peak, name) = peak(self.job, Unit::Attention(element), false);
        let curve = &self.job.speed.curves.matrix;
        let own = if name == "fp32" { curve.fp32 * self.vector_clock } else { self.clock } / curve.in_training;
        let own = if self.job.degrees.context > 1 { own * self.job.speed.stack.ring } else { own };
        let (forward, backward) = self.attention.shares(scores.dim as f64);
        let (keeps_forward, keeps_backward) = self.attention.keeps(name);
        (peak.0 * own * forward * keeps_forward, peak.0 * own * backward * keeps_backward)
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

/// Matmuls of fused attention's backward pass for each of its forward pass: five for two.
pub const BACKWARD_PRODUCTS: f64 = 2.5;

/// Share of a curve's rate that an attention kernel of that shape reaches, forward and backward: how many blocks of queries
/// there are for the multiprocessors, and how long each is. A CPU, which has none, takes them one after another.
#[must_use]
pub fn reached(curve: &AttentionCurve, scores: &Scores, multiprocessors: Option<f64>) -> (f64, f64) {
    let Some(multiprocessors) = multiprocessors else {
        let left = left_by_mask(scores);
        return (left, left);
    };
    if scores.queries == 1 {
        // The rows of one matrix instruction are as many heads of a single query as share their keys (FlashAttention's
        // pack_gqa). A single query's keys are split until every multiprocessor has some (Flash-Decoding, PyTorch blog,
        // 2023).
        let rows = (scores.sharing as f64 / 16.0).min(1.0);
        return (rows, rows);
    }
    let blocks = scores.heads as f64 * (scores.queries as f64 / BLOCK).ceil() / multiprocessors;
    // Keys that a query meets, on average.
    let keys = scores.queries as f64 * scores.visible;
    let ramp = keys / (keys + curve.ramp) * under_mask(scores.visible, keys);
    let filled = |fill: f64| ramp * blocks / (blocks + fill);
    (filled(curve.fill.0), filled(curve.fill.1))
}

/// Rows of a block of scores.
const BLOCK: f64 = 128.0;

/// What is left of the rate where blocks of queries meet unlike many keys, so that the longest are waited for:
/// FlashAttention-2 and cuDNN on H100 keep 0.90 to 0.93 of it under a causal mask at 8k and 16k tokens (FlashAttention-3, arXiv
/// 2407.08608, figure 5), FlashAttention-4 on B200 0.92 forward and 0.89 backward (Dao-AILab/flash-attention pull request
/// 2280).
const UNEVEN: f64 = 0.92;

/// What a mask leaves of the rate over the pairs that it leaves, `keys` for each query: a block that its edge crosses is
/// computed whole, so that a query has half a block more, and in a window, which has two edges, a block. With it the
/// causal rows of figure 5 of FlashAttention-3, 512 to 16k tokens, follow from those without a mask within 3 %
/// (FlashAttention-2) and 5 % (cuDNN).
fn under_mask(visible: f64, keys: f64) -> f64 {
    let edges = match visible {
        ..0.5 => 2.0,
        ..1.0 => 1.0,
        _ => return 1.0,
    };
    UNEVEN * keys / (BLOCK / 2.0).mul_add(edges, keys)
}

/// Whose attention kernels run: the framework's, but flash-attn's where Transformer Engine falls back on them.
pub(super) fn attention_kernels(job: &Job) -> AttentionLibrary {
    if takes_flash_attn(job) { AttentionLibrary::Flash } else { job.speed.stack.attention }
}

/// Keys that one block of flash-attn's backward pass takes at a time (csrc/flash_attn/src/flash_bwd_launch_template.h,
/// `run_mha_bwd_hdim64` and `run_mha_bwd_hdim128`: kBlockN).
const KEYS_OF_BLOCK: u64 = 128;

/// How many times as long flash-attn's backward pass takes where its result must not vary. Each head then gets just so
/// many blocks of threads that all heads together have one for each multiprocessor, rounded up, and a block takes every
/// so many-th group of keys (csrc/flash_attn/src/flash_bwd_launch_template.h, `run_flash_bwd_seqk_parallel`: gridDimx).
/// With 144 KB of shared memory each, a multiprocessor runs one at a time. What is beyond one for each waits for the
/// first to finish; under a causal mask the first groups have the most queries.
fn one_block_after_another(scores: &Scores, multiprocessors: f64) -> f64 {
    let groups = scores.queries.div_ceil(KEYS_OF_BLOCK).max(1);
    let (heads, there) = (scores.heads.max(1), multiprocessors.max(1.0) as u64);
    let of_head = there.div_ceil(heads).min(groups);
    let queries = |group: u64| if scores.visible < 1.0 { groups - group } else { groups } as f64;
    let of_block = |block: u64| -> f64 { (block..groups).step_by(of_head as usize).map(queries).sum() };
    let all: f64 = (0..groups).map(queries).sum::<f64>() * heads as f64;
    let blocks = heads * of_head;
    let longest = if blocks <= there {
        of_block(0)
    } else if of_head == 1 {
        of_block(0) * blocks.div_ceil(there) as f64
    } else {
        // Fewer than one more for each head: the last head's last blocks, in the order of their launch.
        of_block(of_head - 1) + of_block(of_head.saturating_sub(blocks - there))
    };
    (longest * there as f64 / all).max(1.0)
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

    /// FlashAttention-3, figure 5, on H100: TFLOP/s forward at head size 128 by length, 16k tokens of 16 heads in all, without
    /// and under a causal mask; FlashAttention-2's, then cuDNN's.
    #[test]
    fn a_causal_mask_costs_what_was_measured() {
        const FIGURE: [(u64, [(f64, f64); 2]); 6] = [
            (512, [(309.0, 191.0), (497.0, 315.0)]),
            (1024, [(350.0, 260.0), (574.0, 410.0)]),
            (2048, [(362.0, 298.0), (617.0, 484.0)]),
            (4096, [(368.0, 319.0), (609.0, 518.0)]),
            (8192, [(370.0, 333.0), (600.0, 529.0)]),
            (16384, [(370.0, 335.0), (595.0, 539.0)]),
        ];
        let curve = AttentionCurve {
            source: String::new(),
            heads: Vec::new(),
            fill: (1.3, 0.7),
            ramp: 100.0,
            elements: Vec::new(),
        };
        for (queries, libraries) in FIGURE {
            let scores = |visible| Scores { heads: 16 * (16384 / queries), queries, sharing: 1, dim: 128, visible };
            let kept = reached(&curve, &scores(0.5), Some(132.0)).0 / reached(&curve, &scores(1.0), Some(132.0)).0;
            for (whole, causal) in libraries {
                assert!((kept / (causal / whole) - 1.0).abs() < 0.06, "{queries}: {kept}, {}", causal / whole);
            }
        }
    }

    /// A window of 1024 of 16384 keys shows 1024 / 16384 - half its square of all pairs, 992 keys a query; with two edges a
    /// query has a block of 128 more: 992 / 1120 of what a long causal row keeps.
    #[test]
    fn a_window_has_two_edges() {
        let reach = 1024.0 / 16384.0;
        let visible: f64 = reach - reach * reach / 2.0;
        assert!((under_mask(visible, 16384.0 * visible) - 0.92 * 992.0 / 1120.0).abs() < 1e-9);
        assert!((under_mask(1.0, 512.0) - 1.0).abs() < 1e-12);
    }

    /// 16 heads of 8192 queries on 152 multiprocessors, by hand: 64 groups of keys, ceil(152 / 16) = 10 blocks a head, 160
    /// in all. The last of a head has the groups 9, 19, ... 59 with 55 + 45 + ... + 5 = 180 rows of queries; the eight
    /// blocks that wait for it begin with 2, 12, ... 62: 62 + 52 + ... + 2 = 224. All of them together are 16 x 2080 rows,
    /// 218.9 a multiprocessor.
    #[test]
    fn blocks_beyond_one_for_each_multiprocessor_wait_for_the_first_to_finish() {
        let scores = Scores { heads: 16, queries: 8192, sharing: 1, dim: 128, visible: 0.5 };
        let expected = (180.0 + 224.0) / (16.0 * 2080.0 / 152.0);
        assert!((one_block_after_another(&scores, 152.0) - expected).abs() < 1e-9);
        // Without a mask 7 of the 64 groups, and 6 of them behind those of the head's last block.
        let scores = Scores { visible: 1.0, ..scores };
        let expected = (6.0 + 7.0) * 64.0 / (16.0 * 64.0 * 64.0 / 152.0);
        assert!((one_block_after_another(&scores, 152.0) - expected).abs() < 1e-9);
    }

    #[test]
    fn as_many_heads_as_multiprocessors_lose_nothing_by_it() {
        let scores = Scores { heads: 152, queries: 8192, sharing: 1, dim: 128, visible: 0.5 };
        assert!((one_block_after_another(&scores, 152.0) - 1.0).abs() < 1e-9);
        // One more makes a second round of whole heads.
        let scores = Scores { heads: 153, ..scores };
        assert!((one_block_after_another(&scores, 152.0) - 2.0 * 152.0 / 153.0).abs() < 1e-9);
    }
}
