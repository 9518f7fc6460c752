//! The marks that messages are known by, and those of drivers, libraries, vLLM and the system.

use super::schedulers::killed;
use super::size::{after, bytes_after, glued, kibibytes_after, number, size, size_after, size_before};
use super::{frameworks, on_chip, pytorch, schedulers};
use crate::reading::{CacheTokens, OutOfMemory, OutOfMemoryKind as Kind};
use crate::units::Bytes;

/// Words that a message is known by, and its reader: what stands on the line before them, what follows them.
pub struct MessageMark {
    pub text: &'static str,
    pub read: fn(&str, &str) -> Option<OutOfMemory>,
}

pub const MARKS: &[MessageMark] = &[
    MessageMark { text: "out of memory", read: device },
    MessageMark { text: "Tried to allocate ", read: headless },
    MessageMark { text: " would exceed allowed memory. (out of memory)", read: pytorch::asynchronous },
    MessageMark { text: "OutOfMemoryError: Allocation on device", read: |_, after| pytorch::cut_short(after) },
    MessageMark { text: "memory while trying to allocate ", read: |_, after| frameworks::xla(after) },
    MessageMark { text: "Out of memory allocating ", read: |_, after| frameworks::cupy_or_xla(after) },
    MessageMark { text: "Failed to allocate request for ", read: frameworks::xla_request },
    MessageMark { text: "Attempting to reserve ", read: |_, after| frameworks::tpu(after) },
    MessageMark { text: "Attempting to allocate ", read: |_, after| frameworks::tpu(after) },
    MessageMark { text: "Ran out of memory in memory space hbm. ", read: |_, after| frameworks::tpu_program(after) },
    MessageMark { text: "Ran out of memory in memory space vmem. ", read: |_, after| on_chip::tpu(after) },
    MessageMark { text: "out of resource: shared memory", read: |_, after| on_chip::triton(after) },
    MessageMark { text: " uses too much shared data (", read: |_, after| on_chip::ptxas(after) },
    MessageMark { text: "OutOfMemory (Requested size was ", read: |_, after| frameworks::tensor_rt(after) },
    MessageMark { text: "Requested amount of GPU memory (", read: |_, after| frameworks::tensor_rt(after) },
    MessageMark { text: "unable to mmap ", read: |_, after| mapped(after) },
    MessageMark { text: "allocating <= available failed, ", read: |_, after| frameworks::paddle_of_old(after) },
    MessageMark { text: "Out of memory error on GPU ", read: |_, after| frameworks::paddle(after) },
    MessageMark { text: "Failed to allocate memory for requested buffer of size ", read: frameworks::onnx_runtime },
    MessageMark { text: "Call rtMalloc fail", read: |_, after| Some(ascend(after)) },
    MessageMark {
        text: " from device: HIP_ERROR_OutOfMemory",
        read: |before, _| Some(driver("HIP", allocation_in(before))),
    },
    MessageMark { text: " from device: hipError_t(", read: |before, _| Some(driver("HIP", allocation_in(before))) },
    MessageMark {
        text: "posix_memalign(",
        read: |before, _| before.contains("enforce fail").then(|| host("PyTorch on the CPU", None)),
    },
    MessageMark { text: "_STATUS_ALLOC_FAILED", read: nvidia_library },
    MessageMark { text: "Memory not available to allocate buffer: ", read: miopen },
    MessageMark { text: "Failed to CUDA calloc ", read: |before, after| nccl(before, bytes_after(after, "")) },
    MessageMark { text: "OOM when allocating tensor with shape", read: |_, after| Some(frameworks::tensorflow(after)) },
    MessageMark { text: "out of memory trying to allocate ", read: frameworks::tensorflow_request },
    MessageMark { text: "] Stats:", read: frameworks::tensorflow_statistics },
    MessageMark {
        text: "NOT allocate memory block with size larger than 4GB",
        read: |_, after| Some(large_block(after)),
    },
    MessageMark { text: "CUDA_ERROR_OUT_OF_MEMORY", read: |before, _| Some(driver("CUDA", allocation_in(before))) },
    MessageMark { text: "RESULT_ERROR_OUT_OF_DEVICE_MEMORY", read: |_, _| Some(driver("XPU", None)) },
    MessageMark { text: "hipErrorOutOfMemory", read: |_, _| Some(driver("HIP", None)) },
    MessageMark { text: "cudaErrorMemoryAllocation", read: |_, _| Some(driver("CUDA", None)) },
    MessageMark { text: "No available memory for the cache blocks", read: |_, _| Some(vllm(OutOfMemory::default())) },
    MessageMark {
        text: "Not enough memory. Please try to increase --mem-fraction-static",
        read: |_, _| Some(sglang()),
    },
    MessageMark { text: "Free memory on device", read: vllm_start },
    MessageMark { text: "total_gpu_memory (", read: |_, after| vllm_sum(after) },
    MessageMark { text: "KV cache is needed, which is larger than", read: vllm_request },
    MessageMark { text: "max seq len (", read: |_, after| vllm_tokens(after) },
    MessageMark { text: "DefaultCPUAllocator: ", read: |_, after| Some(host("PyTorch on the CPU", cpu(after))) },
    MessageMark { text: "Unable to allocate ", read: numpy },
    MessageMark { text: "std::bad_alloc", read: |_, _| Some(host("C++", None)) },
    MessageMark { text: "[Errno 12] Cannot allocate memory", read: |_, _| Some(host("Python", None)) },
    MessageMark { text: "MemoryError", read: |before, after| before.is_empty().then(|| python(after)) },
    MessageMark { text: "insufficient shared memory (shm)", read: |_, _| Some(host("shared memory", None)) },
    MessageMark { text: "workers are out of shared memory", read: |_, _| Some(host("shared memory", None)) },
    MessageMark { text: "Killed process ", read: |_, after| kernel(after) },
    MessageMark { text: "oom_kill event", read: |_, _| Some(killed("Slurm")) },
    MessageMark { text: "oom-kill event", read: |_, _| Some(killed("Slurm")) },
    MessageMark { text: "Out Of Memory", read: |before, _| before.contains("srun: error").then(|| killed("Slurm")) },
    MessageMark { text: "Exceeded job memory limit", read: |_, _| Some(killed("Slurm")) },
    MessageMark { text: " exceeded memory limit ", read: schedulers::slurm_limit },
    MessageMark { text: "OUT_OF_MEMORY (exit code", read: |_, _| Some(killed("Slurm")) },
    MessageMark { text: "node running low on memory", read: |_, after| Some(schedulers::ray(after)) },
    MessageMark { text: "killed due to memory pressure (OOM)", read: ray_workers },
    MessageMark { text: "OOMKilled", read: |_, after| Some(schedulers::kubernetes(after)) },
    MessageMark { text: "The node was low on resource: memory", read: |_, after| Some(schedulers::evicted(after)) },
];

fn driver(backend: &str, asked: Option<Bytes>) -> OutOfMemory {
    OutOfMemory { backend: backend.to_owned(), kind: Kind::Driver, asked, ..OutOfMemory::default() }
}

fn host(backend: &str, asked: Option<Bytes>) -> OutOfMemory {
    OutOfMemory { backend: backend.to_owned(), kind: Kind::Host, asked, ..OutOfMemory::default() }
}

/// `2 Workers (tasks / actors) killed due to memory pressure (OOM)`; it counts none of them as well.
fn ray_workers(before: &str, _: &str) -> Option<OutOfMemory> {
    let count = before.trim_end().strip_suffix("Workers (tasks / actors)")?.trim_end();
    let count = count.rsplit(' ').next()?;
    (count != "0").then(|| killed("Ray"))
}

/// `CUDA out of memory`, `CUDA error: out of memory`, NCCL's and others' ways to say it.
fn device(before: &str, after: &str) -> Option<OutOfMemory> {
    let before = before.trim_end();
    let word = before.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    // People write their own words right in front of it.
    if let Some(backend) = ["CUDA", "HIP", "XPU", "NPU", "MUSA"].into_iter().find(|backend| word.ends_with(backend)) {
        return Some(OutOfMemory { backend: backend.to_owned(), ..pytorch::read(after) });
    }
    if before.ends_with("MPS backend") {
        return Some(OutOfMemory { backend: "MPS".to_owned(), ..pytorch::read(after) });
    }
    // ncclWrap: `Cuda failure 'out of memory'`, `Cuda failure 2 'out of memory'`
    if before.ends_with('\'') && before.contains("Cuda failure") {
        return nccl(before, None);
    }
    // csrc/pythonInterface.c: `Error out of memory at line 351 in file …`
    let at_line = after.strip_prefix("at line ").filter(|_| before.ends_with("Error"));
    if at_line
        .is_some_and(|place| ["bitsandbytes", "pythonInterface", "ops.cu"].iter().any(|part| place.contains(part)))
    {
        return Some(library("bitsandbytes", None, None));
    }
    if let Some(found) = frameworks::cupy_of_old(after).or_else(|| frameworks::llama(before)) {
        return Some(found);
    }
    // Before 1.0 its own allocator's refusal has no figures: storages are allocated there (`THC/generic/THCStorage.cu`).
    let own = before.ends_with("cuda runtime error (2) :") && after.contains("THCStorage");
    if own {
        return Some(OutOfMemory { backend: "CUDA".to_owned(), ..OutOfMemory::default() });
    }
    let lower = before.to_ascii_lowercase();
    let backend = ["cuda", "hip", "xpu"].into_iter().find(|name| lower.contains(name))?;
    // The driver's own refusal: THCudaCheck's `error=2 :`, `cuda runtime error (2) :`, `CUDA error:`, a check's `(2 vs. 0)`.
    const ENDS: [&str; 7] =
        ["error:", "error=2 :", "error (2) :", "error 2", "(2 vs. 0)", "cuda:", "memory_allocation:"];
    ENDS.iter().any(|end| lower.ends_with(end)).then(|| driver(&backend.to_uppercase(), None))
}

/// A message of `PyTorch`'s that lost its first words on the way: what follows is its alone.
fn headless(before: &str, after: &str) -> Option<OutOfMemory> {
    let backend = match after {
        _ if before.contains("memory") => return None,
        _ if after.contains(" total capacity; ") && after.contains("(NPU ") => "NPU",
        _ if after.contains(" total capacity; ") || after.contains(" has a total capac") => "CUDA",
        _ => return None,
    };
    // The reader looks for its words itself.
    Some(OutOfMemory { backend: backend.to_owned(), ..pytorch::read(&format!("Tried to allocate {after}")) })
}

fn library(name: &str, device: Option<u32>, asked: Option<Bytes>) -> OutOfMemory {
    OutOfMemory { backend: name.to_owned(), kind: Kind::Library, device, asked, ..OutOfMemory::default() }
}

/// `host:392:494 [2] include/alloc.h:178 NCCL WARN …`
fn nccl(before: &str, asked: Option<Bytes>) -> Option<OutOfMemory> {
    let device = before.split_once("NCCL WARN").and_then(|(head, _)| {
        let (_, inner) = head.rsplit_once('[')?;
        inner.split_once(']')?.0.parse().ok()
    });
    Some(library("NCCL", device, asked))
}

/// `CUBLAS_STATUS_ALLOC_FAILED`, `CUDNN_STATUS_ALLOC_FAILED` and their kin.
fn nvidia_library(before: &str, _: &str) -> Option<OutOfMemory> {
    let name = match before.rsplit(|letter: char| !letter.is_ascii_alphanumeric()).next()? {
        "CUBLAS" => "cuBLAS",
        "CUDNN" => "cuDNN",
        "CUSPARSE" => "cuSPARSE",
        "CUSOLVER" => "cuSOLVER",
        "CUFFT" => "cuFFT",
        _ => return None,
    };
    Some(library(name, None, None))
}

/// AMD's convolutions: `MIOpen Error: … handlehip.cpp:70: Memory not available to allocate buffer: 655360000`.
fn miopen(before: &str, after: &str) -> Option<OutOfMemory> {
    before
        .contains("MIOpen")
        .then(|| library("MIOpen", None, number(after).and_then(|asked| asked.parse().ok()).map(Bytes)))
}

/// Intel's driver: `… larger than 4GB! Tried to allocate 6.85 GiB (GPU  0; 15.56 GiB total capacity; …`.
fn large_block(after: &str) -> OutOfMemory {
    OutOfMemory { backend: "XPU".to_owned(), allowed: Some(Bytes(4 << 30)), ..pytorch::read(after) }
}

/// Ascend's graph engine: `, purpose: page caching, type = 2, size:3221291008, device_id:0`
fn ascend(after: &str) -> OutOfMemory {
    let numbered = |mark| number(self::after(after, mark)?)?.parse::<u64>().ok();
    let device = numbered("device_id:").and_then(|device| device.try_into().ok());
    OutOfMemory { device, ..driver("NPU", numbered("size:").map(Bytes)) }
}

/// `failed to allocate 2.20G (2361393152 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY`, in old releases without the bytes.
fn allocation_in(before: &str) -> Option<Bytes> {
    let words = after(before, "failed to allocate ")?;
    bytes_after(words, "(").or_else(|| glued(words))
}

fn vllm(found: OutOfMemory) -> OutOfMemory {
    OutOfMemory { backend: "vLLM".to_owned(), kind: Kind::KvCache, ..found }
}

/// A process may list: `(8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB … model weights take 5.20GiB; non_torch_memory
/// takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.`
/// (`vllm/worker/worker.py`, `determine_num_available_blocks`); of one that starts, the rest is more than nothing.
fn vllm_sum(after: &str) -> Option<OutOfMemory> {
    const HELD: [&str; 3] = ["model weights take ", "non_torch_memory takes ", "PyTorch activation peak memory takes "];
    let behind = |mark| self::after(after, mark).and_then(glued);
    behind("reserved for KV Cache is -")?;
    let held = HELD.into_iter().map(behind).collect::<Option<Vec<_>>>()?;
    Some(vllm(OutOfMemory {
        capacity: glued(after),
        allowed: behind(") = "),
        in_process: Some(held.into_iter().sum()),
        ..OutOfMemory::default()
    }))
}

/// tinygrad's is of a device: `MemoryError: Cannot allocate 122341986304 bytes: no memory is available.` (`runtime/ops_amd.py`).
fn python(after: &str) -> OutOfMemory {
    let asked = bytes_after(after, "Cannot allocate ");
    match asked.filter(|_| after.contains("bytes: no memory is available")) {
        Some(_) => OutOfMemory { backend: "tinygrad".to_owned(), asked, ..OutOfMemory::default() },
        None => host("Python", asked),
    }
}

/// SGLang's own words where weights take all that it may hold (`srt/model_executor/model_runner.py`).
fn sglang() -> OutOfMemory {
    OutOfMemory { backend: "SGLang".to_owned(), kind: Kind::KvCache, ..OutOfMemory::default() }
}

/// `Free memory on device (3.2/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB)`, in later
/// releases `on device cuda:0 (`.
fn vllm_start(_: &str, after: &str) -> Option<OutOfMemory> {
    let (free, rest) = self::after(after, "(")?.split_once('/')?;
    let free = size_after(&format!("({free} GiB"), "(");
    let asked = self::after(rest, "utilization (").and_then(|words| size_after(words, ", "));
    let place = after.trim_start();
    let place = place.strip_prefix("cuda:").or_else(|| place.strip_prefix("xpu:"));
    let device = place.and_then(|rest| number(rest)?.parse().ok());
    Some(vllm(OutOfMemory { device, free, capacity: size(rest), asked, ..OutOfMemory::default() }))
}

/// `models's max seq len (131072), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.21 GiB).
/// Based on the available memory, the estimated maximum model length is 98304.`
fn vllm_request(before: &str, after: &str) -> Option<OutOfMemory> {
    let asked = size_before(&format!("{before}|"), " |").or_else(|| size_before(before, " KV"));
    let free = size_after(after, "memory (");
    let tokens = |text, mark| number(self::after(text, mark)?)?.parse().ok();
    let wanted = tokens(before, "max seq len (");
    let there = tokens(after, "estimated maximum model length is ");
    let cache = wanted.zip(there).map(|(wanted, there)| CacheTokens { wanted, there });
    Some(vllm(OutOfMemory { asked, free, cache, ..OutOfMemory::default() }))
}

/// `The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache (3664).`
fn vllm_tokens(after: &str) -> Option<OutOfMemory> {
    let there = self::after(after, "is larger than the maximum number of tokens that can be stored in KV cache (")?;
    let cache = CacheTokens { wanted: number(after)?.parse().ok()?, there: number(there)?.parse().ok()? };
    Some(vllm(OutOfMemory { cache: Some(cache), ..OutOfMemory::default() }))
}

/// `can't allocate memory: you tried to allocate 132426121216 bytes`, before 2019 in GB of 2^30.
fn cpu(after: &str) -> Option<Bytes> {
    bytes_after(after, "you tried to allocate ").or_else(|| glued(self::after(after, "you tried to allocate ")?))
}

/// `67108864 bytes from file </torch_12345_1>: Cannot allocate memory (12)` (`ATen/MapAllocator.cpp`), of what workers share or of
/// a file of weights.
fn mapped(after: &str) -> Option<OutOfMemory> {
    let (head, why) = after.split_once(">: ")?;
    let asked = Some(bytes_after(head, "")?);
    why.starts_with("Cannot allocate memory").then(|| host("mmap", asked))
}

/// `Unable to allocate 29.8 GiB for an array with shape`
fn numpy(_: &str, after: &str) -> Option<OutOfMemory> {
    after.contains("for an array").then(|| host("NumPy", size(after)))
}

/// `25315 (python3) total-vm:53312244kB, anon-rss:31451456kB, file-rss:74816kB, shmem-rss:12296kB`
fn kernel(after: &str) -> Option<OutOfMemory> {
    let pid = number(after)?;
    // Others have the user in between: `11726, UID 498, (mysqld) total-vm:…`, `799153 (node), UID 1000, total-vm:…`.
    let named = after[pid.len()..].trim_start();
    let named = named.strip_prefix(", UID ").and_then(|rest| Some(rest.split_once(", ")?.1)).unwrap_or(named);
    let (name, rest) =
        named.strip_prefix('(')?.split_once(") ").or_else(|| named.strip_prefix('(')?.split_once("), UID "))?;
    let parts = ["anon-rss:", "file-rss:", "shmem-rss:"].map(|mark| kibibytes_after(rest, mark));
    let resident = parts.iter().flatten().copied().sum::<Bytes>();
    Some(OutOfMemory {
        own_pid: pid.parse().ok(),
        process: Some(name.to_owned()),
        in_process: parts.iter().any(Option::is_some).then_some(resident),
        ..killed("the kernel")
    })
}
