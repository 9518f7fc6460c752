//! How far gradients reach in a traced model, some of whose parts are frozen.

use super::super::tape::{Home, Tape};
use super::super::walk::MicroBatch;
use super::super::weight::Part;
use crate::plan::traced::{Segment, Trace, TracedModel, TracedPart};

/// The part of a model, as plans name it.
pub(super) const fn part_of(part: TracedPart) -> Part {
    match part {
        TracedPart::Embedding => Part::Embedding,
        TracedPart::Attention => Part::Attention,
        TracedPart::Mlp => Part::Mlp,
        TracedPart::Norm => Part::Norm,
        TracedPart::Router => Part::Router,
        TracedPart::Expert => Part::Expert,
        TracedPart::Head => Part::Head,
        TracedPart::Convolution => Part::Convolution,
    }
}

/// Rows of the embedding of tokens where checkpointing makes its output need a gradient: transformers 5 does so for each
/// model that reads `input_ids` (`modeling_utils.py`, `activation_checkpointing_enable`, `enable_input_require_grads`).
pub(super) fn asked_rows(model: &TracedModel, trace: &Trace, run: &MicroBatch<'_>) -> Option<u64> {
    let version = model.versions.get("transformers").and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    let reads_tokens = model.inputs.iter().any(|input| input.0 == "input_ids");
    if !run.checkpointed || !reads_tokens || version.is_none_or(|major| major < 5) {
        return None;
    }
    let weights = trace.kinds.iter().flat_map(|segment| &segment.weights);
    weights.filter(|weight| part_of(weight.3) == Part::Embedding).filter_map(|weight| weight.1.first().copied()).max()
}

/// Whether what a segment gives needs a gradient.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reached {
    trains: bool,
}

impl Reached {
    /// Whether a gradient flows to what comes into `segment`.
    pub(super) fn by(self, segment: &Segment, run: &MicroBatch<'_>) -> bool {
        let came_in = segment.tensors.iter().any(|tensor| tensor.3 == 1 && tensor.4 != 0);
        came_in && (self.trains || (run.adapters.is_none() && run.frozen.is_nothing()))
    }

    /// Behind a segment, whose tape this is.
    pub(super) fn after(&mut self, tape: &Tape) {
        let leaves = tape.output.is_some_and(|id| tape.get(id).grad);
        let weights = tape.tensors.iter().any(|tensor| matches!(tensor.home, Home::Weight(_)) && tensor.grad);
        self.trains = leaves || (tape.output.is_none() && (self.trains || weights));
    }
}
