//! The dashboard without a terminal: its state, what can happen to it, and what it then
//! wants done. Time arrives as an event, files and drivers as effects: the same events
//! give the same frames every time.

mod attached;
mod editor;
mod event;
mod field;
mod form;
mod history;
mod keymap;
mod monitor;
mod observation;
mod pane;
mod state;
mod step;
mod update;

pub use attached::{Attached, AttachedState};
pub use editor::Editor;
pub use event::{Effect, Event};
pub use field::Field;
pub use form::Form;
pub use history::{History, KEPT, Point, Stretch};
pub use keymap::{
    Action, BINDINGS, Binding, Context, HELP_NOTES, HelpShape, Key, by_context, footer, help_shape, lookup,
};
pub use monitor::{Monitor, ProcessRow, Selected, Source};
pub use pane::Pane;
pub use state::{MemoryPane, MemoryView, Notice, Overlay, RooflinePane, Saving, Severity, State};
pub use step::{Direction, Step};
pub use update::update;
