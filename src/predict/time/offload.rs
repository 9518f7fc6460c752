//! What lies in host memory and moves to the GPU each step, and the update that the host computes itself.

use crate::plan::keywords::{CpuOffload, Mode, Sharding};
use crate::predict::job::Job;
use crate::predict::step::StepTapes;
use crate::predict::time::collectives::Weights;
use crate::predict::time::pass_costs::PassCosts;
use crate::units::Seconds;

/// Time in which the host updates a parameter: 0.24 s a billion with DeepSpeed's vectorised Adam (ZeRO-Offload,
/// arXiv 2101.06840, table 4).
const UPDATE: Seconds = Seconds(0.24e-9);

/// Share of the link's bandwidth that copies from pinned memory reach: 12.36 GB/s (NVIDIA/nvbandwidth, README.md,
/// host_to_device_memcpy_ce), which of the links that a GPU has fits the 16 GB/s of PCIe 3.0 alone. Taken for all.
pub(in crate::predict) const REACHED: f64 = 12.36 / 16.0;

/// Time of a step that transfers and the host's update take beyond what the passes of a micro-batch may hide, with what is
/// waited for in them.
pub(in crate::predict) fn seconds(
    job: &Job,
    step: &StepTapes,
    layers: &[u64],
    weights: Weights,
    passes: PassCosts,
) -> Seconds {
    let rate = job.hardware.gpu.host_link.0 * REACHED;
    let train = job.training.mode == Mode::Train;
    let all = weights.dense + weights.expert;
    let degrees = &job.degrees;
    let shared = if degrees.sharding == Sharding::None { 1 } else { degrees.shard_ranks };
    let own = all / shared as f64;
    let micro_batches = job.batch.accumulation as f64;
    let seen = job.storage.seen.bytes() as f64;
    let gradients = Seconds(own * job.storage.gradient.bytes() as f64 / rate);
    // The GPUs of a node share its cores.
    let update = own * UPDATE * degrees.num_gpus.min(job.hardware.gpus_per_node.max(1)) as f64;
    let out_and_in = |bytes: u64, hides: PassCosts| {
        let one_way = Seconds(bytes as f64 / rate);
        micro_batches * PassCosts { forward: one_way, backward: one_way }.beyond(hides).all()
    };
    match job.training.cpu_offload {
        CpuOffload::None => Seconds::ZERO,
        // Gradients go out and weights come back once (arXiv 2101.06840, section 4).
        CpuOffload::Optimizer if train => gradients + Seconds(own * seen / rate) + update,
        CpuOffload::Optimizer => Seconds::ZERO,
        // Weights come in for each pass and gradients go out after each backward pass (FSDP, CPUOffload).
        CpuOffload::Parameters => {
            let held = all.mul_add(seen, weights.frozen);
            let fetched = Seconds(if degrees.sharding == Sharding::Zero3 { held / shared as f64 } else { held } / rate);
            let each = if train { 2.0 * fetched + gradients } else { fetched };
            micro_batches * each + if train { update } else { Seconds::ZERO }
        }
        CpuOffload::Activations if train => {
            let until = job.training.offload_layers.unwrap_or(u64::MAX);
            let by_module = !job.training.offload_modules.is_empty();
            let sent =
                layers.iter().filter(|layer| **layer < until).map(|layer| step.layer(*layer).sent_bytes(by_module));
            let hides = if job.profile.overlap.offloads.is { passes } else { PassCosts::default() };
            out_and_in(sent.fold(0, u64::saturating_add), hides)
        }
        CpuOffload::Activations => Seconds::ZERO,
    }
}
