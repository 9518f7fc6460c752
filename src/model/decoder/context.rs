//! Attention over a sequence that context-parallel ranks share: what exchanging keys and values takes beside the
//! kernel. Each rank holds the same number of queries; of the ranks that a causal mask makes unequal the one that
//! needs most is meant.

use super::DecoderContext;
use super::attention::product;
use super::kernels::Core;
use crate::framework::SharedSequence;
use crate::model::builder::Builder;
use crate::model::tape::TensorId;
use crate::model::weight::{CONTEXT_PAIR, Collective, CollectiveKind, RankGroup};
use crate::plan::keywords::CpComm;

/// What a shared sequence changes about a fused attention operator.
pub(super) struct Exchange {
    /// Queries, keys and values as they are saved; the last are one buffer with the ring.
    pub saved: [TensorId; 3],
    /// Tensors that it makes and saves.
    pub made: Vec<TensorId>,
    /// The output leaves as a copy of the saved one.
    pub output_sent: bool,
    /// Bytes that it needs while it runs forward.
    pub forward: u64,
    /// The same backward.
    pub backward: u64,
}

impl DecoderContext<'_> {
    /// What context-parallel ranks exchange: keys and values, or heads for tokens.
    pub(super) fn exchange(&self, b: &mut Builder<'_>, core: &Core) {
        let ranks = self.run.cut.context;
        if ranks < 2 {
            return;
        }
        let element = self.run.compute().bytes();
        let both = product(&[core.batch, core.keys, core.kv_heads, core.dim + core.value_dim]).saturating_mul(element);
        let sent = (core.query() + core.output()).saturating_mul(element).saturating_add(both / ranks);
        let mut add = |(kind, group), bytes, backward| {
            b.collective(Collective { kind, group, bytes, forward: 1, backward });
        };
        let all = RankGroup::Context;
        match (self.run.modules.shared_sequence.is, self.run.cut.exchange) {
            // Keys and values once more backward, and their gradients scattered (AttnFuncWithCPAndKVAllGather).
            (SharedSequence::Engine, CpComm::AllGather) => add((CollectiveKind::AllGather, all), both, 2),
            // Queries, keys and values on their way in, the output on its way back, and the gradients of all four.
            (SharedSequence::Engine, CpComm::AllToAll) => add((CollectiveKind::HeadsForTokens, all), sent, 1),
            // The same between neighbours; then a ring over the pairs, which each have half of the heads.
            (SharedSequence::Engine, CpComm::Both) => {
                add((CollectiveKind::HeadsForTokens, RankGroup::ContextPair), sent, 1);
                add((CollectiveKind::Ring, RankGroup::ContextPairs), both / CONTEXT_PAIR, 2);
            }
            _ => add((CollectiveKind::Ring, all), both, 2),
        }
    }

    /// The exchange around the kernel over `qkv`; none where one rank holds whole sequences.
    pub(super) fn context_exchange(&self, b: &mut Builder<'_>, qkv: [TensorId; 3], core: &Core) -> Option<Exchange> {
        let ranks = self.run.cut.context;
        if ranks < 2 {
            return None;
        }
        let of = |b: &Builder<'_>, id: TensorId| b.numel(id).saturating_mul(b.element(id).bytes());
        let [query, key, value] = qkv.map(|id| of(b, id));
        let both = key.saturating_add(value);
        let out = core.output().saturating_mul(b.element(qkv[0]).bytes());
        let sums = core.rows().saturating_mul(4);
        let scaled = |bytes: u64, times: u64| bytes.saturating_mul(times);
        let plain =
            |forward, backward| Exchange { saved: qkv, made: Vec::new(), output_sent: false, forward, backward };
        Some(match (self.run.modules.shared_sequence.is, self.run.cut.exchange) {
            (SharedSequence::Engine, comm @ (CpComm::P2p | CpComm::Both)) => {
                ring(b, qkv, [query, both, out, sums], (ranks, comm == CpComm::Both))
            }
            // AttnFuncWithCPAndKVAllGather. Forward: all keys and values, while the second of them is put in order
            // once more; then two halves of the queries and their outputs. Backward: the same, their gradients, and
            // both steps' gradients, which together see little more than all of them.
            (SharedSequence::Engine, CpComm::AllGather) => {
                let all = scaled(both, ranks);
                let halves = query.saturating_add(out);
                plain(
                    all.saturating_add(halves.max(scaled(key.max(value), ranks))),
                    scaled(all, 3).saturating_add(scaled(halves, 2)),
                )
            }
            // AttnFuncWithCPAndQKVOA2A. Heads are sent for tokens: each tensor is made contiguous by rank, sent, and put
            // in order; the kernel's tensors are saved as it saw them, the output once more as it leaves.
            (SharedSequence::Engine, CpComm::AllToAll) => {
                let saved = qkv.map(|id| {
                    let (numel, element) = (b.numel(id), b.element(id));
                    b.make(numel, element, false)
                });
                Exchange {
                    saved,
                    made: saved.to_vec(),
                    output_sent: true,
                    forward: scaled(query, 2).saturating_add(both).max(scaled(out, 2)),
                    backward: out.saturating_add(scaled(query.saturating_add(both), 2)),
                }
            }
            // _templated_ring_attention and its backward: keys and values of all ranks gathered once; outputs merged
            // and gradients added up in fp32.
            (SharedSequence::Gathered, _) => plain(
                scaled(both, ranks + 1).saturating_add(scaled(out, 9)),
                scaled(both, ranks + 8).saturating_add(scaled(query, 3)),
            ),
        })
    }
}

/// AttnFuncWithCPAndKVP2P, with the bytes of a rank's queries, keys and values, output and log-sums. Forward: a buffer of
/// keys and values for each rank of the ring, of which the last is saved, and each step's output and log-sums until they
/// are merged. Backward: two pairs of such a buffer and its gradient's, a step's gradients, and those of keys and values
/// put together. Where ranks send each other heads for tokens before, in pairs, queries are tensors of their own, and the
/// output is saved as the kernels made it.
fn ring(b: &mut Builder<'_>, qkv: [TensorId; 3], bytes: [u64; 4], (ranks, in_pairs): (u64, bool)) -> Exchange {
    let [query, both, out, sums] = bytes;
    let steps = if in_pairs { ranks.div_ceil(CONTEXT_PAIR) } else { ranks };
    let like = |b: &mut Builder<'_>, id: TensorId, numel: u64| {
        let element = b.element(id);
        b.make(numel / element.bytes(), element, false)
    };
    let ring = like(b, qkv[1], both);
    let sent = in_pairs.then(|| like(b, qkv[0], query));
    let stepped = both.saturating_mul(steps - 1).saturating_add(out.saturating_add(sums).saturating_mul(steps));
    let swapped = if in_pairs { query.saturating_mul(2).saturating_add(both) } else { 0 };
    let backward = query.saturating_add(both.saturating_mul(5));
    Exchange {
        saved: [sent.unwrap_or(qkv[0]), ring, ring],
        made: sent.into_iter().chain([ring]).collect(),
        output_sent: in_pairs,
        forward: stepped.max(swapped),
        backward: backward.saturating_add(if in_pairs { out } else { 0 }),
    }
}
