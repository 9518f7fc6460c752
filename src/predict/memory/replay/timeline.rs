//! Forward and backward passes of all layers through the allocator on paper.

use std::rc::Rc;

use super::blocks::{Allocator, BlockIndex};
use crate::model::{Pending, Tape};
use crate::predict::job::Job;
use crate::predict::step::StepTapes;
use crate::predict::step::play::{BlockKey, Event, Recompute, TapeLog, WeightGradients, logged};

/// What lies under a key.
#[derive(Debug, Clone, Default)]
enum BlockLocation {
    #[default]
    Nowhere,
    There(BlockIndex),
    Several(Vec<BlockIndex>),
}

/// A tape as the first micro-batch runs it, and as later ones do.
#[derive(Clone)]
struct TapeVariants {
    first: Rc<TapeLog>,
    later: Rc<TapeLog>,
}

/// A tape in the model, and where its keys begin.
#[derive(Clone, Copy)]
struct Instance {
    kind: usize,
    base: usize,
}

/// Blocks that a tape takes, there and back.
fn blocks(log: &TapeLog) -> u64 {
    let taken = |event: &Event| if let Event::Take(_, _, count) = event { *count } else { 1 };
    log.forward.iter().chain(&log.backward).map(taken).fold(0, u64::saturating_add)
}

/// A model's passes.
pub(super) struct AllocatorTimeline<'a> {
    step: &'a StepTapes,
    kinds: Vec<TapeVariants>,
    instances: Vec<Instance>,
    lies: Vec<BlockLocation>,
    /// Parts of weight gradients that a later micro-batch makes: they are added to what lies under their keys.
    parts: Vec<BlockLocation>,
    allocator: Allocator,
}

impl<'a> AllocatorTimeline<'a> {
    /// Before anything runs, with so many bytes of `room` on the GPU; none where there are more than `most` pieces of
    /// memory or blocks in a pass.
    pub(super) fn of(job: &Job, step: &'a StepTapes, (room, most): (u64, u64)) -> Option<Self> {
        let accumulates = job.batch.accumulation > 1;
        let kind = |tape: &Tape, recompute: Recompute| {
            let made = if step.gradients == WeightGradients::Added { WeightGradients::Made } else { step.gradients };
            let first = Rc::new(logged(tape, recompute, made));
            let later = if accumulates { Rc::new(logged(tape, recompute, step.gradients)) } else { Rc::clone(&first) };
            TapeVariants { first, later }
        };
        let walk = &step.walk;
        let mut kinds = vec![kind(&walk.first, Recompute::Nothing)];
        for (_, tape) in &walk.kinds {
            let plain = kind(tape, Recompute::Nothing);
            let again = if step.every == 0 { plain.clone() } else { kind(tape, step.recompute) };
            kinds.extend([plain, again]);
        }
        kinds.push(kind(&walk.last, Recompute::Nothing));
        let layers = walk.order.iter().zip(0_u64..);
        let layers = layers.map(|(kind, layer)| 1 + 2 * kind + usize::from(step.is_checkpointed(layer)));
        let order = std::iter::once(0).chain(layers).chain(std::iter::once(kinds.len() - 1));
        let mut base = 0;
        let place = |kind: usize| {
            let instance = Instance { kind, base };
            base += kinds[kind].first.keys.max(kinds[kind].later.keys);
            instance
        };
        let instances: Vec<Instance> = order.map(place).collect();
        let blocks: Vec<u64> = kinds.iter().map(|kind| blocks(&kind.first)).collect();
        let blocks = instances.iter().fold(0_u64, |sum, instance| sum.saturating_add(blocks[instance.kind]));
        if blocks > most || base as u64 > most {
            return None;
        }
        Some(Self {
            step,
            kinds,
            instances,
            lies: vec![BlockLocation::Nowhere; base],
            parts: vec![BlockLocation::Nowhere; if accumulates { base } else { 0 }],
            allocator: Allocator::within(room),
        })
    }

    /// The most bytes of all segments so far.
    pub(super) const fn most(&self) -> u64 {
        self.allocator.most()
    }

    /// So many blocks for good.
    pub(super) fn hold(&mut self, times: u64, bytes: u64) {
        for _ in 0..if bytes == 0 { 0 } else { times } {
            self.allocator.take(bytes);
        }
    }

    /// A block.
    pub(super) fn take(&mut self, bytes: u64) -> BlockIndex {
        self.allocator.take(bytes)
    }

    /// A block back.
    pub(super) fn give(&mut self, place: BlockIndex) {
        self.allocator.give(place);
    }

    /// A micro-batch there and back; `later` where gradients are there from one before it.
    pub(super) fn pass(&mut self, later: bool) {
        let walk = &self.step.walk;
        let (mut passing, mut pending) = (vec![None; walk.passing.len()], vec![None; walk.pending.len()]);
        let shared = self.step.shared();
        let mut there = None;
        for at in 0..self.instances.len() {
            self.forward(at, later);
            if at == 0 && shared > 0 {
                there = Some(self.allocator.take(shared));
            }
            self.hold_for_others(at, &walk.passing, &mut passing);
        }
        for at in 0..self.instances.len() {
            let (instance, log) = self.at(at, later);
            log.until_exit.iter().for_each(|key| self.free(instance, &log, *key, false));
        }
        for at in (0..self.instances.len()).rev() {
            self.backward(at, later);
            self.hold_for_others(at, &walk.pending, &mut pending);
        }
        for place in passing.into_iter().chain(pending).flatten().chain(there) {
            self.allocator.give(place);
        }
        // Only gradients of weights outlive a pass.
        for at in 0..self.instances.len() {
            let (instance, log) = self.at(at, later);
            let handed = log.output.into_iter().chain(log.input_gradient);
            handed.for_each(|key| self.free(instance, &log, key, later));
        }
    }

    /// Gradients are set to none, in the order of the parameters.
    pub(super) fn drop_gradients(&mut self) {
        for at in 0..self.instances.len() {
            let (instance, log) = self.at(at, false);
            log.weight_gradients.iter().for_each(|key| self.free(instance, &log, *key, false));
        }
    }

    fn at(&self, at: usize, later: bool) -> (Instance, Rc<TapeLog>) {
        let instance = self.instances[at];
        let kind = &self.kinds[instance.kind];
        (instance, Rc::clone(if later { &kind.later } else { &kind.first }))
    }

    fn forward(&mut self, at: usize, later: bool) {
        let (instance, log) = self.at(at, later);
        let before = at.checked_sub(1).map(|before| self.at(before, later));
        if let (Some(input), Some((before, output))) =
            (log.input, before.and_then(|(before, log)| Some((before, log.output?))))
        {
            self.hand_on((before, output), (instance, input));
        }
        log.forward.iter().for_each(|event| self.event(instance, &log, *event, later));
    }

    fn backward(&mut self, at: usize, later: bool) {
        let (instance, log) = self.at(at, later);
        let own = log.output_gradient;
        let behind = if at + 1 < self.instances.len() { Some(self.at(at + 1, later)) } else { None };
        let given = behind.and_then(|(behind, log)| Some((behind, log.input_gradient?)));
        if let Some(from) = given {
            self.hand_on(from, (instance, own));
        }
        for event in &log.backward {
            let handed = given.is_some() && matches!(event, Event::Take(key, ..) if *key == own);
            if !handed {
                self.event(instance, &log, *event, later);
            }
        }
        // A recomputed tape holds what came in until here, whoever saved it.
        log.left.iter().copied().chain(log.input).for_each(|key| self.free(instance, &log, key, later));
    }

    /// What the layer at `at` of the instances makes for layers far from it, and what was held up to it.
    fn hold_for_others(&mut self, at: usize, all: &[Pending], places: &mut [Option<BlockIndex>]) {
        let Some(layer) = at.checked_sub(1) else { return };
        for (one, place) in all.iter().zip(places) {
            if one.made_by == layer && one.bytes > 0 {
                *place = Some(self.allocator.take(one.bytes));
            } else if one.until == layer
                && one.until < one.made_by
                && let Some(place) = place.take()
            {
                self.allocator.give(place);
            }
        }
    }

    fn event(&mut self, instance: Instance, log: &TapeLog, event: Event, later: bool) {
        match event {
            Event::Pass(bytes) => self.allocator.pass(bytes),
            Event::Give(key) => self.free(instance, log, key, later),
            Event::Take(key, bytes, 1) => {
                let place = self.allocator.take(bytes);
                *self.slot(instance, log, key, later) = BlockLocation::There(place);
            }
            Event::Take(key, bytes, count) => {
                let places = (0..count).map(|_| self.allocator.take(bytes)).collect();
                *self.slot(instance, log, key, later) = BlockLocation::Several(places);
            }
        }
    }

    /// Where it is written what lies under a key.
    fn slot(&mut self, instance: Instance, log: &TapeLog, key: BlockKey, later: bool) -> &mut BlockLocation {
        let leaves = key.0 >= log.tensors && key.0 < 2 * log.tensors;
        let lies = if later && leaves { &mut self.parts } else { &mut self.lies };
        &mut lies[instance.base + key.0 as usize]
    }

    fn free(&mut self, instance: Instance, log: &TapeLog, key: BlockKey, later: bool) {
        match std::mem::take(self.slot(instance, log, key, later)) {
            BlockLocation::Nowhere => {}
            BlockLocation::There(place) => self.allocator.give(place),
            BlockLocation::Several(places) => places.into_iter().for_each(|place| self.allocator.give(place)),
        }
    }

    fn hand_on(&mut self, (from, key): (Instance, BlockKey), (to, other): (Instance, BlockKey)) {
        self.lies[to.base + other.0 as usize] = std::mem::take(&mut self.lies[from.base + key.0 as usize]);
    }
}
