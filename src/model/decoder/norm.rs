//! Norms.

use super::DecoderContext;
use crate::framework::RmsNorm;
use crate::model::builder::{Builder, Stash};
use crate::model::element::{Element, Group};
use crate::model::rules::ClassNorm;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;
use crate::model::work::Work;
use crate::plan::keywords::Norm;

impl DecoderContext<'_> {
    /// A norm over the last `width` channels of `x`.
    pub fn norm(&self, b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
        b.group = Group::Norm;
        let liger = match self.run.modules.rms_norm.is {
            RmsNorm::Liger => Some(Flow::Pass),
            RmsNorm::LigerApart => Some(Flow::New),
            _ => None,
        };
        if let Some(flow) = liger.filter(|_| self.d.norm == Norm::Rmsnorm) {
            return native_norm(b, (x, flow), name, width, 1, 1);
        }
        match self.class_rules().norm {
            ClassNorm::Usual => {}
            ClassNorm::Wide => return wide_rms_norm(b, x, name, width),
            ClassNorm::ComposedLayer => return composed_layer_norm(b, x, name, width),
            ClassNorm::OnePlusLayer => return one_plus_layer_norm(b, x, name, width),
        }
        match (self.d.norm, self.run.modules.rms_norm.is) {
            (Norm::Layernorm, _) if !self.d.norm_weight => bare_norm(b, x, name, width),
            (Norm::Layernorm, _) => layer_norm(b, x, name, width, self.d.norm_bias),
            (Norm::Rmsnorm, RmsNorm::Fused | RmsNorm::Liger | RmsNorm::LigerApart) => {
                native_norm(b, (x, Flow::New), name, width, 1, 1)
            }
            (Norm::Rmsnorm, RmsNorm::Eager) => eager_rms_norm(b, x, name, width),
            (Norm::Rmsnorm, RmsNorm::EagerWide) => wide_rms_norm(b, x, name, width),
            (Norm::Rmsnorm, RmsNorm::EagerOnePlus) => one_plus_rms_norm(b, x, name, width),
        }
    }
}

/// `native_layer_norm`: saves its input, the mean and the reciprocal deviation (fp32, one each a row).
pub fn layer_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64, bias: bool) -> TensorId {
    // autocast lists layer_norm for fp32.
    let x = b.upper(name, x);
    native_norm(b, (x, Flow::New), name, width, if bias { 2 } else { 1 }, 2)
}

/// `F.layer_norm` by 1 + weight, of what autocast has cast down (models/nemotron, `NemotronLayerNorm1P`).
fn one_plus_layer_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let x = b.lower(name, x);
    native_norm(b, (x, Flow::New), name, width, 2, 2)
}

/// `(weight32 * ((x32 - mean) * rsqrt(var + eps))).to(x.dtype)` (models/cohere, `CohereLayerNorm`).
fn composed_layer_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let element = b.element(x);
    let wide = b.cast(name, x, Element::F32);
    let rows = b.numel(x) / width.max(1);
    let grad = b.needs_grad(x);
    let mean = b.make(rows, Element::F32, grad);
    b.op(&Spec { name, inputs: &[(wide, Flow::New)], outputs: &[mean], elementwise: true, ..Spec::default() });
    let centred = b.pointwise(name, wide, Stash::Nothing);
    let square = b.pow(name, centred);
    let variance = b.make(rows, Element::F32, grad);
    b.op(&Spec { name, inputs: &[(square, Flow::New)], outputs: &[variance], elementwise: true, ..Spec::default() });
    let shifted = b.pointwise(name, variance, Stash::Nothing);
    let deviation = b.pointwise(name, shifted, Stash::Output);
    let again = b.pointwise(name, wide, Stash::Nothing);
    let normed = b.mul(name, again, deviation);
    let weight = b.weight(Part::Norm, width, 1);
    let weight = b.cast(name, weight, Element::F32);
    let scaled = b.mul(name, weight, normed);
    b.cast(name, scaled, element)
}

/// A norm of an fp32 copy, without weights (models/olmo/modeling_olmo.py, `OlmoLayerNorm`).
fn bare_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let element = b.element(x);
    let wide = b.cast(name, x, Element::F32);
    let normed = native_norm(b, (wide, Flow::New), name, width, 0, 2);
    b.cast(name, normed, element)
}

/// One operator: saves its input, the mean and the reciprocal deviation.
fn native_norm(
    b: &mut Builder<'_>,
    (x, flow): (TensorId, Flow),
    name: &'static str,
    width: u64,
    vectors: u64,
    statistics: u64,
) -> TensorId {
    let weight = (vectors > 0).then(|| b.weights(Part::Norm, width, 1, vectors, vectors));
    let (numel, element) = (b.numel(x), b.element(x));
    let rows = numel / width.max(1);
    let grad = b.needs_grad(x) || weight.is_some_and(|weight| b.needs_grad(weight));
    let out = b.make(numel, element, grad);
    let first = b.make(rows, Element::F32, false);
    let second = b.make(if statistics > 1 { rows } else { 0 }, Element::F32, false);
    let saved = [x, first, second];
    let inputs = [(x, flow), (weight.unwrap_or(x), Flow::New)];
    b.op(&Spec {
        name,
        inputs: if weight.is_some() { &inputs } else { &inputs[..1] },
        outputs: &[out, first, second],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        work: Work::Rows,
        ..Spec::default()
    });
    out
}

/// `weight * (x32 * rsqrt(mean(x32^2) + eps)).to(x.dtype)`.
fn eager_rms_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let element = b.element(x);
    let normed = normalised(b, x, name, width);
    let back = b.cast(name, normed, element);
    let weight = b.weight(Part::Norm, width, 1);
    b.mul(name, weight, back)
}

/// `(x32 * rsqrt(mean(x32^2) + eps)).to(x.dtype)` (models/llama4, `Llama4TextL2Norm`).
pub(super) fn bare_rms_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let element = b.element(x);
    let normed = normalised(b, x, name, width);
    b.cast(name, normed, element)
}

/// `(weight * x32 * rsqrt(mean(x32^2) + eps)).to(x.dtype)`.
fn wide_rms_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let element = b.element(x);
    let normed = normalised(b, x, name, width);
    let weight = b.weight(Part::Norm, width, 1);
    let scaled = b.mul(name, weight, normed);
    b.cast(name, scaled, element)
}

/// `(x32 * rsqrt(mean(x32^2) + eps) * (1 + weight32)).to(x.dtype)`.
fn one_plus_rms_norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let element = b.element(x);
    let normed = normalised(b, x, name, width);
    let weight = b.weight(Part::Norm, width, 1);
    let wide = b.cast(name, weight, Element::F32);
    let one_plus = b.pointwise(name, wide, Stash::Nothing);
    let scaled = b.mul(name, normed, one_plus);
    b.cast(name, scaled, element)
}

fn normalised(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    let wide = b.cast(name, x, Element::F32);
    let square = b.pow(name, wide);
    let rows = b.numel(x) / width.max(1);
    let grad = b.needs_grad(x);
    let mean = b.make(rows, Element::F32, grad);
    b.op(&Spec { name, inputs: &[(square, Flow::New)], outputs: &[mean], elementwise: true, ..Spec::default() });
    let shifted = b.pointwise(name, mean, Stash::Nothing);
    let deviation = b.pointwise(name, shifted, Stash::Output);
    b.mul(name, wide, deviation)
}
