//! The plan for an out-of-memory message: of the message's framework, and on its GPU.

use crate::advise::fixes::{Fix, savings};
use crate::catalog::{Catalog, Gpu, Vendor};
use crate::plan::Plan;
use crate::predict::{Job, Prediction, predict};
use crate::printable::printable;
use crate::reading::OutOfMemory;
use crate::units::Bytes;

/// What a driver, NVML and a framework call the memory of one GPU differs by less than this share.
const ALIKE: f64 = 0.03;

/// Who runs no PyTorch: what a plan predicts is PyTorch's memory, and its changes are keys of PyTorch trainings.
const OTHER_FRAMEWORKS: [&str; 9] =
    ["CuPy", "JAX", "ONNX Runtime", "Paddle", "TensorFlow", "TensorRT", "XLA", "llama.cpp", "tinygrad"];

/// Whether the message is of another framework than any plan's.
pub fn is_of_other_framework(oom: &OutOfMemory) -> bool {
    OTHER_FRAMEWORKS.contains(&oom.backend.as_str())
}

/// How the plan differs from what the message is of.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanMismatch {
    /// Another framework, which no plan predicts.
    Framework(String),
    /// A GPU with other memory.
    Gpu {
        /// What it has.
        capacity: Bytes,
        /// In words, both GPUs, and for which of them the prediction is.
        words: String,
    },
    /// Most of what the process held is not in the plan.
    Held(String),
}

impl PlanMismatch {
    /// In a sentence.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Framework(words) | Self::Gpu { words, .. } | Self::Held(words) => words,
        }
    }
}

/// A plan's prediction for the GPU of a message, with changes that would make it need less.
#[derive(Debug, Clone)]
pub struct PlanForMessage {
    /// On the message's GPU where that is known, else on the plan's.
    pub prediction: Prediction,
    /// Changes that would make it need less; none for a message of another framework.
    pub relief: Vec<Fix>,
    /// How the plan differs from what the message is of.
    pub mismatch: Option<PlanMismatch>,
}

impl PlanForMessage {
    /// Predicts `plan` for the GPU of the message; none of a plan that cannot be predicted.
    #[must_use]
    pub fn of(oom: &OutOfMemory, plan: &Plan, catalog: &Catalog) -> Option<Self> {
        let job = Job::resolve(plan, catalog).ok()?;
        let prediction = predict(&job);
        if is_of_other_framework(oom) {
            let words = format!(
                "the message is from {}, and plans predict PyTorch only: this plan says nothing about that run",
                printable(&oom.backend)
            );
            return Some(Self { prediction, relief: Vec::new(), mismatch: Some(PlanMismatch::Framework(words)) });
        }
        let own = [job.hardware.gpu.memory, prediction.capacity.bytes];
        let Some(capacity) = oom.capacity.filter(|capacity| own.iter().all(|own| !is_of(*own, *capacity))) else {
            let mismatch = held(oom, &prediction);
            return Some(Self { prediction, relief: savings(plan, catalog), mismatch });
        };
        let other = only_gpu(oom, capacity, catalog).and_then(|gpu| {
            let mut moved = plan.clone();
            moved.hardware.gpu_type = Some(gpu.name.clone());
            // What the plan says of its own GPU is not said of this one.
            moved.hardware.custom = None;
            (moved.hardware.memory_limit_gb, moved.hardware.power_limit_w) = (None, None);
            let job = Job::resolve(&moved, catalog).ok()?;
            Some((gpu, predict(&job), moved))
        });
        let by = match &other {
            Some((gpu, ..)) => format!("the plan is predicted for {}, which has that memory", printable(&gpu.name)),
            None => "the plan is predicted for its own GPU".to_owned(),
        };
        let words = format!(
            "the message is of a GPU with {capacity}, the plan's {} has {}: {by}",
            printable(&job.hardware.gpu.name),
            prediction.capacity.bytes
        );
        let (prediction, plan) = match &other {
            Some((_, prediction, moved)) => (prediction.clone(), moved),
            None => (prediction, plan),
        };
        let mismatch = Some(PlanMismatch::Gpu { capacity, words });
        Some(Self { prediction, relief: savings(plan, catalog), mismatch })
    }
}

/// That the plan accounts for less than half of what was in tensors: it is hardly the plan of that run.
fn held(oom: &OutOfMemory, prediction: &Prediction) -> Option<PlanMismatch> {
    let (held, planned) = (oom.allocated?, prediction.largest().peak_allocated);
    let words = || {
        format!(
            "the process held {held} in tensors, {} above the plan's peak of {planned}: this is hardly the plan of that run",
            held.saturating_sub(planned)
        )
    };
    (held > planned * 2).then(|| PlanMismatch::Held(words()))
}

/// Whether a message with so much memory may be of the GPU that has `own`. Error correction takes a sixteenth of GDDR: 45 of
/// 48 GiB.
fn is_of(own: Bytes, capacity: Bytes) -> bool {
    is_alike(own, capacity) || capacity <= own && is_alike(Bytes(own.0 - own.0 / 16), capacity)
}

fn is_alike(one: Bytes, other: Bytes) -> bool {
    one.0.abs_diff(other.0) as f64 <= ALIKE * one.as_f64().max(other.as_f64())
}

/// The one GPU of the catalogue with about that memory, from who makes what the message is of.
fn only_gpu<'a>(oom: &OutOfMemory, capacity: Bytes, catalog: &'a Catalog) -> Option<&'a Gpu> {
    let vendor = match oom.backend.as_str() {
        "CUDA" => Vendor::Nvidia,
        "HIP" => Vendor::Amd,
        _ => return None,
    };
    let mut fitting = catalog.gpus.iter().filter(|gpu| gpu.vendor == vendor && is_alike(gpu.memory, capacity));
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::shortage::shortage;
    use crate::plan::LoadedPlan;
    use crate::reading::OutOfMemoryKind;

    /// A plan of a few GiB does not explain 70 GiB of tensors: that is said first, and no change is called enough.
    #[test]
    fn a_plan_that_holds_less_than_half_of_what_was_held_is_hardly_the_run_s() {
        let plan =
            LoadedPlan::from_text("mine", "model: {preset: gpt2, batch_size: 8}\nhardware: {gpu_type: A100}").unwrap();
        let catalog = Catalog::embedded().unwrap();
        let peak = predict(&Job::resolve(&plan.plan, &catalog).unwrap()).largest().peak_allocated;
        let message = |allocated: Bytes| OutOfMemory {
            backend: "CUDA".to_owned(),
            kind: OutOfMemoryKind::Allocator,
            asked: Some(Bytes(64 << 20)),
            free: Some(Bytes(32 << 20)),
            allocated: Some(allocated),
            ..OutOfMemory::default()
        };
        for (allocated, is_other) in [(peak, false), (peak * 2, false), (peak * 2 + Bytes(1), true)] {
            let message = message(allocated);
            let plan = PlanForMessage::of(&message, &plan.plan, &catalog).unwrap();
            let said = shortage(&message, Some(&plan));
            assert_eq!(said.mismatch.is_some(), is_other, "{said:?}");
            assert!(said.helps.iter().any(|help| help.contains("less by prediction")), "{said:?}");
            assert_eq!(said.helps.iter().any(|help| help.contains("enough")), !is_other, "{said:?}");
        }
    }

    /// PyTorch names 44.56 GiB of a board of 48 with error correction; 39.4 are of a board of 40.
    #[test]
    fn error_correction_makes_no_other_gpu() {
        let gib = |gib: f64| Bytes::from_f64(gib * f64::from(1 << 30));
        for (own, message, same) in [(48.0, 44.56, true), (48.0, 47.4, true), (48.0, 39.4, false), (80.0, 44.56, false)]
        {
            assert_eq!(is_of(gib(own), gib(message)), same, "{message} of {own}");
        }
        assert!(!is_of(gib(44.56), gib(48.0)), "it never has more");
    }
}
