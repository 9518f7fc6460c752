//! What kind of figure each observation is, or why there is none; and of what.

use crate::app::{AttachedState, SourceState, State};
use crate::compare::{ComparedStage, Comparison, MemoryOwner};
use crate::predict::Prediction;
use crate::printable::printable;
use crate::reading::{ProgressSource, Reading, ReadingKind, SourceInfo, SourceKind};
use crate::ui::text::without_mean;

/// A name and what is said of it.
pub fn of(state: &State, comparison: &Comparison) -> Vec<(&'static str, String)> {
    let unmatched = state.monitor.attached.as_ref().map(|attached| attached.state) == Some(AttachedState::Unmatched);
    let on_cpu = state.run.telemetry.uses_no_gpu(&state.monitor, state.now);
    let memory = match comparison.whose {
        MemoryOwner::Process { .. } if on_cpu => {
            "resident set of the process: its peak, where the hook tells it, else now"
        }
        MemoryOwner::Process { .. } => "peak since attached, as the driver charges the process",
        MemoryOwner::Device { .. } if unmatched => {
            "peak since attached, everything on the GPU: the driver tells pids of another namespace, and which of \
             them is the attached process is not known"
        }
        MemoryOwner::Device { .. } => "peak since start, everything on the GPU",
        MemoryOwner::Log => "no process is attached: the log alone is followed",
    };
    // Counters are the device's: they do not tell its processes apart.
    let on = comparison
        .whose
        .device()
        .map_or_else(String::new, |index| format!(", everything on GPU {}", state.monitor.gpu_name_at(index)));
    let measured = format!("mean over steps, from {}{on}", counters(state));
    let bound = format!("memory-busy share times peak{on}");
    let tensor = format!("tensor activity times the peak{on}");
    let compared = state.plans.compared().prediction();
    let device_used = compared.map_or("device-used", Prediction::device_used_name);
    let mut kinds = match comparison.whose {
        // The title says that nothing is attached.
        MemoryOwner::Log => Vec::new(),
        MemoryOwner::Process { .. } | MemoryOwner::Device { .. } => vec![
            (device_used, said(&comparison.memory.observed, memory, memory)),
            ("DRAM", said(&comparison.bandwidth.observed, &measured, &bound)),
            ("compute", said(&comparison.compute.observed, &tensor, &tensor)),
        ],
    };
    if comparison.allocated.observed.value().is_some() || comparison.reserved.observed.value().is_some() {
        let counted = if on_cpu {
            "reserved, allocated: the resident set without what Python and its libraries hold; nobody counts tensors"
        } else {
            "reserved, allocated: the peaks that PyTorch counts itself"
        };
        kinds.push(("allocated", counted.to_owned()));
    }
    if !state.plans.compared().serves() {
        kinds.push(("step", step(state, comparison)));
    }
    let of = match comparison.of {
        ComparedStage::Whole => None,
        ComparedStage::Stage(stage) => Some(format!("of stage {stage}, which that GPU holds")),
        ComparedStage::LargestStage(stage) => {
            Some(format!("of stage {stage}, the largest: which one that GPU holds is not known"))
        }
    };
    kinds.extend(of.map(|of| ("predicted", of)));
    if comparison.few_measured {
        kinds.push(("bands", "few runs like this were measured: those of a wider kind of runs".to_owned()));
    }
    kinds
}

/// Who counts DRAM traffic.
fn counters(state: &State) -> &'static str {
    match &state.monitor.source {
        SourceState::Running(SourceInfo { kind: SourceKind::Nvml | SourceKind::Demo, .. }) => "GPM counters",
        SourceState::Running(SourceInfo { kind: SourceKind::Prometheus, .. }) => "the exporter's counters",
        _ => "the driver's counters",
    }
}

fn step(state: &State, comparison: &Comparison) -> String {
    let told_by = state
        .run
        .telemetry
        .progress(&state.monitor, state.now)
        .map_or(ProgressSource::Nobody, |(_, known)| known.told_by);
    match (&comparison.step.observed, told_by) {
        (Reading::Known { kind, .. }, ProgressSource::Log(format)) => {
            format!("{}: its log, {}", kind.word(), format.name())
        }
        (Reading::Known { kind, .. }, _) => format!("{}: the hook in the process", kind.word()),
        (Reading::Absent(_), ProgressSource::Rhythm) => {
            "none: the rhythm of the GPU alone is too little to hold against a plan".to_owned()
        }
        (Reading::Absent(_), ProgressSource::Nobody) => match &state.run.telemetry.news.no_log {
            Some(why) => format!("not observed: {}", printable(&without_mean(why))),
            None => "not observed: no log or hook is read".to_owned(),
        },
        (Reading::Absent(why), _) => format!("none: {}", printable(&without_mean(why))),
    }
}

fn said<T>(reading: &Reading<T>, measured: &str, bound: &str) -> String {
    match reading {
        Reading::Known { kind: ReadingKind::UpperBound, .. } => format!("upper bound: {bound}"),
        Reading::Known { kind, .. } => format!("{}: {measured}", kind.word()),
        Reading::Absent(why) => format!("none: {}", printable(&without_mean(why))),
    }
}
