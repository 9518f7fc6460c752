//! `DeBERTa`'s attention (transformers 4.57.6, models/deberta_v2/modeling_deberta_v2.py, `DisentangledSelfAttention`): scores of
//! contents, and of contents against a table of distances, of which each pair of tokens gathers its own.

use super::attention::product;
use super::{Core, DecoderContext};
use crate::model::builder::{Builder, Linear, LinearWeights, Stash};
use crate::model::element::{Element, Group};
use crate::model::stack::Distances;
use crate::model::tape::{Flow, Spec, TensorId, rounded};
use crate::model::walk::{Passing, Pending};
use crate::model::weight::Part;

const NAME: &str = "attention.core";
const PLACES: &str = "attention.distances";

impl DecoderContext<'_> {
    /// The table of distances, and the norm over it, which the encoder makes once for all layers
    /// (`DebertaV2Encoder.get_rel_embedding`).
    pub fn distance_table(&self, b: &mut Builder<'_>) {
        let Some(distances) = self.d.distances.filter(|distances| distances.rows > 0) else { return };
        let table = b.weight(Part::Embedding, distances.rows, self.d.hidden);
        if distances.normed {
            let normed = self.norm(b, table, "embedding.distance_norm", self.d.hidden);
            b.tape.also.push(normed);
        }
    }

    /// Bytes of the table as layers read it.
    fn table_bytes(&self, distances: &Distances) -> u64 {
        rounded(product(&[distances.rows, self.d.hidden, self.stream_element().bytes()]))
    }

    /// Bytes of the mask over pairs of tokens, as a float or, where a batch is padded, as the collator's integers, and of the
    /// distance of each pair: layers are handed both.
    pub fn pair_tables(&self) -> u64 {
        let Some(distances) = self.d.distances else { return 0 };
        let pairs = product(&[self.run.sequence, self.run.sequence]);
        let mask = product(&[self.run.batch, pairs, if self.run.padded { 8 } else { 4 }]);
        let places = if distances.rows > 0 { rounded(pairs.saturating_mul(8)) } else { 0 };
        rounded(mask).saturating_add(places)
    }

    /// Whether each layer's matrices save the table as it is handed to them.
    fn saves_table(&self) -> bool {
        self.run.types.autocast.is_none() && self.run.dropout_or(self.d.hidden_dropout) <= 0.0
    }

    /// Bytes of the normed table that stay until the backward pass.
    pub fn kept_table(&self) -> u64 {
        let normed = self.d.distances.filter(|distances| distances.normed && distances.rows > 0);
        let kept = self.saves_table() || self.run.checkpointed;
        normed.filter(|_| kept).map_or(0, |distances| self.table_bytes(&distances))
    }

    /// What the encoder has names for while its layers run: the tables, and, as it returns them all, each layer's input,
    /// where nothing else keeps that.
    pub fn held_for_layers(&self) -> Vec<Passing> {
        let Some(distances) = self.d.distances else { return Vec::new() };
        let layers = usize::try_from(self.d.layers).unwrap_or(0);
        let until = layers.saturating_sub(1);
        let made = distances.normed && distances.rows > 0 && self.kept_table() == 0;
        let table = if made { self.table_bytes(&distances) } else { 0 };
        let pairs = if self.run.checkpointed { 0 } else { self.pair_tables() };
        let mut held = vec![Passing::read(0, until, pairs.saturating_add(table))];
        if self.run.types.autocast.is_some() && !self.run.checkpointed {
            let state = product(&[self.run.tokens(), self.d.hidden, self.stream_element().bytes()]);
            held.extend((1..layers).map(|from| Passing::read(from, until, rounded(state))));
        }
        held
    }

    /// The table's gradient, to which each layer adds.
    pub fn distance_gradient(&self) -> Vec<Pending> {
        let trained = self.run.adapters.is_none() && !self.run.frozen.has(Part::Embedding);
        let Some(distances) = self.d.distances.filter(|distances| trained && distances.rows > 0) else {
            return Vec::new();
        };
        let made_by = usize::try_from(self.d.layers.saturating_sub(1)).unwrap_or(0);
        vec![Pending { made_by, until: 0, bytes: self.table_bytes(&distances) }]
    }

    /// Attention with its projections.
    pub(super) fn disentangled(&self, b: &mut Builder<'_>, x: TensorId, distances: &Distances) -> TensorId {
        b.group = Group::Attention;
        let (d, rows) = (self.d, self.run.tokens());
        let core = self.core(false);
        let linear = |name| Linear { name, from: d.hidden, to: d.hidden, bias: true, part: Part::Attention };
        let query = b.linear_weights(linear("attention.q_proj"));
        let q = self.by_head(b, x, rows, &query);
        let key = b.linear_weights(linear("attention.k_proj"));
        let k = self.by_head(b, x, rows, &key);
        let v = b.linear(x, rows, linear("attention.v_proj"));
        let v = b.reordered("attention.contiguous", v);
        b.held.extend([q, k, v]);
        let scaled = b.pointwise(NAME, k, Stash::Nothing);
        let scores = self.scores(b, q, scaled, &core);
        let scores = if distances.rows > 0 {
            let bias = self.distance_scores(b, [q, k], &core, distances, [query, key]);
            b.held.push(bias);
            b.add(NAME, scores, bias)
        } else {
            scores
        };
        let probabilities = self.masked_softmax(b, scores, &core);
        b.held.push(probabilities);
        let out = self.weigh(b, probabilities, v, &core);
        let out = b.reordered("attention.merge", out);
        let out = b.linear(out, rows, Linear { bias: d.out_bias, ..linear("attention.o_proj") });
        b.returns("attention.return");
        out
    }

    /// Rows through a matrix, then by heads (`transpose_for_scores`).
    fn by_head(&self, b: &mut Builder<'_>, x: TensorId, rows: u64, weights: &LinearWeights) -> TensorId {
        let out = b.linear_with(x, rows, weights);
        b.reordered("attention.contiguous", out)
    }

    /// Scores of distances (`disentangled_attention_bias`).
    fn distance_scores(
        &self,
        b: &mut Builder<'_>,
        [q, k]: [TensorId; 2],
        core: &Core,
        distances: &Distances,
        [query, key]: [LinearWeights; 2],
    ) -> TensorId {
        let d = self.d;
        let trained = self.run.adapters.is_none() && !self.run.frozen.has(Part::Embedding);
        let table = b.elsewhere(product(&[distances.rows, d.hidden]), self.stream_element(), trained);
        let table = b.dropout("attention.distance_dropout", table, self.run.dropout_or(d.hidden_dropout));
        let further = |name| Linear { name, from: d.hidden, to: d.hidden, bias: true, part: Part::Attention };
        let (mut places, mut held) = ([None; 2], vec![table]);
        // Shared matrices project for queries first, others for keys.
        let order = if distances.shared { [1, 0] } else { [0, 1] };
        for at in order {
            let wanted = distances.shared || [distances.to_position, distances.from_position][at];
            if !wanted {
                continue;
            }
            let weights = match (distances.shared, at) {
                (true, 0) => key,
                (true, _) => query,
                (false, 0) => b.linear_weights(further("attention.pos_key_proj")),
                (false, _) => b.linear_weights(further("attention.pos_query_proj")),
            };
            let one = self.by_head(b, table, distances.rows, &weights);
            let numel = b.numel(one).saturating_mul(core.batch);
            let repeated = b.copy_of(PLACES, one, numel);
            places[at] = Some(repeated);
            held.push(repeated);
        }
        let to = places[0].filter(|_| distances.to_position);
        let from = places[1].filter(|_| distances.from_position);
        let mut score = None;
        for (content, place) in [(q, to), (k, from)] {
            let Some(place) = place else { continue };
            let gathered = self.gathered_scores(b, content, place, core, distances.rows);
            held.push(gathered);
            let scaled = b.pointwise(PLACES, gathered, Stash::Nothing);
            // `score = 0`, then `+=`: the first sum is a new tensor.
            score = Some(match score {
                None => b.unary(PLACES, (scaled, Flow::Pass), (b.numel(scaled), b.element(scaled)), Stash::Nothing),
                Some(sum) => b.add_in_place(PLACES, sum, scaled),
            });
        }
        b.holds("attention.distances.return", &held);
        score.unwrap_or(q)
    }

    /// Contents against the whole table, of which each pair of tokens gathers one score: both are saved, and the pairs' rows.
    fn gathered_scores(
        &self,
        b: &mut Builder<'_>,
        content: TensorId,
        place: TensorId,
        core: &Core,
        rows: u64,
    ) -> TensorId {
        let all = self.scores(b, content, place, &Core { keys: rows, ..*core });
        let pairs = core.queries.saturating_mul(core.keys);
        let index = b.make(pairs, Element::I64, false);
        b.op(&Spec {
            name: PLACES,
            outputs: &[index],
            scratch_forward: rounded(pairs.saturating_mul(8)),
            elementwise: true,
            ..Spec::default()
        });
        let (grad, element) = (b.needs_grad(all), b.element(all));
        let out = b.make(core.scores(), element, grad);
        let saved = [all, index];
        b.op(&Spec {
            name: PLACES,
            inputs: &[(all, Flow::New), (index, Flow::Stop)],
            outputs: &[out],
            saved: if grad { &saved } else { &[] },
            ..Spec::default()
        });
        out
    }

    /// Masked scores, their softmax and its dropout; the mask says what is hidden, once as it is and once negated.
    fn masked_softmax(&self, b: &mut Builder<'_>, scores: TensorId, core: &Core) -> TensorId {
        let cells = product(&[core.batch, core.queries, core.keys]);
        let [shown, hidden] = [0; 2].map(|_| {
            let mask = b.make(cells, Element::Bool, false);
            b.op(&Spec { name: "attention.mask", outputs: &[mask], elementwise: true, ..Spec::default() });
            mask
        });
        let (numel, element, grad) = (b.numel(scores), b.element(scores), b.needs_grad(scores));
        let masked = b.make(numel, element, grad);
        let saved = [hidden];
        b.op(&Spec {
            name: "attention.mask",
            inputs: &[(scores, Flow::New), (hidden, Flow::Stop)],
            outputs: &[masked],
            saved: if grad { &saved } else { &[] },
            elementwise: true,
            ..Spec::default()
        });
        b.held.extend([shown, masked]);
        let wide = b.upper("attention.softmax", masked);
        let softmax = b.pointwise("attention.softmax", wide, Stash::Output);
        b.of_rows();
        b.dropout("attention.dropout", softmax, self.run.dropout_or(self.d.attention_dropout))
    }
}
