//! Multi-token prediction: modules behind the last layer that each predict one token further
//! (arXiv 2412.19437, section 2.2; megatron-core, core/transformer/multi_token_prediction.py).

use super::{DecoderContext, LayerKind};
use crate::model::builder::{Builder, Linear};
use crate::model::element::Group;
use crate::model::tape::{Flow, Home, Spec, Tensor, TensorId};
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Whether such modules run.
    pub(super) fn predicts_further(&self) -> bool {
        self.d.mtp_layers > 0 && self.run.modules.prediction.is && !self.run.head_only
    }

    /// The modules over the last layer's normed result, and their losses over the output matrix `head`; what comes out
    /// is that result, whose gradient brings theirs along (`MTPLossAutoScaler`).
    pub(super) fn predicted_further(&self, b: &mut Builder<'_>, x: TensorId, head: TensorId) -> TensorId {
        let mut states = vec![x];
        for _ in 0..self.d.mtp_layers {
            let before = states[states.len() - 1];
            states.push(self.prediction_module(b, before, head));
        }
        // All results are put together and taken apart again (`MultiTokenPredictionBlock.forward`, torch.cat).
        b.group = Group::Residual;
        let mut states =
            states.into_iter().map(|state| b.copy("prediction.cat", state)).collect::<Vec<_>>().into_iter();
        let Some(mut main) = states.next() else { return x };
        for state in states {
            b.group = Group::Logits;
            let (tokens, rows) = (self.run.tokens(), self.vocab_rows());
            let gathered = self.gathered_bytes(b, state, Part::Head);
            let logits = b.matrix("prediction.head", state, head, None, (tokens, self.d.embedding_dim, rows));
            self.gathered(b, gathered, true);
            let loss = self.loss(b, logits, tokens, self.run.loss);
            main = scaled(b, main, loss);
        }
        main
    }

    /// One module: the next token's embedding and the hidden state, both normed, through a matrix into a layer like
    /// the model's last.
    fn prediction_module(&self, b: &mut Builder<'_>, x: TensorId, head: TensorId) -> TensorId {
        let d = self.d;
        let tokens = self.run.tokens();
        b.group = Group::Embedding;
        let table = if d.tie_embeddings {
            head
        } else {
            let table = b.weight(Part::Embedding, self.vocab_rows(), d.hidden);
            b.tie_last();
            table
        };
        let ahead = self.lookup(b, "prediction.embedding", table, tokens.saturating_mul(d.hidden));
        let ahead = self.split_along_sequence(b, ahead);
        let ahead = self.norm(b, ahead, "prediction.embedding_norm", d.hidden);
        let x = self.norm(b, x, "prediction.hidden_norm", d.hidden);
        b.group = Group::Residual;
        let joined = joined(b, ahead, x);
        let gathered = self.gathered_bytes(b, joined, Part::Mlp);
        let (from, to) = (d.hidden.saturating_mul(2), self.split(d.hidden));
        let layer = Linear { name: "prediction.project", from, to, bias: false, part: Part::Mlp };
        let projected = b.linear(joined, tokens, layer);
        self.gathered(b, gathered, false);
        let projected = if self.run.cut.tensor > 1 {
            let whole = b.copy_of("prediction.gather", projected, tokens.saturating_mul(d.hidden));
            b.sent();
            whole
        } else {
            projected
        };
        let x = self.split_along_sequence(b, projected);
        let last = d.layers.saturating_sub(1);
        let out = self.pre_norm_body(b, x, LayerKind::of(d, last));
        self.norm(b, out, "prediction.norm", d.hidden)
    }
}

/// Embedding and hidden state side by side.
fn joined(b: &mut Builder<'_>, ahead: TensorId, x: TensorId) -> TensorId {
    let (numel, element) = (b.numel(ahead).saturating_add(b.numel(x)), b.element(x));
    let out = b.make(numel, element, true);
    let inputs = [(ahead, Flow::Pass), (x, Flow::Pass)];
    b.op(&Spec { name: "prediction.join", inputs: &inputs, outputs: &[out], elementwise: true, ..Spec::default() });
    out
}

/// `x` itself, whose gradient passes on and starts that of `loss`.
fn scaled(b: &mut Builder<'_>, x: TensorId, loss: TensorId) -> TensorId {
    let root = b.tape.storage(x);
    let whole = *b.tape.get(x);
    let out = b.tape.tensor(Tensor { home: Home::Local, cached: false, view_of: Some(root), ..whole });
    let inputs = [(x, Flow::Pass), (loss, Flow::New)];
    b.op(&Spec { name: "prediction.scale", inputs: &inputs, outputs: &[out], launches: 0, ..Spec::default() });
    out
}
