//! How far a search is, and how it is stopped: shared between whoever searches and whoever watches.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state of a search under way. Share it by reference or in an `Arc`.
#[derive(Debug, Default)]
pub struct SearchProgress {
    cancelled: AtomicBool,
    evaluated: AtomicU64,
    pruned: AtomicU64,
    groups_done: AtomicU64,
    groups: AtomicU64,
    best: Mutex<Option<f64>>,
}

/// What a progress says at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchStatus {
    /// Plans whose figures were computed.
    pub evaluated: u64,
    /// Plans that were ruled out without.
    pub pruned: u64,
    /// The share of the work that is done, 0 to 1.
    pub share: f64,
    /// Throughput of the best plan so far that fits.
    pub best: Option<f64>,
}

impl SearchProgress {
    /// Asks the search to end; what it has found by then is its result.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to end.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// How far it is.
    #[must_use]
    pub fn seen(&self) -> SearchStatus {
        let groups = self.groups.load(Ordering::Relaxed);
        let done = self.groups_done.load(Ordering::Relaxed);
        SearchStatus {
            evaluated: self.evaluated.load(Ordering::Relaxed),
            pruned: self.pruned.load(Ordering::Relaxed),
            share: if groups == 0 { 0.0 } else { done as f64 / groups as f64 },
            best: self.best.lock().map_or(None, |best| *best),
        }
    }

    pub(super) fn begin(&self, groups: usize) {
        self.groups.store(groups as u64, Ordering::Relaxed);
    }

    /// A group is through.
    pub(super) fn advance(&self, evaluated: u64, pruned: u64, best: Option<f64>) {
        self.evaluated.fetch_add(evaluated, Ordering::Relaxed);
        self.pruned.fetch_add(pruned, Ordering::Relaxed);
        self.groups_done.fetch_add(1, Ordering::Relaxed);
        if let (Some(rate), Ok(mut known)) = (best, self.best.lock()) {
            *known = Some(known.map_or(rate, |known| known.max(rate)));
        }
    }
}
