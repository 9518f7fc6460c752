//! What one layer holds while its backward pass runs, tensor by tensor.

use super::job::Job;
use super::step::StepTapes;
use crate::model::{Flow, Group, Home, ModelShape, Tape, TensorId};
use crate::plan::keywords::Mode;
use crate::units::Bytes;

/// A tensor that is there while the backward pass of a layer runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackwardTensor {
    /// What it is.
    pub what: &'static str,
    /// Its elements.
    pub elements: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// The tensors that the backward pass of a plan's only layer holds at one time. None for a model of several layers and
/// for a plan that is not trained.
#[must_use]
pub fn backward_tensors(job: &Job) -> Option<Vec<BackwardTensor>> {
    let ModelShape::Layers(list) = &job.architecture.shape else { return None };
    if list.layers.len() != 1 || job.training.mode != Mode::Train {
        return None;
    }
    let step = StepTapes::of(job);
    step.walk.kinds.first().map(|(_, tape)| of_tape(tape))
}

fn of_tape(tape: &Tape) -> Vec<BackwardTensor> {
    let mut tensors = Vec::new();
    let mut add = |what, id: TensorId| {
        let tensor = tape.get(id);
        tensors.push(BackwardTensor { what, elements: tensor.numel, bytes: Bytes(tensor.bytes()) });
    };
    // The matmul, where the layer has one: casts run before it forward and behind it backward.
    let main = tape.ops.iter().rev().find(|op| op.unit.multiplies()).or(tape.ops.last());
    let Some(op) = main else { return tensors };
    for (id, tensor) in (0..).map(TensorId).zip(&tape.tensors) {
        if let Home::Weight(at) = tensor.home {
            let is_matrix = tape.weights.get(at as usize).is_some_and(|weight| weight.numel > weight.rows);
            add(if is_matrix { "weight" } else { "bias or scale" }, id);
        }
    }
    let is_weight = |id: TensorId| matches!(tape.get(id).home, Home::Weight(_));
    for id in tape.ids(op.saved).iter().copied().filter(|id| !is_weight(*id)) {
        add(if is_copy_of_weight(tape, id) { "weight, cast" } else { "input, saved by the forward pass" }, id);
    }
    if let Some(out) = tape.ids(op.outputs).first().copied().filter(|id| tape.get(*id).grad) {
        add("gradient of the output", out);
    }
    for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
        if *flow != Flow::Stop {
            add(gradient_of(tape, *id), *id);
        }
    }
    tensors
}

/// What the gradient of that input of the operator is.
fn gradient_of(tape: &Tape, id: TensorId) -> &'static str {
    let tensor = tape.get(id);
    if is_copy_of_weight(tape, id) {
        return "gradient of the cast weight";
    }
    match tensor.home {
        Home::Weight(at) if tape.weights.get(at as usize).is_some_and(|weight| weight.numel > weight.rows) => {
            "gradient of the weight"
        }
        Home::Weight(_) => "gradient of the bias or scale",
        _ => "gradient of the input",
    }
}

/// Whether a cast of a weight made it.
fn is_copy_of_weight(tape: &Tape, id: TensorId) -> bool {
    tape.get(id).group == Group::WeightCopy && tape.get(id).home == Home::Local
}
