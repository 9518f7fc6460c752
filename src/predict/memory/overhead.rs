//! From allocated to reserved to device-used: constants, each with the measurements behind it.

use crate::catalog::Generation;
use crate::plan::keywords::Mode;
use crate::predict::job::Job;
use crate::predict::memory::companions::standing_engine;
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
        Generation::Volta => (
            1343,
            "huggingface/transformers, docs/source/en/perf_train_gpu_one.mdx: a tiny tensor on V100 takes 1343 MiB",
        ),
        Generation::Pascal | Generation::Turing | Generation::Ampere => {
            (481, "stas00/ml-engineering, training/performance/README.md: A100 with torch 2.1, lazy loading, 0.47 GiB")
        }
        Generation::Ada => {
            (481, "stas00/ml-engineering, training/performance/README.md: A100 with torch 2.1, taken over for Ada")
        }
        Generation::Hopper | Generation::Blackwell => (
            522,
            "stas00/ml-engineering, training/performance/README.md: A100 with torch 2.1, 8 % more taken for Hopper",
        ),
        Generation::Cpu => (0, "a CPU has no context"),
        Generation::Cdna2 | Generation::Cdna3 | Generation::Cdna4 | Generation::Rdna | Generation::Unknown => (
            512,
            "stas00/ml-engineering, training/performance/README.md: A100's, rounded up; nobody published this GPU's",
        ),
    };
    Constant { bytes: Bytes::from_mib(mib), source }
}

/// The same with every kernel loaded at the start.
pub const FULL_CONTEXT: Constant = Constant {
    bytes: Bytes::from_mib(1823),
    source: "stas00/ml-engineering, training/performance/README.md: A100 with torch 1.10, 1.78 GiB",
};

/// The CUDA context of a job's processes. What was measured on Volta is of that time.
pub(in crate::predict) fn context_of(job: &Job) -> Constant {
    let generation = job.hardware.gpu.generation;
    let nvidia = matches!(
        generation,
        Generation::Pascal | Generation::Turing | Generation::Ampere | Generation::Ada | Generation::Hopper
    );
    if job.profile.process.loads_all_kernels.is && nvidia { FULL_CONTEXT } else { context(generation) }
}

/// What the libraries that a training process calls keep in PyTorch's allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Libraries {
    /// A training step: the autograd engine's thread has a cuBLAS handle of its own.
    pub backward: bool,
    /// Deterministic algorithms: `CUBLAS_WORKSPACE_CONFIG=:4096:8`.
    pub deterministic: bool,
    /// Transformer Engine multiplies.
    pub engine: bool,
    /// Its grouped matmuls run, each on one of four streams.
    pub grouped: bool,
    /// Its matmuls overlap with tensor-parallel collectives, on up to three streams.
    pub userbuffers: bool,
}

/// Library workspaces: a cuBLAS workspace for each thread that multiplies, and Transformer Engine's own.
#[must_use]
pub const fn workspaces(generation: Generation, libraries: Libraries) -> Constant {
    let recent = matches!(generation, Generation::Hopper | Generation::Blackwell);
    let one: u64 = match generation {
        Generation::Cdna3 | Generation::Cdna4 => 128 << 20,
        Generation::Cdna2 | Generation::Rdna => 32 << 20,
        Generation::Cpu => 0,
        // Hopper's default, and everybody's where results must not vary: :4096:8. On Blackwell it is the default since
        // NVIDIA's image 26.04; Megatron-LM's tests on GB200 of before hold 47.75 MiB less in their two threads.
        _ if recent || libraries.deterministic => 4096 * 8 * 1024,
        // :4096:2:16:8
        _ => 8_519_680,
    };
    let engine: u64 = if recent { 32 << 20 } else { 4 << 20 };
    let handles = if libraries.backward { 2 } else { 1 };
    let mut bytes = handles * one;
    if libraries.engine {
        bytes += engine;
    }
    if libraries.grouped {
        bytes += 4 * engine;
    }
    if libraries.userbuffers {
        bytes += 3 * engine;
    }
    Constant {
        bytes: Bytes(bytes),
        source: "PyTorch 2.9, CublasHandlePool.cpp, getChosenWorkspaceSize; Transformer Engine, \
                 get_cublas_workspace_size_bytes and get_cublas_workspace (four of them for grouped products, three times one \
                 for userbuffers)",
    }
}

/// NCCL buffers of one communicator.
pub const NCCL_PER_COMMUNICATOR: Constant = Constant {
    bytes: Bytes::from_mib(512),
    source: "stas00/ml-engineering, debug/pytorch.md (NCCL takes GBs that the allocator does not see); NVIDIA/nccl, src/include/device.h, DEFAULT_BUFFSIZE: about half a GiB a communicator",
};

/// What the caching allocator holds beyond what is allocated, in thousandths: the median of 93 replays of PyTorch's
/// allocator over training steps (tests/truth/allocator.json: 0.1 % to 24 %). Megatron-LM on B200 (SimuMax) has 2.8 to 9.3 %.
pub const FRAGMENTATION_PER_MILLE: (u64, &str) = (
    65,
    "tests/truth/allocator.json: median of 93 replays of PyTorch's caching allocator (0.1 % to 24 %); MooreThreads/SimuMax, \
     docs/b200.md: 2.8 % to 9.3 %",
);

/// Bytes of library workspaces.
pub(in crate::predict) fn of_libraries(job: &Job) -> u64 {
    if !job.hardware.library_workspaces {
        return 0;
    }
    workspaces(job.hardware.gpu.generation, libraries(job)).bytes.0
}

/// Which libraries keep workspaces.
pub(in crate::predict) fn libraries(job: &Job) -> Libraries {
    let engine = job.modules.transformer_engine.is;
    let routes = job.modules.router_by_engine.is && job.decoder().is_some_and(|decoder| decoder.moe.is_some());
    Libraries {
        backward: job.training.mode == Mode::Train,
        deterministic: job.training.deterministic,
        engine: engine || routes,
        userbuffers: engine && job.speed.userbuffers && job.degrees.tensor > 1,
        grouped: engine && routes && job.training.grouped_experts,
    }
}

/// Bytes that the driver charges beside the allocator's; of a CPU, what the process holds without a model.
pub(in crate::predict) fn outside(job: &Job) -> u64 {
    let buffers = NCCL_PER_COMMUNICATOR.bytes.0.saturating_mul(communicators(job));
    let beside = standing_engine(job).0.saturating_add(process(job).0);
    context_of(job).bytes.0.saturating_add(buffers).saturating_add(beside)
}

/// What a process on a CPU holds before it has a model: transformers' modules come with that library, others with
/// PyTorch alone.
pub(in crate::predict) fn process(job: &Job) -> Bytes {
    let Some(process) = job.hardware.gpu.process else { return Bytes::ZERO };
    process.transformers.filter(|_| job.modules.family_classes.is).unwrap_or(process.torch)
}

/// Where [`process`] was measured.
pub const PROCESS_SOURCE: &str = "memwall bench on this machine: a process that has made three steps of a tiny model";

/// Groups of ranks that talk, each with buffers of its own.
pub(in crate::predict) fn communicators(job: &Job) -> u64 {
    let degrees = &job.degrees;
    let both = degrees.data.saturating_mul(degrees.context);
    let by_degrees = [degrees.tensor, degrees.pipeline, both, degrees.context, degrees.expert];
    let further = if job.profile.process.pipeline_groups.is && degrees.pipeline > 1 {
        [both.saturating_mul(degrees.tensor).saturating_mul(degrees.pipeline), degrees.pipeline, degrees.tensor]
    } else {
        [1; 3]
    };
    by_degrees.iter().chain(&further).filter(|ranks| **ranks > 1).count() as u64
}
