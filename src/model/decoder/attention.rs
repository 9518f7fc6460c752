//! Attention: projections, positions, the core.

use super::Ctx;
use super::mlp::scratch;
use crate::model::architecture::{Family, QkNorm};
use crate::model::builder::{Builder, Keeps, Linear};
use crate::model::element::{Element, Group};
use crate::model::rules::{Rope, Softmax, SplitHeads};
use crate::model::tape::{Flow, Id, Spec, Unit};
use crate::model::walk::{AttentionChoice, Kernel};
use crate::model::weight::{Collective, CollectiveKind, Part, RankGroup};
use crate::model::work::{Product, Scores, Work};
use crate::plan::keywords::Position;

/// Sizes of the attention core on one rank.
#[derive(Clone, Copy)]
pub struct Core {
    pub batch: u64,
    /// Query positions on this rank.
    pub queries: u64,
    /// Key positions that they attend to.
    pub keys: u64,
    pub heads: u64,
    pub kv_heads: u64,
    /// Head size of queries and keys.
    pub dim: u64,
    /// Head size of values.
    pub value_dim: u64,
    /// A window narrower than the sequence needs a mask outside flash kernels.
    pub masked: bool,
    /// Queries and keys lie contiguous by head (a `cat` made them).
    pub by_head: bool,
    /// Share of the pairs of query and key that a kernel which skips masked blocks computes.
    pub visible: f64,
}

impl Core {
    fn query(&self) -> u64 {
        product(&[self.batch, self.queries, self.heads, self.dim])
    }

    pub(super) fn output(&self) -> u64 {
        product(&[self.batch, self.queries, self.heads, self.value_dim])
    }

    pub fn scores(&self) -> u64 {
        product(&[self.batch, self.heads, self.queries, self.keys])
    }

    fn rows(&self) -> u64 {
        product(&[self.batch, self.heads, self.queries])
    }

    /// The fused kernel's work.
    pub(super) fn work(&self) -> Work {
        Work::Attention(Scores {
            heads: self.batch.saturating_mul(self.heads),
            queries: self.queries,
            dim: u64::midpoint(self.dim, self.value_dim),
            visible: self.visible,
        })
    }

    /// Operations of both products, not halved for causality.
    pub(super) fn flops(&self) -> f64 {
        2.0 * self.rows() as f64 * self.keys as f64 * (self.dim + self.value_dim) as f64
    }
}

/// A product of sizes that stops at the largest number.
pub fn product(sizes: &[u64]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

impl Ctx<'_> {
    /// Sizes of the core in a layer with or without a window.
    pub fn core(&self, windowed: bool) -> Core {
        let (d, run) = (self.d, self.run);
        let window = d.sliding_window.filter(|window| windowed && *window < run.sequence);
        let reach = window.map_or(1.0, |window| window as f64 / run.sequence as f64);
        Core {
            batch: run.batch,
            queries: run.local_sequence(),
            keys: run.context_tokens(),
            heads: self.split(d.heads),
            kv_heads: self.split(d.kv_heads),
            dim: d.head_dim,
            value_dim: d.value_dim(),
            masked: run.padded || window.is_some(),
            by_head: d.position == Position::Rope && d.rotary_dim < d.head_dim && d.mla.is_none(),
            // Of a window's w, all but the first w queries see w keys; without one w is the whole sequence.
            visible: if self.causal && run.cache.is_none_or(|cache| cache.past == 0) {
                reach - reach * reach / 2.0
            } else {
                1.0
            },
        }
    }

    /// Which kernel runs (PyTorch 2.9, `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`).
    pub(super) fn kernel(&self, core: &Core) -> Kernel {
        let element = self.run.compute();
        match self.run.attention {
            AttentionChoice::Eager => Kernel::Eager,
            AttentionChoice::Flash => Kernel::Flash,
            // A score cap, a sink or a position bias on the scores leaves transformers no fused kernel.
            AttentionChoice::Dispatch if self.d.attention_sinks && self.run.rules.fused_sinks.is => Kernel::Flash,
            AttentionChoice::Dispatch if self.d.attention_softcap || self.d.attention_sinks => Kernel::Eager,
            AttentionChoice::Dispatch if self.d.position == Position::Alibi && self.family == Family::Bloom => {
                Kernel::Eager
            }
            AttentionChoice::Dispatch => {
                let half = matches!(element, Element::Bf16 | Element::F16 | Element::Fp8);
                if half && !core.masked && core.dim <= 256 && core.dim == core.value_dim {
                    Kernel::Flash
                } else if core.heads == core.kv_heads || core.masked {
                    Kernel::Efficient
                } else {
                    Kernel::Math
                }
            }
        }
    }

    /// Attention with its projections.
    pub fn attention(&self, b: &mut Builder<'_>, x: Id, windowed: bool) -> Id {
        b.group = Group::Attention;
        if self.d.mla.is_some() {
            return self.latent_attention(b, x);
        }
        let d = self.d;
        let rows = self.run.tokens();
        let core = self.core(windowed);
        if d.attention_sinks {
            b.weight(Part::Attention, core.heads, 1);
        }
        let [q, k, v] = self.projections(b, x, rows, &core);
        let (q, k) = self.positions(b, q, k);
        self.exchange(b, &core);
        let out = self.remembering(b, [q, k, v], &core, windowed);
        let part = Part::Attention;
        let from = self.split(d.heads).saturating_mul(core.value_dim);
        let out = b.linear(out, rows, Linear { name: "attention.o_proj", from, to: d.hidden, bias: d.out_bias, part });
        self.reduced(b, out)
    }

    /// Queries, keys and values; views of one tensor where one matrix makes them.
    fn projections(&self, b: &mut Builder<'_>, x: Id, rows: u64, core: &Core) -> [Id; 3] {
        let d = self.d;
        let (wide, narrow) = (core.heads.saturating_mul(core.dim), core.kv_heads.saturating_mul(core.dim));
        let part = Part::Attention;
        let linear = |name, to| Linear { name, from: d.hidden, to, bias: d.qkv_bias, part };
        // The gathered input is there while the matrix runs, not while its result is split.
        let gathered = self.gathered_bytes(b.element(x));
        if d.fused_qkv || self.run.rules.fused_projections.is {
            let to = narrow.saturating_mul(2).saturating_add(wide);
            let all = b.linear(x, rows, linear("attention.qkv_proj", to));
            scratch(b, gathered);
            let (q, k) = (rows.saturating_mul(wide), rows.saturating_mul(narrow));
            let parts = b.split("attention.split", all, [q, k, k]);
            if self.run.rules.heads.is == SplitHeads::Copies {
                return parts.map(|part| b.copy("attention.split", part));
            }
            return parts;
        }
        let q = b.linear(x, rows, linear("attention.q_proj", wide));
        let q = self.head_norm(b, q, "attention.q_norm");
        // OPTAttention scales queries after projecting them (models/opt/modeling_opt.py).
        let q = if self.family == Family::Opt { b.pointwise("attention.scale", q, Keeps::Nothing) } else { q };
        let k = b.linear(x, rows, linear("attention.k_proj", narrow));
        let k = self.head_norm(b, k, "attention.k_norm");
        let v = b.linear(x, rows, linear("attention.v_proj", narrow));
        scratch(b, gathered);
        [q, k, v]
    }

    fn head_norm(&self, b: &mut Builder<'_>, x: Id, name: &'static str) -> Id {
        if self.d.qk_norm == QkNorm::No {
            return x;
        }
        let out = self.norm(b, x, name, self.d.head_dim);
        b.group = Group::Attention;
        out
    }

    /// Positions in queries and keys.
    fn positions(&self, b: &mut Builder<'_>, q: Id, k: Id) -> (Id, Id) {
        if self.d.position != Position::Rope {
            return (q, k);
        }
        let share = self.d.rotary_dim as f64 / self.d.head_dim.max(1) as f64;
        (self.rotate(b, q, share), self.rotate(b, k, share))
    }

    /// A rotary embedding of a share of the channels of `x`.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn rotate(&self, b: &mut Builder<'_>, x: Id, share: f64) -> Id {
        let name = "attention.rope";
        let numel = b.numel(x);
        let partial = (numel as f64 * share) as u64;
        match self.run.rules.rope.is {
            Rope::Fused => {
                let element = b.element(x);
                b.unary(name, (x, Flow::New), (numel, element), Keeps::Nothing)
            }
            Rope::Complex => {
                let element = b.element(x);
                let wide = b.cast(name, x, Element::F32);
                // A complex product with a table that needs no gradient saves the table alone.
                let turned = b.pointwise(name, wide, Keeps::Nothing);
                b.cast(name, turned, element)
            }
            Rope::Eager => {
                // The table has the type of the hidden state: fp32 under autocast, so that the product is.
                let element = b.element(x).promoted(self.stream_element());
                let own = b.element(x);
                let cos = b.unary(name, (x, Flow::New), (partial, element), Keeps::Nothing);
                let turned = b.unary(name, (x, Flow::New), (partial, own), Keeps::Nothing);
                scratch(b, partial.saturating_mul(own.bytes()) / 2);
                let sin = b.unary(name, (turned, Flow::New), (partial, element), Keeps::Nothing);
                let sum = b.add(name, cos, sin);
                if partial == numel {
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

    /// Keys and values that context parallel exchanges.
    pub(super) fn exchange(&self, b: &mut Builder<'_>, core: &Core) {
        let context = self.run.cut.context;
        if context > 1 {
            let bytes = product(&[core.batch, core.keys, core.kv_heads, core.dim + core.value_dim])
                .saturating_mul(self.run.compute().bytes());
            b.collective(Collective {
                kind: CollectiveKind::Ring,
                group: RankGroup::Context,
                bytes,
                forward: 1,
                backward: 2,
            });
        }
    }

    /// The attention core; its output lies as the output matrix reads it.
    pub fn attend(&self, b: &mut Builder<'_>, q: Id, k: Id, v: Id, core: &Core) -> Id {
        match self.kernel(core) {
            kernel @ (Kernel::Flash | Kernel::Efficient) => self.fused(b, [q, k, v], core, kernel),
            Kernel::Math => self.math(b, [q, k, v], core),
            Kernel::Eager if self.run.rules.softmax.is == Softmax::Fused => self.fused_softmax(b, [q, k, v], core),
            Kernel::Eager => self.eager(b, [q, k, v], core),
        }
    }

    /// A fused kernel: saves queries, keys, values, its output and the log-sum of each row.
    fn fused(&self, b: &mut Builder<'_>, qkv: [Id; 3], core: &Core, kernel: Kernel) -> Id {
        let name = "attention.core";
        let [q, k, v] = qkv.map(|x| b.lower(name, x));
        // transformers repeats keys and values for a kernel with a mask (integrations/sdpa_attention.py).
        let repeat = core.heads != core.kv_heads && (kernel == Kernel::Efficient || self.run.rules.repeated_kv.is);
        let (k, v) = if repeat { (self.repeated(b, k, core), self.repeated(b, v, core)) } else { (k, v) };
        let element = b.element(q);
        let grad = b.needs_grad(q) || b.needs_grad(k) || b.needs_grad(v);
        // BERT makes its mask once for all layers (models/bert/modeling_bert.py).
        let shared = matches!(self.family, Family::Bert | Family::Roberta);
        let mask = (core.masked && kernel == Kernel::Efficient && !shared).then(|| {
            // A boolean mask is turned into one of the score's type in each call.
            let mask = b.make(product(&[core.batch, core.queries, core.keys]), element, false);
            b.op(&Spec { name: "attention.mask", outputs: &[mask], elementwise: true, ..Spec::default() });
            mask
        });
        let out = b.make(core.output(), element, grad);
        // The memory-efficient kernel pads each head's rows to 32.
        let rows = if kernel == Kernel::Efficient {
            product(&[core.batch, core.heads, core.queries.div_ceil(32).saturating_mul(32)])
        } else {
            core.rows()
        };
        let log_sum = b.make(rows, Element::F32, false);
        let (seed, offset) = (b.make(1, Element::I64, false), b.make(1, Element::I64, false));
        let saved = [q, k, v, out, log_sum, seed, offset, mask.unwrap_or(log_sum)];
        let flops = core.flops();
        b.op(&Spec {
            name,
            unit: Unit::Attention(element),
            work: core.work(),
            inputs: &[(q, Flow::New), (k, Flow::New), (v, Flow::New)],
            outputs: &[out, log_sum, seed, offset],
            saved: if grad { &saved } else { &[] },
            flops: (flops, 2.5 * flops),
            ..Spec::default()
        });
        if core.by_head && kernel == Kernel::Flash { b.copy("attention.merge", out) } else { out }
    }

    fn repeated(&self, b: &mut Builder<'_>, x: Id, core: &Core) -> Id {
        b.copy_of("attention.repeat_kv", x, core.query())
    }

    /// The math fallback of PyTorch: products and a softmax in memory.
    fn math(&self, b: &mut Builder<'_>, qkv: [Id; 3], core: &Core) -> Id {
        let name = "attention.core";
        let [q, k, v] = qkv.map(|x| b.lower(name, x));
        let repeat = core.heads != core.kv_heads;
        let (k, v) = if repeat { (self.repeated(b, k, core), self.repeated(b, v, core)) } else { (k, v) };
        let q = b.pointwise(name, q, Keeps::Nothing);
        let k = b.pointwise(name, k, Keeps::Nothing);
        let v = if repeat { v } else { b.copy(name, v) };
        let scores = self.scores(b, q, k, core);
        // Causal masking adds a bias to the scores.
        let masked = b.pointwise(name, scores, Keeps::Nothing);
        let probabilities = b.pointwise("attention.softmax", masked, Keeps::Output);
        let out = self.weigh(b, probabilities, v, core);
        b.copy("attention.merge", out)
    }

    /// Attention written out in the module: scores scaled, masked, an fp32 softmax, dropout.
    fn eager(&self, b: &mut Builder<'_>, qkv: [Id; 3], core: &Core) -> Id {
        let name = "attention.core";
        let [q, k, v] = qkv;
        let q = if core.by_head { q } else { b.copy_of("attention.contiguous", q, core.query()) };
        let k = if core.by_head && core.heads == core.kv_heads { k } else { self.repeated(b, k, core) };
        let v = b.copy_of("attention.contiguous", v, core.output());
        let [q, k, v] = [q, k, v].map(|x| b.lower(name, x));
        let element = b.element(q);
        let scores = self.scores(b, q, k, core);
        // BLOOM's baddbmm scales and adds its bias in the product.
        let scaled = if self.family == Family::Bloom { scores } else { b.pointwise(name, scores, Keeps::Nothing) };
        let capped = if self.d.attention_softcap {
            let tanh = b.pointwise(name, scaled, Keeps::Output);
            b.pointwise(name, tanh, Keeps::Nothing)
        } else {
            scaled
        };
        let masked = b.pointwise("attention.mask", capped, Keeps::Nothing);
        let wide = b.cast("attention.softmax", masked, Element::F32);
        let softmax = b.pointwise("attention.softmax", wide, Keeps::Output);
        let probabilities = b.cast("attention.softmax", softmax, element);
        let dropout = self.run.dropout_or(self.d.attention_dropout);
        let probabilities = b.dropout("attention.dropout", probabilities, dropout);
        let out = self.weigh(b, probabilities, v, core);
        b.copy("attention.merge", out)
    }

    /// Scores scaled, masked and normalised by one kernel in their own type (Megatron).
    fn fused_softmax(&self, b: &mut Builder<'_>, qkv: [Id; 3], core: &Core) -> Id {
        let [q, k, v] = qkv;
        let repeat = core.heads != core.kv_heads;
        let (k, v) = if repeat { (self.repeated(b, k, core), self.repeated(b, v, core)) } else { (k, v) };
        let scores = self.scores(b, q, k, core);
        let probabilities = b.pointwise("attention.softmax", scores, Keeps::Output);
        let dropout = self.run.dropout_or(self.d.attention_dropout);
        let probabilities = b.dropout("attention.dropout", probabilities, dropout);
        let out = self.weigh(b, probabilities, v, core);
        b.copy("attention.merge", out)
    }

    pub fn scores(&self, b: &mut Builder<'_>, q: Id, k: Id, core: &Core) -> Id {
        self.bmm(b, "attention.scores", (q, k), core, (core.dim, core.keys))
    }

    pub fn weigh(&self, b: &mut Builder<'_>, probabilities: Id, v: Id, core: &Core) -> Id {
        self.bmm(b, "attention.values", (probabilities, v), core, (core.keys, core.value_dim))
    }

    /// A product of two activations for each head, with its inner size and its columns: saves both.
    fn bmm(
        &self,
        b: &mut Builder<'_>,
        name: &'static str,
        (x, y): (Id, Id),
        core: &Core,
        (inner, columns): (u64, u64),
    ) -> Id {
        let batch = core.batch.saturating_mul(core.heads);
        let numel = product(&[batch, core.queries, columns]);
        let (x, y) = (b.lower(name, x), b.lower(name, y));
        let element = b.element(x);
        let grad = b.needs_grad(x) || b.needs_grad(y);
        let out = b.make(numel, element, grad);
        let flops = 2.0 * numel as f64 * inner as f64;
        let saved = [x, y];
        b.op(&Spec {
            name,
            unit: Unit::Matrix(element),
            work: Work::Product(Product { batch, rows: core.queries, inner, columns, layer: false }),
            inputs: &[(x, Flow::New), (y, Flow::New)],
            outputs: &[out],
            saved: if grad { &saved } else { &[] },
            flops: (flops, 2.0 * flops),
            ..Spec::default()
        });
        out
    }
}
