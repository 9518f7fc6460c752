//! Mamba as transformers' classes train it with the kernels of mamba-ssm and causal-conv1d: one function from a copy of what the
//! input matrix gave to the output (transformers 4.57.6, models/mamba/modeling_mamba.py, `MambaMixer.cuda_kernels_forward`;
//! mamba-ssm 2.3.2, ops/selective_scan_interface.py, `MambaInnerFn`). It keeps that copy, the projections, the states at every
//! 2048th token and what the scan gave, and makes the convolution and the time steps again.

use super::DecoderContext;
use super::attention::product;
use super::mamba::{OutputMatrix, cast_within, negative_exp};
use crate::model::architecture::{ScanNorms, StateSpace};
use crate::model::builder::{Builder, Linear};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId, Unit};
use crate::model::weight::Part;
use crate::model::work::{MatMul, Work};

/// Tokens from one state that is kept to the next (csrc/selective_scan/selective_scan.cpp, `selective_scan_fwd`).
const SPAN: u64 = 2048;

/// Elements of its tensors over all tokens.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub samples: u64,
    pub rows: u64,
    pub values: u64,
    /// What goes into the state, or is read from it.
    pub keys: u64,
    /// Time steps of a low rank, and both of the former.
    projected: u64,
    pub states: u64,
    pub rank: u64,
}

/// What a layer's weights are to the scan.
struct Weights {
    filter: TensorId,
    filter_bias: Option<TensorId>,
    project: TensorId,
    step: TensorId,
    step_bias: TensorId,
    decay: TensorId,
    skip: TensorId,
}

impl DecoderContext<'_> {
    pub(super) fn scan_of_channels(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        space: &StateSpace,
        (rank, norms): (u64, ScanNorms),
    ) -> TensorId {
        let (samples, length) = (self.run.batch, self.run.local_sequence());
        let rows = samples.saturating_mul(length);
        let columns = rank.saturating_add(space.state.saturating_mul(2));
        let s = Sizes {
            samples,
            rows,
            values: rows.saturating_mul(space.inner),
            keys: rows.saturating_mul(space.state),
            projected: rows.saturating_mul(columns),
            states: product(&[samples, space.inner, length.div_ceil(SPAN), space.state, 2]),
            rank,
        };
        if norms == ScanNorms::Own {
            return self.scan_in_modules(b, x, space, s);
        }
        let (from, to, part) = (self.d.hidden, space.projected(), Part::Attention);
        let all = b.linear(x, rows, Linear { name: "mamba.in_proj", from, to, bias: space.in_bias, part });
        b.held.push(all);
        // Along tokens, as the kernels want it.
        let turned = b.reordered("mamba.transpose", all);
        let weights = channel_weights(b, space, s);
        let given = OutputMatrix::of(b, self.d.hidden, space);
        let out = scanned(b, turned, (&weights, &given), space, s);
        let out = given.multiplied(b, out, rows);
        b.returns("attention.return");
        out
    }
}

fn channel_weights(b: &mut Builder<'_>, space: &StateSpace, s: Sizes) -> Weights {
    let part = Part::Attention;
    let filter = b.weight(Part::Convolution, space.inner, space.kernel);
    b.window((1, space.kernel));
    let filter_bias = space.conv_bias.then(|| b.weight(Part::Convolution, space.inner, 1));
    let columns = s.rank.saturating_add(space.state.saturating_mul(2));
    let project = cast_within(b, part, (columns, space.inner));
    let step = cast_within(b, part, (space.inner, s.rank));
    let step_bias = b.weight(part, space.inner, 1);
    let rate = b.weight(part, space.inner, space.state);
    let skip = b.weight(part, space.inner, 1);
    let decay = negative_exp(b, rate);
    let [step_bias, skip] = [step_bias, skip].map(|weight| b.cast("mamba.cast", weight, Element::F32));
    Weights { filter, filter_bias, project, step, step_bias, decay, skip }
}

/// Convolution, projections and scan.
fn scanned(
    b: &mut Builder<'_>,
    all: TensorId,
    (weights, given): (&Weights, &OutputMatrix),
    space: &StateSpace,
    s: Sizes,
) -> (TensorId, TensorId) {
    let Weights { filter, filter_bias, project, step, step_bias, decay, skip } = *weights;
    let element = b.element(all);
    let mut inputs = vec![all, filter, project, step, step_bias, decay, skip, given.weight];
    inputs.extend([filter_bias, given.bias].into_iter().flatten());
    let grad = inputs.iter().any(|id| b.needs_grad(*id));
    let out = b.make(s.rows.saturating_mul(given.columns), b.element(given.weight), grad);
    let mut keep = |numel: u64, element: Element| b.make(numel, element, false);
    let kept = [
        keep(s.projected, element),
        keep(s.keys, element),
        keep(s.keys, element),
        keep(s.states, Element::F32),
        keep(s.values, element),
    ];
    let mut saved = inputs.clone();
    saved.extend(kept);
    // What the gate gave, which the output matrix reads.
    let gated = keep(s.values, element);
    let mark = b.make(1, Element::F32, grad);
    let mut outputs = vec![out, mark, gated];
    outputs.extend(kept);
    let flows: Vec<(TensorId, Flow)> = inputs.iter().map(|id| (*id, Flow::New)).collect();
    let of = |numel: u64| numel.saturating_mul(element.bytes());
    // The convolution and time steps; norms have run before results are there. Backward both again, their gradients, what the gate gave and
    // its gradient, and a copy of it where there are several samples; those of what goes into states are in fp32 first.
    let copies = 6 + u64::from(s.samples > 1);
    let narrow = if element.bytes() < 4 { of(s.keys) * 2 } else { 0 };
    let matrices = |columns: u64| 2.0 * s.rows as f64 * space.inner as f64 * columns as f64;
    let (projection, steps) = (matrices(s.rank + 2 * space.state), matrices(s.rank));
    let convolution = matrices(space.kernel);
    b.op(&Spec {
        name: "mamba.scan",
        unit: Unit::Matrix(element),
        work: Work::Product(MatMul { batch: 1, rows: s.rows, inner: space.inner, columns: s.rank, layer: false }),
        inputs: &flows,
        outputs: &outputs,
        saved: if grad { &saved } else { &[] },
        scratch_forward: of(s.values).saturating_mul(2),
        scratch_backward: of(s.values)
            .saturating_mul(copies)
            .saturating_add(s.keys.saturating_mul(8))
            .saturating_add(narrow),
        flops: (projection + steps + convolution, 2.0 * projection + 3.0 * steps + 3.0 * convolution),
        ..Spec::default()
    });
    (out, mark)
}
