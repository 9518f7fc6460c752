//! Where images enter a tower.

use super::walk::VisionStack;
use super::{Patches, Positions};
use crate::model::builder::Builder;
use crate::model::decoder::{DecoderContext, product};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, Tape, TensorId, Unit, rounded};
use crate::model::weight::Part;
use crate::model::work::{MatMul, Work};

/// Bytes of the images, as processors give them: fp32.
pub(super) fn inputs(patches: &Patches, count: u64) -> u64 {
    rounded(product(&[count, pixels(patches), Element::F32.bytes()]))
}

/// Numbers of a patch.
const fn pixels(patches: &Patches) -> u64 {
    patches.side.saturating_mul(patches.side).saturating_mul(patches.channels).saturating_mul(patches.frames)
}

impl VisionStack<'_> {
    /// Images as rows of the tower's channels: a matrix over each patch, positions, a norm.
    pub(super) fn start(&self) -> Tape {
        let ctx = self.tower();
        let (d, run, patches) = (ctx.d, ctx.run, &self.sight.patches);
        let mut b = ctx.builder();
        b.group = Group::Embedding;
        let x = self.projected(&ctx, &mut b);
        let rows = product(&[run.tokens(), d.hidden]);
        let x = if patches.class_token {
            let token = b.weight(Part::Embedding, 1, d.hidden);
            b.window((1, d.hidden));
            let grad = b.needs_grad(x) || b.needs_grad(token);
            let whole = b.make(rows, b.element(x).promoted(ctx.stream_element()), grad);
            b.op(&Spec {
                name: "embedding.class_token",
                inputs: &[(x, Flow::New), (token, Flow::New)],
                outputs: &[whole],
                elementwise: true,
                ..Spec::default()
            });
            whole
        } else {
            x
        };
        let x = match patches.positions {
            Positions::No => x,
            Positions::Rows(count) => {
                let table = b.weight(Part::Embedding, count, d.hidden);
                let row = ctx.lookup(&mut b, "embedding.position", table, run.sequence.saturating_mul(d.hidden));
                b.add("embedding.add", x, row)
            }
            Positions::Between(count) => {
                let row = self.between(&ctx, &mut b, count);
                b.add("embedding.add", x, row)
            }
        };
        let x = if patches.in_a_row { b.copy("embedding.rows", x) } else { x };
        let x = if patches.normed { ctx.norm(&mut b, x, "embedding.norm", d.hidden) } else { x };
        b.group = Group::Embedding;
        let x = if patches.by_window { b.copy_of("embedding.windows", x, rows) } else { x };
        b.finish(x)
    }

    /// Four rows of the table for each patch, each times how near it is, and their sum.
    fn between(&self, ctx: &DecoderContext<'_>, b: &mut Builder<'_>, count: u64) -> TensorId {
        let (patches, width) = (self.patches(), ctx.d.hidden);
        let name = "embedding.position";
        let table = b.weight(Part::Embedding, count, width);
        let four = ctx.lookup(b, name, table, product(&[4, patches, width]));
        let near = b.make(patches.saturating_mul(4), b.element(four), false);
        b.op(&Spec { name, outputs: &[near], elementwise: true, ..Spec::default() });
        let weighted = b.mul(name, four, near);
        let each = patches.saturating_mul(width);
        let [first, second, third, fourth] = b.split(name, weighted, [each; 4]);
        let sum = b.add(name, first, second);
        let sum = b.add(name, sum, third);
        let sum = b.add(name, sum, fourth);
        // By tokens, then one image behind the other.
        let sum = b.copy(name, sum);
        b.copy(name, sum)
    }

    /// Images as they are given, or a tensor in which they are gathered.
    fn pictures(&self, b: &mut Builder<'_>, numel: u64) -> TensorId {
        if !self.sight.patches.gathered {
            return b.make(0, Element::F32, false);
        }
        let images = b.make(numel, Element::F32, false);
        b.op(&Spec { name: "patch_embedding.gather", outputs: &[images], elementwise: true, ..Spec::default() });
        images
    }

    /// A convolution whose windows do not overlap: its input is the image in the weight's type, or in autocast's.
    fn projected(&self, ctx: &DecoderContext<'_>, b: &mut Builder<'_>) -> TensorId {
        let (d, run, patches) = (ctx.d, ctx.run, &self.sight.patches);
        let inner = pixels(patches);
        let kernel = b.weight(Part::Embedding, d.hidden, inner);
        b.window((patches.side, patches.side));
        let bias = patches.bias.then(|| b.weight(Part::Embedding, d.hidden, 1));
        let count = self.patches();
        let given = self.pictures(b, count.saturating_mul(inner));
        let element = run.compute();
        let image = if element == Element::F32 {
            given
        } else {
            let copy = b.make(count.saturating_mul(inner), element, false);
            b.op(&Spec { name: "patch_embedding.cast", outputs: &[copy], elementwise: true, ..Spec::default() });
            copy
        };
        let kernel = b.lower("patch_embedding", kernel);
        let bias = bias.map(|bias| b.lower("patch_embedding", bias));
        let grad = b.needs_grad(kernel);
        let out = b.make(count.saturating_mul(d.hidden), element, grad);
        let flops = 2.0 * count as f64 * inner as f64 * d.hidden as f64;
        let saved = [image, kernel];
        let inputs = [(image, Flow::Stop), (kernel, Flow::New), (bias.unwrap_or(kernel), Flow::New)];
        b.op(&Spec {
            name: "patch_embedding",
            unit: Unit::Matrix(element),
            work: Work::Product(MatMul { batch: 1, rows: count, inner, columns: d.hidden, layer: false }),
            inputs: &inputs[..if bias.is_some() { 3 } else { 2 }],
            outputs: &[out],
            saved: if grad { &saved } else { &[] },
            flops: (flops, if grad { flops } else { 0.0 }),
            ..Spec::default()
        });
        out
    }
}
