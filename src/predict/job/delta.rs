//! Linear attention by the gated delta rule: whose kernels are meant, and where there are no rules for it.

use super::{Degrees, Notes, Training};
use crate::framework::Profile;
use crate::model::Architecture;
use crate::plan::keys;
use crate::plan::keywords::Mode;

/// Says which kernels run, and refuses what they are not predicted in.
pub(super) fn check(
    (profile, architecture): (&Profile, &Architecture),
    (degrees, training): (&Degrees, &Training),
    notes: &mut Notes,
) {
    if architecture.block().is_none_or(|block| block.delta.is_none()) {
        return;
    }
    let what = "layers of linear attention";
    if !profile.modules.family_classes.is {
        let name = profile.name();
        notes.fault(keys::model::framework, format!("{name}: {what} are predicted as transformers has them alone"));
    }
    for (key, degree) in
        [(keys::distribution::tensor_parallel, degrees.tensor), (keys::distribution::context_parallel, degrees.context)]
    {
        if degree > 1 {
            notes.fault(key, format!("{degree}: {what} are predicted whole on each rank; must be 1"));
        }
    }
    if training.mode == Mode::Inference {
        notes.fault(keys::training::mode, format!("inference: {what} are predicted in training alone"));
    }
    notes.assume(
        "model.linear_attention",
        "flash-linear-attention's and causal-conv1d's kernels; without them transformers runs its own code, which keeps \
         many times more in these layers",
    );
}
