//! Layers that mix tokens by the gated delta rule, a short convolution or a state-space model: whose kernels are meant, and where
//! there are no rules for them.

use super::{Degrees, Notes, Training};
use crate::framework::Profile;
use crate::model::{Architecture, Decoder, Scan, ScanNorms};
use crate::plan::keys;
use crate::plan::keywords::Mode;

/// What such layers are called, and what is assumed of them.
fn layers_of(block: &Decoder) -> Option<(&'static str, [&'static str; 2])> {
    if block.delta.is_some() {
        let said = "flash-linear-attention's and causal-conv1d's kernels; without them transformers runs its own code, which \
                    keeps many times more in these layers";
        return Some(("layers of linear attention", ["model.linear_attention", said]));
    }
    if block.state_space.is_some() {
        let said = "Mamba's kernels are predicted after mamba-ssm's source (2.3.2, with causal-conv1d); without them \
                    transformers runs its own code, which keeps many times more in these layers";
        return Some(("state-space layers", ["model.state_space", said]));
    }
    let said = "transformers' own code; causal-conv1d's kernel, where it is installed, keeps the same and is quicker";
    block.short_conv.is_some().then_some(("short convolutions", ["model.short_convolution", said]))
}

/// Heads and groups among which tensor parallel splits state-space layers, where that is predicted (Megatron-LM,
/// core/ssm/mamba_mixer.py, `MambaMixer`).
fn split_by(profile: &Profile, block: &Decoder) -> Option<[u64; 2]> {
    let space = block.state_space.as_ref().filter(|space| !space.multiplied && !space.wide_stream)?;
    match space.scan {
        Scan::Heads { heads, groups, .. } if profile.modules.splits_scan.is => Some([heads, groups]),
        _ => None,
    }
}

/// Says which kernels run, and refuses what they are not predicted in.
pub(super) fn check(
    (profile, architecture): (&Profile, &Architecture),
    (degrees, training, is_autocast): (&Degrees, &Training, bool),
    notes: &mut Notes,
) {
    let Some(block) = architecture.block() else { return };
    let Some((what, [key, said])) = layers_of(block) else { return };
    let split = split_by(profile, block);
    if !profile.modules.family_classes.is && split.is_none() {
        let name = profile.name();
        notes.fault(keys::model::framework, format!("{name}: {what} are predicted as transformers has them alone"));
    }
    for (key, degree) in
        [(keys::distribution::tensor_parallel, degrees.tensor), (keys::distribution::context_parallel, degrees.context)]
    {
        let divides =
            split.is_some_and(|[heads, groups]| heads.is_multiple_of(degree) && groups.is_multiple_of(degree));
        if degree > 1 && key == keys::distribution::tensor_parallel && split.is_some() {
            if !divides {
                notes.fault(key, format!("{degree}: must divide the heads and groups of state-space layers"));
            }
        } else if degree > 1 {
            notes.fault(key, format!("{degree}: {what} are predicted whole on each rank; must be 1"));
        }
    }
    if training.mode == Mode::Inference {
        notes.fault(keys::training::mode, format!("inference: {what} are predicted in training alone"));
    }
    let bits = training.lora.as_ref().and_then(|lora| lora.base_bits);
    if let (Some(bits), Some(_)) = (bits, &block.state_space) {
        let said = format!("{bits}: mamba-ssm's kernel reads the output matrix itself, which cannot be quantised");
        notes.fault(keys::lora::base_bits, said);
    }
    let in_modules = matches!(
        block.state_space.as_ref().map(|space| space.scan),
        Some(Scan::Channels { norms: ScanNorms::Own, .. })
    );
    if in_modules && is_autocast {
        // csrc/selective_scan/selective_scan.cpp, `TORCH_CHECK(B.scalar_type() == input_type)`.
        let said = "mixed: mamba-ssm's scan refuses what Jamba's norms make fp32 under autocast; bf16 or fp32 runs";
        notes.fault(keys::training::precision, said);
    }
    notes.assume(key, said);
}
