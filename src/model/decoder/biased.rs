//! ERNIE 4.5's router (transformers 4.57.6, models/ernie4_5_moe/modeling_ernie4_5_moe.py, `Ernie4_5_MoeSparseMoeBlock`).

use super::DecoderContext;
use super::experts::best;
use crate::model::architecture::Moe;
use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::TensorId;
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Scores in fp32 without autocast. Experts are chosen by scores with a bias, which nothing trains, and weighted by
    /// those without.
    pub(super) fn route_by_biased(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe) -> TensorId {
        let (rows, element) = (self.run.stream_tokens(), b.element(x));
        let x = b.cast("moe.router", x, Element::F32);
        let matrix = b.weight(Part::Router, moe.experts, self.d.hidden);
        let matrix = b.cast("moe.router", matrix, Element::F32);
        let logits = b.multiplied("moe.router", x, (matrix, None), (rows, self.d.hidden, moe.experts), None);
        let scores = b.pointwise("moe.softmax", logits, Stash::Output);
        b.frozen(Part::Router, moe.experts, 1);
        b.pointwise("moe.bias", scores, Stash::Nothing);
        let top = best(b, scores, rows.saturating_mul(moe.per_token));
        let sum = b.copy_of("moe.normalise", top, rows);
        let normed = b.mul("moe.normalise", top, sum);
        b.cast("moe.weights", normed, element)
    }
}
