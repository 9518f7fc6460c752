//! What a model returned last, where the training loop holds on to it.

use crate::model::{Group, Tape, Tensor, Unit};
use crate::plan::keywords::Mode;
use crate::predict::job::Job;
use crate::predict::step::StepTapes;
use crate::predict::step::pipeline::trains_in_stages;

/// Bytes of the logits, and of an encoder's hidden states, that a loop's variable holds until the next forward pass has
/// returned: beside those of that pass, and through its backward pass and the optimizer's step. Megatron's model
/// returns its loss alone.
pub(in crate::predict) fn kept(job: &Job, step: &StepTapes, last: bool) -> u64 {
    if last && trains_in_stages(job) {
        // A pipeline's last stage holds what it returned for every micro-batch until the next step begins
        // (torch/distributed/pipelining/stage.py, `output_chunks`); the one that is played has its own.
        return logits(&step.walk.last).saturating_mul(job.batch.accumulation - 1);
    }
    let returns = job.training.keep_outputs && job.profile.loss.returns_outputs.is;
    if !returns || !last || job.training.mode == Mode::Inference {
        return 0;
    }
    let also = |tape: &Tape| tape.also.iter().map(|id| tape.get(*id).allocated()).max();
    let states = step.walk.kinds.iter().filter_map(|(_, tape)| also(tape)).max();
    logits(&step.walk.last).saturating_add(states.unwrap_or(0))
}

/// The last tensor that the head makes before the loss; none where the loss makes logits piece by piece.
fn logits(tape: &Tape) -> u64 {
    let product = tape.ops.iter().position(|op| op.name == "head" && matches!(op.unit, Unit::Matrix(_)));
    let Some(from) = product else { return 0 };
    let head = tape.ops[from..].iter().take_while(|op| op.name.starts_with("head"));
    let made = head.filter_map(|op| tape.ids(op.outputs).first()).map(|id| tape.get(tape.storage(*id)));
    made.filter(|tensor| tensor.group == Group::Logits).last().map_or(0, Tensor::allocated)
}
