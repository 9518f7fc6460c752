//! What the caching allocator reserves: the first two steps of a GPU, alone or beside others under DDP or FSDP, tensor by
//! tensor, through the allocator on paper. While the GPU has room no segment is given back, so that what one phase leaves is what the next finds: weights
//! first, activations of a step without optimizer states, then those states where gradients and activations were.

mod blocks;
mod heap;
mod known;
mod mapped;
#[cfg(test)]
mod oracle;
mod pool;
mod program;
mod streams;
mod timeline;

use crate::catalog::Generation;
use crate::model::{Part, Tape, Weight};
use crate::plan::keywords::{CpuOffload, Mode, Optimizer, Sharding};
use crate::predict::job::Job;
use crate::predict::job::optimizer::{Temporary, gram, is_matrix, rounded, rule_of, state_bytes};
use crate::predict::memory::few_bits::quantised;
use crate::predict::memory::overhead::outside;
use crate::predict::memory::resident::stored;
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use std::sync::RwLock;

use blocks::{Allocator, BlockIndex, Memory, Request};
use heap::Heap;
use known::AllocatorInput;
pub(in crate::predict) use mapped::mapped;
use streams::Replicas;
pub(in crate::predict) use streams::is_fsdp;
use timeline::{AllocatorTimeline, TapeLogs};

/// Bytes beside the tensors of the tapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::predict) struct CompanionBytes {
    /// Library workspaces.
    pub workspaces: u64,
    /// Inputs, labels and module buffers.
    pub inputs: u64,
    /// What the model returned last.
    pub kept: u64,
    /// Other models: a reference, a critic, frozen ones.
    pub models: u64,
}

/// A parameter (or several alike), and what a step makes of it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parameter {
    copies: u64,
    weight: u64,
    /// Master copy.
    master: u64,
    trained: bool,
    /// Optimizer states: how many, and the bytes of each.
    states: (u64, u64),
    /// Tensors of its optimizer step: how many, and the bytes of each.
    temporaries: [(u64, u64); 2],
    /// They are there until those of all others are.
    together: bool,
}

/// Blocks of a step up to which it is replayed, which takes some hundredths of a second then: plans of many hundreds of
/// layers or thousands of experts on one GPU keep the share.
const MOST_BLOCKS: u64 = 60_000;

/// Whether GPUs or a CPU train whole PyTorch modules, alone or beside others under DDP or FSDP, and no other streams, host
/// memory or other allocator take part.
pub(in crate::predict) fn applies(job: &Job) -> bool {
    let alone = job.degrees.num_gpus == 1 && job.training.cpu_offload == CpuOffload::None;
    job.profile.allocator.replayed.is
        && (alone || streams::applies(job))
        && job.training.mode == Mode::Train
        && !job.training.compile
}

/// What tells replays of plans that run the same operators apart: micro-batches that are replayed, and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReplayKey {
    micro_batches: u64,
    heap: bool,
    beside: CompanionBytes,
    room: u64,
    /// Whether there are other ranks, what they share, and among how many.
    shared: (bool, Sharding, u64),
    offload: CpuOffload,
}

/// Reserved bytes of plans that run the same operators with the same optimizer.
#[derive(Debug, Default)]
pub(in crate::predict) struct Replays(RwLock<Vec<(ReplayKey, Option<u64>)>>);

impl Replays {
    /// As [`reserved`] has it, replayed once for all plans in which the allocator sees the same.
    pub(in crate::predict) fn reserved(
        &self,
        held: &StageTapes<'_>,
        beside: &CompanionBytes,
        allocated: u64,
    ) -> Option<u64> {
        let job = held.job;
        if !applies(job) {
            return None;
        }
        let degrees = &job.degrees;
        let key = ReplayKey {
            micro_batches: known::micro_batches(job),
            heap: is_heap(job),
            beside: *beside,
            room: room(job),
            shared: (degrees.num_gpus > 1, degrees.sharding, degrees.shard_ranks),
            offload: job.training.cpu_offload,
        };
        let find =
            |known: &Vec<(ReplayKey, Option<u64>)>| known.iter().find(|(one, _)| *one == key).map(|found| found.1);
        if let Some(bytes) = self.0.read().ok().and_then(|known| find(&known)) {
            return bytes;
        }
        let bytes = reserved(held, beside, allocated);
        if let Ok(mut known) = self.0.write() {
            known.push((key, bytes));
        }
        bytes
    }
}

/// Whether tensors lie in the heap of a process.
fn is_heap(job: &Job) -> bool {
    job.hardware.gpu.generation == Generation::Cpu
}

/// Bytes of the GPU for the allocator's segments.
fn room(job: &Job) -> u64 {
    job.hardware.capacity.0.saturating_sub(outside(job))
}

/// Bytes reserved after some training steps of one GPU's stage; none where that is not for a replay to tell, or there
/// are too many blocks. `allocated` is the expected peak of the tensors: it decides what is tried first, never the answer.
pub(in crate::predict) fn reserved(held: &StageTapes<'_>, beside: &CompanionBytes, allocated: u64) -> Option<u64> {
    let job = held.job;
    if !applies(job) {
        return None;
    }
    let parameters = Parameters::of(job, held.step)?;
    let held_on = parameters.iter().map(|one| one.copies.saturating_mul(2 + one.states.0 + one.temporaries[0].0));
    let left = MOST_BLOCKS.checked_sub(held_on.fold(0, u64::saturating_add))?;
    let logs = TapeLogs::of(job, held.step, left)?;
    let input = AllocatorInput::of(held, *beside, (parameters, logs));
    known::segments(input, room(job), allocated, |input, room| {
        if input.heap {
            return steps((held.step, HEAP_STEPS), input, room, Heap::within(room));
        }
        // Streams share the GPU. One that runs short gives back segments until they fit, and is full then.
        let limit = if input.replicas.shards() { u64::MAX } else { room };
        steps((held.step, 2), input, room, Allocator::within(limit))
    })
}

/// The most bytes in some steps.
#[derive(Debug, Clone, Copy)]
struct Reached {
    /// Of all segments.
    segments: u64,
    /// Of all tensors.
    tensors: u64,
    /// Whether segments went back to make room for others.
    ran_short: bool,
}

/// Steps in which a heap reaches its peak: a graph of nodes lies in it from the second on, and what is free between them is
/// found in the next ones.
const HEAP_STEPS: u32 = 4;

/// What so many steps reach in `memory`, with so many bytes of room on the GPU; none where that is too little.
fn steps((step, count): (&StepTapes, u32), input: &AllocatorInput, room: u64, memory: impl Memory) -> Option<Reached> {
    let AllocatorInput { parameters, beside, .. } = input;
    let mut timeline = AllocatorTimeline::of(step, &input.logs, &input.replicas, memory);
    for bytes in [beside.workspaces, beside.inputs, beside.models] {
        timeline.hold(1, bytes);
    }
    if input.replicas.shards() {
        timeline.shard();
    }
    for one in parameters.iter().filter(|_| !input.replicas.offloads()) {
        timeline.hold(one.copies, one.weight);
        timeline.hold(one.copies, one.master);
    }
    if let Replicas::Buckets(buckets) = &input.replicas {
        buckets.iter().for_each(|bytes| timeline.hold(1, *bytes));
    }
    for step in 0..count {
        for micro in 0..input.micro_batches {
            timeline.pass(micro > 0, !input.accumulates_whole || micro + 1 == input.micro_batches);
            if timeline.is_over() {
                return None;
            }
            if step == 0 && micro == 0 {
                timeline.hold(1, beside.kept);
            }
        }
        if !input.replicas.offloads() {
            optimizer(input, step == 0, &mut timeline);
        }
        timeline.drop_gradients();
    }
    let (segments, tensors) = (timeline.most().min(room), timeline.most_asked());
    let reached = Reached { segments, tensors, ran_short: timeline.ran_short() };
    (!timeline.is_over()).then_some(reached)
}

/// The optimizer's step over all parameters.
fn optimizer(input: &AllocatorInput, first: bool, timeline: &mut AllocatorTimeline<'_, impl Memory>) {
    let by_turn = input.states_by_turn;
    let trained = || input.parameters.iter().filter(|one| one.trained);
    if first && !by_turn {
        for one in trained() {
            timeline.hold(one.copies * one.states.0, one.states.1);
        }
    }
    let mut waiting: Vec<BlockIndex> = Vec::new();
    for one in trained() {
        if first && by_turn {
            timeline.hold(one.copies * one.states.0, one.states.1);
        }
        if input.optimizer_in_backward {
            continue;
        }
        let requests: [(u64, Request); 2] = one.temporaries.map(|(times, bytes)| (times, Request::of(bytes)));
        for _ in 0..one.copies {
            let before = waiting.len();
            for (times, request) in requests {
                waiting.extend((0..times).map(|_| timeline.take(request)));
            }
            if !one.together {
                waiting.drain(before..).for_each(|place| timeline.give(place));
            }
        }
    }
    waiting.into_iter().for_each(|place| timeline.give(place));
}

/// Parameters in the order of the model: those of each tape, and which tape comes when.
#[derive(Debug, PartialEq)]
struct Parameters {
    tapes: Vec<Vec<Parameter>>,
    order: Vec<usize>,
}

impl Parameters {
    /// Those of a job; none where there are too many.
    fn of(job: &Job, step: &StepTapes) -> Option<Self> {
        let walk = &step.walk;
        let kinds = walk.kinds.iter().map(|(_, tape)| tape);
        let tapes: Vec<&Tape> = [&walk.first, &walk.last].into_iter().chain(kinds).collect();
        let layers = walk.order.iter().map(|kind| kind + 2);
        let order: Vec<usize> = std::iter::once(0).chain(layers).chain(std::iter::once(1)).collect();
        if order.iter().map(|tape| tapes[*tape].weights.len() as u64).fold(0, u64::saturating_add) > MOST_BLOCKS {
            return None;
        }
        let of_tape = |tape: &Tape| {
            tape.weights.iter().filter(|weight| !weight.tied).map(|weight| parameter(job, weight)).collect()
        };
        Some(Self { tapes: tapes.into_iter().map(of_tape).collect(), order })
    }

    fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.order.iter().flat_map(|tape| &self.tapes[*tape])
    }
}

fn parameter(job: &Job, weight: &Weight) -> Parameter {
    let storage = &job.storage;
    let element = stored(job, weight);
    let adapter = weight.part == Part::Adapter;
    let shared = if streams::is_fsdp(job) { job.degrees.shard_ranks } else { 1 };
    let numel = weight.numel.div_ceil(shared.max(1));
    let (gradient, state) = if adapter { job.trained_types() } else { (storage.gradient, storage.state) };
    let row = rule_of(job);
    let tensors = match row.moments {
        0 if !row.eight_bit && !row.factored => 0,
        0 => 2,
        moments => moments,
    };
    let bytes = state_bytes(&row, weight, numel, state) / tensors.max(1);
    let other = job.training.optimizer == Optimizer::Muon && !is_matrix(weight);
    let temporaries = match row.temporary {
        Temporary::Nothing => 0,
        Temporary::StatesAndDecayedGradients if job.training.weight_decay > 0.0 => 2,
        Temporary::AllStates | Temporary::DecayedGradients | Temporary::StatesAndDecayedGradients => 1,
        Temporary::NewtonSchulz => 3,
        Temporary::Largest(tensors) | Temporary::LargestWide(tensors) => tensors,
        Temporary::LargestUpcast(tensors) => tensors + if state.bytes() < 4 { 2 } else { 0 },
    };
    let squares = if row.temporary == Temporary::NewtonSchulz { (2, gram(weight)) } else { (0, 0) };
    let alone = numel.saturating_mul(row.alone(state, gradient, job.training.weight_decay > 0.0));
    let weight_bytes = match quantised(job, weight) {
        Some(few) => few.held(numel, weight.numel),
        None => numel.saturating_mul(element.bytes()),
    };
    Parameter {
        copies: weight.copies,
        weight: rounded(weight_bytes),
        master: storage.master.map_or(0, |master| rounded(numel.saturating_mul(master.bytes()))),
        trained: weight.trained,
        states: (if other { 2 * tensors } else { tensors }, bytes),
        temporaries: match alone {
            0 => [(0, 0); 2],
            _ if other => [(1, bytes), (0, 0)],
            alone => [(temporaries, rounded(alone / temporaries.max(1))), squares],
        },
        together: other
            || matches!(
                row.temporary,
                Temporary::AllStates | Temporary::DecayedGradients | Temporary::StatesAndDecayedGradients
            ),
    }
}
