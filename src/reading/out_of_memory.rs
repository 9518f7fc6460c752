//! What an out-of-memory message of PyTorch says.

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The figures of one message. Releases differ in what they tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutOfMemory {
    /// `CUDA`, `HIP`, `XPU`: as the message begins.
    pub backend: String,
    /// The device's index.
    pub device: Option<u32>,
    /// What was asked for.
    pub asked: Option<Bytes>,
    /// The device's memory.
    pub capacity: Option<Bytes>,
    /// What the driver had left.
    pub free: Option<Bytes>,
    /// A limit below the capacity that the process was given (`set_per_process_memory_fraction`).
    pub allowed: Option<Bytes>,
    /// Allocated in tensors.
    pub allocated: Option<Bytes>,
    /// Of which in private pools, CUDA graphs' own.
    pub private_pools: Option<Bytes>,
    /// Held by PyTorch's allocator and in no tensor.
    pub unallocated: Option<Bytes>,
    /// Everything that the driver charges to this process.
    pub in_process: Option<Bytes>,
    /// Other processes on the device, by pid.
    pub others: Vec<(u32, Bytes)>,
}

impl OutOfMemory {
    /// Reserved by PyTorch's allocator: in tensors and not.
    #[must_use]
    pub fn reserved(&self) -> Option<Bytes> {
        Some(self.allocated? + self.unallocated?)
    }

    /// What this process holds outside of PyTorch's allocator: CUDA context, NCCL, libraries.
    #[must_use]
    pub fn outside_torch(&self) -> Option<Bytes> {
        Some(self.in_process?.saturating_sub(self.reserved()?))
    }

    /// What other processes hold: as told, else what is left of the device beside this process.
    /// Older messages tell neither: then it includes this process's own CUDA context.
    #[must_use]
    pub fn elsewhere(&self) -> Option<Bytes> {
        if !self.others.is_empty() {
            return Some(self.others.iter().map(|(_, held)| *held).sum());
        }
        let own = self.in_process.or_else(|| self.reserved())?;
        Some(self.capacity?.saturating_sub(self.free?).saturating_sub(own))
    }

    /// Whether it would have gone through with all that PyTorch held unused.
    #[must_use]
    pub fn would_fit_unfragmented(&self) -> Option<bool> {
        Some(self.free? + self.unallocated? >= self.asked?)
    }
}
