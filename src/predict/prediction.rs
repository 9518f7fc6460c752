//! What a prediction says. Every consumer (screen, report, comparison, tests) reads
//! this, and its lists of named terms, rather than computing a figure of its own.

use std::borrow::Cow;

use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Intensity, Joules, Seconds, Watts};

/// What a byte of device memory is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Weights as the forward pass reads them.
    Parameters,
    /// Gradients of the weights.
    Gradients,
    /// Moments and master copies.
    OptimizerStates,
    /// What the forward pass saves for the backward pass.
    Activations,
    /// Alive only while an operator runs.
    Temporaries,
    /// Keys and values kept for generation.
    KvCache,
    /// Buffers of collectives and unsharded copies.
    CommunicationBuffers,
    /// CUDA context, library workspaces, allocator rounding and fragmentation.
    Overhead,
}

impl Component {
    /// All of them, in the order of screens and reports.
    pub const ALL: [Self; 8] = [
        Self::Parameters,
        Self::Gradients,
        Self::OptimizerStates,
        Self::Activations,
        Self::Temporaries,
        Self::KvCache,
        Self::CommunicationBuffers,
        Self::Overhead,
    ];

    /// The key in the report.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::OptimizerStates => "optimizer_states",
            Self::Activations => "activations",
            Self::Temporaries => "temporaries",
            Self::KvCache => "kv_cache",
            Self::CommunicationBuffers => "communication_buffers",
            Self::Overhead => "overhead",
        }
    }
}

/// A named part of the device memory in use at the peak.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// What it is.
    pub name: Cow<'static, str>,
    /// What it is held for.
    pub component: Component,
    /// How much. The terms of a stage sum to its device-used bytes.
    pub bytes: Bytes,
    /// How it was computed, in words with the numbers.
    pub formula: Cow<'static, str>,
    /// Where the rule comes from.
    pub source: Cow<'static, str>,
    /// Whether PyTorch's allocator counts it as allocated (else: reserved or driver).
    pub layer: Layer,
}

/// Which of the three memory figures first counts a term: each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// In tensors: `torch.cuda.memory_allocated()`.
    Allocated,
    /// Held by the caching allocator: `torch.cuda.memory_reserved()`.
    Reserved,
    /// Held outside the allocator: CUDA context, NCCL; what the driver charges to the process.
    Device,
}

/// A part of the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The forward pass.
    Forward,
    /// The backward pass, with the loss's.
    Backward,
    /// The optimizer step.
    Optimizer,
}

impl Phase {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
        }
    }
}

/// A point on the curve of allocated bytes over one step.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelinePoint {
    /// The part of the step.
    pub phase: Phase,
    /// Where in it ("block 3", "loss").
    pub at: Cow<'static, str>,
    /// Allocated bytes there, at their highest.
    pub allocated: Bytes,
}

/// The memory of one pipeline stage's GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct StageMemory {
    /// 0 is the first stage.
    pub stage: u64,
    /// Layers that it holds.
    pub layers: u64,
    /// Named terms at the peak; they sum to `device_used`.
    pub terms: Vec<Term>,
    /// Allocated between steps.
    pub static_bytes: Bytes,
    /// The highest allocated bytes of the step.
    pub peak_allocated: Bytes,
    /// The highest reserved bytes.
    pub peak_reserved: Bytes,
    /// What the driver charges to the process.
    pub device_used: Bytes,
    /// Everything alive at the end of the forward pass beyond weights, gradients, states, inputs and buffers.
    pub activations_end_of_forward: Bytes,
    /// Where in the step the peak falls.
    pub peak_phase: Phase,
    /// What makes it, in words ("loss: 3 copies of the logits").
    pub peak_cause: Cow<'static, str>,
    /// Allocated bytes over the step.
    pub timeline: Vec<TimelinePoint>,
}

impl StageMemory {
    /// Bytes held for `component` at the peak.
    #[must_use]
    pub fn component(&self, component: Component) -> Bytes {
        self.terms.iter().filter(|term| term.component == component).map(|term| term.bytes).sum()
    }
}

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

/// How a plan stands against the card's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// At least 5 % headroom.
    Fits,
    /// Fits with under 5 % headroom.
    Tight,
    /// Device-used exceeds the capacity.
    DoesNotFit,
}

/// What the card has, against what the plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// What NVML reports as total for the card, or the plan's own limit.
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

/// Which roof an operator meets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// DRAM bandwidth.
    Memory,
    /// The compute peak of its type.
    Compute,
}

impl Bound {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
        }
    }
}

/// One kind of operator on the roofline, over a whole step of one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct RooflineOp {
    /// Name with its module ("mlp.up", "attention core").
    pub name: Cow<'static, str>,
    /// How often it runs in a step.
    pub count: u64,
    /// Operations of all runs together; of elementwise operators at least one an element.
    pub flops: Flops,
    /// DRAM traffic of all runs together.
    pub bytes: Bytes,
    /// Operations for each byte. None for an operator that moves no bytes.
    pub intensity: Option<Intensity>,
    /// Which roof binds it.
    pub bound: Bound,
    /// The peak of the unit that computes it.
    pub peak: FlopsPerSec,
    /// Time of all runs together.
    pub seconds: Seconds,
}

/// The roofs and the operators under them.
#[derive(Debug, Clone, PartialEq)]
pub struct Roofline {
    /// DRAM bandwidth of the card.
    pub bandwidth: BytesPerSec,
    /// Dense peak of the matrix type that the plan computes in.
    pub peak: FlopsPerSec,
    /// The name of that type ("bf16").
    pub peak_name: &'static str,
    /// Peak over bandwidth.
    pub ridge: Intensity,
    /// Peaks of each type that the card has units for, lowest first.
    pub roofs: Vec<(&'static str, FlopsPerSec)>,
    /// Bandwidth of the L2 cache, where the catalogue has it: the roof of what stays in it.
    pub l2: Option<BytesPerSec>,
    /// Operators, most time first.
    pub ops: Vec<RooflineOp>,
}

impl Roofline {
    /// The highest rate that is possible at `intensity`.
    #[must_use]
    pub fn roof_at(&self, intensity: Intensity) -> FlopsPerSec {
        FlopsPerSec((intensity.0 * self.bandwidth.0).min(self.peak.0))
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
}

/// Where the time of a step goes, and what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// One optimizer step.
    pub step: Seconds,
    /// In operators bound by the compute roof.
    pub compute: Seconds,
    /// In operators bound by DRAM bandwidth.
    pub memory_bound: Seconds,
    /// In collectives that nothing hides.
    pub communication: Seconds,
    /// Waiting for other pipeline stages.
    pub bubble: Seconds,
    /// The card waiting for the host to launch kernels.
    pub launch: Seconds,
    /// Of all GPUs; none for plans without tokens.
    pub tokens_per_s: Option<f64>,
    /// Of one GPU.
    pub tokens_per_s_per_gpu: Option<f64>,
    /// Of all GPUs.
    pub samples_per_s: f64,
    /// Model operations a second on one GPU, recomputation not counted.
    pub model_flops_per_gpu: FlopsPerSec,
    /// (6N + 12 L h s) x tokens/s per GPU over the dense peak. None where the formula does not apply.
    pub mfu: Option<f64>,
    /// The same with recomputation.
    pub hfu: Option<f64>,
    /// DRAM traffic over the step time.
    pub bandwidth: BytesPerSec,
    /// That over the card's peak.
    pub mbu: f64,
    /// Hours to train `run.total_tokens`. None where there is no such figure.
    pub total_hours: Option<f64>,
    /// What those cost. None without a price.
    pub total_cost: Option<f64>,
    /// What one card draws on average over the step. None where its board power is not known.
    pub power: Option<Watts>,
}

/// What most of a step is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bottleneck {
    /// Operators bound by the compute roof.
    Compute,
    /// Operators bound by DRAM bandwidth.
    Hbm,
    /// Collectives that nothing hides.
    Link,
    /// Waiting for other pipeline stages.
    Bubble,
    /// The card waiting for the host to launch kernels.
    Launch,
}

impl Bottleneck {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Hbm => "hbm",
            Self::Link => "link",
            Self::Bubble => "bubble",
            Self::Launch => "launch",
        }
    }
}

impl StepTime {
    /// The part of the step that takes most.
    #[must_use]
    pub fn bottleneck(&self) -> Bottleneck {
        let parts = [
            (Bottleneck::Compute, self.compute),
            (Bottleneck::Hbm, self.memory_bound),
            (Bottleneck::Link, self.communication),
            (Bottleneck::Bubble, self.bubble),
            (Bottleneck::Launch, self.launch),
        ];
        parts.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(Bottleneck::Compute, |(part, _)| part)
    }

    /// Share of the step that a card spends on its own work: how many times as fast as one card that did all cards'
    /// work at the same rate, over the number of cards. What is missing is lost to collectives and bubbles.
    #[must_use]
    pub fn scaling_efficiency(&self) -> f64 {
        let lost = self.communication.0 + self.bubble.0;
        if self.step.0 > 0.0 { 1.0 - lost / self.step.0 } else { 1.0 }
    }

    /// Tokens of the whole training. None where there is no such figure.
    #[must_use]
    pub fn total_tokens(&self) -> Option<f64> {
        self.total_hours.zip(self.tokens_per_s).map(|(hours, rate)| hours * 3600.0 * rate)
    }
}

/// One prediction of one plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The architecture by name ("llama-2-13b", "gpt2 12 x 768").
    pub model: String,
    /// The card, as the catalogue names it.
    pub gpu: String,
    /// The card's short name, for a header.
    pub gpu_short: String,
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
    /// Against the card.
    pub capacity: Capacity,
    /// Operations of that stage's GPU.
    pub flops: StepFlops,
    /// DRAM traffic of that stage's GPU.
    pub traffic: Traffic,
    /// Time: of an optimizer step, or of reading the prompts of all requests.
    pub time: StepTime,
    /// Time of one more token for each request (inference with a cache).
    pub decode: Option<StepTime>,
    /// Operators under their roofs.
    pub roofline: Roofline,
    /// Every value that was stood in for a missing key, and every key that has no effect on the figures.
    pub assumptions: Vec<String>,
}

impl Prediction {
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

    /// Energy that the cards draw for the whole training; the rest of the machines comes on top.
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
