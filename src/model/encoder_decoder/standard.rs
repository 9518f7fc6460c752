//! Layers with norms before the matrices and scaled attention: Megatron's T5 and Whisper.

use super::{Site, Stack};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::convolution::{Conv, conv};
use crate::model::decoder::{Core, DecoderContext, product};
use crate::model::element::{Element, Group};
use crate::model::families::Start;
use crate::model::tape::{Tape, TensorId};
use crate::model::walk::AttentionChoice;
use crate::model::weight::Part;

impl Site<'_> {
    pub(super) fn standard_stacks(&self) -> (Stack, Stack) {
        let stack = |ctx: &DecoderContext<'_>, decoder: bool| {
            let block = |first| self.standard_block(ctx, decoder, first);
            Stack { first: block(true), other: block(false), bias: 0, learned: 0, leaf: 0 }
        };
        (stack(&self.encoder(), false), stack(&self.decoder(), true))
    }

    fn standard_block(&self, ctx: &DecoderContext<'_>, decoder: bool, first: bool) -> Tape {
        let d = ctx.d;
        let mut b = ctx.builder();
        let x = b.input(product(&[ctx.run.stream_tokens(), d.hidden]), self.stream(), self.reaches(first, decoder));
        b.held_by_loop(x, ctx.run);
        let normed = ctx.norm(&mut b, x, "input_norm", d.hidden);
        let attended = self.attention(ctx, &mut b, normed, None);
        let x = ctx.residual(&mut b, "attention.residual", x, attended);
        let x = if decoder {
            let normed = ctx.norm(&mut b, x, "cross_norm", d.hidden);
            b.group = Group::Attention;
            let states = b.elsewhere(product(&[self.encoder_run.stream_tokens(), d.hidden]), self.stream(), true);
            let crossed = self.attention(ctx, &mut b, normed, Some(states));
            ctx.residual(&mut b, "cross.residual", x, crossed)
        } else {
            x
        };
        let normed = ctx.norm(&mut b, x, "mlp_norm", d.hidden);
        let out = ctx.mlp(&mut b, normed, d.intermediate, "mlp");
        let mut out = ctx.residual(&mut b, "mlp.residual", x, out);
        // `WhisperEncoderLayer.forward`.
        if !decoder && matches!(self.model.start, Start::Audio { .. }) && b.element(out) == Element::F16 {
            out = b.pointwise("clamp", out, Stash::Input);
        }
        b.finish(out)
    }

    /// Attention to the stream itself, or to the encoder's output.
    pub(super) fn attention(
        &self,
        ctx: &DecoderContext<'_>,
        b: &mut Builder<'_>,
        x: TensorId,
        states: Option<TensorId>,
    ) -> TensorId {
        let d = ctx.d;
        let (audio, scaled) = (matches!(self.model.start, Start::Audio { .. }), self.is_scaled());
        if states.is_none() && !audio && !scaled {
            return ctx.attention(b, x, false);
        }
        b.group = Group::Attention;
        let core = if states.is_some() { self.cross_core() } else { ctx.core(false) };
        let core = match (scaled, ctx.run.attention) {
            (false, _) => core,
            (true, AttentionChoice::Eager) => Core { masked: self.masks_scores(ctx, states.is_some()), ..core },
            (true, _) => Core { masked: core.masked || (states.is_some() && self.encoder_run.padded), ..core },
        };
        let inner = core.heads.saturating_mul(core.dim);
        let rows = ctx.run.tokens();
        let x = ctx.gather(b, x, Part::Attention);
        let source = states.map_or(x, |states| self.encoder().gather(b, states, Part::Attention));
        let keys = product(&[core.batch, core.keys]);
        let linear = |name, from, to, bias| Linear { name, from, to, bias, part: Part::Attention };
        let q = b.linear(x, rows, linear("attention.q_proj", d.hidden, inner, d.qkv_bias));
        // WhisperAttention scales the queries; its keys have no bias.
        let q = if audio { b.pointwise("attention.scale", q, Stash::Nothing) } else { q };
        let (k, v) = if self.encoder_run.modules.fused_projections.is {
            let both =
                b.linear(source, keys, linear("attention.kv_proj", d.hidden, inner.saturating_mul(2), d.qkv_bias));
            let half = keys.saturating_mul(inner);
            let [k, v] = b.split("attention.split", both, [half, half]);
            (k, v)
        } else {
            let k = b.linear(source, keys, linear("attention.k_proj", d.hidden, inner, d.qkv_bias && !audio));
            let v = b.linear(source, keys, linear("attention.v_proj", d.hidden, inner, d.qkv_bias));
            (k, v)
        };
        // WhisperAttention makes all three contiguous by head (models/whisper/modeling_whisper.py).
        let [q, k, v] = [q, k, v].map(|x| if audio { b.reordered("attention.contiguous", x) } else { x });
        let core = Core { by_head: audio, ..core };
        let out = ctx.attend(b, q, k, v, &core);
        if scaled {
            b.held.extend([q, k, v]);
        }
        let out = b.linear(out, rows, linear("attention.o_proj", inner, d.hidden, d.out_bias));
        if scaled {
            b.returns("attention.return");
        }
        ctx.reduced(b, out)
    }

    /// Two convolutions over the spectrum, the second halves its length (`WhisperEncoder.forward`).
    pub(super) fn stem(&self, b: &mut Builder<'_>, mel_bins: u64) -> TensorId {
        let ctx = self.encoder();
        let (d, run) = (ctx.d, ctx.run);
        b.group = Group::Convolution;
        let frames = run.tokens().saturating_mul(2);
        let x = b.elsewhere(frames.saturating_mul(mel_bins), self.stream(), false);
        let first = Conv { name: "conv1", from: mel_bins, to: d.hidden, kernel: 3, bias: true, positions: frames };
        let x = conv(b, x, first);
        let x = b.pointwise("conv1.act", x, Stash::Input);
        let second = Conv { name: "conv2", from: d.hidden, positions: run.tokens(), ..first };
        let x = conv(b, x, second);
        b.pointwise("conv2.act", x, Stash::Input)
    }
}
