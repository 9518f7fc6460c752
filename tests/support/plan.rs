//! The dashboard on a plan's text, before anything was observed.

use memwall::app::State;
use memwall::catalog::Catalog;
use memwall::plan::Loaded;
use memwall::reading::Moment;

/// Opens it.
pub fn open(text: &str) -> State {
    let loaded = Loaded::from_text("test", text).unwrap();
    State::new(loaded, Catalog::embedded().unwrap(), None, Moment(0))
}
