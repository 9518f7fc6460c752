//! Llama 4's experts (transformers 4.57.6, models/llama4/modeling_llama4.py, `Llama4TextMoe`): each reads all tokens,
//! those that the router did not send it times 0.

use super::DecoderContext;
use super::experts::best;
use crate::model::architecture::Moe;
use crate::model::builder::{Builder, Stash};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, TensorId};

impl DecoderContext<'_> {
    /// `Llama4TextMoe.forward`: scores weight what goes into the experts, whose outputs are added to the shared one's.
    pub(super) fn all_of_all(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe) -> TensorId {
        let (rows, hidden) = (self.run.stream_tokens(), self.d.hidden);
        let scores = self.route_all(b, x, rows, moe);
        let all = self.rows_of_all(rows, moe);
        let element = b.element(x);
        self.exchange_routed(b, rows.saturating_mul(moe.per_token), element, self.run.cut.sequence);
        let repeated = b.copy_of("moe.dispatch", x, all.saturating_mul(hidden));
        let weighted = b.mul("moe.dispatch", repeated, scores);
        let every = Moe { per_token: moe.experts, ..moe.clone() };
        let routed = self.expert_mlp(b, weighted, all, &every, None);
        b.holds("moe.return", &[repeated, weighted]);
        let shared = self.mlp(b, x, moe.shared_intermediate, "shared_experts");
        b.group = Group::Experts;
        let sum = b.unary(
            "moe.combine",
            (routed, Flow::Pass),
            (rows.saturating_mul(hidden), b.element(routed)),
            Stash::Nothing,
        );
        b.add("moe.add", shared, sum)
    }

    /// `Llama4Router.forward`: the sigmoid of the chosen logits among minus infinities, which are 0.
    fn route_all(&self, b: &mut Builder<'_>, x: TensorId, rows: u64, moe: &Moe) -> TensorId {
        let logits = self.router_logits(b, x, moe);
        let element = b.element(logits);
        let top = best(b, logits, rows.saturating_mul(moe.per_token));
        let (numel, grad) = (b.numel(logits), b.needs_grad(top));
        let among = b.make(numel, element, grad);
        b.op(&Spec {
            name: "moe.router",
            inputs: &[(top, Flow::New)],
            outputs: &[among],
            elementwise: true,
            ..Spec::default()
        });
        let wide = b.cast("moe.sigmoid", among, Element::F32);
        let scores = b.pointwise("moe.sigmoid", wide, Stash::Output);
        let scores = b.cast("moe.sigmoid", scores, element);
        // Transposed and reshaped.
        b.copy("moe.sigmoid", scores)
    }
}
