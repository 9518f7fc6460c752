//! `PyTorch`'s own messages, of every release since 0.4, for CUDA, ROCm (HIP), XPU, NPU and MPS.
//!
//! The wordings are those of `CUDACachingAllocator.cpp`: up to 1.3 `… already allocated; … free; … cached`,
//! up to 2.0 `… reserved in total by PyTorch`, since 2.1 sentences; `allowed` where the process has a
//! limit, other processes and private pools where there are some. `torch_npu` kept the wording of 2.0;
//! `MPSAllocator.mm` has its own.

use super::size::{after, number, size, size_after, size_before};
use crate::reading::OutOfMemory;
use crate::units::Bytes;

/// The figures of a message, from behind its `out of memory`.
pub fn read(message: &str) -> OutOfMemory {
    let mut found = OutOfMemory {
        device: ["GPU ", "NPU "].iter().find_map(|mark| number(after(message, mark)?.trim_start())?.parse().ok()),
        asked: size_after(message, "Tried to allocate "),
        ..OutOfMemory::default()
    };
    if message.contains("Tried to allocate more than 1EB") {
        found.asked = Some(Bytes(1 << 60));
    } else if message.contains("has a total capac") {
        sentences(message, &mut found);
    } else if message.contains("MPS allocated: ") {
        metal(message, &mut found);
    } else {
        clauses(message, &mut found);
    }
    found.with_own_process()
}

/// `(MPS allocated: 5.56 GB, other allocations: 1.10 GB, max allowed: 6.80 GB)`; up to 2.5 its units are powers
/// of 1024 under the names of powers of 1000 (`MPSAllocator.mm`, `format_size`).
fn metal(message: &str, found: &mut OutOfMemory) {
    found.allocated = size_after(message, "MPS allocated: ");
    let other = size_after(message, "other allocations: ");
    found.in_process = found.allocated.zip(other).map(|(own, other)| own + other);
    found.allowed = size_after(message, "max allowed: ");
}

/// Since 2.1.
fn sentences(message: &str, found: &mut OutOfMemory) {
    found.has_expandable_segments = true;
    found.capacity =
        size_after(message, "has a total capacity of ").or_else(|| size_after(message, "has a total capacty of "));
    found.free = size_after(message, "of which ");
    found.allowed = size_before(message, " allowed");
    // 2.1 to 2.3 say 2^64 bytes where the driver does not tell, as under WSL.
    found.in_process = size_after(message, "this process has ").filter(|held| held.0 < 1 << 50);
    found.allocated = size_after(message, "Of the allocated memory ");
    found.private_pools = size_before(message, " allocated in private pools");
    found.unallocated = size_before(message, " is reserved by PyTorch but unallocated");
    found.others = message
        .match_indices("Process ")
        .filter_map(|(at, mark)| {
            let rest = &message[at + mark.len()..];
            let pid = number(rest)?;
            let held = rest[pid.len()..].strip_prefix(" has ")?;
            Some((pid.parse().ok()?, size(held)?))
        })
        .collect();
}

/// Up to 2.0: `(GPU 0; 10.92 GiB total capacity; 8.57 MiB already allocated; …)`.
fn clauses(message: &str, found: &mut OutOfMemory) {
    found.capacity = size_before(message, " total capacity");
    found.free = size_before(message, " free");
    found.allowed = size_before(message, " allowed");
    found.allocated = size_before(message, " already allocated");
    let total = size_before(message, " reserved in total by PyTorch");
    let between = total.zip(found.allocated).map(|(total, allocated)| total.saturating_sub(allocated));
    // Before 1.4 `cached` was what lay in the cache alone.
    found.unallocated = between.or_else(|| size_before(message, " cached"));
}
