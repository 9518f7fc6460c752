//! What lies around the plan, found out on a thread of its own: keys do not wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::Sender;

use crate::app::{Event, LookAround, State};

/// What is being found out.
#[derive(Debug, Default)]
pub struct SurroundingsSearch {
    cancelled: Arc<AtomicBool>,
}

impl SurroundingsSearch {
    /// Finds out what was asked last instead, and tells.
    pub fn begin(&mut self, number: u64, state: &State, events: Sender<Event>) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.cancelled = Arc::default();
        let Some(question) = LookAround::of(state) else { return };
        let cancelled = Arc::clone(&self.cancelled);
        tokio::task::spawn_blocking(move || {
            if let Some(found) = question.answer(|| cancelled.load(Ordering::Relaxed)) {
                // A dashboard that has gone meanwhile needs no telling.
                drop(events.blocking_send(Event::LookedAround { number, found: Box::new(found) }));
            }
        });
    }
}
