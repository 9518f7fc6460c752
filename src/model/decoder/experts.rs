//! Mixtures of experts. Routing is taken as perfectly balanced: each expert gets
//! tokens x experts-per-token / experts.

use super::DecoderContext;
use crate::framework::{Experts, Gate};
use crate::model::architecture::{Family, Moe};
use crate::model::builder::{Builder, Linear, Stash};
use crate::model::element::{Element, Group};
use crate::model::tape::{Flow, RepeatedOps, Spec, TensorId};
use crate::model::weight::{CollectiveKind, Part};

impl DecoderContext<'_> {
    /// Router, routed experts and shared experts.
    pub(super) fn experts(&self, b: &mut Builder<'_>, x: TensorId) -> TensorId {
        let Some(moe) = &self.d.moe else { return x };
        b.group = Group::Experts;
        if self.class_rules().experts_read_all && self.run.modules.experts.is == Experts::Loop {
            return self.all_of_all(b, x, moe);
        }
        let weights = self.route(b, x, moe);
        if self.is_clamped_whole() {
            return self.clamped_all(b, x, weights, moe);
        }
        let routed = self.routed(b, x, weights, moe);
        if moe.shared_intermediate == 0 {
            return routed;
        }
        let gathered = self.gather(b, x, Part::Mlp);
        let shared = self.mlp(b, gathered, moe.shared_intermediate, "shared_experts");
        b.group = Group::Experts;
        let shared = if moe.shared_gate {
            let rows = self.run.stream_tokens();
            let layer = Linear { name: "moe.shared_gate", from: self.d.hidden, to: 1, bias: false, part: Part::Router };
            let gate = b.linear(x, rows, layer);
            let gate = b.pointwise("moe.shared_gate", gate, Stash::Output);
            b.mul("moe.shared_gate", gate, shared)
        } else {
            shared
        };
        b.add("moe.add", routed, shared)
    }

    /// Whether the router is DeepSeek V3's (`NemotronHTopkRouter` as well).
    const fn scores_by_sigmoid(&self) -> bool {
        matches!(self.family, Family::DeepseekV3 | Family::NemotronH)
    }

    /// Router logits to the weights of the chosen experts.
    fn route(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe) -> TensorId {
        if self.scores_by_sigmoid() && self.run.modules.experts.is == Experts::Loop {
            return self.route_by_sigmoid(b, x, moe);
        }
        if self.family == Family::DeepseekV2 && self.run.modules.experts.is == Experts::Loop {
            return self.route_as_scored(b, x, moe);
        }
        if moe.score_bias && self.run.modules.experts.is == Experts::Loop {
            return self.route_by_biased(b, x, moe);
        }
        let rows = self.run.stream_tokens();
        let logits = self.router_logits(b, x, moe);
        if self.is_clamped_loop() {
            return self.route_best(b, logits, moe);
        }
        let wide = b.cast("moe.router", logits, Element::F32);
        let softmax = b.pointwise("moe.softmax", wide, Stash::Output);
        let top = best(b, softmax, rows.saturating_mul(moe.per_token));
        let sum = b.copy_of("moe.normalise", top, rows);
        let normed = b.mul("moe.normalise", top, sum);
        let element = b.element(x);
        b.cast("moe.weights", normed, element)
    }

    /// A number for each token and expert.
    pub(super) fn router_logits(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe) -> TensorId {
        let (from, bias) = (self.d.hidden, moe.router_bias);
        let layer = Linear { name: "moe.router", from, to: moe.experts, bias, part: Part::Router };
        b.linear(x, self.run.stream_tokens(), layer)
    }

    /// DeepSeek V3's router, in fp32 (models/deepseek_v3/modeling_deepseek_v3.py, `DeepseekV3TopkRouter`): the choice
    /// is made without gradients, and its scores are picked out by index.
    fn route_by_sigmoid(&self, b: &mut Builder<'_>, x: TensorId, moe: &Moe) -> TensorId {
        let rows = self.run.stream_tokens();
        let x = b.cast("moe.router", x, Element::F32);
        let matrix = b.weight(Part::Router, moe.experts, self.d.hidden);
        let matrix = b.cast("moe.router", matrix, Element::F32);
        let logits = b.matrix("moe.router", x, matrix, None, (rows, self.d.hidden, moe.experts));
        let scores = b.pointwise("moe.sigmoid", logits, Stash::Output);
        let element = b.element(scores);
        let top = best(b, scores, rows.saturating_mul(moe.per_token));
        let wide = b.upper("moe.normalise", top);
        let sum = b.copy_of("moe.normalise", wide, rows);
        let normed = b.mul("moe.normalise", top, sum);
        let normed = b.cast("moe.normalise", normed, element);
        b.pointwise("moe.scale", normed, Stash::Nothing)
    }

    /// transformers' loop: each expert's tokens indexed, its output weighted and added in.
    pub(super) fn looped(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe) -> TensorId {
        let (tokens, element) = (self.run.tokens(), b.element(x));
        let routed = tokens.saturating_mul(moe.per_token);
        let one_hot = b.make(routed.saturating_mul(moe.experts), Element::I64, false);
        b.op(&Spec { name: "moe.dispatch", outputs: &[one_hot], elementwise: true, ..Spec::default() });
        // DeepSeek V3 adds up in the type of its weights (models/deepseek_v3, `DeepseekV3MoE.moe`).
        let own = if self.scores_by_sigmoid() { b.element(weights) } else { element };
        let mut sum = b.make(tokens.saturating_mul(self.routed_width()), own, false);
        b.op(&Spec { name: "moe.combine", outputs: &[sum], elementwise: true, ..Spec::default() });
        // gpt-oss's experts are slices of one parameter: they run as one. Where nothing is saved for a backward pass
        // whose gradients go expert by expert, all of them are taken together as well.
        let together = self.is_clamped_loop() || self.run.head_only;
        // Loops see whole sequences.
        self.exchange_routed(b, routed, element, false);
        let experts = if together { 1 } else { moe.experts.div_ceil(self.run.cut.expert).max(1) };
        each_expert(b, (experts, routed.div_ceil(self.ranks_of_one_stream(false))), |b, expert, rows| {
            let chosen = self.chosen(b, x, one_hot, rows);
            let out = if self.is_clamped_loop() {
                self.clamped_mlp(b, chosen, rows, moe)
            } else {
                let one = Moe { experts: 1, per_token: u64::from(expert < moe.per_token), ..moe.clone() };
                self.expert_mlp(b, chosen, rows, if together { moe } else { &one }, None)
            };
            let each = b.copy_of("moe.combine", weights, rows);
            let weighted = b.mul("moe.combine", out, each);
            let weighted = b.cast("moe.combine", weighted, own);
            sum = b.add_rows("moe.combine", sum, weighted);
        });
        b.cast("moe.combine", sum, element)
    }

    /// The tokens of one expert; the indices that its gather and its scatter keep are those tokens and their ranks.
    fn chosen(&self, b: &mut Builder<'_>, x: TensorId, one_hot: TensorId, rows: u64) -> TensorId {
        let index = b.make(rows.saturating_mul(2), Element::I64, false);
        let tokens = b.copy_of("moe.dispatch", x, rows.saturating_mul(self.routed_width()));
        b.op(&Spec {
            name: "moe.dispatch",
            inputs: &[(one_hot, Flow::Stop), (tokens, Flow::Pass)],
            outputs: &[index],
            saved: &[index],
            ..Spec::default()
        });
        tokens
    }

    /// Tokens permuted (and sent to their ranks), one grouped matmul a matrix, and back.
    pub(super) fn grouped(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe) -> TensorId {
        let (width, cut) = (self.routed_width(), self.run.cut);
        let routed = self.run.stream_tokens().saturating_mul(moe.per_token);
        let before = self.run.modules.experts.is == Experts::Weighted;
        if cut.expert > 1 {
            // Every rank sees all tokens (core/transformer/moe/token_dispatcher.py, `MoEAllGatherTokenDispatcher`:
            // gather_from_sequence_parallel_region, then reduce_scatter), or the routed ones alone.
            let (kind, rows) = if before && cut.gathers_tokens {
                (CollectiveKind::AllGather, self.run.stream_tokens().saturating_mul(cut.expert))
            } else {
                (CollectiveKind::AllToAll, routed)
            };
            let element = b.element(x);
            self.send_tokens(b, (kind, rows), element);
        }
        // Balanced: a rank receives as many tokens as it sends, times its expert-tensor group's gather.
        let local = routed.saturating_mul(cut.expert_tensor);
        let several = cut.expert > 1 || cut.expert_tensor > 1;
        if before && several && cut.gathers_tokens {
            return self.gathered_tokens(b, x, weights, moe, local);
        }
        let permuted = b.copy_of("moe.dispatch", x, routed.saturating_mul(width));
        let tokens = if several { sent_tokens(b, permuted, local.saturating_mul(width)) } else { permuted };
        let sent = before.then(|| sent_weights(b, weights, local));
        // What comes from several ranks is put in order by expert where one holds several, and back
        // (core/transformer/moe/token_dispatcher.py, `MoEAlltoAllTokenDispatcher.dispatch_postprocess`).
        let sorts = before && moe.experts.div_ceil(cut.expert) > 1;
        let ordered = if sorts { sorted_tokens(b, tokens) } else { tokens };
        let out = self.expert_mlp(b, ordered, local, moe, sent);
        let out = if sorts { sorted_tokens(b, out) } else { out };
        let out = if several { sent_tokens(b, out, routed.saturating_mul(width)) } else { out };
        let rows = self.run.stream_tokens().saturating_mul(width);
        if before {
            let sum = unpermuted(b, out, routed, rows);
            // Its `custom_forward` has names for them (core/transformer/moe/moe_layer.py, `MoELayer.forward`).
            b.holds("moe.return", &[permuted, tokens]);
            return sum;
        }
        let weighted = b.mul("moe.combine", out, weights);
        let element = b.element(x);
        let sum = b.copy_of("moe.combine", weighted, rows);
        b.cast("moe.combine", sum, element)
    }

    /// The tokens of all ranks that share the experts, gathered into a buffer that stays; those of the experts here are
    /// taken out of it, and put among all again, which are summed over the ranks (core/transformer/moe/
    /// token_dispatcher.py, `MoEAllGatherTokenDispatcher`).
    fn gathered_tokens(&self, b: &mut Builder<'_>, x: TensorId, weights: TensorId, moe: &Moe, local: u64) -> TensorId {
        let (hidden, cut, element) = (self.routed_width(), self.run.cut, b.element(x));
        let rows = self.run.stream_tokens().saturating_mul(hidden);
        let all = rows.saturating_mul(cut.expert).saturating_mul(cut.expert_tensor);
        let tokens = b.make(local.saturating_mul(hidden), element, b.needs_grad(x));
        b.op(&Spec {
            name: "moe.dispatch",
            inputs: &[(x, Flow::New)],
            outputs: &[tokens],
            scratch_backward: all.saturating_mul(element.bytes()),
            ..Spec::default()
        });
        let sent = sent_weights(b, weights, local);
        let out = self.expert_mlp(b, tokens, local, moe, Some(sent));
        let among_all = unpermuted(b, out, local, all);
        sent_tokens(b, among_all, rows)
    }

    /// The matrices of the routed experts over `rows` tokens, weighted in between where `weights` are there.
    pub(super) fn expert_mlp(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        rows: u64,
        moe: &Moe,
        weights: Option<TensorId>,
    ) -> TensorId {
        let (d, width) = (self.d, self.routed_width());
        let cut = self.run.cut;
        let local = moe.experts.div_ceil(cut.expert);
        let inner = moe.intermediate.div_ceil(cut.expert_tensor);
        let rules = self.class_rules();
        let one = self.run.modules.experts.is != Experts::Loop || rules.joined_experts || rules.experts_read_all;
        let middle = if d.gated && one {
            let both = self.expert_matrix(b, x, moe, local, (rows, width, inner.saturating_mul(2)), "moe.gate_up_proj");
            match weights.filter(|_| self.run.modules.gate.is == Gate::Fused) {
                Some(weights) => weighted_gate(b, both, weights),
                None => self.gate_of_one(b, both, "moe.act"),
            }
        } else if d.gated {
            let gate = self.expert_matrix(b, x, moe, local, (rows, width, inner), "moe.gate_proj");
            // Liger's kernel takes both (transformers/swiglu.py, LigerBlockSparseTop2MLP).
            let together = self.run.modules.gate.is == Gate::InPlace;
            let gate = if together { gate } else { self.act(b, gate, "moe.act") };
            let up = self.expert_matrix(b, x, moe, local, (rows, width, inner), "moe.up_proj");
            if together { self.gate_of_two(b, gate, up, "moe.act") } else { b.mul("moe.act", gate, up) }
        } else {
            let up = self.expert_matrix(b, x, moe, local, (rows, width, inner), "moe.up_proj");
            self.act(b, up, "moe.act")
        };
        let middle = match weights {
            Some(weights) if !(d.gated && self.run.modules.gate.is == Gate::Fused) => {
                b.mul("moe.weights", middle, weights)
            }
            _ => middle,
        };
        self.expert_matrix(b, middle, moe, local, (rows, inner, width), "moe.down_proj")
    }

    /// How many of the local experts run over `rows` routed tokens: none without tokens (models/mixtral/modeling_mixtral.py,
    /// `expert_hit`; grouped kernels read no such expert), but for classes that run all. A token visits `per_token` different ones,
    /// so each is missed by all tokens with the chance (1 - per_token / experts) ^ tokens. Training takes even shares.
    fn visited(&self, moe: &Moe, local: u64, rows: u64) -> u64 {
        if !self.run.head_only || self.is_clamped_loop() || self.class_rules().experts_read_all {
            return local;
        }
        let chosen = moe.per_token as f64 / moe.experts.max(1) as f64;
        let tokens = rows as f64 / (local as f64 * chosen).max(f64::MIN_POSITIVE);
        let visited = local as f64 * (1.0 - (1.0 - chosen).max(0.0).powf(tokens));
        (visited.round() as u64).clamp(1, local.max(1))
    }

    /// One matrix of each local expert. Adapters stand on it where each expert is a module of its own.
    pub(super) fn expert_matrix(
        &self,
        b: &mut Builder<'_>,
        x: TensorId,
        moe: &Moe,
        local: u64,
        (rows, from, to): (u64, u64, u64),
        name: &'static str,
    ) -> TensorId {
        let part = Part::Expert;
        // What a token is routed to: a class that runs all experts over it has no more of them count, and of a loop's
        // single experts each counts whole or not at all.
        let routed = self.d.moe.as_ref().map_or(moe.per_token, |moe| moe.per_token);
        let active = moe.per_token.min(routed).min(local);
        let weight = b.weights(part, to, from, local, active);
        let bias = moe.expert_bias.then(|| b.weights(part, to, 1, local, active));
        let out = b.block_matrix("moe.experts", x, (weight, part), bias, (rows, from, to));
        // Balanced: each expert multiplies its share of the tokens.
        b.each_its_share(rows, self.visited(moe, local, rows));
        // `torch.bmm` (`Llama4TextExperts.forward`, `GptOssExperts.forward` outside of training).
        if self.class_rules().experts_read_all || self.is_clamped_whole() {
            b.in_one_launch();
        }
        // Those that are no modules of their own, but slices of one parameter.
        let rules = self.class_rules();
        let sliced = self.is_clamped_loop() || rules.joined_experts || rules.experts_read_all;
        if self.run.modules.experts.is != Experts::Loop || sliced {
            return out;
        }
        b.adapted_each(x, out, rows, Linear { name, from, to, bias: moe.expert_bias, part }, (local, active))
    }
}

/// One expert after the other: `run` has its index and its share of the `routed` tokens.
pub(super) fn each_expert(
    b: &mut Builder<'_>,
    (experts, routed): (u64, u64),
    mut run: impl FnMut(&mut Builder<'_>, u64, u64),
) {
    let mut starts = Vec::with_capacity(usize::try_from(experts).unwrap_or(0));
    for expert in 0..experts {
        starts.push(b.tape.ops.len());
        let before = (expert == 0).then(|| b.tape.lengths());
        run(b, expert, routed.saturating_mul(expert + 1) / experts - routed.saturating_mul(expert) / experts);
        if let Some(before) = before {
            b.tape.reserve_again(before, starts.capacity());
        }
    }
    b.tape.repeat = RepeatedOps::between(&starts).filter(|_| routed.is_multiple_of(experts));
}

/// The `chosen` best of some scores: their indices are kept.
pub(super) fn best(b: &mut Builder<'_>, scores: TensorId, chosen: u64) -> TensorId {
    let (element, grad) = (b.element(scores), b.needs_grad(scores));
    let (top, index) = (b.make(chosen, element, grad), b.make(chosen, Element::I64, false));
    let saved = [index];
    b.op(&Spec {
        name: "moe.topk",
        inputs: &[(scores, Flow::New)],
        outputs: &[top, index],
        saved: if grad { &saved } else { &[] },
        ..Spec::default()
    });
    top
}

/// Tokens added up where they came from: the indices alone are kept
/// (core/transformer/moe/moe_utils.py, unpermute).
fn unpermuted(b: &mut Builder<'_>, x: TensorId, routed: u64, numel: u64) -> TensorId {
    let (element, grad) = (b.element(x), b.needs_grad(x));
    let index = b.make(routed, Element::I64, false);
    let kept = [index];
    let out = b.make(numel, element, grad);
    b.op(&Spec {
        name: "moe.combine",
        inputs: &[(x, Flow::New)],
        outputs: &[out, index],
        saved: if grad { &kept } else { &[] },
        ..Spec::default()
    });
    out
}

/// Gate and probabilities in one function that keeps what comes in
/// (core/fusions/fused_bias_swiglu.py, WeightedSwiGLUFunction).
fn weighted_gate(b: &mut Builder<'_>, both: TensorId, weights: TensorId) -> TensorId {
    let (half, element) = (b.numel(both) / 2, b.element(both));
    let grad = b.needs_grad(both) || b.needs_grad(weights);
    let out = b.make(half, element, grad);
    let saved = [both, weights];
    b.op(&Spec {
        name: "moe.act",
        inputs: &[(both, Flow::New), (weights, Flow::New)],
        outputs: &[out],
        saved: if grad { &saved } else { &[] },
        elementwise: true,
        ..Spec::default()
    });
    out
}

/// Probabilities go the way of their tokens.
fn sent_weights(b: &mut Builder<'_>, weights: TensorId, local: u64) -> TensorId {
    let sent = b.copy_of("moe.all_to_all", weights, local);
    b.sent();
    sent
}

/// Tokens in another order (core/transformer/moe/moe_utils.py, `sort_chunks_by_idxs`). Its time is in what experts'
/// measured runs take: the curves of configs/efficiency.yaml were fitted with it.
fn sorted_tokens(b: &mut Builder<'_>, x: TensorId) -> TensorId {
    let (numel, element) = (b.numel(x), b.element(x));
    let out = b.unary("moe.sort", (x, Flow::New), (numel, element), Stash::Nothing);
    b.sent();
    out
}

/// Tokens sent between ranks; their gradients go back into a tensor of their own
/// (megatron-core, core/tensor_parallel/mappings.py, _AllToAll).
fn sent_tokens(b: &mut Builder<'_>, x: TensorId, numel: u64) -> TensorId {
    let element = b.element(x);
    let out = b.unary("moe.all_to_all", (x, Flow::New), (numel, element), Stash::Nothing);
    b.sent();
    out
}
