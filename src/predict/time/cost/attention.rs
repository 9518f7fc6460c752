//! Time of fused attention: what its kernels reach of the peak, and under which shapes and masks.

use super::cpu::left_by_mask;
use super::kernel::{Kernels, peak};
use crate::catalog::{AttentionCurve, AttentionLibrary, Generation, Vendor};
use crate::model::{Element, Scores, Unit};
use crate::predict::job::Job;
use crate::predict::step::takes_flash_attn;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::{FlopsPerSec, Seconds};

/// The peak of PyTorch's fused attention in FP32 where it runs on matrix units, allowed TF32 or not: each product is three of
/// TF32 from compute capability 8.0 on (aten/src/ATen/native/transformers/cuda/mem_eff_attention/gemm_kernel_utils.h,
/// `DefaultGemmType`: `OpMultiplyAddFastF32`).
pub(super) fn in_three_products(job: &Job) -> Option<FlopsPerSec> {
    let gpu = &job.hardware.gpu;
    let tf32 = gpu.peaks.tf32.filter(|_| gpu.vendor == Vendor::Nvidia);
    tf32.map(|peak| FlopsPerSec(peak.0 / 3.0))
}

/// What that kernel keeps of FlashAttention-2's share of the peak, forward and backward. On A100 it does 26.8 and 24.0 TFLOP/s
/// of 52 forward at head sizes 64 and 128 (NVIDIA/cutlass pull request 662), 15.6 and 17.6 backward (facebookresearch/xformers
/// pull request 439): 0.82 and 0.60, 0.59 and 0.54 of the shares there.
const FP32_KEEPS: (f64, f64) = (0.70, 0.57);

impl Kernels<'_> {
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
        let (peak, name) = peak(self.job, Unit::Matrix(element), false);
        let curve = &self.job.speed.curves.matrix;
        let measured = self.attention.elements.iter().any(|(measured, ..)| measured == name);
        if element == Element::F32
            && !measured
            && let Some(peak) = in_three_products(self.job)
        {
            let (forward, backward) = self.job.speed.curves.flash.shares(scores.dim as f64);
            let rate = peak.0 * self.tf32_clock / curve.in_training;
            return (rate * forward * FP32_KEEPS.0, rate * backward * FP32_KEEPS.1);
        }
        let own = if name == "fp32" { curve.fp32 * self.vector_clock } else { self.clock } / curve.in_training;
        let own = if self.job.degrees.context > 1 { own * self.job.speed.stack.ring } else { own };
        let (forward, backward) = self.attention.shares(scores.dim as f64);
        let (keeps_forward, keeps_backward) = self.attention.keeps(name);
        (peak.0 * own * forward * keeps_forward, peak.0 * own * backward * keeps_backward)
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::plan::Document;

    /// PyTorch's kernel for FP32 on A100, without a mask: heads of all samples, tokens, head size, milliseconds (NVIDIA/cutlass
    /// pull request 662 forward, facebookresearch/xformers pull request 439 backward).
    #[test]
    fn fused_attention_in_fp32_takes_what_was_measured() {
        const FORWARD: [(u64, u64, u64, f64); 2] = [(320, 8192, 128, 458.2), (4096, 4096, 64, 656.6)];
        const BACKWARD: [(u64, u64, u64, f64); 3] =
            [(320, 8192, 128, 1560.5), (320, 4096, 128, 393.6), (256, 1024, 64, 11.04)];
        for precision in ["fp32", "tf32"] {
            let text =
                format!("model: {{preset: gpt2}}\ntraining: {{precision: {precision}}}\nhardware: {{gpu_type: A100}}");
            let plan = Document::parse(&text).unwrap().plan().unwrap();
            let job = Job::resolve(&plan, &Catalog::embedded().unwrap()).unwrap();
            let kernels = Kernels::of(&job);
            let seconds = |heads: u64, queries: u64, dim: u64| {
                let scores = Scores { heads, queries, sharing: 1, dim, visible: 1.0 };
                kernels.attention(&scores, Element::F32, 4.0 * (heads * queries * queries * dim) as f64)
            };
            for (heads, queries, dim, ms) in FORWARD {
                let error = seconds(heads, queries, dim).forward.0 * 1e3 / ms - 1.0;
                assert!(error.abs() < 0.3, "{precision} {queries} {dim}: {error}");
            }
            for (heads, queries, dim, ms) in BACKWARD {
                let error = seconds(heads, queries, dim).backward.0 * 1e3 / ms - 1.0;
                assert!(error.abs() < 0.3, "{precision} {queries} {dim} backward: {error}");
            }
        }
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
