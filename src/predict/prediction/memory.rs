//! Memory in a prediction: each stage's peak as a list of named terms, and its curve over the step.

use std::borrow::Cow;

use super::words::{Place, Words};
use crate::units::Bytes;

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
    pub formula: Words,
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
    /// Where in it.
    pub at: Place,
    /// Allocated bytes there, at their highest.
    pub allocated: Bytes,
    /// What they are held for, in the order of [`Component::ALL`]; they sum to `allocated`.
    pub parts: [Bytes; Component::ALL.len()],
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
