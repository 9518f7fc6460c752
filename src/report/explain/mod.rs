//! An out-of-memory message or a memory snapshot in words, or as JSON.

pub mod json;

use std::fmt::Write as _;

use crate::advise::{PlanForMessage, shortage};
use crate::order::StableOrder;
use crate::predict::{Component, Prediction};
use crate::printable::printable;
use crate::reading::{BlockPurpose, DeviceSnapshot, OutOfMemory, UnexplainedFailure};
use crate::report::page::paragraph;
use crate::report::table::{Align, Table};
use crate::units::{Bytes, three_figures};

/// Places that are listed of a snapshot.
const TOP: usize = 12;

/// An out-of-memory message: what was asked, what was held and by whom, what would help.
#[must_use]
pub fn out_of_memory(oom: &OutOfMemory, plan: Option<&PlanForMessage>, width: usize) -> String {
    let shortage = shortage(oom, plan);
    let mut text = String::new();
    paragraph(&mut text, "", &shortage.headline, width);
    if let Some(mismatch) = &shortage.mismatch {
        paragraph(&mut text, "", mismatch, width);
    }
    let mut table = Table::new([("", Align::Left), ("GiB", Align::Right), ("", Align::Left)]);
    for held in &shortage.held {
        table.row([held.name.to_owned(), held.in_gib(), held.note.to_owned()]);
    }
    if !table.is_empty() {
        let _ = write!(text, "\n{}", table.render("  ", width));
    }
    if !shortage.helps.is_empty() {
        text.push_str("\nwhat helps\n");
        let wants_plan = shortage.wants_plan();
        for help in shortage.helps {
            paragraph(&mut text, "  ", &help, width);
        }
        if wants_plan {
            text.push_str("  (--plan PLAN gives it)\n");
        }
    }
    if !shortage.foreseen.is_empty() {
        text.push('\n');
        for line in shortage.foreseen {
            paragraph(&mut text, "", &line, width);
        }
    }
    text
}

/// A failure that may have been for memory, though nothing says so: what it means, and where to look.
#[must_use]
pub fn unexplained(failure: UnexplainedFailure, width: usize) -> String {
    let (what, looks): (&str, &[&str]) = match failure {
        UnexplainedFailure::Killed => (
            "a process was killed by signal 9, and nothing here says by whom",
            &[
                "dmesg -T | grep -i 'killed process' (or the cluster's log): the kernel ends the largest process when host \
                 memory is out",
                "a scheduler or a time limit ends a job in the same way",
            ],
        ),
        UnexplainedFailure::SharedMemory => (
            "shared memory of the DataLoader's workers failed, and nothing here says why: often /dev/shm is full",
            &[
                "df -h /dev/shm while it runs: a container has 64 MiB unless told (docker run --shm-size, or --ipc=host)",
                "ulimit -n: each batch on its way is an open file; \
                 torch.multiprocessing.set_sharing_strategy('file_system') needs none",
                "num_workers=0 once: an error in the data set itself shows then",
            ],
        ),
        UnexplainedFailure::OpenFiles => (
            "too many files are open: each batch that a DataLoader's worker hands over is one, and nothing here is short of \
             memory",
            &[
                "ulimit -n: a higher limit before the run starts",
                "torch.multiprocessing.set_sharing_strategy('file_system'): needs no open file for a batch",
                "batches that are kept (in a list, say) keep their files open: copy what is kept",
            ],
        ),
        UnexplainedFailure::IntelResources => (
            "Intel's driver ran out of something, and nothing here says of what: often of the device's memory",
            &[
                "xpu-smi dump -m 18 while it runs: whether the device's memory is full",
                "a smaller batch once: where that helps, it was memory",
                "a kernel that wants more registers or local memory than there is fails in the same way",
            ],
        ),
        UnexplainedFailure::Nccl => (
            "a CUDA call failed within NCCL, and nothing here says which: often for lack of device memory",
            &[
                "NCCL_DEBUG=INFO: its lines with WARN name the call and the reason; `out of memory` is read here",
                "nvidia-smi while it starts: whether the device is full, or another rank sits on the same GPU",
                "a driver older than the CUDA that NCCL was built with fails in the same way",
            ],
        ),
        UnexplainedFailure::Handle => (
            "a library of NVIDIA's could not make its handle, and nothing here says why: often for lack of device memory",
            &[
                "nvidia-smi while it starts: a handle and its workspace take 10 to 100 MiB outside of PyTorch's allocator",
                "CUDA_LAUNCH_BLOCKING=1 once: where the device is not full, an earlier kernel failed (an index out of range)",
            ],
        ),
        UnexplainedFailure::BitsandbytesKernel
        | UnexplainedFailure::BitsandbytesSetup
        | UnexplainedFailure::BitsandbytesInt8 => bitsandbytes(failure),
    };
    let mut text = String::new();
    paragraph(&mut text, "", what, width);
    text.push_str("\nwhat to look at\n");
    for look in looks {
        paragraph(&mut text, "  ", look, width);
    }
    text
}

/// What bitsandbytes says where nothing is short of memory.
const fn bitsandbytes(failure: UnexplainedFailure) -> (&'static str, &'static [&'static str]) {
    match failure {
        UnexplainedFailure::BitsandbytesInt8 => (
            "the GPU, or these shapes, have no 8-bit matrix multiplication: status 15 is CUBLAS_STATUS_NOT_SUPPORTED, and \
             nothing here is short of memory",
            &["load_in_4bit in place of load_in_8bit: it multiplies in 16 bits, on older GPUs too"],
        ),
        UnexplainedFailure::BitsandbytesSetup => (
            "bitsandbytes found no CUDA library that fits PyTorch's CUDA, and nothing here is short of memory",
            &[
                "python -m bitsandbytes: which library it looks for, and where",
                "a release of bitsandbytes that is built for torch.version.cuda; or LD_LIBRARY_PATH with libcudart in it",
            ],
        ),
        _ => (
            "bitsandbytes has no kernel for this GPU or driver, and nothing here is short of memory",
            &[
                "python -m bitsandbytes: its CUDA version and the GPU's compute capability; nvidia-smi: the driver's CUDA",
                "a newer release of bitsandbytes, which has kernels for newer GPUs",
            ],
        ),
    }
}

/// A snapshot: what is held by state and by purpose, beside the plan's peak.
#[must_use]
pub fn snapshot(devices: &[DeviceSnapshot], plan: Option<&Prediction>, width: usize) -> String {
    let with_memory: Vec<&DeviceSnapshot> = devices.iter().filter(|device| device.reserved > Bytes::ZERO).collect();
    if with_memory.is_empty() {
        return "the snapshot holds no memory: it was taken before anything was allocated\n".to_owned();
    }
    let each: Vec<String> = with_memory.into_iter().map(|device| one_device(device, plan, width)).collect();
    each.join("\n")
}

fn one_device(device: &DeviceSnapshot, plan: Option<&Prediction>, width: usize) -> String {
    let mut text = format!("GPU {}: {} allocated of {} reserved\n\n", device.device, device.allocated, device.reserved);
    text.push_str(&states(device).render("  ", width));
    let _ = write!(text, "\n{}", purposes(device, plan).render("  ", width));
    if plan.is_some() {
        let said = "the snapshot is one moment; the plan's numbers are for the peak of the step";
        paragraph(&mut text, "  ", said, width);
    }
    let _ = write!(text, "\n{}", places(device).render("  ", width));
    if let Some((asked, free)) = device.failed.last() {
        let free = free.map_or(String::new(), |free| format!(" with {free} free"));
        let count = match device.failed.len() {
            1 => "a request failed:".to_owned(),
            several => format!("{several} requests failed, the last for"),
        };
        let _ = writeln!(text, "\n{count} {asked}{free}");
    }
    text
}

fn states(device: &DeviceSnapshot) -> Table {
    let mut table = Table::new([("state", Align::Left), ("GiB", Align::Right), ("", Align::Left)]);
    let mut row = |name: &str, bytes: Bytes, note: String| table.row([name.to_owned(), bytes.in_gib(), note]);
    row("allocated", device.allocated, "in tensors".to_owned());
    if device.pending > Bytes::ZERO {
        row("pending", device.pending, "freed, but another stream still uses it".to_owned());
    }
    let largest = format!("free pieces beside others, the largest {}: fragmentation", device.largest_split);
    row("split", device.split, largest);
    row("empty", device.empty, "whole free segments: empty_cache() gives them back".to_owned());
    let kind = if device.expandable { ", expandable" } else { "" };
    row("reserved", device.reserved, format!("{} segments{kind}", device.segments));
    if let Some(rounding) = device.rounding.filter(|rounding| *rounding > Bytes::ZERO) {
        row("rounding", rounding, "of the allocated, beyond what was requested".to_owned());
    }
    table
}

/// The component that a purpose is predicted as.
const fn component(purpose: BlockPurpose) -> Option<Component> {
    match purpose {
        BlockPurpose::Parameters => Some(Component::Parameters),
        BlockPurpose::Gradients => Some(Component::Gradients),
        BlockPurpose::OptimizerStates => Some(Component::OptimizerStates),
        BlockPurpose::Activations => Some(Component::Activations),
        BlockPurpose::Temporaries => Some(Component::Temporaries),
        BlockPurpose::CommunicationBuffers => Some(Component::CommunicationBuffers),
        BlockPurpose::Unrecorded | BlockPurpose::Other => None,
    }
}

fn purposes(device: &DeviceSnapshot, plan: Option<&Prediction>) -> Table {
    const ALL: [BlockPurpose; 8] = [
        BlockPurpose::Parameters,
        BlockPurpose::Gradients,
        BlockPurpose::OptimizerStates,
        BlockPurpose::Activations,
        BlockPurpose::Temporaries,
        BlockPurpose::CommunicationBuffers,
        BlockPurpose::Other,
        BlockPurpose::Unrecorded,
    ];
    let stage = plan.map(Prediction::largest);
    let mut table = Table::new([
        ("allocated for", Align::Left),
        ("GiB", Align::Right),
        ("%", Align::Right),
        (if plan.is_some() { "plan" } else { "" }, Align::Right),
        (if plan.is_some() { "difference" } else { "" }, Align::Right),
    ]);
    let mut line = |name: String, held: Bytes, planned: Option<Bytes>| {
        let share = held.share_of(device.allocated).map_or(String::new(), |share| three_figures(share.percent()));
        let difference = planned.map_or(String::new(), |planned| (held - planned).to_string());
        table.row([name, held.in_gib(), share, planned.map_or(String::new(), Bytes::in_gib), difference]);
    };
    for purpose in ALL {
        let held = device.of(purpose);
        let planned = stage.and_then(|stage| Some(stage.component(component(purpose)?)));
        if held == Bytes::ZERO && planned.is_none_or(|planned| planned == Bytes::ZERO) {
            continue;
        }
        line(purpose.word().to_owned(), held, planned);
        if purpose == BlockPurpose::Activations {
            for (part, held) in parts(device) {
                let planned = stage.map(|stage| {
                    stage.terms.iter().filter(|term| term.name == part).map(|term| term.bytes).sum::<Bytes>()
                });
                line(format!("  {part}"), held, planned);
            }
        }
    }
    table
}

/// Activations by named term, the most first.
fn parts(device: &DeviceSnapshot) -> Vec<(&'static str, Bytes)> {
    let mut parts: Vec<(&'static str, Bytes)> = Vec::new();
    for term in device.terms.iter().filter(|term| term.purpose == BlockPurpose::Activations) {
        let name = term.part.unwrap_or("elsewhere in the model");
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes += term.bytes,
            None => parts.push((name, term.bytes)),
        }
    }
    parts.order_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    parts
}

fn places(device: &DeviceSnapshot) -> Table {
    let mut table = Table::new([
        ("allocated at", Align::Left),
        ("blocks", Align::Right),
        ("GiB", Align::Right),
        ("for", Align::Left),
    ]);
    for term in device.terms.iter().take(TOP) {
        table.row([
            printable(&term.place),
            term.blocks.to_string(),
            term.bytes.in_gib(),
            term.purpose.word().to_owned(),
        ]);
    }
    if let Some(rest) = device.terms.get(TOP..).filter(|rest| !rest.is_empty()) {
        let (blocks, bytes) =
            rest.iter().fold((0, Bytes::ZERO), |(blocks, bytes), term| (blocks + term.blocks, bytes + term.bytes));
        table.row([format!("{} more places", rest.len()), blocks.to_string(), bytes.in_gib(), String::new()]);
    }
    table
}
