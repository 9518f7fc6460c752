//! The roofline in a prediction: the GPU's roofs, and the operators under them.

use std::borrow::Cow;

use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Intensity, Seconds};

/// What binds an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// DRAM bandwidth: its intensity is below the ridge of its type.
    Memory,
    /// The compute peak of its type: its intensity is above the ridge.
    Compute,
    /// Neither roof: its kernels are too small, or of too bad a shape, to reach half of what long ones of their kind do.
    SmallKernel,
}

impl Bound {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
            Self::SmallKernel => "small",
        }
    }

    /// The same in a sentence.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Memory => "memory-bound",
            Self::Compute => "compute-bound",
            Self::SmallKernel => "small kernel",
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
    /// Operations that all runs together execute: causal attention does half of what FlopCounterMode counts, elementwise
    /// operators at least one an element.
    pub flops: Flops,
    /// DRAM traffic of all runs together.
    pub bytes: Bytes,
    /// Operations for each byte. None for an operator that moves no bytes.
    pub intensity: Option<Intensity>,
    /// What binds it.
    pub bound: Bound,
    /// The peak of the unit that computes it.
    pub peak: FlopsPerSec,
    /// Time of all runs together.
    pub seconds: Seconds,
}

/// The roofs and the operators under them.
#[derive(Debug, Clone, PartialEq)]
pub struct Roofline {
    /// DRAM bandwidth of the GPU.
    pub bandwidth: BytesPerSec,
    /// Dense peak of the matrix type that the plan computes in.
    pub peak: FlopsPerSec,
    /// The name of that type ("bf16").
    pub peak_name: &'static str,
    /// Peak over bandwidth.
    pub ridge: Intensity,
    /// Peaks of each type that the GPU has units for, lowest first.
    pub roofs: Vec<(&'static str, FlopsPerSec)>,
    /// Bandwidth of the L2 cache, where the catalogue has it: the roof of what stays in it.
    pub l2: Option<BytesPerSec>,
    /// Operators, most time first.
    pub ops: Vec<RooflineOp>,
}

impl Roofline {
    /// Share of what the roof over an operator allows that it reaches, 0 to 1.
    #[must_use]
    pub fn reached(&self, op: &RooflineOp) -> f64 {
        let least = (op.flops.0 / op.peak.0).max(op.bytes.as_f64() / self.bandwidth.0);
        if op.seconds.0 > 0.0 { least / op.seconds.0 } else { 0.0 }
    }

    /// The highest rate that is possible at `intensity`.
    #[must_use]
    pub fn roof_at(&self, intensity: Intensity) -> FlopsPerSec {
        FlopsPerSec((intensity.0 * self.bandwidth.0).min(self.peak.0))
    }
}
