//! One kind of operator of a plan: what it costs, why, and what would help.

use rayon::prelude::*;

use super::findings::{Finding, LESS, MOST_FIXES, Severity, WORTH};
use super::fixes::{Candidate, Fix, FixKind, candidates, changed, effect};
use crate::catalog::Catalog;
use crate::order::StableOrder;
use crate::plan::Plan;
use crate::predict::{Bound, Job, Outline, Prediction, RooflineOp, Verdict, outline, outline_with_roofline};
use crate::units::{Fraction, Seconds, three_figures};

/// What each of the operators of those names costs a step of `plan`, why, and the changes by which its time shrinks,
/// each with the time that it leaves the operator for the same samples. `job` and `prediction` are what the plan comes
/// to. Some forty changed plans are predicted.
#[must_use]
pub fn operators(plan: &Plan, job: &Job, prediction: &Prediction, names: &[&str], catalog: &Catalog) -> Vec<Finding> {
    let before = outline(job);
    let changed: Vec<ChangedPlan> = candidates(plan, job)
        .into_par_iter()
        .filter(|one| one.kind != FixKind::Link)
        .filter_map(|one| ChangedPlan::of(plan, &before, catalog, one))
        .collect();
    let ops = &prediction.roofline.ops;
    let wanted = names.iter().filter_map(|name| ops.iter().find(|op| op.name == *name));
    let about = |op: &RooflineOp| Finding {
        severity: if share(prediction, op).0 >= 0.1 { Severity::Medium } else { Severity::Low },
        kind: "operator",
        message: format!("{}: {}; {}", op.name, cost(prediction, op), why(job, prediction, op)),
        fixes: helping(&changed, job, &before, op),
    };
    wanted.map(about).collect()
}

/// A changed plan with the time of each of its operators.
struct ChangedPlan {
    fix: Fix,
    /// Samples of a step.
    batch: u64,
    ops: Vec<RooflineOp>,
}

impl ChangedPlan {
    fn of(plan: &Plan, before: &Outline, catalog: &Catalog, mut candidate: Candidate) -> Option<Self> {
        let job = changed(plan, catalog, &mut candidate.change)?;
        let (outline, roofline) = outline_with_roofline(&job);
        Some(Self { fix: effect(candidate, before, outline)?, batch: job.batch.global, ops: roofline.ops })
    }

    /// What the operator takes for `batch` samples: nothing where the changed plan runs none of it.
    fn seconds(&self, name: &str, batch: u64) -> Seconds {
        let own = self.ops.iter().find(|op| op.name == name).map_or(0.0, |op| op.seconds.0);
        Seconds(own * batch as f64 / self.batch as f64)
    }
}

/// Changes that fit, quicken the step and take at least a tenth off the operator; what learns otherwise only where
/// nothing else does.
fn helping(changed: &[ChangedPlan], job: &Job, before: &Outline, op: &RooflineOp) -> Vec<Fix> {
    let unfit = before.capacity.verdict() == Verdict::DoesNotFit;
    let helps = |one: &&ChangedPlan| {
        let room = one.fix.fits || (unfit && one.fix.memory.0 <= 0);
        let less = one.seconds(&op.name, job.batch.global).0 < LESS * op.seconds.0;
        room && one.fix.speed >= WORTH && less
    };
    let named = |one: &ChangedPlan| {
        let after = one.seconds(&op.name, job.batch.global);
        let after = if after.0 > 0.0 { after.to_string() } else { "none".to_owned() };
        Fix { name: format!("{}: {} → {after}", one.fix.name, op.seconds), ..one.fix.clone() }
    };
    let of = |same: bool| {
        let kind = |one: &&ChangedPlan| (one.fix.kind != FixKind::Other) == same;
        let mut found: Vec<Fix> = changed.iter().filter(kind).filter(helps).map(named).collect();
        found.order_by(|a, b| b.speed.total_cmp(&a.speed));
        found.truncate(MOST_FIXES);
        found
    };
    let same = of(true);
    if same.is_empty() { of(false) } else { same }
}

fn share(prediction: &Prediction, op: &RooflineOp) -> Fraction {
    let all: f64 = prediction.roofline.ops.iter().map(|op| op.seconds.0).sum();
    Fraction(if all > 0.0 { op.seconds.0 / all } else { 0.0 })
}

fn cost(prediction: &Prediction, op: &RooflineOp) -> String {
    let each = Seconds(op.seconds.0 / op.count.max(1) as f64);
    let share = share(prediction, op);
    format!("{} a step ({share} of the kernels' time) in {} runs of {each}", op.seconds, op.count)
}

/// What binds it, and whether it is over before the host has launched the next.
fn why(job: &Job, prediction: &Prediction, op: &RooflineOp) -> String {
    let roofline = &prediction.roofline;
    let reached = Fraction(roofline.reached(op));
    let intensity = op.intensity.map_or_else(|| "–".to_owned(), |intensity| three_figures(intensity.0));
    let ridge = three_figures(op.peak.ridge(roofline.bandwidth).0);
    let bound = match op.bound {
        Bound::Memory => {
            format!("memory-bound: {intensity} FLOP/B under a ridge of {ridge}, {reached} of the DRAM roof")
        }
        Bound::Compute => format!("compute-bound: {intensity} FLOP/B over a ridge of {ridge}, {reached} of the peak"),
        Bound::SmallKernel => format!("small kernel: size and shape let it reach {reached} of its roof"),
    };
    let each = op.seconds.0 / op.count.max(1) as f64;
    let launch = job.speed.stack.host_us * 1e-6;
    if prediction.time.launch.0 > 0.0 && each < launch {
        return format!(
            "waiting: the host takes {} to launch what runs for {}; {bound}",
            Seconds(launch),
            Seconds(each)
        );
    }
    bound
}
