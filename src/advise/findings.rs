//! What holds a plan back: findings by severity, each with the changes that would help.

use super::fixes::{Fix, FixKind, fixes, together};
use crate::catalog::Catalog;
use crate::order::StableOrder;
use crate::plan::Plan;
use crate::plan::keywords::{Mode, Optimizer, Sharding};
use crate::predict::{Bound, Component, Job, Outline, Prediction, Verdict, outline};
use crate::units::{Bytes, Fraction};

/// Fixes that a finding tells.
pub(super) const MOST_FIXES: usize = 4;
/// Less speed is not worth a change.
pub(super) const WORTH: f64 = 0.01;
/// A share of the step that a change takes at least a tenth off: less follows from other parts getting slower.
pub(super) const LESS: f64 = 0.9;

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
/// are predicted, and some hundreds where it takes several changes to fit: milliseconds.
#[must_use]
pub fn advise(plan: &Plan, job: &Job, prediction: &Prediction, catalog: &Catalog) -> Advice {
    let own = outline(job);
    let fixes = fixes(plan, job, &own, catalog);
    // Where one change is enough and learns the same, nobody needs several; but what goes to the host and back is slow.
    let alone = fixes.iter().any(|fix| fix.fits && !matches!(fix.kind, FixKind::Other | FixKind::Offload));
    let unfit = own.capacity.verdict() == Verdict::DoesNotFit;
    let together = if unfit && !alone { together(plan, job, &own, catalog) } else { Vec::new() };
    let look = Look { job, prediction, fixes, together };
    let mut findings: Vec<Finding> = [
        look.capacity(),
        look.link(),
        look.across_nodes(),
        look.bubble(),
        look.communication(),
        look.launches(),
        look.products(),
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
    findings.order_by_key(|finding| finding.severity);
    Advice { outline: own, findings }
}

pub(super) struct Look<'a> {
    pub(super) job: &'a Job,
    pub(super) prediction: &'a Prediction,
    pub(super) fixes: Vec<Fix>,
    /// Sets of changes, where no single one makes the plan fit.
    together: Vec<Fix>,
}

impl Look<'_> {
    pub(super) fn share(&self, seconds: f64) -> f64 {
        seconds / self.prediction.time.step.0
    }

    /// Changes that are faster, fit and learn the same, the fastest first.
    pub(super) fn faster(&self, which: impl Fn(&Fix) -> bool) -> Vec<Fix> {
        // A plan that does not fit yet is not held against a change that needs no more.
        let unfit = self.prediction.capacity.verdict() == Verdict::DoesNotFit;
        let fits = |fix: &&Fix| {
            let room = fix.fits || (unfit && fix.memory.0 <= 0);
            let same = !matches!(fix.kind, FixKind::Other | FixKind::Link);
            room && fix.speed >= WORTH && same && which(fix)
        };
        let mut found: Vec<Fix> = self.fixes.iter().filter(fits).cloned().collect();
        found.order_by(|a, b| b.speed.total_cmp(&a.speed));
        found.truncate(MOST_FIXES);
        found
    }

    /// The larger batch beyond which twice as many samples are hardly quicker, where one fits. It learns otherwise, so
    /// that it is only for plans that leave a GPU idle.
    pub(super) fn more_samples(&self) -> Option<Fix> {
        const HARDLY: f64 = 1.1;
        let sets = |fix: &Fix| fix.change.set.iter().any(|(key, _)| *key == "model.batch_size");
        let larger = self.fixes.iter().filter(|fix| fix.kind == FixKind::Other && sets(fix) && fix.fits);
        let larger: Vec<&Fix> = larger.filter(|fix| fix.speed >= WORTH).collect();
        let flat = larger.windows(2).find(|two| 1.0 + two[1].speed < HARDLY * (1.0 + two[0].speed));
        flat.map(|two| two[0]).or_else(|| larger.last().copied()).cloned()
    }

    /// Changes that need less, cheapest first: those that are enough alone or together, or else the largest.
    fn smaller(&self) -> Vec<Fix> {
        let less: Vec<&Fix> = self.fixes.iter().filter(|fix| fix.memory.is_negative()).collect();
        let mut enough: Vec<Fix> = self.together.clone();
        for fix in less.iter().filter(|fix| fix.fits) {
            // The batch in the largest pieces that fit; smaller ones would only take longer.
            let known = enough.iter().any(|known| known.change == fix.change);
            if known {
                continue;
            }
            if fix.kind != FixKind::Batch || enough.iter().all(|known| known.kind != FixKind::Batch) {
                enough.push((*fix).clone());
            }
        }
        if enough.is_empty() {
            enough = less.into_iter().cloned().collect();
            enough.order_by_key(|fix| fix.memory);
            enough.truncate(MOST_FIXES);
        }
        // Changes together are in the order in which they were looked for: those that train what the plan trains first.
        if self.together.is_empty() {
            enough.order_by_key(Fix::cost);
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

    /// Matrix multiplications that a narrower type would quicken.
    fn products(&self) -> Option<Finding> {
        let time = &self.prediction.time;
        let share = self.share(time.compute.0);
        let fixes = self.faster(|fix| fix.kind == FixKind::Precision);
        let unfit = self.prediction.capacity.verdict() == Verdict::DoesNotFit;
        if share < 0.5 || fixes.is_empty() || unfit {
            return None;
        }
        let message = format!(
            "matrix multiplications in {} take {} of the step ({})",
            self.prediction.roofline.peak_name,
            Fraction(share),
            time.compute
        );
        // Twice as fast and more: the wrong units compute.
        let severity = if fixes.iter().any(|fix| fix.speed >= 1.0) { Severity::High } else { Severity::Low };
        Some(Finding { severity, kind: "compute_bound", message, fixes })
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
        let moved = |fix: &Fix| fix.outline.time.memory_bound.0;
        let fixes = self.faster(|fix| fix.kind != FixKind::Precision && moved(fix) < time.memory_bound.0 * LESS);
        Some(Finding { severity, kind: "memory_bound", message, fixes })
    }

    /// Scores written out: their matrix grows with the square of the sequence.
    fn attention(&self) -> Option<Finding> {
        // The name of the multiplication that makes them (`model/decoder/attention.rs`): fused kernels have none.
        let scores = self.prediction.roofline.ops.iter().any(|op| op.name == "attention.scores");
        let decoder = self.job.decoder().filter(|_| scores)?;
        let (degrees, batch) = (&self.job.degrees, &self.job.batch);
        let heads = decoder.heads / degrees.tensor.max(1);
        let queries = batch.sequence / degrees.context.max(1);
        let each = self.job.storage.compute.bytes();
        let matrix =
            [batch.micro, heads, queries, batch.sequence, each].iter().fold(1_u64, |all, of| all.saturating_mul(*of));
        let message = format!(
            "attention ({}) writes its scores out: {heads} heads x {queries} queries x {} keys x {each} B x micro batch {} = {} \
             for each copy of a layer's matrix. It grows with the square of the sequence: twice the tokens, four times the \
             bytes; flash attention never writes it (arXiv 2205.14135)",
            self.job.training.attention,
            batch.sequence,
            batch.micro,
            Bytes(matrix)
        );
        let fix = self.fixes.iter().find(|fix| fix.name == "fused attention");
        Some(Finding {
            severity: Severity::Medium,
            kind: "attention_traffic",
            message,
            fixes: fix.into_iter().cloned().collect(),
        })
    }

    /// Recomputation that the GPU has room to do without.
    fn recomputation(&self) -> Option<Finding> {
        let flops = self.prediction.flops;
        let own = flops.forward.0 + flops.backward.0 - flops.recompute.0;
        let share = flops.recompute.0 / own;
        let fixes = self.faster(|fix| fix.kind == FixKind::Recomputation);
        // Not a number where there are no operations.
        if share.is_nan() || share <= 0.02 || fixes.is_empty() {
            return None;
        }
        let message =
            format!("{} of the operations are done twice, and the GPU has room to keep their results", Fraction(share));
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
            .filter(|fix| fix.kind == FixKind::Sharding && fix.memory.is_negative())
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
        let mut fixes = self.faster(|fix| fix.memory.0 > 0 && fix.kind != FixKind::Precision);
        if fixes.is_empty() {
            fixes.extend(self.more_samples());
        }
        let severity = match fixes.first() {
            Some(fix) if fix.speed > 0.1 => Severity::Medium,
            Some(_) => Severity::Low,
            None => return None,
        };
        let message = format!("{left} of each GPU are unused ({share}), and faster plans use them");
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

/// How grave it is that a share is lost.
pub(super) fn graded(share: f64, high: f64, medium: f64) -> Option<Severity> {
    if share >= high { Some(Severity::High) } else { (share >= medium).then_some(Severity::Medium) }
}
