//! The best plans for a model on a cluster, over every knob of parallelism and memory, at the plan's own batch.
//!
//! Every legal setting is either evaluated or ruled out by bounds that hold whatever else is chosen: what stays in
//! device memory all the time is more than the GPU has; or its layers alone take longer than plans that were found
//! to be better in both speed and memory. Settings that mean the same (a schedule without a pipeline) are one.

mod fitting;
mod fold;
mod knobs;
mod progress;
mod rank;
mod reason;
mod smallest;
mod space;

pub use fitting::any_that_fits;
pub use fold::{FoldedPlan, fold};
pub use knobs::{KEYS as KNOBS, Knobs, LAYOUT};
pub use progress::{SearchProgress, SearchStatus};
pub use reason::why_slower;
pub use smallest::{ChangedPlan, SmallestChange, smallest_change};
pub use space::divisors;

use std::sync::{Arc, RwLock};

use rayon::prelude::*;

use super::limits::legal;
use super::walk_cache::{HeldWalks, WalkCache};
use super::walls::throughput;
use crate::catalog::Catalog;
use crate::plan::keywords::{CpuOffload, Mode, Schedule, Sharding};
use crate::plan::{Change, Checkpointing, Fault, Plan};
use crate::predict::{Job, KnownCounts, LayerTimes, OperatorWalk, Outline, StepTimeline, host_memory, outline};
use crate::units::{Bytes, Seconds};
use rank::{Candidate, Incumbents, SearchResults};
use space::{DegreeGroup, Space};

/// Branches that are looked into before what they gave is held against the next.
const AT_ONCE: usize = 64;

/// What is asked of a search.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Model, batch, cluster and everything that is no knob.
    pub plan: &'a Plan,
    /// Keys of [`KNOBS`] that stay as they are.
    pub keep: Vec<&'static str>,
    /// How many of the best to tell apart.
    pub top: usize,
    /// Batch and accumulation vary too: from an eighth to eight times the plan's batch.
    pub free_batch: bool,
}

/// One plan that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedPlan {
    /// Its settings.
    pub knobs: Knobs,
    /// What they change in the plan's text.
    pub change: Change,
    /// Its figures.
    pub outline: Outline,
    /// What of it lies in host memory, for each GPU; none where it was not asked for.
    pub host: Option<Bytes>,
}

impl RankedPlan {
    /// The plan that comes to `job`, as it is.
    fn given(job: &Job) -> Self {
        Self { knobs: Knobs::of(job), change: Change::default(), outline: outline(job), host: None }
    }

    /// A candidate as a change of `plan`, which comes to `job`.
    fn of(candidate: Candidate, plan: &Plan, job: &Job) -> Self {
        Self {
            change: candidate.knobs.change(plan, job),
            knobs: candidate.knobs,
            outline: candidate.outline,
            host: None,
        }
    }

    /// Finds what of it lies in host memory. `start` is the job that the search of `plan` started from.
    pub(super) fn ask_for_host(&mut self, plan: &Plan, start: &Job, catalog: &Catalog) {
        let mut plan = plan.clone();
        self.knobs.apply(&mut plan, start);
        self.host = Job::resolve(&plan, catalog).ok().map(|job| host_memory(&job));
    }
}

/// What came of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOutcome {
    /// The best plans that fit, by throughput; ties go to the one that does less to save memory.
    pub ranked: Vec<RankedPlan>,
    /// Of the plans that fit and take at most half as long again as the best, those that no other beats in both
    /// speed and memory, fastest first.
    pub front: Vec<RankedPlan>,
    /// The plan as it was given; or why it does not run, where its batch does not go with the degrees that it leaves open.
    pub own: Result<RankedPlan, Fault>,
    /// The plan that needs least memory, where none fits.
    pub nearest: Option<RankedPlan>,
    /// Where none fits: a plan that would by an offload that is not searched, as the framework has no such thing.
    pub unsupported: Option<Box<RankedPlan>>,
    /// The least time of a sample of each set of degrees (tensor, pipeline, context, expert) of which a plan was evaluated
    /// that fits, in their order.
    pub degrees: Vec<Seconds>,
    /// Of the plans whose figures were computed, those that fit.
    pub fitting: u64,
    /// Plans whose figures were computed.
    pub evaluated: u64,
    /// Plans that were ruled out without.
    pub pruned: u64,
    /// It was stopped before its end: better plans may be left.
    pub cancelled: bool,
}

/// Searches. `progress` may be watched and cancelled from another thread.
///
/// # Errors
/// Every fault of the plan itself.
pub fn search(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<SearchOutcome, Vec<Fault>> {
    search_aloud(request, catalog, progress, &|_| {})
}

/// Searches, and tells again and again what it has found so far: on the thread that it was called on, which waits for
/// `tell`.
///
/// # Errors
/// Every fault of the plan itself.
pub fn search_aloud(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
    tell: &dyn Fn(&dyn Fn() -> SearchOutcome),
) -> Result<SearchOutcome, Vec<Fault>> {
    let (job, own) = start(request, catalog)?;
    let space = Space::of(&job, &request.keep, request.free_batch);
    let explorer = Explorer::of(request, catalog, (&job, &space), progress);
    let ranked = |candidate: Candidate| RankedPlan::of(candidate, request.plan, &job);
    let found = |mut gathered: SearchResults| {
        gathered.trim_front();
        let seen = progress.seen();
        SearchOutcome {
            own: own.clone(),
            nearest: gathered.nearest.filter(|_| gathered.best.is_empty()).map(ranked),
            unsupported: None,
            degrees: gathered.degrees.into_values().collect(),
            ranked: gathered.best.into_iter().map(ranked).collect(),
            front: gathered.front.into_iter().map(ranked).collect(),
            fitting: gathered.fitting,
            evaluated: seen.evaluated,
            pruned: seen.pruned,
            cancelled: progress.is_cancelled(),
        }
    };
    let gathered = explorer.explore(&|so_far| tell(&|| found(so_far.clone())));
    let mut found = found(gathered);
    for one in found.ranked.iter_mut().filter(|one| one.knobs.offload != CpuOffload::None) {
        one.ask_for_host(request.plan, &job, catalog);
    }
    if found.ranked.is_empty() && !found.cancelled {
        found.unsupported = fitting::unsupported(request, &job, catalog, progress).map(Box::new);
    }
    Ok(found)
}

/// What a search starts from: the plan; or where it runs with none but other degrees than those that follow from what it leaves
/// open, as all GPUs as replicas of a batch that is too small for them, the plan with the first that it runs with.
fn start(request: &Request<'_>, catalog: &Catalog) -> Result<(Job, Result<RankedPlan, Fault>), Vec<Fault>> {
    let plan = request.plan;
    let faults = match Job::resolve(plan, catalog) {
        Ok(job) => {
            let given = RankedPlan::given(&job);
            return Ok((job, Ok(given)));
        }
        Err(faults) => faults,
    };
    let open = plan.distribution.data_parallel.is_none() && plan.distribution.strategy.is_none();
    let begun = plan.model.batch_size.filter(|_| open).and_then(|batch| legal(plan, batch, &request.keep, catalog));
    match (begun, faults.first()) {
        (Some(begun), Some(fault)) => Ok((Job::resolve(&begun, catalog)?, Err(fault.clone()))),
        _ => Err(faults),
    }
}

/// Degrees, micro batch and schedule: what is left to choose does not make it quicker than `least`.
struct Branch {
    group: DegreeGroup,
    schedule: (Schedule, u64),
    least: Seconds,
    walks: Arc<WalkCache>,
}

impl Branch {
    /// The least time of a sample.
    fn pace(&self) -> f64 {
        self.least.0 / self.group.batch() as f64
    }
}

/// Time that a micro-batch of `job` spends at least in any of its stages, by layers that were timed before where some
/// are the same.
fn least_in_a_stage(job: &Job, timed: &mut Vec<LayerTimes>) -> Seconds {
    if let Some(known) = timed.iter().find(|known| known.serve(job)) {
        return known.least_in_a_stage(job);
    }
    let own = LayerTimes::of(job);
    let least = own.least_in_a_stage(job);
    timed.push(own);
    least
}

struct Explorer<'a> {
    request: &'a Request<'a>,
    catalog: &'a Catalog,
    /// The plan as it was given.
    own: &'a Job,
    space: &'a Space<'a>,
    checkpointings: Vec<Checkpointing>,
    offloads: Vec<CpuOffload>,
    incumbents: RwLock<Incumbents>,
    /// Parameters by rows of the vocabulary.
    counts: KnownCounts,
    progress: &'a SearchProgress,
}

impl<'a> Explorer<'a> {
    fn of(
        request: &'a Request<'a>,
        catalog: &'a Catalog,
        (own, space): (&'a Job, &'a Space<'a>),
        progress: &'a SearchProgress,
    ) -> Self {
        let (checkpointings, offloads) = (space.checkpointings(), space.offloads());
        Self {
            request,
            catalog,
            own,
            space,
            checkpointings,
            offloads,
            incumbents: RwLock::default(),
            counts: KnownCounts::default(),
            progress,
        }
    }
}

impl Explorer<'_> {
    /// Best first, so that what was found rules out most of what comes later.
    fn explore(&self, tell: &dyn Fn(&SearchResults)) -> SearchResults {
        let mut groups = self.space.groups();
        groups.sort_by_key(DegreeGroup::operators);
        let alike: Vec<&[DegreeGroup]> = groups.chunk_by(|one, other| one.operators() == other.operators()).collect();
        let mut branches: Vec<Branch> = alike.into_par_iter().flat_map_iter(|alike| self.of_alike(alike)).collect();
        branches.sort_by(|a, b| a.pace().total_cmp(&b.pace()));
        self.progress.begin(branches.len());
        let mut gathered = SearchResults::none();
        let mut held = HeldWalks::default();
        for some in branches.chunks(AT_ONCE) {
            let found = some
                .par_iter()
                .map(|branch| if self.progress.is_cancelled() { SearchResults::none() } else { self.branch(branch) })
                .reduce(SearchResults::none, |a, b| a.with(b, self.request.top));
            gathered = gathered.with(found, self.request.top);
            if let Ok(mut incumbents) = self.incumbents.write() {
                *incumbents = gathered.incumbents(self.request.top);
            }
            held.used(some.iter().map(|branch| &branch.walks));
            tell(&gathered);
        }
        gathered
    }

    /// The branches of groups that run the same operators. What was timed for their bounds is let go: most of them are
    /// never looked into, and all together would fill the memory.
    fn of_alike(&self, groups: &[DegreeGroup]) -> Vec<Branch> {
        let (mut timed, later) = (Vec::new(), Arc::new(WalkCache::default()));
        let wanted = groups.iter().take_while(|_| !self.progress.is_cancelled());
        wanted.flat_map(|group| self.branches(group, &mut timed, &later)).collect()
    }

    /// A group with each schedule, and the least time of each.
    fn branches(&self, group: &DegreeGroup, timed: &mut Vec<LayerTimes>, later: &Arc<WalkCache>) -> Vec<Branch> {
        let schedules = self.space.schedules(group);
        // An engine that only shares out has no plan with whole replicas.
        let mut ways = self.space.shardings(group).into_iter();
        let job = ways.find_map(|sharding| self.resolved(&Knobs { sharding, ..Knobs::of_group(group) }));
        let Some(job) = job else { return Vec::new() };
        // Requests are ranked by the tokens that answer them, of which the bound says nothing.
        let answers = job.training.mode == Mode::Inference;
        let stage = if answers { Seconds(0.0) } else { least_in_a_stage(&job, timed) };
        let branch = |schedule: (Schedule, u64)| {
            // (p - 1) / v more micro-batches' time to fill and drain (arXiv 2104.04473, section 2.2).
            let passes = group.accumulation as f64 + (group.pipeline - 1) as f64 / schedule.1 as f64;
            Branch { group: *group, schedule, least: stage * passes, walks: Arc::clone(later) }
        };
        schedules.into_iter().map(branch).collect()
    }

    fn resolved(&self, knobs: &Knobs) -> Option<Job> {
        let mut plan = self.request.plan.clone();
        knobs.apply(&mut plan, self.own);
        self.own.rearranged(&plan, self.catalog, &self.counts).ok()
    }

    /// Every plan of a branch.
    fn branch(&self, branch: &Branch) -> SearchResults {
        let mut gathered = SearchResults::none();
        let variants = |sharding: Sharding| {
            let pairs =
                self.offloads.iter().flat_map(|offload| self.checkpointings.iter().map(move |again| (*offload, again)));
            pairs.filter(|pair| self.space.allows(&branch.group, sharding, *pair)).count() as u64
        };
        let mut pruned = 0;
        for sharding in self.space.shardings(&branch.group) {
            if !self.may_matter(branch.least, &branch.group, Bytes::ZERO) {
                pruned += variants(sharding);
                continue;
            }
            let mut knobs = Knobs::of_group(&branch.group);
            ((knobs.schedule, knobs.chunks), knobs.sharding) = (branch.schedule, sharding);
            if let Some(mut job) = self.resolved(&knobs) {
                pruned += self.variants(branch, &mut job, &mut knobs, &mut gathered);
            }
        }
        let best = gathered.best.first().map(|best| throughput(&best.outline));
        self.progress.advance(gathered.evaluated, pruned, best);
        gathered
    }

    /// Every way to offload and to recompute; how many were ruled out.
    fn variants(&self, branch: &Branch, job: &mut Job, knobs: &mut Knobs, gathered: &mut SearchResults) -> u64 {
        let mut pruned = 0;
        // Requests are ranked by the tokens that answer them: no bound on the time to read them says anything.
        let train = job.training.mode == Mode::Train;
        job.training.checkpointing.clone_from(&self.checkpointings[0]);
        let memory = branch.walks.of(job).least_memory(job, &self.offloads);
        for checkpointing in &self.checkpointings {
            job.training.checkpointing.clone_from(checkpointing);
            knobs.checkpointing.clone_from(checkpointing);
            // Walked and timed once something may fit.
            let mut timed: Option<(Arc<OperatorWalk>, StepTimeline)> = None;
            for (offload, least) in self.offloads.iter().zip(&memory) {
                if !self.space.allows(&branch.group, knobs.sharding, (*offload, checkpointing)) {
                    continue;
                }
                (job.training.cpu_offload, knobs.offload) = (*offload, *offload);
                let fits = *least <= job.hardware.capacity;
                let outline = fits.then(|| timed.get_or_insert_with(|| branch.walks.timed(job)));
                let outline = outline.and_then(|(walked, timeline)| {
                    let wanted = !train || self.may_matter(walked.least_time(job, timeline), &branch.group, *least);
                    wanted.then(|| walked.outline(job, timeline))
                });
                match outline {
                    Some(outline) => gathered.add(Candidate { knobs: knobs.clone(), outline }, self.request.top),
                    None => pruned += 1,
                }
            }
        }
        pruned
    }

    /// Whether a plan that takes at least so long and needs at least so much can be among the best or on the front.
    fn may_matter(&self, least: Seconds, group: &DegreeGroup, memory: Bytes) -> bool {
        let pace = least / group.batch() as f64;
        self.incumbents.read().is_ok_and(|incumbents| incumbents.may_matter(pace, memory))
    }
}
