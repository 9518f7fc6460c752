//! The roofline in a prediction: the GPU's roofs, and the operators under them.

use std::borrow::Cow;

use crate::units::{Bytes, BytesPerSec, Flops, FlopsPerSec, Intensity, Seconds};

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
    /// The highest rate that is possible at `intensity`.
    #[must_use]
    pub fn roof_at(&self, intensity: Intensity) -> FlopsPerSec {
        FlopsPerSec((intensity.0 * self.bandwidth.0).min(self.peak.0))
    }
}
