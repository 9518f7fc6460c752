//! Replays that were made: plans that differ in nothing that the allocator sees share one.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::streams::Replicas;
use super::timeline::TapeLogs;
use super::{CompanionBytes, Parameters, Reached};
use crate::model::{Passing, Pending};
use crate::predict::job::Job;
use crate::predict::job::optimizer::rule_of;
use crate::predict::step::StageTapes;
use crate::predict::step::accumulates_whole;

/// Replays that are kept, about a megabyte: a stream or sweep over batch sizes comes back to those it had.
const MOST: usize = 64;

/// Everything that decides what the allocator does, but for the bytes of the GPU. What differs most often and is compared
/// soonest stands first.
#[derive(Debug, PartialEq)]
pub(super) struct AllocatorInput {
    pub beside: CompanionBytes,
    /// A process's heap serves it, not the caching allocator.
    pub heap: bool,
    /// Micro-batches that are replayed.
    pub micro_batches: u64,
    /// FSDP reduces gradients behind the last of them alone.
    pub accumulates_whole: bool,
    /// Adafactor and bitsandbytes make each parameter's states as its turn comes.
    pub states_by_turn: bool,
    pub optimizer_in_backward: bool,
    pub shared: u64,
    pub passing: Vec<Passing>,
    pub pending: Vec<Pending>,
    pub replicas: Replicas,
    pub logs: TapeLogs,
    pub parameters: Parameters,
}

impl AllocatorInput {
    pub(super) fn of(held: &StageTapes<'_>, beside: CompanionBytes, parts: (Parameters, TapeLogs)) -> Self {
        let StageTapes { job, step, .. } = held;
        let row = rule_of(job);
        let (parameters, logs) = parts;
        Self {
            parameters,
            logs,
            beside,
            heap: super::is_heap(job),
            micro_batches: micro_batches(job),
            accumulates_whole: accumulates_whole(job),
            states_by_turn: row.factored || row.eight_bit,
            optimizer_in_backward: job.training.optimizer_in_backward,
            shared: step.shared(),
            passing: step.walk.passing.clone(),
            pending: step.walk.pending.clone(),
            replicas: Replicas::of(held),
        }
    }
}

/// Micro-batches that are replayed: a third finds what the second found, unless that one alone finds gradients from before
/// it and leaves them.
pub(super) fn micro_batches(job: &Job) -> u64 {
    job.batch.accumulation.min(if accumulates_whole(job) { 3 } else { 2 })
}

/// A replay that was made.
struct KnownReplay {
    input: AllocatorInput,
    /// Without a limit.
    reached: Option<Reached>,
    /// What GPUs on which it runs short come to: their bytes, and those of the segments.
    short: Vec<(u64, u64)>,
}

static KNOWN: Mutex<VecDeque<KnownReplay>> = Mutex::new(VecDeque::new());

/// The most bytes of all segments on a GPU with so many bytes of `room` for them, where tensors of about `allocated` are
/// expected. `replay` plays the input with so many bytes of room; none where that is too little.
///
/// While segments have room none is given back: within the GPU's bytes the same happens as without a limit. Before it
/// fails PyTorch gives back segments in which nothing lies, which helps only where the tensors fit. What fails is said as
/// if nothing had limited it.
pub(super) fn segments(
    input: AllocatorInput,
    room: u64,
    allocated: u64,
    replay: impl Fn(&AllocatorInput, u64) -> Option<Reached>,
) -> Option<u64> {
    let known = KNOWN.lock().ok().and_then(|known| {
        let found = known.iter().find(|one| one.input == input)?;
        Some((found.reached, found.short.iter().find(|(bytes, _)| *bytes == room).map(|(_, segments)| *segments)))
    });
    let (reached, short) = known.unwrap_or_default();
    if let Some(segments) = short {
        keep(input, None, None);
        return Some(segments);
    }
    // Streams share the GPU and are played without a limit. Others mostly fit, and the replay within the GPU's bytes is
    // the only one.
    let streams = input.replicas.shards();
    let first = (reached.is_none() && allocated <= room && !streams).then(|| replay(&input, room));
    let all = match (reached, first) {
        (None, Some(Some(within))) if within.ran_short => {
            keep(input, None, Some((room, within.segments)));
            return Some(within.segments);
        }
        (Some(all), _) | (None, Some(Some(all))) => all,
        (None, _) => replay(&input, u64::MAX)?,
    };
    let runs_short = all.segments > room && all.tensors <= room;
    let segments = match first {
        None if runs_short && streams => room,
        None if runs_short => replay(&input, room).map_or(all.segments, |within| within.segments),
        _ => all.segments,
    };
    keep(input, Some(all), runs_short.then_some((room, segments)));
    Some(segments)
}

fn keep(input: AllocatorInput, reached: Option<Reached>, short: Option<(u64, u64)>) {
    let Ok(mut known) = KNOWN.lock() else { return };
    if let Some(at) = known.iter().position(|one| one.input == input) {
        let found = &mut known[at];
        found.reached = reached.or(found.reached);
        if let Some(short) = short.filter(|short| !found.short.contains(short)) {
            found.short.truncate(MOST - 1);
            found.short.insert(0, short);
        }
        // What was used last is given up last.
        if at > 0
            && let Some(found) = known.remove(at)
        {
            known.push_front(found);
        }
        return;
    }
    known.truncate(MOST - 1);
    known.push_front(KnownReplay { input, reached, short: short.into_iter().collect() });
}
