//! What holds a plan back: findings by severity, each with the changes that would help.

use super::fixes::{Fix, fixes};
use crate::catalog::Catalog;
use crate::plan::Plan;
use crate::plan::keywords::{Attention, Mode, Optimizer, Sharding};
use crate::predict::{Bound, Component, Job, Outline, Prediction, Verdict, outline};
use crate::units::{Bytes, Fraction};

/// Fixes that a finding tells.
const MOST_FIXES: usize = 4;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The run cannot start.
    Critical,
    /// It may fail, or a large part of its time is lost.
    High,
    /// A part of its time or memory is lost.
    Medium,
    /// Good to know.
    Low,
}

impl Severity {
    /// The word in the report.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// One thing that holds a plan back.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is, as a word for scripts.
    pub kind: &'static str,
    /// What was found, with its figures.
    pub message: String,
    /// What would help, cheapest first.
    pub fixes: Vec<Fix>,
}

/// What was found, and what it was measured against.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// The plan's own figures.
    pub outline: Outline,
    /// Gravest first.
    pub findings: Vec<Finding>,
}

impl Advice {
    /// The first of the changes, cheapest first, that makes a plan fit which does not.
    #[must_use]
    pub fn remedy(&self) -> Option<&Fix> {
        let unfit = self.findings.iter().find(|finding| finding.kind == "does_not_fit")?;
        unfit.fixes.iter().find(|fix| fix.fits)
    }
}

/// Looks for everything that holds `plan` back; `job` and `prediction` are what it comes to. Some forty changed plans
/// are predicted: a few milliseconds.
#[must_use]
pub fn advise(plan: &Plan, job: &Job, prediction: &Prediction, catalog: &Catalog) -> Advice {
    let own = outline(job);
    let look = Look { job, prediction, fixes: fixes(plan, job, &own, catalog) };
    let mut findings: Vec<Finding> = [
        look.capacity(),
        look.bubble(),
        look.communication(),
        look.memory_bound(),
        look.attention(),
        look.recomputation(),
        look.replicated(),
        look.sharding_costs(),
        look.idle_capacity(),
        look.fragmentation(),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by_key(|finding| finding.severity);
    Advice { outline: own, findings }
}

struct Look<'a> {
    job: &'a Job,
    prediction: &'a Prediction,
    fixes: Vec<Fix>,
}

impl Look<'_> {
    fn share(&self, seconds: f64) -> f64 {
        seconds / self.prediction.time.step.0
    }

    /// Changes that are faster and fit, the fastest first.
    fn faster(&self, which: impl Fn(&Fix) -> bool) -> Vec<Fix> {
        let mut found: Vec<Fix> =
            self.fixes.iter().filter(|fix| fix.fits && fix.speed > 0.005 && which(fix)).cloned().collect();
        found.sort_by(|a, b| b.speed.total_cmp(&a.speed));
        found.truncate(MOST_FIXES);
        found
    }

    /// Changes that need less, cheapest first: those that are enough, or else the largest.
    fn smaller(&self) -> Vec<Fix> {
        let less: Vec<&Fix> = self.fixes.iter().filter(|fix| fix.memory.is_negative()).collect();
        let mut enough: Vec<Fix> = less.iter().filter(|fix| fix.fits).map(|fix| (*fix).clone()).collect();
        if enough.is_empty() {
            let mut largest: Vec<Fix> = less.into_iter().cloned().collect();
            largest.sort_by_key(|fix| fix.memory);
            enough = largest;
        }
        enough.truncate(MOST_FIXES);
        enough
    }

    fn capacity(&self) -> Option<Finding> {
        let capacity = self.prediction.capacity;
        let left = capacity.bytes - capacity.needed;
        let (severity, kind, message) = match capacity.verdict() {
            Verdict::Fits => return None,
            Verdict::Tight => (
                Severity::High,
                "tight",
                format!("only {} of {} are left on each GPU", left.magnitude(), capacity.bytes),
            ),
            Verdict::DoesNotFit => (
                Severity::Critical,
                "does_not_fit",
                format!("{} are needed of {}: {} too much", capacity.needed, capacity.bytes, left.magnitude()),
            ),
        };
        Some(Finding { severity, kind, message, fixes: self.smaller() })
    }

    fn bubble(&self) -> Option<Finding> {
        let time = &self.prediction.time;
        let share = self.share(time.bubble.0);
        let severity = graded(share, 0.2, 0.1)?;
        let message = format!(
            "pipeline stages wait {} of the step ({}): {} stages for {} micro-batches",
            Fraction(share),
            time.bubble,
            self.job.degrees.pipeline,
            self.job.batch.accumulation
        );
        let fixes = self.faster(|fix| fix.outline.time.bubble < time.bubble);
        Some(Finding { severity, kind: "pipeline_bubble", message, fixes })
    }

    fn communication(&self) -> Option<Finding> {
        let time = &self.prediction.time;
        let share = self.share(time.communication.0);
        let severity = graded(share, 0.3, 0.1)?;
        let message =
            format!("collectives that nothing hides take {} of the step ({})", Fraction(share), time.communication);
        let fixes = self.faster(|fix| fix.outline.time.communication < time.communication);
        Some(Finding { severity, kind: "exposed_communication", message, fixes })
    }

    fn memory_bound(&self) -> Option<Finding> {
        let time = &self.prediction.time;
        let kernels = time.compute.0 + time.memory_bound.0;
        let share = if kernels > 0.0 { time.memory_bound.0 / kernels } else { return None };
        let severity = graded(share, 0.5, 0.25)?;
        let worst = self.prediction.roofline.ops.iter().find(|op| op.bound == Bound::Memory)?;
        let message = format!(
            "operators bound by DRAM take {} of the kernels' time ({}), most of all {} ({})",
            Fraction(share),
            time.memory_bound,
            worst.name,
            worst.seconds
        );
        let fixes = self.faster(|fix| fix.outline.time.memory_bound < time.memory_bound);
        Some(Finding { severity, kind: "memory_bound", message, fixes })
    }

    /// Scores written out.
    fn attention(&self) -> Option<Finding> {
        if self.job.training.attention == Attention::Flash {
            return None;
        }
        let fix = self.fixes.iter().find(|fix| fix.name == "fused attention")?;
        let worth = fix.speed > 0.02 || fix.memory.is_negative();
        let message = format!("attention ({}) writes its scores to memory", self.job.training.attention);
        worth.then(|| Finding {
            severity: Severity::Medium,
            kind: "attention_traffic",
            message,
            fixes: vec![fix.clone()],
        })
    }

    /// Recomputation that the card has room to do without.
    fn recomputation(&self) -> Option<Finding> {
        let flops = self.prediction.flops;
        let own = flops.forward.0 + flops.backward.0 - flops.recompute.0;
        let share = flops.recompute.0 / own;
        let fixes = self.faster(|fix| fix.name.starts_with("checkpointing"));
        // Not a number where there are no operations.
        if share.is_nan() || share <= 0.02 || fixes.is_empty() {
            return None;
        }
        let message = format!(
            "{} of the operations are done twice, and the card has room to keep their results",
            Fraction(share)
        );
        Some(Finding { severity: Severity::Medium, kind: "needless_recomputation", message, fixes })
    }

    /// Every replica holds all optimizer states.
    fn replicated(&self) -> Option<Finding> {
        let degrees = &self.job.degrees;
        let states = self.prediction.largest().component(Component::OptimizerStates);
        let alone = degrees.data * degrees.context < 2 || degrees.sharding != Sharding::None;
        if alone || self.job.training.mode == Mode::Inference || matches!(self.job.training.optimizer, Optimizer::Sgd) {
            return None;
        }
        let fixes: Vec<Fix> = self
            .fixes
            .iter()
            .filter(|fix| fix.name.starts_with("sharding") && fix.memory.is_negative())
            .cloned()
            .collect();
        let share = states.share_of(self.prediction.capacity.bytes)?;
        if share.0 < 0.05 || fixes.is_empty() {
            return None;
        }
        let message =
            format!("each of {} replicas holds all optimizer states ({states})", degrees.data * degrees.context);
        Some(Finding { severity: Severity::Medium, kind: "replicated_states", message, fixes })
    }

    /// Sharding that needs more than it saves.
    fn sharding_costs(&self) -> Option<Finding> {
        let now = self.job.degrees.sharding;
        let less = |fix: &&Fix| {
            let to =
                fix.change.set.iter().find(|(key, _)| *key == "distribution.sharding").map(|(_, value)| value.as_str());
            let weaker = Sharding::ALL.iter().any(|one| Some(one.name()) == to && (*one as u8) < now as u8);
            weaker && fix.fits && fix.memory.is_negative()
        };
        let fixes: Vec<Fix> = self.fixes.iter().filter(less).cloned().collect();
        let message = format!("{now} needs more memory than it saves: buffers of whole layers outweigh the shares");
        if fixes.is_empty() {
            return None;
        }
        Some(Finding { severity: Severity::Medium, kind: "sharding_costs_memory", message, fixes })
    }

    /// A larger micro batch would fit and be faster.
    fn idle_capacity(&self) -> Option<Finding> {
        let capacity = self.prediction.capacity;
        let left: Bytes = capacity.bytes.saturating_sub(capacity.needed);
        let share = left.share_of(capacity.bytes)?;
        if share.0 < 0.2 {
            return None;
        }
        let fixes = self.faster(|fix| fix.memory.0 > 0);
        let severity = match fixes.first() {
            Some(fix) if fix.speed > 0.1 => Severity::Medium,
            Some(_) => Severity::Low,
            None => return None,
        };
        let message = format!("{left} of each GPU lie idle ({share}), and there are faster plans that use them");
        Some(Finding { severity, kind: "idle_capacity", message, fixes })
    }

    /// Reserved far beyond allocated.
    fn fragmentation(&self) -> Option<Finding> {
        let stage = self.prediction.largest();
        let beyond = stage.peak_reserved.saturating_sub(stage.peak_allocated);
        let share = beyond.share_of(stage.peak_reserved)?;
        let message = format!("the allocator holds {beyond} ({share}) beyond what is in tensors");
        (share.0 > 0.15).then(|| Finding { severity: Severity::Low, kind: "fragmentation", message, fixes: Vec::new() })
    }
}

fn graded(share: f64, high: f64, medium: f64) -> Option<Severity> {
    if share >= high { Some(Severity::High) } else { (share >= medium).then_some(Severity::Medium) }
}
