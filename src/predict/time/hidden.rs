//! What of the collectives within a model runs beside its passes.

use super::partners;
use super::pass_costs::PassCosts;
use crate::model::{CollectiveKind, RankGroup};
use crate::predict::job::Job;
use crate::predict::step::pipeline::warm_up;
use crate::predict::time::cost::Pass;
use crate::units::Seconds;

/// What of a group's collectives runs behind the passes, `left` of which hide nothing yet. The forward pass's run
/// `again` where a block is recomputed.
pub(super) fn hides(
    job: &Job,
    (group, kind): (RankGroup, CollectiveKind),
    (once, again): (PassCosts, Seconds),
    left: &Pass,
) -> PassCosts {
    let comm = once + PassCosts { forward: Seconds::ZERO, backward: again };
    let most = match group {
        RankGroup::Tensor => {
            let waited = job.speed.stack.pieces.unwrap_or(1.0 / job.degrees.tensor.max(1) as f64);
            let pieces = if job.speed.overlap_tensor { 1.0 - waited } else { 0.0 };
            let backward = once.backward * job.speed.stack.tensor_overlap.max(pieces);
            PassCosts { forward: once.forward * pieces, backward: Seconds(again.0.mul_add(pieces, backward.0)) }
        }
        // Behind another micro-batch's passes, forward or backward as they come.
        RankGroup::Expert if job.speed.overlap_experts => {
            // Half of an exchange each way is the dispatch, half the combine.
            let experts = left.experts.least(left.card);
            return partners::hidden(comm * 0.5, experts, left.card - experts) * paired(job);
        }
        RankGroup::Expert => PassCosts::default(),
        // Keys and values of the next block come in while this one's scores are computed.
        RankGroup::Context | RankGroup::ContextPairs if kind == CollectiveKind::Ring => comm.least(left.attention),
        // Scores wait for what is gathered, or for the heads of the whole sequence.
        RankGroup::Context | RankGroup::ContextPair | RankGroup::ContextPairs => PassCosts::default(),
    };
    most.least(left.card)
}

/// Share of the passes that run beside another micro-batch's. Those before the first one backward have no partner, nor
/// those after the last one forward: the first and the last pass without a pipeline, its warm-up with one (megatron-core,
/// pipeline_parallel/combined_1f1b.py and schedules.py).
fn paired(job: &Job) -> f64 {
    let all = job.batch.accumulation.saturating_mul(job.degrees.virtual_pipeline);
    1.0 - warm_up(job, 0).max(1).min(all) as f64 / all.max(1) as f64
}
