//! Other degrees of parallelism as changes to a plan.

use super::candidates::{Candidate, FixKind, List, candidates};
use crate::advise::legal;
use crate::framework::ModelParallelism;
use crate::plan::keys;
use crate::plan::keywords::Mode;
use crate::plan::{Change, Plan};
use crate::predict::Job;

/// Every change that `plan` leaves room for, and further degrees of parallelism for one that does not fit.
pub(super) fn candidates_of_unfit(plan: &Plan, job: &Job) -> Vec<Candidate> {
    let mut all = List(candidates(plan, job));
    all.further_degrees(plan, job);
    all.0
}

impl List {
    /// Degrees doubled and halved, and tensor parallelism within a node: replicas follow.
    pub(super) fn degrees(&mut self, plan: &Plan, job: &Job) {
        let (degrees, train) = (&job.degrees, job.training.mode == Mode::Train);
        if degrees.tensor > 1 && !degrees.sequence_parallel && train && job.profile.splits_sequence() {
            let change = Change::to(keys::distribution::sequence_parallel, "true");
            self.add("sequence parallel", FixKind::Degrees, change);
        }
        let now = [degrees.tensor, degrees.pipeline, degrees.context];
        let node = job.hardware.node_gpus;
        if degrees.tensor > node && degrees.tensor.is_multiple_of(node) {
            self.degree(plan, job, [node, degrees.pipeline, degrees.context]);
            self.degree(plan, job, [node, degrees.pipeline * (degrees.tensor / node), degrees.context]);
        }
        for at in 0..now.len() {
            for to in [now[at] * 2, now[at] / 2, 1].into_iter().filter(|to| *to > 0 && *to != now[at]) {
                let mut changed = now;
                changed[at] = to;
                self.degree(plan, job, changed);
            }
        }
        // Where the framework splits norms along with the matrices, one change is both.
        let by_itself = job.profile.defaults.sequence_parallel.is && plan.distribution.sequence_parallel.is_none();
        if degrees.tensor == 1 && job.decoder().is_some() && train && !by_itself {
            self.tensor_with_sequence(plan, job, 2);
        }
        let layers = job.architecture.layers();
        if degrees.pipeline > 1 && train {
            let more = (degrees.virtual_pipeline + 1..=layers / degrees.pipeline)
                .filter(|chunks| layers.is_multiple_of(degrees.pipeline * chunks));
            for chunks in more {
                let change = Change::to(keys::distribution::virtual_pipeline, chunks.to_string());
                self.add(format!("{chunks} chunks a stage"), FixKind::Degrees, change);
            }
        }
    }

    /// Degrees further up than the next, for a plan that may be many times too large: nobody goes there by doublings.
    fn further_degrees(&mut self, plan: &Plan, job: &Job) {
        let degrees = &job.degrees;
        let now = [degrees.tensor, degrees.pipeline, degrees.context];
        for at in 0..now.len() {
            let most = degrees.num_gpus / (now.iter().product::<u64>() / now[at]).max(1);
            for to in std::iter::successors(Some(now[at] * 4), |to| Some(to * 2)).take_while(|to| *to <= most) {
                let mut changed = now;
                changed[at] = to;
                self.degree(plan, job, changed);
            }
        }
        self.experts(job);
    }

    /// Experts over more of the ranks that there are, each whole on its rank.
    fn experts(&mut self, job: &Job) {
        let degrees = &job.degrees;
        let own = job.profile.support.splits_in(job.training.mode).contains(&ModelParallelism::Expert);
        let Some(moe) = job.decoder().and_then(|decoder| decoder.moe.as_ref()).filter(|_| own) else { return };
        let ranks = match job.profile.support.experts_in_tensor.is {
            true => degrees.tensor,
            false => degrees.data * degrees.context * degrees.tensor,
        };
        let further = std::iter::successors(Some(degrees.expert * 2), |to| Some(to * 2)).take_while(|to| *to <= ranks);
        for to in further.filter(|to| moe.experts.is_multiple_of(*to) && ranks.is_multiple_of(*to)) {
            let change = Change::to(keys::distribution::expert_parallel, to.to_string())
                .and(keys::distribution::expert_tensor_parallel, "1");
            self.add(format!("expert parallel {to}"), FixKind::Degrees, change);
        }
    }

    /// Tensor parallelism that shares out norms and dropouts too.
    fn tensor_with_sequence(&mut self, plan: &Plan, job: &Job, tensor: u64) {
        let sequence = job.profile.splits_sequence();
        if let Some((name, change)) = cut(plan, job, [tensor, job.degrees.pipeline, job.degrees.context], sequence) {
            self.add(name, FixKind::Degrees, change);
        }
    }

    /// Tensor, pipeline and context parallelism of these degrees, where the GPUs can be cut so.
    fn degree(&mut self, plan: &Plan, job: &Job, degrees: [u64; 3]) {
        if let Some((name, change)) = cut(plan, job, degrees, legal::needs_sequence_parallel(job)) {
            self.add(name, FixKind::Degrees, change);
        }
    }
}

/// The change to tensor, pipeline and context parallelism of these degrees, with its name; none where the GPUs cannot be cut
/// so. `sequence`: tensor-parallel ranks share norms and dropouts out too.
fn cut(plan: &Plan, job: &Job, [tensor, pipeline, context]: [u64; 3], sequence: bool) -> Option<(String, Change)> {
    let degrees = &job.degrees;
    let within = tensor * pipeline * context;
    let cuts = context == degrees.context || legal::cuts_sequence(job, context);
    // Tensor-parallel ranks talk several times a layer: nobody sends that over the network who need not.
    let far = tensor > degrees.tensor && tensor > job.hardware.node_gpus;
    let staged = pipeline == degrees.pipeline || legal::pipelines(job);
    if !degrees.num_gpus.is_multiple_of(within) || !cuts || far || !staged {
        return None;
    }
    let parts = [
        ("tensor parallel", "distribution.tensor_parallel", degrees.tensor, tensor),
        ("pipeline parallel", "distribution.pipeline_parallel", degrees.pipeline, pipeline),
        ("context parallel", "distribution.context_parallel", degrees.context, context),
    ];
    let (mut names, mut change) = (Vec::new(), Change::default());
    for (name, key, _, to) in parts.into_iter().filter(|(_, _, now, to)| now != to) {
        names.push(format!("{name} {to}"));
        change = change.and(key, to.to_string());
    }
    if sequence && tensor > 1 && !degrees.sequence_parallel {
        names.push("sequence parallel".to_owned());
        change = change.and(keys::distribution::sequence_parallel, "true");
    }
    if plan.distribution.data_parallel.is_some() {
        change = change.and(keys::distribution::data_parallel, (degrees.num_gpus / within).to_string());
    }
    if plan.cluster.num_gpus.is_none() {
        change = change.and(keys::cluster::num_gpus, degrees.num_gpus.to_string());
    }
    Some((names.join(", "), change))
}
