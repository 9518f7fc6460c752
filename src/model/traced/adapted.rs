//! Adapters on the linear layers of a traced model.

use super::super::builder::{Adapters, Builder, Linear, Types};
use super::super::tape::{Flow, Tape, TensorId};
use super::super::weight::Part;
use super::super::work::{MatMul, Work};
use super::trained::part_of;
use crate::framework::Module;
use crate::plan::traced::{Segment, Trace, TracedModel, TracedOp, TracedWork, intern};

/// Modules that an adapter can stand on: the multiplication by a matrix that is no output layer
/// (peft, tuners/tuners_utils.py, `_maybe_include_all_linear_layers`), by its name and its path.
pub fn traced_linear_layers(model: &TracedModel) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    for segment in model.traces.all().flat_map(|trace: &Trace| &trace.kinds) {
        for op in &segment.ops {
            if is_linear(segment, op) {
                let module = (intern(&op.0), intern(&path_of(segment, op)));
                if !found.contains(&module) {
                    found.push(module);
                }
            }
        }
    }
    found
}

/// The path of a layer among `targets` that nothing trained where the model was traced: neither its weight nor anything before it,
/// so that the trace has no backward pass of it.
pub fn untraced_backward(model: &TracedModel, targets: &[&'static str]) -> Option<String> {
    model.traces.all().flat_map(|trace: &Trace| &trace.kinds).find_map(|segment| {
        let is_frozen = |op: &TracedOp| segment.weights.iter().any(|w| w.4 == 0 && is_weight_of(op, &w.0));
        let has_gradient = |id: &u32| segment.tensors.get(*id as usize).is_some_and(|tensor| tensor.4 != 0);
        let mut ops = segment.ops.iter().filter(|op| targets.contains(&intern(&op.0)) && is_linear(segment, op));
        let op = ops.find(|op| is_frozen(op) && !op.6.iter().any(has_gradient))?;
        Some(path_of(segment, op))
    })
}

/// Paths of the convolutions and embeddings of a traced model: peft has adapters for them too (tuners/lora/layer.py,
/// `dispatch_default`), which no tape has.
pub fn traced_other_layers(model: &TracedModel) -> Vec<String> {
    let others = ["Conv1d", "Conv2d", "Conv3d", "Embedding"];
    let segments = model.traces.all().flat_map(|trace: &Trace| &trace.kinds);
    let has_weight = |segment: &Segment, op: &TracedOp| segment.weights.iter().any(|w| is_weight_of(op, &w.0));
    segments
        .flat_map(|segment| segment.ops.iter().map(move |op| (segment, op)))
        .filter(|(segment, op)| others.contains(&op.1.as_str()) && has_weight(segment, op))
        .map(|(segment, op)| path_of(segment, op))
        .collect()
}

fn path_of(segment: &Segment, op: &TracedOp) -> String {
    let path = [segment.path.as_str(), op.0.as_str()];
    path.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

fn is_weight_of(op: &TracedOp, name: &str) -> bool {
    name.strip_suffix(".weight") == Some(op.0.as_str())
}

/// peft has adapters for `nn.Linear` and for GPT-2's `Conv1D`, which is one (tuners/lora/layer.py, `dispatch_default`).
fn is_linear(segment: &Segment, op: &TracedOp) -> bool {
    let is_product = matches!(op.4, Some((TracedWork::Product, _)));
    let weight = segment.weights.iter().find(|weight| is_weight_of(op, &weight.0));
    let inside = |part: Part| !matches!(part, Part::Head | Part::Embedding | Part::Router);
    is_product
        && (op.1.ends_with("Linear") || op.1 == "Conv1D")
        && weight.is_some_and(|weight| weight.1.len() == 2 && inside(part_of(weight.3)))
}

/// Writes the adapter beside the linear layer that was written last, where it gets one. Returns the tensor that takes the
/// place of the layer's output.
pub(super) fn beside(
    tape: &mut Tape,
    (segment, at): (&Segment, usize),
    (types, adapters): (&Types, &Adapters),
    now: impl Fn(u32) -> TensorId,
) -> Option<TensorId> {
    let op = segment.ops.get(at).filter(|op| is_linear(segment, op))?;
    let name = intern(&op.0);
    let Some(Work::Product(MatMul { batch, rows, inner, columns, .. })) = tape.ops.last().map(|op| op.work) else {
        return None;
    };
    if !adapters.targets.contains(&name) {
        return None;
    }
    let (operand, flow) = *op.5.first()?;
    // Under autocast the layer reads a copy; the adapter reads what the module was given.
    let cast = segment.ops[..at].iter().rev().take_while(|before| before.0.starts_with(&op.0));
    let given = cast.filter(|before| before.6.contains(&operand)).find_map(|before| before.5.first());
    let given = now(given.map_or(operand, |(id, _)| *id));
    let out = now(*op.6.first()?);
    let layer = Linear { name, from: inner, to: columns, bias: false, part: Part::Adapter };
    let mut builder = Builder::new(types, Some(adapters));
    builder.tape = std::mem::take(tape);
    let sum = builder.adapted_each(given, out, batch.saturating_mul(rows), layer, (1, 1));
    *tape = builder.tape;
    if flow == VIEW {
        hand_on_views(tape, sum);
    }
    Some(sum)
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
