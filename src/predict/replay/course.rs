//! Forward and backward passes of all layers through the allocator on paper.

use super::super::job::Job;
use super::super::play::{Event, Key, Logged, Recompute, WeightGradients, logged};
use super::super::step::Step;
use super::alike;
use super::blocks::{Allocator, Place};
use crate::model::Tape;

/// What lies under a key.
#[derive(Debug, Clone, Default)]
enum Lies {
    #[default]
    Nowhere,
    There(Place),
    Several(Vec<Place>),
}

/// A tape as the micro-batch's first pass runs it, and as later ones do.
struct Kind<'a> {
    tape: &'a Tape,
    first: Logged,
    later: Option<Logged>,
}

/// A tape in the model.
#[derive(Debug, Clone, Copy)]
struct Instance {
    kind: usize,
    /// Where its keys begin.
    base: usize,
}

/// A model's passes.
pub(super) struct Course<'a> {
    step: &'a Step,
    kinds: Vec<Kind<'a>>,
    instances: Vec<Instance>,
    lies: Vec<Lies>,
    /// Parts of weight gradients that a later micro-batch makes: they are added to what lies under their keys.
    parts: Vec<Lies>,
    allocator: Allocator,
    /// What layers hold for layers far from them.
    passing: Vec<Option<Place>>,
    pending: Vec<Option<Place>>,
}

impl<'a> Course<'a> {
    /// Before anything runs.
    pub(super) fn of(job: &Job, step: &'a Step) -> Self {
        let accumulates = job.batch.accumulation > 1;
        let kind = |tape: &'a Tape, recompute: Recompute| {
            let made = if step.gradients == WeightGradients::Added { WeightGradients::Made } else { step.gradients };
            let later = accumulates.then(|| logged(tape, recompute, step.gradients));
            Kind { tape, first: logged(tape, recompute, made), later }
        };
        let walk = &step.walk;
        let mut kinds = vec![kind(&walk.first, Recompute::Nothing)];
        for (_, tape) in &walk.kinds {
            kinds.push(kind(tape, Recompute::Nothing));
            kinds.push(kind(tape, step.recompute));
        }
        kinds.push(kind(&walk.last, Recompute::Nothing));
        let layers = walk.order.iter().zip(0_u64..);
        let layers = layers.map(|(kind, layer)| 1 + 2 * kind + usize::from(step.is_checkpointed(layer)));
        let order = std::iter::once(0).chain(layers).chain(std::iter::once(kinds.len() - 1));
        let mut base = 0;
        let instances: Vec<Instance> = order
            .map(|kind| {
                let instance = Instance { kind, base };
                let one: &Kind<'_> = &kinds[kind];
                base += one.first.keys.max(one.later.as_ref().map_or(0, |log| log.keys));
                instance
            })
            .collect();
        Self {
            step,
            kinds,
            instances,
            lies: vec![Lies::Nowhere; base],
            parts: vec![Lies::Nowhere; if accumulates { base } else { 0 }],
            allocator: Allocator::default(),
            passing: vec![None; walk.passing.len()],
            pending: vec![None; walk.pending.len()],
        }
    }

    /// Bytes of all segments.
    pub(super) const fn reserved(&self) -> u64 {
        self.allocator.reserved()
    }

    /// So many blocks for good.
    pub(super) fn hold(&mut self, times: u64, bytes: u64) {
        for _ in 0..if bytes == 0 { 0 } else { times } {
            self.allocator.take(bytes);
        }
    }

    /// A block.
    pub(super) fn take(&mut self, bytes: u64) -> Place {
        self.allocator.take(bytes)
    }

    /// A block back.
    pub(super) fn give(&mut self, place: Place) {
        self.allocator.give(place);
    }

    /// A micro-batch there and back; `later` where gradients are there from one before it.
    pub(super) fn pass(&mut self, later: bool) {
        let shared = self.step.shared();
        let mut shared = (shared > 0).then_some(shared);
        let mut there = None;
        for at in 0..self.instances.len() {
            self.forward(at, later);
            if let Some(bytes) = shared.take() {
                there = Some(self.allocator.take(bytes));
            }
        }
        for at in 0..self.instances.len() {
            let instance = self.instances[at];
            for key in self.log(instance, later).until_exit.clone() {
                self.free(instance, key, false);
            }
        }
        for at in (0..self.instances.len()).rev() {
            self.backward(at, later);
        }
        let passing = self.passing.iter_mut().chain(&mut self.pending).filter_map(Option::take);
        for place in passing.chain(there).collect::<Vec<_>>() {
            self.allocator.give(place);
        }
        self.sweep(later);
    }

    /// Gradients are set to none, in the order of the parameters.
    pub(super) fn drop_gradients(&mut self) {
        for at in 0..self.instances.len() {
            let instance = self.instances[at];
            for key in self.log(instance, false).weight_gradients.clone() {
                self.free(instance, key, false);
            }
        }
    }

    fn log(&self, instance: Instance, later: bool) -> &Logged {
        let kind = &self.kinds[instance.kind];
        kind.later.as_ref().filter(|_| later).unwrap_or(&kind.first)
    }

    fn forward(&mut self, at: usize, later: bool) {
        let instance = self.instances[at];
        let (input, count) = {
            let log = self.log(instance, later);
            (log.input, log.forward.len())
        };
        let before = at.checked_sub(1).map(|before| self.instances[before]);
        let left = before.and_then(|before| Some((before, self.log(before, later).output?)));
        if let (Some(input), Some((before, output))) = (input, left) {
            self.hand_on((before, output), (instance, input));
        }
        for index in 0..count {
            let event = self.log(instance, later).forward[index];
            if !matches!(event, Event::Take(key, _) if Some(key) == input) {
                self.event(instance, event, later);
            }
        }
        self.hold_for_others(at);
    }

    /// What the layer at `at` of the instances makes for others behind it, and what was held up to it.
    fn hold_for_others(&mut self, at: usize) {
        let Some(layer) = at.checked_sub(1) else { return };
        for (one, place) in self.step.walk.passing.iter().zip(&mut self.passing) {
            if one.made_by == layer {
                *place = (one.bytes > 0).then(|| self.allocator.take(one.bytes));
            }
        }
    }

    fn backward(&mut self, at: usize, later: bool) {
        let instance = self.instances[at];
        let (own, count) = {
            let log = self.log(instance, later);
            (log.output_gradient, log.backward.len())
        };
        let behind = self.instances.get(at + 1).copied();
        let given = behind.and_then(|behind| Some((behind, self.log(behind, later).input_gradient?)));
        if let Some((behind, gradient)) = given {
            self.hand_on((behind, gradient), (instance, own));
        }
        for index in 0..count {
            let event = self.log(instance, later).backward[index];
            let handed = given.is_some() && matches!(event, Event::Take(key, _) if key == own);
            if !handed {
                self.event(instance, event, later);
            }
        }
        let Some(layer) = at.checked_sub(1) else { return };
        for (one, place) in self.step.walk.pending.iter().zip(&mut self.pending) {
            if one.made_by == layer {
                *place = (one.bytes > 0).then(|| self.allocator.take(one.bytes));
            } else if one.until == layer
                && let Some(place) = place.take()
            {
                self.allocator.give(place);
            }
        }
    }

    fn event(&mut self, instance: Instance, event: Event, later: bool) {
        match event {
            Event::Pass(bytes) => {
                let place = self.allocator.take(bytes);
                self.allocator.give(place);
            }
            Event::Give(key) => self.free(instance, key, later),
            Event::Take(key, bytes) => {
                let tape = self.kinds[instance.kind].tape;
                let count = alike(tape, key.0 as usize % tape.tensors.len().max(1));
                let of_weight = (key.0 as usize) < 2 * tape.tensors.len();
                let lies = if bytes == 0 {
                    Lies::Nowhere
                } else if count > 1 && of_weight {
                    Lies::Several((0..count).map(|_| self.allocator.take(bytes / count)).collect())
                } else {
                    Lies::There(self.allocator.take(bytes))
                };
                *self.slot(instance, key, later) = lies;
            }
        }
    }

    /// Where it is written what lies under a key.
    fn slot(&mut self, instance: Instance, key: Key, later: bool) -> &mut Lies {
        let count = self.kinds[instance.kind].tape.tensors.len();
        let leaves = (count..2 * count).contains(&(key.0 as usize));
        let lies = if later && leaves { &mut self.parts } else { &mut self.lies };
        &mut lies[instance.base + key.0 as usize]
    }

    fn free(&mut self, instance: Instance, key: Key, later: bool) {
        match std::mem::take(self.slot(instance, key, later)) {
            Lies::Nowhere => {}
            Lies::There(place) => self.allocator.give(place),
            Lies::Several(places) => places.into_iter().for_each(|place| self.allocator.give(place)),
        }
    }

    fn hand_on(&mut self, (from, key): (Instance, Key), (to, other): (Instance, Key)) {
        self.lies[to.base + other.0 as usize] = std::mem::take(&mut self.lies[from.base + key.0 as usize]);
    }

    /// What no operator was left to free: only gradients of weights outlive a pass.
    fn sweep(&mut self, later: bool) {
        for at in 0..self.instances.len() {
            let instance = self.instances[at];
            let log = self.log(instance, later);
            let (stay, keys) = (log.weight_gradients.clone(), log.keys);
            for key in (0..keys).map(Key::tensor).filter(|key| later || !stay.contains(key)) {
                self.free(instance, key, later);
            }
        }
    }
}
