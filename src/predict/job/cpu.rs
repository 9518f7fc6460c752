//! What a plan for a CPU may say, and what it means there.

use super::{Degrees, Hardware, Notes, Training};
use crate::catalog::Generation;
use crate::plan::Plan;
use crate::plan::keywords::{CpuOffload, Optimizer, Precision};

/// Decides what PyTorch does otherwise without a GPU, and refuses what it cannot do.
pub(super) fn resolve(
    plan: &Plan,
    (hardware, degrees): (&Hardware, &Degrees),
    training: &mut Training,
    notes: &mut Notes,
) {
    if hardware.gpu.generation != Generation::Cpu {
        return;
    }
    if degrees.num_gpus > 1 {
        notes.fault("cluster.num_gpus", "a CPU is one device: plans of several processes on it are not predicted");
    }
    if training.cpu_offload != CpuOffload::None {
        notes.fault("training.cpu_offload", "has no meaning on a CPU: everything is in its memory");
    }
    match plan.training.precision {
        Some(Precision::Fp32 | Precision::Bf16 | Precision::Bf16Mixed) => {}
        Some(other) => {
            notes.fault("training.precision", format!("{other}: a CPU is predicted in fp32, bf16 and bf16-mixed"))
        }
        None => notes.fault("training.precision", "must be given on a CPU: fp32, bf16 or bf16-mixed"),
    }
    match training.optimizer {
        // On a CPU neither foreach nor fused is PyTorch's choice (torch/optim/optimizer.py,
        // `_default_to_fused_or_foreach`: foreach for tensors on `_get_foreach_kernels_supported_devices` alone).
        Optimizer::Adamw => {
            training.optimizer = Optimizer::AdamwLoop;
            notes.assume("training.optimizer", "adamw goes tensor by tensor on a CPU (PyTorch's default there)");
        }
        Optimizer::Adamw8bit => notes.fault("training.optimizer", "adamw-8bit: its kernels are for GPUs"),
        _ => {}
    }
    if training.dropout.is_some_and(|dropout| dropout > 0.0) {
        notes.assume("training.dropout", "a CPU keeps masks as floats: 3 bytes an element more than counted here");
    }
    if training.compile {
        notes.assume("training.compile", "Inductor's loops on a CPU were not measured: times are those without it");
    }
    for (given, key) in [
        (plan.hardware.power_limit_w.is_some(), "hardware.power_limit_w"),
        (plan.hardware.library_workspaces.is_some(), "hardware.library_workspaces"),
        (plan.training.cuda_graph.is_some(), "training.cuda_graph"),
        (plan.cluster.interconnect.is_some(), "cluster.interconnect"),
        (plan.cluster.network.is_some(), "cluster.network"),
    ] {
        if given {
            notes.assume(key, "has no meaning on a CPU");
        }
    }
}
