//! How far gradients reach in a traced model, some of whose parts are frozen.

use super::super::tape::{Home, Tape, TensorId};
use super::super::walk::MicroBatch;
use super::super::weight::Part;
use super::copies::is_copy;
use super::is_frozen;
use super::segment::PlacedTape;
use super::targets::AdaptedLayers;
use crate::plan::traced::{Segment, Trace, TracedLink, TracedModel, TracedPart};

/// The part of a model, as plans name it.
pub(super) const fn part_of(part: TracedPart) -> Part {
    match part {
        TracedPart::Embedding => Part::Embedding,
        TracedPart::Attention => Part::Attention,
        TracedPart::Mlp => Part::Mlp,
        TracedPart::Norm => Part::Norm,
        TracedPart::Router => Part::Router,
        TracedPart::Expert => Part::Expert,
        TracedPart::Head => Part::Head,
        TracedPart::Convolution => Part::Convolution,
    }
}

/// Rows of the embedding of tokens where checkpointing makes its output need a gradient: transformers 5 does so for each
/// model that reads `input_ids` (`modeling_utils.py`, `activation_checkpointing_enable`, `enable_input_require_grads`).
pub(super) fn asked_rows(model: &TracedModel, trace: &Trace, run: &MicroBatch<'_>) -> Option<u64> {
    let version = model.versions.get("transformers").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let reads_tokens = model.inputs.iter().any(|input| input.0 == "input_ids");
    if !run.checkpointed || !reads_tokens || version.is_none_or(|major| major < 5) {
        return None;
    }
    let weights = trace.kinds.iter().flat_map(|segment| &segment.weights);
    weights.filter(|weight| part_of(weight.3) == Part::Embedding).filter_map(|weight| weight.1.first().copied()).max()
}

/// What of that which a segment reads of others needs a gradient, and what adapters it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival {
    /// What comes in.
    pub reaches: bool,
    /// What comes in is held by the segment that made it.
    pub borrows: bool,
    /// Further tensors that need none, though they do where all is trained.
    cut: Vec<u32>,
    /// Of these, copies of frozen weights.
    pub copies: Vec<u32>,
    /// Its layers that adapters stand on.
    pub adapted: AdaptedLayers,
}

impl Arrival {
    /// Whether a gradient flows to such a tensor.
    pub(super) fn has(&self, id: u32) -> bool {
        !self.cut.contains(&id)
    }
}

/// Whether an operator saves the memory of a tensor.
fn is_saved(tape: &Tape, id: TensorId) -> bool {
    let root = tape.storage(id);
    tape.ops.iter().any(|op| tape.ids(op.saved).iter().any(|saved| tape.storage(*saved) == root))
}

/// Holds in the segments that made it what later ones save, which all of its own operators may be too frozen to.
pub(super) fn hold_for_others(
    trace: &Trace,
    run: &MicroBatch<'_>,
    (made, places): (&mut Vec<PlacedTape>, &mut [usize]),
) {
    // Of segments alike, those that hold something have a tape of their own: the one it was, what it holds, and the one it is.
    let mut holders: Vec<(usize, TensorId, usize)> = Vec::new();
    for TracedLink(reader, here, maker, there) in trace.links.iter().flatten() {
        let place = *maker as usize;
        let [Some(reader), Some(maker)] = [*reader as usize, place].map(|place| places.get(place).copied()) else {
            continue;
        };
        let root = made[maker].tape.storage(made[maker].now(*there));
        let (tape, own) = (&made[reader].tape, made[reader].now(*here));
        let is_needed = tape.get(tape.storage(own)).home == Home::Elsewhere && is_saved(tape, own);
        let next = places.get(place + 1).map(|at| &made[*at].tape);
        let tape = &made[maker].tape;
        let tensor = tape.get(root);
        let comes_in =
            tape.output.is_some_and(|id| tape.storage(id) == root) && next.is_some_and(|next| keeps_input(next, run));
        if !is_needed || comes_in || tensor.home != Home::Local || tensor.cached || is_saved(tape, root) {
            continue;
        }
        let known = holders.iter().find(|(from, held, _)| (*from, *held) == (maker, root)).map(|one| one.2);
        let holder = known.unwrap_or_else(|| {
            let holder = if places.iter().filter(|at| **at == maker).count() > 1 {
                made.push(made[maker].clone());
                made.len() - 1
            } else {
                maker
            };
            hold(&mut made[holder].tape, root);
            holders.push((maker, root, holder));
            holder
        });
        places[place] = holder;
    }
}

/// Marks what later segments hold of what a block makes and saves itself, which is there whether the block runs again or not: a later
/// block has whatever it reads until it has run again, another segment what it saves. What is handed on in the place of what it makes
/// again is in the walk's list.
pub(super) fn mark_held_later(trace: &Trace, made: &mut [PlacedTape], places: &[usize]) {
    for TracedLink(reader, here, maker, there) in trace.links.iter().flatten() {
        let [Some(reader), Some(maker)] = [reader, maker].map(|place| places.get(*place as usize).copied()) else {
            continue;
        };
        let root = made[maker].tape.storage(made[maker].now(*there));
        let (tape, own) = (&made[reader].tape, made[reader].now(*here));
        let is_held = !tape.plain || is_saved(tape, own);
        let tape = &mut made[maker].tape;
        let is_handed_on = tape.also_made_again.iter().any(|id| tape.storage(*id) == root);
        let is_own = tape.get(root).home == Home::Local && !tape.get(root).cached && !is_handed_on;
        if is_held && is_own && !tape.plain && !tape.held_later.contains(&root) && is_saved(tape, root) {
            tape.held_later.push(root);
        }
    }
}

/// Whether a segment holds what comes to it from the one before until it has run backward: an operator saves it, or it is there to
/// run again.
fn keeps_input(tape: &Tape, run: &MicroBatch<'_>) -> bool {
    let input = tape.tensors.iter().position(|tensor| tensor.home == Home::Input);
    (run.checkpointed && !tape.plain)
        || input.and_then(|at| u32::try_from(at).ok()).is_some_and(|at| is_saved(tape, TensorId(at)))
}

/// Lets the operator that makes a tensor hold it, for others: it runs again no further than its own backward functions ask.
fn hold(tape: &mut Tape, root: TensorId) {
    let Some(at) = tape.ops.iter().position(|op| tape.ids(op.outputs).contains(&root)) else { return };
    let saved: Vec<TensorId> = tape.ids(tape.ops[at].saved).iter().copied().chain([root]).collect();
    tape.ops[at].saved = tape.pool(&saved);
    tape.for_others.push(root);
}

/// What a name holds while later segments run: behind which segment, up to which, bytes, and whether a block reads it.
pub(super) struct HeldByName {
    pub from: u32,
    pub until: u32,
    pub bytes: u64,
    pub is_read: bool,
}

/// What names alone hold while later segments run, where parts are frozen.
pub(super) fn held_by_name(
    trace: &Trace,
    run: &MicroBatch<'_>,
    (made, places): (&[PlacedTape], &[usize]),
) -> Vec<HeldByName> {
    if !is_frozen(run) {
        return Vec::new();
    }
    let tape_at = |place: u32| places.get(place as usize).and_then(|at| made.get(*at));
    let held = |TracedLink(place, id, first, until): &TracedLink| {
        let maker = tape_at(*place)?;
        let root = maker.tape.storage(maker.now(*id));
        let tensor = maker.tape.get(root);
        // The next segment may save it as what comes in, or keep it to run again.
        let next = tape_at(place + 1).filter(|_| first > place).map(|next| &next.tape);
        let saved_there = next.is_some_and(|tape| keeps_input(tape, run));
        let is_local = tensor.home == Home::Local && !tensor.cached;
        let reads = |link: &&TracedLink| link.2 == *place && maker.tape.storage(maker.now(link.3)) == root;
        let is_block = |link: &TracedLink| tape_at(link.0).is_some_and(|reader| !reader.tape.plain);
        // Older tapes do not say who reads it.
        let is_read = trace.links.as_ref().is_none_or(|links| links.iter().filter(reads).any(is_block));
        let found = HeldByName { from: *first, until: *until, bytes: tensor.allocated(), is_read };
        (is_local && !saved_there && !is_saved(&maker.tape, root)).then_some(found)
    };
    trace.named.iter().filter_map(held).collect()
}

/// Whether what a segment gives needs a gradient.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reached {
    trains: bool,
}

impl Reached {
    /// What comes to the segment at a place, behind those that stand at `places`.
    pub(super) fn at(
        self,
        place: usize,
        segment: &Segment,
        (trace, run): (&Trace, &MicroBatch<'_>),
        (made, places): (&[PlacedTape], &[usize]),
        adapted: AdaptedLayers,
    ) -> Arrival {
        let came_in = segment.tensors.iter().any(|tensor| tensor.3 == 1 && tensor.4 != 0);
        if !is_frozen(run) {
            return Arrival {
                reaches: came_in,
                borrows: segment.borrows,
                cut: Vec::new(),
                copies: Vec::new(),
                adapted,
            };
        }
        let links = trace.links.as_deref().unwrap_or_default();
        let from = links.partition_point(|link| (link.0 as usize) < place);
        let own = links[from..].iter().take_while(|link| link.0 as usize == place);
        let is_cut = |maker: u32, id: u32| {
            places.get(maker as usize).and_then(|at| made.get(*at)).is_some_and(|placed| !placed.needs_gradient(id))
        };
        let is_weight = |maker: u32, id: u32| {
            let kind = trace.order.get(maker as usize).and_then(|kind| trace.kinds.get(*kind as usize));
            kind.and_then(|segment| segment.tensors.get(id as usize)).is_some_and(is_copy)
        };
        let may_flow = |id: u32| segment.tensors.get(id as usize).is_some_and(|tensor| tensor.4 != 0);
        let own = own.filter(|link| may_flow(link.1));
        let frozen = own.filter(|link| is_cut(link.2, link.3));
        let copies = frozen.clone().filter(|link| is_weight(link.2, link.3)).map(|link| link.1).collect();
        let before = place.checked_sub(1).and_then(|before| made.get(*places.get(before)?));
        let holds = |placed: &PlacedTape| placed.tape.output.is_none_or(|id| is_saved(&placed.tape, id));
        let borrows = segment.borrows && before.is_none_or(holds);
        Arrival { reaches: came_in && self.trains, borrows, cut: frozen.map(|link| link.1).collect(), copies, adapted }
    }

    /// Behind a segment, whose tape this is.
    pub(super) fn after(&mut self, tape: &Tape) {
        let leaves = tape.output.is_some_and(|id| tape.get(id).grad);
        let weights = tape.tensors.iter().any(|tensor| matches!(tensor.home, Home::Weight(_)) && tensor.grad);
        self.trains = leaves || (tape.output.is_none() && (self.trains || weights));
    }
}
