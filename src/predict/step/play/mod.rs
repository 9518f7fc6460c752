//! The allocator on paper: a tape played forward and backward, tensor by tensor, in the
//! order in which PyTorch's autograd engine allocates and frees.
//!
//! Forward, an operator's outputs are allocated; then what neither a later operator nor
//! the backward pass needs is freed. Backward, operators run in reverse: gradients of
//! inputs are allocated, then saved tensors and the consumed gradients are freed. A
//! second gradient for the same tensor is added in place where nobody else holds the
//! first (torch/csrc/autograd/input_buffer.cpp).

mod backward;
mod log;
mod offload;
mod recompute;
mod shared;

pub(in crate::predict) use log::{BlockKey, Event, TapeLog, logged};
pub use offload::Offload;
pub use recompute::{Recompute, RecomputedModules};
pub(in crate::predict) use recompute::{Uses, again_inside, early_stop, runs_again, uses};

use crate::model::{GROUPS, Group, Home, Tape, Tensor, TensorId};
use backward::backward;
use log::Log;

/// Bytes by group.
pub type Groups = [u64; GROUPS];

/// Where gradients of weights go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightGradients {
    /// They are made in this pass and stay.
    Made,
    /// They are made, added to gradients that exist, and freed.
    Added,
    /// The matmul adds to gradients that exist: nothing is made.
    InPlace,
    /// They are made and stay until those of the layer are reduced together (FSDP).
    UntilReduced,
    /// Made, used and freed tensor by tensor (optimizer in backward), with so many bytes an element while used.
    Used(u64),
}

/// The most bytes at one time, and what they were.
#[derive(Debug, Clone, Copy)]
pub struct PassPeak {
    /// Bytes.
    pub total: u64,
    /// By group.
    pub groups: Groups,
    /// The operator that ran.
    pub at: &'static str,
}

impl PassPeak {
    pub(in crate::predict) const NONE: Self = Self { total: 0, groups: [0; GROUPS], at: "" };
}

/// A tape as played.
#[derive(Debug, Clone)]
pub struct TapePlay {
    /// Most bytes forward, the input included.
    pub forward: PassPeak,
    /// What stays for the backward pass, the input included where it is saved.
    pub retained: Groups,
    /// Of which what named modules send to host memory until then.
    pub offloaded: Groups,
    /// Of which autocast copies that go when autocast is left.
    pub until_exit: u64,
    /// Of which what goes no earlier than when the backward pass is over.
    pub lasting: u64,
    /// The hidden state that leaves.
    pub output: u64,
    /// Most bytes backward, with what was retained and the output's gradient.
    pub backward: PassPeak,
    /// Weight gradients that stay.
    pub weight_gradients: u64,
    /// Parts of weight gradients, beside those, that wait for other tapes' parts.
    pub waiting: u64,
    /// What is there when the backward pass is over: the input's gradient, and weight gradients that stay.
    pub over: Groups,
}

impl TapePlay {
    /// What of the saved tensors stays on the GPU between forward and backward pass.
    pub fn stays_here(&self, offload: bool, by_module: bool) -> Groups {
        match (offload, by_module) {
            (false, _) => self.retained,
            (true, false) => [0; GROUPS],
            (true, true) => std::array::from_fn(|group| self.retained[group].saturating_sub(self.offloaded[group])),
        }
    }

    /// Bytes that go to the host and come back, of named modules or of the whole layer.
    pub fn sent_bytes(&self, by_module: bool) -> u64 {
        if by_module { self.offloaded.iter().sum() } else { self.retained_bytes() }
    }

    /// Bytes that stay.
    #[must_use]
    pub fn retained_bytes(&self) -> u64 {
        self.retained.iter().sum()
    }
}

/// Bytes alive, and the most there were.
pub(in crate::predict) struct LiveBytes {
    pub(in crate::predict) groups: Groups,
    total: u64,
    pub(in crate::predict) peak: PassPeak,
    /// Each of these steps, for who wants to know where it lay.
    log: Log,
}

impl LiveBytes {
    pub(in crate::predict) fn of(groups: Groups) -> Self {
        let total = groups.iter().sum();
        Self { groups, total, peak: PassPeak::NONE, log: Log::none() }
    }

    fn take(&mut self, group: Group, bytes: u64, key: BlockKey) {
        self.log.take(key, bytes);
        let held = &mut self.groups[group as usize];
        *held = held.saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    fn give(&mut self, group: Group, bytes: u64, key: BlockKey) {
        self.log.give(key);
        // Each group stays below the bytes of the tensors in it: saturation keeps a wrong tape from panicking.
        let held = &mut self.groups[group as usize];
        *held = held.saturating_sub(bytes);
        self.total = self.total.saturating_sub(bytes);
    }

    /// Notes the most, with bytes that exist only now.
    fn mark(&mut self, at: &'static str, group: Group, extra: u64) {
        self.log.pass(extra);
        let now = self.total.saturating_add(extra);
        if now > self.peak.total {
            self.peak = PassPeak { total: now, groups: self.groups, at };
            let held = &mut self.peak.groups[group as usize];
            *held = held.saturating_add(extra);
        }
    }
}

/// Plays a tape.
#[must_use]
pub fn play(tape: &Tape, recompute: Recompute, gradients: WeightGradients, offload: Offload) -> TapePlay {
    let recompute = if tape.plain { Recompute::Nothing } else { recompute };
    let uses = uses(tape, recompute);
    let mut alive = LiveBytes::of([0; GROUPS]);
    forward(tape, &uses, &mut alive, recompute);
    let output = tape.output.map_or(0, |id| tape.get(id).allocated());
    let mut retained = alive.groups;
    if let Some(id) = tape.output {
        // What leaves belongs to whoever runs next, unless it is what came in or this tape saves it.
        let root = tape.storage(id);
        let saved = uses.saves[root.0 as usize] > 0 && !uses.dropped[root.0 as usize];
        if tape.get(root).home == Home::Local && !saved {
            // Its whole memory, of which it may be a part.
            retained[tape.get(root).group as usize] -= tape.get(root).allocated();
        }
    }
    let forward_peak = alive.peak;
    let offloaded = offload.sent(tape, &uses);
    let until_exit = cached_only(tape, &uses);
    let lasting = lasting(tape, &uses, recompute);
    let mut kept = retained;
    kept[Group::WeightCopy as usize] = kept[Group::WeightCopy as usize].saturating_sub(until_exit);
    let after = backward(tape, uses, kept, gradients, false);
    TapePlay {
        forward: forward_peak,
        retained,
        offloaded,
        until_exit,
        lasting,
        output,
        backward: after.peak,
        weight_gradients: after.stay,
        waiting: after.waiting,
        over: after.over,
    }
}

pub(in crate::predict) fn forward(tape: &Tape, uses: &Uses, alive: &mut LiveBytes, recompute: Recompute) {
    let whole = matches!(recompute, Recompute::All | Recompute::SelectiveOp { .. });
    let mut there = vec![false; tape.tensors.len()];
    for (at, tensor) in tape.tensors.iter().enumerate() {
        if tensor.home == Home::Input && !tape.borrows {
            there[at] = true;
            alive.take(tensor.group, tensor.allocated(), BlockKey::tensor(at));
        }
    }
    alive.mark("input", Group::Residual, 0);
    let output = tape.output.map(|id| tape.storage(id));
    let returns = tape.output.is_some_and(|id| tape.get(id).grad);
    for (at, op) in tape.ops.iter().enumerate() {
        for id in tape.ids(op.outputs) {
            let tensor = tape.get(*id);
            if tensor.view_of.is_none() && tensor.home == Home::Local {
                alive.take(tensor.group, tensor.allocated(), BlockKey::tensor(id.0 as usize));
                there[id.0 as usize] = true;
            }
        }
        let group = tape.ids(op.outputs).first().map_or(Group::Residual, |id| tape.get(*id).group);
        alive.mark(op.name, group, op.scratch_forward);
        let held = uses.held.iter().filter(|(until, _)| *until == at).map(|(_, id)| id);
        for id in tape.ids(op.inputs).iter().chain(tape.ids(op.outputs)).chain(held) {
            let root = tape.storage(*id);
            let slot = root.0 as usize;
            let tensor = tape.get(root);
            let done = uses.last[slot] as usize <= at && Some(root) != output;
            let saved = (uses.saves[slot] > 0 && !uses.dropped[slot]) || uses.forced[slot];
            // A recomputed block keeps its input, unless no gradient will ask for it.
            let again = whole && tensor.home == Home::Input && returns;
            let kept = saved || tensor.cached || again;
            if there[slot] && done && !kept {
                there[slot] = false;
                alive.give(tensor.group, tensor.allocated(), BlockKey::tensor(slot));
            }
        }
    }
}

/// What contexts of custom functions have as attributes: what is made here, and what comes in where no tape before holds it.
fn lasting(tape: &Tape, uses: &Uses, recompute: Recompute) -> u64 {
    let held = |id: &TensorId| match tape.get(*id).home {
        Home::Local => uses.saves[id.0 as usize] > 0 && !uses.dropped[id.0 as usize],
        Home::Input => uses.saves[id.0 as usize] > 0 && !tape.borrows,
        Home::Weight(_) | Home::Elsewhere => false,
    };
    let own: u64 = tape.lasting.iter().filter(|id| held(id)).map(|id| tape.get(*id).allocated()).sum();
    let comes_in = tape.tensors.iter().find(|tensor| tensor.home == Home::Input && tensor.view_of.is_none());
    let again = recompute == Recompute::All && tape.input_lasts && !tape.borrows;
    own + comes_in.filter(|_| again).map_or(0, Tensor::allocated)
}

/// Autocast copies that nothing but the cache holds.
fn cached_only(tape: &Tape, uses: &Uses) -> u64 {
    let cached = tape.tensors.iter().enumerate().filter(|(_, tensor)| tensor.cached);
    cached.filter(|(at, _)| uses.saves[*at] == 0 || uses.dropped[*at]).map(|(_, tensor)| tensor.allocated()).sum()
}
