//! What is kept over the forward pass, and what is dropped and made again.

use crate::model::{Element, Home, Op, Tape, TensorId, Unit, Work};

pub(super) mod inner;

/// What is recomputed of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recompute {
    /// Nothing.
    Nothing,
    /// All of it: only the input is kept.
    All,
    /// All but every second matrix multiplication and the attention core (torchtitan).
    SelectiveOp {
        /// Compiled: what the policy keeps is kept only where the backward pass needs it.
        compiled: bool,
    },
    /// Runs of operators that belong to these modules.
    Modules(RecomputedModules),
}

impl Recompute {
    /// What of it `tape` has.
    pub fn of(self, tape: &Tape) -> Self {
        match self {
            Self::Modules(modules) => Self::Modules(modules.of(tape)),
            other => other,
        }
    }
}

/// Modules whose operators are recomputed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecomputedModules {
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

impl RecomputedModules {
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
            || self.discard(op)
    }

    /// Operators whose results are thrown away although others read them, and made again before the backward pass
    /// needs them (megatron-core, core/tensor_parallel/random.py, `CheckpointWithoutOutput`).
    fn discard(&self, op: &Op) -> bool {
        let name = op.name;
        let up = matches!(
            name,
            "attention.q_a_norm"
                | "attention.q_b_proj"
                | "attention.kv_a_norm"
                | "attention.kv_b_proj"
                | "attention.split"
                | "attention.rope"
                | "attention.join"
        );
        (self.moe_act && matches!(name, "moe.act" | "moe.weights"))
            || (self.norms && matches!(name, "input_norm" | "mlp_norm"))
            || (self.mla_up && up)
    }

    /// In a layer of experts the feed-forward block beside them is the shared experts'.
    fn of(self, tape: &Tape) -> Self {
        let routed = tape.ops.iter().any(|op| op.name == "moe.router");
        if routed { Self { mlp: self.shared_experts || self.moe, ..self } } else { self }
    }
}

/// What a tape's tensors are needed for.
pub struct Uses {
    /// Last operator that reads or makes a tensor's memory.
    pub last: Vec<u32>,
    /// How many operators save it.
    pub saves: Vec<u32>,
    /// Saved, but not kept over the forward pass: made again in the backward pass.
    pub dropped: Vec<bool>,
    /// Kept though nothing saves it: the output of an operator that is not to run again.
    pub forced: Vec<bool>,
    /// Operators that run again.
    pub again: Vec<bool>,
    /// Held beyond their last use by whoever passed them, up to that operator.
    pub held: Vec<(usize, TensorId)>,
    /// What comes into a checkpoint, which has it until that operator has run backward.
    pub came_in: Option<(usize, TensorId)>,
}

/// Reads a tape's uses under a recomputation.
pub fn uses(tape: &Tape, recompute: Recompute) -> Uses {
    let count = tape.tensors.len();
    let (mut last, mut saves) = (vec![0; count], vec![0; count]);
    let mut again = vec![false; tape.ops.len()];
    let mut products = 0;
    let recompute = recompute.of(tape);
    for (at, op) in tape.ops.iter().enumerate() {
        for id in tape.ids(op.inputs).iter().chain(tape.ids(op.outputs)) {
            last[tape.storage(*id).0 as usize] = u32::try_from(at).unwrap_or(u32::MAX);
        }
        for id in tape.ids(op.saved) {
            saves[tape.storage(*id).0 as usize] += 1;
        }
        if recompute == Recompute::All {
            inner::inputs_at(tape, at).for_each(|root| saves[root.0 as usize] += 1);
        }
        again[at] = match recompute {
            Recompute::All | Recompute::SelectiveOp { .. } => true,
            other => runs_again(tape, at, usize::MAX, other, &mut products),
        };
    }
    let came_in = came_in(tape, recompute);
    if let Some((_, root)) = came_in {
        saves[root.0 as usize] += 1;
    }
    let mut uses =
        Uses { last, saves, dropped: vec![false; count], forced: vec![false; count], again, held: Vec::new(), came_in };
    if recompute != Recompute::Nothing {
        drop_recomputed(tape, recompute, &mut uses);
    }
    uses
}

/// What comes into a checkpoint goes with the last of the functions whose saved tensors its recomputation makes
/// (torch/utils/checkpoint.py, `_checkpoint_hook`: their hooks hold the frame, and that the inputs), or with the frame of a
/// backward pass of its own (`CheckpointFunction.backward`).
fn came_in(tape: &Tape, recompute: Recompute) -> Option<(usize, TensorId)> {
    let returns = tape.output.is_some_and(|id| tape.get(id).grad);
    let root = tape.storage(tape.input().filter(|_| recompute == Recompute::All && returns)?);
    let until = if tape.stops_early { tape.ops.iter().position(|op| asks(tape, op))? } else { 0 };
    (tape.get(root).home == Home::Input).then_some((until, root))
}

/// Marks what is not kept over the forward pass because it is made again.
fn drop_recomputed(tape: &Tape, recompute: Recompute, uses: &mut Uses) {
    let mut products = 0;
    let leaving = tape.output.map(|out| tape.storage(out));
    // Eager, whatever the policy names is cached as it is made (torch/utils/checkpoint.py, `_CachingTorchDispatchMode`);
    // the partitioner of a compiled block saves what a cut between the passes needs (torch/_functorch/partitioners.py,
    // `solve_min_cut`), which what recomputation does not reach is not.
    let (selective, needed) = match recompute {
        Recompute::SelectiveOp { compiled: true } => (true, early_stop(tape)),
        Recompute::SelectiveOp { compiled: false } => (true, usize::MAX),
        _ => (false, 0),
    };
    let discards = |op: &Op| matches!(recompute, Recompute::Modules(modules) if modules.discard(op));
    let read_until = read_outside(tape, &uses.again);
    for (at, op) in tape.ops.iter().enumerate() {
        let own = recompute == Recompute::All && op.stays;
        let forced = own || (selective && kept_product(op, &mut products) && at < needed);
        if !uses.again[at] {
            continue;
        }
        for id in tape.ids(op.outputs) {
            let root = tape.storage(*id);
            // What an operator outside the run reads is kept: it is the run's output.
            let read = !discards(op) || tape.get(*id).view_of.is_some();
            // A later block, recomputed as well, holds what is passed to it; a copy of a weight it has from autocast's cache.
            let passed_on = tape.traced && !tape.get(root).cached && passed_on(tape, root);
            let leaves = (read && read_until[root.0 as usize] > at) || leaving == Some(root) || passed_on;
            uses.forced[root.0 as usize] |= forced;
            let kept = leaves || uses.forced[root.0 as usize];
            uses.dropped[root.0 as usize] = !kept && tape.get(root).home == Home::Local;
        }
    }
    if recompute == Recompute::All
        && tape.leaves_output
        && let Some(root) = leaving
    {
        let slot = root.0 as usize;
        uses.dropped[slot] = uses.saves[slot] > 0 && tape.get(root).home == Home::Local;
    }
    drop_copies(tape, uses);
}

/// Whether a tensor leaves beside the output, and is not made again for that.
fn passed_on(tape: &Tape, root: TensorId) -> bool {
    let leaves = |also: &TensorId| tape.storage(*also) == root && !tape.also_made_again.contains(also);
    tape.also.iter().any(leaves) || tape.held_later.contains(&root)
}

/// A matmul whose input is made again keeps no FP8 copy of it: that is made again as well (Transformer Engine's
/// `save_original_input`, which megatron-core sets where an activation is recomputed).
fn drop_copies(tape: &Tape, uses: &mut Uses) {
    for op in tape.ops.iter().filter(|op| op.unit.multiplies()) {
        let made_again = tape.ids(op.inputs).first().is_some_and(|id| uses.dropped[tape.storage(*id).0 as usize]);
        for id in tape.ids(op.outputs).iter().filter(|id| made_again && tape.get(**id).element == Element::Fp8) {
            uses.dropped[id.0 as usize] = true;
        }
    }
}

/// A norm that Transformer Engine runs as one module with the matrix behind it is not recomputed by itself. Latent
/// attention's first matrices and routers stand apart (megatron-core, core/models/gpt/gpt_layer_specs.py).
fn is_fused_norm(tape: &Tape, at: usize) -> bool {
    let out = tape.ids(tape.ops[at].outputs).first().map(|id| tape.storage(*id));
    let readers = || tape.ops[at + 1..].iter().filter(|op| tape.ids(op.inputs).iter().any(|id| Some(*id) == out));
    let by_layer = readers().any(|op| matches!(op.work, Work::Product(product) if product.layer));
    by_layer && !readers().any(|op| op.name == "attention.kv_a_proj" || op.name == "moe.router")
}

/// The operator whose backward function asks first for a saved tensor, which begins the recomputation of its checkpoint; what
/// comes behind it runs backward before that (torch/utils/checkpoint.py, `_checkpoint_hook`, `unpack_hook`).
pub fn first_asking(tape: &Tape) -> Option<usize> {
    tape.ops.iter().rposition(|op| asks(tape, op))
}

/// Whether an operator's backward function asks for what it saved.
fn asks(tape: &Tape, op: &Op) -> bool {
    own_saved(tape, op).next().is_some()
}

fn own_saved(tape: &Tape, op: &Op) -> impl Iterator<Item = TensorId> {
    tape.ids(op.saved).iter().copied().filter(|id| !tape.for_others.contains(id))
}

/// The first operator of a recomputed tape that does not run again: recomputation stops as soon as the last
/// saved tensor is there, which for saved inputs is before the operator itself runs
/// (torch/utils/checkpoint.py, `_StopRecomputationError`).
pub fn early_stop(tape: &Tape) -> usize {
    if tape.inner.is_empty() {
        return first_asking(tape).map_or(0, |at| stop_behind(tape, at));
    }
    inner::early_stop(tape)
}

/// The first operator that does not run again, where the one at `at` is the last that saves anything.
fn stop_behind(tape: &Tape, at: usize) -> usize {
    let op = &tape.ops[at];
    let outputs = tape.ids(op.outputs);
    // A matrix multiplication saves what it reads: that a later part of the model holds its output makes it run no further.
    let may_save_output = !matches!(op.work, Work::Product(_) | Work::Convolution(_));
    at + usize::from(may_save_output && own_saved(tape, op).any(|id| outputs.contains(&id)))
}

/// Whether an operator runs again in a checkpoint inside of what is recomputed.
pub fn again_inside(tape: &Tape, at: usize, recompute: Recompute) -> bool {
    recompute == Recompute::All && inner::runs_again(tape, at)
}

/// Whether the operator at `at` runs again in the backward pass; `products` counts matrix multiplications so far.
pub fn runs_again(tape: &Tape, at: usize, stop: usize, recompute: Recompute, products: &mut u32) -> bool {
    let op = &tape.ops[at];
    match recompute {
        Recompute::Nothing => false,
        Recompute::All => at < stop && !op.stays,
        Recompute::SelectiveOp { .. } => !kept_product(op, products),
        Recompute::Modules(modules) => {
            modules.hold(op) && !(matches!(op.name, "input_norm" | "mlp_norm") && is_fused_norm(tape, at))
        }
    }
}

/// torchtitan keeps the attention core, every second matrix multiplication, and what collectives other than all-gathers bring
/// (distributed/activation_checkpoint.py, `_get_custom_policy`).
fn kept_product(op: &Op, products: &mut u32) -> bool {
    if op.work == Work::Sent {
        return op.name != "all_gather";
    }
    match op.unit {
        Unit::Attention(_) => true,
        Unit::Matrix(_) => {
            *products += 1;
            *products % 2 == 1
        }
        Unit::Convolution(_) | Unit::Vector => false,
    }
}

/// The last operator that reads or saves each tensor's memory and does not run again: 0 where there is none.
fn read_outside(tape: &Tape, again: &[bool]) -> Vec<usize> {
    let mut last = vec![0; tape.tensors.len()];
    for (at, op) in tape.ops.iter().enumerate().filter(|(at, _)| !again[*at]) {
        for id in tape.ids(op.inputs).iter().chain(tape.ids(op.saved)) {
            last[tape.storage(*id).0 as usize] = at;
        }
    }
    last
}
