//! Losses over logits in memory.

use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId};

/// `log_softmax` and `nll_loss`. Under autocast the first keeps the logits' own type and only
/// the second is in fp32 (`cross_entropy_loss` passes the type on).
pub fn cross_entropy(b: &mut Builder<'_>, logits: TensorId) -> TensorId {
    let log_softmax = b.pointwise("loss.log_softmax", logits, Stash::Output);
    b.of_rows();
    let log_softmax = b.upper("loss.nll", log_softmax);
    let loss = b.make(1, Element::F32, true);
    let weight = b.make(1, Element::F32, false);
    let saved = [log_softmax, weight];
    b.op(&Spec {
        name: "loss.nll",
        inputs: &[(log_softmax, Flow::New)],
        outputs: &[loss, weight],
        saved: &saved,
        ..Spec::default()
    });
    loss
}

/// PyTorch's loss over logits sharded along the vocabulary (torch/distributed/tensor/parallel/loss.py): forward the
/// shifted logits beside their exponentials or the result; backward the one-hot gradient, the exponentials and their
/// sum.
pub(super) fn sharded_cross_entropy(b: &mut Builder<'_>, logits: TensorId) -> TensorId {
    let copy = b.tape.get(logits).allocated();
    let loss = cross_entropy(b, logits);
    for op in b.tape.ops.iter_mut().filter(|op| op.name == "loss.log_softmax") {
        op.scratch_forward = copy;
        op.scratch_backward = copy;
    }
    loss
}

/// Megatron's vocabulary-parallel cross-entropy (core/tensor_parallel/cross_entropy.py): an fp32 copy whose
/// exponentials are kept and become the gradient in place.
pub(super) fn vocab_parallel_loss(
    b: &mut Builder<'_>,
    logits: TensorId,
    tokens: u64,
    scratch_forward: u64,
) -> TensorId {
    let softmax = b.make(b.numel(logits), Element::F32, false);
    let mask = b.make(tokens, Element::Bool, false);
    let target = b.make(tokens, Element::I64, false);
    let loss = b.make(tokens, Element::F32, true);
    let saved = [softmax, mask, target];
    b.op(&Spec {
        name: "loss.vocab_parallel",
        elementwise: true,
        inputs: &[(logits, Flow::New)],
        outputs: &[loss, softmax, mask, target],
        saved: &saved,
        scratch_forward,
        ..Spec::default()
    });
    loss
}

/// Transformer Engine's cross-entropy (pytorch/triton/cross_entropy.py): the logits are overwritten by their gradient.
pub(super) fn te_loss(b: &mut Builder<'_>, logits: TensorId, tokens: u64) -> TensorId {
    let statistics = b.make(tokens.saturating_mul(3), Element::F32, false);
    let loss = b.make(tokens, Element::F32, true);
    let saved = [logits, statistics];
    b.op(&Spec {
        name: "loss.te_fused",
        inputs: &[(logits, Flow::InPlace)],
        outputs: &[loss, statistics],
        saved: &saved,
        ..Spec::default()
    });
    loss
}
