//! The dashboard on a plan's text, before anything was observed.

use super::catalog;
use memwall::app::State;
use memwall::plan::LoadedPlan;
use memwall::reading::Moment;

/// Opens it.
pub fn open(text: &str) -> State {
    let loaded = LoadedPlan::from_text("test", text).unwrap();
    State::new(loaded, catalog().clone(), None, Moment(0))
}

/// What a dashboard of another host left unsaved; what it started from is not known.
pub fn draft(text: &str) -> memwall::app::Draft {
    let kept = memwall::reading::Moment(1_790_084_800_000);
    let (id, host) = ("a.json".to_owned(), Some("node7".to_owned()));
    memwall::app::Draft { id, kept, pid: 4711, host, base: None, text: text.to_owned() }
}
