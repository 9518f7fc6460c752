//! BART's layers, and those of the classes that say that they are copied from it (transformers 4.57.6,
//! models/bart/modeling_bart.py, models/mbart, models/pegasus).

use super::{Site, Stack};
use crate::model::builder::{Builder, Stash};
use crate::model::decoder::{DecoderContext, is_aligned, product};
use crate::model::element::{Element, Group};
use crate::model::families::Start;
use crate::model::tape::{Flow, Spec, Tape, TensorId, rounded};
use crate::model::walk::{AttentionChoice, Passing};
use crate::model::weight::Part;

impl Site<'_> {
    pub(super) const fn is_scaled(&self) -> bool {
        matches!(self.model.start, Start::Scaled { .. })
    }

    pub(super) fn bart_stacks(&self) -> (Stack, Stack) {
        let stack = |ctx: &DecoderContext<'_>, decoder: bool| {
            let block = |first| self.bart_block(ctx, decoder, first);
            Stack { first: block(true), other: block(false), bias: 0, learned: 0, leaf: 0 }
        };
        (stack(&self.encoder(), false), stack(&self.decoder(), true))
    }

    /// `BartEncoderLayer` and `BartDecoderLayer`.
    fn bart_block(&self, ctx: &DecoderContext<'_>, decoder: bool, first: bool) -> Tape {
        let d = ctx.d;
        let mut b = ctx.builder();
        let x = b.input(product(&[ctx.run.tokens(), d.hidden]), self.stream(), self.reaches(first, decoder));
        b.held_by_loop(x, ctx.run);
        let x = half(ctx, &mut b, x, ["input_norm", "attention.residual"], |b, x| self.attention(ctx, b, x, None));
        let x = if decoder {
            half(ctx, &mut b, x, ["cross_norm", "cross.residual"], |b, x| {
                let states = b.elsewhere(product(&[self.encoder_run.tokens(), d.hidden]), self.stream(), true);
                self.attention(ctx, b, x, Some(states))
            })
        } else {
            x
        };
        let mut out = half(ctx, &mut b, x, ["mlp_norm", "mlp.residual"], |b, x| ctx.mlp(b, x, d.intermediate, "mlp"));
        // mBART's and Pegasus's encoders clamp whatever the values; BART's looks at them first.
        if !decoder && !d.post_norm && b.element(out) == Element::F16 {
            out = b.pointwise("clamp", out, Stash::Input);
        }
        b.finish(out)
    }

    /// Whether scores of this attention are masked where they are written out: the decoder's own are always.
    pub(super) fn masks_scores(&self, ctx: &DecoderContext<'_>, crossed: bool) -> bool {
        (ctx.causal && !crossed) || self.encoder_run.padded
    }

    /// Tokens times a scale, and positions (`BartScaledWordEmbedding`, `BartLearnedPositionalEmbedding`,
    /// `PegasusSinusoidalPositionalEmbedding`).
    pub(super) fn scaled(
        &self,
        ctx: &DecoderContext<'_>,
        b: &mut Builder<'_>,
        x: TensorId,
        learned: bool,
        decoder: bool,
    ) -> TensorId {
        let d = ctx.d;
        let tokens = b.pointwise("embedding.scale", x, Stash::Nothing);
        let rows = d.max_positions.unwrap_or(ctx.run.sequence).saturating_add(d.extra_positions);
        // The decoder is given its positions once; the encoder makes them for each sample.
        let samples = if learned && !decoder { ctx.run.batch } else { 1 };
        let places = samples.saturating_mul(ctx.run.sequence);
        let numel = product(&[places, d.hidden]);
        let positions = if learned {
            let table = b.weight(Part::Embedding, rows, d.hidden);
            let grad = b.needs_grad(table);
            let ids = b.make(places, Element::I64, false);
            let saved = if grad { &[ids][..] } else { &[] };
            b.op(&Spec { name: "embedding.position", outputs: &[ids], saved, elementwise: true, ..Spec::default() });
            ctx.lookup(b, "embedding.position", table, numel)
        } else {
            b.frozen(Part::Embedding, rows, d.hidden);
            let positions = b.make(numel, self.stream(), false);
            b.op(&Spec { name: "embedding.position", outputs: &[positions], ..Spec::default() });
            positions
        };
        let sum = b.add("embedding.add", tokens, positions);
        if ctx.run.modules.python_names.is {
            b.named.extend([tokens, positions]);
        }
        let out = if d.embedding_norm { ctx.norm(b, sum, "embedding.norm", d.hidden) } else { sum };
        b.group = Group::Embedding;
        out
    }

    /// Bytes of the masks that hide padding from the encoder and from what attends to it, of the stream's type
    /// (`_prepare_4d_attention_mask_for_sdpa`).
    fn padding_masks(&self) -> [u64; 2] {
        // Flash attention is given the tokenizer's mask as it is (`_update_full_mask`).
        let run = &self.encoder_run;
        if !self.is_scaled() || !run.padded || run.attention == AttentionChoice::Flash {
            return [0; 2];
        }
        let (source, target) = (run.sequence, self.decoder_run.sequence);
        let mask = |rows| rounded(product(&[run.batch, rows, source, self.stream().bytes()]));
        [mask(source), mask(target)]
    }

    /// Whether the kernels of all layers save these masks themselves: autocast makes a copy in each call, and so does what
    /// fills them up.
    fn saves_masks(&self) -> bool {
        let run = &self.encoder_run;
        run.attention != AttentionChoice::Eager && run.types.autocast.is_none() && is_aligned(run.sequence)
    }

    /// Bytes of masks that all layers save.
    pub(super) fn kept_masks(&self) -> u64 {
        if self.saves_masks() { self.padding_masks().iter().sum() } else { 0 }
    }

    /// What both halves have names for while their layers run: tokens and positions before they are added, and masks, which
    /// recomputed layers keep.
    pub(super) fn held_by_stacks(&self, bridge: usize, last: usize) -> Vec<Passing> {
        let Start::Scaled { learned } = self.model.start else { return Vec::new() };
        let (source, target) = (&self.encoder_run, &self.decoder_run);
        let row = self.model.block.hidden.saturating_mul(self.stream().bytes());
        let bytes = |rows: u64| rounded(rows.saturating_mul(row));
        let named = !source.checkpointed && source.modules.python_names.is;
        let places = if learned { source.tokens() } else { source.sequence };
        let before = if named { bytes(source.tokens()).saturating_add(bytes(places)) } else { 0 };
        let behind = if named { bytes(target.tokens()).saturating_add(bytes(target.sequence)) } else { 0 };
        let [hidden, crossed] = if self.saves_masks() { [0; 2] } else { self.padding_masks() };
        let own = if source.attention == AttentionChoice::Eager {
            rounded(product(&[target.batch, target.sequence, target.sequence, self.stream().bytes()]))
        } else {
            0
        };
        let until = bridge.saturating_sub(1);
        vec![
            Passing::read(0, until, before),
            Passing::read(0, until, hidden),
            Passing::read(bridge + 1, last, behind),
            Passing::read(bridge + 1, last, own.saturating_add(crossed)),
        ]
    }

    /// Bytes of the buffer that is added to the logits (`final_logits_bias`).
    pub(super) fn logits_bias(&self) -> u64 {
        if !self.is_scaled() {
            return 0;
        }
        rounded(self.decoder().vocab_rows().saturating_mul(self.stream().bytes()))
    }

    /// The logits with that buffer, which makes autocast's fp32.
    pub(super) fn with_bias(&self, b: &mut Builder<'_>, logits: TensorId) -> TensorId {
        let element = b.element(logits).promoted(self.stream());
        let flow = if element == b.element(logits) { Flow::Pass } else { Flow::New };
        b.unary("head.bias", (logits, flow), (b.numel(logits), element), Stash::Nothing)
    }
}

/// Half of a layer with its dropout, its addition and its norm, before or behind; the layer has a name for what it adds to
/// until the norm of the sum is there.
fn half<'a>(
    ctx: &DecoderContext<'_>,
    b: &mut Builder<'a>,
    x: TensorId,
    [norm, added]: [&'static str; 2],
    inner: impl Fn(&mut Builder<'a>, TensorId) -> TensorId,
) -> TensorId {
    let width = ctx.d.hidden;
    if !ctx.d.post_norm {
        let normed = ctx.norm(b, x, norm, width);
        let branch = inner(b, normed);
        return ctx.residual(b, added, x, branch);
    }
    let branch = inner(b, x);
    let sum = ctx.residual(b, added, x, branch);
    let out = ctx.norm(b, sum, norm, width);
    if ctx.run.modules.python_names.is {
        b.holds("norm.return", &[x]);
    }
    out
}
