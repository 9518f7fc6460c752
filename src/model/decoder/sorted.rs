//! DeepSeek V2's experts (transformers 4.57.6, models/deepseek_v2/modeling_deepseek_v2.py): tokens sorted by expert in
//! one tensor, of which each expert reads a slice, and put back in one piece before they are weighted.

use super::DecoderContext;
use super::experts::{best, each_expert};
use crate::model::architecture::Moe;
use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// `DeepseekV2MoEGate.forward`: scores in fp32, and the best of them as they are.
    pub(super) fn route_as_scored(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe) -> TensorId {
        let rows = self.run.stream_tokens();
        let x = b.cast("moe.router", x, Element::F32);
        let matrix = b.weight(Part::Router, moe.experts, self.d.hidden);
        let matrix = b.cast("moe.router", matrix, Element::F32);
        let logits = b.matrix("moe.router", x, matrix, None, (rows, self.d.hidden, moe.experts));
        let wide = b.cast("moe.softmax", logits, Element::F32);
        let softmax = b.pointwise("moe.softmax", wide, Stash::Output);
        let top = best(b, softmax, rows.saturating_mul(moe.per_token));
        b.pointwise("moe.scale", top, Stash::Nothing)
    }

    /// `DeepseekV2MoE.moe`.
    pub(super) fn sorted(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe) -> TensorId {
        let d = self.d;
        let routed = self.run.tokens().saturating_mul(moe.per_token);
        let indices = self.sorted_indices(b, moe, routed);
        let tokens = b.copy_of("moe.dispatch", x, routed.saturating_mul(d.hidden));
        b.op(&Spec { name: "moe.dispatch", inputs: &[(tokens, Flow::Pass)], saved: &indices, ..Spec::default() });
        // A rank's own experts, which get as many tokens as there are.
        let experts = moe.experts.div_ceil(self.run.cut.expert).max(1);
        let mut outputs = Vec::with_capacity(usize::try_from(experts).unwrap_or(0));
        each_expert(b, (experts, routed), |b, expert, rows| {
            let [slice] = b.split("moe.dispatch", tokens, [rows.saturating_mul(d.hidden)]);
            let one = Moe { experts: 1, per_token: u64::from(expert < moe.per_token), ..moe.clone() };
            outputs.push(self.expert_mlp(b, slice, rows, &one, None));
        });
        // Joined, then put back where they came from.
        let element = outputs.first().map_or(Element::F32, |id| b.element(*id));
        let grad = outputs.iter().any(|id| b.needs_grad(*id));
        let joined = b.make(b.numel(tokens), element, grad);
        let inputs: Vec<(TensorId, Flow)> = outputs.iter().map(|id| (*id, Flow::Pass)).collect();
        b.op(&Spec { name: "moe.combine", inputs: &inputs, outputs: &[joined], ..Spec::default() });
        let back = b.unary("moe.combine", (joined, Flow::New), (b.numel(tokens), element), Stash::Nothing);
        let weighted = self.weighted_in_place(b, back, weights);
        let summed = (self.run.tokens().saturating_mul(d.hidden), b.element(weighted));
        let sum = b.unary("moe.combine", (weighted, Flow::Pass), summed, Stash::Nothing);
        let out = b.cast("moe.combine", sum, element);
        // The function has names for all of these.
        outputs.extend([joined, back, tokens]);
        b.holds("moe.return", &outputs);
        out
    }

    /// Where each token goes, and where it came from; the choice by expert that both are made of.
    fn sorted_indices(&self, b: &mut Builder<'_>, moe: &Moe, routed: u64) -> [TensorId; 2] {
        let counts = b.make(self.run.tokens().saturating_mul(moe.experts), Element::I64, false);
        b.op(&Spec { name: "moe.dispatch", outputs: &[counts], elementwise: true, ..Spec::default() });
        let indices = [b.make(routed, Element::I64, false), b.make(routed, Element::I64, false)];
        b.op(&Spec { name: "moe.dispatch", outputs: &indices, elementwise: true, ..Spec::default() });
        indices
    }

    /// `x.type(weights.dtype).mul_(weights)`.
    fn weighted_in_place(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId) -> TensorId {
        let element = b.element(weights);
        let wide = b.cast("moe.combine", x, element);
        b.mul_in_place("moe.combine", wide, weights)
    }
}
