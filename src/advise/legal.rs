//! What frameworks let be, where a plan alone would say yes.

use crate::model::Input;
use crate::plan::Checkpointing;
use crate::plan::keywords::{CpuOffload, Framework, Mode, Sharding};
use crate::predict::Job;

/// What may be shared out over data-parallel ranks: by Megatron's distributed optimizer the states, elsewhere whatever
/// FSDP and DeepSpeed do.
pub(super) const fn shardings(framework: Framework) -> &'static [Sharding] {
    match framework {
        Framework::Megatron => &[Sharding::None, Sharding::Zero1],
        _ => Sharding::ALL,
    }
}

/// Whether what is offloaded goes with a pipeline and with what is recomputed. Megatron trains with all weights on the
/// card, and offloads activations layer by layer: neither along a pipeline nor beside recomputation
/// (core/transformer/transformer_config.py, `cpu_offloading`).
pub(super) fn offloads(job: &Job, pipeline: u64, offload: CpuOffload, checkpointing: &Checkpointing) -> bool {
    if job.framework != Framework::Megatron || job.training.mode == Mode::Inference {
        return true;
    }
    match offload {
        CpuOffload::None | CpuOffload::Optimizer => true,
        CpuOffload::Parameters => false,
        CpuOffload::Activations => pipeline == 1 && *checkpointing == Checkpointing::None,
    }
}

/// Context-parallel ranks take two chunks of a sequence each, one from its front and one from its end, so that causal
/// attention is shared out evenly (megatron/core/utils.py, get_batch_on_this_cp_rank).
pub(super) fn cuts_sequence(job: &Job, context: u64) -> bool {
    let tokens = matches!(job.architecture.input(), Input::Tokens(_));
    context == 1 || (tokens && job.batch.sequence.is_multiple_of(2 * context))
}
