//! From allocated to reserved to device-used: constants, each with the measurements behind it.

use crate::catalog::Generation;
use crate::units::Bytes;

/// A constant and where it was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    /// The figure.
    pub bytes: Bytes,
    /// Its source.
    pub source: &'static str,
}

/// CUDA context with PyTorch's kernels loaded lazily.
#[must_use]
pub const fn context(generation: Generation) -> Constant {
    let (mib, source) = match generation {
        Generation::Volta => (1343, "Hugging Face, perf_train_gpu_one: a tiny tensor on V100 takes 1343 MiB"),
        Generation::Turing | Generation::Ampere => (481, "ml-engineering: A100 with torch 2.1, lazy loading, 0.47 GiB"),
        Generation::Ada => (481, "ml-engineering: A100 with torch 2.1, lazy loading, taken over"),
        Generation::Hopper | Generation::Blackwell => {
            (522, "nvidia-smi of an idle PyTorch process on H100, lazy loading, about 0.5 GiB")
        }
        Generation::Cdna2 | Generation::Cdna3 | Generation::Unknown => {
            (512, "no measurement for this card: half a GiB stood in")
        }
    };
    Constant { bytes: Bytes::from_mib(mib), source }
}

/// cuBLAS workspace of one handle and stream, in PyTorch's allocator.
#[must_use]
pub const fn cublas(generation: Generation) -> Constant {
    const SOURCE: &str = "PyTorch 2.9, aten/src/ATen/cuda/CublasHandlePool.cpp, getChosenWorkspaceSize";
    let bytes = match generation {
        Generation::Hopper | Generation::Blackwell => 4096 * 8 * 1024,
        Generation::Cdna2 | Generation::Cdna3 => 128 << 20,
        // :4096:2:16:8
        _ => 8_519_680,
    };
    Constant { bytes: Bytes(bytes), source: SOURCE }
}

/// NCCL buffers of one communicator.
pub const NCCL_PER_COMMUNICATOR: Constant =
    Constant { bytes: Bytes::from_mib(512), source: "okoge-kaz and ml-engineering: about half a GiB a communicator" };

/// What the caching allocator holds beyond what is allocated, in thousandths.
pub const FRAGMENTATION_PER_MILLE: (u64, &str) =
    (40, "SimuMax on B200: reserved / allocated 1.028 to 1.093; allocator replays: 1.001 to 1.19");
