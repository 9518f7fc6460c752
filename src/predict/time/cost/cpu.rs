//! What costs time on a CPU and none on a GPU: blocks of attention that a mask hides only in part, and memory that a
//! process uses for the first time.

use super::kernel::Kernels;
use super::operator_row::{OperatorRow, Run};
use crate::catalog::Generation;
use crate::model::{Scores, Unit};
use crate::predict::job::Job;
use crate::predict::memory::replay;
use crate::predict::prediction::Traffic;
use crate::predict::step::StepTapes;
use crate::units::{Bytes, Seconds};

/// The row of pages that are used for the first time.
pub(super) const PAGES: &str = "memory.first_use";

/// Keys of a block (aten/src/ATen/native/cpu/FlashAttentionKernel.cpp, `flash_attention_kernel_impl`: kv_split_size).
const KEYS: u64 = 512;

/// Share of what PyTorch's attention kernel for CPUs computes that its mask leaves. A block of queries (32, 64 from 192
/// queries on, 256 from 768 on) meets whole blocks of 512 keys up to its own last one (the same file,
/// `cpu_flash_attention`: num_keys). A window is no causal mask there: all keys are computed.
pub(super) fn left_by_mask(scores: &Scores) -> f64 {
    if scores.visible < 0.5 || scores.visible >= 1.0 {
        return scores.visible;
    }
    let of_block = match scores.queries {
        768.. => 256,
        192.. => 64,
        _ => 32,
    };
    let queries = scores.queries.max(1);
    let computed: u64 = (0..queries.div_ceil(of_block))
        .map(|block| {
            let (from, to) = (block * of_block, ((block + 1) * of_block).min(queries));
            (to - from) * to.next_multiple_of(KEYS).min(queries)
        })
        .sum();
    scores.visible * (queries * queries) as f64 / computed as f64
}

/// What the kernel takes to hand out and clear the pages of large tensors, over a step: malloc maps them, each for itself,
/// and unmaps them when they are freed.
pub(super) fn first_use(job: &Job, step: &StepTapes, traffic: &mut Traffic) -> Option<OperatorRow> {
    let share = job.speed.curves.memory.fresh.filter(|_| job.hardware.gpu.generation == Generation::Cpu)?;
    let (bytes, count) = replay::mapped(job, step).filter(|(bytes, _)| *bytes > 0)?;
    traffic.activations += Bytes(bytes);
    let run = Run { flops: 0.0, bytes, compute: Seconds::ZERO, long: Seconds::ZERO, kernels: count, rows: false };
    let mut row = OperatorRow::of(job, &Kernels::of(job), (PAGES, Unit::Vector, false), run);
    let seconds = Seconds(bytes as f64 / (job.hardware.gpu.bandwidth.0 * share));
    (row.compute, row.memory, row.long) = (Seconds::ZERO, seconds, seconds);
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causal(queries: u64) -> f64 {
        left_by_mask(&Scores { heads: 8, queries, sharing: 1, dim: 64, visible: 0.5 })
    }

    /// Up to 512 keys are one block, which every query meets whole. Of 1024 the first two blocks of 256 queries meet 512
    /// keys and the others 1024: 0.75 of all. Of 2048, by four: 512, 1024, 1536, 2048, 0.625.
    #[test]
    fn a_causal_mask_saves_whole_blocks_of_512_keys() {
        assert!((causal(256) - 0.5).abs() < 1e-12 && (causal(512) - 0.5).abs() < 1e-12);
        assert!((causal(1024) - 0.5 / 0.75).abs() < 1e-12);
        assert!((causal(2048) - 0.5 / 0.625).abs() < 1e-12);
    }

    #[test]
    fn without_a_causal_mask_all_keys_are_computed() {
        for visible in [0.1, 1.0] {
            let scores = Scores { heads: 8, queries: 4096, sharing: 1, dim: 64, visible };
            assert!((left_by_mask(&scores) - visible).abs() < 1e-12);
        }
    }
}
