//! The walk of an encoder-only transformer: BERT and `RoBERTa` as transformers runs them,
//! BERT as Megatron does.

mod head;

use super::architecture::{Decoder, Family, Shape};
use super::builder::{Builder, Keeps};
use super::decoder::{Ctx, layer_norm, product};
use super::families::{Encoder, EncoderHead};
use super::tape::{Element, Group, Id, Part, Tape};
use super::walk::{Run, Walk};
use crate::plan::keywords::Framework;

/// An encoder and one micro-batch.
struct Site<'a> {
    encoder: &'a Encoder,
    ctx: Ctx<'a>,
}

/// An encoder of explicit fields: Megatron's has its norms before the matrices and a head that also tells whether
/// two sentences follow each other (core/models/bert/bert_model.py); elsewhere it is built like BERT.
pub fn of_block(shape: Shape, pooler: Option<bool>, framework: Framework, said: &mut Vec<String>) -> Shape {
    let Shape::Decoder(block) = shape else { return shape };
    let megatron = framework == Framework::Megatron;
    let both = pooler.unwrap_or(megatron);
    said.push(format!(
        "model.architecture.pooler: {both}, {}",
        if both { "with a head for words and one for sentence pairs" } else { "with a head for words" }
    ));
    Shape::Encoder(Encoder {
        block: Decoder { final_norm: megatron, fused_qkv: false, ..block },
        post_norm: !megatron,
        token_types: if both || !megatron { 2 } else { 0 },
        pooler: both,
        head: if both { EncoderHead::PreTraining } else { EncoderHead::MaskedLm },
        labels: 2,
    })
}

/// The tapes of an encoder.
pub fn walk(encoder: &Encoder, family: Family, run: &Run<'_>) -> Walk {
    let ctx = Ctx { d: &encoder.block, family, run };
    let site = Site { encoder, ctx };
    let stream = site.ctx.stream_element();
    let block = if encoder.post_norm { site.block(stream) } else { site.ctx.block(stream, false, false, true) };
    let layers = usize::try_from(encoder.block.layers).unwrap_or(0);
    Walk {
        first: site.embedding(),
        kinds: vec![("layer", block)],
        order: vec![0; layers],
        last: site.head(stream),
        shared: site.masks(),
        buffers: site.buffers(),
        inputs: site.inputs(),
        pending: Vec::new(),
        passing: Vec::new(),
        tied: encoder.block.tie_embeddings,
    }
}

impl Site<'_> {
    /// Word, token type and position embeddings, their norm and dropout
    /// (models/bert/modeling_bert.py, `BertEmbeddings`).
    fn embedding(&self) -> Tape {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let mut b = self.ctx.builder();
        b.group = Group::Embedding;
        let numel = product(&[run.tokens(), d.hidden]);
        let words = b.weight(Part::Embedding, self.ctx.vocab_rows(), d.hidden);
        let x = self.ctx.lookup(&mut b, "embedding", words, numel);
        let x = if self.encoder.token_types > 0 {
            let kinds = b.weight(Part::Embedding, self.encoder.token_types, d.hidden);
            let kinds = self.ctx.lookup(&mut b, "embedding.token_type", kinds, numel);
            b.add("embedding.add", x, kinds)
        } else {
            x
        };
        let rows = d.max_positions.unwrap_or(run.sequence).saturating_add(d.extra_positions);
        let table = b.weight(Part::Embedding, rows, d.hidden);
        // RobertaEmbeddings counts positions from the padding of each sample.
        let samples = if self.ctx.family == Family::Roberta { run.batch } else { 1 };
        let positions =
            self.ctx.lookup(&mut b, "embedding.position", table, product(&[samples, run.sequence, d.hidden]));
        let x = b.add_in_place("embedding.add", x, positions);
        let x = if self.encoder.post_norm {
            let normed = layer_norm(&mut b, x, "embedding.norm", d.hidden, d.norm_bias);
            b.group = Group::Embedding;
            normed
        } else {
            x
        };
        let x = b.dropout("embedding.dropout", x, run.dropout_or(d.embedding_dropout));
        b.finish(x)
    }

    /// A block whose norms stand behind the additions (`BertLayer`).
    fn block(&self, stream: Element) -> Tape {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let mut b = self.ctx.builder();
        let x = b.input(product(&[run.tokens(), d.hidden]), stream, true);
        let attended = self.ctx.attention(&mut b, x, false);
        let x = self.joined(&mut b, attended, x, ["attention.residual", "attention.norm"]);
        let out = self.ctx.mlp(&mut b, x, d.intermediate, "mlp");
        let x = self.joined(&mut b, out, x, ["mlp.residual", "mlp.norm"]);
        b.finish(x)
    }

    /// Dropout, addition, norm.
    fn joined(&self, b: &mut Builder<'_>, branch: Id, x: Id, names: [&'static str; 2]) -> Id {
        let d = self.ctx.d;
        b.group = Group::Residual;
        let branch = b.dropout(names[0], branch, self.ctx.run.dropout_or(d.hidden_dropout));
        let sum = b.add(names[0], branch, x);
        b.group = Group::Norm;
        layer_norm(b, sum, names[1], d.hidden, d.norm_bias)
    }

    /// The hidden state of each sample's first token through a dense layer and `tanh`; its gradient
    /// is put back into zeros of the full size.
    fn pooled(&self, b: &mut Builder<'_>, x: Id) -> Id {
        let (d, run) = (self.ctx.d, self.ctx.run);
        b.group = Group::Logits;
        let first = b.slice("pooler.first_token", x, product(&[run.batch, d.hidden]));
        let layer = head::linear("pooler.dense", d.hidden, d.hidden);
        let dense = b.linear(first, run.batch, layer);
        b.pointwise("pooler.tanh", dense, Keeps::Output)
    }

    /// One mask for all layers, where padding makes one (`_prepare_4d_attention_mask_for_sdpa`) or attention
    /// is written out (`get_extended_attention_mask`).
    fn masks(&self) -> u64 {
        let run = self.ctx.run;
        let core = self.ctx.core(false);
        let bytes = if !core.masked {
            0
        } else if self.ctx.shares_mask() && !self.ctx.is_eager(&core) {
            product(&[run.batch, run.sequence, run.sequence, run.types.weight.bytes()])
        } else {
            product(&[run.batch, run.sequence, run.types.weight.bytes()])
        };
        super::tape::rounded(bytes)
    }

    /// Position and token type ids are buffers of `BertEmbeddings`.
    fn buffers(&self) -> u64 {
        let d = self.ctx.d;
        if !self.ctx.run.rules.buffers.is {
            return 0;
        }
        let rows = d.max_positions.unwrap_or(0).saturating_add(d.extra_positions);
        super::tape::rounded(rows.saturating_mul(8)).saturating_mul(2)
    }

    /// Ids, labels, and the padding mask.
    fn inputs(&self) -> Option<u64> {
        let run = self.ctx.run;
        let ids = super::tape::rounded(run.tokens().saturating_mul(8));
        let labels = super::tape::rounded(self.labelled().saturating_mul(8));
        let mask = if run.padded { ids } else { 0 };
        Some(ids.saturating_add(labels).saturating_add(mask))
    }
}
