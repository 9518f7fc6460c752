//! PyTorch's memory snapshots (`torch.cuda.memory._dump_snapshot`): a pickle of plain data, read
//! without running any of it.
//!
//! The structure is that of `torch::CudaMemorySnapshot` (torch/csrc/cuda/memory_snapshot.cpp) and
//! `torch.cuda.memory._snapshot`, as torch/cuda/_memory_viz.py reads it.

mod frames;
mod pickle;
mod read;

pub use pickle::PickleError;
pub use read::{SnapshotError, is_snapshot, read};
