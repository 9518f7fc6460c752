//! Weights that several operators of a tape use.

use crate::model::{Flow, Home, Tape, TensorId, TiedGrad};

/// A weight whose gradient is the sum of several operators' parts: the engine hands it on when all are there
/// (torch/csrc/autograd/engine.cpp, `GraphTask::dependencies_`).
pub(super) struct SharedWeight {
    /// The weight.
    pub weight: TensorId,
    /// The first operator that uses it, whose part comes last.
    pub first: usize,
    /// The last but one, whose part is the first to be added to another.
    pub second: usize,
    /// The part that comes first is a view of what was made.
    pub view: bool,
    /// No other tape has a part in it.
    pub goes: bool,
}

/// Those of a tape.
pub(super) fn shared_weights(tape: &Tape) -> Vec<SharedWeight> {
    let mut shared: Vec<SharedWeight> = Vec::new();
    for (at, op) in tape.ops.iter().enumerate().filter(|_| tape.traced) {
        for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
            let (tensor, root) = (tape.get(*id), tape.storage(*id));
            let Home::Weight(weight) = tape.get(root).home else { continue };
            if *flow == Flow::Stop || !tensor.grad || !tape.get(root).grad {
                continue;
            }
            let known = shared.iter_mut().find(|one| one.weight == root);
            match (tensor.home, known) {
                (Home::Elsewhere, Some(one)) => one.second = at,
                (Home::Elsewhere, None) => {
                    let goes = tape.weights[weight as usize].meets == TiedGrad::Nothing;
                    shared.push(SharedWeight { weight: root, first: at, second: at, view: false, goes });
                }
                (_, Some(one)) => one.view = *flow == Flow::View,
                (_, None) => {}
            }
        }
    }
    shared
}
