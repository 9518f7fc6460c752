//! The stream of routed experts, which may be narrower than the model's (models/nemotron_h/modeling_nemotron_h.py,
//! `NemotronHMoE`; core/transformer/moe/moe_layer.py, `fc1_latent_proj`).

use super::DecoderContext;
use crate::framework::Experts;
use crate::model::architecture::{Family, Moe};
use crate::model::builder::{Builder, Linear};
use crate::model::tape::TensorId;
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Channels of the tokens that routed experts read and write.
    pub(super) fn routed_width(&self) -> u64 {
        self.d.moe.as_ref().and_then(|moe| moe.latent).unwrap_or(self.d.hidden)
    }

    /// What the routed experts make of each token, whose router and shared experts read the whole stream.
    pub(super) fn routed(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe) -> TensorId {
        let Some(latent) = moe.latent else { return self.dispatched(b, x, weights, moe) };
        let (rows, hidden) = (self.run.stream_tokens(), self.d.hidden);
        let linear = |name, from, to| Linear { name, from, to, bias: self.d.mlp_bias, part: Part::Mlp };
        let low = b.linear(x, rows, linear("moe.latent_in", hidden, latent));
        let out = self.dispatched(b, low, weights, moe);
        b.linear(out, rows, linear("moe.latent_out", latent, hidden))
    }

    /// Tokens by the experts that they are routed to, as the framework sorts them.
    fn dispatched(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe) -> TensorId {
        let sorts = self.family == Family::DeepseekV2 && !self.run.head_only;
        match self.run.modules.experts.is {
            Experts::Loop if sorts => self.sorted(b, x, weights, moe),
            Experts::Loop => self.looped(b, x, weights, moe),
            Experts::Grouped | Experts::Weighted => self.grouped(b, x, weights, moe),
        }
    }
}
