//! An out-of-memory message or a memory snapshot in words, or as JSON.

pub mod json;

use std::fmt::Write as _;

use crate::advise::Fix;
use crate::predict::{Component, Prediction};
use crate::printable::printable;
use crate::reading::{DeviceSnapshot, OutOfMemory, Purpose};
use crate::report::table::{Align, Table};
use crate::units::{Bytes, three_figures};

/// Places that are listed of a snapshot.
const TOP: usize = 12;

/// A plan beside what is explained.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// Its prediction.
    pub prediction: &'a Prediction,
    /// Changes that would make it need less.
    pub relief: &'a [Fix],
}

/// An out-of-memory message: what was asked, what was held and by whom, what would help.
#[must_use]
pub fn out_of_memory(oom: &OutOfMemory, plan: Option<Beside<'_>>) -> String {
    let mut text = headline(oom);
    let mut table = Table::new([("", Align::Left), ("GiB", Align::Right), ("", Align::Left)]);
    let mut row = |name: &str, bytes: Option<Bytes>, note: &str| {
        if let Some(bytes) = bytes {
            table.row([name.to_owned(), bytes.in_gib(), note.to_owned()]);
        }
    };
    row("asked", oom.asked, "for one tensor");
    row("free", oom.free, "left by the driver");
    row("allocated", oom.allocated, "in tensors of this process");
    row("unused", oom.unallocated, "held by PyTorch's allocator and in no tensor: fragmentation and its cache");
    row("private pools", oom.private_pools, "of the allocated: CUDA graphs' own, of no use to others");
    row("outside", oom.outside_torch(), "this process, beyond PyTorch's allocator: CUDA context, NCCL, libraries");
    row("elsewhere", oom.elsewhere().filter(|held| *held > Bytes::ZERO), elsewhere(oom));
    row("limit", oom.allowed, "set for this process (set_per_process_memory_fraction)");
    row("device", oom.capacity, "in all");
    if !table.is_empty() {
        let _ = write!(text, "\n{}", table.render("  "));
    }
    let helps = helps(oom, plan);
    if !helps.is_empty() {
        text.push_str("\nwhat helps\n");
        for help in helps {
            let _ = writeln!(text, "  {help}");
        }
    }
    if let Some(plan) = plan {
        against(&mut text, oom, plan.prediction);
    }
    text
}

fn headline(oom: &OutOfMemory) -> String {
    let device = oom.device.map_or(String::new(), |device| format!(" on GPU {device}"));
    let backend = printable(&oom.backend);
    match (oom.asked, oom.free) {
        (Some(asked), Some(free)) if asked > free => {
            format!(
                "{backend} out of memory{device}: {} short ({asked} asked, {free} free)\n",
                asked.saturating_sub(free)
            )
        }
        (Some(asked), Some(free)) => {
            let why = if oom.allowed.is_some() {
                "the process has reached its limit"
            } else {
                "no free piece was large enough"
            };
            format!("{backend} out of memory{device}: {asked} asked, {free} free, but {why}\n")
        }
        (Some(asked), None) => format!("{backend} out of memory{device}: {asked} asked\n"),
        _ => format!(
            "{backend} out of memory{device}: the driver's own refusal, outside of PyTorch's allocator, which gives no figures\n"
        ),
    }
}

fn elsewhere(oom: &OutOfMemory) -> &'static str {
    match (oom.others.len(), oom.in_process) {
        (0, Some(_)) => "other processes, and what the driver keeps for itself",
        (0, None) => "other processes, and this one's CUDA context and libraries",
        (1, _) => "one other process",
        _ => "other processes",
    }
}

/// What would help, the surest first, with what it would bring.
fn helps(oom: &OutOfMemory, plan: Option<Beside<'_>>) -> Vec<String> {
    let mut helps = Vec::new();
    let short = oom.asked.zip(oom.free).map(|(asked, free)| asked.saturating_sub(free));
    let enough = |saves: Bytes| match short {
        Some(short) if saves >= short => ": enough for this request",
        Some(_) => ": not enough alone",
        None => "",
    };
    // The cache is fragmented where it would have served the request but did not.
    if let Some(unused) = oom.unallocated.filter(|unused| short.is_none_or(|short| *unused * 10 >= short)) {
        let option = if oom.backend == "HIP" { "PYTORCH_HIP_ALLOC_CONF" } else { "PYTORCH_CUDA_ALLOC_CONF" };
        helps.push(format!("{option}=expandable_segments:True, up to {unused} less held in pieces{}", enough(unused)));
    }
    for (pid, held) in &oom.others {
        helps.push(format!("process {pid} leaving the device, {held}{}", enough(*held)));
    }
    if let Some(allowed) = oom.allowed {
        helps.push(format!("a higher limit than {allowed} for this process"));
    }
    for relief in plan.map_or(&[][..], |plan| plan.relief) {
        let keys: Vec<String> = relief.change.set.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let slower = plan.map_or(String::new(), |plan| pace(relief, plan.prediction));
        helps.push(format!(
            "{}, {} less by prediction{slower}{}",
            keys.join(", "),
            relief.saves(),
            enough(relief.saves())
        ));
    }
    if plan.is_none() {
        helps.push(
            "a smaller micro batch, checkpointing, sharding: name the run's --plan and each is predicted".to_owned(),
        );
    }
    helps
}

fn pace(relief: &Fix, prediction: &Prediction) -> String {
    let change = relief.outline.time.step.0 / prediction.time.step.0 - 1.0;
    let percent = (change * 100.0).round();
    if !percent.is_finite() || percent == 0.0 { String::new() } else { format!(", step {percent:+.0} %") }
}

/// What the plan foresaw, where the run ran out.
fn against(text: &mut String, oom: &OutOfMemory, prediction: &Prediction) {
    let stage = prediction.largest();
    let wanted = oom.allocated.zip(oom.asked).map(|(held, asked)| held + asked);
    let _ = writeln!(
        text,
        "\nthe plan foresees {} allocated, {} reserved, {} device-used of {} at the peak, in {}: {}",
        stage.peak_allocated,
        stage.peak_reserved,
        stage.device_used,
        prediction.capacity.bytes,
        stage.peak_phase.word(),
        stage.peak_cause
    );
    if let Some(wanted) = wanted {
        let difference = wanted - stage.peak_allocated;
        let side = if difference.is_negative() { "below" } else { "above" };
        let away = difference.magnitude();
        let _ = writeln!(text, "the run wanted {wanted} allocated so far: {away} {side} the plan's peak");
    }
}

/// A snapshot: what is held by state and by purpose, beside the plan's peak.
#[must_use]
pub fn snapshot(devices: &[DeviceSnapshot], plan: Option<&Prediction>) -> String {
    let with_memory: Vec<&DeviceSnapshot> = devices.iter().filter(|device| device.reserved > Bytes::ZERO).collect();
    if with_memory.is_empty() {
        return "the snapshot holds no memory: it was taken before anything was allocated\n".to_owned();
    }
    let each: Vec<String> = with_memory.into_iter().map(|device| one_device(device, plan)).collect();
    each.join("\n")
}

fn one_device(device: &DeviceSnapshot, plan: Option<&Prediction>) -> String {
    let mut text = format!("GPU {}: {} allocated of {} reserved\n\n", device.device, device.allocated, device.reserved);
    text.push_str(&states(device).render("  "));
    let _ = write!(text, "\n{}", purposes(device, plan).render("  "));
    if plan.is_some() {
        text.push_str("  the snapshot is one moment, the plan's figures are of the step's peak\n");
    }
    let _ = write!(text, "\n{}", places(device).render("  "));
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
        row("rounding", rounding, "of the allocated, beyond what was asked for".to_owned());
    }
    table
}

/// The component that a purpose is predicted as.
const fn component(purpose: Purpose) -> Option<Component> {
    match purpose {
        Purpose::Parameters => Some(Component::Parameters),
        Purpose::Gradients => Some(Component::Gradients),
        Purpose::OptimizerStates => Some(Component::OptimizerStates),
        Purpose::Activations => Some(Component::Activations),
        Purpose::Temporaries => Some(Component::Temporaries),
        Purpose::CommunicationBuffers => Some(Component::CommunicationBuffers),
        Purpose::Unrecorded | Purpose::Other => None,
    }
}

fn purposes(device: &DeviceSnapshot, plan: Option<&Prediction>) -> Table {
    const ALL: [Purpose; 8] = [
        Purpose::Parameters,
        Purpose::Gradients,
        Purpose::OptimizerStates,
        Purpose::Activations,
        Purpose::Temporaries,
        Purpose::CommunicationBuffers,
        Purpose::Other,
        Purpose::Unrecorded,
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
        if purpose == Purpose::Activations {
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
    for term in device.terms.iter().filter(|term| term.purpose == Purpose::Activations) {
        let name = term.part.unwrap_or("elsewhere in the model");
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes += term.bytes,
            None => parts.push((name, term.bytes)),
        }
    }
    parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
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
