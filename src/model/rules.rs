//! What a family's own classes do otherwise than their framework's usual ones.

use super::architecture::Family;
use crate::framework::{Modules, Profile, RmsNorm, Rule};

/// The modules of `profile` for a family of models.
#[must_use]
pub const fn modules_of(profile: &Profile, family: Family) -> Modules {
    let usual = profile.modules;
    if !usual.family_classes.is {
        return usual;
    }
    match family {
        Family::Gemma | Family::Gemma2 | Family::Gemma3Text => Modules {
            rms_norm: Rule {
                is: RmsNorm::EagerOnePlus,
                source: "transformers 4.57.6, models/gemma/modeling_gemma.py, GemmaRMSNorm",
            },
            ..usual
        },
        Family::GptOss => Modules {
            rms_norm: Rule {
                is: RmsNorm::EagerWide,
                source: "transformers 4.57.6, models/gpt_oss/modeling_gpt_oss.py, GptOssRMSNorm",
            },
            ..usual
        },
        _ => usual,
    }
}
