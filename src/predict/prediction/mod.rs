//! What a prediction says. Every consumer (screen, report, comparison, tests) reads
//! this, and its lists of named terms, rather than computing a figure of its own.

mod memory;
mod roofline;
mod time;
mod time_formulas;
mod time_terms;
mod words;

pub use memory::{Component, Layer, Phase, StageMemory, Term, TimelinePoint};
pub use roofline::{Bound, Roofline, RooflineOp};
pub use time::{Bottleneck, StepTime};
pub use time_formulas::{HostPass, KernelWork, TimeFormula, TimeSource};
pub use time_terms::{TimePart, TimeTerm, Transfer};
pub(super) use words::words;
pub use words::{Place, Words, WordsPiece};

use std::sync::Arc;

use crate::predict::job::{Fragmentation, NOT_MODELLED};
use crate::units::{Bytes, Flops, Joules};

/// Layers that are alike and follow each other, on one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerGroup {
    /// What kind of layer it is.
    pub name: &'static str,
    /// The number of the first, from 0; none for what is no numbered layer (embedding, head).
    pub first: Option<u64>,
    /// How many there are.
    pub count: u64,
    /// Parameters of each on this rank.
    pub parameters: u64,
    /// What one micro batch leaves of each for the backward pass.
    pub saved: Bytes,
}

/// How a plan stands against the GPU's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At least 5 % headroom.
    Fits,
    /// Fits with under 5 % headroom.
    Tight,
    /// Device-used exceeds the capacity.
    DoesNotFit,
}

/// What the GPU has, against what the plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// What NVML reports as total for the GPU, or the plan's own limit.
    pub bytes: Bytes,
    /// Device-used bytes of the stage that needs most.
    pub needed: Bytes,
}

impl Capacity {
    /// Fits, tight (under 5 % headroom, CONTRACT) or not.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        if self.needed > self.bytes {
            Verdict::DoesNotFit
        } else if self.bytes.saturating_sub(self.needed).as_f64() < 0.05 * self.bytes.as_f64() {
            Verdict::Tight
        } else {
            Verdict::Fits
        }
    }
}

/// Exact parameter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Params {
    /// Every parameter once, tied weights once.
    pub total: u64,
    /// Those with gradients.
    pub trainable: u64,
    /// Those that one token passes through (fewer than all in a mixture of experts).
    pub active_per_token: u64,
}

/// Operations of one step on one GPU, as PyTorch's FlopCounterMode counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepFlops {
    /// Forward pass.
    pub forward: Flops,
    /// Backward pass, recomputation included.
    pub backward: Flops,
    /// Of which recomputation.
    pub recompute: Flops,
}

/// DRAM traffic of one step on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Reads and writes of weights.
    pub parameters: Bytes,
    /// Of gradients.
    pub gradients: Bytes,
    /// Of activations and their gradients.
    pub activations: Bytes,
    /// Of optimizer states and masters.
    pub optimizer_states: Bytes,
}

impl Traffic {
    /// All of it.
    #[must_use]
    pub fn total(self) -> Bytes {
        self.parameters + self.gradients + self.activations + self.optimizer_states
    }

    /// With `more`, so many times over.
    pub(in crate::predict) fn add(&mut self, more: Self, times: u64) {
        let all = |bytes: Bytes| Bytes(bytes.0.saturating_mul(times));
        self.parameters += all(more.parameters);
        self.gradients += all(more.gradients);
        self.activations += all(more.activations);
        self.optimizer_states += all(more.optimizer_states);
    }
}

/// Keys under which a plan may ask for what its GPU does not have.
const GPU_KEYS: [&str; 4] = ["training.precision", "training.fp8_recipe", "training.attention", "cluster.interconnect"];

/// What a plan asks for that its `gpu` does not have: each key with what is missing.
pub fn lacking<'a>(gpu: &'a str, assumptions: &'a [String]) -> impl Iterator<Item = (&'static str, &'a str)> {
    let lacks = move |key: &'static str, line: &'a str| {
        let said = line.strip_prefix(key)?.strip_prefix(": ")?;
        said.strip_prefix(gpu)?.starts_with(" has no ").then_some((key, said))
    };
    GPU_KEYS.into_iter().flat_map(move |key| assumptions.iter().filter_map(move |line| lacks(key, line)))
}

/// The keys of a plan that would change its figures and do not.
pub fn not_modelled(assumptions: &[String]) -> impl Iterator<Item = &str> {
    assumptions.iter().filter_map(|line| line.strip_suffix(NOT_MODELLED)?.strip_suffix(": "))
}

/// One prediction of one plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The architecture by name ("llama-2-13b", "gpt2 12 x 768").
    pub model: String,
    /// The GPU, as the catalogue names it.
    pub gpu: String,
    /// The GPU's short name, for a header.
    pub gpu_short: String,
    /// It is the machine's CPU: memory is the process's resident set.
    pub on_cpu: bool,
    /// Number of GPUs.
    pub num_gpus: u64,
    /// Parameters of the whole model.
    pub params: Params,
    /// Memory, stage by stage; at least one.
    pub stages: Vec<StageMemory>,
    /// Index in `stages` of the one that needs most: the headline.
    pub largest_stage: usize,
    /// That stage's layers in the order of the forward pass.
    pub layers: Vec<LayerGroup>,
    /// Against the GPU.
    pub capacity: Capacity,
    /// For plans that are compared with this one.
    pub fragmentation: Fragmentation,
    /// Operations of that stage's GPU.
    pub flops: StepFlops,
    /// DRAM traffic of that stage's GPU.
    pub traffic: Traffic,
    /// Time: of an optimizer step, or of reading the prompts of all requests.
    pub time: StepTime,
    /// That time as named terms, of the GPU of the stage that needs most; they sum to it.
    pub time_terms: Vec<TimeTerm>,
    /// Time of one more token for each request (inference with a cache).
    pub decode: Option<StepTime>,
    /// Operators under their roofs.
    pub roofline: Roofline,
    /// Every value that was stood in for a missing key, and every key that has no effect on the figures.
    pub assumptions: Arc<[String]>,
}

impl Prediction {
    /// What all of its memory is called: a GPU's, or a process's own.
    #[must_use]
    pub const fn device_used_name(&self) -> &'static str {
        if self.on_cpu { "resident" } else { "device-used" }
    }

    /// What one micro batch keeps for the backward pass in the layers of the largest stage.
    #[must_use]
    pub fn saved_by_layers(&self) -> Bytes {
        self.layers.iter().map(|group| group.saved * group.count).sum()
    }

    /// What the plan asks for that its GPU does not have: each key with what is missing.
    pub fn lacking(&self) -> impl Iterator<Item = (&'static str, &str)> {
        lacking(&self.gpu, &self.assumptions)
    }

    /// The plan's keys that would change the figures and do not.
    pub fn not_modelled(&self) -> impl Iterator<Item = &str> {
        not_modelled(&self.assumptions)
    }

    /// The stage that needs the most memory.
    ///
    /// `stages` is never empty and `largest_stage` always within it: both are made in one place.
    #[must_use]
    pub fn largest(&self) -> &StageMemory {
        &self.stages[self.largest_stage]
    }

    /// GPU-hours of the whole training. None where there is no such figure.
    #[must_use]
    pub fn gpu_hours(&self) -> Option<f64> {
        self.time.total_hours.map(|hours| hours * self.num_gpus as f64)
    }

    /// Energy that the GPUs draw for the whole training; the rest of the machines comes on top.
    #[must_use]
    pub fn energy(&self) -> Option<Joules> {
        self.gpu_hours().zip(self.time.power).map(|(hours, power)| Joules(hours * 3600.0 * power.0))
    }

    /// The stage that the GPU of that index holds, where `devices` are all GPUs of the run:
    /// pipeline ranks are the slowest to change, as Megatron orders them. None where the
    /// GPUs seen are only some of the run's, so that nobody can tell.
    #[must_use]
    pub fn stage_of(&self, index: u32, devices: usize) -> Option<&StageMemory> {
        let stages = self.stages.len() as u64;
        if stages <= 1 {
            return self.stages.first();
        }
        let whole = devices as u64 == self.num_gpus && u64::from(index) < self.num_gpus;
        whole.then(|| self.stages.get(usize::try_from(u64::from(index) * stages / self.num_gpus).ok()?)).flatten()
    }
}
