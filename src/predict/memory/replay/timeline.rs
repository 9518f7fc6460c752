//! Forward and backward passes of all layers through the allocator on paper.

use super::blocks::{BlockIndex, Memory, NOWHERE, Request};
use super::program::{Operation, Program, Slot, Slots};
use super::streams::{Replicas, StreamPools, is_fsdp};
use crate::model::{Passing, Pending, Tape};
use crate::predict::job::Job;
use crate::predict::step::StepTapes;
use crate::predict::step::play::{Event, Recompute, TapeLog, WeightGradients, logged};

/// From this index on, several blocks lie in a slot.
const SEVERAL: BlockIndex = 1 << 31;

/// A tape as the first micro-batch runs it, and as later ones do.
struct TapeVariants {
    first: Program,
    later: Option<Program>,
}

impl TapeVariants {
    fn get(&self, later: bool) -> &Program {
        self.later.as_ref().filter(|_| later).unwrap_or(&self.first)
    }
}

/// A tape in the model, and where its slots begin.
#[derive(Clone, Copy)]
struct Instance {
    kind: usize,
    base: usize,
}

/// What each kind of tape takes and gives: the same for every size of the GPU.
#[derive(Debug, PartialEq)]
pub(super) struct TapeLogs {
    /// By kind: embedding; each kind of layer, kept and recomputed; head. None where no tape is of that kind.
    kinds: Vec<Option<(TapeLog, Option<TapeLog>)>>,
    /// The kind of each tape in the order of the forward pass.
    order: Vec<usize>,
}

/// Blocks that a tape takes, there and back.
fn blocks(log: &TapeLog) -> u64 {
    let taken = |event: &Event| if let Event::Take(_, _, count) = event { *count } else { 1 };
    log.forward.iter().chain(&log.backward).map(taken).fold(0, u64::saturating_add)
}

impl TapeLogs {
    /// Those of a job; none where there are more than `most` pieces of memory or blocks in a pass.
    pub(super) fn of(job: &Job, step: &StepTapes, most: u64) -> Option<Self> {
        let walk = &step.walk;
        let layers = walk.order.iter().zip(0_u64..);
        let layers =
            layers.map(|(kind, layer)| 1 + 2 * kind + usize::from(step.is_checkpointed(layer) && step.every > 0));
        let head = 1 + 2 * walk.kinds.len();
        let order: Vec<usize> = std::iter::once(0).chain(layers).chain(std::iter::once(head)).collect();
        let mut kinds: Vec<Option<(TapeLog, Option<TapeLog>)>> = Vec::new();
        kinds.resize_with(head + 1, || None);
        let (mut blocks_of_all, mut keys_of_all) = (0_u64, 0_u64);
        for kind in &order {
            let (first, later) = kinds[*kind].get_or_insert_with(|| both(job, step, *kind));
            blocks_of_all = blocks_of_all.saturating_add(blocks(first));
            keys_of_all += first.keys.max(later.as_ref().map_or(0, |later| later.keys)) as u64;
        }
        (blocks_of_all <= most && keys_of_all <= most).then_some(Self { kinds, order })
    }

    /// Each tape of the model, as the first micro-batch runs it and as later ones do.
    pub(super) fn tapes(&self) -> impl Iterator<Item = (&TapeLog, Option<&TapeLog>)> {
        let of = |kind: &usize| self.kinds[*kind].as_ref().map(|(first, later)| (first, later.as_ref()));
        self.order.iter().filter_map(of)
    }
}

/// A kind of tape in the first micro-batch, and in later ones where there are some.
fn both(job: &Job, step: &StepTapes, kind: usize) -> (TapeLog, Option<TapeLog>) {
    let walk = &step.walk;
    let (tape, recompute): (&Tape, Recompute) = match kind.checked_sub(1) {
        None => (&walk.first, Recompute::Nothing),
        Some(at) => match walk.kinds.get(at / 2) {
            Some((_, tape)) if at % 2 == 1 => (tape, step.recompute),
            Some((_, tape)) => (tape, Recompute::Nothing),
            None => (&walk.last, Recompute::Nothing),
        },
    };
    let made = match step.gradients {
        WeightGradients::Added | WeightGradients::UntilReduced => WeightGradients::Made,
        others => others,
    };
    let adds = job.batch.accumulation > 1 && !is_fsdp(job);
    let later = adds.then(|| logged(tape, recompute, step.gradients));
    (logged(tape, recompute, made), later)
}

/// A model's passes.
pub(super) struct AllocatorTimeline<'a, M> {
    step: &'a StepTapes,
    kinds: Vec<Option<TapeVariants>>,
    instances: Vec<Instance>,
    /// The block of each slot.
    lies: Vec<BlockIndex>,
    /// The blocks of slots with several.
    several: Vec<Vec<BlockIndex>>,
    allocator: M,
    /// The pools of other streams, where ranks share out the weights.
    streams: Option<StreamPools<'a>>,
}

impl<'a, M: Memory> AllocatorTimeline<'a, M> {
    /// Before anything runs, with memory in which nothing lies.
    pub(super) fn of(step: &'a StepTapes, logs: &TapeLogs, replicas: &'a Replicas, allocator: M) -> Self {
        let mut counts = vec![0; logs.kinds.len()];
        let kinds: Vec<Option<TapeVariants>> = logs
            .kinds
            .iter()
            .zip(&mut counts)
            .map(|(logs, count)| {
                let (first, later) = logs.as_ref()?;
                let keys = first.keys.max(later.as_ref().map_or(0, |later| later.keys));
                let mut slots = Slots::of(first.tensors, keys);
                let first = Program::of(first, &mut slots, false);
                let later = later.as_ref().map(|later| Program::of(later, &mut slots, true));
                *count = slots.count();
                Some(TapeVariants { first, later })
            })
            .collect();
        let mut base = 0;
        let place = |kind: &usize| {
            let instance = Instance { kind: *kind, base };
            base += counts[*kind];
            instance
        };
        let instances: Vec<Instance> = logs.order.iter().map(place).collect();
        let (lies, streams) = (vec![NOWHERE; base], StreamPools::of(replicas));
        Self { step, kinds, instances, lies, several: Vec::new(), allocator, streams }
    }

    /// The most bytes of all segments so far.
    pub(super) fn most(&self) -> u64 {
        self.allocator.most().saturating_add(self.streams.as_ref().map_or(0, StreamPools::most))
    }

    /// The most bytes of all tensors at one time.
    pub(super) fn most_asked(&self) -> u64 {
        self.allocator.most_asked().saturating_add(self.streams.as_ref().map_or(0, StreamPools::most_asked))
    }

    /// Whether segments went back to make room for others.
    pub(super) fn ran_short(&self) -> bool {
        self.allocator.ran_short()
    }

    /// Whether the GPU has no room for them.
    pub(super) fn is_over(&self) -> bool {
        self.allocator.is_over()
    }

    /// So many blocks for good.
    pub(super) fn hold(&mut self, times: u64, bytes: u64) {
        if bytes > 0 && times > 0 {
            let request = Request::of(bytes);
            for _ in 0..times {
                self.allocator.take(request);
            }
        }
    }

    /// A block.
    pub(super) fn take(&mut self, request: Request) -> BlockIndex {
        self.allocator.take(request)
    }

    /// A block back.
    pub(super) fn give(&mut self, place: BlockIndex) {
        self.allocator.give(place);
    }

    /// Weights come whole before each rank keeps its part: of each layer, then of the root, in one flat tensor beside
    /// them (torch/distributed/fsdp/_init_utils.py, `_init_param_handle_from_module`; _flat_param.py, `shard`).
    pub(super) fn shard(&mut self) {
        let units = self.streams.as_ref().map(StreamPools::units).unwrap_or_default();
        for at in (1..self.instances.len()).rev() {
            let Some(unit) = units.get(self.unit(at)).filter(|unit| unit.made > 0) else { continue };
            let request = Request::of(unit.made);
            let both = [self.allocator.take(request), self.allocator.take(request)];
            both.into_iter().for_each(|place| self.allocator.give(place));
        }
    }

    /// The unit of a tape: the ends are the root's.
    fn unit(&self, at: usize) -> usize {
        let kind = self.instances[at].kind;
        if at == 0 || at + 1 == self.instances.len() { 0 } else { 1 + (kind - 1) / 2 }
    }

    /// Weights of the tape at `at` are there whole.
    fn gather(&mut self, at: usize) {
        let unit = self.unit(at);
        if let Some(streams) = self.streams.as_mut().filter(|_| at == 0 || unit > 0) {
            streams.gather(at, unit, &mut self.allocator);
        }
    }

    /// Its forward pass needs them no more. The root's stay (_runtime_utils.py, `_post_forward_reshard`).
    fn release(&mut self, at: usize) {
        let unit = self.unit(at);
        if let Some(streams) = self.streams.as_mut().filter(|_| unit > 0) {
            streams.release(at);
        }
    }

    /// Gradients of a unit become one flat tensor (torch.split's backward pass), and are sent to the ranks that keep
    /// them. Those of the head wait for the embedding's.
    fn post_backward(&mut self, at: usize, programs: &[&Program], reduces: bool) {
        let unit = self.unit(at);
        if at > 0 && unit == 0 {
            return;
        }
        let Some(bytes) = self.streams.as_ref().map(|streams| streams.gradient(unit)) else { return };
        let flat = (bytes > 0).then(|| self.allocator.take(Request::of(bytes)));
        let head = (at == 0).then_some(programs.len() - 1);
        for tape in std::iter::once(at).chain(head) {
            programs[tape].weight_gradients.iter().for_each(|slot| self.free(self.instances[tape].base, *slot));
        }
        let Some(streams) = &mut self.streams else { return };
        streams.release(at);
        let Some(flat) = flat else { return };
        let flat = streams.accumulate(at, flat, &mut self.allocator);
        if reduces { streams.reduce(at, unit, flat) } else { streams.keep_whole(at, flat) }
    }

    /// A micro-batch there and back; `later` where gradients are there from one before it. Whether FSDP `reduces` them.
    pub(super) fn pass(&mut self, later: bool, reduces: bool) {
        let walk = &self.step.walk;
        let (mut passing, mut pending) = (vec![None; walk.passing.len()], vec![None; walk.pending.len()]);
        let shared = self.step.shared();
        let mut there = None;
        let kinds = std::mem::take(&mut self.kinds);
        let programs: Vec<&Program> =
            self.instances.iter().filter_map(|one| kinds[one.kind].as_ref().map(|kind| kind.get(later))).collect();
        self.allocator.begin_graph();
        for at in 0..programs.len() {
            self.gather(at);
            self.forward(at, &programs);
            self.release(at);
            if at == 0 && shared > 0 {
                let request = Request::of(shared);
                there = Some(self.allocator.take(request));
            }
            self.hold_ahead(at, &walk.passing, &mut passing);
            if self.is_over() {
                break;
            }
        }
        self.allocator.bind_graph();
        for (at, program) in programs.iter().enumerate() {
            program.until_exit.iter().for_each(|slot| self.free(self.instances[at].base, *slot));
        }
        for at in (0..programs.len()).rev() {
            if self.is_over() {
                break;
            }
            self.gather(at);
            // The layer before it is gathered ahead (`BackwardPrefetch.BACKWARD_PRE`).
            if at > 1 {
                self.gather(at - 1);
            }
            self.backward(at, &programs);
            self.post_backward(at, &programs, reduces);
            self.hold_back(at, &walk.pending, &mut pending);
        }
        for place in passing.into_iter().chain(pending).flatten().chain(there) {
            self.allocator.give(place);
        }
        if let Some(streams) = &mut self.streams {
            streams.finish(&mut self.allocator);
        }
        // Only gradients of weights outlive a pass.
        for (at, program) in programs.iter().enumerate() {
            let handed = program.output.into_iter().chain(program.input_gradient);
            handed.for_each(|slot| self.free(self.instances[at].base, slot));
        }
        self.kinds = kinds;
    }

    /// Gradients are set to none, in the order of the parameters.
    pub(super) fn drop_gradients(&mut self) {
        if let Some(streams) = &mut self.streams {
            streams.drop_gradients();
        }
        let kinds = std::mem::take(&mut self.kinds);
        for at in 0..self.instances.len() {
            let Instance { kind, base } = self.instances[at];
            if let Some(kind) = &kinds[kind] {
                kind.first.weight_gradients.iter().for_each(|slot| self.free(base, *slot));
            }
        }
        self.kinds = kinds;
    }

    fn forward(&mut self, at: usize, programs: &[&Program]) {
        let (program, base) = (programs[at], self.instances[at].base);
        let before =
            at.checked_sub(1).and_then(|before| Some(self.instances[before].base + programs[before].output? as usize));
        if let Some((from, input)) = before.zip(program.input) {
            self.hand_on(from, base + input as usize);
        }
        program.forward.iter().for_each(|operation| self.run(base, *operation));
    }

    fn backward(&mut self, at: usize, programs: &[&Program]) {
        let (program, base) = (programs[at], self.instances[at].base);
        let behind = programs.get(at + 1).and_then(|behind| behind.input_gradient);
        let operations = match behind {
            Some(given) => {
                self.hand_on(self.instances[at + 1].base + given as usize, base + program.output_gradient as usize);
                &program.backward_of_passed
            }
            None => &program.backward,
        };
        operations.iter().for_each(|operation| self.run(base, *operation));
        program.left.iter().for_each(|slot| self.free(base, *slot));
    }

    /// What the tape at place `at` made for layers further on; the first tape stands before layer 0.
    fn hold_ahead(&mut self, at: usize, all: &[Passing], places: &mut [Option<BlockIndex>]) {
        let held = |one: &Passing| one.from == at && one.bytes > 0 && !self.step.is_kept(one);
        for (one, place) in all.iter().zip(places).filter(|(one, _)| held(one)) {
            *place = Some(self.allocator.take(Request::of(one.bytes)));
        }
    }

    /// Gradients that the tape at place `at` made for layers before it, and those that it was the last to wait for.
    fn hold_back(&mut self, at: usize, all: &[Pending], places: &mut [Option<BlockIndex>]) {
        let Some(layer) = at.checked_sub(1) else { return };
        for (one, place) in all.iter().zip(places) {
            if one.made_by == layer && one.bytes > 0 {
                let request = Request::of(one.bytes);
                *place = Some(self.allocator.take(request));
            } else if one.until == layer
                && one.until < one.made_by
                && let Some(place) = place.take()
            {
                self.allocator.give(place);
            }
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn run(&mut self, base: usize, operation: Operation) {
        match operation {
            Operation::Take(slot, request) => self.lies[base + slot as usize] = self.allocator.take(request),
            Operation::Give(slot) => self.free(base, slot),
            Operation::Pass(request) => self.allocator.pass(request),
            Operation::TakeSeveral(slot, request, count) => {
                self.lies[base + slot as usize] = SEVERAL + self.several.len() as BlockIndex;
                self.several.push((0..count).map(|_| self.allocator.take(request)).collect());
            }
        }
    }

    fn free(&mut self, base: usize, slot: Slot) {
        let place = std::mem::replace(&mut self.lies[base + slot as usize], NOWHERE);
        if place == NOWHERE {
        } else if place >= SEVERAL {
            let places = std::mem::take(&mut self.several[(place - SEVERAL) as usize]);
            places.into_iter().for_each(|place| self.allocator.give(place));
        } else {
            self.allocator.give(place);
        }
    }

    fn hand_on(&mut self, from: usize, to: usize) {
        self.lies[to] = std::mem::replace(&mut self.lies[from], NOWHERE);
    }
}
