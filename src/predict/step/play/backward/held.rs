//! What is held while a tape runs backward, beside what its operators hold.

use super::BackwardPass;
use crate::model::{Flow, Group, Home, Tensor, TensorId};
use crate::predict::step::play::log::BlockKey;

impl BackwardPass<'_> {
    /// What comes out is made again, and held while its backward pass runs (torch/utils/checkpoint.py,
    /// `CheckpointFunction.backward`).
    pub(super) fn enter_frame(&mut self) {
        let tape = self.tape;
        for id in tape.output.iter().chain(&tape.also) {
            let root = tape.storage(*id);
            let is_own = tape.get(root).home == Home::Local && self.uses.saves[root.0 as usize] == 0;
            if is_own && !self.framed.contains(&root) {
                let tensor = tape.get(root);
                self.alive.take(tensor.group, tensor.allocated(), BlockKey::tensor(root.0 as usize));
                self.framed.push(root);
            }
        }
    }

    /// The backward pass of its own is over: its outputs and their gradients go.
    pub(super) fn leave_frame(&mut self) {
        let tape = self.tape;
        for root in std::mem::take(&mut self.framed) {
            self.alive.give(tape.get(root).group, tape.get(root).allocated(), BlockKey::tensor(root.0 as usize));
        }
        // Theirs were the first gradients.
        let graded = tape.output.iter().chain(&tape.also).filter(|id| tape.get(**id).grad).count();
        for slot in (0..graded).filter_map(|slot| u32::try_from(slot).ok()) {
            self.drop_holder(slot);
        }
    }

    /// Gradients that wait here for tensors of other tapes, and what goes with the graph, are counted with the other layers.
    pub(super) fn pass_on(&mut self) {
        for id in std::mem::take(&mut self.held_for_others) {
            let bytes = self.tape.get(id).allocated();
            self.alive.give(Group::ActivationGradient, bytes, BlockKey::passed_on(self.tape, id));
        }
        for root in std::mem::take(&mut self.lasting) {
            let tensor = self.tape.get(root);
            self.alive.give(tensor.group, tensor.allocated(), BlockKey::tensor(root.0 as usize));
        }
    }

    /// Bytes of sums, and of gradients in an operand's own type, that the engine makes when a recomputed operator has returned, and with
    /// that let go of what it saved: its hooks keep nothing of that (torch/utils/checkpoint.py, `_checkpoint_hook`, `unpack_hook`).
    pub(super) fn summed_later(&self, at: usize) -> u64 {
        let (tape, op) = (self.tape, &self.tape.ops[at]);
        let Some(whole) = tape.ids(op.outputs).first().map(|id| tape.get(*id)) else { return 0 };
        let differs = |one: &&Tensor| one.numel < whole.numel || one.element != whole.element;
        if !(op.broadcasts && tape.stops_early && self.uses.again[at]) {
            return 0;
        }
        let new = tape
            .ids(op.inputs)
            .iter()
            .zip(tape.flows(op.inputs))
            .filter(|(_, flow)| matches!(flow, Flow::New | Flow::View));
        let sums: u64 = new.map(|(id, _)| tape.get(*id)).filter(differs).map(Tensor::allocated).sum();
        let goes = |id: &&TensorId| self.uses.saves[tape.storage(**id).0 as usize] == 1;
        let saved: u64 = tape.ids(op.saved).iter().filter(goes).map(|id| tape.get(tape.storage(*id)).allocated()).sum();
        sums.min(saved)
    }
}
