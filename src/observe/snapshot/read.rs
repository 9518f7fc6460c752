//! From the pickle to segments, blocks and terms.

use std::collections::{BTreeMap, HashMap};

use super::frames::{self, Frame, FrameFacts};
use super::pickle::{Pickle, PickleError, Value, ValueId};
use crate::reading::{BlockPurpose, DeviceSnapshot, SnapshotTerm};
use crate::units::Bytes;

/// Frames of a stack that are looked at.
const DEEPEST: usize = 256;

/// Steps of [`Pickle::step`] that one frame, one stack, one block costs: names are searched, places are counted.
const FRAME_STEPS: usize = 500;
const STACK_STEPS: usize = 50;
const BLOCK_STEPS: usize = 8;

/// Failed requests that are listed.
const MOST_FAILED: usize = 10_000;

/// No machine has as many GPUs.
const MOST_DEVICES: u32 = 1024;

/// Places in the code that are told apart, and what the others are called: a training program has some hundreds.
const MOST_PLACES: usize = 10_000;
const FURTHER_PLACES: &str = "further places";

/// Texts are cut here.
const LONGEST_TEXT: usize = 300;

/// Whether a file begins as a pickle of protocol 2 or later does.
#[must_use]
pub fn is_snapshot(bytes: &[u8]) -> bool {
    matches!(bytes, [0x80, 2..=5, ..])
}

/// Why a file is not read as a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is no pickle of plain data.
    #[error(transparent)]
    Pickle(#[from] PickleError),
    /// It is one, of something else.
    #[error("no memory snapshot: {0}")]
    Other(&'static str),
}

/// Reads a snapshot: one entry a device that has segments. Its bytes and its values together take at most `most` of
/// memory.
///
/// # Errors
/// Where it is no pickle of plain data, or no snapshot.
pub fn read(bytes: &[u8], most: Bytes) -> Result<Vec<DeviceSnapshot>, SnapshotError> {
    let pickle = Pickle::read(bytes, most)?;
    // Before 2.0 the snapshot was the list of segments itself.
    let segments = match pickle.root() {
        list @ Value::List(_) => Some(list),
        root => pickle.get(root, "segments"),
    };
    let Some(list @ Value::List(_)) = segments else { return Err(SnapshotError::Other("it has no segments")) };
    let mut reader = Reader {
        pickle: &pickle,
        stacks: HashMap::new(),
        frames: Vec::new(),
        origins: Origins::default(),
        failed: 0,
        devices: BTreeMap::new(),
    };
    let segments = pickle.items(Some(list)).try_for_each(|segment| reader.segment(segment));
    reader.traces();
    // Said before what is missing: beyond that nothing is found.
    if pickle.is_exhausted() {
        return Err(SnapshotError::Other("it refers to the same parts over and over"));
    }
    segments?;
    let Reader { devices, origins, .. } = reader;
    Ok(devices.into_iter().map(|(device, found)| found.finish(device, &origins)).collect())
}

/// What a block's stack comes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BlockOrigin {
    purpose: BlockPurpose,
    part: Option<&'static str>,
    place: String,
}

/// The origins of all blocks, each once.
#[derive(Debug, Default)]
struct Origins {
    all: Vec<BlockOrigin>,
    numbers: HashMap<BlockOrigin, u32>,
}

impl Origins {
    fn number(&mut self, origin: BlockOrigin) -> u32 {
        let place = if self.all.len() < MOST_PLACES || self.numbers.contains_key(&origin) {
            origin.place
        } else {
            FURTHER_PLACES.to_owned()
        };
        let origin = BlockOrigin { place, ..origin };
        if let Some(number) = self.numbers.get(&origin) {
            return *number;
        }
        // Beyond the places that are told apart there is one for each purpose.
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(origin.clone());
        self.numbers.insert(origin, number);
        number
    }
}

#[derive(Debug, Default)]
struct BlockTotals {
    reserved: u64,
    allocated: u64,
    pending: u64,
    split: u64,
    empty: u64,
    requested: Option<u64>,
    segments: u64,
    expandable: bool,
    largest_split: u64,
    /// Blocks and bytes by the number of their origin.
    terms: HashMap<u32, (u64, u64)>,
    failed: Vec<(Bytes, Option<Bytes>)>,
}

struct Reader<'a, 'b> {
    pickle: &'b Pickle<'a>,
    /// Stacks that were looked at, by their place in the pickle: blocks share them.
    stacks: HashMap<ValueId, u32>,
    /// What each frame says, by its place in the pickle: stacks share them.
    frames: Vec<FrameFacts>,
    origins: Origins,
    failed: usize,
    devices: BTreeMap<u32, BlockTotals>,
}

impl Reader<'_, '_> {
    fn segment(&mut self, segment: &Value) -> Result<(), SnapshotError> {
        let pickle = self.pickle;
        let count = |key: &str| pickle.count(pickle.get(segment, key));
        let (Some(device), Some(size)) = (count("device"), count("total_size")) else {
            return Err(SnapshotError::Other("a segment lacks its device or size"));
        };
        let device = u32::try_from(device).ok().filter(|device| *device < MOST_DEVICES);
        let device = device.ok_or(SnapshotError::Other("an impossible device"))?;
        let blocks = pickle.get(segment, "blocks");
        if !pickle.step(BLOCK_STEPS * pickle.items(blocks).count()) {
            return Ok(());
        }
        let active = pickle.items(blocks).any(|block| state(pickle, block) != State::Free);
        let found = self.totals(device);
        found.segments += 1;
        found.reserved = found.reserved.saturating_add(size);
        found.expandable |= pickle.get(segment, "is_expandable") == Some(&Value::Truth(true));
        for block in pickle.items(blocks) {
            let size = pickle.count(pickle.get(block, "size")).unwrap_or(0);
            let state = state(pickle, block);
            if state != State::Allocated {
                self.totals(device).free(size, state, active);
                continue;
            }
            let origin = self.origin(block);
            let found = self.totals(device);
            found.allocated = found.allocated.saturating_add(size);
            if let Some(requested) = pickle.count(pickle.get(block, "requested_size")) {
                let sum = found.requested.unwrap_or(0).saturating_add(requested.min(size));
                found.requested = Some(sum);
            }
            let (blocks, bytes) = found.terms.entry(origin).or_default();
            *blocks += 1;
            *bytes = bytes.saturating_add(size);
        }
        Ok(())
    }

    fn totals(&mut self, device: u32) -> &mut BlockTotals {
        self.devices.entry(device).or_default()
    }

    /// The number of its origin.
    fn origin(&mut self, block: &Value) -> u32 {
        let pickle = self.pickle;
        // Until 2.0 the frames stood in a history of the block, the newest entry first.
        let frames = pickle.get_id(block, "frames").or_else(|| {
            let Some(Value::List(entries)) = pickle.get(block, "history") else { return None };
            pickle.get_id(pickle.value(*entries.first()?), "frames")
        });
        let Some(id) = frames else { return self.origins.number(origin(&[], None)) };
        if let Some(known) = self.stacks.get(&id) {
            return *known;
        }
        let Value::List(stack) = pickle.value(id) else { return self.origins.number(origin(&[], None)) };
        let stack = stack.get(..DEEPEST).unwrap_or(stack);
        pickle.step(stack.len());
        let facts: Vec<FrameFacts> = stack.iter().map(|frame| self.facts(*frame)).collect();
        let named = stack.get(frames::named(&facts)).map(|frame| self.frame(pickle.value(*frame)));
        pickle.step(STACK_STEPS);
        let found = self.origins.number(origin(&facts, named.as_ref()));
        self.stacks.insert(id, found);
        found
    }

    fn facts(&mut self, id: ValueId) -> FrameFacts {
        if self.frames.is_empty() {
            self.frames = vec![FrameFacts::default(); self.pickle.value_count()];
        }
        let known = self.frames.get(id as usize).copied().unwrap_or_default();
        if known.is_known() {
            return known;
        }
        self.pickle.step(FRAME_STEPS);
        let facts = FrameFacts::of(&self.frame(self.pickle.value(id)));
        if let Some(place) = self.frames.get_mut(id as usize) {
            *place = facts;
        }
        facts
    }

    fn frame(&self, frame: &Value) -> Frame {
        let text = |key: &str| {
            let text = self.pickle.text(self.pickle.get(frame, key)).unwrap_or_default();
            text.chars().take(LONGEST_TEXT).collect::<String>()
        };
        let line = self.pickle.count(self.pickle.get(frame, "line")).unwrap_or(0);
        Frame { file: text("filename"), name: text("name"), line }
    }

    /// Requests that failed, from the trace, where one was recorded.
    fn traces(&mut self) {
        let pickle = self.pickle;
        let traces = pickle.get(pickle.root(), "device_traces");
        for (device, trace) in pickle.items(traces).enumerate() {
            let oom = |entry: &&Value| pickle.text(pickle.get(entry, "action")).as_deref() == Some("oom");
            for entry in pickle.items(Some(trace)).filter(oom) {
                let size = pickle.count(pickle.get(entry, "size")).unwrap_or(0);
                let free = pickle.count(pickle.get(entry, "device_free")).map(Bytes);
                let device = u32::try_from(device).ok().filter(|device| *device < MOST_DEVICES);
                let Some(device) = device.filter(|_| self.failed < MOST_FAILED) else { continue };
                self.failed += 1;
                self.totals(device).failed.push((Bytes(size), free));
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Allocated,
    /// Freed, but another stream still uses it.
    Pending,
    Free,
}

fn state(pickle: &Pickle<'_>, block: &Value) -> State {
    match pickle.text(pickle.get(block, "state")).as_deref() {
        Some("active_allocated") => State::Allocated,
        Some("active_awaiting_free" | "active_pending_free") => State::Pending,
        _ => State::Free,
    }
}

fn origin(stack: &[FrameFacts], named: Option<&Frame>) -> BlockOrigin {
    let (purpose, part) = frames::purpose(stack);
    BlockOrigin { purpose, part, place: frames::place(named) }
}

impl BlockTotals {
    fn free(&mut self, size: u64, state: State, beside_others: bool) {
        let into = match (state, beside_others) {
            (State::Pending, _) => &mut self.pending,
            (_, true) => &mut self.split,
            (_, false) => &mut self.empty,
        };
        *into = into.saturating_add(size);
        if state == State::Free && beside_others {
            self.largest_split = self.largest_split.max(size);
        }
    }

    fn finish(self, device: u32, origins: &Origins) -> DeviceSnapshot {
        let term = |(number, (blocks, bytes)): (u32, (u64, u64))| {
            let BlockOrigin { purpose, part, place } = origins.all.get(number as usize)?.clone();
            Some(SnapshotTerm { purpose, part, place, blocks, bytes: Bytes(bytes) })
        };
        let mut terms: Vec<SnapshotTerm> = self.terms.into_iter().filter_map(term).collect();
        terms.sort_by(|one, other| {
            other.bytes.cmp(&one.bytes).then_with(|| (one.purpose, &one.place).cmp(&(other.purpose, &other.place)))
        });
        DeviceSnapshot {
            device,
            reserved: Bytes(self.reserved),
            allocated: Bytes(self.allocated),
            pending: Bytes(self.pending),
            split: Bytes(self.split),
            empty: Bytes(self.empty),
            rounding: self.requested.map(|requested| Bytes(self.allocated).saturating_sub(Bytes(requested))),
            segments: self.segments,
            expandable: self.expandable,
            largest_split: Bytes(self.largest_split),
            terms,
            failed: self.failed,
        }
    }
}
