//! Host memory that a GPU's offloads need.

use crate::model::Element;
use crate::plan::keywords::{CpuOffload, Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::step::StageTapes;
use crate::predict::step::StepTapes;
use crate::units::Bytes;

/// Bytes that one GPU's offload holds in host memory, of the stage that needs most of it. States, masters, gradients and
/// weights are those that the GPU gives up. The host updates what it holds, so that gradients lie there too
/// (ZeRO-Offload, arXiv 2101.06840, section 4.1; FSDP's CPUOffload). Activations are those of the micro-batches under way.
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
    let states = masters + card.states.saturating_sub(left.states);
    let gradients = if held.job.degrees.is_deepspeed() { of_zero(held, masters) } else { card.gradients };
    match training.cpu_offload {
        CpuOffload::Optimizer if trains => states + gradients,
        CpuOffload::Parameters if trains => card.weights + states + gradients,
        CpuOffload::Parameters => card.weights,
        CpuOffload::Activations if trains => activations(held, index),
        _ => Bytes::ZERO,
    }
}

/// What DeepSpeed holds on the host to step on, beside so many bytes of masters: gradients in fp32 beside them; the third stage
/// those that it reduces too (runtime/zero/stage3.py, `fp32_partitioned_groups_flat[i].grad` and
/// `grad_partitions_flat_buffer`), the first two the new weights in 16 bits (stage_1_and_2.py,
/// `param_buffer_of_bit16_for_cpu_offload_groups`).
fn of_zero(held: &StageTapes<'_>, masters: Bytes) -> Bytes {
    let storage = &held.job.storage;
    match held.job.degrees.sharding {
        Sharding::Zero3 => masters + held.on_card().gradients,
        _ => masters + Bytes(masters.0 / Element::F32.bytes() * storage.weight.bytes()),
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
