//! What `ModernBERT` has of its own (transformers 4.57.6, models/modernbert/modeling_modernbert.py).

use super::{text_embedding, text_head};
use crate::model::architecture::{Encoder, Ends, TextHead};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::decoder::{DecoderContext, product};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, GRANULE, Spec, Tape, TensorId, rounded};
use crate::model::walk::{Kernel, Passing, Walk};
use crate::model::weight::Part;

/// `ModernBERT`: masks of the stream's type for layers with and without a window, of each sample, which kernels save as they are
/// or, under autocast, as a copy each, and whose originals the model has names for.
pub(super) fn walk(
    ctx: &DecoderContext<'_>,
    encoder: &Encoder,
    kinds: Vec<(&'static str, Tape)>,
    order: Vec<usize>,
) -> Walk {
    let (run, layers) = (ctx.run, encoder.stack.layers);
    let Ends::Text { types, pooler, head } = encoder.ends else { return Walk::default() };
    let stream = ctx.stream_element();
    let mask = rounded(product(&[run.batch, run.sequence, run.sequence, stream.bytes()]));
    let both = mask.saturating_mul(2);
    let kept = stream == run.compute() && ctx.kernel(&ctx.core(false)) == Kernel::Efficient;
    let until = usize::try_from(layers.saturating_sub(1)).unwrap_or(0);
    Walk {
        first: text_embedding(ctx, types, head),
        kinds,
        order,
        last: text_head(ctx, stream, pooler, head),
        shared: if kept { both } else { 0 },
        passing: if kept { Vec::new() } else { vec![Passing::read(0, until, both)] },
        // Each layer has frequencies of its own.
        buffers: if run.modules.position_tables.is { layers.saturating_mul(GRANULE) } else { 0 },
        inputs: ctx.token_inputs(if matches!(head, TextHead::Classes(..)) { run.batch } else { run.tokens() }),
        tied: encoder.stack.tie_embeddings,
        ..Walk::default()
    }
}

/// A matrix, GELU and a norm (`ModernBertPredictionHead`).
pub(super) fn normed_dense(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId, rows: u64) -> TensorId {
    let width = ctx.d.hidden;
    let dense = Linear { name: "head.dense", from: width, to: width, bias: false, part: Part::Head };
    let out = b.linear(x, rows, dense);
    let active = b.pointwise("head.act", out, Stash::Input);
    let normed = ctx.norm(b, active, "head.norm", width);
    b.group = Group::Logits;
    normed
}

/// The mean of the tokens that are shown: a product with the mask, a sum and a quotient.
pub(super) fn mean_of_tokens(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId) -> TensorId {
    let (run, element) = (ctx.run, b.element(x));
    let mask = b.make(run.tokens(), if run.padded { Element::I64 } else { Element::Bool }, false);
    b.op(&Spec { name: "head.mask", outputs: &[mask], elementwise: true, ..Spec::default() });
    let grad = b.needs_grad(x);
    let shown = b.make(b.numel(x), element, grad);
    let (inputs, saved) = ([(x, Flow::New), (mask, Flow::Stop)], [mask]);
    let saved = if grad { &saved[..] } else { &[] };
    b.op(&Spec { name: "head.mean", inputs: &inputs, outputs: &[shown], saved, elementwise: true, ..Spec::default() });
    let sum =
        b.unary("head.mean", (shown, Flow::New), (run.batch.saturating_mul(ctx.d.hidden), element), Stash::Nothing);
    b.pointwise("head.mean", sum, Stash::Nothing)
}
