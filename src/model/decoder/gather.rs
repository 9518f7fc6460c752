//! What sequence parallelism gathers before a column-parallel matrix, and scatters behind a row-parallel one.

use super::DecoderContext;
use super::mlp::{scratch, scratch_backward};
use crate::framework::Gather;
use crate::model::builder::{Builder, is_covered};
use crate::model::tape::TensorId;
use crate::model::weight::{Collective, CollectiveKind, Part, RankGroup};

/// Bytes of a gathered input, and of its gradient before the reduce-scatter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GatheredBytes {
    input: u64,
    gradient: u64,
}

impl DecoderContext<'_> {
    /// Whether tensor-parallel ranks cut each linear layer by itself, as transformers' plans and DeepSpeed do, neither of
    /// which cuts the embedding (transformers 4.57.6, models/llama/configuration_llama.py, `base_model_tp_plan`).
    pub(super) fn is_cut_apart(&self) -> bool {
        self.run.modules.family_classes.is && self.run.cut.tensor > 1 && !self.run.head_only
    }

    /// How often ranks sum a branch's result, and its input's gradient. Where layers are cut by themselves each
    /// column-parallel one sums its own (PyTorch 2.9, torch/distributed/tensor/_api.py, `_FromTorchTensor.backward`), and the
    /// sum behind a Megatron-like embedding, which is counted with the head, falls away.
    pub(super) fn summed(&self, part: Part) -> (u32, u32) {
        let d = self.d;
        if !self.is_cut_apart() {
            return (1, 1);
        }
        match part {
            Part::Attention if !d.fused_qkv && d.mla.is_none() => (1, 3),
            Part::Mlp if d.gated && !d.fused_gate_up => (1, 2),
            Part::Head if self.has_whole_head() => (0, 0),
            Part::Head => (0, 1),
            _ => (1, 1),
        }
    }

    /// Whether each rank multiplies by the whole output matrix: a tied one is the embedding.
    pub(super) fn has_whole_head(&self) -> bool {
        self.is_cut_apart() && (self.d.tie_embeddings || self.run.cut.whole_head)
    }

    /// All columns of logits of which each rank has some (`lm_head: colwise_rep`).
    pub(super) fn whole_logits(&self, b: &mut Builder<'_>, logits: TensorId, columns: u64) -> TensorId {
        let all = self.head_rows(true);
        if all == columns {
            return logits;
        }
        let numel = (b.numel(logits) / columns.max(1)).saturating_mul(all);
        let bytes = numel.saturating_mul(b.element(logits).bytes());
        let (kind, group) = (CollectiveKind::AllGather, RankGroup::Tensor);
        b.collective(Collective { kind, group, bytes, forward: 1, backward: 0 });
        let whole = b.copy_of("head.all_gather", logits, numel);
        b.sent();
        whole
    }

    /// What a column-parallel matrix that reads `x` needs for its gathered input
    /// where that is not a tensor of its own: in FP8 where the matrix multiplies so.
    pub(super) fn gathered_bytes(&self, b: &Builder<'_>, x: TensorId, part: Part) -> GatheredBytes {
        if !self.run.cut.sequence || self.run.cut.tensor < 2 || self.run.modules.gather.is == Gather::Saved {
            return GatheredBytes::default();
        }
        let numel = b.numel(x).saturating_mul(self.run.cut.tensor);
        let gradient = numel.saturating_mul(b.element(x).bytes());
        let operands = self.run.types.fp8.filter(|_| is_covered(part));
        GatheredBytes { input: operands.map_or(gradient, |operands| operands.bytes(numel)), gradient }
    }

    /// The gathered input of the matrix that was written last; backward its gradient too, before the reduce-scatter.
    pub(super) fn gathered(&self, b: &mut Builder<'_>, bytes: GatheredBytes, head: bool) {
        let kept = match self.run.modules.gather.is {
            Gather::Saved | Gather::KeptByHead => head,
            Gather::Kept => true,
        };
        if kept {
            scratch_backward(b, bytes.gradient);
        } else {
            scratch(b, bytes.input, bytes.input.saturating_add(bytes.gradient));
        }
    }

    /// A row-parallel matrix's output after its reduce-scatter: this rank's tokens only.
    pub fn reduced(&self, b: &mut Builder<'_>, out: TensorId) -> TensorId {
        if self.run.cut.sequence && self.run.cut.tensor > 1 {
            let numel = self.run.stream_tokens().saturating_mul(self.d.hidden);
            let scattered = b.copy_of("reduce_scatter", out, numel);
            b.sent();
            return scattered;
        }
        out
    }
}
