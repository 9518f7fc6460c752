//! The same as one JSON object: bytes and seconds unrounded, null where nothing is told.

use serde_json::{Value, json};

use super::component;
use crate::advise::{Fix, PlanForMessage, PlanMismatch, offered, shortage};
use crate::predict::Prediction;
use crate::reading::{BlockPurpose, DeviceSnapshot, OutOfMemory, SnapshotTerm, UnexplainedFailure};
use crate::report::json::number;
use crate::units::Bytes;

fn bytes(bytes: Option<Bytes>) -> Value {
    bytes.map_or(Value::Null, |bytes| Value::from(bytes.0))
}

/// An out-of-memory message: its figures, what follows from them, and changes of the plan that would help.
#[must_use]
pub fn out_of_memory(oom: &OutOfMemory, plan: Option<&PlanForMessage>) -> Value {
    let others = oom.others.iter().map(|(pid, held)| json!({"pid": pid, "bytes": held.0})).collect::<Vec<_>>();
    let relief = plan.map_or_else(Vec::new, |plan| {
        let one = |relief: &Fix| {
            json!({
                "set": relief.change.set_json(),
                "saves": relief.saves().0,
                "step_s": number(relief.outline.time.step.0),
            })
        };
        offered(oom, plan).into_iter().map(one).collect()
    });
    json!({
        "kind": "out_of_memory",
        "memory": oom.kind.word(),
        "backend": oom.backend,
        "device": oom.device,
        "rank": oom.rank,
        "also": oom.also,
        "asked": bytes(oom.asked),
        "free": bytes(oom.free),
        "capacity": bytes(oom.capacity),
        "limit": bytes(oom.allowed),
        "allocated": bytes(oom.allocated),
        "private_pools": bytes(oom.private_pools),
        "unallocated": bytes(oom.unallocated),
        "reserved": bytes(oom.reserved()),
        "in_process": bytes(oom.in_process),
        "outside_torch": bytes(oom.outside_torch()),
        "elsewhere": bytes(oom.elsewhere()),
        "others": others,
        "may_list_itself": oom.may_list_itself(),
        "own_pid": oom.own_pid,
        "process": oom.process,
        "cache_tokens": oom.cache.map(|cache| json!({"wanted": cache.wanted, "there": cache.there})),
        "program": oom.program.map(|program| json!({
            "total": bytes(program.total),
            "parameters": bytes(program.parameters),
            "outputs": bytes(program.outputs),
            "temporaries": bytes(program.temporaries),
            "fragmentation": bytes(program.fragmentation),
        })),
        "would_fit_unfragmented": oom.would_fit_unfragmented(),
        "predicted": plan.map(|plan| predicted(&plan.prediction)),
        "plan_mismatch": plan.and_then(|plan| plan.mismatch.as_ref()).map(PlanMismatch::words),
        "helps": shortage(oom, plan).helps,
        "relief": relief,
    })
}

/// A failure that may have been for memory, though nothing says so.
#[must_use]
pub fn unexplained(failure: UnexplainedFailure) -> Value {
    match failure {
        UnexplainedFailure::Killed => json!({"kind": "killed", "signal": 9}),
        UnexplainedFailure::OpenFiles => json!({"kind": "unexplained", "backend": "open files"}),
        UnexplainedFailure::IntelResources => json!({"kind": "unexplained", "backend": "XPU"}),
        UnexplainedFailure::SharedMemory => json!({"kind": "unexplained", "backend": "shared memory"}),
        UnexplainedFailure::Nccl => json!({"kind": "unexplained", "backend": "NCCL"}),
        UnexplainedFailure::Handle => json!({"kind": "unexplained", "backend": "CUDA"}),
        UnexplainedFailure::BitsandbytesKernel
        | UnexplainedFailure::BitsandbytesSetup
        | UnexplainedFailure::BitsandbytesInt8 => json!({"kind": "not_memory", "backend": "bitsandbytes"}),
    }
}

fn predicted(prediction: &Prediction) -> Value {
    let stage = prediction.largest();
    json!({
        "peak_allocated": stage.peak_allocated.0,
        "peak_reserved": stage.peak_reserved.0,
        "device_used": stage.device_used.0,
    })
}

/// A memory snapshot: what each device's allocator holds, and what for, beside the plan's.
#[must_use]
pub fn snapshot(devices: &[DeviceSnapshot], plan: Option<&Prediction>) -> Value {
    json!({
        "kind": "snapshot",
        "devices": devices.iter().map(|device| one_device(device, plan)).collect::<Vec<_>>(),
        "predicted": plan.map(predicted),
    })
}

fn one_device(device: &DeviceSnapshot, plan: Option<&Prediction>) -> Value {
    let stage = plan.map(Prediction::largest);
    let place = |term: &SnapshotTerm| {
        json!({
            "for": term.purpose.word(),
            "part": term.part,
            "at": term.place,
            "blocks": term.blocks,
            "bytes": term.bytes.0,
        })
    };
    let mut purposes: Vec<BlockPurpose> = Vec::new();
    for term in &device.terms {
        if !purposes.contains(&term.purpose) {
            purposes.push(term.purpose);
        }
    }
    let allocated_for = purposes.into_iter().map(|purpose| {
        let planned = stage.and_then(|stage| Some(stage.component(component(purpose)?)));
        json!({"for": purpose.word(), "bytes": device.of(purpose).0, "predicted": bytes(planned)})
    });
    let failed = device.failed.iter().map(|(asked, free)| json!({"asked": asked.0, "free": bytes(*free)}));
    json!({
        "device": device.device,
        "allocated": device.allocated.0,
        "pending": device.pending.0,
        "split": device.split.0,
        "largest_split": device.largest_split.0,
        "empty": device.empty.0,
        "reserved": device.reserved.0,
        "rounding": bytes(device.rounding),
        "segments": device.segments,
        "expandable": device.expandable,
        "allocated_for": allocated_for.collect::<Vec<_>>(),
        "terms": device.terms.iter().map(place).collect::<Vec<_>>(),
        "failed": failed.collect::<Vec<_>>(),
    })
}
