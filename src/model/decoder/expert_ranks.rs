//! Where experts lie, and which tokens come to them.

use super::DecoderContext;
use super::attention::product;
use crate::model::architecture::Moe;
use crate::model::builder::Builder;
use crate::model::element::Element;
use crate::model::weight::{Collective, CollectiveKind, RankGroup};

impl DecoderContext<'_> {
    /// So many rows go to the ranks of their experts, and come back.
    pub(super) fn send_tokens(&self, b: &mut Builder<'_>, (kind, rows): (CollectiveKind, u64), element: Element) {
        let bytes = product(&[rows, self.routed_width(), element.bytes()]);
        b.collective(Collective { kind, group: RankGroup::Expert, bytes, forward: 2, backward: 2 });
    }

    /// Ranks that have other tokens send what is routed to where its experts are, and get it back; `split`: tensor-parallel
    /// ranks have other tokens too.
    pub(super) fn exchange_routed(&self, b: &mut Builder<'_>, routed: u64, element: Element, split: bool) {
        let alike = self.ranks_of_one_stream(split);
        if self.expert_ranks() > alike {
            self.send_tokens(b, (CollectiveKind::AllToAll, routed.div_ceil(alike)), element);
        }
    }

    /// Ranks over which whole experts are divided.
    pub(super) fn expert_ranks(&self) -> u64 {
        let cut = self.run.cut;
        if self.is_clamped_loop() { cut.expert.saturating_mul(cut.expert_tensor) } else { cut.expert }
    }

    /// Ranks that have the same tokens and other experts: each takes what goes to its own (transformers 4.57.6,
    /// integrations/tensor_parallel.py, `RouterParallel`).
    pub(super) fn ranks_of_one_stream(&self, split: bool) -> u64 {
        let cut = self.run.cut;
        let width = if self.is_clamped_loop() { 1 } else { cut.expert_tensor };
        if split { 1 } else { cut.tensor.div_ceil(width).min(self.expert_ranks()) }
    }

    /// Rows of a rank's experts where every expert takes every token: those of all ranks that send it theirs, of which this
    /// rank has `rows`, split along the sequence or not.
    pub(super) fn rows_of_all(&self, rows: u64, moe: &Moe) -> u64 {
        let cut = self.run.cut;
        // A part of each matrix sees the tokens of all ranks that have the other parts.
        let parts = if cut.sequence && !self.is_clamped_loop() { cut.expert_tensor } else { 1 };
        rows.saturating_mul(parts).saturating_mul(moe.experts).div_ceil(self.ranks_of_one_stream(cut.sequence))
    }
}
