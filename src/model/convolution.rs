//! Convolutions as operators.

use super::builder::Builder;
use super::element::Group;
use super::tape::{Flow, Spec, TensorId, Unit};
use super::weight::Part;
use super::work::{Convolution, Work};

/// A convolution.
#[derive(Debug, Clone, Copy)]
pub struct Conv {
    /// Module name.
    pub name: &'static str,
    /// Channels of the input.
    pub from: u64,
    /// Channels of the output.
    pub to: u64,
    /// Elements of the window.
    pub kernel: u64,
    /// Whether it has a bias.
    pub bias: bool,
    /// Positions of the output, over all samples.
    pub positions: u64,
}

/// `convolution`: saves its input and its weight. autocast takes it to 16 bit.
pub fn conv(b: &mut Builder<'_>, x: TensorId, c: Conv) -> TensorId {
    let weight = b.weight(Part::Convolution, c.to, c.from.saturating_mul(c.kernel));
    let side = c.kernel.isqrt();
    // A window that is no square lies along a sequence.
    b.window(if side * side == c.kernel { (side, side) } else { (c.from, c.kernel) });
    let bias = c.bias.then(|| b.weight(Part::Convolution, c.to, 1));
    let x = b.lower(c.name, x);
    let bias = bias.map(|bias| b.lower(c.name, bias));
    let weight = b.lower(c.name, weight);
    let element = b.element(x);
    b.group = Group::Convolution;
    let (needs_x, needs_w) = (b.needs_grad(x), b.needs_grad(weight));
    let out = b.make(c.positions.saturating_mul(c.to), element, needs_x || needs_w);
    let flops = 2.0 * c.positions as f64 * c.to as f64 * c.from as f64 * c.kernel as f64;
    let inputs = [(x, Flow::New), (weight, Flow::New), (bias.unwrap_or(weight), Flow::New)];
    let saved = [x, weight];
    b.op(&Spec {
        name: c.name,
        unit: Unit::Convolution(element),
        work: Work::Convolution(Convolution {
            positions: c.positions,
            from: c.from,
            to: c.to,
            window: c.kernel,
            strided: b.numel(x) / c.from.max(1) > c.positions,
        }),
        inputs: &inputs[..if bias.is_some() { 3 } else { 2 }],
        outputs: &[out],
        saved: if needs_x || needs_w { &saved } else { &[] },
        flops: (flops, flops * f64::from(u8::from(needs_x) + u8::from(needs_w))),
        ..Spec::default()
    });
    out
}
