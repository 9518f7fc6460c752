//! Multi-head latent attention (`DeepSeek` V2 and V3): queries, keys and values through low ranks.

use super::DecoderContext;
use super::attention::product;
use crate::framework::SplitHeads;
use crate::model::builder::{Builder, Linear};
use crate::model::element::Group;
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::weight::Part;

impl DecoderContext<'_> {
    /// Latent attention with its projections (models/deepseek_v2, deepseek_v3; core/transformer/multi_latent_attention.py).
    pub(super) fn latent_attention(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let d = self.d;
        let Some(mla) = &d.mla else { return x };
        let rows = self.run.tokens();
        let core = self.core(false);
        let part = Part::Attention;
        let linear = |name, from, to, bias| Linear { name, from, to, bias, part };
        let gathered = self.gathered_bytes(b, x, part);
        let query_width = core.heads.saturating_mul(d.head_dim);
        let q = if mla.q_lora_rank == 0 {
            b.linear(x, rows, linear("attention.q_proj", d.hidden, query_width, false))
        } else {
            let low = b.linear(x, rows, linear("attention.q_a_proj", d.hidden, mla.q_lora_rank, d.qkv_bias));
            let low = self.norm(b, low, "attention.q_a_norm", mla.q_lora_rank);
            b.group = Group::Attention;
            b.linear(low, rows, linear("attention.q_b_proj", mla.q_lora_rank, query_width, false))
        };
        let low_width = mla.kv_lora_rank + mla.qk_rope_head_dim;
        let compressed = b.linear(x, rows, linear("attention.kv_a_proj", d.hidden, low_width, d.qkv_bias));
        self.gathered(b, gathered, false);
        let sizes = [rows.saturating_mul(mla.kv_lora_rank), rows.saturating_mul(mla.qk_rope_head_dim)];
        let [low, rope_key] = b.split("attention.split", compressed, sizes);
        let low = self.norm(b, low, "attention.kv_a_norm", mla.kv_lora_rank);
        b.group = Group::Attention;
        let up = core.heads.saturating_mul(mla.qk_nope_head_dim + mla.v_head_dim);
        let expanded = b.linear(low, rows, linear("attention.kv_b_proj", mla.kv_lora_rank, up, false));
        let plain = product(&[rows, core.heads, mla.qk_nope_head_dim]);
        let values = product(&[rows, core.heads, mla.v_head_dim]);
        let [key, value] = b.split("attention.split", expanded, [plain, values]);
        let rotated = product(&[rows, core.heads, mla.qk_rope_head_dim]);
        let [plain_query, rope_query] = b.split("attention.split", q, [plain, rotated]);
        let rope_query = self.rotate(b, rope_query, 1.0);
        let rope_key = self.rotate(b, rope_key, 1.0);
        let latent = self.remember_latent(b, low, rope_key, mla);
        let whole = rows.saturating_mul(query_width);
        let q = joined(b, plain_query, rope_query, whole);
        let k = joined(b, key, rope_key, whole);
        // Megatron makes values contiguous; transformers' kernels read them where they are.
        let v = if self.run.modules.heads.is == SplitHeads::Copies { b.copy("attention.split", value) } else { value };
        self.exchange(b, &core);
        let out = match latent.filter(|_| self.is_decoding()) {
            Some(latent) => self.latent_core(b, q, latent, &core, mla),
            None if latent.is_some() => self.attend(b, q, k, v, &core),
            None => self.remembering(b, [q, k, v], &core, false),
        };
        let from = core.heads.saturating_mul(mla.v_head_dim);
        let out = b.linear(out, rows, linear("attention.o_proj", from, d.hidden, d.out_bias));
        self.reduced(b, out)
    }
}

/// Heads put together from a plain and a rotated part.
fn joined(b: &mut Builder<'_>, plain: TensorId, rotated: TensorId, numel: u64) -> TensorId {
    let element = b.element(plain).promoted(b.element(rotated));
    let grad = b.needs_grad(plain) || b.needs_grad(rotated);
    let out = b.make(numel, element, grad);
    // The key's rotated part is one for all heads: its gradient is summed over them.
    let flow = if b.numel(plain).saturating_add(b.numel(rotated)) == numel { Flow::Pass } else { Flow::New };
    b.op(&Spec {
        name: "attention.join",
        inputs: &[(plain, Flow::Pass), (rotated, flow)],
        outputs: &[out],
        elementwise: true,
        ..Spec::default()
    });
    out
}
