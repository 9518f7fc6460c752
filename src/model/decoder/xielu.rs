//! Apertus' activation as Python writes it (transformers 4.57.6, activations.py, `XIELUActivation._xielu_python`): both
//! branches are computed for all elements, and a mask picks one. The CUDA kernel of its authors is not known here.

use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;

/// `where(x > 0, a_p x^2 + b x, (expm1(min(x, e)) - x) a_n + b x)`, whose two numbers a_p and a_n are trained.
pub(super) fn xielu(b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
    let slope = |b: &mut Builder<'_>| {
        let own = b.weight(Part::Mlp, 1, 1);
        let own = b.upper(name, own);
        b.pointwise(name, own, Stash::Input)
    };
    let (rising, falling) = (slope(b), slope(b));
    let positive = b.make(b.numel(x), Element::Bool, false);
    b.op(&Spec { name, inputs: &[(x, Flow::Stop)], outputs: &[positive], elementwise: true, ..Spec::default() });
    let scaled = b.mul(name, rising, x);
    let square = b.mul(name, scaled, x);
    let line = b.pointwise(name, x, Stash::Nothing);
    let above = b.add(name, square, line);
    let least = b.pointwise(name, x, Stash::Input);
    let least = b.upper(name, least);
    let curve = b.pointwise(name, least, Stash::Output);
    let bent = b.add(name, curve, x);
    let bent = b.mul(name, bent, falling);
    let line = b.pointwise(name, x, Stash::Nothing);
    let below = b.add(name, bent, line);
    let element = b.element(above).promoted(b.element(below));
    let grad = b.needs_grad(above) || b.needs_grad(below);
    let out = b.make(b.numel(x), element, grad);
    let saved = [positive];
    b.op(&Spec {
        name,
        inputs: &[(above, Flow::New), (below, Flow::New)],
        outputs: &[out],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        ..Spec::default()
    });
    out
}
