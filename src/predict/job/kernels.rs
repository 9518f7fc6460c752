//! Kernels that a GPU lacks: what runs in their place, or that nothing does.

use super::{Notes, Storage, Training};
use crate::catalog::{Generation, Gpu};
use crate::model::{Architecture, Element, ModelShape};
use crate::plan::keys;
use crate::plan::keywords::{Attention, Mode, Precision};
use crate::plan::traced::{TracedModel, TracedWork};

/// Compute capability below 8.0.
pub const fn is_before_ampere(generation: Generation) -> bool {
    matches!(generation, Generation::Volta | Generation::Turing)
}

/// Whether convolutions are a part of what takes its time: of image models and diffusion's UNets, and of traces that have any.
fn convolves(architecture: &Architecture) -> bool {
    let traced = |model: &TracedModel| {
        let mut ops = model.traces.all().flat_map(|trace| &trace.kinds).flat_map(|segment| &segment.ops);
        ops.any(|op| matches!(op.4, Some((TracedWork::Convolution, _))))
    };
    match &architecture.shape {
        ModelShape::ResidualNet(_) | ModelShape::Unet(_) => true,
        ModelShape::Traced(model) => traced(model),
        _ => false,
    }
}

/// Says what the GPU has no kernels for, and what is computed in another type than the plan's.
pub(super) fn note(
    gpu: &Gpu,
    architecture: &Architecture,
    (training, storage): (&Training, &Storage),
    notes: &mut Notes,
) {
    if storage.precision == Precision::Fp32 && gpu.peaks.tf32.is_some() && convolves(architecture) {
        let said = "convolutions may take TF32: torch.backends.cudnn.allow_tf32 is true unless a script says otherwise";
        notes.assume(keys::training::precision, said);
    }
    let old = is_before_ampere(gpu.generation);
    let half = storage.compute.bytes() < 4;
    let name = &gpu.name;
    if old && storage.compute == Element::Bf16 {
        // torch.cuda.is_bf16_supported: emulated below compute capability 8.0.
        notes.assume(keys::training::precision, format!("{name} has no bf16 units: PyTorch emulates them, slowly"));
    }
    let has_fp8 = !old && !matches!(gpu.generation, Generation::Ampere | Generation::Cdna2);
    if storage.fp8 && training.mode == Mode::Train && !has_fp8 {
        // Transformer Engine, pytorch/fp8.py, check_fp8_support: compute capability 8.9 or higher.
        let refused = "Transformer Engine and torchao refuse to run";
        notes.assume(keys::training::precision, format!("{name} has no FP8 units: {refused}"));
    }
    match training.attention {
        // PyTorch 2.9, aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_flash_attention_hardware_support.
        Attention::Sdpa if old && half => notes.assume(
            keys::training::attention,
            format!(
                "{name} has no flash kernels: sdpa takes the memory-efficient one, or math for bf16 and grouped heads"
            ),
        ),
        Attention::Flash if old => {
            notes.assume(keys::training::attention, format!("{name} has no flash kernels; counted as if it had"));
        }
        Attention::Flash if !half && training.mode == Mode::Train => {
            notes.assume(keys::training::attention, "flash kernels take 16 bit only; counted as if they took fp32");
        }
        _ => {}
    }
}
