//! Messages of frameworks beside `PyTorch`: JAX and XLA, TensorFlow, `CuPy`, Paddle, llama.cpp, ONNX Runtime, TensorRT.

use super::size::{after, bytes_after, glued, number, size};
use crate::reading::{OutOfMemory, OutOfMemoryKind as Kind, ProgramBuffers};
use crate::units::Bytes;

fn of(backend: &str, found: OutOfMemory) -> OutOfMemory {
    OutOfMemory { backend: backend.to_owned(), ..found }
}

/// XLA's: `Out of memory while trying to allocate 7406166528 bytes`.
pub fn xla(after: &str) -> Option<OutOfMemory> {
    let asked = bytes_after(after, "").or_else(|| glued(after))?;
    Some(of("JAX", OutOfMemory { asked: Some(asked), program: program(after), ..OutOfMemory::default() }))
}

/// XLA's `BufferAssignment stats:`, an amount behind each name (`xla/service/buffer_assignment.cc`, `Stats::ToString`).
fn program(after: &str) -> Option<ProgramBuffers> {
    let (_, table) = after.split_once("BufferAssignment stats:")?;
    let amount = |name| self::after(table, name).and_then(|rest| glued(rest.trim_start()));
    Some(ProgramBuffers {
        parameters: amount(" parameter allocation:"),
        outputs: amount(" maybe_live_out allocation:"),
        temporaries: amount(" preallocated temp allocation:"),
        total: Some(amount(" total allocation:")?),
        fragmentation: amount(" total fragmentation:"),
    })
}

/// XLA's on a device's stream: `6.27GiB (6727663616B) on device ordinal 0`
/// (`stream_executor_memory_allocator`, `MemoryAllocationError`). TensorFlow has a class of its own for it, which JAX has not.
pub fn xla_request(before: &str, after: &str) -> Option<OutOfMemory> {
    let backend = if before.contains("ResourceExhaustedError") { "XLA" } else { "JAX" };
    let (_, exactly) = after.split_once(" (")?;
    let (_, device) = exactly.split_once("B) on device ordinal ")?;
    let asked = Some(Bytes(number(exactly)?.parse().ok()?));
    Some(of(backend, OutOfMemory { device: number(device)?.parse().ok(), asked, ..OutOfMemory::default() }))
}

/// `CuPy`'s: `1,600,000,000 bytes (allocated so far: 2,281,307,136 bytes, limit set to: 4,294,967,296 bytes).`
/// (`cupy/cuda/memory.pyx`, `OutOfMemoryError`); what XLA says in the same words goes on otherwise.
pub fn cupy_or_xla(after: &str) -> Option<OutOfMemory> {
    let Some(allocated) = bytes_after(after, "(allocated so far: ") else { return xla(after) };
    // A limit of 2^64 is none, and so is one of 0.
    let allowed = bytes_after(after, "limit set to: ").filter(|limit| (1..1 << 60).contains(&limit.0));
    let asked = Some(bytes_after(after, "")?);
    Some(of("CuPy", OutOfMemory { asked, allowed, allocated: Some(allocated), ..OutOfMemory::default() }))
}

/// `CuPy`'s before 7: `out of memory to allocate 1073741824 bytes (total 12373894656 bytes)`.
pub fn cupy_of_old(after: &str) -> Option<OutOfMemory> {
    let asked = Some(bytes_after(after.strip_prefix("to allocate ")?, "")?);
    let allocated = Some(bytes_after(after, "(total ")?);
    Some(of("CuPy", OutOfMemory { asked, allocated, ..OutOfMemory::default() }))
}

/// Paddle's: `0. Cannot allocate 48.473877MB memory on GPU 0, 7.900513GB memory has been allocated and available memory is
/// only 29.437500MB.` (`allocation/cuda_allocator.cc`), in powers of 1024 (`string::HumanReadableSize`). Before 2.1 it does
/// not say what it has taken.
pub fn paddle(after: &str) -> Option<OutOfMemory> {
    let behind = |mark| self::after(after, mark).and_then(glued);
    let asked = Some(behind("Cannot allocate ")?);
    let held = after.split_once(" memory has been allocated");
    let allocated = held.and_then(|(head, _)| glued(head.rsplit(' ').next()?));
    let (device, free) = (number(after)?.parse().ok(), behind("available memory is only "));
    Some(of("Paddle", OutOfMemory { device, asked, free, allocated, ..OutOfMemory::default() }))
}

/// Paddle's before 1.3: `10513462067 > 1369702144` bytes (`platform/gpu_info.cc`, `PADDLE_ENFORCE_LE`).
pub fn paddle_of_old(after: &str) -> Option<OutOfMemory> {
    let (asked, free) = after.split_once(" > ")?;
    let bytes = |text| Some(Bytes(number(text)?.parse().ok()?));
    Some(of("Paddle", OutOfMemory { asked: Some(bytes(asked)?), free: Some(bytes(free)?), ..OutOfMemory::default() }))
}

/// llama.cpp's: `allocating 9866.00 MiB on device 1: cudaMalloc failed: out of memory` (`ggml-cuda.cu`, for ROCm as well).
pub fn llama(before: &str) -> Option<OutOfMemory> {
    let words = self::after(before, "_alloc_buffer: allocating ").filter(|_| before.ends_with("cudaMalloc failed:"))?;
    let device = self::after(words, "on device ").and_then(|rest| number(rest)?.parse().ok());
    Some(of("llama.cpp", OutOfMemory { device, asked: Some(size(words)?), ..OutOfMemory::default() }))
}

/// ONNX Runtime's (`core/framework/bfc_arena.cc`): a number of bytes, of the device's arena or of the host's.
pub fn onnx_runtime(before: &str, after: &str) -> Option<OutOfMemory> {
    let asked = Bytes(number(after)?.parse().ok()?);
    let found = OutOfMemory { asked: Some(asked), ..OutOfMemory::default() };
    before.contains("BFCArena").then(|| of("ONNX Runtime", found))
}

/// TensorRT's: `[virtualMemoryBuffer.cpp::resizePhysical::140] Error Code 2: OutOfMemory (Requested size was 8589934592 bytes.)`.
pub fn tensor_rt(after: &str) -> Option<OutOfMemory> {
    let asked = Some(bytes_after(after, "")?);
    Some(of("TensorRT", OutOfMemory { asked, ..OutOfMemory::default() }))
}

/// XLA's on a TPU: `12.50G at the bottom of memory. That was not possible. There are 9.84G free, 0B reserved, …`, where it is
/// program memory with a sum behind it: `HBM capacity 16.00G: … Currently allocated: 6.08G (…)`.
pub fn tpu(after: &str) -> Option<OutOfMemory> {
    let at_bottom = after.contains("That was not possible");
    let behind = |mark| self::after(after, mark).and_then(|rest| glued(rest.trim_start()));
    let asked = Some(glued(after).filter(|_| at_bottom)?);
    let (free, capacity, allocated) = (behind("There are "), behind("HBM capacity "), behind("Currently allocated:"));
    Some(of("XLA", OutOfMemory { asked, free, capacity, allocated, ..OutOfMemory::default() }))
}

/// XLA's compiler for a TPU, of all that the program needs: `Used 21.90G of 7.48G hbm. Exceeded hbm capacity by 14.42G.`
pub fn tpu_program(after: &str) -> Option<OutOfMemory> {
    let (used, rest) = after.strip_prefix("Used ")?.split_once(" of ")?;
    let (asked, capacity) = (Some(glued(used)?), Some(glued(rest)?));
    Some(of("XLA", OutOfMemory { asked, capacity, ..OutOfMemory::default() }))
}

/// `[16,112,112,147] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc`
pub fn tensorflow(after: &str) -> OutOfMemory {
    let asked = after.strip_prefix('[').and_then(|rest| {
        let (shape, rest) = rest.split_once(']')?;
        let size = match rest.strip_prefix(" and type ")?.split(' ').next()? {
            "double" | "int64" | "complex64" => 8,
            "float" | "int32" | "uint32" => 4,
            "half" | "bfloat16" | "int16" => 2,
            "bool" | "int8" | "uint8" => 1,
            _ => return None,
        };
        let sides = shape.split(',').map(|side| side.trim().parse::<u64>().ok());
        let bytes = sides.into_iter().try_fold(size, |product: u64, side| product.checked_mul(side?))?;
        Some(Bytes(bytes))
    });
    let device = self::after(after, "device:GPU:").and_then(|rest| number(rest)?.parse().ok());
    let kind = if after.contains("device:CPU:") { Kind::Host } else { Kind::Allocator };
    OutOfMemory { backend: "TensorFlow".to_owned(), kind, device, asked, ..OutOfMemory::default() }
}

/// `Allocator (GPU_0_bfc) ran out of memory trying to allocate 39.81MiB`, in old releases without the allocator's name. Where
/// a kernel goes on with a smaller workspace it is a warning: `The caller indicates that this is not a failure`.
pub fn tensorflow_request(before: &str, after: &str) -> Option<OutOfMemory> {
    if after.split(" trying to allocate ").next()?.contains("this is not a failure") {
        return None;
    }
    let asked = Some(glued(after)?);
    let device = self::after(before, "(GPU_").and_then(|rest| number(rest)?.parse().ok());
    Some(OutOfMemory { backend: bfc_owner(before).to_owned(), device, asked, ..OutOfMemory::default() })
}

/// Whose `bfc_allocator.cc` a line names: jaxlib builds XLA as a repository of its own (`external/xla/xla/tsl/framework`, before
/// `external/tsl/tsl/framework` and `external/org_tensorflow/tensorflow/core/common_runtime`); TensorFlow calls its copy
/// `local_xla`, `local_tsl`.
fn bfc_owner(before: &str) -> &'static str {
    const JAXS: [&str; 3] = ["external/xla/", "external/tsl/", "external/org_tensorflow/"];
    if JAXS.iter().any(|path| before.contains(path)) { "JAX" } else { "TensorFlow" }
}

/// `Limit: 12049707828 InUse: 11984328960 MaxInUse: …` (bfc_allocator.cc, `DumpMemoryLog`), a line each.
pub fn tensorflow_statistics(before: &str, after: &str) -> Option<OutOfMemory> {
    let bytes = |mark| Some(Bytes(number(self::after(after, mark)?.trim_start())?.parse().ok()?));
    let (allowed, allocated) = (bytes("Limit:")?, bytes("InUse:")?);
    Some(OutOfMemory {
        backend: bfc_owner(before).to_owned(),
        allowed: Some(allowed),
        allocated: Some(allocated),
        ..OutOfMemory::default()
    })
}
