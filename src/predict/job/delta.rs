//! Layers that mix tokens by the gated delta rule or a short convolution: whose kernels are meant, and where there are no
//! rules for them.

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
    let Some(block) = architecture.block().filter(|block| block.delta.is_some() || block.short_conv.is_some()) else {
        return;
    };
    let is_delta = block.delta.is_some();
    let what = if is_delta { "layers of linear attention" } else { "short convolutions" };
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
    if !is_delta {
        notes.assume(
            "model.short_convolution",
            "transformers' own code; causal-conv1d's kernel, where it is installed, keeps the same and is quicker",
        );
        return;
    }
    notes.assume(
        "model.linear_attention",
        "flash-linear-attention's and causal-conv1d's kernels; without them transformers runs its own code, which keeps \
         many times more in these layers",
    );
}
