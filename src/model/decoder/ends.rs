//! Before the layers and behind them: embedding, head, loss.

use super::DecoderContext;
use super::attention::product;
use super::kernels::is_aligned;
use super::losses::{cross_entropy, sharded_cross_entropy, te_loss, vocab_parallel_loss};
use crate::model::architecture::{DecoderOutput, Family};
use crate::model::builder::{Builder, EMBEDDING, Stash};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, GRANULE, Spec, Tape, TensorId};
use crate::model::walk::{Kernel, LossRule};
use crate::model::weight::Part;
use crate::plan::keywords::Position;

impl DecoderContext<'_> {
    /// Rows of the embedding on one rank.
    pub fn vocab_rows(&self) -> u64 {
        self.head_rows(self.is_cut_apart())
    }

    /// Columns of the logits, all or a rank's.
    pub(super) fn head_rows(&self, whole: bool) -> u64 {
        let rows = self.d.padded_vocab(self.run.vocab_multiple);
        if whole { rows } else { self.split(rows) }
    }

    /// Embedding and positions; bytes of the tables that layers share.
    pub(super) fn embedding(&self) -> (Tape, u64) {
        let mut b = self.builder();
        b.group = Group::Embedding;
        let x = self.embedded(&mut b);
        (b.finish(x), self.rotary_tables().saturating_add(self.score_bias()))
    }

    /// The tokens' rows with their positions.
    pub fn embedded(&self, b: &mut Builder<'_>) -> TensorId {
        let d = self.d;
        let tokens = self.run.tokens();
        let shape = (self.vocab_rows(), d.embedding_dim);
        let saved = b.saved(EMBEDDING, Part::Embedding, shape, false);
        let table = saved.unwrap_or_else(|| b.weight(Part::Embedding, shape.0, shape.1));
        if d.tie_embeddings && saved.is_none() {
            b.waits_for_head();
        }
        let x = self.lookup(b, "embedding", table, product(&[tokens, d.embedding_dim]));
        let x = b.adapted_lookup(x, tokens, shape);
        let x = if d.embedding_dim == d.hidden {
            x
        } else {
            let project = b.weight(Part::Embedding, d.hidden, d.embedding_dim);
            b.matrix("embedding.project_in", x, project, None, (tokens, d.embedding_dim, d.hidden))
        };
        let x = if matches!(self.family, Family::Gemma | Family::Gemma2 | Family::Gemma3Text) {
            b.pointwise("embedding.scale", x, Stash::Nothing)
        } else {
            x
        };
        let x = self.times(b, "embedding.multiplier", x);
        let x = self.learned_positions(b, x);
        let x = if d.embedding_norm {
            let normed = self.norm(b, x, "embedding.norm", d.hidden);
            b.group = Group::Embedding;
            normed
        } else {
            x
        };
        // Scattered along the sequence before the dropout
        // (megatron-core 0.16, core/models/common/embeddings/language_model_embedding.py).
        let x = self.split_along_sequence(b, x);
        b.dropout("embedding.dropout", x, self.run.dropout_or(d.embedding_dropout))
    }

    /// This rank's tokens of a state that every tensor-parallel rank has.
    pub fn split_along_sequence(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let (tokens, stream) = (self.run.tokens(), self.run.stream_tokens());
        if stream == tokens {
            return x;
        }
        let scattered = b.copy_of("reduce_scatter", x, stream.saturating_mul(self.d.hidden));
        b.sent();
        scattered
    }

    fn learned_positions(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let d = self.d;
        if d.position != Position::Learned {
            return x;
        }
        // llm-foundry's table has a row for each token of the sequence that is trained.
        let rows = d.max_positions.unwrap_or(self.run.sequence).saturating_add(d.extra_positions);
        let table = b.weight(Part::Embedding, rows, d.hidden);
        // OPT looks positions up for each sample, from its attention mask.
        let samples = if self.family == Family::Opt { self.run.batch } else { 1 };
        let numel = product(&[samples, self.run.local_sequence(), d.hidden]);
        let positions = self.lookup(b, "embedding.position", table, numel);
        b.add("embedding.add", x, positions)
    }

    /// A row for each token: the gradient is as large as the table.
    pub fn lookup(&self, b: &mut Builder<'_>, name: &'static str, table: TensorId, numel: u64) -> TensorId {
        let element = b.element(table);
        let grad = b.needs_grad(table) || (name == "embedding" && self.run.graded_inputs);
        let out = b.make(numel, element, grad);
        b.op(&Spec { name, inputs: &[(table, Flow::New)], outputs: &[out], ..Spec::default() });
        out
    }

    /// Cosines and sines of one sequence, in the type of the hidden state.
    fn rotary_tables(&self) -> u64 {
        let rules = self.class_rules();
        if self.d.position != Position::Rope || (rules.sample_tables && rules.layer_tables > 0) {
            return 0;
        }
        let samples = if rules.sample_tables { self.run.batch } else { 1 };
        let one = product(&[samples, self.run.local_sequence(), self.d.rotary_dim, self.stream_element().bytes()]);
        // Gemma 3 has tables of their own for windowed layers (models/gemma3/modeling_gemma3.py, rotary_emb_local).
        let tables = if self.family == Family::Gemma3Text { 4 } else { 2 };
        one.div_ceil(GRANULE).saturating_mul(tables * GRANULE)
    }

    /// Whether the model makes one mask of the stream's type for all its layers' kernels (`_update_causal_mask` of
    /// models/falcon, opt and qwen2_moe).
    fn has_typed_mask(&self) -> bool {
        let fused = matches!(self.family, Family::Opt | Family::Qwen2Moe | Family::Jamba);
        let own = self.family == Family::Falcon || self.class_rules().typed_mask || self.hands_bias();
        own || (fused && self.kernel(&self.core(false)) != Kernel::Eager)
    }

    /// Whether it stands for a fused kernel too, of one sample's positions.
    fn has_whole_mask(&self) -> bool {
        self.class_rules().typed_mask || self.family == Family::Jamba
    }

    /// That mask, where every layer's kernel reads and keeps the same.
    fn score_bias(&self) -> u64 {
        let core = self.core(false);
        let kept = self.has_typed_mask() && self.kernel(&core) == Kernel::Efficient && is_aligned(core.keys);
        if kept && self.run.types.autocast.is_none() { self.typed_mask() } else { 0 }
    }

    /// That mask, with Falcon's position bias in it where it has one; SDPA spares itself a causal one.
    fn typed_mask(&self) -> u64 {
        let core = self.core(false);
        let cells = if self.d.position == Position::Alibi {
            core.scores()
        } else if self.run.padded {
            product(&[core.batch, core.queries, core.keys])
        } else if self.kernel(&core) == Kernel::Eager || self.has_whole_mask() {
            core.queries.saturating_mul(core.keys)
        } else {
            0
        };
        cells.saturating_mul(self.stream_element().bytes())
    }

    /// Masks that layers without and with a window are handed, and that a checkpointed layer keeps until it is
    /// recomputed: a boolean for SDPA, a bias of the stream's type for attention that is written out (transformers
    /// 4.57.6, masking_utils.py).
    pub(super) fn masks(&self) -> [u64; 2] {
        if !self.run.modules.masks.is {
            return [0; 2];
        }
        if self.has_typed_mask() {
            return [self.typed_mask().saturating_sub(self.score_bias()); 2];
        }
        // Made whole, and handed to layers that ask no more than that it be causal (`NemotronHModel._update_causal_mask`).
        if self.family == Family::NemotronH {
            let core = self.core(false);
            return [product(&[core.queries, core.keys, self.stream_element().bytes()]); 2];
        }
        [false, true].map(|windowed| {
            let core = self.core(windowed);
            let cells = core.queries.saturating_mul(core.keys);
            // Without padding samples differ in nothing: theirs are views of one, unless a bias is made of each.
            let samples = if self.run.padded { core.batch } else { 1 };
            match self.kernel(&core) {
                // models/qwen2_moe, `_prepare_4d_causal_attention_mask_with_cache_position`.
                Kernel::Eager if self.family == Family::Qwen2Moe => {
                    product(&[cells, samples, self.stream_element().bytes()])
                }
                Kernel::Eager => product(&[cells, core.batch, self.stream_element().bytes()]),
                Kernel::Efficient | Kernel::Math if core.masked => cells.saturating_mul(samples),
                _ => 0,
            }
        })
    }

    /// Final norm, output matrix and loss.
    pub(super) fn head(&self, stream: Element) -> Tape {
        let d = self.d;
        let mut b = self.builder();
        let x = b.input(self.run.stream_tokens().saturating_mul(d.hidden), stream, self.reaches_blocks());
        let x = if d.final_norm { self.norm(&mut b, x, "final_norm", d.hidden) } else { x };
        let normed = x;
        let x = self.narrowed(&mut b, x);
        b.group = Group::Logits;
        let tokens = self.run.tokens();
        let x = if d.embedding_dim == d.hidden {
            x
        } else {
            let project = b.weight(Part::Embedding, d.embedding_dim, d.hidden);
            b.matrix("head.project_out", x, project, None, (tokens, d.hidden, d.embedding_dim))
        };
        if d.says != DecoderOutput::Tokens {
            return self.class_head(b, x);
        }
        let x = self.gather(&mut b, x, Part::Head);
        let (rows, columns) = (self.head_rows(self.has_whole_head()), d.embedding_dim);
        let head = b.output_matrix(rows, columns, d.tie_embeddings);
        let bias = d.head_bias.then(|| b.weight(Part::Head, rows, 1));
        let x = if self.predicts_further() { self.predicted_further(&mut b, x, head) } else { x };
        if self.run.head_only {
            // Generation needs the last token's logits only (transformers, logits_to_keep).
            let last = self.run.batch.saturating_mul(columns);
            let x = b.copy_of("head.last_token", x, last);
            let logits = b.matrix("head", x, head, bias, (self.run.batch, columns, rows));
            let logits = b.adapted_head(x, logits, (self.run.batch, columns, rows));
            let logits = self.capped(&mut b, logits);
            return b.finish(logits);
        }
        let loss = match self.run.loss {
            LossRule::Fused { parts } => self.fused_loss(&mut b, x, head, (tokens, rows), parts),
            LossRule::Chunked { chunks, compiled } => {
                self.chunked_loss(&mut b, x, head, (tokens, rows), chunks, compiled)
            }
            rule => {
                let gathered = self.gathered_bytes(&b, x, Part::Head);
                let logits = b.matrix("head", x, head, bias, (tokens, columns, rows));
                self.gathered(&mut b, gathered, true);
                let logits = b.adapted_head(x, logits, (tokens, columns, rows));
                let parts = matches!(rule, LossRule::VocabParallel | LossRule::VocabParallelFused | LossRule::TeFused);
                let gathers = self.is_cut_apart() && !parts;
                let logits = if gathers { self.whole_logits(&mut b, logits, rows) } else { logits };
                let logits = self.times(&mut b, "head.multiplier", logits);
                let logits = self.capped(&mut b, logits);
                let loss = self.loss(&mut b, logits, tokens, rule);
                // The hidden state that autocast made a copy of for the matrix.
                if rule == LossRule::Upcast && self.run.types.autocast.is_some() {
                    self.hold(&mut b, x);
                }
                if normed != x && self.run.modules.python_names.is {
                    b.holds("loss.return", &[normed]);
                }
                loss
            }
        };
        b.finish(loss)
    }

    /// `tanh(logits / cap) * cap`.
    pub(super) fn capped(&self, b: &mut Builder<'_>, logits: TensorId) -> TensorId {
        if !self.d.logit_softcap {
            return logits;
        }
        let scaled = b.pointwise("head.softcap", logits, Stash::Nothing);
        let tanh = b.pointwise("head.softcap", scaled, Stash::Output);
        b.pointwise("head.softcap", tanh, Stash::Nothing)
    }

    /// The loss over logits in memory.
    pub fn loss(&self, b: &mut Builder<'_>, logits: TensorId, tokens: u64, rule: LossRule) -> TensorId {
        match rule {
            LossRule::VocabParallel => vocab_parallel_loss(b, logits, tokens, 0),
            // The compiled functions write the exponentials beside the fp32 logits instead of over them
            // (core/fusions/fused_cross_entropy.py, jit_fuser).
            LossRule::VocabParallelFused => {
                let copy = b.numel(logits).saturating_mul(4);
                vocab_parallel_loss(b, logits, tokens, copy)
            }
            LossRule::TeFused => te_loss(b, logits, tokens),
            LossRule::Upcast => {
                let wide = b.cast("loss.upcast", logits, Element::F32);
                if self.class_rules().copies_logits {
                    return self.shifted_loss(b, wide, tokens);
                }
                let loss = cross_entropy(b, wide);
                if wide != logits {
                    self.hold(b, logits);
                }
                loss
            }
            LossRule::ShardedLogits => {
                let wide = b.cast("loss.upcast", logits, Element::F32);
                let loss = sharded_cross_entropy(b, wide);
                if wide != logits {
                    self.hold(b, logits);
                }
                loss
            }
            // Chunked and fused losses never get here: they have no logits.
            LossRule::Plain | LossRule::Chunked { .. } | LossRule::Fused { .. } => cross_entropy(b, logits),
        }
    }

    /// Logits of all tokens but each sample's last, copied (`NemotronHForCausalLM.forward`).
    fn shifted_loss(&self, b: &mut Builder<'_>, logits: TensorId, tokens: u64) -> TensorId {
        let each = b.numel(logits) / tokens.max(1);
        let shifted = b.copy_of("loss.shift", logits, tokens.saturating_sub(self.run.batch).saturating_mul(each));
        let loss = cross_entropy(b, shifted);
        b.holds("loss.return", &[logits, shifted]);
        loss
    }

    /// What the training loop, or the model's own function, holds while the loss works on a copy of the logits.
    fn hold(&self, b: &mut Builder<'_>, held: TensorId) {
        if !self.run.modules.logits_held.is {
            return;
        }
        let bytes = b.tape.get(held).allocated();
        for op in b.tape.ops.iter_mut().filter(|op| op.name == "loss.log_softmax") {
            op.scratch_forward = op.scratch_forward.saturating_add(bytes);
        }
    }
}
