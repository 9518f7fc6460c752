//! The allocator on paper: a tape played forward and backward, tensor by tensor, in the
//! order in which PyTorch's autograd engine allocates and frees.
//!
//! Forward, an operator's outputs are allocated; then what neither a later operator nor
//! the backward pass needs is freed. Backward, operators run in reverse: gradients of
//! inputs are allocated, then saved tensors and the consumed gradients are freed. A
//! second gradient for the same tensor is added in place where nobody else holds the
//! first (torch/csrc/autograd/input_buffer.cpp).

use crate::model::{Flow, GROUPS, Group, Home, Id, Op, Tape, Unit};

/// Bytes by group.
pub type Groups = [u64; GROUPS];

/// What is recomputed of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    Nothing,
    /// All of it: only the input is kept.
    All,
    /// All but every second matrix product and the attention core (torchtitan).
    SelectiveOp,
    /// Runs of operators that belong to these modules.
    Modules(Modules),
}

/// Modules whose operators are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modules {
    /// The attention core.
    pub core: bool,
    /// The dense feed-forward block.
    pub mlp: bool,
    /// The expert layer.
    pub moe: bool,
    /// The experts' activation function.
    pub moe_act: bool,
    /// Norms.
    pub norms: bool,
    /// MLA's up projections.
    pub mla_up: bool,
    /// The shared experts.
    pub shared_experts: bool,
}

impl Modules {
    fn hold(&self, op: &Op) -> bool {
        let name = op.name;
        let core = matches!(
            name,
            "attention.core"
                | "attention.scores"
                | "attention.softmax"
                | "attention.mask"
                | "attention.values"
                | "attention.dropout"
        );
        (self.core && core)
            || (self.mlp && name.starts_with("mlp."))
            || (self.moe && name.starts_with("moe."))
            || (self.moe_act && name == "moe.act")
            || (self.norms && matches!(name, "input_norm" | "mlp_norm"))
            || (self.mla_up
                && matches!(name, "attention.q_b_proj" | "attention.kv_b_proj" | "attention.rope" | "attention.join"))
            || (self.shared_experts && name.starts_with("shared_experts"))
    }
}

/// Where gradients of weights go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WeightGradients {
    /// They are made in this pass and stay.
    Made,
    /// They are made, added to gradients that exist, and freed.
    Added,
    /// The product adds to gradients that exist: nothing is made.
    InPlace,
    /// Made, used and freed tensor by tensor (optimizer in backward).
    Used,
}

/// The most bytes at one time, and what they were.
#[derive(Debug, Clone, Copy)]
pub struct Peak {
    /// Bytes.
    pub total: u64,
    /// By group.
    pub groups: Groups,
    /// The operator that ran.
    pub at: &'static str,
}

impl Peak {
    const NONE: Self = Self { total: 0, groups: [0; GROUPS], at: "" };
}

/// A tape as played.
#[derive(Debug, Clone)]
pub struct Played {
    /// Most bytes forward, the input included.
    pub forward: Peak,
    /// What stays for the backward pass, the input included where it is saved.
    pub retained: Groups,
    /// Of which autocast copies that go when autocast is left.
    pub until_exit: u64,
    /// The hidden state that leaves.
    pub output: u64,
    /// Most bytes backward, with what was retained and the output's gradient.
    pub backward: Peak,
    /// Weight gradients that stay.
    pub weight_gradients: u64,
}

impl Played {
    /// Bytes that stay.
    #[must_use]
    pub fn retained_bytes(&self) -> u64 {
        self.retained.iter().sum()
    }
}

/// Bytes alive, and the most there were.
struct Alive {
    groups: Groups,
    total: u64,
    peak: Peak,
}

impl Alive {
    fn of(groups: Groups) -> Self {
        let total = groups.iter().sum();
        Self { groups, total, peak: Peak::NONE }
    }

    fn take(&mut self, group: Group, bytes: u64) {
        let held = &mut self.groups[group as usize];
        *held = held.saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
    }

    fn give(&mut self, group: Group, bytes: u64) {
        // Each group stays below the bytes of the tensors in it: saturation keeps a wrong tape from panicking.
        let held = &mut self.groups[group as usize];
        *held = held.saturating_sub(bytes);
        self.total = self.total.saturating_sub(bytes);
    }

    /// Notes the most, with bytes that exist only now.
    fn mark(&mut self, at: &'static str, group: Group, extra: u64) {
        let now = self.total.saturating_add(extra);
        if now > self.peak.total {
            self.peak = Peak { total: now, groups: self.groups, at };
            let held = &mut self.peak.groups[group as usize];
            *held = held.saturating_add(extra);
        }
    }
}

/// What a tape's tensors are needed for.
struct Uses {
    /// Last operator that reads or makes a tensor's memory.
    last: Vec<u32>,
    /// How many operators save it.
    saves: Vec<u32>,
    /// Saved, but not kept over the forward pass: made again in the backward pass.
    dropped: Vec<bool>,
    /// Kept though nothing saves it: the output of an operator that is not to run again.
    forced: Vec<bool>,
    /// Operators that run again.
    again: Vec<bool>,
}

/// Plays a tape.
#[must_use]
pub fn play(tape: &Tape, recompute: Recompute, gradients: WeightGradients) -> Played {
    let recompute = if tape.plain { Recompute::Nothing } else { recompute };
    let uses = uses(tape, recompute);
    let mut alive = Alive::of([0; GROUPS]);
    forward(tape, &uses, &mut alive, recompute);
    let output = tape.output.map_or(0, |id| tape.get(id).allocated());
    let mut retained = alive.groups;
    if let Some(id) = tape.output {
        // What leaves belongs to whoever runs next, unless it is what came in or this tape saves it.
        let root = tape.storage(id);
        if tape.get(root).home == Home::Local && uses.saves[root.0 as usize] == 0 {
            retained[tape.get(tape.storage(id)).group as usize] -= output;
        }
    }
    let forward_peak = alive.peak;
    let until_exit = cached_only(tape, &uses);
    let mut kept = retained;
    kept[Group::WeightCopy as usize] = kept[Group::WeightCopy as usize].saturating_sub(until_exit);
    let (peak, weight_gradients) = backward(tape, uses, kept, gradients);
    Played { forward: forward_peak, retained, until_exit, output, backward: peak, weight_gradients }
}

/// A forward pass that saves nothing.
#[must_use]
pub fn play_inference(tape: &Tape) -> Peak {
    let mut uses = uses(tape, Recompute::Nothing);
    uses.saves.iter_mut().for_each(|count| *count = 0);
    let mut alive = Alive::of([0; GROUPS]);
    forward(tape, &uses, &mut alive, Recompute::Nothing);
    alive.peak
}

fn uses(tape: &Tape, recompute: Recompute) -> Uses {
    let count = tape.tensors.len();
    let (mut last, mut saves) = (vec![0; count], vec![0; count]);
    let mut again = vec![false; tape.ops.len()];
    let mut products = 0;
    for (at, op) in tape.ops.iter().enumerate() {
        for id in tape.ids(op.inputs).iter().chain(tape.ids(op.outputs)) {
            last[tape.storage(*id).0 as usize] = u32::try_from(at).unwrap_or(u32::MAX);
        }
        for id in tape.ids(op.saved) {
            saves[tape.storage(*id).0 as usize] += 1;
        }
        again[at] = match recompute {
            Recompute::All | Recompute::SelectiveOp => true,
            other => runs_again(op, at, usize::MAX, other, &mut products),
        };
    }
    let mut uses = Uses { last, saves, dropped: vec![false; count], forced: vec![false; count], again };
    if recompute != Recompute::Nothing {
        drop_recomputed(tape, recompute, &mut uses);
    }
    uses
}

/// Marks what is not kept over the forward pass because it is made again.
fn drop_recomputed(tape: &Tape, recompute: Recompute, uses: &mut Uses) {
    let mut products = 0;
    let leaving = tape.output.map(|out| tape.storage(out));
    for (at, op) in tape.ops.iter().enumerate() {
        let forced = recompute == Recompute::SelectiveOp && kept_product(op, &mut products);
        if !uses.again[at] {
            continue;
        }
        for id in tape.ids(op.outputs) {
            let root = tape.storage(*id);
            // What an operator outside the run reads is kept: it is the run's output.
            let read = read_outside(tape, &uses.again, root, at);
            let leaves = read || leaving == Some(root);
            uses.forced[root.0 as usize] |= forced;
            uses.dropped[root.0 as usize] = !leaves && !forced && tape.get(root).home == Home::Local;
        }
    }
}

/// The first operator of a recomputed tape that does not run again: recomputation stops as soon as the last
/// saved tensor is there, which for saved inputs is before the operator itself runs
/// (torch/utils/checkpoint.py, `_StopRecomputationError`).
pub(super) fn early_stop(tape: &Tape) -> usize {
    let saving = tape.ops.iter().rposition(|op| !tape.ids(op.saved).is_empty());
    saving.map_or(0, |at| {
        let op = &tape.ops[at];
        let outputs = tape.ids(op.outputs);
        at + usize::from(tape.ids(op.saved).iter().any(|id| outputs.contains(id)))
    })
}

/// Whether the operator at `at` runs again in the backward pass; `products` counts matrix products so far.
pub(super) fn runs_again(op: &Op, at: usize, stop: usize, recompute: Recompute, products: &mut u32) -> bool {
    match recompute {
        Recompute::Nothing => false,
        Recompute::All => at < stop,
        Recompute::SelectiveOp => !kept_product(op, products),
        Recompute::Modules(modules) => modules.hold(op),
    }
}

/// torchtitan keeps the attention core and every second matrix product
/// (distributed/activation_checkpoint.py, `_get_custom_policy`).
fn kept_product(op: &Op, products: &mut u32) -> bool {
    match op.unit {
        Unit::Attention(_) => true,
        Unit::Matrix(_) => {
            *products += 1;
            *products % 2 == 1
        }
        Unit::Vector => false,
    }
}

fn read_outside(tape: &Tape, again: &[bool], root: Id, from: usize) -> bool {
    let mut later = tape.ops.iter().enumerate().skip(from + 1).filter(|(at, _)| !again[*at]);
    later.any(|(_, op)| tape.ids(op.inputs).iter().chain(tape.ids(op.saved)).any(|id| tape.storage(*id) == root))
}

fn forward(tape: &Tape, uses: &Uses, alive: &mut Alive, recompute: Recompute) {
    let whole = matches!(recompute, Recompute::All | Recompute::SelectiveOp);
    let mut there = vec![false; tape.tensors.len()];
    for (at, tensor) in tape.tensors.iter().enumerate() {
        if tensor.home == Home::Input && !tape.borrows {
            there[at] = true;
            alive.take(tensor.group, tensor.allocated());
        }
    }
    alive.mark("input", Group::Residual, 0);
    let output = tape.output.map(|id| tape.storage(id));
    for (at, op) in tape.ops.iter().enumerate() {
        for id in tape.ids(op.outputs) {
            let tensor = tape.get(*id);
            if tensor.view_of.is_none() && tensor.home == Home::Local {
                alive.take(tensor.group, tensor.allocated());
                there[id.0 as usize] = true;
            }
        }
        let group = tape.ids(op.outputs).first().map_or(Group::Residual, |id| tape.get(*id).group);
        alive.mark(op.name, group, op.scratch_forward);
        for id in tape.ids(op.inputs).iter().chain(tape.ids(op.outputs)) {
            let root = tape.storage(*id);
            let slot = root.0 as usize;
            let tensor = tape.get(root);
            let done = uses.last[slot] as usize <= at && Some(root) != output;
            let saved = (uses.saves[slot] > 0 && !uses.dropped[slot]) || uses.forced[slot];
            // A recomputed block keeps its input.
            let again = whole && (tensor.home == Home::Input || tape.carried.contains(&root));
            let kept = saved || tensor.cached || again;
            if there[slot] && done && !kept {
                there[slot] = false;
                alive.give(tensor.group, tensor.allocated());
            }
        }
    }
}

/// Autocast copies that nothing but the cache holds.
fn cached_only(tape: &Tape, uses: &Uses) -> u64 {
    let cached = tape.tensors.iter().enumerate().filter(|(_, tensor)| tensor.cached);
    cached.filter(|(at, _)| uses.saves[*at] == 0 || uses.dropped[*at]).map(|(_, tensor)| tensor.allocated()).sum()
}

/// A gradient in memory, and how many tensors' gradients it is.
struct Gradient {
    bytes: u64,
    holders: u32,
}

/// A backward pass under way.
struct Backward<'a> {
    tape: &'a Tape,
    uses: Uses,
    alive: Alive,
    slots: Vec<Option<u32>>,
    gradients: Vec<Gradient>,
    policy: WeightGradients,
    stay: u64,
    /// The output is saved by one of the tape's own operators.
    holds_output: bool,
}

fn backward(tape: &Tape, uses: Uses, retained: Groups, policy: WeightGradients) -> (Peak, u64) {
    let mut run = Backward {
        tape,
        uses,
        alive: Alive::of(retained),
        slots: vec![None; tape.tensors.len()],
        gradients: Vec::with_capacity(tape.ops.len()),
        policy,
        stay: 0,
        holds_output: false,
    };
    if let Some(root) = tape.output.map(|id| tape.storage(id)) {
        let tensor = tape.get(root);
        run.holds_output = tensor.home == Home::Local && run.uses.saves[root.0 as usize] > 0;
    }
    for id in [tape.output, tape.also].into_iter().flatten().filter(|id| tape.get(*id).grad) {
        let bytes = tape.get(id).allocated();
        run.alive.take(Group::ActivationGradient, bytes);
        run.slots[id.0 as usize] = u32::try_from(run.gradients.len()).ok();
        run.gradients.push(Gradient { bytes, holders: 1 });
    }
    run.alive.mark("output gradient", Group::ActivationGradient, 0);
    for at in (0..tape.ops.len()).rev() {
        run.restore(at);
        run.step(&tape.ops[at]);
    }
    (run.alive.peak, run.stay)
}

impl Backward<'_> {
    /// Before the last operator of a recomputed run: the run's forward pass again.
    fn restore(&mut self, at: usize) {
        let ends = self.uses.again[at] && self.uses.again.get(at + 1).is_none_or(|next| !next);
        if !ends {
            return;
        }
        let from = (0..at).rev().find(|op| !self.uses.again[*op]).map_or(0, |op| op + 1);
        let mut transient = 0;
        for op in &self.tape.ops[from..=at] {
            let mut fleeting = op.scratch_forward;
            for id in self.tape.ids(op.outputs) {
                let tensor = self.tape.get(*id);
                if tensor.view_of.is_some() || tensor.home != Home::Local {
                    continue;
                }
                if self.uses.dropped[id.0 as usize] && self.uses.saves[id.0 as usize] > 0 {
                    self.uses.dropped[id.0 as usize] = false;
                    self.alive.take(tensor.group, tensor.allocated());
                } else if self.uses.forced[id.0 as usize] && self.uses.saves[id.0 as usize] == 0 {
                    // Handed over instead of computed, and not needed beyond that.
                    self.alive.give(tensor.group, tensor.allocated());
                } else if self.uses.saves[id.0 as usize] == 0 {
                    fleeting += tensor.allocated();
                }
            }
            transient = transient.max(fleeting);
        }
        self.alive.mark("recomputation", Group::ActivationGradient, transient);
    }

    fn step(&mut self, op: &Op) {
        let tape = self.tape;
        let incoming = tape.ids(op.outputs).iter().find_map(|id| self.slots[id.0 as usize]);
        if let Some(first) = incoming {
            for (id, flow) in tape.ids(op.inputs).iter().zip(tape.flows(op.inputs)) {
                match flow {
                    Flow::Stop => {}
                    // It is added to the gradient that waits there.
                    Flow::Pass if tape.get(*id).home == Home::Elsewhere => {}
                    Flow::Pass => {
                        self.gradients[first as usize].holders += 1;
                        self.arrive(*id, first);
                    }
                    Flow::New => self.make(*id),
                    Flow::InPlace => {
                        self.release(*id);
                        self.make(*id);
                    }
                }
            }
            self.alive.mark(op.name, Group::ActivationGradient, op.scratch_backward);
            self.settle(op);
        }
        let overwritten = |id: &Id| {
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
    }

    /// A new gradient for `id`.
    fn make(&mut self, id: Id) {
        let tensor = *self.tape.get(id);
        if let Home::Weight(_) = tensor.home {
            if self.policy != WeightGradients::InPlace {
                self.alive.take(Group::WeightGradient, tensor.allocated());
            }
            return;
        }
        let bytes = tensor.allocated();
        self.alive.take(Group::ActivationGradient, bytes);
        if tensor.home == Home::Elsewhere {
            return;
        }
        self.gradients.push(Gradient { bytes, holders: 1 });
        self.arrive(id, u32::try_from(self.gradients.len() - 1).unwrap_or(u32::MAX));
    }

    /// A gradient for a tensor that may have one already.
    fn arrive(&mut self, id: Id, slot: u32) {
        let at = id.0 as usize;
        let Some(first) = self.slots[at] else {
            self.slots[at] = Some(slot);
            return;
        };
        if self.gradients[first as usize].holders == 1 {
            // Added in place: the newcomer is freed after the addition.
            self.alive.mark("accumulation", Group::ActivationGradient, 0);
            self.drop_holder(slot);
            return;
        }
        let bytes = self.gradients[first as usize].bytes;
        self.alive.take(Group::ActivationGradient, bytes);
        self.alive.mark("accumulation", Group::ActivationGradient, 0);
        self.gradients.push(Gradient { bytes, holders: 1 });
        self.slots[at] = Some(u32::try_from(self.gradients.len() - 1).unwrap_or(u32::MAX));
        self.drop_holder(first);
        self.drop_holder(slot);
    }

    /// What becomes of the weight gradients that `op` made.
    fn settle(&mut self, op: &Op) {
        for (id, flow) in self.tape.ids(op.inputs).iter().zip(self.tape.flows(op.inputs)) {
            let tensor = self.tape.get(*id);
            if *flow == Flow::New && tensor.home == Home::Elsewhere {
                self.alive.give(Group::ActivationGradient, tensor.allocated());
            }
            if *flow != Flow::New || !matches!(tensor.home, Home::Weight(_)) {
                continue;
            }
            match self.policy {
                WeightGradients::Made => self.stay += tensor.allocated(),
                WeightGradients::InPlace => {}
                WeightGradients::Added | WeightGradients::Used => {
                    self.alive.give(Group::WeightGradient, tensor.allocated());
                }
            }
        }
    }

    /// One operator fewer saves `id`.
    fn release(&mut self, id: Id) {
        let root = self.tape.storage(id);
        if self.tape.output.is_some_and(|output| self.tape.storage(output) == root) {
            // What leaves is held by whoever runs next, unless this tape saves it as well.
            if !self.holds_output {
                return;
            }
        }
        let saves = &mut self.uses.saves[root.0 as usize];
        *saves = saves.saturating_sub(1);
        let tensor = self.tape.get(root);
        let held = tensor.home == Home::Local || (tensor.home == Home::Input && !self.tape.borrows);
        if *saves == 0 && held && !self.uses.dropped[root.0 as usize] {
            self.alive.give(tensor.group, tensor.allocated());
        }
    }

    fn drop_holder(&mut self, slot: u32) {
        let gradient = &mut self.gradients[slot as usize];
        gradient.holders -= 1;
        if gradient.holders == 0 {
            let bytes = gradient.bytes;
            self.alive.give(Group::ActivationGradient, bytes);
        }
    }
}
