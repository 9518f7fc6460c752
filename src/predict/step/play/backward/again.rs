//! What is made again in a backward pass, and checkpoints in a tape that is recomputed: they run again when their own backward pass
//! begins.

use super::BackwardPass;
use crate::model::{Group, Home, InnerCheckpoint, TensorId};
use crate::predict::step::play::log::BlockKey;
use crate::predict::step::play::recompute::inner;

impl BackwardPass<'_> {
    /// Before the operator that asks first for what an inner checkpoint saved: that runs again.
    pub(super) fn restore_inner(&mut self, at: usize) {
        let tape = self.tape;
        let asks = |one: &&_| self.uses.again[at] && inner::asking(tape, one) == Some(at);
        let Some(one) = tape.inner.iter().find(asks) else { return };
        let mut fleeting = vec![false; tape.tensors.len()];
        for (index, op) in tape.ops.iter().enumerate().take(inner::stop(tape, one)).skip(one.from) {
            for id in tape.ids(op.outputs) {
                let (tensor, slot) = (tape.get(*id), id.0 as usize);
                if tensor.view_of.is_some()
                    || tensor.home != Home::Local
                    || (self.uses.saves[slot] > 0 && !self.inside[slot])
                {
                    continue;
                }
                fleeting[slot] = self.uses.saves[slot] == 0;
                self.uses.dropped[slot] = false;
                self.alive.take(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
            }
            self.alive.mark("recomputation", Group::ActivationGradient, op.scratch_forward);
            for id in tape.ids(op.inputs).iter().chain(tape.ids(op.outputs)) {
                let slot = tape.storage(*id).0 as usize;
                if fleeting[slot] && self.uses.last[slot] as usize <= index {
                    self.give_again(slot, &mut fleeting);
                }
            }
        }
        for slot in 0..fleeting.len() {
            if fleeting[slot] {
                self.give_again(slot, &mut fleeting);
            }
        }
        if !one.reruns_all {
            // The hooks of the recomputation around it hand its inputs over once (torch/utils/checkpoint.py, `_checkpoint_hook`,
            // `unpack_hook`).
            inner::inputs(tape, one).into_iter().for_each(|root| self.release(root));
        }
    }

    fn give_again(&mut self, slot: usize, fleeting: &mut [bool]) {
        fleeting[slot] = false;
        let tensor = &self.tape.tensors[slot];
        self.alive.give(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
    }

    /// Behind the first operator of an inner checkpoint that has a backward pass of its own, which goes with what came into it, as of
    /// one that saves nothing.
    pub(super) fn leave_inner(&mut self, at: usize) {
        let tape = self.tape;
        let held = |one: &&InnerCheckpoint| one.from == at && (one.reruns_all || inner::asking(tape, one).is_none());
        if let Some(one) = tape.inner.iter().find(held).filter(|_| self.uses.again[at]) {
            inner::inputs(tape, one).into_iter().for_each(|root| self.release(root));
        }
    }

    /// A tensor of an operator that runs again: what was thrown away is there once more, what nobody saves as long as
    /// it is read.
    pub(super) fn again(&mut self, id: TensorId, fleeting: &mut [bool]) {
        let (tensor, slot) = (*self.tape.get(id), id.0 as usize);
        if tensor.view_of.is_some() || tensor.home != Home::Local {
            return;
        }
        if self.uses.saves[slot] == 0 && self.uses.forced[slot] {
            // Handed over instead of computed, and not needed beyond that.
            self.alive.give(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
        } else if self.uses.saves[slot] == 0 {
            fleeting[slot] = true;
            self.alive.take(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
        } else if self.uses.dropped[slot] {
            // What checkpoints inside save they throw away once more.
            fleeting[slot] = self.inside[slot];
            self.uses.dropped[slot] = self.inside[slot];
            self.alive.take(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
        }
    }
}
