//! The smallest change that makes a plan fit: as few keys of its text as possible, and of those the fastest.

use std::sync::Arc;

use rayon::prelude::*;

use super::knobs::{KEYS as KNOBS, Knobs};
use super::progress::SearchProgress;
use super::rank::Candidate;
use super::space::Space;
use super::{Explorer, RankedPlan, Request};
use crate::advise::walk_cache::WalkCache;
use crate::advise::walls::throughput;
use crate::catalog::Catalog;
use crate::plan::keywords::CpuOffload;
use crate::plan::{Change, Fault, Plan, keys};
use crate::predict::{Job, Verdict, outline};

/// More keys at once are another plan, not a change of this one.
const MOST: usize = 4;

/// Keys whose values the others decide.
const FOLLOW: [&str; 5] = [
    keys::distribution::overlap_expert_parallel,
    keys::distribution::data_parallel,
    keys::training::gradient_accumulation_steps,
    keys::cluster::num_gpus,
    keys::distribution::strategy,
];

/// Plans that fit after the same, smallest number of changed keys.
#[derive(Debug, Clone, PartialEq)]
pub struct SmallestChange {
    /// Keys of the text that change; those that only follow (replicas, accumulation) are not counted.
    pub keys: usize,
    /// The plans, fastest first.
    pub plans: Vec<ChangedPlan>,
}

/// A plan with what of its change counts.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedPlan {
    /// It, with its whole change.
    pub ranked: RankedPlan,
    /// The keys that a person chooses anew.
    pub chosen: Change,
    /// The keys that must then be written anew, too.
    pub follows: Change,
}

/// The plans that fit after changing as few knobs as possible; none where no four of them are enough.
///
/// # Errors
/// Every fault of the plan itself.
pub fn smallest_change(
    request: &Request<'_>,
    catalog: &Catalog,
    progress: &SearchProgress,
) -> Result<Option<SmallestChange>, Vec<Fault>> {
    let job = Job::resolve(request.plan, catalog)?;
    let own = outline(&job);
    if own.capacity.verdict() != Verdict::DoesNotFit {
        return Ok(Some(SmallestChange {
            keys: 0,
            plans: vec![ChangedPlan::of(RankedPlan::given(&job), request, &job)],
        }));
    }
    let space = Space::of(&job, &request.keep, request.free_batch);
    let explorer = Explorer::of(request, catalog, (&job, &space), progress);
    let mut levels: Vec<Vec<Knobs>> = vec![Vec::new(); MOST];
    for knobs in all(&space) {
        let keys = count(&knobs, request, &job);
        if (1..=MOST).contains(&keys) {
            levels[keys - 1].push(knobs);
        }
    }
    progress.begin(levels.iter().map(Vec::len).sum());
    for (at, level) in levels.into_iter().enumerate() {
        let walks = WalkCache::default();
        let fitting = level.into_par_iter().filter_map(|knobs| {
            let found = if progress.is_cancelled() { None } else { fits(&explorer, &walks, knobs) };
            progress.advance(u64::from(found.is_some()), u64::from(found.is_none()), None);
            found
        });
        let mut fitting: Vec<Candidate> = fitting.collect();
        if !fitting.is_empty() {
            fitting.sort_by(|a, b| throughput(&b.outline).total_cmp(&throughput(&a.outline)).then_with(|| a.order(b)));
            fitting.truncate(request.top);
            let ranked = fitting.into_iter().map(|one| RankedPlan::of(one, request.plan, &job));
            let plans = ranked.map(|one| ChangedPlan::of(one, request, &job)).collect();
            return Ok(Some(SmallestChange { keys: at + 1, plans }));
        }
    }
    Ok(None)
}

/// Every setting of the knobs.
fn all(space: &Space<'_>) -> Vec<Knobs> {
    let (checkpointings, offloads) = (space.checkpointings(), space.offloads());
    let mut all = Vec::new();
    for group in space.groups() {
        for schedule in space.schedules(&group) {
            for sharding in space.shardings(&group) {
                for checkpointing in &checkpointings {
                    let allowed = |offload: &&CpuOffload| space.allows(&group, sharding, (**offload, checkpointing));
                    for offload in offloads.iter().filter(allowed) {
                        let mut knobs = Knobs::of_group(&group);
                        ((knobs.schedule, knobs.chunks), knobs.sharding) = (schedule, sharding);
                        knobs.checkpointing.clone_from(checkpointing);
                        knobs.offload = *offload;
                        all.push(knobs);
                    }
                }
            }
        }
    }
    all
}

impl ChangedPlan {
    fn of(ranked: RankedPlan, request: &Request<'_>, job: &Job) -> Self {
        let (chosen, follows) = parted(&ranked.knobs, &ranked.change, request.plan, job);
        Self { ranked, chosen, follows }
    }
}

/// Keys that a person would have to change for these knobs.
fn count(knobs: &Knobs, request: &Request<'_>, job: &Job) -> usize {
    if knobs.differences(&Knobs::of(job)).len() > MOST + FOLLOW.len() {
        return MOST + 1;
    }
    parted(knobs, &knobs.change(request.plan, job), request.plan, job).0.set.len()
}

/// A change in two: what a person chooses anew, and what follows from it.
fn parted(knobs: &Knobs, change: &Change, plan: &Plan, job: &Job) -> (Change, Change) {
    let differences = knobs.differences(&Knobs::of(job));
    let same_batch = knobs.batch() == job.batch.global;
    // A degree that is only written out where a strategy had filled it is none that changes.
    let filled = |key: &str| {
        let knob = KNOBS.iter().position(|knob| *knob == key && knob.starts_with("distribution."));
        knobs.refills(plan, job) && knob.is_some_and(|knob| differences.iter().all(|(differs, _)| *differs != knob))
    };
    let follow = |key: &str| FOLLOW.contains(&key) || filled(key) || same_batch && key == keys::model::batch_size;
    let (follows, chosen) = change.set.iter().cloned().partition(|(key, _)| follow(key));
    (Change { set: chosen, remove: Vec::new() }, Change { set: follows, remove: change.remove.clone() })
}

fn fits(explorer: &Explorer<'_>, walks: &WalkCache, knobs: Knobs) -> Option<Candidate> {
    let job = explorer.resolved(&knobs)?;
    let walked = walks.of(&job);
    let least = walked.least_memory(&job, &[knobs.offload]);
    if least.iter().any(|least| *least > job.hardware.capacity) {
        return None;
    }
    let timeline = Arc::new(walked.timeline(&job));
    let candidate = Candidate { outline: walked.outline(&job, &timeline), knobs };
    candidate.fits().then_some(candidate)
}
