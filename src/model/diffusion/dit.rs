//! The walk of the diffusion transformer (facebookresearch/DiT, models.py): blocks whose norms are scaled
//! and shifted, and whose branches are gated, by what time and class say.

use super::{silu, squared_error};
use crate::model::architecture::Family;
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::convolution::{Conv, conv};
use crate::model::decoder::{DecoderContext, product};
use crate::model::element::{Element, Group};
use crate::model::families::DiT;
use crate::model::tape::{Flow, Spec, Tape, TensorId, rounded};
use crate::model::walk::{MicroBatch, Walk};
use crate::model::weight::Part;

/// Channels of the sinusoids of a time step.
const FREQUENCIES: u64 = 256;

struct Site<'a> {
    net: &'a DiT,
    ctx: DecoderContext<'a>,
}

/// The tapes of a diffusion transformer.
pub fn walk(net: &DiT, family: Family, run: &MicroBatch<'_>) -> Walk {
    let site = Site { net, ctx: DecoderContext { d: &net.block, family, run, causal: false } };
    let bytes = run.types.weight.bytes();
    let latents = product(&[run.batch, net.channels, run.image, run.image, bytes]);
    let noise = product(&[run.batch, net.out_channels(), run.image, run.image, bytes]);
    // Time steps and classes.
    let ids = rounded(run.batch.saturating_mul(8)).saturating_mul(2);
    Walk {
        first: site.start(),
        kinds: vec![("block", site.block())],
        order: vec![0; usize::try_from(net.block.layers).unwrap_or(0)],
        last: site.end(),
        shared: 0,
        masks: [0; 2],
        mask_of: Vec::new(),
        // The table of positions is not trained.
        buffers: rounded(product(&[run.sequence, net.block.hidden, bytes])),
        inputs: rounded(latents).saturating_add(rounded(noise)).saturating_add(ids),
        pending: Vec::new(),
        passing: Vec::new(),
        returned: 0,
        returned_unsaved: false,
        tied: false,
    }
}

impl Site<'_> {
    fn linear(&self, name: &'static str, from: u64, to: u64) -> Linear {
        Linear { name, from, to, bias: true, part: Part::Mlp }
    }

    fn builder(&self) -> Builder<'_> {
        self.ctx.builder()
    }

    /// Patches with positions, and the sum of time's and class's embedding.
    fn start(&self) -> Tape {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let mut b = self.builder();
        b.group = Group::Embedding;
        let stream = run.types.weight;
        let time = b.make(run.batch.saturating_mul(FREQUENCIES), stream, false);
        let time = b.linear(time, run.batch, self.linear("time", FREQUENCIES, d.hidden));
        let time = silu(&mut b, "time.act", time);
        let time = b.linear(time, run.batch, self.linear("time", d.hidden, d.hidden));
        // A row more than classes: no label.
        let table = b.weight(Part::Embedding, self.net.classes.saturating_add(1), d.hidden);
        let class = self.ctx.lookup(&mut b, "class", table, run.batch.saturating_mul(d.hidden));
        b.add("condition", time, class);
        let pixels = product(&[run.batch, self.net.channels, run.image, run.image]);
        let latents = b.elsewhere(pixels, stream, false);
        let kernel = product(&[self.net.patch, self.net.patch]);
        let (from, to, positions) = (self.net.channels, d.hidden, run.tokens());
        let patches = Conv { name: "patches", from, to, kernel, bias: true, positions };
        let x = conv(&mut b, latents, patches);
        b.group = Group::Embedding;
        // Positions have the weights' type, so the sum has too.
        let x = b.cast("embedding.position", x, stream);
        let x = b.pointwise("embedding.position", x, Stash::Nothing);
        b.finish(x)
    }

    /// `SiLU` and a linear layer on the condition: `parts` vectors of the stream's width a sample.
    fn condition<const N: usize>(&self, b: &mut Builder<'_>) -> [TensorId; N] {
        let (d, run) = (self.ctx.d, self.ctx.run);
        b.group = Group::Norm;
        let one = run.batch.saturating_mul(d.hidden);
        let given = b.elsewhere(one, run.compute(), true);
        let active = silu(b, "condition.act", given);
        let all = b.linear(active, run.batch, self.linear("condition", d.hidden, d.hidden.saturating_mul(N as u64)));
        b.split("condition.split", all, [one; N])
    }

    /// A norm without weights of its own, then `x * (1 + scale) + shift`.
    fn modulated(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        name: &'static str,
        scale: TensorId,
        shift: TensorId,
    ) -> TensorId {
        let d = self.ctx.d;
        b.group = Group::Norm;
        let x = b.upper(name, x);
        let (numel, element) = (b.numel(x), b.element(x));
        let rows = numel / d.hidden.max(1);
        let normed = b.make(numel, element, true);
        let [mean, deviation] = [0, 1].map(|_| b.make(rows, Element::F32, false));
        let (outputs, saved) = ([normed, mean, deviation], [x, mean, deviation]);
        b.op(&Spec { name, inputs: &[(x, Flow::New)], outputs: &outputs, saved: &saved, ..Spec::default() });
        let one_plus = b.pointwise("modulate", scale, Stash::Nothing);
        let scaled = b.mul("modulate", normed, one_plus);
        b.add("modulate", scaled, shift)
    }

    fn block(&self) -> Tape {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let mut b = self.builder();
        let x = b.input(product(&[run.tokens(), d.hidden]), run.types.weight, true);
        let [shift, scale, gate, mlp_shift, mlp_scale, mlp_gate] = self.condition::<6>(&mut b);
        let normed = self.modulated(&mut b, x, "attention.norm", scale, shift);
        let attended = self.ctx.attention(&mut b, normed, false);
        let gated = b.mul("attention.gate", gate, attended);
        b.group = Group::Residual;
        let x = b.add("attention.residual", x, gated);
        let normed = self.modulated(&mut b, x, "mlp.norm", mlp_scale, mlp_shift);
        let out = self.ctx.mlp(&mut b, normed, d.intermediate, "mlp");
        let gated = b.mul("mlp.gate", mlp_gate, out);
        b.group = Group::Residual;
        let out = b.add("mlp.residual", x, gated);
        b.finish(out)
    }

    /// A last modulated norm, a linear layer back to pixels, the squared error.
    fn end(&self) -> Tape {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let mut b = self.builder();
        let x = b.input(product(&[run.tokens(), d.hidden]), run.types.weight, true);
        let [shift, scale] = self.condition::<2>(&mut b);
        let normed = self.modulated(&mut b, x, "final_norm", scale, shift);
        b.group = Group::Logits;
        let columns = product(&[self.net.patch, self.net.patch, self.net.out_channels()]);
        let out = b.linear(normed, run.tokens(), self.linear("final", d.hidden, columns));
        let out = b.copy("final.unpatch", out);
        let out = if run.head_only { out } else { squared_error(&mut b, out) };
        b.finish(out)
    }
}
