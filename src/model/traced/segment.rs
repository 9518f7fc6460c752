//! A segment of a traced model as a tape.

use super::super::element::{Element, Group};
use super::super::tape::{Flow, Home, InnerCheckpoint, Spec, Tape, Tensor, TensorId, Unit};
use super::super::walk::MicroBatch;
use super::super::weight::{Part, TiedGrad, Weight};
use super::super::work::{Convolution, MatMul, Scores, Work};
use super::adapted;
use super::copies::Copies;
use super::element_of;
use super::guards::{broadcasts, of_frozen, scratch_of_frozen};
use super::is_frozen;
use super::trained::{Arrival, part_of};
use crate::plan::traced::{
    LASTS, STAYS, Segment, TracedGroup, TracedOp, TracedTensor, TracedWeight, TracedWork, intern,
};

/// Sizes of a run.
pub(super) struct Site<'a> {
    pub sizes: &'a [u64],
    pub run: &'a MicroBatch<'a>,
    /// Rows of the embedding whose output needs a gradient though nothing before it trains.
    pub asked: Option<u64>,
}

/// A segment's tape at one of its places.
#[derive(Debug, Clone)]
pub(super) struct PlacedTape {
    /// Kind of the segment.
    pub kind: u32,
    /// What comes to it.
    pub arrival: Arrival,
    /// What it runs.
    pub tape: Tape,
    taken: Replaced,
}

impl PlacedTape {
    /// Whether a gradient flows to a tensor of the segment, or to what stands in its place.
    pub(super) fn needs_gradient(&self, id: u32) -> bool {
        self.tape.tensors.get(self.now(id).0 as usize).is_none_or(|tensor| tensor.grad)
    }

    /// A tensor of the segment, or what stands in its place.
    pub(super) fn now(&self, id: u32) -> TensorId {
        self.taken.now(id)
    }
}

impl Site<'_> {
    fn size(&self, at: u32) -> u64 {
        self.sizes.get(at as usize).copied().unwrap_or(0)
    }

    /// Elements of a shape.
    pub(super) fn numel(&self, shape: &[u32]) -> u64 {
        shape.iter().fold(1, |product: u64, side| product.saturating_mul(self.size(*side)))
    }

    /// The tape of a segment of that kind, behind which of the tensors that it reads need gradients.
    pub(super) fn placed(&self, kind: u32, segment: &Segment, arrival: Arrival) -> PlacedTape {
        let named = segment.ops.iter().map(|op| op.5.len() + op.6.len() + op.7.len()).sum();
        let mut tape = Tape::with_room_for(segment.tensors.len(), segment.ops.len(), segment.weights.len(), named);
        // Checkpointing does nothing without gradients.
        let runs_backward = segment.ops.iter().flat_map(|op| &op.5).any(|(_, flow)| *flow != 0);
        tape.plain = !segment.block || !runs_backward;
        tape.borrows = arrival.borrows;
        tape.leaves_output = segment.leaves_output;
        tape.shares_gradient = segment.shares_gradient;
        tape.reruns_all = segment.reruns_all;
        tape.input_lasts = segment.input_lasts;
        tape.traced = true;
        let (mut taken, mut copies, mut room) = (Replaced::default(), Copies::default(), Room::default());
        tape.weights.extend(segment.weights.iter().map(|weight| self.weight(weight)));
        for (at, tensor) in (0_u32..).zip(&segment.tensors) {
            let made = self.tensor((at, tensor), &tape, &arrival);
            let id = tape.tensor(made);
            match tensor.5 {
                LASTS => tape.lasting.push(id),
                STAYS => tape.waiting.push(id),
                _ => {}
            }
        }
        let frozen = is_frozen(self.run);
        let adapters = self.run.adapters;
        let mut writer = adapters.map(|adapters| adapted::Writer::new(self.run.types, adapters, &arrival.adapted.ran));
        let mut starts = Vec::with_capacity(segment.ops.len() + 1);
        for (at, op) in segment.ops.iter().enumerate() {
            starts.push(tape.ops.len());
            let asked = frozen && self.is_asked(segment, op);
            if frozen && !asked {
                stop_at_frozen(&mut tape, op, &taken);
            }
            let own = match frozen {
                true => copies.made_again(&mut tape, (segment, at), &arrival),
                false => Vec::new(),
            };
            self.op(&mut tape, op, (frozen, asked), (&taken, &own, &mut room));
            let Some(writer) = &mut writer else { continue };
            if let Some(sum) = writer.beside(&mut tape, (segment, at), |id| taken.now(id)) {
                taken.place(&mut tape, TensorId(op.6[0]), sum);
            }
        }
        starts.push(tape.ops.len());
        let inner = segment.inner.iter().map(|(from, to, all)| InnerCheckpoint {
            from: starts[*from as usize],
            to: starts[*to as usize],
            reruns_all: *all != 0,
        });
        tape.inner = inner.filter(|one| one.from < one.to).collect();
        if let Some(adapters) = adapters {
            adapted::idle(&mut tape, &arrival.adapted.idle, adapters);
        }
        tape.output = segment.output.map(|id| taken.now(id));
        tape.also = segment.also.iter().map(|id| taken.now(*id)).collect();
        tape.for_others = segment.for_others.iter().map(|id| taken.now(*id)).collect();
        tape.also_made_again = segment.also_made_again.iter().map(|id| taken.now(*id)).collect();
        PlacedTape { kind, arrival, tape, taken }
    }

    /// Whether an operator looks up rows of that embedding.
    fn is_asked(&self, segment: &Segment, op: &TracedOp) -> bool {
        let weight = |id: u32| segment.weights.get(segment.tensors.get(id as usize)?.3.checked_sub(3)? as usize);
        let rows = |id: u32| weight(id).filter(|weight| part_of(weight.3) == Part::Embedding)?.1.first().copied();
        self.asked.is_some() && op.2 == "embedding" && op.5.iter().any(|(id, _)| rows(*id) == self.asked)
    }

    pub(super) fn weight(&self, weight: &TracedWeight) -> Weight {
        let TracedWeight(_, shape, _, part, trained, tied, meets, complex) = weight;
        let part = part_of(*part);
        let may_train = self.run.adapters.is_none() && !self.run.frozen.has(part);
        let window = match shape.as_slice() {
            [_, .., rows, columns] if shape.len() > 2 => Some(((*rows).max(1), (*columns).max(1))),
            _ => None,
        };
        Weight {
            numel: shape
                .iter()
                .fold(if *complex == 0 { 1 } else { 2 }, |product: u64, side| product.saturating_mul(*side)),
            complex: *complex != 0,
            copies: 1,
            active: 1,
            part,
            trained: *trained == 1 && may_train,
            unreached: *trained == 2 && may_train,
            tied: *tied != 0,
            rows: shape.first().copied().unwrap_or(1),
            window,
            meets: match meets {
                1 => TiedGrad::Later,
                2 => TiedGrad::Waiting { view: false },
                _ => TiedGrad::Nothing,
            },
        }
    }

    fn tensor(&self, (at, tensor): (u32, &TracedTensor), tape: &Tape, arrival: &Arrival) -> Tensor {
        let TracedTensor(shape, element, group, home, grad, cached, view_of) = tensor;
        let (home, grad) = match home {
            0 => (Home::Local, *grad != 0),
            1 if view_of.is_some() => (Home::Local, *grad != 0 && arrival.reaches),
            1 => (Home::Input, *grad != 0 && arrival.reaches),
            2 => (Home::Elsewhere, *grad != 0 && arrival.has(at) && view_of.is_none_or(|root| trains(tape, root))),
            at => (Home::Weight(at - 3), tape.weights[(at - 3) as usize].trained),
        };
        let numel = self.numel(shape);
        let (element, numel) = match home {
            Home::Weight(at) if tape.weights[at as usize].complex => (self.run.types.weight, numel.saturating_mul(2)),
            Home::Weight(_) => (self.run.types.weight, numel),
            _ => (element_of(*element, self.run), numel),
        };
        Tensor {
            numel,
            element,
            group: group_of(*group),
            home,
            grad,
            cached: *cached == 1 && (*group == TracedGroup::KvCache || self.run.types.weight_cache),
            view_of: view_of.map(TensorId),
        }
    }

    fn op(
        &self,
        tape: &mut Tape,
        op: &TracedOp,
        (frozen, asked): (bool, bool),
        (taken, own, room): (&Replaced, &[(u32, TensorId)], &mut Room),
    ) {
        let TracedOp(
            name,
            _,
            _,
            unit,
            work,
            read,
            made,
            saved,
            before,
            behind,
            forward,
            backward,
            launches,
            each,
            stays,
        ) = op;
        let flow = |flow: u8| match flow {
            0 => Flow::Stop,
            1 => Flow::Pass,
            2 => Flow::New,
            _ => Flow::View,
        };
        let Room { inputs, outputs, kept } = room.emptied();
        let now = |id: u32| own.iter().find(|(copy, _)| *copy == id).map_or_else(|| taken.now(id), |(_, made)| *made);
        inputs.extend(read.iter().map(|(id, way)| (now(*id), flow(*way))));
        outputs.extend(made.iter().copied().map(TensorId));
        kept.extend(saved.iter().map(|id| now(*id)));
        let work = self.work(work.as_ref());
        let (mut flops, mut scratch) = (self.size(*backward) as f64, self.size(*behind));
        if frozen {
            let each = (self.size(*forward) as f64, flops);
            let now = of_frozen(tape, &op.2, (&work, each), inputs, kept);
            flops *= now.unwrap_or(0.0);
            scratch = now.map_or(0, |_| scratch_of_frozen(tape, &op.2, (inputs, outputs), scratch));
        }
        if asked {
            // A leaf: what adds up its gradient holds it (torch/csrc/autograd/functions/accumulate_grad.h, `variable`).
            kept.extend(made.iter().copied().map(TensorId));
        }
        tape.push(&Spec {
            name: intern(name),
            unit: self.unit(unit, &work),
            work,
            inputs,
            outputs,
            saved: kept,
            scratch_forward: self.size(*before),
            scratch_backward: scratch,
            flops: (self.size(*forward) as f64, flops),
            elementwise: *each != 0,
            stays: *stays != 0,
            broadcasts: broadcasts(&op.2),
            launches: u64::from(*launches),
        });
    }

    fn unit(&self, unit: &str, work: &Work) -> Unit {
        let (kind, element) = unit.split_once(':').unwrap_or((unit, ""));
        let element = match element {
            "f32" => Element::F32,
            "bf16" => element_of(crate::plan::traced::TracedElement::Bf16, self.run),
            "f16" => Element::F16,
            _ => self.run.compute(),
        };
        match kind {
            "matrix" if matches!(work, Work::Convolution(_)) => Unit::Convolution(element),
            "matrix" => Unit::Matrix(element),
            "attention" => Unit::Attention(element),
            _ => Unit::Vector,
        }
    }

    fn work(&self, work: Option<&(TracedWork, Vec<u32>)>) -> Work {
        let Some((kind, sizes)) = work else { return Work::Elements };
        let size = |at: usize| sizes.get(at).map_or(0, |size| self.size(*size));
        match kind {
            TracedWork::Product => {
                Work::Product(MatMul { batch: size(0), rows: size(1), inner: size(2), columns: size(3), layer: false })
            }
            TracedWork::Convolution => Work::Convolution(Convolution {
                positions: size(0),
                from: size(1),
                to: size(2),
                window: size(3),
                strided: size(4) != 0,
            }),
            TracedWork::Attention => Work::Attention(Scores {
                heads: size(0),
                queries: size(1),
                sharing: size(2).max(1),
                dim: size(3),
                visible: if size(4) != 0 { 0.5 } else { 1.0 },
            }),
            TracedWork::Rows => Work::Rows,
            TracedWork::Normalized => Work::Normalized,
        }
    }
}

/// What an operator names, in the memory of the one before: a walk asks for it once a segment, not for each operator.
#[derive(Debug, Default)]
struct Room {
    inputs: Vec<(TensorId, Flow)>,
    outputs: Vec<TensorId>,
    kept: Vec<TensorId>,
}

impl Room {
    fn emptied(&mut self) -> &mut Self {
        self.inputs.clear();
        self.outputs.clear();
        self.kept.clear();
        self
    }
}

/// Tensors in whose place another stands for all that comes later.
#[derive(Debug, Clone, Default)]
struct Replaced(Vec<(TensorId, TensorId)>);

impl Replaced {
    /// The tensor that is meant by that of the trace.
    fn now(&self, id: u32) -> TensorId {
        let own = TensorId(id);
        self.0.iter().find(|(old, _)| *old == own).map_or(own, |(_, new)| *new)
    }

    /// Puts `new` in the place of `old`, for its views too.
    fn place(&mut self, tape: &mut Tape, old: TensorId, new: TensorId) {
        self.0.push((old, new));
        for tensor in &mut tape.tensors {
            if tensor.view_of == Some(old) {
                tensor.view_of = Some(new);
            }
        }
    }
}

/// What an operator makes of nothing that is trained needs no gradient, and autocast's cache keeps no copy of it
/// (PyTorch, aten/src/ATen/autocast_mode.cpp, `cached_cast`).
fn stop_at_frozen(tape: &mut Tape, op: &TracedOp, taken: &Replaced) {
    let trained = op.5.iter().any(|(id, flow)| *flow != 0 && tape.get(taken.now(*id)).grad);
    if !trained {
        for id in &op.6 {
            let made = &mut tape.tensors[*id as usize];
            made.grad = false;
            made.cached = false;
        }
    }
}

/// Whether a gradient may flow to a use of that tensor: to a weight's where the weight is trained.
fn trains(tape: &Tape, root: u32) -> bool {
    match tape.tensors.get(root as usize).map(|tensor| tensor.home) {
        Some(Home::Weight(at)) => tape.weights.get(at as usize).is_none_or(|weight| weight.trained),
        _ => true,
    }
}

const fn group_of(group: TracedGroup) -> Group {
    match group {
        TracedGroup::Residual => Group::Residual,
        TracedGroup::Norm => Group::Norm,
        TracedGroup::Attention => Group::Attention,
        TracedGroup::Mlp => Group::Mlp,
        TracedGroup::Experts => Group::Experts,
        TracedGroup::Embedding => Group::Embedding,
        TracedGroup::Convolution => Group::Convolution,
        TracedGroup::WeightCopy => Group::WeightCopy,
        TracedGroup::Logits => Group::Logits,
        TracedGroup::KvCache => Group::KvCache,
    }
}
