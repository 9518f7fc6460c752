//! Memory that ran out: what was asked and held, what the plan foresaw, what would help by how much.

mod helps;
mod plan_for_message;

pub use helps::offered;
pub use plan_for_message::{PlanForMessage, PlanMismatch};

use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::{CacheTokens, OutOfMemory, OutOfMemoryKind};
use crate::units::{Bytes, grouped};

/// An out-of-memory message, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// What ran out, by how much, in one line.
    pub headline: String,
    /// How the plan differs from what the message is of: another framework, another GPU.
    pub mismatch: Option<String>,
    /// What was asked, and who held what; only what the message tells.
    pub held: Vec<MemoryClaim>,
    /// What would help, the surest first, with what it would bring.
    pub helps: Vec<String>,
    /// What the plan foresaw; nothing without one.
    pub foreseen: Vec<String>,
}

impl Shortage {
    /// Whether a plan would put figures to what would help.
    #[must_use]
    pub fn wants_plan(&self) -> bool {
        self.helps.iter().any(|help| help == helps::WITH_PLAN)
    }
}

/// Memory that was asked for or held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryClaim {
    /// A word for it.
    pub name: &'static str,
    /// How much.
    pub bytes: Bytes,
    /// Whose it is.
    pub note: &'static str,
}

impl MemoryClaim {
    /// In GiB with two decimals; what would be 0.00 and is something is below that.
    #[must_use]
    pub fn in_gib(&self) -> String {
        const SHOWN: Bytes = Bytes((1 << 30) / 200);
        if Bytes::ZERO < self.bytes && self.bytes < SHOWN { "<0.01".to_owned() } else { self.bytes.in_gib() }
    }
}

/// Explains a message, against a plan where there is one.
#[must_use]
pub fn shortage(oom: &OutOfMemory, plan: Option<&PlanForMessage>) -> Shortage {
    // A plan is of a device's memory.
    let plan = plan.filter(|_| oom.kind.is_device() && !oom.is_absurd());
    let mismatch = plan.and_then(|plan| plan.mismatch.as_ref());
    let predicted = plan.filter(|_| !matches!(mismatch, Some(PlanMismatch::Framework(_))));
    Shortage {
        headline: headline(oom) + &beside(oom),
        mismatch: mismatch.map(|mismatch| mismatch.words().to_owned()),
        held: held(oom),
        helps: helps::helps(oom, plan),
        foreseen: predicted.map(|plan| foreseen(oom, &plan.prediction)).unwrap_or_default(),
    }
}

/// Who else ran out.
fn beside(oom: &OutOfMemory) -> String {
    match oom.also.as_slice() {
        [] => String::new(),
        also => format!("; out of memory as well, and less short: {}", printable(&also.join(", "))),
    }
}

fn held(oom: &OutOfMemory) -> Vec<MemoryClaim> {
    if oom.kind == OutOfMemoryKind::OnChip {
        // Kibibytes, which the headline has.
        return Vec::new();
    }
    let metal = oom.backend == "MPS";
    let listed = oom.may_list_itself().then(|| oom.others.iter().map(|(_, held)| *held).sum());
    let resident = oom.in_process.filter(|_| oom.kind == OutOfMemoryKind::Killed);
    let before_cache = oom.in_process.filter(|_| oom.kind == OutOfMemoryKind::KvCache);
    let allocated = match oom.backend.as_str() {
        "MPS" => "held by PyTorch's allocator for this process",
        "Paddle" => "taken from the driver by Paddle's allocator for this process",
        "CuPy" => "held by CuPy's memory pool for this process",
        _ => "in tensors of this process",
    };
    let outside = if metal {
        oom.in_process.zip(oom.allocated).map(|(all, own)| all.saturating_sub(own))
    } else {
        oom.outside_torch()
    };
    let rows = [
        ("asked", oom.asked.filter(|_| !oom.is_absurd()), asked_for(oom)),
        ("free", oom.free, free_of(oom)),
        ("allocated", oom.allocated, allocated),
        ("unused", oom.unallocated, "held by PyTorch's allocator and in no tensor: fragmentation and its cache"),
        ("paged", oom.paged(), "more than the device has: the driver keeps it in the host's memory, which is slow"),
        ("private pools", oom.private_pools, "of the allocated: CUDA graphs' own, of no use to others"),
        ("outside", outside, outside_of(&oom.backend)),
        ("elsewhere", oom.elsewhere().filter(|held| *held > Bytes::ZERO), elsewhere(oom)),
        ("before it", before_cache, "weights, activations and the context, before any cache of keys and values"),
        ("listed", listed, "processes on the device, this one perhaps among them: a container has pids of its own"),
        ("resident", resident, "the host memory of the process when the system ended it"),
        ("limit", oom.allowed, limit_of(oom)),
        (if oom.kind == OutOfMemoryKind::Killed { "node" } else { "device" }, oom.capacity, "in all"),
    ];
    rows.into_iter()
        .chain(of_program(oom))
        .filter_map(|(name, bytes, note)| Some(MemoryClaim { name, bytes: bytes?, note }))
        .collect()
}

/// What the compiler of the program laid out.
fn of_program(oom: &OutOfMemory) -> [(&'static str, Option<Bytes>, &'static str); 5] {
    let program = oom.program.unwrap_or_default();
    [
        ("program", program.total, "all buffers of the compiled program"),
        ("parameters", program.parameters, "of these, what is handed to it: weights, states, data"),
        ("outputs", program.outputs, "of these, what it gives back (maybe_live_out): donated buffers need none"),
        ("temporaries", program.temporaries, "of these, what it needs while it runs: activations, gradients"),
        ("gaps", program.fragmentation, "between buffers: fragmentation"),
    ]
}

fn outside_of(backend: &str) -> &'static str {
    match backend {
        "MPS" => "this process, beyond PyTorch's allocator: other allocations of Metal",
        "CUDA" => "this process, beyond PyTorch's allocator: CUDA context, NCCL, libraries",
        _ => "this process, beyond PyTorch's allocator: the driver's context, libraries",
    }
}

fn free_of(oom: &OutOfMemory) -> &'static str {
    if oom.kind == OutOfMemoryKind::KvCache && !oom.is_share() {
        "left for it of what vLLM was told to take (gpu_memory_utilization)"
    } else if oom.kind == OutOfMemoryKind::Killed {
        "left on the node"
    } else {
        "left by the driver"
    }
}

fn asked_for(oom: &OutOfMemory) -> &'static str {
    match oom.kind {
        OutOfMemoryKind::KvCache if oom.is_share() => "for all that vLLM was told to take (gpu_memory_utilization)",
        OutOfMemoryKind::KvCache => "for the cache of keys and values",
        OutOfMemoryKind::Library => "for the library's own buffers",
        OutOfMemoryKind::Host => "of the host's memory",
        _ if ["llama.cpp", "TensorRT"].contains(&oom.backend.as_str()) => "for one buffer",
        _ if oom.backend == "XLA" && oom.capacity.is_some() => "for all that the compiled program needs",
        _ if oom.backend == "ONNX Runtime" => "of a GPU's memory or the host's: the message does not say",
        _ => "for one tensor",
    }
}

fn limit_of(oom: &OutOfMemory) -> &'static str {
    match oom.backend.as_str() {
        "MPS" => "set for this process (PYTORCH_MPS_HIGH_WATERMARK_RATIO)",
        "XPU" => "the largest single block of this driver",
        "vLLM" => "what it was told to take of the device (gpu_memory_utilization)",
        "TensorFlow" => "what TensorFlow's allocator takes of the device",
        "CuPy" => "set for CuPy's memory pool (set_limit, CUPY_GPU_MEMORY_LIMIT)",
        "Slurm" => "what the job may take (--mem, --mem-per-cpu)",
        "Kubernetes" => "what the container may take (resources.limits.memory)",
        _ => "set for this process (set_per_process_memory_fraction)",
    }
}

/// What ran out, by how much.
fn headline(oom: &OutOfMemory) -> String {
    let kind = if oom.backend == "NPU" { "NPU" } else { "GPU" };
    let device = oom.device.map_or(String::new(), |device| format!(" on {kind} {device}"));
    let backend = printable(&oom.backend);
    if oom.is_absurd() {
        return format!(
            "{backend} out of memory{device}: more than 1 EiB was asked for, a size gone wrong (negative or overflowed)"
        );
    }
    match oom.kind {
        OutOfMemoryKind::Allocator => allocator(oom, &backend, &device),
        OutOfMemoryKind::Driver => {
            let asked = oom.asked.map_or(String::new(), |asked| format!(" of {asked}"));
            let why = if oom.asked.is_some() { "" } else { ", which gives no figures" };
            format!(
                "{backend} out of memory{device}: the driver's own refusal{asked}, outside of PyTorch's allocator{why}"
            )
        }
        OutOfMemoryKind::Library => {
            let asked = oom.asked.map_or(String::new(), |asked| format!(": {asked}"));
            format!(
                "{backend} found no device memory{device} for its own buffers{asked}; they lie outside of PyTorch's allocator"
            )
        }
        OutOfMemoryKind::KvCache => match (oom.asked, oom.free, oom.cache) {
            (Some(asked), Some(free), _) => {
                // Of 19.84 and 19.77 GiB three digits are the same.
                let short = asked.saturating_sub(free);
                let is_close = asked.to_string() == free.to_string() && short > Bytes(0);
                let close = if is_close { format!(": {short} short") } else { String::new() };
                format!("{backend}: {asked} wanted{device}, {free} there{close}")
            }
            (_, _, Some(CacheTokens { wanted, there })) => format!(
                "{backend}: the cache of keys and values has room for {there} tokens{device}, one request may take {wanted}"
            ),
            _ => match oom.in_process.zip(oom.allowed) {
                Some((held, allowed)) => {
                    format!("{backend}: {held} needed{device} before any cache of keys and values, {allowed} allowed")
                }
                None => format!("{backend}: nothing left{device} for the cache of keys and values beside the weights"),
            },
        },
        OutOfMemoryKind::OnChip => on_chip(oom, &backend),
        OutOfMemoryKind::Host => {
            let asked = oom.asked.map_or(String::new(), |asked| format!(": {asked} asked"));
            match oom.backend.as_str() {
                "shared memory" => format!("out of shared memory, not of a GPU's{asked}"),
                "mmap" => format!("the host refused to map memory, a GPU's is not short{asked}"),
                _ => format!("out of host memory, not of a GPU's ({backend}){asked}"),
            }
        }
        OutOfMemoryKind::Killed => killed(oom, &backend),
    }
}

fn on_chip(oom: &OutOfMemory, backend: &str) -> String {
    let kib = |bytes: Option<Bytes>| bytes.map(|bytes| bytes.0 / 1024);
    // Some kernels want only a few bytes more than there are.
    let in_bytes = kib(oom.asked) == kib(oom.capacity);
    let size = |bytes: Option<Bytes>| match bytes {
        None => "–".to_owned(),
        Some(bytes) if in_bytes => format!("{} B", grouped(bytes.0)),
        Some(bytes) => format!("{} KiB", bytes.0 / 1024),
    };
    let what = if backend == "XLA" { "of the chip's vmem" } else { "of shared memory for a block of threads" };
    let (asked, most) = (size(oom.asked), size(oom.capacity));
    format!(
        "{backend}: a kernel wants {asked} {what}, this device has {most}; the memory that tensors lie in is not short"
    )
}

fn killed(oom: &OutOfMemory, by: &str) -> String {
    let who = match (&oom.process, oom.own_pid) {
        (Some(name), Some(pid)) => format!("process {pid} ({})", printable(name)),
        (Some(name), None) if oom.backend == "Kubernetes" => format!("container {}", printable(name)),
        _ => "a process".to_owned(),
    };
    let held = oom.in_process.map_or(String::new(), |held| format!(", which held {held}"));
    format!("out of host memory, not of a GPU's: {by} ended {who}{held}")
}

fn allocator(oom: &OutOfMemory, backend: &str, device: &str) -> String {
    let ahead = format!("{backend} out of memory{device}:");
    if let (Some(asked), Some(limit)) = (oom.asked, oom.allowed.filter(|_| oom.backend == "XPU")) {
        return format!("{ahead} {asked} asked in one block, and this driver gives at most {limit}");
    }
    let taken = oom.segment().unwrap_or(Bytes::ZERO);
    match (oom.asked, oom.free) {
        (Some(asked), Some(free)) if asked > free => {
            format!("{ahead} {} short ({asked} asked, {free} free)", asked.saturating_sub(free))
        }
        (Some(asked), Some(free)) if taken > free => {
            format!("{ahead} {asked} asked, for which PyTorch takes {taken} at a time, {free} free")
        }
        (Some(asked), Some(free)) => {
            let why = if oom.allowed.is_some() {
                "the process has reached its limit"
            } else {
                "the driver gave none: in pieces too small, or limited for this process"
            };
            format!("{ahead} {asked} asked, {free} free, but {why}")
        }
        (Some(asked), None) => match oom.in_process.or(oom.allocated).zip(oom.allowed) {
            Some((held, allowed)) => format!("{ahead} {asked} asked beside {held} held, of {allowed} allowed"),
            None => match oom.capacity.filter(|capacity| asked > *capacity) {
                Some(capacity) => {
                    format!("{ahead} {} short ({asked} asked, {capacity} in all)", asked.saturating_sub(capacity))
                }
                None => format!("{ahead} {asked} asked"),
            },
        },
        (None, _) => match oom.in_process.or(oom.allocated) {
            Some(held) => format!("{ahead} {held} held; the message does not say what was asked"),
            None => format!("{ahead} the message gives no figures"),
        },
    }
}

fn elsewhere(oom: &OutOfMemory) -> &'static str {
    match (oom.others.len(), oom.in_process) {
        (0, Some(_)) if oom.kind == OutOfMemoryKind::Killed => {
            "other processes on the node, its object store among them"
        }
        (0, Some(_)) => "other processes, and what the driver keeps for itself",
        (0, None) if oom.backend == "CUDA" => "other processes, and this one's CUDA context and libraries",
        (0, None) => "other processes, and this one's context and libraries",
        (1, _) => "one other process",
        _ => "other processes",
    }
}

/// What the plan foresaw, where the run ran out.
fn foreseen(oom: &OutOfMemory, prediction: &Prediction) -> Vec<String> {
    let stage = prediction.largest();
    let mut lines = vec![format!(
        "the plan foresees {} allocated, {} reserved, {} device-used of {} at the peak, in {}: {}",
        stage.peak_allocated,
        stage.peak_reserved,
        stage.device_used,
        prediction.capacity.bytes,
        stage.peak_phase.word(),
        stage.peak_cause
    )];
    if let Some(wanted) = oom.allocated.zip(oom.asked).map(|(held, asked)| held + asked) {
        let difference = wanted - stage.peak_allocated;
        let side = if difference.is_negative() { "below" } else { "above" };
        let away = difference.magnitude();
        lines.push(format!("the run wanted {wanted} allocated so far: {away} {side} the plan's peak"));
    }
    lines
}
