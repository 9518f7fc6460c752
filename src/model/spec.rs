//! Operators as they are added to a tape.

use super::tape::{Flow, TensorId, Unit};
use super::work::Work;

/// What an operator is, for [`Tape::push`](super::tape::Tape::push).
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// On what.
    pub work: Work,
    /// Inputs with the flow of their gradients.
    pub inputs: &'a [(TensorId, Flow)],
    /// Outputs.
    pub outputs: &'a [TensorId],
    /// Saved tensors.
    pub saved: &'a [TensorId],
    /// Scratch forward, bytes.
    pub scratch_forward: u64,
    /// Scratch backward, bytes.
    pub scratch_backward: u64,
    /// Operations forward and backward.
    pub flops: (f64, f64),
    /// Computes on each element.
    pub elementwise: bool,
    /// What it makes stays where its block is recomputed.
    pub stays: bool,
    /// Where an operand is smaller than what comes out, the engine sums its gradient.
    pub broadcasts: bool,
    /// Number of kernels.
    pub launches: u64,
}

impl Default for Spec<'_> {
    fn default() -> Self {
        Self {
            name: "",
            unit: Unit::Vector,
            work: Work::Elements,
            inputs: &[],
            outputs: &[],
            saved: &[],
            scratch_forward: 0,
            scratch_backward: 0,
            flops: (0.0, 0.0),
            elementwise: false,
            stays: false,
            broadcasts: false,
            launches: 1,
        }
    }
}
