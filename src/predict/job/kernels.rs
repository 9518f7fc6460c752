//! Kernels that a GPU lacks: what runs in their place, or that nothing does.

use super::{Notes, Storage, Training};
use crate::catalog::{Generation, Gpu};
use crate::model::Element;
use crate::plan::keys;
use crate::plan::keywords::{Attention, Mode};

/// Compute capability below 8.0.
pub const fn is_before_ampere(generation: Generation) -> bool {
    matches!(generation, Generation::Volta | Generation::Turing)
}

/// Says what the GPU has no kernels for.
pub(super) fn note(gpu: &Gpu, training: &Training, storage: &Storage, notes: &mut Notes) {
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
