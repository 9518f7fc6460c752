//! What frameworks let be, where a plan alone would say yes.

use crate::catalog::Generation;
use crate::framework::Experts;
use crate::model::Input;
use crate::plan::Checkpointing;
use crate::plan::keywords::{CpuOffload, Engine, Mode, Sharding};
use crate::predict::Job;

/// What may be shared out over data-parallel ranks: what the plan's own engine can, else what the framework's can.
pub(super) fn shardings(job: &Job) -> &'static [Sharding] {
    let degrees = &job.degrees;
    if degrees.engine_is_given { degrees.engine.shardings() } else { job.profile.data_parallel.proposed.is }
}

/// What the framework can share out by another engine than the one that is searched: no search proposes it.
#[must_use]
pub fn left_out(job: &Job) -> Vec<Sharding> {
    if job.degrees.num_gpus == 1 || job.training.mode == Mode::Inference {
        return Vec::new();
    }
    let searched = |sharding: &Sharding| shardings(job).contains(sharding) || *sharding == job.degrees.asked();
    let can =
        |sharding: &Sharding| job.profile.data_parallel.engines.is.iter().any(|e| e.shardings().contains(sharding));
    let has = |sharding: &Sharding| job.profile.support.shards.is.contains(sharding);
    Sharding::ALL.iter().copied().filter(|sharding| has(sharding) && can(sharding) && !searched(sharding)).collect()
}

/// Whether weights may lie in host memory where `ranks` share `sharding` out: in shares alone, which DeepSpeed's third stage and
/// FSDP make (predict/job/limits.rs, `weights_on_host`).
pub(super) fn holds_weights(job: &Job, sharding: Sharding, ranks: u64) -> bool {
    let engine = engine(job, sharding);
    let shares = sharding == Sharding::Zero3 || (sharding == Sharding::Zero2 && engine.is_fsdp());
    job.training.mode == Mode::Inference || ranks == 1 || shares || engine.is_megatron()
}

/// Who shares `sharding` out: the plan's own engine, else the one that the framework takes for it.
fn engine(job: &Job, sharding: Sharding) -> Engine {
    let degrees = &job.degrees;
    let derived = || job.profile.data_parallel.derived(sharding, job.storage.precision).is;
    if degrees.engine_is_given { degrees.engine } else { derived() }
}

/// Whether a plan of one stage is cut into several on anyone's proposal.
pub(super) fn pipelines(job: &Job) -> bool {
    !job.profile.support.stages_by_hand.is || job.degrees.pipeline > 1 || job.training.mode == Mode::Inference
}

/// Whether what is offloaded goes with the engine of `sharding`, with a pipeline and with what is recomputed. FSDP moves
/// parameters, and states with them alone (torch/distributed/fsdp/api.py, `CPUOffload`; _fully_shard/_fsdp_api.py,
/// `CPUOffloadPolicy`). On a CPU nothing is offloaded: it is in the host's memory already, and a plan that says otherwise is
/// refused.
pub(super) fn offloads(
    job: &Job,
    (sharding, pipeline): (Sharding, u64),
    offload: CpuOffload,
    checkpointing: &Checkpointing,
) -> bool {
    if job.hardware.gpu.generation == Generation::Cpu {
        return offload == CpuOffload::None;
    }
    let shards = sharding != Sharding::None && engine(job, sharding).is_fsdp();
    if shards && offload == CpuOffload::Optimizer && job.training.mode == Mode::Train {
        return false;
    }
    job.training.mode == Mode::Inference
        || job.profile.support.offload.is.allows(offload, pipeline, *checkpointing != Checkpointing::None)
}

/// Context-parallel ranks take two chunks of a sequence each, one from its front and one from its end, so that causal
/// attention is shared out evenly (megatron/core/utils.py, get_batch_on_this_cp_rank).
pub(super) fn cuts_sequence(job: &Job, context: u64) -> bool {
    let tokens = matches!(job.architecture.input(), Input::Tokens(_));
    context == 1 || (tokens && job.batch.sequence.is_multiple_of(2 * context))
}

/// Whether tensor parallelism comes with sequence parallelism alone: by the framework's own plan; and where Megatron trains
/// experts (megatron-core 0.16, core/transformer/moe/moe_layer.py, `MoELayer.forward`).
pub(super) fn needs_sequence_parallel(job: &Job) -> bool {
    if job.profile.defaults.sequence_parallel.is && job.training.mode == Mode::Train {
        return true;
    }
    let routes = job.decoder().is_some_and(|decoder| decoder.moe.is_some());
    routes && job.profile.modules.experts.is == Experts::Weighted && job.training.mode == Mode::Train
}
