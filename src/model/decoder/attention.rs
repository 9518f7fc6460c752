//! Attention with its projections and positions.

use super::DecoderContext;
use super::kernels::Core;
use super::mlp::scratch;
use super::norm::bare_rms_norm;
use crate::framework::{Rope, SplitHeads};
use crate::model::architecture::{Family, QkNorm};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, Spec, TensorId};
use crate::model::walk::AttentionChoice;
use crate::model::weight::Part;
use crate::plan::keywords::Position;

/// A product of sizes that stops at the largest number.
pub fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

/// The attention's output times the sigmoid of its gate (models/qwen3_next, `Qwen3NextAttention.forward`).
fn gated(b: &mut Builder<'_>, out: TensorId, gate: TensorId) -> TensorId {
    let gate = b.pointwise("attention.gate", gate, Stash::Output);
    b.mul("attention.gate", out, gate)
}

/// Queries times what their positions make of them, in fp32 (models/llama4, `attn_temperature_tuning`).
fn scaled_by_position(b: &mut Builder<'_>, q: TensorId) -> TensorId {
    let element = b.element(q);
    let scaled = b.unary("attention.scale", (q, Flow::New), (b.numel(q), Element::F32), Stash::Nothing);
    b.cast("attention.scale", scaled, element)
}

impl DecoderContext<'_> {
    /// Attention with its projections.
    pub fn attention(&self, b: &mut Builder<'_>, x: TensorId, windowed: bool) -> TensorId {
        b.group = Group::Attention;
        if let Some(distances) = &self.d.distances {
            return self.disentangled(b, x, distances);
        }
        if self.d.mla.is_some() {
            return self.latent_attention(b, x);
        }
        let d = self.d;
        let rows = self.run.tokens();
        let core = self.core(windowed);
        if d.attention_sinks {
            b.weight(Part::Attention, core.heads, 1);
        }
        let (qkv, gate) = self.projections(b, x, rows, &core);
        let ([q, k, v], core) = self.falcon_heads(b, qkv, core);
        let (q, k) = if self.class_rules().bare_full_layers && !windowed {
            (scaled_by_position(b, q), k)
        } else {
            let (q, k) = self.positions(b, q, k);
            self.normed_behind(b, q, k)
        };
        self.exchange(b, &core);
        let out = self.remembering(b, [q, k, v], &core, windowed);
        if b.is_autocast() || self.run.modules.python_names.is {
            b.held.extend([q, k, v]);
        }
        // The kernels of flash-attn take samples of all lengths at once.
        let joined = self.class_rules().joined_samples && self.run.attention != AttentionChoice::Flash;
        let out = if joined { b.copy("attention.join", out) } else { out };
        let out = gate.map_or(out, |gate| gated(b, out, gate));
        let part = Part::Attention;
        let from = self.split(d.heads).saturating_mul(core.value_dim);
        let out = b.linear(out, rows, Linear { name: "attention.o_proj", from, to: d.hidden, bias: d.out_bias, part });
        // BLOOM's module adds the residual as well (models/bloom, `BloomAttention.forward`).
        if self.family != Family::Bloom {
            b.returns("attention.return");
        }
        self.reduced(b, out)
    }

    /// Queries, keys and values, views of one tensor where one matrix makes them, and what gates the output, which a copy of half
    /// the queries' matrix does.
    fn projections(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        rows: u64,
        core: &Core,
    ) -> ([TensorId; 3], Option<TensorId>) {
        let d = self.d;
        let (wide, narrow) = (core.heads.saturating_mul(core.dim), core.kv_heads.saturating_mul(core.dim));
        let part = Part::Attention;
        let linear = |name, to| Linear { name, from: d.hidden, to, bias: d.qkv_bias, part };
        // The gathered input is there while the matrix runs, not while its result is split.
        let gathered = self.gathered_bytes(b, x, part);
        if self.run.modules.is_one_matrix(d.fused_qkv) {
            let to = narrow.saturating_mul(2).saturating_add(wide);
            let all = b.linear(x, rows, linear("attention.qkv_proj", to));
            self.gathered(b, gathered, false);
            let (q, k) = (rows.saturating_mul(wide), rows.saturating_mul(narrow));
            let parts = b.split("attention.split", all, [q, k, k]);
            let copied = self.run.modules.heads.is == SplitHeads::Copies;
            let [q, k, v] = parts.map(|part| if copied { b.copy("attention.split", part) } else { part });
            return ([self.head_norm(b, q, "attention.q_norm"), self.head_norm(b, k, "attention.k_norm"), v], None);
        }
        let both = if d.attention_gate { wide.saturating_mul(2) } else { wide };
        let q = b.linear(x, rows, linear("attention.q_proj", both));
        let (q, gate) = if d.attention_gate {
            let [q, gate] = b.split("attention.split", q, [rows.saturating_mul(wide); 2]);
            (q, Some(b.copy("attention.split", gate)))
        } else {
            (q, None)
        };
        let q = self.head_norm(b, q, "attention.q_norm");
        // OPTAttention scales queries after projecting them (models/opt/modeling_opt.py).
        let q = if self.family == Family::Opt { b.pointwise("attention.scale", q, Stash::Nothing) } else { q };
        let k = b.linear(x, rows, linear("attention.k_proj", narrow));
        let k = self.times(b, "attention.multiplier", k);
        let k = self.head_norm(b, k, "attention.k_norm");
        let v = b.linear(x, rows, linear("attention.v_proj", narrow));
        self.gathered(b, gathered, false);
        ([q, k, v], gate)
    }

    /// Falcon takes its few keys and values out of the projection by index; its new decoder repeats them to the number
    /// of query heads, those of a single group by a view (models/falcon/modeling_falcon.py, `_split_heads`).
    fn falcon_heads(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: Core) -> ([TensorId; 3], Core) {
        let few = core.kv_heads < core.heads;
        if self.family != Family::Falcon || !few || self.run.modules.fused_projections.is {
            return (qkv, core);
        }
        let [q, k, v] = qkv;
        let [k, v] = [k, v].map(|x| b.copy("attention.split", x));
        if !self.d.broadcast_kv {
            return ([q, k, v], core);
        }
        let one = core.kv_heads == 1;
        let [k, v] = [k, v].map(|x| {
            if one {
                let [x] = b.split("attention.split", x, [core.query()]);
                x
            } else {
                self.repeated(b, x, &core)
            }
        });
        ([q, k, v], Core { kv_heads: core.heads, ..core })
    }

    /// Norms over queries and keys that stand before the rotation.
    fn head_norm(&self, b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
        if self.class_rules().norms_rotated { x } else { self.normed_head(b, x, name) }
    }

    /// Norms over queries and keys that stand behind it.
    fn normed_behind(&self, b: &mut Builder<'_>, q: TensorId, k: TensorId) -> (TensorId, TensorId) {
        if !self.class_rules().norms_rotated {
            return (q, k);
        }
        (self.normed_head(b, q, "attention.q_norm"), self.normed_head(b, k, "attention.k_norm"))
    }

    fn normed_head(&self, b: &mut Builder<'_>, x: TensorId, name: &'static str) -> TensorId {
        let width = match self.d.qk_norm {
            QkNorm::No => return x,
            QkNorm::PerHead => self.d.head_dim,
            QkNorm::Bare => return bare_rms_norm(b, x, name, self.d.head_dim),
            QkNorm::Whole => b.numel(x) / self.run.tokens().max(1),
        };
        let out = self.norm(b, x, name, width);
        b.group = Group::Attention;
        out
    }

    /// Positions in queries and keys.
    fn positions(&self, b: &mut Builder<'_>, q: TensorId, k: TensorId) -> (TensorId, TensorId) {
        if self.d.position != Position::Rope {
            return (q, k);
        }
        let share = self.d.rotary_dim as f64 / self.d.head_dim.max(1) as f64;
        let rules = self.class_rules();
        for _ in 0..rules.layer_tables {
            let samples = if rules.sample_tables { self.run.batch } else { 1 };
            let numel = product(&[samples, self.run.local_sequence(), self.d.rotary_dim]);
            let element = if rules.own_tables { b.element(q) } else { self.stream_element() };
            let table = b.make(numel, element, false);
            let saved = if b.needs_grad(q) || b.needs_grad(k) { &[table][..] } else { &[] };
            b.op(&Spec { name: "attention.rope", outputs: &[table], saved, elementwise: true, ..Spec::default() });
        }
        let [q, k] = [q, k].map(|x| {
            let element = b.element(x);
            let wide = if rules.wide_rotation { b.cast("attention.rope", x, Element::F32) } else { x };
            let turned = self.rotate(b, wide, share);
            if rules.wide_rotation { b.cast("attention.rope", turned, element) } else { turned }
        });
        (q, k)
    }

    /// A rotary embedding of a share of the channels of `x`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn rotate(&self, b: &mut Builder<'_>, x: TensorId, share: f64) -> TensorId {
        let name = "attention.rope";
        let numel = b.numel(x);
        let partial = (numel as f64 * share) as u64;
        match if self.class_rules().complex_rotation { Rope::Complex } else { self.run.modules.rope.is } {
            Rope::Fused => {
                let element = b.element(x);
                b.unary(name, (x, Flow::New), (numel, element), Stash::Nothing)
            }
            // Transposed projections lie as the kernel wants them: no copy is made (ops/rope.py, rope_forward).
            Rope::InPlace => b.added_in_place(name, x),
            Rope::Complex => {
                let element = b.element(x);
                let wide = b.cast(name, x, Element::F32);
                // A complex product with a table that needs no gradient saves the table alone.
                let turned = b.pointwise(name, wide, Stash::Nothing);
                b.cast(name, turned, element)
            }
            Rope::Eager => {
                // The table has the type of the hidden state: fp32 under autocast, so that the product is.
                let own = b.element(x);
                let element = if self.class_rules().own_tables { own } else { own.promoted(self.stream_element()) };
                let cos = b.unary(name, (x, Flow::New), (partial, element), Stash::Nothing);
                let turned = b.unary(name, (x, Flow::New), (partial, own), Stash::Nothing);
                let half = partial.saturating_mul(own.bytes()) / 2;
                scratch(b, half, half.saturating_mul(2));
                let sin = b.unary(name, (turned, Flow::New), (partial, element), Stash::Nothing);
                let sum = b.add(name, cos, sin);
                if partial == numel && !self.joins_rotated() {
                    return sum;
                }
                // The channels that are not rotated are put back by a `cat`.
                let grad = b.needs_grad(x);
                let whole = b.make(numel, element, grad);
                b.op(&Spec {
                    name,
                    inputs: &[(sum, Flow::Pass), (x, Flow::New)],
                    outputs: &[whole],
                    elementwise: true,
                    ..Spec::default()
                });
                whole
            }
        }
    }

    /// Rotated channels and the others are joined by a `cat`; these families do so even where all are rotated
    /// (models/gpt_neox, phi, phi3, `apply_rotary_pos_emb`).
    pub(super) fn joins_rotated(&self) -> bool {
        let always = self.run.modules.rope.is == Rope::Eager
            && matches!(self.family, Family::GptNeox | Family::Phi | Family::Phi3);
        self.d.position == Position::Rope && (always || self.d.rotary_dim < self.d.head_dim)
    }
}
