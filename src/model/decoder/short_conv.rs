//! Short convolutions between two gates (transformers 4.57.6, models/lfm2/modeling_lfm2.py, `Lfm2ShortConv.slow_forward`).

use super::DecoderContext;
use super::attention::product;
use crate::model::builder::{Builder, Linear};
use crate::model::element::Group;
use crate::model::stack::ShortConv;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// The layer's mixing of tokens, between its norms.
    pub(super) fn short_conv(&self, b: &mut Builder<'_>, x: TensorId, conv: &ShortConv) -> TensorId {
        b.group = Group::Attention;
        let (rows, hidden, part) = (self.run.tokens(), self.d.hidden, Part::Attention);
        let linear = |name, to| Linear { name, from: hidden, to, bias: conv.bias, part };
        let all = b.linear(x, rows, linear("conv.in_proj", hidden.saturating_mul(3)));
        let third = rows.saturating_mul(hidden);
        let [before, after, inner] = b.split("conv.split", all, [third; 3]);
        let gated = b.mul("conv.gate", before, inner);
        let mixed = self.along_sequence(b, gated, conv);
        let gated = b.mul("conv.gate", after, mixed);
        let turned = b.copy("conv.transpose", gated);
        let out = b.linear(turned, rows, linear("conv.out_proj", hidden));
        b.returns("attention.return");
        out
    }

    /// A filter of its own for each channel, over the tokens and what pads them at both ends; those at the end are cut off.
    fn along_sequence(&self, b: &mut Builder<'_>, x: TensorId, conv: &ShortConv) -> TensorId {
        let (samples, length, hidden) = (self.run.batch, self.run.local_sequence(), self.d.hidden);
        let weight = b.weight(Part::Convolution, hidden, conv.kernel);
        b.window((1, conv.kernel));
        let bias = conv.bias.then(|| b.weight(Part::Convolution, hidden, 1));
        let lowered = b.lower("conv.conv", x);
        let weight = b.lower("conv.conv", weight);
        let bias = bias.map(|bias| b.lower("conv.conv", bias));
        let padded = length.saturating_add(conv.kernel.saturating_sub(1));
        let (numel, element) = (product(&[samples, padded, hidden]), b.element(lowered));
        let grad = b.needs_grad(lowered) || b.needs_grad(weight);
        let out = b.make(numel, element, grad);
        let flops = 2.0 * numel as f64 * conv.kernel as f64;
        let saved = [lowered, weight];
        b.op(&Spec {
            name: "conv.conv",
            inputs: &[(lowered, Flow::New), (weight, Flow::New), (bias.unwrap_or(weight), Flow::New)]
                [..if bias.is_some() { 3 } else { 2 }],
            outputs: &[out],
            saved: if grad { &saved } else { &[] },
            elementwise: true,
            flops: (flops, 2.0 * flops),
            ..Spec::default()
        });
        let [cut] = b.split("conv.cut", out, [product(&[samples, length, hidden])]);
        cut
    }
}
