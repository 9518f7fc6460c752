//! What makes tokens of a tower's output, and how they take their places among the text's.

use super::JointNorm;
use super::walk::{VisionStack, idle, not_reached};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::decoder::{DecoderContext, layer_norm, product};
use crate::model::element::{Element, Group};
use crate::model::frozen::FrozenParts;
use crate::model::stack::Decoder;
use crate::model::tape::{Flow, Spec, Tape, TensorId};
use crate::model::walk::MicroBatch;
use crate::model::weight::{Part, Weight};
use crate::plan::keywords::Norm;

impl VisionStack<'_> {
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
        let x = (0..joint.copies).fold(x, |x, _| b.copy("vision.shuffle", x));
        let x = if joint.pooled > 1 { pooled(b, x, rows.saturating_mul(from)) } else { x };
        let x = match norm {
            Some(JointNorm::Patch(norm)) => tower_norm(tower, b, x, "vision.norm", norm),
            Some(JointNorm::Token) => layer_norm(b, x, "vision.norm", from, true),
            Some(JointNorm::Language) => language.norm(b, x, "vision.norm", from),
            None => x,
        };
        b.group = Group::Mlp;
        let (x, from) = if joint.merged { self.merged(b, x, rows) } else { (x, from) };
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

    /// One patch of joined ones: windows are unfolded, put behind each other and multiplied (`Mistral3PatchMerger`).
    fn merged(&self, b: &mut Builder<'_>, x: TensorId, rows: u64) -> (TensorId, u64) {
        let to = self.sight.tower.hidden;
        let from = to.saturating_mul(self.sight.joint.joined);
        let unfolded = b.copy("vision.unfold", x);
        let x = b.copy("vision.unfold", unfolded);
        let merging = Linear { name: "vision.joint_merge", from, to, bias: false, part: Part::Mlp };
        let out = b.linear(x, rows, merging);
        b.holds("vision.unfold", &[unfolded]);
        (out, to)
    }

    /// Tokens in the order of the images' patches, one image behind the other.
    fn in_order(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        b.group = Group::Embedding;
        let x = if self.sight.patches.by_window { b.copy("vision.order", x) } else { x };
        let x = if self.sight.tiles.is_some() { self.packed(b, x) } else { x };
        if self.sight.joint.ordered { b.copy("vision.join", x) } else { x }
    }

    /// Tiles as one picture, each row with what ends it, behind the small image (`LlavaNextModel.pack_image_features`).
    fn packed(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let width = b.numel(x) / self.patches().max(1);
        b.frozen = self.frozen_joint();
        let adapters = b.adapters.take();
        let ends = b.weight(Part::Embedding, 1, width);
        b.adapters = adapters;
        let tokens = self.images().saturating_mul(self.sight.tokens_of(self.side()));
        let grad = b.needs_grad(x) || b.needs_grad(ends);
        let out = b.make(tokens.saturating_mul(width), b.element(x), grad);
        b.op(&Spec {
            name: "vision.pack",
            inputs: &[(x, Flow::New), (ends, Flow::New)],
            outputs: &[out],
            elementwise: true,
            ..Spec::default()
        });
        out
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
        if self.sight.indexed {
            return self.indexed(b, text, tokens, run);
        }
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

    /// `image_embeds[image_mask] = …` into zeros, and `torch.where` between those and the text (`SmolVLMModel.inputs_merger`).
    fn indexed(&self, b: &mut Builder<'_>, text: TensorId, tokens: TensorId, run: &MicroBatch<'_>) -> TensorId {
        let name = "vision.place";
        let (element, numel) = (b.element(text), b.numel(text));
        let zeros = b.make(numel, element, false);
        b.op(&Spec { name, outputs: &[zeros], elementwise: true, ..Spec::default() });
        // Which image, which of its tokens, and where in the text.
        let places = b.make(b.numel(tokens) / (numel / run.tokens().max(1)).max(1) * 4, Element::I64, false);
        let picked = b.make(b.numel(tokens), element, b.needs_grad(tokens));
        let saved = [places];
        b.op(&Spec {
            name,
            inputs: &[(tokens, Flow::New)],
            outputs: &[picked, places],
            saved: if b.needs_grad(tokens) { &saved } else { &[] },
            elementwise: true,
            ..Spec::default()
        });
        let put = b.put_in_place(name, zeros, picked);
        let grad = b.needs_grad(text) || b.needs_grad(put);
        let mask = b.make(run.tokens(), Element::Bool, false);
        let out = b.make(numel, element, grad);
        let saved = [mask];
        b.op(&Spec {
            name,
            inputs: &[(text, Flow::New), (put, Flow::New)],
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
