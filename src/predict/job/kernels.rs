//! Kernels that a GPU lacks: what runs in their place, or that nothing does.

use super::{Degrees, Notes, Storage, Training};
use crate::catalog::{Curves, Generation, Gpu, Vendor};
use crate::framework::{Experts, Modules};
use crate::model::{Architecture, Element, FusedKernels, ModelShape};
use crate::plan::keys;
use crate::plan::keywords::{Attention, Fp8Recipe, Mode, Precision};
use crate::plan::traced::{TracedModel, TracedWork};

/// AMD's GPUs that AOTriton has attention for without being told to try: MI200, MI300, MI350. PyTorch takes it on Radeons
/// under TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL alone, and there is none for MI100 (PyTorch 2.9,
/// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, `check_flash_attention_hardware_support`; ROCm/aotriton README).
const WITH_AOTRITON: [&str; 3] = ["gfx90a", "gfx942", "gfx950"];

/// The fused attention kernels that PyTorch chooses among there.
pub fn fused_kernels(gpu: &Gpu) -> FusedKernels {
    let amd = gpu.compute_capability.as_deref().filter(|_| gpu.vendor == Vendor::Amd);
    match gpu.generation {
        Generation::Cpu => FusedKernels::Cpu,
        generation if generation.is_before_ampere() => FusedKernels::Efficient,
        _ if amd.is_some_and(|chip| !WITH_AOTRITON.contains(&chip)) => FusedKernels::Absent,
        _ => FusedKernels::Flash,
    }
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

/// Width of the widest experts of the runs that `grouped` of Hopper and Blackwell was fitted on (configs/efficiency.yaml):
/// those of GPT-OSS 120B. Kernels alone keep more than this share of a layer's rate (0.9 on A100 and B200, SimuMax's group_matmul).
const WIDEST_EXPERT: u64 = 2880;
const OF_KERNELS: f64 = 0.8;

/// Says where the matmuls of wide experts are timed by what was seen of narrow ones.
pub(super) fn note_experts(
    curves: &Curves,
    architecture: &Architecture,
    (modules, degrees): (&Modules, &Degrees),
    notes: &mut Notes,
) {
    let Some(moe) = architecture.block().and_then(|decoder| decoder.moe.as_ref()) else { return };
    let width = moe.intermediate / degrees.expert_tensor.max(1);
    let several = moe.experts / degrees.expert.max(1) > 1 && modules.experts.is != Experts::Loop;
    if several && width > WIDEST_EXPERT && curves.matrix.grouped < OF_KERNELS {
        let said = format!(
            "{width}: a rank's several experts are timed at the rate of {WIDEST_EXPERT} wide ones and narrower; these are \
             probably faster"
        );
        notes.assume(keys::moe::intermediate_size, said);
    }
}

/// Says that experts which run one after the other are timed as grouped ones (megatron-core, core/transformer/moe/experts.py,
/// `SequentialMLP`): the key changes memory alone.
pub(super) fn note_sequential(
    architecture: &Architecture,
    (modules, degrees): (&Modules, &Degrees),
    training: &Training,
    notes: &mut Notes,
) {
    let Some(moe) = architecture.block().and_then(|decoder| decoder.moe.as_ref()) else { return };
    let several = moe.experts / degrees.expert.max(1) > 1;
    if several && modules.experts.is == Experts::Weighted && !training.grouped_experts {
        notes
            .assume(keys::training::moe_grouped_gemm, "false: memory alone; experts in turn are timed as grouped ones");
    }
}

/// Says where a recipe's scales want newer units (Transformer Engine, pytorch/fp8.py, `check_mxfp8_support` and
/// `check_fp8_block_scaling_support`: compute capability 10.0, 9.0).
pub(super) fn note_recipe(gpu: &Gpu, recipe: Fp8Recipe, (training, storage): (&Training, &Storage), notes: &mut Notes) {
    if !storage.fp8 || training.mode != Mode::Train {
        return;
    }
    let before = match gpu.generation {
        Generation::Hopper => recipe == Fp8Recipe::Mxfp8,
        Generation::Ada => matches!(recipe, Fp8Recipe::Mxfp8 | Fp8Recipe::Blockwise),
        _ => false,
    };
    if before {
        let said = format!("{} has no units for the scales of {recipe}: libraries refuse to run it", gpu.name);
        notes.assume(keys::training::fp8_recipe, said);
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
    let old = gpu.generation.is_before_ampere();
    let half = storage.compute.bytes() < 4;
    let name = &gpu.name;
    if gpu.generation == Generation::Pascal && training.compile {
        // torch/_inductor/exc.py, `GPUTooOldForTriton`: below compute capability 7.0 nothing is compiled.
        notes.fault(
            keys::training::compile,
            format!("true: Triton, which torch.compile writes kernels in, has none for {name}"),
        );
    }
    if old && storage.compute == Element::Bf16 {
        // torch.cuda.is_bf16_supported: emulated below compute capability 8.0.
        notes.assume(keys::training::precision, format!("{name} has no bf16 units: PyTorch emulates them, slowly"));
    }
    let lacks = matches!(gpu.generation, Generation::Ampere | Generation::Cdna2);
    let has_fp8 = !(old || lacks || gpu.generation == Generation::Rdna && gpu.peaks.fp8.is_none());
    if storage.fp8 && training.mode == Mode::Train && !has_fp8 {
        // Transformer Engine, pytorch/fp8.py, check_fp8_support: compute capability 8.9 or higher.
        let refused = "Transformer Engine and torchao refuse to run";
        notes.assume(keys::training::precision, format!("{name} has no FP8 units: {refused}"));
    }
    if storage.fp8 && training.mode == Mode::Inference && !has_fp8 {
        // vLLM, model_executor/layers/quantization/utils/marlin_utils_fp8.py: weights alone in FP8, multiplied in 16 bits.
        let said = "weights lie in FP8 and are multiplied in bf16 (vLLM's Marlin kernels)";
        notes.assume(keys::training::precision, format!("{name} has no FP8 units: {said}"));
    }
    match training.attention {
        Attention::Sdpa if fused_kernels(gpu) == FusedKernels::Absent && architecture.block().is_some() => notes
            .assume(
                keys::training::attention,
                format!(
                    "PyTorch has no fused attention for {name} (on Radeons it has one under \
                 TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1, which is not counted): sdpa takes math"
                ),
            ),
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
