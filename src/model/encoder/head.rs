//! What stands on an encoder: `architectures` in the configuration chooses it.

use super::Site;
use crate::model::architecture::Family;
use crate::model::builder::{Builder, Keeps, Linear};
use crate::model::decoder::{cross_entropy, layer_norm, product};
use crate::model::families::EncoderHead;
use crate::model::tape::{Element, Flow, Group, Id, Part, Spec, Tape};

/// A dense layer of a head.
pub(super) const fn linear(name: &'static str, from: u64, to: u64) -> Linear {
    Linear { name, from, to, bias: true, part: Part::Mlp }
}

impl Site<'_> {
    /// Pooler, head and loss.
    pub(super) fn head(&self, stream: Element) -> Tape {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let mut b = self.ctx.builder();
        let x = b.input(product(&[run.tokens(), d.hidden]), stream, true);
        let x = if d.final_norm { self.ctx.norm(&mut b, x, "final_norm", d.hidden) } else { x };
        let out = match self.encoder.head {
            EncoderHead::Bare if self.encoder.pooler => self.pooled(&mut b, x),
            EncoderHead::Bare => x,
            EncoderHead::MaskedLm => self.masked_lm(&mut b, x),
            EncoderHead::PreTraining => {
                let pooled = self.pooled(&mut b, x);
                let words = self.masked_lm(&mut b, x);
                let next = self.classified(&mut b, pooled, run.batch, 2);
                sum_of_losses(&mut b, words, next)
            }
            EncoderHead::Sequence => self.sequence(&mut b, x),
            EncoderHead::Token => {
                let x = b.dropout("head.dropout", x, run.dropout_or(d.hidden_dropout));
                self.classified(&mut b, x, run.tokens(), self.encoder.labels)
            }
        };
        b.finish(out)
    }

    /// Labels of a micro-batch.
    pub(super) fn labelled(&self) -> u64 {
        let run = self.ctx.run;
        match self.encoder.head {
            EncoderHead::Bare => 0,
            EncoderHead::Sequence => run.batch,
            EncoderHead::PreTraining => run.tokens().saturating_add(run.batch),
            EncoderHead::MaskedLm | EncoderHead::Token => run.tokens(),
        }
    }

    /// One class a sample: BERT's on its pooler, `RoBERTa`'s with a dense layer of its own.
    fn sequence(&self, b: &mut Builder<'_>, x: Id) -> Id {
        let (d, run) = (self.ctx.d, self.ctx.run);
        let pooled = self.pooled(b, x);
        let pooled = b.dropout("head.dropout", pooled, run.dropout_or(d.hidden_dropout));
        self.classified(b, pooled, run.batch, self.encoder.labels)
    }

    fn classified(&self, b: &mut Builder<'_>, x: Id, rows: u64, classes: u64) -> Id {
        b.group = Group::Logits;
        let logits = b.linear(x, rows, linear("head", self.ctx.d.hidden, classes));
        if self.ctx.run.head_only { logits } else { cross_entropy(b, logits) }
    }

    /// A dense layer with its activation and norm, then the output matrix, which is the embedding's
    /// (`BertLMPredictionHead`, `RobertaLMHead`). The loss takes the logits as they are.
    fn masked_lm(&self, b: &mut Builder<'_>, x: Id) -> Id {
        let (d, run) = (self.ctx.d, self.ctx.run);
        b.group = Group::Logits;
        let tokens = run.tokens();
        let dense = b.linear(x, tokens, linear("head.transform", d.hidden, d.hidden));
        let active = if self.ctx.family == Family::Roberta {
            b.pointwise("head.act", dense, Keeps::Input)
        } else {
            self.ctx.act(b, dense, "head.act")
        };
        let normed = layer_norm(b, active, "head.norm", d.hidden, true);
        b.group = Group::Logits;
        let rows = self.ctx.vocab_rows();
        let matrix = b.weight(Part::Head, rows, d.hidden);
        if d.tie_embeddings {
            b.tie_last();
        }
        let bias = b.weight(Part::Head, rows, 1);
        let logits = b.matrix("head", normed, matrix, Some(bias), (tokens, d.hidden, rows));
        if run.head_only { logits } else { self.ctx.loss(b, logits, tokens, self.ctx.as_is(run.loss)) }
    }
}

/// Two losses added.
fn sum_of_losses(b: &mut Builder<'_>, first: Id, second: Id) -> Id {
    let sum = b.make(1, Element::F32, true);
    let inputs = [(first, Flow::Pass), (second, Flow::Pass)];
    b.op(&Spec { name: "loss.sum", inputs: &inputs, outputs: &[sum], elementwise: true, ..Spec::default() });
    sum
}
