//! The walk of a vision transformer (transformers 4.57.6, models/vit/modeling_vit.py).

use super::architecture::Family;
use super::builder::{Builder, Keeps, Linear};
use super::convolution::{Conv, conv};
use super::decoder::{Ctx, cross_entropy, product};
use super::families::Vision;
use super::tape::{Element, Flow, Group, Id, Part, Spec, Tape, rounded};
use super::walk::{Run, Walk};

/// The tapes of a vision transformer.
pub fn walk(model: &Vision, family: Family, run: &Run<'_>) -> Walk {
    let ctx = Ctx { d: &model.block, family, run };
    let stream = ctx.stream_element();
    Walk {
        first: embedding(model, &ctx),
        kinds: vec![("layer", ctx.block(stream, false, false, true))],
        order: vec![0; usize::try_from(model.block.layers).unwrap_or(0)],
        last: head(model, &ctx),
        shared: 0,
        buffers: 0,
        inputs: Some(inputs(model, run)),
        pending: Vec::new(),
        passing: Vec::new(),
        tied: false,
    }
}

/// Images in the weights' type, and a class each.
fn inputs(model: &Vision, run: &Run<'_>) -> u64 {
    let pixels = product(&[run.batch, model.channels, model.image, model.image, run.types.weight.bytes()]);
    let labels = if model.labels > 0 { run.batch.saturating_mul(8) } else { 0 };
    rounded(pixels).saturating_add(rounded(labels))
}

/// Patches through a convolution, a class token before them, positions added (`ViTEmbeddings`).
fn embedding(model: &Vision, ctx: &Ctx<'_>) -> Tape {
    let (d, run) = (ctx.d, ctx.run);
    let stream = ctx.stream_element();
    let mut b = ctx.builder();
    b.group = Group::Embedding;
    let token = b.weight(Part::Embedding, 1, d.hidden);
    let table = b.weight(Part::Embedding, model.patches().saturating_add(1), d.hidden);
    let image = b.elsewhere(product(&[run.batch, model.channels, model.image, model.image]), stream, false);
    let positions = product(&[run.batch, model.patches()]);
    let kernel = product(&[model.patch, model.patch]);
    let patches = Conv { name: "patches", from: model.channels, to: d.hidden, kernel, bias: true, positions };
    let x = conv(&mut b, image, patches);
    b.group = Group::Embedding;
    // autocast takes what `cat` joins to the widest type.
    let x = b.cast("embedding.cat", x, stream);
    let x = joined(&mut b, x, token, product(&[run.tokens(), d.hidden]));
    let x = b.add("embedding.position", x, table);
    let x = b.dropout("embedding.dropout", x, run.dropout_or(d.embedding_dropout));
    b.finish(x)
}

/// Patches with the class token before them: a new tensor, whose gradient's parts are views.
fn joined(b: &mut Builder<'_>, x: Id, token: Id, numel: u64) -> Id {
    let element = b.element(x);
    let out = b.make(numel, element, true);
    let inputs = [(x, Flow::Pass), (token, Flow::New)];
    b.op(&Spec { name: "embedding.cat", inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
    out
}

/// Final norm, the class token's hidden state, classes or the pooler.
fn head(model: &Vision, ctx: &Ctx<'_>) -> Tape {
    let (d, run) = (ctx.d, ctx.run);
    let mut b = ctx.builder();
    let element: Element = ctx.stream_element();
    let x = b.input(product(&[run.tokens(), d.hidden]), element, true);
    let x = ctx.norm(&mut b, x, "final_norm", d.hidden);
    b.group = Group::Logits;
    let first = b.slice("head.class_token", x, product(&[run.batch, d.hidden]));
    let linear = |name, to| Linear { name, from: d.hidden, to, bias: true, part: Part::Mlp };
    let out = if model.labels > 0 {
        let logits = b.linear(first, run.batch, linear("head", model.labels));
        if run.head_only { logits } else { cross_entropy(&mut b, logits) }
    } else {
        let dense = b.linear(first, run.batch, linear("pooler.dense", d.hidden));
        b.pointwise("pooler.tanh", dense, Keeps::Output)
    };
    b.finish(out)
}
