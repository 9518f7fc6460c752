//! The walk of a decoder-only transformer.

mod all_experts;
mod attention;
mod biased;
mod cache;
mod clamped;
mod classes;
mod context;
mod delta;
mod disentangled;
mod ends;
mod expert_ranks;
mod experts;
mod explicit_attention;
mod gather;
mod kernels;
mod latent;
mod latent_experts;
mod layer_kind;
mod loss_in_parts;
mod losses;
mod mamba;
mod mlp;
mod module_scan;
mod norm;
mod parallel_scan;
mod prediction;
mod reached;
mod selective_scan;
mod short_conv;
mod sorted;
mod xielu;

pub use attention::product;
pub(super) use kernels::{Core, is_aligned};
pub use losses::cross_entropy;
pub use norm::layer_norm;

use super::architecture::{Decoder, DecoderOutput, Family};
use super::builder::{Builder, is_covered};
use super::element::{Element, Group};
use super::rules::{ClassRules, LayerBuffer};
use super::sight::seeing;
use super::tape::{GRANULE, Tape, TensorId, rounded};
use super::walk::{LossRule, MicroBatch, Walk};
use super::weight::{Collective, CollectiveKind, Part, RankGroup};
use crate::framework::Gather;
use crate::plan::keywords::Position;
use layer_kind::{LayerKind, Mixer};

/// A stack of blocks, the module family that runs it, and one micro-batch.
pub(super) struct DecoderContext<'a> {
    pub d: &'a Decoder,
    pub family: Family,
    pub run: &'a MicroBatch<'a>,
    /// No token attends to later ones.
    pub causal: bool,
}

/// The tapes of a decoder.
pub fn walk(d: &Decoder, family: Family, run: &MicroBatch<'_>) -> Walk {
    let ctx = DecoderContext { d, family, run, causal: true };
    let stream = ctx.stream_element();
    let (kinds, order) = ctx.layers(stream);
    let (first, shared) = ctx.embedding();
    let labels = if matches!(d.says, DecoderOutput::TextClass(_)) { run.batch } else { run.tokens() };
    let inputs = ctx.token_inputs(labels);
    let (last, buffers) = (ctx.head(stream), ctx.buffers());
    let masks = ctx.masks();
    let mask_of = (0..d.layers).map(|layer| usize::from(d.is_windowed_layer(layer))).collect();
    let walk = Walk {
        first,
        kinds,
        order,
        last,
        shared,
        masks,
        mask_of,
        buffers,
        inputs,
        returned: ctx.returned(),
        returned_unsaved: ctx.returns_unsaved(),
        tied: d.tie_embeddings,
        ..Walk::default()
    };
    match &d.sight {
        Some(sight) => seeing(&ctx, sight, walk),
        None => walk,
    }
}

impl DecoderContext<'_> {
    /// A tape for each kind of layer, and the kind of each layer.
    pub(super) fn layers(&self, stream: Element) -> (Vec<(&'static str, Tape)>, Vec<usize>) {
        let (d, ctx) = (self.d, self);
        let mut kinds: Vec<(&'static str, Tape)> = Vec::with_capacity(2);
        let mut known: Vec<LayerKind> = Vec::with_capacity(2);
        // With frozen embeddings no gradient goes back beyond what the first layer trains.
        let (reached, within) = (ctx.reaches_embedding(), ctx.reaches_blocks());
        let projected = ctx.projects_embedding();
        let shared = d.class_rules.shared_layers;
        let order = (0..d.layers)
            .map(|index| {
                let lowered = projected && index == 0;
                let kind = LayerKind {
                    reached: if index > 0 { within } else { reached },
                    lowered,
                    narrow: index == 0 && stream != ctx.run.types.weight,
                    borrows: shared && index > 0,
                    normed: d.input_norms && !(d.class_rules.unnormed_first && index == 0),
                    ..LayerKind::of(d, index)
                };
                known.iter().position(|seen| *seen == kind).unwrap_or_else(|| {
                    known.push(kind);
                    let name = if kind.experts { "expert layer" } else { "layer" };
                    kinds.push((name, ctx.block(stream, kind)));
                    known.len() - 1
                })
            })
            .collect();
        (kinds, order)
    }

    /// Whether the embedding ends in a matrix (`ElectraModel.embeddings_project`,
    /// `AlbertTransformer.embedding_hidden_mapping_in`); OPT adds positions to what its matrix gives.
    pub fn projects_embedding(&self) -> bool {
        let always = self.family == Family::Albert;
        always || (self.family == Family::Electra && self.d.embedding_dim != self.d.hidden)
    }

    /// Token ids, so many labels (a tokenizer's mask where none are trained), and a mask where the batch is padded: 8
    /// bytes each.
    pub(super) fn token_inputs(&self, labels: u64) -> u64 {
        let one = rounded(self.run.tokens().saturating_mul(8));
        one.saturating_mul(if self.run.padded { 2 } else { 1 }).saturating_add(rounded(labels.saturating_mul(8)))
    }

    /// Type of the residual stream: that of the embedding's output, unless the model keeps it in fp32. A tower that adds no
    /// table of positions to what a convolution gives has autocast's.
    pub fn stream_element(&self) -> Element {
        if self.family == Family::Tower && self.d.max_positions.is_none() {
            return self.run.compute();
        }
        let wide = self.d.state_space.as_ref().is_some_and(|space| space.wide_stream);
        if wide { Element::F32 } else { self.run.types.weight }
    }

    /// Module buffers.
    fn buffers(&self) -> u64 {
        let d = self.d;
        match (self.run.modules.position_tables.is, self.family) {
            (true, _) if self.class_rules().buffer == LayerBuffer::SharedMask => {
                let positions = d.max_positions.unwrap_or(0);
                rounded(positions.saturating_mul(positions))
            }
            // GPT2Attention registers a causal mask of one byte an element and a scalar in each layer.
            (true, Family::Gpt2) => {
                let positions = d.max_positions.unwrap_or(0);
                let mask = positions.saturating_mul(positions).div_ceil(GRANULE).saturating_mul(GRANULE);
                d.layers.saturating_mul(mask.saturating_add(GRANULE))
            }
            (true, _) if self.class_rules().buffer == LayerBuffer::Mask => {
                let positions = d.max_positions.unwrap_or(0);
                d.layers.saturating_mul(rounded(positions.saturating_mul(positions)).saturating_add(GRANULE))
            }
            (true, _) if self.class_rules().buffer == LayerBuffer::Sinusoids => {
                let rows = d.max_positions.unwrap_or(0);
                let bytes = product(&[rows, d.rotary_dim, self.stream_element().bytes()]);
                d.layers.saturating_mul(rounded(bytes))
            }
            (true, _) if d.position == Position::Rope => GRANULE,
            _ => 0,
        }
    }

    /// What the model's own class writes in a way of its own, where the framework runs that class.
    pub(super) const fn class_rules(&self) -> ClassRules {
        if self.run.modules.family_classes.is { self.d.class_rules } else { ClassRules::USUAL }
    }

    /// A builder with the plan's frozen parts.
    pub fn builder(&self) -> Builder<'_> {
        let mut b = Builder::new(self.run.types, self.run.adapters);
        b.frozen = self.run.frozen;
        b.bias_apart = self.family == Family::Falcon && self.run.modules.family_classes.is;
        b
    }

    /// One block.
    fn block(&self, stream: Element, kind: LayerKind) -> Tape {
        let d = self.d;
        let mut b = self.builder();
        b.borrows_weights = kind.borrows;
        let narrow = if kind.narrow { self.run.types.weight } else { stream };
        let incoming = if kind.lowered { self.run.compute() } else { narrow };
        let x = b.input(self.run.stream_tokens().saturating_mul(d.hidden), incoming, kind.reached);
        b.held_by_loop(x, self.run);
        if d.parallel_block {
            return self.parallel_block(b, x, kind.mixer == Mixer::Windowed);
        }
        if d.post_norm {
            return self.post_norm_block(b, x);
        }
        let out = self.pre_norm_body(&mut b, x, kind);
        b.finish(out)
    }

    /// What mixes tokens and feed-forward, each behind a norm.
    fn pre_norm_body(&self, b: &mut Builder<'_>, x: TensorId, kind: LayerKind) -> TensorId {
        let x = if kind.mixer == Mixer::No { x } else { self.mixing_half(b, x, kind) };
        if kind.feeds { self.feeding_half(b, x, kind) } else { x }
    }

    fn mixing_half(&self, b: &mut Builder<'_>, x: TensorId, kind: LayerKind) -> TensorId {
        let d = self.d;
        let normed = if kind.normed { self.stream_norm(b, x, "input_norm") } else { x };
        let x = self.in_stream_type(b, x);
        let gathered = self.gather(b, normed, Part::Attention);
        let names = self.names_normed();
        if names {
            b.held.push(normed);
        }
        let attended = match (kind.mixer, &d.delta, &d.short_conv, &d.state_space) {
            (Mixer::Delta, Some(net), ..) => self.delta_net(b, gathered, net),
            (Mixer::Conv, _, Some(conv), _) => self.short_conv(b, gathered, conv),
            (Mixer::StateSpace, .., Some(space)) => self.state_space(b, gathered, space),
            (Mixer::Both, .., Some(space)) => self.space_beside_attention(b, gathered, space),
            (mixer, ..) => self.attention(b, gathered, mixer == Mixer::Windowed),
        };
        let attended =
            if d.sandwich_norms { self.norm(b, attended, "post_attention_norm", d.hidden) } else { attended };
        let attended = self.scaled(b, "attention.layer_scale", attended);
        let x = self.residual(b, "attention.residual", x, attended);
        b.returns("attention.return");
        x
    }

    fn feeding_half(&self, b: &mut Builder<'_>, x: TensorId, kind: LayerKind) -> TensorId {
        let d = self.d;
        let normed = if d.input_norms { self.stream_norm(b, x, "mlp_norm") } else { x };
        let out = if kind.experts {
            self.experts(b, normed)
        } else {
            let gathered = self.gather(b, normed, Part::Mlp);
            self.mlp(b, gathered, d.intermediate, "mlp")
        };
        let out = if d.sandwich_norms { self.norm(b, out, "post_mlp_norm", d.hidden) } else { out };
        let out = self.scaled(b, "mlp.layer_scale", out);
        // `ModernBertEncoderLayer.forward` has it until both have returned.
        if self.names_normed() {
            b.holds("mlp.return", &[normed]);
        }
        if self.class_rules().undropped_mlp {
            b.group = Group::Residual;
            return b.add("mlp.residual", x, out);
        }
        self.residual(b, "mlp.residual", x, out)
    }

    fn names_normed(&self) -> bool {
        self.family == Family::ModernBert && self.run.modules.python_names.is
    }

    /// Times a trained number for each channel, where the class has them.
    fn scaled(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId) -> TensorId {
        if !self.class_rules().layer_scale {
            return x;
        }
        b.group = Group::Residual;
        let scale = b.weight(Part::Norm, self.d.hidden, 1);
        b.mul(name, scale, x)
    }

    /// A block with its norms behind the residual additions (BERT).
    fn post_norm_block(&self, mut b: Builder<'_>, x: TensorId) -> Tape {
        let d = self.d;
        let gathered = self.gather(&mut b, x, Part::Attention);
        let attended = self.attention(&mut b, gathered, false);
        let x = self.added_and_normed(&mut b, x, attended, ["attention.residual", "attention_norm"]);
        let gathered = self.gather(&mut b, x, Part::Mlp);
        let out = self.mlp(&mut b, gathered, d.intermediate, "mlp");
        let out = self.added_and_normed(&mut b, x, out, ["mlp.residual", "mlp_norm"]);
        b.finish(out)
    }

    /// `BertSelfOutput` and `BertOutput`, which have names for what they add until the norm of the sum is there.
    fn added_and_normed(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        branch: TensorId,
        [added, normed]: [&'static str; 2],
    ) -> TensorId {
        let rules = self.class_rules();
        let undropped = if added == "attention.residual" { rules.undropped_attention } else { rules.undropped_mlp };
        let branch = if undropped { branch } else { self.dropout(b, added, branch) };
        b.group = Group::Residual;
        let sum = b.add(added, x, branch);
        let out = self.norm(b, sum, normed, self.d.hidden);
        if self.run.modules.python_names.is {
            b.holds("norm.return", &[x, branch]);
        }
        out
    }

    /// A block whose attention and feed-forward read the same input (GPT-NeoX, Falcon, Phi).
    fn parallel_block(&self, mut b: Builder<'_>, x: TensorId, windowed: bool) -> Tape {
        let d = self.d;
        let first = self.norm(&mut b, x, "input_norm", d.hidden);
        let second = if d.shared_norm { first } else { self.norm(&mut b, x, "mlp_norm", d.hidden) };
        let first = self.gather(&mut b, first, Part::Attention);
        let attended = self.attention(&mut b, first, windowed);
        let attended = self.dropout(&mut b, "attention.dropout", attended);
        let second = self.gather(&mut b, second, Part::Mlp);
        let out = self.mlp(&mut b, second, d.intermediate, "mlp");
        let out = self.dropout(&mut b, "mlp.dropout", out);
        b.group = Group::Residual;
        let sum = b.add("residual", out, attended);
        let sum = b.add("residual", sum, x);
        b.finish(sum)
    }

    fn dropout(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId) -> TensorId {
        b.group = Group::Residual;
        b.dropout(name, x, self.run.dropout_or(self.d.hidden_dropout))
    }

    /// Dropout and addition to the residual stream.
    pub fn residual(&self, b: &mut Builder<'_>, name: &'static str, x: TensorId, branch: TensorId) -> TensorId {
        let branch = self.dropout(b, name, branch);
        b.group = Group::Residual;
        b.add(name, x, branch)
    }

    /// What tensor parallel does before a column-parallel matrix: with sequence parallel the shards are gathered.
    /// Autograd keeps what a plain collective made; Megatron's matrices keep the shard and gather it again.
    pub fn gather(&self, b: &mut Builder<'_>, x: TensorId, part: Part) -> TensorId {
        let cut = self.run.cut;
        if cut.tensor < 2 {
            return x;
        }
        let numel = self.run.tokens().saturating_mul(self.d.hidden);
        let bytes = numel.saturating_mul(b.element(x).bytes());
        let group = RankGroup::Tensor;
        if !cut.sequence {
            let (forward, backward) = self.summed(part);
            b.collective(Collective { kind: CollectiveKind::AllReduce, group, bytes, forward, backward });
            return x;
        }
        // Inputs are gathered forward, and gradients of the branch's result backward, as the matmuls read them; what
        // is summed and scattered, the result and the input's gradient, keeps its precision.
        let saved = self.run.modules.gather.is == Gather::Saved;
        let again = u32::from(!saved);
        let read = if self.run.types.gathers_fp8 && is_covered(part) { numel } else { bytes };
        let (gather, scatter) = (CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
        b.collective(Collective { kind: gather, group, bytes: read, forward: 1, backward: 1 + again });
        b.collective(Collective { kind: scatter, group, bytes, forward: 1, backward: 1 });
        if !saved {
            return x;
        }
        let whole = b.copy_of("all_gather", x, numel);
        b.sent();
        whole
    }

    /// `hf` where the class's own loss takes the logits as they are.
    pub const fn as_is(&self, loss: LossRule) -> LossRule {
        match loss {
            LossRule::Upcast => LossRule::Plain,
            other => other,
        }
    }

    /// Columns of one tensor-parallel rank.
    fn split(&self, columns: u64) -> u64 {
        columns.div_ceil(self.run.cut.tensor)
    }
}
