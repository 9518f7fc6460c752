//! How far a piece of work is, told to whoever waits for it.

use std::sync::atomic::{AtomicUsize, Ordering};

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
