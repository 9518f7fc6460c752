//! Layers of T5, mT5 and umT5 (transformers 4.57.6, models/t5/modeling_t5.py, models/umt5): scores are not scaled, a
//! learned bias by distance is added to them in place, norms scale only.

use super::{Site, Stack};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::decoder::{Core, DecoderContext, product};
use crate::model::element::{Element, Group};
use crate::model::families::Start;
use crate::model::tape::{Flow, Spec, Tape, TensorId, rounded};
use crate::model::weight::Part;

/// `T5LayerNorm`: the variance in fp32, the product with its root in the promoted type, cast back to a 16-bit
/// weight's type.
pub(super) fn norm(b: &mut Builder<'_>, x: TensorId, name: &'static str, width: u64) -> TensorId {
    b.group = Group::Norm;
    let wide = b.cast(name, x, Element::F32);
    let square = b.pow(name, wide);
    let rows = b.numel(x) / width.max(1);
    let mean = b.unary(name, (square, Flow::New), (rows, Element::F32), Stash::Nothing);
    let shifted = b.pointwise(name, mean, Stash::Nothing);
    let root = b.pointwise(name, shifted, Stash::Output);
    let normed = b.mul(name, x, root);
    let weight = b.weight(Part::Norm, width, 1);
    let element = b.element(weight);
    let normed = if element == Element::F32 { normed } else { b.cast(name, normed, element) };
    b.mul(name, weight, normed)
}

/// What is added to the scores of a layer.
#[derive(Clone, Copy)]
enum Bias {
    /// This layer looks the learned bias up, for itself and the layers behind it.
    Learned,
    /// This layer makes zeros and a mask, for itself and the layers behind it.
    Zeros,
    /// The first layer's; whether a gradient flows to it.
    Given(bool),
}

impl Site<'_> {
    pub(super) fn t5_stacks(&self) -> (Stack, Stack) {
        let (encoder, decoder) = (self.encoder(), self.decoder());
        if self.each_learns() {
            let stack = |ctx: &DecoderContext<'_>, decoder: bool| {
                let block = |first| self.t5_block(ctx, decoder, first);
                Stack { first: block(true), other: block(false), bias: 0, learned: 0, leaf: 0 }
            };
            return (stack(&encoder, false), stack(&decoder, true));
        }
        let bytes = |core: &Core| rounded(core.scores().saturating_mul(self.stream().bytes()));
        let learned = |bytes: u64| if self.learns_bias() { bytes } else { 0 };
        let own = bytes(&encoder.core(false));
        let target = bytes(&decoder.core(false));
        let cross = bytes(&self.cross_core());
        // The zeros that it starts from belong to its graph.
        let zeros = if self.decoder_run.checkpointed { self.zeros() } else { 0 };
        (
            Stack {
                first: self.t5_block(&encoder, false, true),
                other: self.t5_block(&encoder, false, false),
                bias: own,
                learned: learned(own),
                leaf: 0,
            },
            Stack {
                first: self.t5_block(&decoder, true, true),
                other: self.t5_block(&decoder, true, false),
                bias: target.saturating_add(cross).saturating_add(zeros),
                learned: learned(target).saturating_add(if self.decoder_run.checkpointed { cross } else { 0 }),
                leaf: zeros.saturating_mul(2),
            },
        )
    }

    /// Whether each layer has a bias of its own (`UMT5LayerSelfAttention`).
    const fn each_learns(&self) -> bool {
        matches!(self.model.start, Start::Relative { each: true, .. })
    }

    /// Whether the bias by distance gets a gradient.
    fn learns_bias(&self) -> bool {
        self.encoder_run.adapters.is_none() && !self.encoder_run.frozen.has(Part::Attention)
    }

    /// Zeros of the scores' type for one sample (`T5Attention.forward`).
    fn zeros(&self) -> u64 {
        let core = self.cross_core();
        let cells = product(&[core.queries, core.keys, core.heads]);
        rounded(cells.saturating_mul(self.encoder_run.compute().bytes()))
    }

    /// Queries of the decoder, keys of the encoder.
    pub(super) fn cross_core(&self) -> Core {
        Core { keys: self.encoder_run.sequence, visible: 1.0, ..self.decoder().core(false) }
    }

    /// `T5Block`.
    fn t5_block(&self, ctx: &DecoderContext<'_>, decoder: bool, first: bool) -> Tape {
        let d = ctx.d;
        let mut b = ctx.builder();
        let x = b.input(product(&[ctx.run.tokens(), d.hidden]), self.stream(), self.reaches(first, decoder));
        b.held_by_loop(x, ctx.run);
        let mut carried = Vec::new();
        let normed = norm(&mut b, x, "attention.norm", d.hidden);
        let each = self.each_learns();
        let bias = if first || each { Bias::Learned } else { Bias::Given(self.learns_bias()) };
        let own = self.t5_attention(ctx, &mut b, (normed, normed), ctx.core(false), bias, &mut carried);
        let x = residual(ctx, &mut b, "attention.residual", x, own);
        let x = if decoder {
            let normed = norm(&mut b, x, "cross.norm", d.hidden);
            b.group = Group::Attention;
            let states = b.elsewhere(product(&[self.encoder_run.tokens(), d.hidden]), self.stream(), true);
            // With checkpointing the zeros need a gradient (`T5Attention.forward`), and hold memory until it is there.
            let bias = if first || each { Bias::Zeros } else { Bias::Given(ctx.run.checkpointed) };
            let crossed = self.t5_attention(ctx, &mut b, (normed, states), self.cross_core(), bias, &mut carried);
            residual(ctx, &mut b, "cross.residual", x, crossed)
        } else {
            x
        };
        let normed = norm(&mut b, x, "mlp.norm", d.hidden);
        let out = feed_forward(ctx, &mut b, normed);
        let out = residual(ctx, &mut b, "mlp.residual", x, out);
        // What the layers behind read lives as long as this one.
        for bias in carried.iter().filter(|_| !each) {
            b.op(&Spec { name: "attention.bias", inputs: &[(*bias, Flow::Stop)], launches: 0, ..Spec::default() });
        }
        b.finish(out)
    }

    fn t5_attention(
        &self,
        ctx: &DecoderContext<'_>,
        b: &mut Builder<'_>,
        (x, source): (TensorId, TensorId),
        core: Core,
        bias: Bias,
        carried: &mut Vec<TensorId>,
    ) -> TensorId {
        let d = ctx.d;
        b.group = Group::Attention;
        let inner = d.heads.saturating_mul(d.head_dim);
        let (queries, keys) = (ctx.run.tokens(), product(&[core.batch, core.keys]));
        let linear = |name, from, to| Linear { name, from, to, bias: false, part: Part::Attention };
        let q = b.linear(x, queries, linear("attention.q_proj", d.hidden, inner));
        let k = b.linear(source, keys, linear("attention.k_proj", d.hidden, inner));
        let v = b.linear(source, keys, linear("attention.v_proj", d.hidden, inner));
        // `T5Attention.forward` has names for them all.
        b.held.extend([q, k, v]);
        let [q, k] = [q, k].map(|one| b.reordered("attention.contiguous", one));
        let scores = ctx.scores(b, q, k, &core);
        let bias = self.bias(b, &core, bias, carried);
        if self.each_learns() {
            b.held.push(bias);
        }
        let scores = b.add_in_place("attention.bias", scores, bias);
        let element = b.element(scores);
        let wide = b.cast("attention.softmax", scores, Element::F32);
        let softmax = b.pointwise("attention.softmax", wide, Stash::Output);
        b.of_rows();
        let probabilities = b.cast("attention.softmax", softmax, element);
        let dropout = ctx.run.dropout_or(d.attention_dropout);
        let probabilities = b.dropout("attention.dropout", probabilities, dropout);
        b.held.extend([scores, probabilities]);
        // `UMT5Block` has a name for what its attentions weigh by.
        if self.each_learns() {
            b.named.push(probabilities);
        }
        let v = b.reordered("attention.contiguous", v);
        let out = ctx.weigh(b, probabilities, v, &core);
        let out = b.reordered("attention.merge", out);
        let out = b.linear(out, queries, linear("attention.o_proj", inner, d.hidden));
        b.returns("attention.return");
        out
    }

    /// The bias for each pair of positions, with the mask: as large as the scores.
    fn bias(&self, b: &mut Builder<'_>, core: &Core, bias: Bias, carried: &mut Vec<TensorId>) -> TensorId {
        let name = "attention.bias";
        let (numel, stream) = (core.scores(), self.stream());
        let pairs = core.queries.saturating_mul(core.keys);
        let one = pairs.saturating_mul(core.heads);
        let made = match bias {
            Bias::Given(grad) => return b.elsewhere(numel, stream, grad),
            Bias::Zeros => {
                let run = &self.decoder_run;
                // `UMT5Attention` asks for no gradient of them.
                let is_leaf = run.checkpointed && !self.each_learns();
                let zeros = b.make(one, run.compute(), is_leaf);
                b.op(&Spec { name, outputs: &[zeros], elementwise: true, ..Spec::default() });
                if is_leaf {
                    carried.push(zeros);
                }
                b.unary(name, (zeros, Flow::New), (numel, stream), Stash::Nothing)
            }
            Bias::Learned => {
                let Start::Relative { buckets, .. } = self.model.start else { return b.make(0, stream, false) };
                let table = b.weight(Part::Attention, buckets, core.heads);
                let ids = b.make(pairs, Element::I64, false);
                b.op(&Spec { name, outputs: &[ids], elementwise: true, ..Spec::default() });
                let grad = b.needs_grad(table);
                let values = b.make(one, stream, grad);
                let inputs = [(table, Flow::New), (ids, Flow::Stop)];
                let saved = if grad { &[ids][..] } else { &[] };
                b.op(&Spec { name, inputs: &inputs, outputs: &[values], saved, ..Spec::default() });
                b.unary(name, (values, Flow::New), (numel, stream), Stash::Nothing)
            }
        };
        carried.push(made);
        made
    }
}

/// Dropout and addition; in fp16 the sum is clamped, which saves it.
fn residual(
    ctx: &DecoderContext<'_>,
    b: &mut Builder<'_>,
    name: &'static str,
    x: TensorId,
    branch: TensorId,
) -> TensorId {
    b.group = Group::Residual;
    let branch = b.dropout(name, branch, ctx.run.dropout_or(ctx.d.hidden_dropout));
    let sum = b.add(name, x, branch);
    if b.element(sum) == Element::F16 { b.pointwise("clamp", sum, Stash::Input) } else { sum }
}

/// `T5DenseActDense` and `T5DenseGatedActDense`.
fn feed_forward(ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId) -> TensorId {
    let d = ctx.d;
    b.group = Group::Mlp;
    let rows = ctx.run.tokens();
    let linear = |name, from, to| Linear { name, from, to, bias: false, part: Part::Mlp };
    let middle = if d.gated {
        let gate = b.linear(x, rows, linear("mlp.gate_proj", d.hidden, d.intermediate));
        let gate = ctx.act(b, gate, "mlp.act");
        let up = b.linear(x, rows, linear("mlp.up_proj", d.hidden, d.intermediate));
        b.mul("mlp.act", gate, up)
    } else {
        let up = b.linear(x, rows, linear("mlp.up_proj", d.hidden, d.intermediate));
        ctx.act(b, up, "mlp.act")
    };
    let middle = b.dropout("mlp.dropout", middle, ctx.run.dropout_or(d.hidden_dropout));
    // The module casts to its last matrix's own type, autocast or not.
    let middle = b.cast("mlp.cast", middle, ctx.run.types.weight);
    b.linear(middle, rows, linear("mlp.down_proj", d.intermediate, d.hidden))
}
