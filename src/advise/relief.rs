//! Changes that make a plan need less memory, each by its own prediction.

use std::path::Path;

use super::follow::give_way;
use crate::catalog::Catalog;
use crate::plan::{Change, Overlay, Plan};
use crate::predict::{Job, predict};
use crate::units::{Bytes, Seconds};

/// A change and what it would do.
#[derive(Debug, Clone, PartialEq)]
pub struct Relief {
    /// The change in keys and values.
    pub change: Change,
    /// Reserved bytes less than the plan's, at the peak of the stage that needs most.
    pub saves: Bytes,
    /// The step's time with it.
    pub step: Seconds,
}

/// Less is not worth a change.
const LEAST: f64 = 0.01;

/// Changes of a plan by which it needs less memory, the most first. The batch of an optimizer step stays.
#[must_use]
pub fn relief(plan: &Plan, catalog: &Catalog) -> Vec<Relief> {
    let Ok(job) = Job::resolve(plan, catalog) else { return Vec::new() };
    let now = predict(&job).largest().peak_reserved;
    let mut found: Vec<Relief> =
        candidates(&job).into_iter().filter_map(|change| tried(plan, change, now, catalog)).collect();
    found.retain(|relief| relief.saves.as_f64() >= LEAST * now.as_f64());
    found.sort_by_key(|relief| std::cmp::Reverse(relief.saves));
    found
}

fn candidates(job: &Job) -> Vec<Change> {
    let mut changes = vec![
        Change::to("training.activation_checkpointing", "selective"),
        Change::to("training.activation_checkpointing", "full"),
        Change::to("training.attention", "flash"),
        Change::to("training.loss", "fused"),
        Change::to("training.optimizer", "adamw-8bit"),
        Change::to("training.cpu_offload", "optimizer"),
    ];
    if job.batch.micro > 1 {
        changes.push(Change::to("training.micro_batch_size", (job.batch.micro / 2).to_string()));
    }
    if job.degrees.data > 1 {
        changes.extend(["zero1", "zero2", "zero3"].map(|stage| Change::to("distribution.sharding", stage)));
    }
    changes
}

fn tried(plan: &Plan, change: Change, now: Bytes, catalog: &Catalog) -> Option<Relief> {
    let mut changed = plan.clone();
    let keys: Vec<&str> = change.set.iter().map(|(key, _)| *key).collect();
    for key in give_way(plan, &keys) {
        changed.clear(key);
    }
    Overlay::read(&change, Path::new("")).ok()?.apply(&mut changed);
    let prediction = predict(&Job::resolve(&changed, catalog).ok()?);
    let saves = now.saturating_sub(prediction.largest().peak_reserved);
    Some(Relief { change, saves, step: prediction.time.step })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{EXAMPLES, Loaded};

    #[test]
    fn every_change_saves_what_its_own_prediction_says() {
        let catalog = Catalog::embedded().unwrap();
        let (name, text) = EXAMPLES.iter().find(|(name, _)| *name == "13b_long_sequence").unwrap();
        let loaded = Loaded::from_text(name, text).unwrap();
        let peak = |plan: &Plan| predict(&Job::resolve(plan, &catalog).unwrap()).largest().peak_reserved;
        let found = relief(&loaded.plan, &catalog);
        assert!(!found.is_empty());
        assert!(found.windows(2).all(|pair| pair[0].saves >= pair[1].saves));
        for relief in found {
            let document = loaded.document.changed(&relief.change).unwrap();
            let Ok(plan) = loaded.plan_of(&document) else { continue };
            assert_eq!(peak(&loaded.plan).saturating_sub(peak(&plan)), relief.saves, "{:?}", relief.change);
        }
    }
}
