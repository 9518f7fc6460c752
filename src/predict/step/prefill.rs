//! The allocator on paper without a backward pass: a tape played forward, with nothing saved.
//!
//! Without autograd it is Python's frames that keep tensors alive: whoever calls a module
//! holds what it passed until the call returns. (Followed storage by storage through
//! transformers' Llama: a block's input, and what its feed-forward block is called with,
//! stay to the end of the call; the model's own frame holds the embedding.)

use crate::model::{GROUPS, Group, Home, Tape};
use crate::predict::step::play::{Groups, LiveBytes, PassPeak, Recompute, TapePlay, Uses, forward, uses};

/// Plays a tape whose caller holds its input. What is retained are copies that autocast keeps, and keys and values.
#[must_use]
pub fn play_inference(tape: &Tape) -> TapePlay {
    let mut uses = uses(tape, Recompute::Nothing);
    uses.saves.fill(0);
    // A trace says itself what its frames held.
    if !tape.traced {
        hold_arguments(tape, &mut uses);
    }
    let mut alive = LiveBytes::of([0; GROUPS]);
    forward(tape, &uses, &mut alive, Recompute::Nothing);
    let mut retained: Groups = [0; GROUPS];
    for kept in [Group::WeightCopy, Group::KvCache] {
        retained[kept as usize] = alive.groups[kept as usize];
    }
    TapePlay {
        forward: alive.peak,
        until_exit: retained[Group::WeightCopy as usize],
        lasting: 0,
        retained,
        offloaded: [0; GROUPS],
        output: tape.output.map_or(0, |id| tape.get(id).allocated()),
        backward: PassPeak::NONE,
        weight_gradients: 0,
        waiting: 0,
        over: [0; GROUPS],
    }
}

/// Bytes that the model's frame holds from the embedding to the last layer: what it looked up.
#[must_use]
pub fn looked_up(first: &Tape) -> u64 {
    if first.traced {
        return 0;
    }
    let lookups = first.ops.iter().filter(|op| matches!(op.name, "embedding" | "embedding.position"));
    lookups.flat_map(|op| first.ids(op.outputs)).map(|id| first.get(*id).allocated()).sum()
}

/// Bytes of keys and values that a tape keeps.
#[must_use]
pub fn cached(tape: &Tape) -> u64 {
    let kept = tape.tensors.iter().filter(|tensor| tensor.group == Group::KvCache && tensor.view_of.is_none());
    kept.fold(0, |sum: u64, tensor| sum.saturating_add(tensor.allocated()))
}

/// What comes into a tape, and what comes into a module within it, stays until the call returns.
fn hold_arguments(tape: &Tape, uses: &mut Uses) {
    let module = |at: usize| {
        let name = tape.ops[at].name;
        name.split_once('.').filter(|(_, operator)| *operator != "residual").map_or(name, |(module, _)| module)
    };
    let mut from = 0;
    while from < tape.ops.len() {
        let calls = (from..tape.ops.len()).take_while(|at| module(*at) == module(from)).count();
        let to = from + calls;
        let made: Vec<_> = tape.ops[from..to].iter().flat_map(|op| tape.ids(op.outputs)).collect();
        for op in &tape.ops[from..to] {
            for id in tape.ids(op.inputs).iter().filter(|id| !made.contains(id)) {
                let root = tape.storage(*id);
                let last = &mut uses.last[root.0 as usize];
                if (*last as usize) < to - 1 {
                    *last = u32::try_from(to - 1).unwrap_or(u32::MAX);
                    uses.held.push((to - 1, root));
                }
            }
        }
        from = to;
    }
    for (last, _) in uses.last.iter_mut().zip(&tape.tensors).filter(|(_, tensor)| tensor.home == Home::Input) {
        *last = u32::MAX;
    }
}
