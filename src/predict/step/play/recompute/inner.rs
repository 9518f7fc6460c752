//! Checkpoints in what is checkpointed: the outer recomputation keeps what comes into the inner ones and what is saved between them;
//! each inner one runs again when its backward pass asks for what it saved (torch/utils/checkpoint.py, `_checkpoint_hook` and the
//! note on nested checkpoints there).

use std::collections::BTreeSet;

use super::{asks, stop_behind};
use crate::model::{Home, InnerCheckpoint, Tape, TensorId};

/// Tensors that come into the inner checkpoint whose first operator stands at `at`: a node of its own saves them.
pub(in crate::predict::step::play) fn inputs_at(tape: &Tape, at: usize) -> impl Iterator<Item = TensorId> {
    let one = tape.inner.iter().find(|one| one.from == at);
    one.map(|one| inputs(tape, one)).into_iter().flatten()
}

/// Tensors that come into an inner checkpoint.
pub(in crate::predict::step::play) fn inputs(tape: &Tape, one: &InnerCheckpoint) -> BTreeSet<TensorId> {
    let ops = &tape.ops[one.from..one.to];
    let made: BTreeSet<TensorId> = ops.iter().flat_map(|op| tape.ids(op.outputs)).map(|id| tape.storage(*id)).collect();
    let read = ops.iter().flat_map(|op| tape.ids(op.inputs)).map(|id| tape.storage(*id));
    read.filter(|root| !made.contains(root) && matches!(tape.get(*root).home, Home::Local | Home::Input)).collect()
}

/// By tensor: whether inner checkpoints alone save it, so that the outer recomputation does not keep it.
pub(in crate::predict::step::play) fn saved_inside(tape: &Tape) -> Vec<bool> {
    let mut inside = vec![false; tape.tensors.len()];
    for op in tape.inner.iter().flat_map(|one| &tape.ops[one.from..one.to]) {
        tape.ids(op.saved).iter().for_each(|id| inside[tape.storage(*id).0 as usize] = true);
    }
    for (at, op) in tape.ops.iter().enumerate() {
        let outside = !tape.inner.iter().any(|one| (one.from..one.to).contains(&at));
        let kept = tape.ids(op.saved).iter().filter(|_| outside).map(|id| tape.storage(*id));
        kept.chain(inputs_at(tape, at)).for_each(|root| inside[root.0 as usize] = false);
    }
    inside
}

/// The first operator that the outer recomputation does not reach: the last thing that it keeps is there.
pub(super) fn early_stop(tape: &Tape) -> usize {
    let outside = |at: &usize| !tape.inner.iter().any(|one| (one.from..one.to).contains(at));
    let saves = |at: &usize| asks(tape, &tape.ops[*at]);
    let between = (0..tape.ops.len()).rev().filter(outside).find(saves).map(|at| stop_behind(tape, at));
    between.into_iter().chain(tape.inner.iter().map(|one| one.from)).max().unwrap_or(0)
}

/// The operator of an inner checkpoint whose backward function asks first for what was saved.
pub(in crate::predict::step::play) fn asking(tape: &Tape, one: &InnerCheckpoint) -> Option<usize> {
    (one.from..one.to).rev().find(|at| asks(tape, &tape.ops[*at]))
}

/// One past the last operator of an inner checkpoint that runs again.
pub(in crate::predict::step::play) fn stop(tape: &Tape, one: &InnerCheckpoint) -> usize {
    if one.reruns_all { one.to } else { asking(tape, one).map_or(one.from, |at| stop_behind(tape, at)) }
}

/// Whether the operator at `at` runs in the recomputation of an inner checkpoint.
pub(super) fn runs_again(tape: &Tape, at: usize) -> bool {
    tape.inner.iter().any(|one| (one.from..stop(tape, one)).contains(&at))
}
