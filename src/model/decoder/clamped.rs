//! gpt-oss in transformers: its router, its loop over experts and its attention sinks
//! (transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py).

use super::DecoderContext;
use super::attention::product;
use super::experts::best;
use super::kernels::Core;
use super::mlp::scratch_backward;
use crate::framework::Experts;
use crate::model::architecture::{Act, Moe};
use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::walk::FusedKernels;
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Whether transformers' gpt-oss modules run.
    pub(super) fn is_clamped_loop(&self) -> bool {
        self.d.act == Act::ClampedSwiglu && self.run.modules.experts.is == Experts::Loop
    }

    /// Whether every expert takes every token: outside of training, on a GPU (`GptOssExperts.forward`).
    pub(super) fn is_clamped_whole(&self) -> bool {
        self.is_clamped_loop() && self.run.head_only && self.run.fused != FusedKernels::Cpu
    }

    /// Experts of a rank: tensor parallelism, too, gives it whole ones (models/gpt_oss/configuration_gpt_oss.py,
    /// `base_model_tp_plan`: `grouped_gemm`).
    fn clamped_experts(&self, moe: &Moe) -> u64 {
        moe.experts.div_ceil(self.expert_ranks())
    }

    /// The best logits, then a softmax over those alone (`GptOssTopKRouter`).
    pub(super) fn route_best(&self, b: &mut Builder<'_>, logits: TensorId, moe: &Moe) -> TensorId {
        let rows = self.run.stream_tokens();
        let element = b.element(logits);
        let top = best(b, logits, rows.saturating_mul(moe.per_token));
        let weights = b.pointwise("moe.softmax", top, Stash::Output);
        b.unary("moe.scatter", (weights, Flow::New), (rows.saturating_mul(moe.experts), element), Stash::Nothing)
    }

    /// The matrices of the experts over `rows` tokens, with biases added apart and both halves clamped
    /// (`GptOssExperts.forward`).
    pub(super) fn clamped_mlp(&self, b: &mut Builder<'_>, x: TensorId, rows: u64, moe: &Moe) -> TensorId {
        let d = self.d;
        let (name, half) = ("moe.act", rows.saturating_mul(moe.intermediate));
        let both = self.biased(b, x, moe, (rows, d.hidden, moe.intermediate.saturating_mul(2)));
        let [gate, up] = b.split(name, both, [half, half]);
        let gate = b.pointwise(name, gate, Stash::Input);
        let clamped = b.pointwise(name, up, Stash::Input);
        let scaled = b.pointwise(name, gate, Stash::Nothing);
        let sigmoid = b.pointwise(name, scaled, Stash::Output);
        let active = b.mul(name, gate, sigmoid);
        let up = b.pointwise(name, clamped, Stash::Nothing);
        let gated = b.mul(name, up, active);
        // Names of the function's hold all of them.
        if self.run.head_only {
            b.holds(name, &[both, gate, clamped, active, up]);
        }
        self.biased(b, gated, moe, (rows, moe.intermediate, d.hidden))
    }

    /// Outside of training, on a GPU, every expert takes every token in two batched products, and weights of 0 drop what was
    /// not asked for (`GptOssExperts.forward`).
    pub(super) fn clamped_all(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe) -> TensorId {
        let (rows, hidden, element) = (self.run.stream_tokens(), self.d.hidden, b.element(x));
        let local = self.clamped_experts(moe);
        self.exchange_routed(b, rows.saturating_mul(moe.per_token), element, self.run.cut.sequence);
        let all = self.rows_of_all(rows, moe);
        let repeated = b.copy_of("moe.dispatch", x, all.saturating_mul(hidden));
        let every = Moe { per_token: local, ..moe.clone() };
        let out = self.clamped_mlp(b, repeated, all, &every);
        b.holds("moe.return", &[repeated]);
        let weighted = b.mul("moe.combine", out, weights);
        b.unary("moe.combine", (weighted, Flow::Pass), (rows.saturating_mul(hidden), element), Stash::Nothing)
    }

    /// One matrix of each expert, and its bias in the type that it is stored in.
    fn biased(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe, shape: (u64, u64, u64)) -> TensorId {
        let plain = Moe { expert_bias: false, ..moe.clone() };
        let local = self.clamped_experts(moe);
        let out = self.expert_matrix(b, x, &plain, local, shape, "moe.experts");
        // Each expert's gradient is put into one of all experts' size, and that added to those before.
        let whole = product(&[local, shape.1, shape.2, self.run.types.weight.bytes()]);
        if b.tape.weights.last().is_some_and(|weight| weight.trained) {
            scratch_backward(b, whole.saturating_add(whole / local.max(1)));
        }
        let bias = b.weights(Part::Expert, shape.2, 1, local, moe.per_token.min(local));
        b.add("moe.experts", out, bias)
    }

    /// Scaled and masked scores with a sink beside each row, the largest subtracted, and a softmax in their own type,
    /// of which the sink is cut off (`eager_attention_forward`).
    pub(super) fn with_sinks(&self, b: &mut Builder<'_>, scores: TensorId, core: &Core) -> (TensorId, Vec<TensorId>) {
        let name = "attention.sinks";
        let grad = b.needs_grad(scores);
        let scaled = b.pointwise("attention.core", scores, Stash::Nothing);
        let masked = self.masked(b, scaled);
        let element = b.element(masked);
        let rows = product(&[core.batch, core.heads, core.queries]);
        let joined =
            b.unary(name, (masked, Flow::New), (b.numel(masked).saturating_add(rows), element), Stash::Nothing);
        let shifted = b.make(b.numel(joined), element, grad);
        let index = b.make(rows, Element::I64, false);
        let saved = [index];
        b.op(&Spec {
            name,
            inputs: &[(joined, Flow::Pass)],
            outputs: &[shifted, index],
            saved: if grad { &saved } else { &[] },
            elementwise: true,
            ..Spec::default()
        });
        let softmax = b.pointwise("attention.softmax", shifted, Stash::Output);
        b.of_rows();
        // The name of the masked scores goes to the dropped out ones.
        b.op(&Spec { name, inputs: &[(masked, Flow::Stop)], launches: 0, ..Spec::default() });
        (softmax, vec![shifted])
    }
}
