//! Host memory that a GPU's offloads need.

use crate::plan::keywords::{CpuOffload, Mode};
use crate::predict::job::Job;
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::units::Bytes;

/// Bytes that one GPU's offload holds in host memory, of the stage that needs most of it. States, masters, gradients and
/// weights are those that the GPU gives up. The host updates what it holds, so that gradients lie there too
/// (ZeRO-Offload, arXiv 2101.06840, section 4.1; FSDP's CPUOffload), under DeepSpeed twice: as they are reduced, and in fp32
/// beside the masters (runtime/zero/stage3.py, `grad_partitions_flat_buffer` and `fp32_partitioned_groups_flat[i].grad`;
/// stage_1_and_2.py, `param_buffer_of_bit16_for_cpu_offload_groups` in place of the first). Activations are those of the
/// micro-batches under way.
#[must_use]
pub fn host_memory(job: &Job) -> Bytes {
    let training = &job.training;
    if training.cpu_offload == CpuOffload::None {
        return Bytes::ZERO;
    }
    let step = StepTapes::of(job);
    let each = (0..job.stages.len()).map(|index| {
        let (first, last) = (index == 0, index + 1 == job.stages.len());
        of_stage(&StageTapes { job, step: &step, layers: job.stages[index].layers(), first, last }, index)
    });
    each.max().unwrap_or(Bytes::ZERO)
}

fn of_stage(held: &StageTapes<'_>, index: usize) -> Bytes {
    let training = &held.job.training;
    let card = held.on_card();
    let left = held.offloading(card, training.cpu_offload);
    let trains = training.mode == Mode::Train;
    let masters = card.masters.saturating_sub(left.masters);
    let stepped_on = if held.job.degrees.is_deepspeed() { masters } else { Bytes::ZERO };
    let states = masters + card.states.saturating_sub(left.states) + stepped_on;
    match training.cpu_offload {
        CpuOffload::Optimizer if trains => states + card.gradients,
        CpuOffload::Parameters if trains => card.weights + states + card.gradients,
        CpuOffload::Parameters => card.weights,
        CpuOffload::Activations if trains => activations(held, index),
        _ => Bytes::ZERO,
    }
}

fn activations(held: &StageTapes<'_>, index: usize) -> Bytes {
    let training = &held.job.training;
    let by_module = !training.offload_modules.is_empty();
    let until = training.offload_layers.unwrap_or(u64::MAX);
    let sent = |layer: &u64| held.step.layer(*layer).sent_bytes(by_module);
    let one = held.layers.iter().filter(|layer| **layer < until).map(sent).fold(0, u64::saturating_add);
    let behind = (held.job.stages.len() - 1 - index) as u64;
    Bytes(one.saturating_mul((behind + 1).min(held.job.batch.accumulation)))
}
