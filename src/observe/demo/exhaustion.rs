//! What the simulated process writes when its GPU's memory is all used.

use super::run::GpuActivity;
use super::{Demo, Tick, pid_of};
use crate::out_of_memory;
use crate::reading::OutOfMemory;
use crate::units::{Bytes, MIB};

/// What a leak's last request is for, where the plan itself would fit.
const REQUEST: Bytes = Bytes(256 * MIB);

/// What the driver has left then.
const LEFT: Bytes = Bytes(96 * MIB);

impl Demo {
    /// PyTorch's message about the process that ended last (c10/cuda/CUDACachingAllocator.cpp, `malloc`), until the next one
    /// has made a step.
    pub(super) fn ran_out(&self, now: &Tick) -> Option<OutOfMemory> {
        let life = self.timeline.fails_after?;
        let failed = match now.doing {
            GpuActivity::Nothing => now.process,
            GpuActivity::Stepping(seconds) if seconds >= self.step.seconds() => return None,
            GpuActivity::Loading(_) | GpuActivity::Stepping(_) => now.process.checked_sub(1)?,
        };
        let gpu = self.gpus.first()?;
        let capacity = self.card.memory;
        let used = capacity.saturating_sub(LEFT);
        let [reserved, allocated, _] = gpu.memory.counted(GpuActivity::at(life));
        let (reserved, allocated) = (reserved.min(used), allocated.min(used));
        let asked = gpu.memory.beyond(capacity).map_or(REQUEST, |beyond| beyond + LEFT);
        out_of_memory::find(&format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU {} has a total capacity of {capacity} \
             of which {LEFT} is free. Process {} has {used} memory in use. Of the allocated memory {allocated} is allocated by \
             PyTorch, and {} is reserved by PyTorch but unallocated.",
            gpu.index,
            pid_of(gpu, failed),
            reserved.saturating_sub(allocated),
        ))
    }
}
