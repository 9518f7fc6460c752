//! Messages of kernels that want more of the memory on the chip than there is: no tensor's, and no smaller batch helps.

use super::size::{after, glued, number};
use crate::reading::{OutOfMemory, OutOfMemoryKind};
use crate::units::Bytes;

fn of(backend: &str, asked: Option<Bytes>, capacity: Option<Bytes>) -> Option<OutOfMemory> {
    let (asked, capacity) = (Some(asked?), Some(capacity?));
    Some(OutOfMemory {
        backend: backend.to_owned(),
        kind: OutOfMemoryKind::OnChip,
        asked,
        capacity,
        ..OutOfMemory::default()
    })
}

/// Triton's: `, Required: 245760, Hardware limit: 232448. Reducing block sizes or `num_stages` may help.` (`runtime/errors.py`,
/// `OutOfResources`).
pub fn triton(after: &str) -> Option<OutOfMemory> {
    let bytes = |mark| self::after(after, mark).and_then(|text| number(text)?.parse().ok()).map(Bytes);
    of("Triton", bytes("Required: "), bytes("Hardware limit: "))
}

/// CUDA's assembler: `0x10400 bytes, 0xc000 max)`.
pub fn ptxas(after: &str) -> Option<OutOfMemory> {
    let (asked, rest) = after.split_once(" bytes, ")?;
    let (most, _) = rest.split_once(" max")?;
    let bytes = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok().map(Bytes);
    of("ptxas", bytes(asked), bytes(most))
}

/// XLA's compiler for a TPU: `Used 16.73M of 16.00M vmem. Exceeded vmem capacity by 749.0K.`
pub fn tpu(after: &str) -> Option<OutOfMemory> {
    let (used, rest) = after.strip_prefix("Used ")?.split_once(" of ")?;
    of("XLA", glued(used), glued(rest))
}
