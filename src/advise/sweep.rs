//! Sweeps: the plan with every value of a key, or of several.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::axis::{Axis, MOST_POINTS};
use super::follow::{give_way, link_gives_way};
use super::walk_cache::WalkCache;
use super::walls::{AxisWalls, walls};
use crate::catalog::Catalog;
use crate::plan::{Fault, Plan};
use crate::predict::{Breakdown, Job, Outline};

/// Why a combination of values is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPlan(Vec<Fault>);

impl fmt::Display for NoPlan {
    /// The first fault says enough for a row; many name their key themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(fault) if fault.message.contains(&fault.key) => f.write_str(&fault.message),
            Some(fault) => fault.fmt(f),
            None => Ok(()),
        }
    }
}

/// One plan of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPoint {
    /// Which value of each axis it has.
    pub at: Vec<usize>,
    /// The link that its GPU takes in place of the plan's, which it does not have.
    pub link: Option<String>,
    /// Its figures, or why there is no such plan.
    pub outcome: Result<Outline, NoPlan>,
    /// What its memory and traffic are for; none where there is no plan.
    pub breakdown: Option<Breakdown>,
}

/// All of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What varies.
    pub axes: Vec<Axis>,
    /// Every combination, the last axis changing fastest.
    pub points: Vec<SweepPoint>,
    /// Where memory ends and throughput flattens, along each axis of numbers.
    pub walls: Vec<AxisWalls>,
}

impl Sweep {
    /// The value of axis `axis` at `point`.
    #[must_use]
    pub fn value(&self, point: &SweepPoint, axis: usize) -> &str {
        &self.axes[axis].values[point.at[axis]]
    }
}

/// Predicts `plan` with every combination of values. Keys that cannot stand beside a varied one are derived: the
/// replicas when another degree varies, the accumulation when the batch does.
///
/// # Errors
/// Where there are too many combinations, or a key varies twice or has no effect beside one that the plan has.
pub fn sweep(plan: &Plan, axes: Vec<Axis>, catalog: &Catalog) -> Result<Sweep, Fault> {
    sweep_counted(plan, axes, catalog, &ProgressCounter::default())
}

/// As [`sweep`], and counts the predictions that are done.
///
/// # Errors
/// As [`sweep`].
pub fn sweep_counted(
    plan: &Plan,
    axes: Vec<Axis>,
    catalog: &Catalog,
    counter: &ProgressCounter,
) -> Result<Sweep, Fault> {
    let varied: Vec<&str> = axes.iter().map(|axis| axis.key.path).collect();
    for (at, axis) in axes.iter().enumerate() {
        refuse(plan, axis, &varied[..at])?;
    }
    let count = axes.iter().try_fold(1_usize, |all, axis| all.checked_mul(axis.values.len()));
    let Some(count) = count.filter(|count| *count <= MOST_POINTS) else {
        let each: Vec<_> = axes.iter().map(|axis| format!("{} ({})", axis.key.path, axis.values.len())).collect();
        return Err(Fault::of(each.join(" x "), format!("more than {MOST_POINTS} combinations")));
    };
    let mut base = plan.clone();
    for key in give_way(plan, &varied) {
        base.clear(key);
    }
    let walks = WalkCache::default();
    counter.begin(count);
    let one = |index| {
        let point = point(&base, &axes, index, (catalog, &walks));
        counter.advance();
        point
    };
    let points: Vec<SweepPoint> = (0..count).into_par_iter().map(one).collect();
    let walls = walls(&axes, &points);
    Ok(Sweep { axes, points, walls })
}

fn refuse(plan: &Plan, axis: &Axis, before: &[&str]) -> Result<(), Fault> {
    let key = axis.key.path;
    if before.contains(&key) {
        return Err(Fault::of(key, "varies twice"));
    }
    let model = &plan.model;
    let named = if model.hf_config.is_some() { "hf_config" } else { "preset" };
    if key.starts_with("model.architecture.") && (model.hf_config.is_some() || model.preset.is_some()) {
        return Err(Fault::of(key, format!("has no effect beside model.{named}, which the plan gives")));
    }
    Ok(())
}

fn point(base: &Plan, axes: &[Axis], index: usize, (catalog, walks): (&Catalog, &WalkCache)) -> SweepPoint {
    let mut rest = index;
    let mut at = vec![0; axes.len()];
    for (place, axis) in at.iter_mut().zip(axes).rev() {
        *place = rest % axis.values.len();
        rest /= axis.values.len();
    }
    let mut plan = base.clone();
    for (axis, value) in axes.iter().zip(&at) {
        axis.overlay(*value).apply(&mut plan);
    }
    let varies = |key| axes.iter().any(|axis| axis.key.path == key);
    let other_gpu = varies("hardware.gpu_type") && !varies("cluster.interconnect");
    let link = if other_gpu { link_gives_way(&mut plan, catalog) } else { None };
    let outcome = Job::resolve(&plan, catalog).map_err(NoPlan);
    let figures = outcome.map(|job| {
        let (walked, timeline) = walks.timed(&job);
        walked.breakdown(&job, &timeline)
    });
    let (outcome, breakdown) = match figures {
        Ok((outline, breakdown)) => (Ok(outline), Some(breakdown)),
        Err(reason) => (Err(reason), None),
    };
    SweepPoint { at, link, outcome, breakdown }
}

/// Counts predictions that are done, from all threads that make them.
#[derive(Debug, Default)]
pub struct ProgressCounter {
    of: AtomicUsize,
    done: AtomicUsize,
}

impl ProgressCounter {
    /// So many there will be.
    pub fn begin(&self, of: usize) {
        self.of.store(of, Ordering::Relaxed);
    }

    /// One more is done.
    pub fn advance(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How many are done, and of how many.
    #[must_use]
    pub fn seen(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.of.load(Ordering::Relaxed))
    }
}
