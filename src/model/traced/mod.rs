//! The walk of a model that PyTorch was seen to run (`memwall trace`): its segments as tapes.

mod adapted;
mod copies;
mod guards;
mod segment;
mod targets;
mod tied;
mod trained;

use std::mem;
use std::sync::Arc;

use super::architecture::{Architecture, Family, ModelShape};
use super::element::Element;
use super::families::Input;
use super::tape::{Tape, rounded};
use super::walk::{Count, MicroBatch, Passing, Pending, Walk};
use crate::plan::keywords::ModelType;
use crate::plan::traced::{
    KEPT, SizeAxis, Trace, TraceTypes, TracedElement, TracedModel, TracedPassing, TracedTensor, TracedWork, intern,
};
use segment::{PlacedTape, Site};
use targets::Placing;
pub use targets::{MEANT_BY_ALL, is_traced_target, traced_linear_layers, traced_other_layers, untraced_backward};
use trained::{HeldByName, Reached};

/// The architecture of a traced model.
#[must_use]
pub fn of_trace(model: &Arc<TracedModel>) -> Architecture {
    Architecture {
        name: crate::printable::printable(&model.name),
        family: Family::Traced,
        shape: ModelShape::Traced(Arc::clone(model)),
    }
}

/// The trace whose types are those of the run; else another, for what does not depend on types.
fn trace_of<'a>(model: &'a TracedModel, run: &MicroBatch<'_>) -> Option<&'a Trace> {
    let types = TraceTypes {
        autocast: run.types.autocast.is_some(),
        narrow_weights: run.types.weight.bytes() < Element::F32.bytes(),
        casts_inputs: run.types.casts_inputs,
    };
    model.traces.of(types).0.or_else(|| model.traces.all().next())
}

/// The element of a tensor in a run: traces are in bf16, whichever 16-bit type the run has.
pub(super) fn element_of(element: TracedElement, run: &MicroBatch<'_>) -> Element {
    match element {
        TracedElement::I64 => Element::I64,
        TracedElement::F32 => Element::F32,
        TracedElement::Bf16 => match run.compute() {
            Element::F16 => Element::F16,
            _ => Element::Bf16,
        },
        TracedElement::F16 => Element::F16,
        TracedElement::U8 => Element::Bool,
    }
}

/// The tapes of a traced model.
pub fn walk(model: &TracedModel, run: &MicroBatch<'_>) -> Walk {
    let Some(trace) = trace_of(model, run) else { return Walk::default() };
    let sizes = model.sizes_at(|axis| match axis {
        SizeAxis::Batch => run.batch,
        SizeAxis::Sequence => run.sequence,
        SizeAxis::Target => run.target,
        SizeAxis::Image => run.image,
    });
    let site = Site { sizes: &sizes, run, asked: trained::asked_rows(model, trace, run) };
    // A segment that reads what needs no gradient is another one than the same behind what is trained.
    let mut made: Vec<PlacedTape> = Vec::with_capacity(trace.kinds.len());
    let mut known: Vec<Vec<usize>> = vec![Vec::new(); trace.kinds.len()];
    let mut places = Vec::with_capacity(trace.order.len());
    let mut reached = Reached::default();
    let mut placing = run.adapters.map(|adapters| Placing::new(model, trace, adapters));
    for (place, (kind, (path, segment))) in trace.order.iter().zip(trace.places()).enumerate() {
        let adapted = placing.as_mut().map(|placing| placing.at(path, *kind, segment)).unwrap_or_default();
        let arrival = reached.at(place, segment, (trace, run), (&made, &places), adapted);
        let alike = &mut known[*kind as usize];
        let at = alike.iter().copied().find(|at| made[*at].arrival == arrival).unwrap_or_else(|| {
            made.push(site.placed(*kind, segment, arrival));
            alike.push(made.len() - 1);
            made.len() - 1
        });
        reached.after(&made[at].tape);
        places.push(at);
    }
    if is_frozen(run) {
        trained::hold_for_others(trace, run, (&mut made, &mut places));
    }
    if run.checkpointed {
        trained::mark_held_later(trace, &mut made, &places);
    }
    tied::meet(trace, &mut made, &places);
    assembled(model, trace, &site, made, &places)
}

/// Whether some of the model is left as it is.
fn is_frozen(run: &MicroBatch<'_>) -> bool {
    run.adapters.is_some() || !run.frozen.is_nothing()
}

/// Parameters, whatever the batch, without what runs on them.
pub(super) fn count(model: &TracedModel, run: &MicroBatch<'_>) -> Count {
    let site = Site { sizes: &[], run, asked: None };
    let segments = trace_of(model, run)
        .into_iter()
        .flat_map(|trace| trace.order.iter().filter_map(|kind| trace.kinds.get(*kind as usize)));
    let mut count = Count::default();
    for weight in segments.flat_map(|segment| &segment.weights) {
        count.add(&site.weight(weight), 1);
    }
    count
}

fn assembled(model: &TracedModel, trace: &Trace, site: &Site<'_>, mut made: Vec<PlacedTape>, places: &[usize]) -> Walk {
    let waiting = waiting(trace, &made, places);
    let named = trained::held_by_name(trace, site.run, (&made, places));
    let (Some((first, rest)), count) = (places.split_first(), places.len()) else { return Walk::default() };
    let Some((last, layers)) = rest.split_last() else { return Walk::default() };
    // An end may be what a block is; each block's tape goes where it is needed once.
    let copy = |at: usize| made.get(at).map_or_else(Tape::default, |placed| placed.tape.clone());
    let (first, last) = (copy(*first), copy(*last));
    let mut kinds: Vec<(&'static str, Tape)> = Vec::with_capacity(made.len());
    let mut kind_of = vec![usize::MAX; made.len()];
    let mut order = Vec::with_capacity(layers.len());
    for at in layers {
        if kind_of[*at] == usize::MAX {
            kind_of[*at] = kinds.len();
            let (name, tape) = made.get_mut(*at).map_or_else(Default::default, |placed| {
                (trace.kinds.get(placed.kind as usize), mem::take(&mut placed.tape))
            });
            kinds.push((name.map_or("block", |segment| intern(&segment.name)), tape));
        }
        order.push(kind_of[*at]);
    }
    // The first segment stands before layer 0, the last behind all of them.
    let layer = |place: u32| (place as usize).saturating_sub(1);
    let bytes_of = |shape: &[u32], element: TracedElement| {
        rounded(site.numel(shape).saturating_mul(element_of(element, site.run).bytes()))
    };
    let until = |to: u32| if to as usize + 1 == count { usize::MAX } else { layer(to) };
    let held = |one: HeldByName| Passing {
        from: one.from as usize,
        until: until(one.until),
        bytes: one.bytes,
        is_read: one.is_read,
        came_in: false,
        made_again: false,
        reader: 0,
    };
    let passed = |TracedPassing(from, to, shape, element, known, reader): &TracedPassing| Passing {
        came_in: *known & 2 != 0,
        made_again: *known & 4 != 0,
        reader: layer(*reader),
        ..held(HeldByName { from: *from, until: *to, bytes: bytes_of(shape, *element), is_read: *known & 1 == 0 })
    };
    Walk {
        first,
        kinds,
        order,
        last,
        buffers: buffers(model, site).saturating_add(kept(trace, site)),
        inputs: inputs(model, site),
        pending: waiting
            .map(|(from, to, shape, element)| Pending {
                made_by: layer(*from),
                until: layer(*to),
                bytes: bytes_of(shape, *element),
            })
            .collect(),
        passing: trace.passing.iter().map(passed).chain(named.into_iter().map(held)).collect(),
        ..Walk::default()
    }
}

/// Gradients that wait for other segments, of those that flow in this run.
fn waiting<'a>(
    trace: &'a Trace,
    made: &[PlacedTape],
    places: &[usize],
) -> impl Iterator<Item = &'a (u32, u32, Vec<u32>, TracedElement)> + use<'a> {
    let flows = |(place, id): (u32, u32)| {
        places.get(place as usize).and_then(|at| made.get(*at)).is_none_or(|placed| placed.needs_gradient(id))
    };
    let wait = |at: usize| trace.pending_of.get(at).copied().flatten().is_none_or(flows);
    let kept: Vec<_> = trace.pending.iter().enumerate().filter(|(at, _)| wait(*at)).map(|(_, one)| one).collect();
    kept.into_iter()
}

fn buffers(model: &TracedModel, site: &Site<'_>) -> u64 {
    let one = |element: TracedElement, numel: u64| rounded(numel.saturating_mul(element_of(element, site.run).bytes()));
    model.buffers.iter().fold(0, |sum: u64, (element, numel, times)| {
        // Those of floating point take the type of the weights.
        let narrow = *element == TracedElement::F32 && site.run.types.weight != Element::F32;
        let bytes = if narrow { rounded(numel.saturating_mul(2)) } else { one(*element, *numel) };
        sum.saturating_add(bytes.saturating_mul(*times))
    })
}

/// What modules have names for beyond the step: the next one finds it there.
fn kept(trace: &Trace, site: &Site<'_>) -> u64 {
    let bytes =
        |tensor: &TracedTensor| rounded(site.numel(&tensor.0).saturating_mul(element_of(tensor.1, site.run).bytes()));
    let segments = trace.order.iter().filter_map(|kind| trace.kinds.get(*kind as usize));
    let tensors = segments.flat_map(|segment| &segment.tensors).filter(|tensor| tensor.5 == KEPT);
    let resting = trace.resting.iter().map(|(element, numel, times)| {
        rounded(numel.saturating_mul(element_of(*element, site.run).bytes())).saturating_mul(*times)
    });
    tensors.map(bytes).chain(resting).fold(0, u64::saturating_add)
}

fn inputs(model: &TracedModel, site: &Site<'_>) -> u64 {
    model.inputs.iter().fold(0, |sum: u64, input| {
        // A batch is fp32 where autocast casts it, or FSDP.
        let narrow = input.2 != 0 && input.1 == TracedElement::F32 && site.run.types.autocast.is_none();
        let element = if narrow { site.run.types.weight } else { element_of(input.1, site.run) };
        sum.saturating_add(rounded(site.numel(&input.3).saturating_mul(element.bytes())))
    })
}

/// What a sample is.
pub fn input(model: &TracedModel) -> Input {
    // A decoder's length may be held.
    match (model.varies(SizeAxis::Image), model.has(SizeAxis::Target)) {
        (true, _) => Input::Image(1, model.image.unwrap_or(224), model.image_varies),
        (false, true) => Input::Pair(None, model.longest),
        (false, false) if model.varies(SizeAxis::Sequence) => Input::Tokens(model.longest),
        (false, false) => Input::Tokens(Some(model.longest.unwrap_or(1))),
    }
}

/// Segments between the first and the last.
pub fn layers(model: &TracedModel) -> u64 {
    model.traces.all().next().map_or(0, |trace| trace.order.len().saturating_sub(2) as u64)
}

/// The nearest kind of model that plans have a word for.
pub fn kind(model: &TracedModel) -> ModelType {
    let attends = |causal: bool| {
        let ops = model.traces.all().flat_map(|trace| &trace.kinds).flat_map(|segment| &segment.ops);
        ops.filter_map(|op| op.4.as_ref()).any(|(work, sizes)| {
            *work == TracedWork::Attention && (!causal || sizes.get(4).is_some_and(|at| is_one(model, *at)))
        })
    };
    // diffusers has denoisers, and the autoencoders between their latents and pixels (models/__init__.py).
    let denoises = model.source.starts_with("diffusers") && !model.name.starts_with("Autoencoder");
    match input(model) {
        _ if denoises => ModelType::DiffusionModel,
        Input::Pair(..) => ModelType::TransformerEncoderDecoder,
        Input::Rows => ModelType::Mlp,
        Input::Image(..) | Input::Captioned(_) if attends(false) => ModelType::VisionTransformer,
        Input::Image(..) | Input::Captioned(_) => ModelType::Cnn,
        Input::Tokens(_) if attends(true) => ModelType::TransformerDecoder,
        Input::Tokens(_) => ModelType::TransformerEncoder,
    }
}

fn is_one(model: &TracedModel, at: u32) -> bool {
    model.sizes.get(at as usize).is_some_and(|size| size.as_slice() == [1, 1])
}
