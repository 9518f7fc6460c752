//! Changes that may help a plan, cheapest first, each with its effect computed by predicting the changed plan.

mod candidates;
mod degrees;
mod together;

use std::cmp::Reverse;

use rayon::prelude::*;

use super::follow::give_way;
use super::walk_cache::WalkCache;
use super::walls::throughput;
use crate::catalog::Catalog;
use crate::order::StableOrder;
use crate::plan::{Change, Plan, PlanOverlay};
use crate::predict::{Job, Outline, Verdict, outline};
use crate::units::{Bytes, SignedBytes, three_figures};
pub use candidates::FixKind;
pub(super) use candidates::{Candidate, candidates};
use degrees::candidates_of_unfit;
pub(super) use together::together;

/// A change with its effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Fix {
    /// What it is, in a few words.
    pub name: String,
    /// What sort of change it is.
    pub kind: FixKind,
    /// What it changes in the plan's text.
    pub change: Change,
    /// The figures of the changed plan.
    pub outline: Outline,
    /// Against the plan as it is.
    pub memory: SignedBytes,
    /// Throughput of the changed plan over that of the plan as it is, less 1.
    pub speed: f64,
    /// The changed plan fits.
    pub fits: bool,
}

impl Fix {
    /// What a GPU needs less: nothing where it needs more.
    #[must_use]
    pub fn saves(&self) -> Bytes {
        if self.memory.is_negative() { self.memory.magnitude() } else { Bytes::ZERO }
    }

    /// What it costs, for an order by it: time lost in percent, where under one counts as nothing; then the effort; then
    /// what is saved, the most first. Learning or answering otherwise counts as a step that takes twice as long: slower
    /// training of the same comes before it, training several times slower behind it.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub fn cost(&self) -> (i64, u8, Reverse<i128>) {
        const OTHERWISE: f64 = 100.0;
        let lost = (100.0 * (1.0 / (1.0 + self.speed) - 1.0)).max(0.0);
        let lost = if self.kind == FixKind::Other { lost + OTHERWISE } else { lost };
        // What is no number is worse than any.
        let lost = if lost.is_finite() { lost.round() as i64 } else { i64::MAX };
        (lost, self.kind.effort(), Reverse(-self.memory.0))
    }

    /// Name and effect in a line: `checkpointing full: -41.0 GiB, 24 % more time; fits`.
    #[must_use]
    pub fn line(&self, before: &Outline) -> String {
        // Half as fast takes twice as long: what the same samples take is what people compare.
        let time = 100.0 * (1.0 / (1.0 + self.speed) - 1.0);
        let speed = if time.abs() < 0.5 {
            "as fast".to_owned()
        } else if time > 0.0 {
            format!("{} % more time", three_figures(time))
        } else {
            format!("{} % less time", three_figures(-time))
        };
        let fits = match (before.capacity.verdict(), self.outline.capacity.verdict()) {
            (Verdict::DoesNotFit, Verdict::Fits) => "; fits",
            (Verdict::DoesNotFit, Verdict::Tight) => "; fits, tight",
            (Verdict::DoesNotFit, Verdict::DoesNotFit) => "; does not fit yet",
            (_, Verdict::DoesNotFit) => "; does not fit any more",
            _ => "",
        };
        format!("{}: {}, {speed}{fits}", self.name, self.memory)
    }
}

/// Every change that is possible and does something, cheapest first: what costs nothing before what costs time,
/// what costs time before what costs GPUs' links, and last what trains or answers otherwise.
#[must_use]
pub fn fixes(plan: &Plan, job: &Job, before: &Outline, catalog: &Catalog) -> Vec<Fix> {
    let trials = Trials { plan, before, catalog, walks: WalkCache::default() };
    let unfit = before.capacity.verdict() == Verdict::DoesNotFit;
    let possible = if unfit { candidates_of_unfit(plan, job) } else { candidates(plan, job) };
    possible.into_par_iter().filter_map(|one| trials.fix(one)).collect()
}

/// Changes tried on a plan; those that run the same operators share the walk over them.
pub(super) struct Trials<'a> {
    plan: &'a Plan,
    before: &'a Outline,
    catalog: &'a Catalog,
    walks: WalkCache,
}

impl Trials<'_> {
    fn fix(&self, mut candidate: Candidate) -> Option<Fix> {
        let job = changed(self.plan, self.catalog, &mut candidate.change)?;
        let (walked, timeline) = self.walks.timed(&job);
        effect(candidate, self.before, walked.outline(&job, &timeline))
    }
}

/// Less of what a plan needs is not worth a change.
const LEAST: f64 = 0.01;

/// Changes by which `plan` needs less memory, the cheapest first. Batch, sequence and what is learned stay as they are.
#[must_use]
pub fn savings(plan: &Plan, catalog: &Catalog) -> Vec<Fix> {
    let Ok(job) = Job::resolve(plan, catalog) else { return Vec::new() };
    let before = outline(&job);
    let mut found = fixes(plan, &job, &before, catalog);
    found.retain(|fix| fix.kind != FixKind::Other && fix.saves().as_f64() >= LEAST * before.capacity.needed.as_f64());
    found.order_by_key(Fix::cost);
    found
}

/// What `plan` comes to with a change, which is told what gives way to it.
pub(super) fn changed(plan: &Plan, catalog: &Catalog, change: &mut Change) -> Option<Job> {
    let keys: Vec<&str> = change.set.iter().map(|(key, _)| *key).collect();
    let gone = give_way(plan, &keys);
    change.remove.extend(gone);
    let mut changed = plan.clone();
    PlanOverlay::read(change, std::path::Path::new("")).ok()?.apply(&mut changed);
    Job::resolve(&changed, catalog).ok()
}

/// A change with its effect; none where it does nothing.
pub(super) fn effect(candidate: Candidate, before: &Outline, outline: Outline) -> Option<Fix> {
    let Candidate { name, kind, change } = candidate;
    let memory = outline.capacity.needed - before.capacity.needed;
    let speed = throughput(&outline) / throughput(before) - 1.0;
    let nothing = memory.magnitude().as_f64() < 1e-3 * before.capacity.needed.as_f64() && speed.abs() < 1e-3;
    let fits = outline.capacity.needed <= outline.capacity.bytes;
    (!nothing).then_some(Fix { name, kind, change, outline, memory, speed, fits })
}
