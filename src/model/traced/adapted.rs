//! Adapters on the linear layers of a traced model.

use super::super::builder::{Adapters, Builder, Linear, Types};
use super::super::element::Group;
use super::super::tape::{Flow, Home, Tape, Tensor, TensorId};
use super::super::weight::{Part, Weight};
use super::super::work::{MatMul, Work};
use crate::plan::traced::{Segment, TracedOp, intern};

/// A linear layer of a segment that an adapter stands on: its operator, and whether an earlier segment runs the layer too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AdaptedLayer {
    pub op: u32,
    pub ran_before: bool,
}

/// Adapters as they are written to a segment's tape.
pub(super) struct Writer<'a> {
    pub types: &'a Types,
    pub adapters: &'a Adapters,
    pub layers: &'a [AdaptedLayer],
    /// The matrices of layers that run more than once, as they are read.
    made: Vec<(&'a str, Matrices)>,
}

/// The two matrices of an adapter, and the layer's uses that are still to come.
#[derive(Debug, Clone, Copy)]
struct Matrices {
    down: TensorId,
    up: TensorId,
    uses_left: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(types: &'a Types, adapters: &'a Adapters, layers: &'a [AdaptedLayer]) -> Self {
        Self { types, adapters, layers, made: Vec::new() }
    }

    /// Writes the adapter beside the linear layer that was written last, where it gets one. Returns the tensor that takes the
    /// place of the layer's output.
    pub(super) fn beside(
        &mut self,
        tape: &mut Tape,
        (segment, at): (&'a Segment, usize),
        now: impl Fn(u32) -> TensorId,
    ) -> Option<TensorId> {
        let found = self.layers.iter().find(|layer| layer.op as usize == at)?;
        let op = segment.ops.get(at)?;
        let Some(Work::Product(MatMul { batch, rows, inner, columns, .. })) = tape.ops.last().map(|op| op.work) else {
            return None;
        };
        let (operand, flow) = *op.5.first()?;
        // Under autocast the layer reads a copy; the adapter reads what the module was given.
        let own = segment.ops[..at].iter().rev().take_while(|before| before.0.starts_with(&op.0));
        let makers = own.filter(|before| before.6.contains(&operand));
        // Rows that do not lie one behind the other are copied for each matrix that reads them, the adapter's as the layer's
        // (aten/src/ATen/native/LinearAlgebra.cpp, `_matmul_impl`, folds them by `reshape`).
        let is_copied = makers.clone().any(|before| before.2 == "clone");
        let given = makers.clone().find_map(|before| before.5.first());
        let given = now(given.map_or(operand, |(id, _)| *id));
        let out = now(*op.6.first()?);
        let layer = Linear { name: intern(&op.0), from: inner, to: columns, bias: false, part: Part::Adapter };
        let mut builder = Builder::new(self.types, Some(self.adapters));
        builder.tape = std::mem::take(tape);
        let given = if is_copied { builder.copy("lora.copy", given) } else { given };
        let matrices = self.matrices(&mut builder, (segment, op), layer, found.ran_before);
        let sum = builder.adapted_by(given, out, batch.saturating_mul(rows), layer, matrices, 1);
        *tape = builder.tape;
        if flow == VIEW {
            hand_on_views(tape, sum);
        }
        Some(sum)
    }

    /// The matrices of a layer's adapter, for one of its uses. One layer has one adapter, however often it runs.
    fn matrices(
        &mut self,
        builder: &mut Builder<'_>,
        (segment, op): (&Segment, &'a TracedOp),
        layer: Linear,
        ran_before: bool,
    ) -> (TensorId, TensorId) {
        builder.borrows_weights = ran_before;
        let at = self.made.iter().position(|(name, _)| *name == op.0).unwrap_or_else(|| {
            let same = |layer: &&AdaptedLayer| segment.ops.get(layer.op as usize).is_some_and(|other| other.0 == op.0);
            builder.tape.adapted.push(layer.name);
            let [down, up] =
                [(self.adapters.rank, layer.from), (layer.to, self.adapters.rank)].map(|(rows, columns)| {
                    match ran_before {
                        true => elsewhere(builder, rows.saturating_mul(columns), self.adapters, None),
                        false => builder.weights(Part::Adapter, rows, columns, 1, 1),
                    }
                });
            let [down, up] = [("lora.a", down), ("lora.b", up)].map(|(name, id)| builder.lower(name, id));
            let uses_left = self.layers.iter().filter(same).count();
            self.made.push((op.0.as_str(), Matrices { down, up, uses_left }));
            self.made.len() - 1
        });
        let Matrices { down, up, uses_left } = &mut self.made[at].1;
        *uses_left = uses_left.saturating_sub(1);
        if *uses_left == 0 {
            return (*down, *up);
        }
        // A use before the last makes a part of the gradient that goes at once; of a copy's it is the copy's.
        let (down, up) = (*down, *up);
        let part = |id: TensorId, builder: &mut Builder<'_>| match builder.tape.get(id).home {
            Home::Weight(_) => elsewhere(builder, builder.tape.get(id).numel, self.adapters, Some(id)),
            _ => id,
        };
        (part(down, builder), part(up, builder))
    }
}

/// A matrix, or a part of its gradient, of an adapter that another tape or a later use has.
fn elsewhere(builder: &mut Builder<'_>, numel: u64, adapters: &Adapters, view_of: Option<TensorId>) -> TensorId {
    let (element, group, home) = (adapters.element, Group::WeightCopy, Home::Elsewhere);
    builder.tape.tensor(Tensor { numel, element, group, home, grad: true, cached: false, view_of })
}

/// Adapters that no gradient reaches.
pub(super) fn idle(tape: &mut Tape, layers: &[(u64, u64)], adapters: &Adapters) {
    for (to, from) in layers {
        for (rows, columns) in [(adapters.rank, *from), (*to, adapters.rank)] {
            let weight = Weight { unreached: true, ..Weight::matrix(Part::Adapter, false, rows, columns) };
            tape.weight(weight, adapters.element);
        }
    }
}

/// The way of a gradient that is new and handed on as a view.
const VIEW: u8 = 3;

/// Where rows of several sides are flattened for a layer's matrix, they are for the adapter's: its gradient is a view as the layer's
/// own, to which PyTorch adds no other in place (aten/src/ATen/native/Linear.cpp; torch/csrc/autograd/input_buffer.cpp).
fn hand_on_views(tape: &mut Tape, sum: TensorId) {
    let made = tape.ops.iter().rposition(|op| tape.ids(op.outputs).contains(&sum));
    let first = tape.ops[..made.unwrap_or(0)].iter().rposition(|op| op.name == "lora.a");
    let Some(span) = first.map(|at| tape.ops[at].inputs.range()) else { return };
    for flow in tape.flows[span].iter_mut().filter(|flow| **flow == Flow::New).take(1) {
        *flow = Flow::View;
    }
}
