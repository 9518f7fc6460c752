//! Weights that are stored in fewer bits than their neighbours.

use crate::model::{Part, Weight};
use crate::plan::keywords::Mode;
use crate::predict::job::Job;
use crate::predict::job::optimizer::rounded;

/// What an element takes of a weight that is stored in few bits, in thousandths of a byte.
#[derive(Debug, Clone, Copy)]
pub(in crate::predict) struct FewBits {
    /// The packed weight, with scales that ranks share out along with it.
    packed: u64,
    /// Scales that every rank has all of.
    beside: u64,
}

impl FewBits {
    /// All of it.
    pub const fn all(self) -> u64 {
        self.packed + self.beside
    }

    /// What is gathered of a share.
    pub const fn gathered(self) -> u64 {
        self.packed
    }

    /// Bytes of a rank that holds so many elements of all.
    pub fn held(self, elements: u64, of: u64) -> u64 {
        let bytes = |elements: u64, each: u64| elements.saturating_mul(each) / 1000;
        if elements == of {
            return rounded(bytes(of, self.all()));
        }
        rounded(bytes(elements, self.packed)).saturating_add(rounded(bytes(of, self.beside)))
    }
}

/// How a weight is stored in fewer bits than its neighbours: a quantised base weight, or a matrix that an inference server
/// holds in FP8 or 4 bits.
pub(in crate::predict) fn quantised(job: &Job, weight: &Weight) -> Option<FewBits> {
    let alone = |packed: u64| Some(FewBits { packed, beside: 0 });
    let matrix = matches!(weight.part, Part::Attention | Part::Mlp | Part::Expert) && weight.numel > weight.rows;
    if job.training.mode == Mode::Inference && job.storage.fp8 && matrix {
        return alone(1000);
    }
    if job.training.weight_bits.is_some() && matrix {
        // 4 bits, and for 128 of them a scale of 16 bits and a zero point of 4 (AutoAWQ 0.2, awq/modules/linear/gemm.py,
        // `qweight`, `scales`, `qzeros`): 4.156 bits.
        return alone(520);
    }
    let lora = job.training.lora.as_ref()?;
    let matrix = matches!(weight.part, Part::Attention | Part::Mlp | Part::Expert);
    let bits = lora.base_bits.filter(|_| matrix && !weight.trained)?;
    // NF4: a 4-byte scale for 64 weights, or 8 bit with an fp32 scale for 256 of those (QLoRA, arXiv 2305.14314).
    let twice = lora.double_quant || job.profile.modules.quantised_scales.is;
    let scale = if twice { 127 * 1000 / 8 / 1000 } else { 62 };
    let (packed, scale) = (bits.saturating_mul(125), if bits == 4 { scale } else { 0 });
    if job.profile.modules.shares_scales.is {
        return alone(packed.saturating_add(scale));
    }
    Some(FewBits { packed, beside: scale })
}
