//! Attention whose scores lie in memory: as a framework's module writes it out, or as PyTorch's fallback does.

use super::DecoderContext;
use super::attention::product;
use super::kernels::Core;
use crate::model::architecture::Family;
use crate::model::builder::{Builder, Stash};
use crate::model::element::Element;
use crate::model::tape::{Flow, Spec, TensorId, Unit, rounded};
use crate::model::walk::Kernel;
use crate::model::work::{MatMul, Work};
use crate::plan::keywords::Position;

impl DecoderContext<'_> {
    /// The math fallback of PyTorch: matmuls and a softmax in memory, in fp32
    /// (aten/src/ATen/native/transformers/attention.cpp, `_scaled_dot_product_attention_math`).
    pub(super) fn math(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core) -> TensorId {
        let name = "attention.core";
        let [q, k, v] = qkv.map(|x| b.lower(name, x));
        let own = b.element(q);
        let [q, k, v] = [q, k, v].map(|x| b.cast(name, x, Element::F32));
        // `repeat_interleave` always copies; Falcon leaves a single head to the matmul.
        let as_is = self.family == Family::Falcon && core.is_view();
        let repeat = core.heads != core.kv_heads && !as_is;
        let (k, v) = if repeat { (self.repeated(b, k, core), self.repeated(b, v, core)) } else { (k, v) };
        let q = b.pointwise(name, q, Stash::Nothing);
        let k = b.pointwise(name, k, Stash::Nothing);
        let v = if repeat || own != Element::F32 { v } else { b.copy(name, v) };
        // Autocast is off within (aten/src/ATen/autocast_mode.h, `WrapFunction_`).
        let scores = self.bmm(b, "attention.scores", (q, k), core, (core.dim, core.keys));
        // Causal masking adds a bias to the scores.
        let masked = b.pointwise(name, scores, Stash::Nothing);
        let probabilities = b.pointwise("attention.softmax", masked, Stash::Output);
        b.of_rows();
        let probabilities = b.dropout("attention.dropout", probabilities, self.score_dropout());
        let out = self.bmm(b, "attention.values", (probabilities, v), core, (core.keys, core.value_dim));
        let out = b.cast(name, out, own);
        b.copy("attention.merge", out)
    }

    /// Attention written out in the module: scores scaled, masked, a softmax, dropout.
    pub(super) fn eager(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core) -> TensorId {
        let [q, k, v] = qkv;
        // Heads of one sample lie as a batched matmul reads them; a single one of it is repeated by a view.
        let one = core.batch == 1;
        let whole = core.heads == core.kv_heads;
        let q = if core.by_head || one { q } else { b.reordered("attention.contiguous", q) };
        let as_is = core.is_view() || (whole && (core.by_head || one));
        let k = if as_is { k } else { self.by_heads(b, "attention.repeat_kv", k, core) };
        let as_is = core.is_view() || (whole && one);
        let v = if as_is { v } else { self.by_heads(b, "attention.contiguous", v, core) };
        let rules = self.class_rules();
        let wide = rules.wide_scores || rules.upcast_scores;
        let [q, k] = [q, k].map(|x| if wide { b.cast("attention.core", x, Element::F32) } else { x });
        let [q, k] = [q, k].map(|x| if rules.upcast_scores { x } else { b.lower("attention.core", x) });
        let v = b.lower("attention.core", v);
        let element = b.element(v);
        let scores = self.scores(b, q, k, core);
        let (probabilities, held) = if self.d.attention_sinks {
            self.with_sinks(b, scores, core)
        } else {
            match self.family {
                Family::Bloom => self.bloom_softmax(b, scores, element),
                Family::Falcon => self.falcon_softmax(b, scores),
                _ => self.usual_softmax(b, scores, element, core.masked),
            }
        };
        let probabilities = b.dropout("attention.dropout", probabilities, self.score_dropout());
        // BART's layers have names for them too, and give them to nobody.
        if self.gives_probabilities() || (self.family.has_bart_layers() && self.run.modules.family_classes.is) {
            b.named.push(probabilities);
        }
        let out = self.weigh(b, probabilities, v, core);
        let out = b.reordered("attention.merge", out);
        b.held.extend(held);
        out
    }

    /// Keys or values as a batched matmul over heads reads them: repeated, or where queries have no more heads in order.
    fn by_heads(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId, core: &Core) -> TensorId {
        if core.heads == core.kv_heads { b.reordered(name, x) } else { self.repeated_as(b, name, x, core) }
    }

    /// Scaled, capped, masked, an fp32 softmax cast back (`eager_attention_forward` of most families). BERT has a name
    /// for the masked scores (`BertSelfAttention.forward`). Images have no mask (models/vit/modeling_vit.py).
    fn usual_softmax(
        &self,
        b: &mut Builder<'_>,
        scores: TensorId,
        element: Element,
        is_masked: bool,
    ) -> (TensorId, Vec<TensorId>) {
        let name = "attention.core";
        let scaled = b.pointwise(name, scores, Stash::Nothing);
        let capped = if self.d.attention_softcap {
            let tanh = b.pointwise(name, scaled, Stash::Output);
            b.pointwise(name, tanh, Stash::Nothing)
        } else {
            scaled
        };
        let bert = self.family.has_bert_layers() || self.family == Family::Albert;
        let masked = match self.family {
            family if bert || family == Family::Distilbert => self.masked(b, capped),
            Family::Vit => capped,
            family if family.has_bart_layers() && !is_masked => capped,
            family if family.has_bart_layers() || family == Family::ModernBert => self.masked(b, capped),
            _ => b.unary("attention.mask", (capped, Flow::Pass), (b.numel(capped), b.element(capped)), Stash::Nothing),
        };
        let wide = !self.softmax_as_is() || self.run.types.autocast.is_some();
        let softmax = if wide {
            self.wide_softmax(b, masked, masked == capped)
        } else {
            b.pointwise("attention.softmax", masked, Stash::Output)
        };
        b.of_rows();
        let held = if bert { vec![masked] } else { Vec::new() };
        // BERT, BART and Whisper leave it as it is: autocast casts what their dropout makes of it.
        let as_is = bert || self.family == Family::Whisper || self.family.has_bart_layers();
        (if as_is { softmax } else { b.cast("attention.softmax", softmax, element) }, held)
    }

    /// A softmax over scores whose result is fp32. Its kernel reads fp16 scores as they are and writes their gradient in
    /// fp16; others are made fp32 by a copy first (aten/src/ATen/native/SoftMax.cpp, `softmax`: `half_to_float`). Under
    /// autocast a mask, which is of the stream's type, has made them fp32 before.
    fn wide_softmax(&self, b: &mut Builder<'_>, scores: TensorId, unmasked: bool) -> TensorId {
        let name = "attention.softmax";
        if b.element(scores) == Element::F16 && (unmasked || self.stream_element() == Element::F16) {
            return b.unary(name, (scores, Flow::New), (b.numel(scores), Element::F32), Stash::Output);
        }
        let wide = b.cast(name, scores, Element::F32);
        b.pointwise(name, wide, Stash::Output)
    }

    /// The matmul scales; scores before and after the mask keep their names (models/bloom, `BloomAttention.forward`).
    fn bloom_softmax(&self, b: &mut Builder<'_>, scores: TensorId, element: Element) -> (TensorId, Vec<TensorId>) {
        let masked = self.masked(b, scores);
        let softmax = self.wide_softmax(b, masked, false);
        b.of_rows();
        (b.cast("attention.softmax", softmax, element), vec![scores, masked])
    }

    /// Scaled in place and normalised in the stream's type; with a position bias in fp32, under names of their own
    /// (models/falcon, `FalconAttention.forward`).
    fn falcon_softmax(&self, b: &mut Builder<'_>, scores: TensorId) -> (TensorId, Vec<TensorId>) {
        let stream = self.stream_element();
        let (logits, held) = if self.d.position == Position::Alibi {
            let wide = b.cast("attention.softmax", scores, Element::F32);
            let logits = b.pointwise("attention.bias", wide, Stash::Nothing);
            (b.overwritten("attention.core", logits), vec![scores, wide, logits])
        } else {
            (b.overwritten("attention.core", scores), Vec::new())
        };
        let masked = self.masked(b, logits);
        let typed = b.cast("attention.softmax", masked, stream);
        let softmax = b.pointwise("attention.softmax", typed, Stash::Output);
        b.of_rows();
        (softmax, held)
    }

    /// Whether attention that is written out gives its probabilities to the block, and that to the model's loop, asked
    /// for or not (`FalconDecoderLayer`, `BloomBlock`, `BertLayer` and `RobertaLayer`).
    fn gives_probabilities(&self) -> bool {
        let gives = matches!(self.family, Family::Falcon | Family::Bloom) || self.family.has_bert_layers();
        gives && self.run.modules.family_classes.is
    }

    /// Whether nothing saves these probabilities: autocast's copy of what a dropout made is saved.
    pub fn returns_unsaved(&self) -> bool {
        self.run.types.autocast.is_some() && self.score_dropout() > 0.0
    }

    /// Bytes of these probabilities: the model's loop has a name for what the last block returned.
    pub fn returned(&self) -> u64 {
        let core = self.core(false);
        let written = self.gives_probabilities() && self.kernel(&core) == Kernel::Eager;
        let element = match self.family {
            Family::Falcon => self.stream_element(),
            Family::Bloom => self.run.compute(),
            family if family.has_bert_layers() => {
                self.run.types.autocast.map_or(self.stream_element(), |_| Element::F32)
            }
            _ => return 0,
        };
        if written { rounded(core.scores().saturating_mul(element.bytes())) } else { 0 }
    }

    /// The sum with a mask of the stream's type.
    pub(super) fn masked(&self, b: &mut Builder<'_>, scores: TensorId) -> TensorId {
        let element = b.element(scores).promoted(self.stream_element());
        // A sum's gradient is that of its parts, unless the mask widened them.
        let flow = if element == b.element(scores) { Flow::Pass } else { Flow::New };
        b.unary("attention.mask", (scores, flow), (b.numel(scores), element), Stash::Nothing)
    }

    /// The dropout on attention probabilities. Falcon has none without a position bias (models/falcon,
    /// `FalconAttention.forward`).
    pub(super) fn score_dropout(&self) -> f64 {
        let none = self.family == Family::Falcon && self.d.position != Position::Alibi;
        if none { 0.0 } else { self.run.dropout_or(self.d.attention_dropout) }
    }

    /// Families whose softmax names no type: it keeps that of the scores, or what autocast makes of it
    /// (`eager_attention_forward` of models/gpt2, bert, roberta, whisper; `ElectraSelfAttention.forward`).
    const fn softmax_as_is(&self) -> bool {
        let family = self.family;
        let other = matches!(family, Family::Gpt2 | Family::Distilbert | Family::Albert | Family::Whisper);
        (family.has_bert_layers() || family.has_bart_layers() || other) && !self.class_rules().wide_softmax
    }

    /// Scores scaled, masked and normalised by one kernel in their own type (Megatron).
    pub(super) fn fused_softmax(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core) -> TensorId {
        let [q, k, v] = qkv;
        let repeat = core.heads != core.kv_heads;
        let (k, v) = if repeat { (self.repeated(b, k, core), self.repeated(b, v, core)) } else { (k, v) };
        let scores = self.scores(b, q, k, core);
        // ATen copies the position bias, repeated for all queries, into the result before the matmul adds to it
        // (bigscience-workshop/Megatron-DeepSpeed, megatron/model/transformer.py: `torch.baddbmm`; aten/src/ATen/native/cuda/
        // Blas.cpp, `baddbmm_out_cuda_impl`).
        let biased = self.d.position == Position::Alibi;
        let scores = if biased { b.added_in_place("attention.bias", scores) } else { scores };
        let probabilities = b.pointwise("attention.softmax", scores, Stash::Output);
        b.of_rows();
        let probabilities = b.dropout("attention.dropout", probabilities, self.score_dropout());
        let out = self.weigh(b, probabilities, v, core);
        b.copy("attention.merge", out)
    }

    pub fn scores(&self, b: &mut Builder<'_>, q: TensorId, k: TensorId, core: &Core) -> TensorId {
        let (q, k) = (b.lower("attention.scores", q), b.lower("attention.scores", k));
        self.bmm(b, "attention.scores", (q, k), core, (core.dim, core.keys))
    }

    pub fn weigh(&self, b: &mut Builder<'_>, probabilities: TensorId, v: TensorId, core: &Core) -> TensorId {
        let (probabilities, v) = (b.lower("attention.values", probabilities), b.lower("attention.values", v));
        self.bmm(b, "attention.values", (probabilities, v), core, (core.keys, core.value_dim))
    }

    /// A matmul of two activations for each head, with its inner size and its columns: saves both.
    fn bmm(
        &self,
        b: &mut Builder<'_>,
        name: &'static str,
        (x, y): (TensorId, TensorId),
        core: &Core,
        (inner, columns): (u64, u64),
    ) -> TensorId {
        let batch = core.batch.saturating_mul(core.heads);
        let numel = product(&[batch, core.queries, columns]);
        let element = b.element(x);
        let grad = b.needs_grad(x) || b.needs_grad(y);
        let out = b.make(numel, element, grad);
        let flops = 2.0 * numel as f64 * inner as f64;
        let (for_y, for_x) = (b.needs_grad(y), b.needs_grad(x));
        // Each is saved for the other's gradient.
        let saved = [x, y];
        let saved = &saved[usize::from(!for_y)..1 + usize::from(for_x)];
        // One that is repeated by a view gets its gradient whole before that is added up.
        let whole = product(&[batch, inner, columns]);
        let scratch_backward = if b.numel(y) < whole { whole.saturating_mul(element.bytes()) } else { 0 };
        b.op(&Spec {
            name,
            unit: Unit::Matrix(element),
            work: Work::Product(MatMul { batch, rows: core.queries, inner, columns, layer: false }),
            scratch_backward,
            inputs: &[(x, Flow::New), (y, Flow::New)],
            outputs: &[out],
            saved: if grad { saved } else { &[] },
            flops: (flops, flops * f64::from(u8::from(for_x) + u8::from(for_y))),
            ..Spec::default()
        });
        out
    }
}
