//! Memory that ran out: what was asked and held, what the plan foresaw, what would help by how much.

use super::fixes::Fix;
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::OutOfMemory;
use crate::units::Bytes;

/// A plan beside what is explained.
#[derive(Debug, Clone, Copy)]
pub struct ShortagePlan<'a> {
    /// Its prediction.
    pub prediction: &'a Prediction,
    /// Changes that would make it need less.
    pub relief: &'a [Fix],
}

/// An out-of-memory message, explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// What ran out, by how much, in one line.
    pub headline: String,
    /// What was asked, and who held what; only what the message tells.
    pub held: Vec<MemoryClaim>,
    /// What would help, the surest first, with what it would bring.
    pub helps: Vec<String>,
    /// What the plan foresaw; nothing without one.
    pub foreseen: Vec<String>,
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

/// Explains a message, against a plan where there is one.
#[must_use]
pub fn shortage(oom: &OutOfMemory, plan: Option<ShortagePlan<'_>>) -> Shortage {
    let rows = [
        ("asked", oom.asked, "for one tensor"),
        ("free", oom.free, "left by the driver"),
        ("allocated", oom.allocated, "in tensors of this process"),
        ("unused", oom.unallocated, "held by PyTorch's allocator and in no tensor: fragmentation and its cache"),
        ("private pools", oom.private_pools, "of the allocated: CUDA graphs' own, of no use to others"),
        ("outside", oom.outside_torch(), "this process, beyond PyTorch's allocator: CUDA context, NCCL, libraries"),
        ("elsewhere", oom.elsewhere().filter(|held| *held > Bytes::ZERO), elsewhere(oom)),
        ("limit", oom.allowed, "set for this process (set_per_process_memory_fraction)"),
        ("device", oom.capacity, "in all"),
    ];
    let held = rows.into_iter().filter_map(|(name, bytes, note)| Some(MemoryClaim { name, bytes: bytes?, note }));
    Shortage {
        headline: headline(oom),
        held: held.collect(),
        helps: helps(oom, plan),
        foreseen: plan.map(|plan| foreseen(oom, plan.prediction)).unwrap_or_default(),
    }
}

/// What ran out, by how much.
fn headline(oom: &OutOfMemory) -> String {
    let device = oom.device.map_or(String::new(), |device| format!(" on GPU {device}"));
    let backend = printable(&oom.backend);
    match (oom.asked, oom.free) {
        (Some(asked), Some(free)) if asked > free => {
            format!(
                "{backend} out of memory{device}: {} short ({asked} asked, {free} free)",
                asked.saturating_sub(free)
            )
        }
        (Some(asked), Some(free)) => {
            let why = if oom.allowed.is_some() {
                "the process has reached its limit"
            } else {
                "no free piece was large enough"
            };
            format!("{backend} out of memory{device}: {asked} asked, {free} free, but {why}")
        }
        (Some(asked), None) => format!("{backend} out of memory{device}: {asked} asked"),
        _ => format!(
            "{backend} out of memory{device}: the driver's own refusal, outside of PyTorch's allocator, which gives no figures"
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
fn helps(oom: &OutOfMemory, plan: Option<ShortagePlan<'_>>) -> Vec<String> {
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
        helps
            .push("a smaller micro batch, checkpointing, sharding: beside the run's plan each is predicted".to_owned());
    }
    helps
}

fn pace(relief: &Fix, prediction: &Prediction) -> String {
    let change = relief.outline.time.step.0 / prediction.time.step.0 - 1.0;
    let percent = (change * 100.0).round();
    if !percent.is_finite() || percent == 0.0 { String::new() } else { format!(", step {percent:+.0} %") }
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
