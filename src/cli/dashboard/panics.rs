//! A panic anywhere ends the dashboard: the terminal is put back first, then the panic is reported.

use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Catches the panics of all threads while it lives.
#[derive(Debug, Clone)]
pub struct Panics {
    first: Arc<Mutex<Option<String>>>,
    happened: Arc<Notify>,
}

impl Panics {
    /// From now on panics are kept rather than printed over the screen.
    pub fn catch() -> Self {
        let panics = Self { first: Arc::default(), happened: Arc::default() };
        let kept = panics.clone();
        panic::set_hook(Box::new(move |info| kept.keep(info)));
        panics
    }

    fn keep(&self, info: &PanicHookInfo<'_>) {
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown reason".to_owned());
        let place = info.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
        // Later panics are mostly the first one's consequences.
        self.first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| format!("internal error: {what}{place}"));
        self.happened.notify_one();
    }

    /// Returns when any thread has panicked.
    pub async fn happened(&self) {
        self.happened.notified().await;
    }

    /// What happened, if anything did; panics are printed again from here on.
    pub fn finish(self) -> Option<String> {
        drop(panic::take_hook());
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
