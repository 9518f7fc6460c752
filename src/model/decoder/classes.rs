//! Heads that name a class, of a text or of each of its tokens.

use super::{DecoderContext, cross_entropy};
use crate::model::architecture::DecoderOutput;
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Tape, TensorId};
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Classes over the hidden states, and the loss (transformers 4.57.6, modeling_layers.py and loss/loss_utils.py).
    pub(super) fn class_head(&self, mut b: Builder<'_>, x: TensorId) -> Tape {
        let (tokens, from) = (self.run.tokens(), self.d.embedding_dim);
        let linear = |to, bias| Linear { name: "head", from, to, bias, part: Part::Head };
        let logits = match self.d.says {
            DecoderOutput::TokenClass { classes, dropout } => {
                let x = b.dropout("head.dropout", x, self.run.dropout_or(dropout));
                let logits = b.linear(x, tokens, linear(classes, true));
                b.cast("loss.upcast", logits, Element::F32)
            }
            DecoderOutput::TextClass(classes) => {
                // Every token gets logits, of which each text's last are taken.
                let logits = b.linear(x, tokens, linear(classes, false));
                let taken = (self.run.batch.saturating_mul(classes), b.element(logits));
                b.unary("head.last_token", (logits, Flow::New), taken, Stash::Nothing)
            }
            DecoderOutput::Tokens | DecoderOutput::States => return b.finish(x),
        };
        if self.run.head_only {
            return b.finish(logits);
        }
        let loss = cross_entropy(&mut b, logits);
        b.finish(loss)
    }
}
