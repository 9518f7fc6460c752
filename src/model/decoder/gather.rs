//! What sequence parallelism gathers before a column-parallel matrix, and scatters behind a row-parallel one.

use super::DecoderContext;
use super::mlp::{scratch, scratch_backward};
use crate::framework::Gather;
use crate::model::builder::{Builder, is_covered};
use crate::model::tape::TensorId;
use crate::model::weight::Part;

/// Bytes of a gathered input, and of its gradient before the reduce-scatter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GatheredBytes {
    input: u64,
    gradient: u64,
}

impl DecoderContext<'_> {
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
