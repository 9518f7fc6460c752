//! A tape's steps as an allocator runs them: sizes in classes, keys as places among the tape's own.

use super::blocks::Request;
use crate::predict::step::play::{BlockKey, Event, TapeLog};

/// Where it is written what lies under a key of a tape: an index from where those of the tape begin.
pub(super) type Slot = u32;

/// One step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation {
    /// A block is taken.
    Take(Slot, Request),
    /// So many alike are taken.
    TakeSeveral(Slot, Request, u64),
    /// What lies there is given back.
    Give(Slot),
    /// A block is taken and given back at once.
    Pass(Request),
}

/// A tape's passes.
#[derive(Debug)]
pub(super) struct Program {
    pub forward: Vec<Operation>,
    pub backward: Vec<Operation>,
    /// The same where the tape behind passes the gradient of what leaves.
    pub backward_of_passed: Vec<Operation>,
    pub input: Option<Slot>,
    pub output: Option<Slot>,
    pub output_gradient: Slot,
    pub input_gradient: Option<Slot>,
    pub until_exit: Vec<Slot>,
    pub weight_gradients: Vec<Slot>,
    /// What is given back behind the backward pass.
    pub left: Vec<Slot>,
}

/// The places of a tape's keys: those that steps use, in the order of their first use.
#[derive(Debug)]
pub(super) struct Slots {
    of_key: Vec<Slot>,
    /// Keys of gradients that leave the tape.
    leaving: std::ops::Range<u32>,
    /// Gradients of a later micro-batch, which are added to those that lie under their keys.
    parts: Vec<Slot>,
    count: Slot,
}

impl Slots {
    /// For a tape with so many tensors and keys.
    pub(super) fn of(tensors: u32, keys: usize) -> Self {
        let leaving = tensors..2 * tensors;
        Self { of_key: vec![Slot::MAX; keys], leaving, parts: vec![Slot::MAX; tensors as usize], count: 0 }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.count as usize
    }

    fn of_block(&mut self, key: BlockKey, later: bool) -> Slot {
        // What has no bytes is given back, though it was never taken.
        if self.of_key.len() <= key.0 as usize {
            self.of_key.resize(key.0 as usize + 1, Slot::MAX);
        }
        let slot = match later && self.leaving.contains(&key.0) {
            true => &mut self.parts[(key.0 - self.leaving.start) as usize],
            false => &mut self.of_key[key.0 as usize],
        };
        if *slot == Slot::MAX {
            *slot = self.count;
            self.count += 1;
        }
        *slot
    }
}

impl Program {
    /// The steps of `log`, of a `later` micro-batch or of the first.
    pub(super) fn of(log: &TapeLog, slots: &mut Slots, later: bool) -> Self {
        let mut read = |events: &[Event], without: Option<BlockKey>| -> Vec<Operation> {
            // Made at its size at once: growing it took an eighth of a prediction from a tape of unequal blocks.
            let mut operations = Vec::with_capacity(events.len());
            let events = events.iter().filter(|event| !matches!(event, Event::Take(key, ..) if Some(*key) == without));
            operations.extend(events.map(|event| match *event {
                Event::Take(key, bytes, 1) => Operation::Take(slots.of_block(key, later), Request::of(bytes)),
                Event::Take(key, bytes, count) => {
                    Operation::TakeSeveral(slots.of_block(key, later), Request::of(bytes), count)
                }
                Event::Give(key) => Operation::Give(slots.of_block(key, later)),
                Event::Pass(bytes) => Operation::Pass(Request::of(bytes)),
            }));
            operations
        };
        let forward = read(&log.forward, None);
        let backward = read(&log.backward, None);
        let backward_of_passed = read(&log.backward, Some(log.output_gradient));
        let mut all = |keys: &[BlockKey]| keys.iter().map(|key| slots.of_block(*key, later)).collect::<Vec<_>>();
        let (until_exit, weight_gradients) = (all(&log.until_exit), all(&log.weight_gradients));
        let mut left = all(&log.left);
        // A recomputed tape holds what came in until here, whoever saved it.
        left.extend(log.input.map(|key| slots.of_block(key, later)));
        Self {
            forward,
            backward,
            backward_of_passed,
            input: log.input.map(|key| slots.of_block(key, false)),
            output: log.output.map(|key| slots.of_block(key, false)),
            output_gradient: slots.of_block(log.output_gradient, false),
            input_gradient: log.input_gradient.map(|key| slots.of_block(key, false)),
            until_exit,
            weight_gradients,
            left,
        }
    }
}
