//! Whether what is exported could be read, and why not.

use super::collector::SourceStatus;
use super::families as f;
use super::gpus::flag;
use crate::app::State;
use crate::reading::{SourceInfo, SourceKind};
use crate::report::metrics::MetricsPage;

/// Adds the sources: the GPUs always, the log where one is followed, the hooks where they are listened to.
pub fn put(page: &mut MetricsPage, state: &State, info: Option<&SourceInfo>, status: &SourceStatus, listens: bool) {
    if let Some(info) = info {
        let simulated = if info.kind == SourceKind::Demo { "true" } else { "false" };
        let labels = [("source", info.kind.word()), ("detail", &*info.detail), ("simulated", simulated)];
        page.put(&f::SOURCE_INFO, &labels, 1.0);
    }
    put_one(page, "gpu", gpu_failure(info, status).as_deref());
    if !listens {
        return;
    }
    let news = &state.run.telemetry.news;
    put_one(page, "hook", news.deaf.as_deref());
    if let Some(why) = &news.no_log {
        put_one(page, "log", Some(&why.to_string()));
    } else if news.progress.is_known() {
        put_one(page, "log", None);
    }
}

/// Why no GPU is exported; none where they are.
fn gpu_failure(info: Option<&SourceInfo>, status: &SourceStatus) -> Option<String> {
    match (status, info) {
        (SourceStatus::Down(why), _) => Some(why.clone()),
        // The attached process alone is seen.
        (SourceStatus::Up, Some(info)) if info.kind == SourceKind::Host => Some(info.detail.clone()),
        (SourceStatus::Up, _) => None,
    }
}

fn put_one(page: &mut MetricsPage, source: &str, failure: Option<&str>) {
    page.put(&f::SOURCE_UP, &[("source", source)], flag(failure.is_none()));
    if let Some(why) = failure {
        page.put(&f::SOURCE_FAILURE, &[("source", source), ("reason", why)], 1.0);
    }
}
