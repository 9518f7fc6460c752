//! Liger's kernels in the place of transformers' modules.

use super::Notes;
use crate::framework::{LigerKernels, Profile};
use crate::model::{Architecture, ClassNorm, Family};
use crate::plan::Plan;
use crate::plan::keys;

/// The kernels that `training.liger_kernels` names.
pub(super) fn kernels(plan: &Plan, profile: &Profile, architecture: &Architecture, notes: &mut Notes) -> LigerKernels {
    let mut kernels = LigerKernels { norm_apart: has_norms_apart(architecture), ..LigerKernels::default() };
    let names = plan.training.liger_kernels.as_deref().unwrap_or_default();
    if !names.is_empty() && !profile.modules.family_classes.is {
        notes.fault(keys::training::liger_kernels, "Liger's kernels stand in for transformers' modules alone");
        return kernels;
    }
    for name in names {
        match name.as_str() {
            "rms_norm" => kernels.rms_norm = true,
            "rope" => kernels.rope = true,
            "glu" => kernels.glu = true,
            _ => {
                let said =
                    format!("`{name}` is none of Liger's kernels that are predicted; known: rms_norm, rope, glu");
                notes.fault(keys::training::liger_kernels, said);
            }
        }
    }
    kernels
}

/// Whether norms get a gradient of its own, for another module reads the output's too (Liger-Kernel 0.8,
/// transformers/rms_norm.py and monkey_patch.py: `in_place=False` for Gemma 2 and 3, OLMo 2 and 3, GLM 4, Qwen3-Next).
fn has_norms_apart(architecture: &Architecture) -> bool {
    let block = architecture.block();
    block.is_some_and(|block| block.sandwich_norms || block.class_rules.norm == ClassNorm::Wide)
        || matches!(architecture.family, Family::Qwen3Next | Family::Qwen35 | Family::Qwen35Moe)
}
