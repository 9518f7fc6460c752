//! What a tape takes and gives, tensor by tensor: what a replay of the caching allocator reads.

use super::backward::backward;
use super::recompute::uses;
use super::{Alive, GROUPS, Recompute, WeightGradients, forward};
use crate::model::{Home, Id, Tape};

/// A piece of memory of a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Key(pub u32);

#[allow(clippy::cast_possible_truncation)]
impl Key {
    /// A tensor's own memory.
    pub(in super::super) const fn tensor(slot: usize) -> Self {
        Self(slot as u32)
    }

    /// A gradient that leaves the tape: a weight's, or that of what another tape made.
    pub(in super::super) const fn passed_on(tape: &Tape, id: Id) -> Self {
        Self(tape.tensors.len() as u32 + id.0)
    }

    /// A gradient within the tape, in the order in which they are made.
    pub(in super::super) const fn gradient(tape: &Tape, slot: usize) -> Self {
        Self(2 * tape.tensors.len() as u32 + slot as u32)
    }
}

/// One of these steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Event {
    /// So many bytes are taken.
    Take(Key, u64),
    /// They are given back.
    Give(Key),
    /// Taken and given back at once.
    Pass(u64),
}

/// The steps of a pass, where they are wanted.
pub(super) struct Log(Option<Vec<Event>>);

impl Log {
    pub(super) const fn wanted(wanted: bool) -> Self {
        Self(if wanted { Some(Vec::new()) } else { None })
    }

    fn note(&mut self, event: Event) {
        if let Some(events) = &mut self.0 {
            events.push(event);
        }
    }

    pub(super) fn take(&mut self, key: Key, bytes: u64) {
        self.note(Event::Take(key, bytes));
    }

    pub(super) fn give(&mut self, key: Key) {
        self.note(Event::Give(key));
    }

    pub(super) fn pass(&mut self, bytes: u64) {
        if bytes > 0 {
            self.note(Event::Pass(bytes));
        }
    }
}

/// A tape's steps there and back.
#[derive(Debug, Clone)]
pub(in super::super) struct Logged {
    /// Of the forward pass.
    pub forward: Vec<Event>,
    /// Of the backward pass.
    pub backward: Vec<Event>,
    /// What comes in, where this tape takes it over.
    pub input: Option<Key>,
    /// What leaves, where this tape made it and leaves it to whoever runs next.
    pub output: Option<Key>,
    /// The gradient of what leaves.
    pub output_gradient: Key,
    /// The gradient of what came in.
    pub input_gradient: Option<Key>,
    /// Autocast's copies that go when it is left.
    pub until_exit: Vec<Key>,
    /// Gradients of weights that stay, in the order of the weights.
    pub weight_gradients: Vec<Key>,
    /// More than the largest key.
    pub keys: usize,
}

/// Plays a tape and notes its steps.
pub(in super::super) fn logged(tape: &Tape, recompute: Recompute, gradients: WeightGradients) -> Logged {
    let recompute = if tape.plain { Recompute::Nothing } else { recompute };
    let uses = uses(tape, recompute);
    let mut alive = Alive { log: Log::wanted(true), ..Alive::of([0; GROUPS]) };
    forward(tape, &uses, &mut alive, recompute);
    let input = tape.tensors.iter().position(|tensor| tensor.home == Home::Input);
    let output = tape.output.map(|id| tape.storage(id)).filter(|root| {
        let saved = uses.saves[root.0 as usize] > 0 && !uses.dropped[root.0 as usize];
        tape.get(*root).home != Home::Elsewhere && !saved
    });
    let gone = |at: &usize| tape.tensors[*at].cached && (uses.saves[*at] == 0 || uses.dropped[*at]);
    let until_exit = (0..tape.tensors.len()).filter(gone).map(Key::tensor).collect();
    let weights = tape.tensors.iter().enumerate().filter(|(_, tensor)| matches!(tensor.home, Home::Weight(_)));
    let weight_gradients = weights.map(|(at, _)| Key::passed_on(tape, id(at))).collect();
    let after = backward(tape, uses, alive.groups, gradients, true);
    let (forward, backward) = (alive.log.0.unwrap_or_default(), after.log.0.unwrap_or_default());
    let keys = backward.iter().filter_map(|event| match event {
        Event::Take(key, _) => Some(key.0 as usize + 1),
        Event::Give(_) | Event::Pass(_) => None,
    });
    let keys = keys.max().unwrap_or(0).max(2 * tape.tensors.len() + 1);
    Logged {
        keys,
        forward,
        backward,
        input: input.filter(|_| !tape.borrows).map(Key::tensor),
        output: output.map(|root| Key::tensor(root.0 as usize)),
        output_gradient: Key::gradient(tape, 0),
        input_gradient: after.input_gradient,
        until_exit,
        weight_gradients,
    }
}

#[allow(clippy::cast_possible_truncation)]
const fn id(at: usize) -> Id {
    Id(at as u32)
}
