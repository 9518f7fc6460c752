//! From allocated to reserved: what PyTorch's caching allocator holds beyond the bytes in tensors.
//!
//! Where one GPU runs PyTorch's modules, or several under DDP or FSDP1, two steps are replayed through it
//! ([`crate::predict::memory::replay`]). Elsewhere two of its habits are counted where they are known. Each stream has a pool of its own: what FSDP2 allocates
//! on its all-gather and reduce-scatter streams stays reserved for them when it is free. And a hole that a
//! smaller tensor left is no room for a larger one. Everything else is a share that replays measured.

use crate::catalog::Generation;
use crate::model::{GRANULE, Group, Home, Tape, Tensor, TensorId};
use crate::plan::keywords::{Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::memory::StageRun;
use crate::predict::memory::overhead::FRAGMENTATION_PER_MILLE;
use crate::predict::memory::replay;
use crate::predict::prediction::{Phase, Words, words};
use crate::predict::step::StepTapes;
use crate::predict::step::play::{Recompute, TapePlay};
use crate::units::Bytes;

/// Granule of segments.
const SEGMENT: u64 = 2 << 20;

/// Whose rules are replayed.
const REPLAYED: &str = "PyTorch 2.9, c10/cuda/CUDACachingAllocator.cpp (pools, best fit, splitting)";

/// The same where FSDP's streams gather and reduce.
const STREAMS: &str =
    "two steps replayed through the caching allocator, tensor by tensor, with a pool for each of FSDP's streams";
const FSDP: &str = "PyTorch 2.9, c10/cuda/CUDACachingAllocator.cpp (a pool for each stream, record_stream), \
                    torch/distributed/fsdp/_runtime_utils.py, _limiter_utils.py and _flat_param.py";

/// What a CPU's heap keeps, and why it is replayed so.
const MALLOC: &str = "four steps, tensor by tensor, through a heap as malloc keeps it: best fit, holes that stay resident, \
                      large blocks mapped for themselves, and autograd's nodes beside half of a forward pass's blocks";
const GLIBC: &str =
    "glibc 2.36, malloc/malloc.c (_int_malloc, _int_memalign, M_MMAP_THRESHOLD that rises with what is freed)";

/// Bytes reserved beyond the allocated ones, and why.
pub(in crate::predict) struct ReservedExcess {
    pub bytes: u64,
    pub formula: Words,
    pub source: &'static str,
}

/// What is reserved beyond `allocated` bytes.
pub(in crate::predict) fn beyond(job: &Job, run: &StageRun, allocated: u64) -> ReservedExcess {
    let cpu = job.hardware.gpu.generation == Generation::Cpu;
    if let Some(reserved) = run.reserved {
        let streams = replay::is_fsdp(job);
        return ReservedExcess {
            bytes: reserved.saturating_sub(allocated),
            formula: Words::Plain(match (cpu, streams) {
                (true, _) => MALLOC,
                (_, true) => STREAMS,
                _ => "two steps replayed through the caching allocator, tensor by tensor",
            }),
            source: match (cpu, streams) {
                (true, _) => GLIBC,
                (_, true) => FSDP,
                _ => REPLAYED,
            },
        };
    }
    if let Some(bytes) = run.fragmentation.beyond(allocated).filter(|_| replay::applies(job)) {
        return ReservedExcess {
            bytes,
            formula: Words::Plain("the share that a replay of the plan beside it left"),
            source: REPLAYED,
        };
    }
    if cpu {
        return ReservedExcess {
            bytes: 0,
            formula: Words::Plain("no step was replayed: what malloc keeps of freed blocks is left out"),
            source: GLIBC,
        };
    }
    let streams = job.profile.allocator.stream_pools.is && job.degrees.sharding == Sharding::Zero3;
    if !streams || job.training.mode == Mode::Inference {
        let (per_mille, source) = FRAGMENTATION_PER_MILLE;
        return ReservedExcess {
            bytes: Bytes(allocated / 1000 * per_mille).round_up(SEGMENT).0,
            formula: words![per_mille / 10, ".", per_mille % 10, " % of allocated, in 2 MiB segments"],
            source,
        };
    }
    let (resident, peak) = (&run.resident, &run.peak);
    // Beside a running block one gathered layer is among the allocated bytes.
    let gathered = if peak.in_block { resident.unsharded_layer } else { Bytes::ZERO };
    let idle = resident.gathered.saturating_sub(gathered);
    let gradients = resident.gradients.0.saturating_sub(peak.gradients);
    let hole = if peak.in_loss && peak.phase == Phase::Backward { run.hole } else { 0 };
    ReservedExcess {
        bytes: (idle + Bytes(gradients) + Bytes(hole)).round_up(SEGMENT).0,
        formula: Words::Plain(
            "pools of the all-gather stream (root and one layer) and of the reduce-scatter stream (sharded gradients), \
             and the hole that 16-bit logits leave; segments expand",
        ),
        source: "PyTorch, torch/distributed/fsdp/_fully_shard (a stream for each collective), \
                 c10/cuda/CUDACachingAllocator.cpp (a pool for each stream); torchtitan, run_train.sh \
                 (expandable_segments)",
    }
}

/// Room that the last block and the loss leave and that the loss cannot use.
pub(in crate::predict) fn hole(step: &StepTapes, block: Option<&TapePlay>) -> u64 {
    let interleaved = block.filter(|_| step.every == 0 || step.recompute != Recompute::All);
    block_hole(&step.walk.last, interleaved).saturating_add(loss_hole(&step.walk.last, &step.last))
}

/// Room between a block's saved tensors that what it frees leaves, where no tensor of the logits' size fits in. What
/// a block frees that keeps its input alone lies above that, where the segment grows.
fn block_hole(tape: &Tape, block: Option<&TapePlay>) -> u64 {
    let freed = block.map_or(0, |block| block.forward.total.saturating_sub(block.retained_bytes() + block.output));
    let logits = tape.tensors.iter().filter(|tensor| tensor.home == Home::Local && tensor.group == Group::Logits);
    let fits = logits.map(Tensor::allocated).any(|bytes| bytes > GRANULE && bytes <= freed);
    if fits { 0 } else { freed }
}

/// Room that the logits of a loss's forward pass leave and that its backward pass, which needs whole tensors of
/// the largest size, cannot use.
fn loss_hole(tape: &Tape, played: &TapePlay) -> u64 {
    let saved: Vec<TensorId> = tape.ops.iter().flat_map(|op| tape.ids(op.saved)).map(|id| tape.storage(*id)).collect();
    let (mut freed, mut largest) = (0_u64, 1_u64);
    for (at, tensor) in tape.tensors.iter().enumerate() {
        if tensor.home != Home::Local || tensor.view_of.is_some() || tensor.group != Group::Logits {
            continue;
        }
        largest = largest.max(tensor.allocated());
        if !saved.iter().any(|id| id.0 as usize == at) {
            freed = freed.saturating_add(tensor.allocated());
        }
    }
    let wanted = played.backward.total.saturating_sub(played.retained_bytes());
    let reused = (freed / largest).min(wanted / largest).saturating_mul(largest);
    if wanted > reused { freed - reused } else { 0 }
}
