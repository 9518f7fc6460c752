//! The backward pass: gradients made and added, saved tensors freed.

mod again;
mod held;

use super::log::{BlockKey, Log};
use super::recompute::{Uses, early_stop, first_asking, inner};
use super::shared::{SharedWeight, shared_weights};
use super::{Groups, LiveBytes, PassPeak, WeightGradients};
use crate::model::{Flow, Group, Home, Op, Part, Tape, TensorId, TiedGrad};

/// A gradient in memory, and how many tensors' gradients it is.
struct Gradient {
    bytes: u64,
    holders: u32,
    /// A view of the tensor that was made: both hold its memory.
    view: bool,
}

/// A backward pass under way.
struct BackwardPass<'a> {
    tape: &'a Tape,
    uses: Uses,
    alive: LiveBytes,
    slots: Vec<Option<u32>>,
    gradients: Vec<Gradient>,
    /// What the operator that runs has made.
    made: Vec<(TensorId, u32)>,
    policy: WeightGradients,
    /// Weights that several operators use.
    shared: Vec<SharedWeight>,
    stay: u64,
    waiting: u64,
    /// The operator whose saved tensors are asked for first, where that is what begins the recomputation of all.
    asks: Option<usize>,
    /// The output is saved by one of the tape's own operators.
    holds_output: bool,
    /// Outputs that the frame of a backward pass of its own holds, made again.
    framed: Vec<TensorId>,
    /// Tensors of other tapes whose gradients wait here.
    held_for_others: Vec<TensorId>,
    /// What nothing saves any more and goes with the graph.
    lasting: Vec<TensorId>,
    /// What checkpoints in a recomputed tape alone save, by tensor.
    inside: Vec<bool>,
}

/// What a tape's backward pass comes to.
pub(in crate::predict) struct BackwardResult {
    /// The most bytes.
    pub peak: PassPeak,
    /// Bytes of weight gradients that stay.
    pub stay: u64,
    /// Bytes of parts of weight gradients that wait for other tapes' parts.
    pub waiting: u64,
    /// What is there when it is over.
    pub over: Groups,
    /// What was taken and given, where it is asked for.
    pub log: Log,
    /// The gradient of what came in.
    pub input_gradient: Option<BlockKey>,
}

/// Plays a tape backward from what is retained; with a log of what is taken and given, where `logs` says so.
pub(in crate::predict) fn backward(
    tape: &Tape,
    uses: Uses,
    retained: Groups,
    policy: WeightGradients,
    logs: bool,
) -> BackwardResult {
    let mut run = BackwardPass {
        tape,
        uses,
        alive: LiveBytes { log: Log::wanted(logs, tape.tensors.len()), ..LiveBytes::of(retained) },
        slots: vec![None; tape.tensors.len()],
        gradients: Vec::with_capacity(tape.ops.len()),
        made: Vec::with_capacity(4),
        policy,
        shared: shared_weights(tape),
        stay: 0,
        waiting: 0,
        asks: None,
        holds_output: false,
        framed: Vec::new(),
        held_for_others: Vec::new(),
        lasting: Vec::new(),
        inside: inner::saved_inside(tape),
    };
    let framed = tape.reruns_all && run.uses.again.contains(&true);
    if tape.stops_early && run.uses.again.iter().all(|again| *again) {
        run.asks = first_asking(tape);
    }
    if let Some(root) = tape.output.map(|id| tape.storage(id)) {
        run.holds_output = tape.get(root).home == Home::Local && run.uses.saves[root.0 as usize] > 0;
    }
    for id in tape.output.iter().chain(&tape.also).copied().filter(|id| tape.get(*id).grad) {
        let bytes = tape.get(id).allocated();
        run.alive.take(Group::ActivationGradient, bytes, run.gradient(run.gradients.len()));
        run.slots[id.0 as usize] = u32::try_from(run.gradients.len()).ok();
        let shared = framed || (tape.shares_gradient && tape.output == Some(id));
        run.gradients.push(Gradient { bytes, holders: 1 + u32::from(shared), view: false });
    }
    run.alive.mark("output gradient", Group::ActivationGradient, 0);
    for at in (0..tape.ops.len()).rev() {
        run.restore(at);
        run.restore_inner(at);
        run.step(at);
        run.leave_inner(at);
        if let Some((_, root)) = run.uses.came_in.filter(|(until, _)| *until == at) {
            run.release(root);
        }
    }
    if framed {
        run.leave_frame();
    }
    run.pass_on();
    let came_in = tape.input().map(|id| id.0 as usize);
    let input_gradient = came_in.and_then(|at| run.slots[at]).map(|slot| run.gradient(slot as usize));
    let BackwardPass { alive, stay, waiting, .. } = run;
    BackwardResult { peak: alive.peak, stay, waiting, over: alive.groups, log: alive.log, input_gradient }
}

impl BackwardPass<'_> {
    fn gradient(&self, slot: usize) -> BlockKey {
        BlockKey::gradient(self.tape, slot)
    }

    /// Before the last operator of a recomputed run, or the first that asks for what it saved: the run's forward pass again.
    fn restore(&mut self, at: usize) {
        let ends = self.uses.again[at] && self.uses.again.get(at + 1).is_none_or(|next| !next);
        if self.asks.map_or(!ends, |asks| asks != at) {
            return;
        }
        let from = (0..at).rev().find(|op| !self.uses.again[*op]).map_or(0, |op| op + 1);
        let tape = self.tape;
        let mut fleeting = vec![false; tape.tensors.len()];
        let end = if tape.stops_early { early_stop(tape).min(at + 1) } else { at + 1 };
        for (index, op) in tape.ops.iter().enumerate().take(end).skip(from) {
            for id in tape.ids(op.outputs) {
                self.again(*id, &mut fleeting);
            }
            self.alive.mark("recomputation", Group::ActivationGradient, op.scratch_forward);
            for id in tape.ids(op.inputs).iter().chain(tape.ids(op.outputs)) {
                let root = tape.storage(*id);
                let slot = root.0 as usize;
                if fleeting[slot] && (self.uses.last[slot] as usize <= index || index == at) {
                    fleeting[slot] = false;
                    self.alive.give(tape.get(root).group, tape.get(root).allocated(), BlockKey::tensor(slot));
                }
            }
        }
        for (slot, tensor) in tape.tensors.iter().enumerate().filter(|(slot, _)| fleeting[*slot]) {
            self.alive.give(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
        }
        if tape.reruns_all {
            self.enter_frame();
        }
    }

    /// What `op` saved and was thrown away is there again before its backward matmuls run.
    fn remake(&mut self, at: usize) {
        let tape = self.tape;
        if self.uses.again[at] {
            return;
        }
        for id in tape.ids(tape.ops[at].saved) {
            let root = tape.storage(*id);
            if self.uses.dropped[root.0 as usize] {
                self.uses.dropped[root.0 as usize] = false;
                let key = BlockKey::tensor(root.0 as usize);
                self.alive.take(tape.get(root).group, tape.get(root).allocated(), key);
            }
        }
    }

    fn step(&mut self, at: usize) {
        let tape = self.tape;
        let op = &tape.ops[at];
        self.remake(at);
        let incoming = tape.ids(op.outputs).iter().find_map(|id| self.slots[id.0 as usize]);
        if let Some(first) = incoming {
            let view = gives_views(tape, op);
            for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
                match flow {
                    Flow::Stop => {}
                    // It is added to the gradient that waits there.
                    Flow::Pass if tape.get(*id).home == Home::Elsewhere => {}
                    Flow::Pass => {
                        // A kernel-less operator is a view, and so is what it gives back; a sum gives its gradient back expanded
                        // (torch/csrc/autograd/FunctionsManual.cpp, `sum_backward`).
                        let expands = self.gradients[first as usize].bytes < tape.get(*id).allocated();
                        self.gradients[first as usize].view |= tape.traced && (op.launches == 0 || expands);
                        self.gradients[first as usize].holders += 1;
                        self.made.push((*id, first));
                    }
                    Flow::New => self.make(*id, view),
                    Flow::View => self.make(*id, true),
                    Flow::InPlace => {
                        self.release(*id);
                        self.make(*id, view);
                    }
                }
            }
            let scratch = op.scratch_backward.saturating_sub(self.summed_later(at));
            self.alive.mark(op.name, Group::ActivationGradient, scratch);
            self.meet(op);
        }
        let overwritten = |id: &TensorId| {
            let flows = tape.ids(op.inputs).iter().zip(tape.flows(op.inputs));
            incoming.is_some() && flows.into_iter().any(|(input, flow)| input == id && *flow == Flow::InPlace)
        };
        for id in tape.ids(op.saved).iter().filter(|id| !overwritten(id)) {
            self.release(*id);
        }
        for id in tape.ids(op.outputs) {
            if let Some(slot) = self.slots[id.0 as usize].take() {
                self.drop_holder(slot);
            }
        }
        // The engine hands on what an operator made when that has let go of what it read and saved
        // (torch/csrc/autograd/engine.cpp, `evaluate_function`).
        if incoming.is_some() {
            self.arrived();
            self.settle(at);
        }
    }

    /// A new gradient for `id`.
    fn make(&mut self, id: TensorId, view: bool) {
        let tensor = *self.tape.get(id);
        if let Home::Weight(_) = tensor.home {
            if self.policy != WeightGradients::InPlace {
                self.alive.take(Group::WeightGradient, tensor.allocated(), BlockKey::passed_on(self.tape, id));
            }
            return;
        }
        let bytes = tensor.allocated();
        if tensor.home == Home::Elsewhere {
            if self.held_for_others.contains(&id) {
                // Added to the one that waits.
                self.alive.mark("accumulation", Group::ActivationGradient, bytes);
                return;
            }
            self.alive.take(Group::ActivationGradient, bytes, BlockKey::passed_on(self.tape, id));
            if self.tape.waiting.contains(&id) {
                self.held_for_others.push(id);
            }
            return;
        }
        self.alive.take(Group::ActivationGradient, bytes, self.gradient(self.gradients.len()));
        self.gradients.push(Gradient { bytes, holders: 1, view });
        self.made.push((id, u32::try_from(self.gradients.len() - 1).unwrap_or(u32::MAX)));
    }

    /// What an operator made comes to the tensors that it is for.
    fn arrived(&mut self) {
        let mut made = std::mem::take(&mut self.made);
        for (id, slot) in made.drain(..) {
            self.arrive(id, slot);
        }
        self.made = made;
    }

    /// A gradient for a tensor that may have one already.
    fn arrive(&mut self, id: TensorId, slot: u32) {
        let at = id.0 as usize;
        let Some(first) = self.slots[at] else {
            self.slots[at] = Some(slot);
            return;
        };
        if self.gradients[first as usize].holders == 1 && !self.gradients[first as usize].view {
            // Added in place: the newcomer is freed after the addition.
            self.alive.mark("accumulation", Group::ActivationGradient, 0);
            self.drop_holder(slot);
            return;
        }
        // The sum has the tensor's own size: what came may be a view of more, as each part of a `cat` gets, or of less.
        let bytes = self.tape.get(id).allocated();
        self.alive.take(Group::ActivationGradient, bytes, self.gradient(self.gradients.len()));
        self.alive.mark("accumulation", Group::ActivationGradient, 0);
        self.gradients.push(Gradient { bytes, holders: 1, view: false });
        self.slots[at] = Some(u32::try_from(self.gradients.len() - 1).unwrap_or(u32::MAX));
        self.drop_holder(first);
        self.drop_holder(slot);
    }

    /// The sum of a weight's gradient and of a part that waits for it, which takes memory of its own where that is a
    /// view.
    fn meet(&mut self, op: &Op) {
        if self.policy == WeightGradients::InPlace {
            return;
        }
        for id in self.tape.ids(op.inputs) {
            let tensor = self.tape.get(*id);
            let Home::Weight(at) = tensor.home else { continue };
            if self.tape.weights[at as usize].meets == (TiedGrad::Waiting { view: true }) {
                self.alive.mark("gradient of the shared matrix", Group::WeightGradient, tensor.allocated());
            }
        }
    }

    /// What becomes of the weight gradients that the operator at `at` made.
    fn settle(&mut self, at: usize) {
        let op = &self.tape.ops[at];
        self.add_parts(at);
        for (id, flow) in self.tape.ids(op.inputs).iter().zip(self.tape.flows(op.inputs)) {
            let tensor = self.tape.get(*id);
            let new = matches!(flow, Flow::New | Flow::View);
            if new && tensor.home == Home::Elsewhere && !self.held_for_others.contains(id) {
                self.alive.give(Group::ActivationGradient, tensor.allocated(), BlockKey::passed_on(self.tape, *id));
            }
            if !new {
                continue;
            }
            let Home::Weight(weight) = tensor.home else { continue };
            match (self.policy, self.tape.weights[weight as usize].meets) {
                (WeightGradients::InPlace, _) => {}
                (WeightGradients::Added, TiedGrad::Nothing) if self.shared.iter().any(|one| one.weight == *id) => {}
                (WeightGradients::Made | WeightGradients::UntilReduced, TiedGrad::Nothing | TiedGrad::Later) => {
                    self.stay += tensor.allocated();
                }
                (WeightGradients::Added | WeightGradients::Used(_), TiedGrad::Later) => {
                    self.waiting += tensor.allocated()
                }
                (policy, _) => {
                    if let WeightGradients::Used(each) = policy {
                        self.alive.mark("optimizer step", Group::WeightGradient, tensor.numel.saturating_mul(each));
                    }
                    self.alive.give(Group::WeightGradient, tensor.allocated(), BlockKey::passed_on(self.tape, *id));
                }
            }
        }
    }

    /// A part of a weight's gradient comes to those that are there. The first is added out of place where the gradient is a
    /// view; with the last, the sum is added to the gradient of earlier micro-batches, and goes.
    fn add_parts(&mut self, at: usize) {
        for one in self.shared.iter().filter(|_| self.policy != WeightGradients::InPlace) {
            let bytes = self.tape.get(one.weight).allocated();
            if one.second == at && one.view {
                self.alive.mark("accumulation", Group::WeightGradient, bytes);
            }
            if one.first == at && one.goes && self.policy == WeightGradients::Added {
                self.alive.give(Group::WeightGradient, bytes, BlockKey::passed_on(self.tape, one.weight));
            }
        }
    }

    /// One operator fewer saves `id`.
    fn release(&mut self, id: TensorId) {
        let root = self.tape.storage(id);
        let leaves = self.tape.output.is_some_and(|output| self.tape.storage(output) == root);
        if leaves && !self.holds_output {
            // What leaves is held by whoever runs next, unless this tape saves it as well.
            return;
        }
        let saves = &mut self.uses.saves[root.0 as usize];
        *saves = saves.saturating_sub(1);
        let tensor = self.tape.get(root);
        let held = tensor.home == Home::Local || (tensor.home == Home::Input && !self.tape.borrows);
        let goes = *saves == 0 && held && !self.uses.dropped[root.0 as usize];
        if goes && self.tape.lasting.contains(&root) {
            self.lasting.push(root);
        } else if goes {
            self.alive.give(tensor.group, tensor.allocated(), BlockKey::tensor(root.0 as usize));
        }
    }

    fn drop_holder(&mut self, slot: u32) {
        let gradient = &mut self.gradients[slot as usize];
        gradient.holders -= 1;
        if gradient.holders == 0 {
            let bytes = gradient.bytes;
            self.alive.give(Group::ActivationGradient, bytes, self.gradient(slot as usize));
        }
    }
}

/// Whether an operator's gradients are views: matmuls of linear layers run on flattened tokens, so that their
/// gradients are reshaped, and PyTorch adds to a view's memory only where nobody else holds it
/// (torch/csrc/autograd/input_buffer.cpp, `can_accumulate_inplace`). Experts' tokens are flat, convolutions are not.
fn gives_views(tape: &Tape, op: &Op) -> bool {
    let flat = |id: &TensorId| match tape.get(*id).home {
        Home::Weight(at) => matches!(tape.weights[at as usize].part, Part::Expert | Part::Router | Part::Convolution),
        _ => false,
    };
    !tape.traced && op.unit.multiplies() && !tape.ids(op.inputs).iter().any(flat)
}
