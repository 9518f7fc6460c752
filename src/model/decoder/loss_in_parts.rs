//! Losses that go through the tokens in parts, with the head or behind it.

use super::DecoderContext;
use super::attention::product;
use super::mlp::scratch_backward;
use crate::model::builder::Builder;
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId, Unit};
use crate::model::work::{MatMul, Work};

impl DecoderContext<'_> {
    /// Liger's fused linear cross-entropy (liger_kernel/ops/fused_linear_cross_entropy.py): gradients of
    /// input and weight are made in the forward pass, over chunks of tokens whose logits take about as
    /// much as the input; or over so many parts, each with its backward pass, whose gradients go to the matrix at once
    /// (torchtitan, components/loss.py, `ChunkedLossWrapper`).
    pub(super) fn fused_loss(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        head: TensorId,
        (tokens, rows): (u64, u64),
        parts: Option<u64>,
    ) -> TensorId {
        let columns = self.d.embedding_dim;
        let by_law = rows.div_ceil(columns.max(1)).max(1);
        let chunk = match parts {
            Some(parts) => tokens.div_ceil(parts.max(1)),
            None => tokens.div_ceil(by_law).checked_next_power_of_two().unwrap_or(tokens),
        };
        let chunk = chunk.min(tokens).max(1);
        let element = b.element(x);
        // Autocast goes on within the function (`amp_custom_fwd` without `cast_inputs`). It keeps a copy of a trained weight for
        // the second product; the first one's operand is a view, whose copy goes at once.
        let autocast = self.run.types.autocast;
        let computed = autocast.unwrap_or(element);
        // A frozen head has no gradient and no product for it (`if grad_weight is not None`).
        let trained = b.needs_grad(head);
        let copies = if autocast.is_some_and(|to| to != b.element(head)) {
            product(&[1 + u64::from(trained), rows, columns, computed.bytes()])
        } else {
            0
        };
        let grad_x = b.make(tokens.saturating_mul(columns), element, false);
        let grad_w = trained.then(|| b.make(rows.saturating_mul(columns), b.element(head), false));
        let loss = b.make(1, Element::F32, true);
        let made: Vec<TensorId> = [loss, grad_x].into_iter().chain(grad_w).collect();
        let products = 2 + u64::from(trained);
        let product_flops = 2.0 * tokens as f64 * columns as f64 * rows as f64;
        b.op(&Spec {
            name: "loss.fused",
            unit: Unit::Matrix(computed),
            // Logits, the input's gradient and that of a trained weight: matmuls of the same size.
            work: Work::Product(MatMul { batch: products, rows: tokens, inner: columns, columns: rows, layer: false }),
            inputs: &[(x, Flow::New), (head, Flow::New)],
            outputs: &made,
            saved: if parts.is_none() { &made[1..] } else { &made[1..2] },
            scratch_forward: product(&[chunk, rows, computed.bytes() + 4]).saturating_add(copies),
            flops: (products as f64 * product_flops, 0.0),
            ..Spec::default()
        });
        loss
    }

    /// Head and cross-entropy a chunk of tokens at a time: 16-bit logits stay until their chunk's gradient takes
    /// their place (torchtune, modules/loss/ce_chunked_output_loss.py). One chunk's fp32 copy is transient; compiled,
    /// upcast and reductions are one kernel, and a chunk's gradient in the logits' own type is all that is made
    /// (torchtune, training/_compile.py, compile_loss).
    pub(super) fn chunked_loss(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        head: TensorId,
        shape: (u64, u64),
        chunks: u64,
        compiled: bool,
    ) -> TensorId {
        let (tokens, rows) = shape;
        let columns = self.d.embedding_dim;
        let logits = b.matrix("head", x, head, None, (tokens, columns, rows));
        // Each chunk makes a gradient of the whole matrix, which is added to that of the chunks before.
        if b.needs_grad(head) {
            let gradient = b.tape.get(head).allocated();
            scratch_backward(b, gradient);
        }
        let logits = self.capped(b, logits);
        let chunk = product(&[tokens.div_ceil(chunks.max(1)), rows]);
        let forward = if compiled { 0 } else { chunk.saturating_mul(4) };
        let backward = chunk.saturating_mul(if compiled { b.element(logits).bytes() } else { 4 });
        let loss = b.make(1, Element::F32, true);
        // Eager, autograd keeps each part's log-softmax in fp32 in place of its logits.
        let more = if compiled { 0 } else { 4_u64.saturating_sub(b.element(logits).bytes()) };
        let wider = b.make(b.numel(logits).saturating_mul(more), Element::Bool, false);
        let (made, kept) = ([loss, wider], [logits, wider]);
        let eager = 1 + usize::from(!compiled);
        b.op(&Spec {
            name: "loss.chunked",
            inputs: &[(logits, Flow::InPlace)],
            outputs: &made[..eager],
            saved: &kept[..eager],
            scratch_forward: forward,
            scratch_backward: backward,
            ..Spec::default()
        });
        loss
    }
}
