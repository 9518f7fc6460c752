//! Mamba written out in modules, with norms over the time step and both projections (transformers 4.57.6,
//! models/jamba/modeling_jamba.py, `JambaMambaMixer.cuda_kernels_forward`): causal-conv1d's convolution and mamba-ssm's scan
//! (mamba-ssm 2.3.2, ops/selective_scan_interface.py, `SelectiveScanFn`), which keeps copies of all that it reads.

use super::DecoderContext;
use super::mamba::negative_exp;
use super::selective_scan::Sizes;
use crate::model::architecture::StateSpace;
use crate::model::builder::{Builder, Linear};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;

/// What the scan reads.
struct Inputs {
    values: TensorId,
    steps: TensorId,
    before: TensorId,
    after: TensorId,
    gate: TensorId,
    decay: TensorId,
    skip: TensorId,
}

impl DecoderContext<'_> {
    pub(super) fn scan_in_modules(&self, b: &mut Builder<'_>, x: TensorId, space: &StateSpace, s: Sizes) -> TensorId {
        let (hidden, inner, part) = (self.d.hidden, space.inner, Part::Attention);
        let linear = |name, from, to, bias| Linear { name, from, to, bias, part };
        let all = b.linear(x, s.rows, linear("mamba.in_proj", hidden, inner.saturating_mul(2), space.in_bias));
        let [values, gate] = b.split("mamba.split", all, [s.values; 2]);
        let values = along_tokens(b, values, space, s);
        b.held.extend([all, values]);
        let columns = s.rank.saturating_add(space.state.saturating_mul(2));
        let projected = b.linear(values, s.rows, linear("mamba.x_proj", inner, columns, false));
        let low = s.rows.saturating_mul(s.rank);
        let [steps, before, after] = b.split("mamba.split", projected, [low, s.keys, s.keys]);
        let steps = self.norm(b, steps, "mamba.norm", s.rank);
        let [before, after] = [before, after].map(|part| self.norm(b, part, "mamba.norm", space.state));
        b.group = Group::Attention;
        let steps = b.linear(steps, s.rows, linear("mamba.dt_proj", s.rank, inner, true));
        b.held.extend([steps, before, after]);
        let rate = b.weight(part, inner, space.state);
        let skip = b.weight(part, inner, 1);
        let decay = negative_exp(b, rate);
        let skip = b.cast("mamba.cast", skip, Element::F32);
        let out = scanned(b, &Inputs { values, steps, before, after, gate, decay, skip }, s);
        // Transposed for the output matrix: a copy, unless there is one sample.
        b.held.push(out);
        let out = if s.samples > 1 { b.copy("mamba.transpose", out) } else { out };
        let out = b.linear(out, s.rows, linear("mamba.out_proj", inner, hidden, space.out_bias));
        b.returns("attention.return");
        out
    }
}

/// The convolution with its SiLU, which keeps its input (causal-conv1d 1.6, `CausalConv1dFn`; autocast does not reach into it).
fn along_tokens(b: &mut Builder<'_>, x: TensorId, space: &StateSpace, s: Sizes) -> TensorId {
    let weight = b.weight(Part::Convolution, space.inner, space.kernel);
    b.window((1, space.kernel));
    let mut inputs = vec![(x, Flow::New), (weight, Flow::New)];
    if space.conv_bias {
        inputs.push((b.weight(Part::Convolution, space.inner, 1), Flow::New));
    }
    let grad = b.needs_grad(x) || b.needs_grad(weight);
    let (numel, element) = (b.numel(x), b.element(x));
    let out = b.make(numel, element, grad);
    let flops = 2.0 * s.values as f64 * space.kernel as f64;
    let saved = [x, weight];
    b.op(&Spec {
        name: "mamba.conv",
        inputs: &inputs,
        outputs: &[out],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        flops: (flops, 3.0 * flops),
        ..Spec::default()
    });
    out
}

/// The scan: what it reads it makes contiguous along tokens and keeps; backward also the gradient that comes in.
fn scanned(b: &mut Builder<'_>, read: &Inputs, s: Sizes) -> TensorId {
    let Inputs { values, steps, before, after, gate, decay, skip } = *read;
    let element = b.element(values);
    let inputs = [values, steps, before, after, gate, decay, skip];
    let grad = inputs.iter().any(|id| b.needs_grad(*id));
    let out = b.make(s.values, element, grad);
    let mut keep = |numel: u64, element: Element| b.make(numel, element, false);
    let kept = [
        keep(s.values, element),
        keep(s.values, element),
        keep(s.values, element),
        keep(s.keys, element),
        keep(s.keys, element),
        keep(s.states, Element::F32),
        keep(s.values, element),
    ];
    let mut saved = kept.to_vec();
    saved.extend([decay, skip]);
    let mut outputs = vec![out];
    outputs.extend(kept);
    let narrow = if element.bytes() < 4 { s.keys.saturating_mul(8) } else { 0 };
    b.op(&Spec {
        name: "mamba.scan",
        inputs: &inputs.map(|id| (id, Flow::New)),
        outputs: &outputs,
        saved: if grad { &saved } else { &[] },
        scratch_backward: s.values.saturating_mul(element.bytes()).saturating_add(narrow),
        elementwise: true,
        ..Spec::default()
    });
    out
}
