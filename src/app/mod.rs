//! The dashboard without a terminal: its state, what can happen to it, and what it then
//! wants done. Time arrives as an event, files and drivers as effects: the same events
//! give the same frames every time.

mod amount;
mod attached;
mod baseline;
mod choice;
mod editing;
mod editor;
mod event;
mod field;
mod form;
mod history;
mod keymap;
mod largest;
mod monitor;
mod mouse;
mod notice;
mod observation;
mod pane;
mod picker;
mod picking;
mod plans;
mod revisions;
mod saving;
mod state;
mod step;
mod sweep_view;
mod tabs;
mod text;
mod update;
mod user_keys;
mod views;

pub use attached::{Attached, AttachedState};
pub use baseline::Baseline;
pub use choice::Choice;
pub use editor::Editor;
pub use event::{Effect, Event, Expected, Unsaved};
pub use field::Field;
pub use form::Form;
pub use history::{History, KEPT, Point, Stretch};
pub use keymap::{
    Action, BINDINGS, Binding, Command, Context, HELP_NOTES, HelpShape, Key, by_context, commands, footer, help_shape,
};
pub use monitor::{Monitor, ProcessRow, Selected, Source};
pub use mouse::Target;
pub use notice::{Notice, Severity};
pub use pane::Pane;
pub use picker::{Picker, Purpose};
pub use saving::offer;
pub use state::{Overlay, Saving, State};
pub use step::{Direction, Outcome, Step};
pub use sweep_view::{Mark as SweepMark, SweepView};
pub use tabs::Tabs;
pub use text::{Completion, Spot, TextView, Wanted};
pub use update::update;
pub use user_keys::Keymap;
pub use views::{MOST_ZOOM, MemoryPane, MemoryView, OpKind, RooflinePane};
