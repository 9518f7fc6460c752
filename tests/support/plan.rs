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
