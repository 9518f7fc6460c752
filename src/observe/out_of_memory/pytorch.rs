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
    found.names_alloc_conf = message.contains("PYTORCH_ALLOC_CONF");
    found.capacity =
        size_after(message, "has a total capacity of ").or_else(|| size_after(message, "has a total capacty of "));
    found.free = size_after(message, "of which ");
    found.allowed = size_before(message, " allowed");
    found.allocated = size_after(message, "Of the allocated memory ");
    found.private_pools = size_before(message, " allocated in private pools");
    found.unallocated = size_before(message, " is reserved by PyTorch but unallocated");
    // Where the driver does not tell, 2.1 to 2.3 say 2^64 bytes, as under WSL, and 2.3 and later 0 bytes: the process cannot
    // have less than its tensors (rounded to hundredths).
    let least = found.allocated.unwrap_or(Bytes::ZERO).as_f64() * 0.99;
    let told = size_after(message, "this process has ");
    found.in_process = told.filter(|held| held.0 < 1 << 50 && held.as_f64() >= least);
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

/// `backend:cudaMallocAsync` (`CUDAMallocAsyncAllocator.cpp`): `Allocation on device 0 would exceed allowed memory. (out of
/// memory)`, then ` Currently allocated : 14.81 GiB Requested : 320.00 MiB Device limit : 15.92 GiB Free (according to CUDA): 0
/// bytes PyTorch limit (set by user-supplied memory fraction) : 17179869184.00 GiB`.
pub fn asynchronous(before: &str, after: &str) -> Option<OutOfMemory> {
    let device = number(self::after(before, "Allocation on device ")?).and_then(|device| device.parse().ok());
    let row = |name: &str| size(self::after(after, name)?.trim_start().strip_prefix(':')?.trim_start());
    Some(OutOfMemory {
        backend: "CUDA".to_owned(),
        device,
        asked: row("Requested"),
        capacity: row("Device limit"),
        free: row("Free (according to CUDA)"),
        // Without a limit it is 2^64 bytes.
        allowed: row("memory fraction)").filter(|limit| limit.0 < 1 << 50),
        allocated: row("Currently allocated"),
        ..OutOfMemory::default()
    })
}

/// The same as ComfyUI shows it, without what follows the device.
pub fn cut_short(after: &str) -> Option<OutOfMemory> {
    let found = OutOfMemory { backend: "CUDA".to_owned(), ..OutOfMemory::default() };
    (!after.contains("would exceed")).then_some(found)
}
