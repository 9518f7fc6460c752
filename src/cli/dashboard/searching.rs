//! The search for plans, on threads of its own: keys do not wait for it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;

use crate::advise::SearchProgress;
use crate::app::{Event, SearchAnswer, SearchRequest, State};

/// Between two looks at how far a search is.
const LOOK: Duration = Duration::from_millis(150);

/// The search that is under way, if one is.
#[derive(Debug, Default)]
pub struct Search {
    progress: Arc<SearchProgress>,
}

impl Search {
    /// Searches for plans instead, and tells how far it is and what it has found so far.
    pub fn begin(&mut self, number: u64, state: &State, events: Sender<Event>) {
        self.cancel();
        self.progress = Arc::default();
        if let Some(request) = SearchRequest::of(state) {
            run(number, request, Arc::clone(&self.progress), events);
        }
    }

    /// Ends it; it tells what it has found by then.
    pub fn cancel(&self) {
        self.progress.cancel();
    }
}

fn run(number: u64, request: SearchRequest, progress: Arc<SearchProgress>, events: Sender<Event>) {
    let (watched, told, last) = (Arc::clone(&progress), events.clone(), Cell::new(Instant::now()));
    let work = tokio::task::spawn_blocking(move || {
        let tell = |found: &dyn Fn() -> SearchAnswer| {
            if last.get().elapsed() >= LOOK {
                let found = Some(Box::new(found()));
                // A dashboard that has gone meanwhile needs no telling, nor here below.
                drop(events.blocking_send(Event::Searching { number, seen: progress.seen(), found }));
                last.set(Instant::now());
            }
        };
        let answer = request.answer(&progress, &tell).map(Box::new);
        drop(events.blocking_send(Event::Searched { number, answer }));
    });
    tokio::spawn(async move {
        while !work.is_finished() {
            let event = Event::Searching { number, seen: watched.seen(), found: None };
            if told.send(event).await.is_err() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    });
}
