//! The walk of encoder-decoder transformers: encoder layers, a bridge (the encoder's end and
//! the decoder's embedding), decoder layers. The encoder's output stays for all of them.

mod bart;
mod standard;
mod t5;

use super::architecture::{Decoder, Family, ModelShape};
use super::builder::{Builder, Stash};
use super::decoder::{DecoderContext, product};
use super::element::{Element, Group};
use super::families::{EncoderDecoder, Start};
use super::tape::{Spec, Tape, TensorId, rounded};
use super::walk::{AttentionChoice, MicroBatch, Passing, Pending, Walk};
use super::weight::{Part, TiedGrad};
use crate::plan::keywords::Position;

/// A model and one micro-batch, seen from its encoder and from its decoder.
struct Site<'a> {
    model: &'a EncoderDecoder,
    family: Family,
    encoder_block: Decoder,
    encoder_run: MicroBatch<'a>,
    decoder_run: MicroBatch<'a>,
}

/// Tapes of one stack: its first layer, and the others.
struct Stack {
    first: Tape,
    other: Tape,
    /// Bytes that all its layers add to their scores.
    bias: u64,
    /// Of which a gradient flows back to.
    learned: u64,
    /// A tensor of its own that needs a gradient: both are there until the backward pass has ended.
    leaf: u64,
}

/// An encoder-decoder of explicit fields: Megatron's T5 (core/models/T5/t5_model.py), whose output matrix has a bias
/// where it is the embedding.
pub fn of_block(shape: ModelShape, encoder_layers: Option<u64>, said: &mut Vec<String>) -> ModelShape {
    let ModelShape::Decoder(block) = shape else { return shape };
    let encoder_layers = encoder_layers.unwrap_or_else(|| {
        said.push(format!("model.architecture.num_encoder_layers: {}", block.layers));
        block.layers
    });
    ModelShape::EncoderDecoder(EncoderDecoder {
        encoder_layers,
        encoder_heads: block.heads,
        encoder_intermediate: block.intermediate,
        start: Start::Learned,
        block: Decoder { head_bias: block.tie_embeddings, position: Position::Learned, fused_qkv: false, ..block },
    })
}

/// The tapes of an encoder-decoder.
pub fn walk(model: &EncoderDecoder, family: Family, run: &MicroBatch<'_>) -> Walk {
    let d = &model.block;
    let site = Site::of(model, family, run);
    let (encoder, decoder) = match model.start {
        Start::Relative { .. } => site.t5_stacks(),
        Start::Scaled { .. } => site.bart_stacks(),
        Start::Audio { .. } | Start::Learned => site.standard_stacks(),
    };
    let bridge = usize::try_from(model.encoder_layers).unwrap_or(0);
    let last = usize::try_from(d.layers).unwrap_or(0).saturating_add(bridge);
    let mut walk = Walk {
        first: site.source(),
        kinds: vec![
            ("first encoder layer", encoder.first),
            ("encoder layer", encoder.other),
            ("decoder's embedding", site.bridge()),
            ("first decoder layer", decoder.first),
            ("decoder layer", decoder.other),
        ],
        order: order(bridge, last),
        last: site.head(),
        shared: site.kept_masks(),
        masks: site.masks(),
        mask_of: (0..=last).map(|at| usize::from(at < bridge)).collect(),
        buffers: site.logits_bias(),
        inputs: site.inputs(),
        pending: Vec::new(),
        passing: Vec::new(),
        returned: 0,
        returned_unsaved: false,
        tied: d.tie_embeddings,
    };
    let states = rounded(product(&[run.stream_tokens(), d.hidden, run.types.weight.bytes()]));
    walk.pending = vec![
        Pending { made_by: last, until: bridge + 1, bytes: states },
        Pending { made_by: last, until: bridge + 1, bytes: decoder.learned },
        Pending { made_by: bridge.saturating_sub(1), until: 0, bytes: encoder.learned },
        Pending { made_by: bridge + 1, until: 0, bytes: decoder.leaf },
    ];
    walk.passing =
        vec![Passing::read(1, bridge.saturating_sub(1), encoder.bias), Passing::read(bridge + 2, last, decoder.bias)];
    walk.passing.extend(site.held_by_stacks(bridge, last));
    if !site.keeps_states() {
        walk.passing.push(Passing::read(bridge + 1, usize::MAX, states));
    }
    walk
}

/// Kinds of the layers where the decoder's embedding stands at `bridge` and its last layer at `last`.
fn order(bridge: usize, last: usize) -> Vec<usize> {
    let kind = |at| match at {
        at if at == bridge => 2,
        0 => 0,
        at if at < bridge => 1,
        at if at == bridge + 1 => 3,
        _ => 4,
    };
    (0..=last).map(kind).collect()
}

impl<'a> Site<'a> {
    fn of(model: &'a EncoderDecoder, family: Family, run: &MicroBatch<'a>) -> Self {
        let d = &model.block;
        Self {
            model,
            family,
            encoder_block: Decoder {
                layers: model.encoder_layers,
                heads: model.encoder_heads,
                kv_heads: model.encoder_heads,
                head_dim: match model.start {
                    Start::Audio { .. } | Start::Scaled { .. } => d.hidden / model.encoder_heads.max(1),
                    Start::Relative { .. } | Start::Learned => d.head_dim,
                },
                intermediate: model.encoder_intermediate,
                ..d.clone()
            },
            encoder_run: run.clone(),
            decoder_run: MicroBatch {
                sequence: run.target,
                // BART's decoder is given no mask of its own: it makes one that hides nothing.
                padded: run.padded && !matches!(model.start, Start::Scaled { .. }),
                ..run.clone()
            },
        }
    }
}

impl Site<'_> {
    fn encoder(&self) -> DecoderContext<'_> {
        DecoderContext { d: &self.encoder_block, family: self.family, run: &self.encoder_run, causal: false }
    }

    fn decoder(&self) -> DecoderContext<'_> {
        DecoderContext { d: &self.model.block, family: self.family, run: &self.decoder_run, causal: true }
    }

    /// Whether a gradient flows to what comes into a stack's layers: with adapters, or behind a frozen embedding, not
    /// beyond the first; and to none where the head alone is trained.
    fn reaches(&self, first: bool, decoder: bool) -> bool {
        let run = &self.encoder_run;
        let stem = matches!(self.model.start, Start::Audio { .. }) && !decoder;
        let normed = self.is_scaled() && self.model.block.embedding_norm && !run.frozen.has(Part::Norm);
        let parts = [Part::Attention, Part::Mlp, Part::Norm];
        let trains = run.adapters.is_some() || parts.into_iter().any(|part| !run.frozen.has(part));
        (!first && trains) || (run.adapters.is_none() && (normed || stem || !run.frozen.has(Part::Embedding)))
    }

    fn stream(&self) -> Element {
        self.encoder_run.types.weight
    }

    /// Whether the encoder's output is kept for the backward pass. Autocast's copies of it are, which the matmuls of each
    /// layer read; checkpoints keep it itself. Matrices that are not trained save nothing of what they read, adapters what
    /// their dropout or their cast makes of it.
    fn keeps_states(&self) -> bool {
        let run = &self.encoder_run;
        let reads = ["attention.k_proj", "attention.v_proj"];
        let is_saved = match run.adapters {
            Some(adapters) => {
                let stands = adapters.targets.iter().any(|target| reads.contains(target));
                stands && run.dropout_or(adapters.dropout) <= 0.0 && adapters.element == self.stream()
            }
            None => !run.frozen.has(Part::Attention),
        };
        run.checkpointed || (run.types.autocast.is_none() && is_saved)
    }

    /// Masks of the decoder's layers and of the encoder's, of the stream's type (models/t5/modeling_t5.py,
    /// `_update_causal_mask`; models/whisper has none where SDPA runs).
    fn masks(&self) -> [u64; 2] {
        let relative = matches!(self.model.start, Start::Relative { .. });
        let run = &self.decoder_run;
        if self.is_scaled() || !run.modules.masks.is || !(relative || run.attention == AttentionChoice::Eager) {
            return [0; 2];
        }
        let bytes = self.stream().bytes();
        let source = if relative { rounded(product(&[run.batch, self.encoder_run.sequence, bytes])) } else { 0 };
        [rounded(product(&[run.batch, run.sequence, run.sequence, bytes])), source]
    }

    /// What the encoder reads.
    fn source(&self) -> Tape {
        let ctx = self.encoder();
        let d = ctx.d;
        let mut b = ctx.builder();
        b.group = Group::Embedding;
        let numel = product(&[ctx.run.tokens(), d.hidden]);
        let x = match self.model.start {
            Start::Audio { mel_bins, positions } => {
                let sounds = self.stem(&mut b, mel_bins);
                // Sinusoids, held as a parameter that is not trained.
                b.frozen(Part::Embedding, positions, d.hidden);
                b.pointwise("embedding.add", sounds, Stash::Nothing)
            }
            Start::Relative { .. } | Start::Learned | Start::Scaled { .. } => {
                let table = b.weight(Part::Embedding, ctx.vocab_rows(), d.hidden);
                b.meets(TiedGrad::Waiting { view: false });
                let x = ctx.lookup(&mut b, "embedding", table, numel);
                self.positions(&ctx, &mut b, x, false)
            }
        };
        let x = ctx.split_along_sequence(&mut b, x);
        let x = b.dropout("embedding.dropout", x, ctx.run.dropout_or(d.embedding_dropout));
        b.finish(x)
    }

    /// Learned positions, one row for each token of a sequence.
    fn positions(&self, ctx: &DecoderContext<'_>, b: &mut Builder<'_>, x: TensorId, decoder: bool) -> TensorId {
        match self.model.start {
            Start::Relative { .. } => return x,
            Start::Scaled { learned } => return self.scaled(ctx, b, x, learned, decoder),
            Start::Learned | Start::Audio { .. } => {}
        }
        let d = ctx.d;
        let table = b.weight(Part::Embedding, d.max_positions.unwrap_or(ctx.run.sequence), d.hidden);
        // Megatron has one table for both stacks (core/models/T5/t5_model.py, LanguageModelEmbedding).
        if self.model.start == Start::Learned && decoder {
            b.tie_last();
        }
        let row = ctx.lookup(b, "embedding.position", table, product(&[ctx.run.sequence, d.hidden]));
        b.add("embedding.add", x, row)
    }

    /// The encoder's last norm; its output stays for every decoder layer. Then the decoder's embedding.
    fn bridge(&self) -> Tape {
        let (encoder, decoder) = (self.encoder(), self.decoder());
        let d = decoder.d;
        let relative = matches!(self.model.start, Start::Relative { .. });
        let mut b = encoder.builder();
        let x = b.input(product(&[encoder.run.stream_tokens(), d.hidden]), self.stream(), self.reaches(false, false));
        let states = if relative {
            let normed = t5::norm(&mut b, x, "encoder.final_norm", d.hidden);
            b.dropout("encoder.dropout", normed, encoder.run.dropout_or(d.hidden_dropout))
        } else if d.final_norm {
            encoder.norm(&mut b, x, "encoder.final_norm", d.hidden)
        } else {
            b.holds("encoder.output", &[x]);
            x
        };
        if self.keeps_states() {
            b.op(&Spec { name: "encoder.output", saved: &[states], launches: 0, ..Spec::default() });
        }
        b.group = Group::Embedding;
        let tokens = decoder.run.tokens();
        let table = b.weight(Part::Embedding, decoder.vocab_rows(), d.hidden);
        let shared = !matches!(self.model.start, Start::Audio { .. });
        if shared {
            b.tie_last();
        }
        if d.tie_embeddings {
            b.waits_for_head();
        } else if shared {
            b.meets(TiedGrad::Later);
        }
        // The ids that the decoder reads are the labels shifted by one: a tensor of their own that the lookup saves.
        let ids = b.make(tokens, Element::I64, false);
        b.op(&Spec { name: "embedding.ids", outputs: &[ids], saved: &[ids], elementwise: true, ..Spec::default() });
        let y = decoder.lookup(&mut b, "embedding", table, product(&[tokens, d.hidden]));
        let y = self.positions(&decoder, &mut b, y, true);
        let y = decoder.split_along_sequence(&mut b, y);
        let y = b.dropout("embedding.dropout", y, decoder.run.dropout_or(d.embedding_dropout));
        let mut tape = b.finish(y);
        tape.also.push(states);
        tape.plain = true;
        tape
    }

    /// Final norm, output matrix, loss on the logits as they are.
    fn head(&self) -> Tape {
        let ctx = self.decoder();
        let (d, run) = (ctx.d, ctx.run);
        let mut b = ctx.builder();
        let tokens = run.tokens();
        let x = b.input(product(&[run.stream_tokens(), d.hidden]), self.stream(), self.reaches(false, true));
        let relative = matches!(self.model.start, Start::Relative { .. });
        let (states, x) = if relative {
            let normed = t5::norm(&mut b, x, "final_norm", d.hidden);
            let x = b.dropout("decoder.dropout", normed, run.dropout_or(d.hidden_dropout));
            // T5 scales by hidden^-0.5 where the head is the embedding.
            (x, if d.tie_embeddings { b.pointwise("head.scale", x, Stash::Nothing) } else { x })
        } else {
            let x = if d.final_norm { ctx.norm(&mut b, x, "final_norm", d.hidden) } else { x };
            (x, ctx.gather(&mut b, x, Part::Head))
        };
        b.group = Group::Logits;
        let rows = ctx.vocab_rows();
        let matrix = b.output_matrix(rows, d.hidden, d.tie_embeddings);
        let bias = d.head_bias.then(|| b.weight(Part::Head, rows, 1));
        let logits = b.matrix("head", x, matrix, bias, (tokens, d.hidden, rows));
        let logits = if self.is_scaled() { self.with_bias(&mut b, logits) } else { logits };
        let out = if run.head_only { logits } else { ctx.loss(&mut b, logits, tokens, ctx.as_is(run.loss)) };
        // The function that computes the loss has names for them (`T5ForConditionalGeneration.forward`,
        // `WhisperForConditionalGeneration.forward`).
        if run.modules.logits_held.is {
            b.holds("loss.return", &[states, x, logits]);
        }
        b.finish(out)
    }

    /// Ids or spectrum of the source, labels of the target.
    fn inputs(&self) -> u64 {
        let (source, target) = (&self.encoder_run, &self.decoder_run);
        let labels = rounded(target.tokens().saturating_mul(8));
        let read = match self.model.start {
            // Two frames a position.
            Start::Audio { mel_bins, .. } => product(&[source.tokens(), 2, mel_bins, self.stream().bytes()]),
            Start::Relative { .. } | Start::Learned | Start::Scaled { .. } => source.tokens().saturating_mul(8),
        };
        let masks = if source.padded { rounded(source.tokens().saturating_mul(8)) } else { 0 };
        rounded(read).saturating_add(labels).saturating_add(masks)
    }
}
