//! What a step waits for: other stages, links, the host.

use super::findings::{Finding, LESS, Look, MOST_FIXES, Severity, WORTH, graded};
use super::fixes::{Fix, FixKind};
use crate::order::StableOrder;
use crate::predict::Verdict;
use crate::units::Fraction;

impl Look<'_> {
    pub(super) fn bubble(&self) -> Option<Finding> {
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
        // What quickens everything shortens the wait too, but leaves its share.
        let waits = |fix: &Fix| fix.outline.time.bubble.0 / fix.outline.time.step.0;
        let fixes = self.faster(|fix| fix.kind != FixKind::Precision && waits(fix) < share * LESS);
        Some(Finding { severity, kind: "pipeline_bubble", message, fixes })
    }

    pub(super) fn communication(&self) -> Option<Finding> {
        let time = &self.prediction.time;
        let share = self.share(time.communication.0);
        let severity = graded(share, 0.3, 0.1)?;
        let message = format!("exposed collectives take {} of the step ({})", Fraction(share), time.communication);
        let waits = |fix: &Fix| fix.outline.time.communication.0;
        let fixes = self.faster(|fix| fix.kind != FixKind::Precision && waits(fix) < time.communication.0 * LESS);
        Some(Finding { severity, kind: "exposed_communication", message, fixes })
    }

    /// A link that the plan says and its GPU does not have: what is predicted over it, no run reaches.
    pub(super) fn link(&self) -> Option<Finding> {
        let (_, missing) = self.prediction.lacking().find(|(key, _)| *key == "cluster.interconnect")?;
        let fixes: Vec<Fix> = self.fixes.iter().filter(|fix| fix.kind == FixKind::Link).cloned().collect();
        let over = |fix: &Fix| {
            format!(", over which a step takes {}, not {}", fix.outline.time.step, self.prediction.time.step)
        };
        let message = format!("{missing}{}", fixes.first().map(over).unwrap_or_default());
        Some(Finding { severity: Severity::High, kind: "link_not_on_gpu", message, fixes })
    }

    /// Tensor-parallel ranks that talk over the network, several times a layer.
    pub(super) fn across_nodes(&self) -> Option<Finding> {
        let (tensor, node) = (self.job.degrees.tensor, self.job.hardware.node_gpus);
        if tensor <= node {
            return None;
        }
        let unfit = self.prediction.capacity.verdict() == Verdict::DoesNotFit;
        let within = |fix: &&Fix| {
            (fix.fits || unfit) && fix.speed >= WORTH && sets(fix, "distribution.tensor_parallel", |to| to <= node)
        };
        let mut fixes: Vec<Fix> = self.fixes.iter().filter(within).cloned().collect();
        fixes.order_by(|a, b| b.fits.cmp(&a.fits).then(a.memory.cmp(&b.memory)));
        fixes.truncate(MOST_FIXES);
        let message =
            format!("tensor parallel {tensor} spans nodes of {node} GPUs: each layer's sums cross the network");
        Some(Finding { severity: Severity::High, kind: "tensor_across_nodes", message, fixes })
    }

    /// Kernels so short that the host cannot launch them as fast as the GPU ends them.
    pub(super) fn launches(&self) -> Option<Finding> {
        let time = &self.prediction.time;
        let share = self.share(time.launch.0);
        let severity = graded(share, 0.3, 0.1)?;
        let message = format!(
            "the GPU waits {} of the step ({}) for the host to launch its kernels",
            Fraction(share),
            time.launch
        );
        let waits = |fix: &Fix| fix.outline.time.launch.0;
        let mut fixes = self.faster(|fix| fix.kind != FixKind::Precision && waits(fix) < time.launch.0 * LESS);
        fixes.truncate(MOST_FIXES - 1);
        fixes.extend(self.more_samples());
        Some(Finding { severity, kind: "launches", message, fixes })
    }
}

/// Whether a fix gives a key a number that is right.
fn sets(fix: &Fix, key: &str, right: impl Fn(u64) -> bool) -> bool {
    let given = fix.change.set.iter().find(|(set, _)| *set == key);
    given.and_then(|(_, value)| value.parse().ok()).is_some_and(right)
}
