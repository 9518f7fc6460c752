//! Where a tower begins, and where its tokens take their places among the text's.

use super::walk::{VisionStack, idle, not_reached};
use super::{JointNorm, Patches, Positions};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::decoder::{DecoderContext, layer_norm, product};
use crate::model::element::{Element, Group};
use crate::model::frozen::FrozenParts;
use crate::model::stack::Decoder;
use crate::model::tape::{Flow, Spec, Tape, TensorId, Unit, rounded};
use crate::model::walk::MicroBatch;
use crate::model::weight::{Part, Weight};
use crate::model::work::{MatMul, Work};
use crate::plan::keywords::Norm;

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

    /// A convolution whose windows do not overlap: its input is the image in the weight's type, or in autocast's.
    fn projected(&self, ctx: &DecoderContext<'_>, b: &mut Builder<'_>) -> TensorId {
        let (d, run, patches) = (ctx.d, ctx.run, &self.sight.patches);
        let inner = pixels(patches);
        let kernel = b.weight(Part::Embedding, d.hidden, inner);
        b.window((patches.side, patches.side));
        let bias = patches.bias.then(|| b.weight(Part::Embedding, d.hidden, 1));
        let count = self.patches();
        let given = b.make(0, Element::F32, false);
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

    /// The tower's output becomes tokens, which take the places that the text keeps for them.
    pub(super) fn bridge(&self, language: &DecoderContext<'_>) -> Tape {
        let (tower, run) = (self.tower(), language.run);
        let mut b = language.builder();
        let given = product(&[tower.run.stream_tokens(), tower.d.hidden]);
        let x = b.input(given, tower.stream_element(), self.tower_reached());
        b.frozen = if self.tower_trains() { FrozenParts::NOTHING } else { FrozenParts::EVERYTHING };
        if self.sight.unread_norm {
            b.weights(Part::Norm, tower.d.hidden, 1, 2, 2);
        }
        let unread = b.tape.weights.len();
        let x = match self.sight.joint.last_norm {
            Some(norm) => tower_norm(&tower, &mut b, x, "vision.last_norm", norm),
            None => x,
        };
        let tokens = self.joined([&tower, language], &mut b, x, self.sight.joint.norm);
        let tokens = self.in_order(&mut b, tokens);
        b.frozen = run.frozen;
        b.group = Group::Embedding;
        let text = language.embedded(&mut b);
        let out = self.placed(&mut b, text, tokens, run);
        let mut tape = b.finish(out);
        tape.weights.iter_mut().take(unread).for_each(not_reached);
        tape.plain = true;
        tape
    }

    /// The text's embedding alone, beside a joint that nothing passes.
    pub(super) fn text(&self, language: &DecoderContext<'_>) -> Tape {
        let mut b = language.builder();
        b.group = Group::Embedding;
        let out = language.embedded(&mut b);
        let mut tape = b.finish(out);
        tape.weights
            .extend(idle(&self.bridge(language)).weights.into_iter().filter(|weight| weight.part != Part::Embedding));
        tape.plain = true;
        tape
    }

    /// Norm, joining and matrices, with gradients where the joint trains.
    fn joined(
        &self,
        contexts: [&DecoderContext<'_>; 2],
        b: &mut Builder<'_>,
        x: TensorId,
        norm: Option<JointNorm>,
    ) -> TensorId {
        b.frozen = self.frozen_joint();
        let adapters = if self.joint_saved() { b.adapters.take() } else { None };
        let first = b.tape.weights.len();
        let out = self.joined_by(contexts, (b, x), norm);
        if adapters.is_some() {
            let copies: Vec<_> = b.tape.weights[first..].to_vec();
            for copy in copies {
                b.tape.weight(Weight { active: 0, trained: false, ..copy }, self.weight_element());
            }
            b.adapters = adapters;
        }
        out
    }

    fn joined_by(
        &self,
        [tower, language]: [&DecoderContext<'_>; 2],
        (b, x): (&mut Builder<'_>, TensorId),
        norm: Option<JointNorm>,
    ) -> TensorId {
        let joint = &self.sight.joint;
        let (from, to) = (tower.d.hidden.saturating_mul(joint.joined), language.d.hidden);
        let rows = self.patches() / joint.joined.saturating_mul(joint.pooled).max(1);
        // Without the tower's own token a copy of the others is left.
        let x = if self.sight.patches.class_token {
            b.copy_of("vision.patches", x, self.patches().saturating_mul(tower.d.hidden))
        } else {
            x
        };
        let x = if joint.pooled > 1 { pooled(b, x, rows.saturating_mul(from)) } else { x };
        let x = match norm {
            Some(JointNorm::Patch(norm)) => tower_norm(tower, b, x, "vision.norm", norm),
            Some(JointNorm::Token) => layer_norm(b, x, "vision.norm", from, true),
            Some(JointNorm::Shuffled) => {
                let x = b.copy("vision.shuffle", x);
                layer_norm(b, x, "vision.norm", from, true)
            }
            Some(JointNorm::Language) => language.norm(b, x, "vision.norm", from),
            None => x,
        };
        b.group = Group::Mlp;
        let linear = |name, from, to| Linear { name, from, to, bias: joint.bias, part: Part::Mlp };
        match joint.inner {
            Some(inner) => {
                let x = b.linear(x, rows, linear("vision.joint_in", from, inner));
                let x = b.pointwise("vision.act", x, Stash::Input);
                b.linear(x, rows, linear("vision.joint_out", inner, to))
            }
            None => b.linear(x, rows, linear("vision.joint", from, to)),
        }
    }

    /// Tokens in the order of the images' patches, one image behind the other.
    fn in_order(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        b.group = Group::Embedding;
        let x = if self.sight.patches.by_window { b.copy("vision.order", x) } else { x };
        b.copy("vision.join", x)
    }

    /// What a block gives becomes tokens as well, for a layer of the language model.
    pub(super) fn branch(&self, language: &DecoderContext<'_>) -> Tape {
        let tower = self.tower();
        let mut b = language.builder();
        let stream = tower.stream_element();
        let x = b.input(product(&[tower.run.stream_tokens(), tower.d.hidden]), stream, self.tower_reached());
        let tokens = self.joined([&tower, language], &mut b, x, Some(JointNorm::Token));
        let x = b.added_in_place("vision.branch", x);
        let mut tape = b.finish(x);
        tape.also.push(tokens);
        tape.plain = true;
        tape
    }

    /// Elements of what a branch gives, and whether a gradient flows to it.
    pub(super) fn branched(&self, language: &DecoderContext<'_>) -> (u64, bool) {
        let tokens = self.patches() / self.sight.joint.joined.max(1);
        (tokens.saturating_mul(language.d.hidden), self.tower_reached() || self.joint_trains() || self.joint_adapted())
    }

    /// The tokens of images take up what a branch gave (`Qwen3VLTextModel._deepstack_process`).
    pub(super) fn taken_up(&self, language: &DecoderContext<'_>) -> Tape {
        let run = language.run;
        let mut b = language.builder();
        let stream = language.stream_element();
        let x = b.input(product(&[run.tokens(), language.d.hidden]), stream, language.reaches_blocks());
        b.group = Group::Residual;
        let (numel, grad) = self.branched(language);
        let given = b.elsewhere(numel, self.tower().run.compute(), grad);
        let name = "vision.deepstack";
        let given = b.cast(name, given, stream);
        let own = b.copy_of(name, x, numel);
        let own = b.copy(name, own);
        let sum = b.add(name, own, given);
        let whole = b.put_in_place(name, x, sum);
        let mut tape = b.finish(whole);
        tape.plain = true;
        tape
    }

    /// `inputs_embeds.masked_scatter(mask, image_features)`: the mask, one byte a token, is kept for both gradients.
    fn placed(&self, b: &mut Builder<'_>, text: TensorId, tokens: TensorId, run: &MicroBatch<'_>) -> TensorId {
        let element = b.element(text);
        let tokens = b.cast("vision.place", tokens, element);
        let grad = b.needs_grad(text) || b.needs_grad(tokens);
        let mask = b.make(run.tokens(), Element::Bool, false);
        let out = b.make(b.numel(text), element, grad);
        let saved = [mask];
        b.op(&Spec {
            name: "vision.place",
            inputs: &[(text, Flow::New), (tokens, Flow::New)],
            outputs: &[out, mask],
            saved: if grad { &saved } else { &[] },
            elementwise: true,
            ..Spec::default()
        });
        out
    }
}

/// The mean of patches that lie together: pooling keeps a copy that lies by channel.
fn pooled(b: &mut Builder<'_>, x: TensorId, numel: u64) -> TensorId {
    let x = b.copy("vision.pool", x);
    let (element, grad) = (b.element(x), b.needs_grad(x));
    let out = b.make(numel, element, grad);
    let saved = [x];
    b.op(&Spec {
        name: "vision.pool",
        inputs: &[(x, Flow::New)],
        outputs: &[out],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        ..Spec::default()
    });
    out
}

/// A norm of the kind that is asked for, over the tower's channels.
fn tower_norm(
    tower: &DecoderContext<'_>,
    b: &mut Builder<'_>,
    x: TensorId,
    name: &'static str,
    norm: Norm,
) -> TensorId {
    let d = Decoder { norm, norm_bias: norm == Norm::Layernorm, ..tower.d.clone() };
    DecoderContext { d: &d, family: tower.family, run: tower.run, causal: false }.norm(b, x, name, tower.d.hidden)
}
