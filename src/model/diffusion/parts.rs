//! Modules of the UNet (diffusers 0.39, models/resnet.py, models/attention.py,
//! models/transformers/transformer_2d.py), each with what it saves.

use super::silu;
use crate::model::architecture::{Decoder, Family};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::convolution::{Conv, conv};
use crate::model::decoder::{Core, DecoderContext, layer_norm, product};
use crate::model::element::{Element, Group};
use crate::model::families::Unet;
use crate::model::tape::{Flow, Spec, Tape, TensorId};
use crate::model::walk::MicroBatch;
use crate::model::weight::Part;
use crate::model::work::Work;

/// A UNet and one micro-batch.
pub(super) struct Site<'a> {
    pub net: &'a Unet,
    pub run: &'a MicroBatch<'a>,
    /// Whether a gradient flows to the map that the next module reads: with adapters, not before the first of them.
    pub reached: bool,
}

/// What the attention of a level is.
#[derive(Clone, Copy)]
pub(super) struct LevelAttention {
    pub heads: u64,
    pub text_width: u64,
    /// The first one reads the text as well.
    pub only_cross: bool,
}

/// A linear layer of the UNet.
const fn linear(name: &'static str, from: u64, to: u64, bias: bool) -> Linear {
    Linear { name, from, to, bias, part: Part::Attention }
}

impl Site<'_> {
    pub(super) fn builder(&self) -> Builder<'_> {
        let mut b = Builder::new(self.run.types, self.run.adapters);
        b.group = Group::Convolution;
        b
    }

    /// Elements of a feature map.
    pub(super) fn map(&self, channels: u64, side: u64) -> u64 {
        product(&[self.run.batch, channels, side, side])
    }

    /// The type of feature maps: what a convolution makes.
    pub(super) fn compute(&self) -> Element {
        self.run.compute()
    }

    pub(super) fn conv(
        &self,
        b: &mut Builder<'_>,
        name: &'static str,
        x: TensorId,
        shape: (u64, u64, u64, u64),
    ) -> TensorId {
        let (from, to, kernel, side) = shape;
        conv(b, x, Conv { name, from, to, kernel, bias: true, positions: product(&[self.run.batch, side, side]) })
    }

    /// `native_group_norm`: saves its input, and mean and reciprocal deviation of each group.
    pub(super) fn group_norm(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId, channels: u64) -> TensorId {
        // autocast lists group_norm for fp32.
        let x = b.upper(name, x);
        b.group = Group::Convolution;
        let weight = b.weights(Part::Norm, channels, 1, 2, 2);
        let (numel, element) = (b.numel(x), b.element(x));
        let grad = b.needs_grad(x) || b.needs_grad(weight);
        let out = b.make(numel, element, grad);
        let groups = self.run.batch.saturating_mul(self.net.groups);
        let [mean, deviation] = [0, 1].map(|_| b.make(groups, element, false));
        let saved = [x, mean, deviation];
        let inputs = [(x, Flow::New), (weight, Flow::New)];
        let saved = if grad { &saved[..] } else { &[] };
        let work = Work::Normalized;
        b.op(&Spec { name, inputs: &inputs, outputs: &[out, mean, deviation], saved, work, ..Spec::default() });
        out
    }

    /// `ResnetBlock2D`: two convolutions with norms, the time's embedding between them, the input added.
    pub(super) fn resnet(&self, from: u64, to: u64, side: u64) -> Tape {
        let mut b = self.builder();
        let x = b.input(self.map(from, side), self.compute(), self.reached);
        let normed = self.group_norm(&mut b, "resnet.norm1", x, from);
        let active = silu(&mut b, "resnet.act1", normed);
        let hidden = self.conv(&mut b, "resnet.conv1", active, (from, to, 9, side));
        let width = self.net.time_width();
        let trained = self.run.adapters.is_none();
        let time = b.elsewhere(self.run.batch.saturating_mul(width), self.compute(), trained);
        let time = silu(&mut b, "resnet.time", time);
        let time = b.linear(time, self.run.batch, linear("resnet.time", width, to, true));
        let hidden = b.add("resnet.time", hidden, time);
        let normed = self.group_norm(&mut b, "resnet.norm2", hidden, to);
        let active = silu(&mut b, "resnet.act2", normed);
        let hidden = self.conv(&mut b, "resnet.conv2", active, (to, to, 9, side));
        let identity = if from == to { x } else { self.conv(&mut b, "resnet.shortcut", x, (from, to, 1, side)) };
        let sum = b.add("resnet.add", identity, hidden);
        let out = b.pointwise("resnet.scale", sum, Stash::Nothing);
        b.finish(out)
    }

    /// `Transformer2DModel` before its blocks: norm and projection.
    pub(super) fn transformer_start(&self, channels: u64, side: u64) -> Tape {
        let mut b = self.builder();
        let x = b.input(self.map(channels, side), self.compute(), self.reached);
        let normed = self.group_norm(&mut b, "transformer.norm", x, channels);
        let out = if self.net.linear_projection {
            let rows = product(&[self.run.batch, side, side]);
            b.linear(normed, rows, linear("transformer.proj_in", channels, channels, true))
        } else {
            self.conv(&mut b, "transformer.proj_in", normed, (channels, channels, 1, side))
        };
        let mut tape = b.finish(out);
        tape.plain = true;
        tape
    }

    /// Behind its blocks: back to a feature map, projection, and what came into the norm added.
    pub(super) fn transformer_end(&self, channels: u64, side: u64, before_reached: bool) -> Tape {
        let mut b = self.builder();
        let numel = self.map(channels, side);
        let x = b.input(numel, self.compute(), self.reached);
        let before = b.elsewhere(numel, self.compute(), before_reached);
        let out = if self.net.linear_projection {
            let rows = product(&[self.run.batch, side, side]);
            let out = b.linear(x, rows, linear("transformer.proj_out", channels, channels, true));
            b.copy("transformer.map", out)
        } else {
            let map = b.copy("transformer.map", x);
            self.conv(&mut b, "transformer.proj_out", map, (channels, channels, 1, side))
        };
        let sum = b.add("transformer.add", out, before);
        let mut tape = b.finish(sum);
        tape.plain = true;
        tape
    }

    /// `BasicTransformerBlock`: attention within the map, attention to the text, a gated feed-forward block.
    pub(super) fn transformer_block(&self, channels: u64, side: u64, attends: LevelAttention) -> Tape {
        let LevelAttention { heads, text_width, only_cross } = attends;
        let rows = product(&[self.run.batch, side, side]);
        let mut b = self.builder();
        let x = b.input(self.map(channels, side), self.compute(), self.reached);
        let d = Decoder::plain(channels, 1, heads);
        let ctx = DecoderContext { d: &d, family: Family::Unet, run: self.run, causal: false };
        let core = Core { queries: side.saturating_mul(side), keys: side.saturating_mul(side), ..ctx.core(false) };
        b.group = Group::Attention;
        let states = product(&[self.run.batch, self.run.sequence, text_width]);
        let text = b.elsewhere(states, self.run.types.weight, false);
        let cross = Core { keys: self.run.sequence, ..core };
        b.group = Group::Norm;
        let normed = layer_norm(&mut b, x, "norm1", channels, true);
        let (source, core) = if only_cross { ((text, text_width), cross) } else { ((normed, channels), core) };
        let attended = self.attention(&ctx, &mut b, normed, source, core);
        let x = b.add("attention.residual", attended, x);
        b.group = Group::Norm;
        let normed = layer_norm(&mut b, x, "norm2", channels, true);
        let attended = self.attention(&ctx, &mut b, normed, (text, text_width), cross);
        let x = b.add("cross.residual", attended, x);
        b.group = Group::Norm;
        let normed = layer_norm(&mut b, x, "norm3", channels, true);
        b.group = Group::Mlp;
        let inner = channels.saturating_mul(4);
        let both = b.linear(normed, rows, linear("mlp.gate_up_proj", channels, inner.saturating_mul(2), true));
        let half = rows.saturating_mul(inner);
        let [up, gate] = b.split("mlp.split", both, [half, half]);
        let gate = b.pointwise("mlp.act", gate, Stash::Input);
        let middle = b.mul("mlp.act", up, gate);
        let out = b.linear(middle, rows, linear("mlp.down_proj", inner, channels, true));
        b.group = Group::Residual;
        let out = b.add("mlp.residual", out, x);
        b.finish(out)
    }

    /// `AttnProcessor2_0`: its result is divided by a factor, be it 1.
    fn attention(
        &self,
        ctx: &DecoderContext<'_>,
        b: &mut Builder<'_>,
        x: TensorId,
        source: (TensorId, u64),
        core: Core,
    ) -> TensorId {
        b.group = Group::Attention;
        let channels = ctx.d.hidden;
        let (rows, keys) = (product(&[core.batch, core.queries]), product(&[core.batch, core.keys]));
        let q = b.linear(x, rows, linear("attention.q_proj", channels, channels, false));
        let k = b.linear(source.0, keys, linear("attention.k_proj", source.1, channels, false));
        let v = b.linear(source.0, keys, linear("attention.v_proj", source.1, channels, false));
        let out = ctx.attend(b, q, k, v, &core);
        let out = b.linear(out, rows, linear("attention.o_proj", channels, channels, true));
        let out = b.pointwise("attention.scale", out, Stash::Nothing);
        b.group = Group::Residual;
        out
    }

    /// A convolution that halves the map, or one behind a doubling.
    pub(super) fn resize(&self, name: &'static str, channels: u64, side: u64, to_side: u64) -> Tape {
        let mut b = self.builder();
        let x = b.input(self.map(channels, side), self.compute(), self.reached);
        let x = if to_side > side {
            b.unary("upsample", (x, Flow::New), (self.map(channels, to_side), self.compute()), Stash::Nothing)
        } else {
            x
        };
        let out = self.conv(&mut b, name, x, (channels, channels, 9, to_side));
        let mut tape = b.finish(out);
        tape.plain = true;
        tape
    }

    /// What comes up and what was kept on the way down, as one map.
    pub(super) fn join(&self, up: u64, (kept, kept_reached): (u64, bool), side: u64) -> Tape {
        let mut b = self.builder();
        let x = b.input(self.map(up, side), self.compute(), self.reached);
        let skip = b.elsewhere(self.map(kept, side), self.compute(), kept_reached);
        let grad = self.reached || kept_reached;
        let out = b.make(self.map(up.saturating_add(kept), side), self.compute(), grad);
        // The gradients of both are views of the whole's.
        let inputs = [(x, Flow::Pass), (skip, Flow::Pass)];
        b.op(&Spec { name: "join", inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
        let mut tape = b.finish(out);
        tape.plain = true;
        tape
    }
}
