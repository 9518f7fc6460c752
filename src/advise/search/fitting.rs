//! Whether any plan fits, by memory alone: a step is timed for none but the plan that is told.
//!
//! Of settings that never need less than another none is looked at. The smallest micro batch has no more samples in
//! flight through a pipeline than a larger one, and each of its tensors is smaller; what more it holds is what
//! accumulation keeps, so that the largest, which does not accumulate, is looked at too. One forward, one backward has
//! no more micro-batches in flight than another schedule (arXiv 2104.04473, section 2.2), and who recomputes whole layers
//! keeps their inputs alone.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::knobs::Knobs;
use super::rank::Candidate;
use super::space::{DegreeGroup, Space};
use super::{Explorer, RankedPlan, Request, SearchProgress, start};
use crate::advise::legal;
use crate::advise::walk_cache::WalkCache;
use crate::catalog::Catalog;
use crate::plan::keywords::{CpuOffload, Sharding};
use crate::plan::{Checkpointing, Fault, keys};
use crate::predict::Job;

/// A plan that fits, the first in the order that people would try; none where no setting of the knobs does.
///
/// # Errors
/// Every fault of the plan itself.
pub fn any_that_fits(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<Option<RankedPlan>, Vec<Fault>> {
    let (job, _) = start(request, catalog)?;
    let space = Space::of(&job, &request.keep, request.free_batch);
    let explorer = Explorer::of(request, catalog, (&job, &space), progress);
    let mut groups: Vec<DegreeGroup> = space.groups().into_iter().filter(|group| space.is_frugal(group)).collect();
    // As people lay plans out: layers are cut within a node, as far as that goes, before anything else is.
    let node = job.hardware.gpus_per_node;
    groups.sort_by_key(|group| {
        let beyond = (group.tensor.saturating_sub(node), node.saturating_sub(group.tensor));
        let experts = (Reverse(group.expert), group.expert_tensor);
        let batch = (group.batch(), group.micro);
        (beyond, group.context, experts, group.pipeline, Reverse(group.sequence), batch)
    });
    let alike: Vec<&[DegreeGroup]> = groups.chunk_by(|one, other| one.within() == other.within()).collect();
    progress.begin(alike.len());
    let found = alike.into_par_iter().find_map_first(|alike| {
        let found = explorer.any_of(alike);
        progress.advance(0, alike.len() as u64, None);
        found
    });
    Ok(found.map(|candidate| RankedPlan::of(candidate, request.plan, &job)))
}

/// A plan that would fit by an offload that is not among those searched: a plan may ask for what its framework has no switch
/// for, a search does not propose it.
pub(super) fn unsupported(
    request: &Request<'_>,
    job: &Job,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Option<RankedPlan> {
    let searched = Space::of(job, &request.keep, request.free_batch).offloads();
    let lacks = |offload: &CpuOffload| !legal::offloads(job, (job.degrees.sharding, 1), *offload, &Checkpointing::None);
    searched.into_iter().filter(lacks).find_map(|offload| {
        let mut plan = request.plan.clone();
        plan.training.cpu_offload = Some(offload);
        let mut asked = Request { plan: &plan, ..request.clone() };
        asked.keep.push(keys::training::cpu_offload);
        let found = any_that_fits(&asked, catalog, progress).ok()??;
        Some(RankedPlan { change: found.knobs.change(request.plan, job), ..found })
    })
}

impl Explorer<'_> {
    /// A plan that fits, of groups whose ranks share out a layer alike.
    fn any_of(&self, groups: &[DegreeGroup]) -> Option<Candidate> {
        let walks = WalkCache::default();
        let cut = |group: &DegreeGroup| (group.pipeline, group.sequence);
        let mut cuts =
            groups.chunk_by(|one, other| cut(one) == cut(other)).take_while(|_| !self.progress.is_cancelled());
        cuts.find_map(|variants| {
            let first = variants.first()?;
            self.space.shardings(first).into_iter().rev().find_map(|sharding| {
                self.offloads.iter().find_map(|offload| {
                    let knobs = |group: &DegreeGroup| self.frugal(group, sharding, *offload);
                    // The first has the smallest micro batch, whose buffers are no larger than another's.
                    let job = variants.iter().find_map(|group| self.resolved(&knobs(group)?))?;
                    let least = walks.of(&job).least_memory(&job, &[*offload]);
                    let room = least.into_iter().all(|least| least <= job.hardware.capacity);
                    room.then(|| variants.iter().filter_map(knobs).find_map(|knobs| self.fitting(&walks, knobs)))?
                })
            })
        })
    }

    /// What of a group that is shared out so needs least.
    fn frugal(&self, group: &DegreeGroup, sharding: Sharding, offload: CpuOffload) -> Option<Knobs> {
        let (schedule, chunks) = self.space.schedules(group).into_iter().next()?;
        let allowed = self.checkpointings.iter().filter(|again| self.space.allows(group, sharding, (offload, again)));
        let knobs = allowed.map(|again| Knobs {
            schedule,
            chunks,
            sharding,
            offload,
            checkpointing: again.clone(),
            ..Knobs::of_group(group)
        });
        knobs.max_by_key(Knobs::effort)
    }

    /// The plan with its figures, where it fits.
    fn fitting(&self, walks: &WalkCache, knobs: Knobs) -> Option<Candidate> {
        let job = self.resolved(&knobs)?;
        let walked = walks.of(&job);
        let outline = walked.fits(&job).then(|| walked.outline(&job, &walked.timeline(&job)))?;
        Some(Candidate { knobs, outline })
    }
}
