//! What a tape takes and gives, tensor by tensor: what a replay of the caching allocator reads.

use super::backward::backward;
use super::recompute::uses;
use super::{GROUPS, LiveBytes, Recompute, WeightGradients, forward};
use crate::model::{Home, Tape, TensorId};

/// A piece of memory of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::predict) struct BlockKey(pub u32);

#[allow(clippy::cast_possible_truncation)]
impl BlockKey {
    /// A tensor's own memory.
    pub(in crate::predict) const fn tensor(slot: usize) -> Self {
        Self(slot as u32)
    }

    /// A gradient that leaves the tape: a weight's, or that of what another tape made.
    pub(in crate::predict) const fn passed_on(tape: &Tape, id: TensorId) -> Self {
        Self(tape.tensors.len() as u32 + id.0)
    }

    /// A gradient within the tape, in the order in which they are made.
    pub(in crate::predict) const fn gradient(tape: &Tape, slot: usize) -> Self {
        Self(2 * tape.tensors.len() as u32 + slot as u32)
    }
}

/// One of these steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::predict) enum Event {
    /// So many bytes are taken, by as many tensors alike.
    Take(BlockKey, u64, u64),
    /// They are given back.
    Give(BlockKey),
    /// Taken and given back at once.
    Pass(u64),
}

/// The steps of a pass, where they are wanted.
pub(in crate::predict) struct Log(Option<Vec<Event>>);

impl Log {
    /// One where it is `wanted`, with room for each of so many tensors to come and go.
    pub(in crate::predict) fn wanted(wanted: bool, tensors: usize) -> Self {
        Self(wanted.then(|| Vec::with_capacity(2 * tensors)))
    }

    /// None.
    pub(in crate::predict) const fn none() -> Self {
        Self(None)
    }

    fn note(&mut self, event: Event) {
        if let Some(events) = &mut self.0 {
            events.push(event);
        }
    }

    pub(in crate::predict) fn take(&mut self, key: BlockKey, bytes: u64) {
        if bytes > 0 {
            self.note(Event::Take(key, bytes, 1));
        }
    }

    pub(in crate::predict) fn give(&mut self, key: BlockKey) {
        self.note(Event::Give(key));
    }

    pub(in crate::predict) fn pass(&mut self, bytes: u64) {
        if bytes > 0 {
            self.note(Event::Pass(bytes));
        }
    }
}

/// A tape's steps there and back.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::predict) struct TapeLog {
    /// Of the forward pass.
    pub forward: Vec<Event>,
    /// Of the backward pass.
    pub backward: Vec<Event>,
    /// What comes in, where this tape takes it over.
    pub input: Option<BlockKey>,
    /// What leaves, where this tape made it and leaves it to whoever runs next.
    pub output: Option<BlockKey>,
    /// The gradient of what leaves.
    pub output_gradient: BlockKey,
    /// The gradient of what came in.
    pub input_gradient: Option<BlockKey>,
    /// Autocast's copies that go when it is left.
    pub until_exit: Vec<BlockKey>,
    /// Gradients of weights that stay, in the order of the weights.
    pub weight_gradients: Vec<BlockKey>,
    /// What neither pass gives back, beside those and what is passed on.
    pub left: Vec<BlockKey>,
    /// Keys below this one are those of tensors; as many from there on are gradients that leave the tape.
    pub tensors: u32,
    /// More than the largest key.
    pub keys: usize,
}

/// Plays a tape and notes its steps.
pub(in crate::predict) fn logged(tape: &Tape, recompute: Recompute, gradients: WeightGradients) -> TapeLog {
    let recompute = if tape.plain { Recompute::Nothing } else { recompute };
    let uses = uses(tape, recompute);
    let mut alive = LiveBytes { log: Log::wanted(true, tape.tensors.len()), ..LiveBytes::of([0; GROUPS]) };
    forward(tape, &uses, &mut alive, recompute);
    let input = tape.tensors.iter().position(|tensor| tensor.home == Home::Input).filter(|_| !tape.borrows);
    let input = input.map(BlockKey::tensor);
    let output = tape.output.map(|id| tape.storage(id)).filter(|root| {
        let saved = uses.saves[root.0 as usize] > 0 && !uses.dropped[root.0 as usize];
        tape.get(*root).home != Home::Elsewhere && !saved
    });
    let gone = |at: &usize| tape.tensors[*at].cached && (uses.saves[*at] == 0 || uses.dropped[*at]);
    let until_exit: Vec<BlockKey> = (0..tape.tensors.len()).filter(gone).map(BlockKey::tensor).collect();
    let weights = tape.tensors.iter().zip(0_u32..).filter(|(tensor, _)| matches!(tensor.home, Home::Weight(_)));
    let weight_gradients: Vec<BlockKey> = weights.map(|(_, at)| BlockKey::passed_on(tape, TensorId(at))).collect();
    let after = backward(tape, uses, alive.groups, gradients, true);
    // What comes in was taken by the tape before.
    let mut forward = alive.log.0.unwrap_or_default();
    forward.retain(|event| !matches!(event, Event::Take(key, ..) if Some(*key) == input));
    let mut backward = after.log.0.unwrap_or_default();
    for event in &mut backward {
        by_expert(tape, event);
    }
    let output = output.map(|root| BlockKey::tensor(root.0 as usize));
    let events = || forward.iter().chain(&backward);
    let key = |event: &Event| if let Event::Take(key, ..) = event { key.0 as usize + 1 } else { 0 };
    let keys = events().map(key).max().unwrap_or(0).max(2 * tape.tensors.len() + 1);
    // Which event took what lies under each key, counted from one.
    let mut taken = vec![0_usize; keys];
    for (event, count) in events().zip(1..) {
        match event {
            Event::Take(key, ..) => taken[key.0 as usize] = count,
            Event::Give(key) => leave(&mut taken, *key),
            Event::Pass(_) => {}
        }
    }
    let passed_on = output.iter().chain(&after.input_gradient);
    passed_on.chain(&until_exit).chain(&weight_gradients).for_each(|key| leave(&mut taken, *key));
    let mut left: Vec<BlockKey> = (0..).zip(&taken).filter(|(_, at)| **at > 0).map(|(key, _)| BlockKey(key)).collect();
    left.sort_by_key(|key| taken[key.0 as usize]);
    TapeLog {
        forward,
        backward,
        input,
        output,
        output_gradient: BlockKey::gradient(tape, 0),
        input_gradient: after.input_gradient,
        until_exit,
        weight_gradients,
        left,
        tensors: u32::try_from(tape.tensors.len()).unwrap_or(u32::MAX),
        keys,
    }
}

/// Nothing lies under a key any more.
fn leave(taken: &mut [usize], key: BlockKey) {
    if let Some(at) = taken.get_mut(key.0 as usize) {
        *at = 0;
    }
}

/// Experts are parameters of their own, and so are their gradients.
fn by_expert(tape: &Tape, event: &mut Event) {
    let Event::Take(key, bytes, count) = event else { return };
    let leaves = (key.0 as usize).checked_sub(tape.tensors.len()).and_then(|at| tape.tensors.get(at));
    if let Some(Home::Weight(at)) = leaves.map(|tensor| tensor.home) {
        *count = tape.weights[at as usize].copies.max(1);
        *bytes /= *count;
    }
}
