//! Walks over operators, shared by plans that run the same.

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};

use crate::predict::{Job, OperatorWalk, StepTimeline};

/// Walks that were made last, looked through for the next plan.
const LOOKED_AT: usize = 32;

/// Walks of plans, one for each set of operators, each way to recompute and each way to keep gradients.
#[derive(Default)]
pub(super) struct WalkCache(RwLock<Vec<Arc<OperatorWalk>>>);

impl WalkCache {
    /// The walk that serves `job`: one of those made last, or its own.
    pub(super) fn of(&self, job: &Job) -> Arc<OperatorWalk> {
        let find = |walks: &Vec<Arc<OperatorWalk>>| {
            walks.iter().rev().take(LOOKED_AT).find(|walked| walked.serves(job)).cloned()
        };
        let known = self.0.read().ok().and_then(|walks| find(&walks));
        known.unwrap_or_else(|| {
            let walked = Arc::new(OperatorWalk::of(job));
            if let Ok(mut walks) = self.0.write() {
                if walks.len() >= 2 * LOOKED_AT {
                    walks.drain(..LOOKED_AT);
                }
                walks.push(Arc::clone(&walked));
            }
            walked
        })
    }

    /// How many walks are held.
    fn len(&self) -> usize {
        self.0.read().map_or(0, |walks| walks.len())
    }

    /// Lets go of all walks.
    fn clear(&self) {
        if let Ok(mut walks) = self.0.write() {
            *walks = Vec::new();
        }
    }

    /// The walk that serves `job`, and the course of its step.
    pub(super) fn timed(&self, job: &Job) -> (Arc<OperatorWalk>, StepTimeline) {
        let walked = self.of(job);
        let timeline = walked.timeline(job);
        (walked, timeline)
    }
}

/// Walks of all caches that a search keeps: of a mixture of experts each takes some megabytes.
const MOST: usize = 256;

/// Caches of walks, those that were used last at the end.
#[derive(Default)]
pub(super) struct HeldWalks(VecDeque<Arc<WalkCache>>);

impl HeldWalks {
    /// Lets go of what was not used for longest, now that `caches` were.
    pub(super) fn used<'a>(&mut self, caches: impl Iterator<Item = &'a Arc<WalkCache>>) {
        for cache in caches.filter(|cache| cache.len() > 0) {
            self.0.retain(|held| !Arc::ptr_eq(held, cache));
            self.0.push_back(Arc::clone(cache));
        }
        let mut walks: usize = self.0.iter().map(|held| held.len()).sum();
        while walks > MOST
            && let Some(oldest) = self.0.pop_front()
        {
            walks -= oldest.len();
            oldest.clear();
        }
    }
}
