//! The mouse: what it chose is focused, gone to, or done as if its key were pressed.

use crate::app::event::Effect;
use crate::app::key::KeyPress;
use crate::app::pane::Pane;
use crate::app::picker::picking;
use crate::app::state::{Overlay, State};
use crate::app::update::on_key;
use crate::app::view_actions::{focus, select};

/// Something that was clicked or scrolled over: the parts of the screen, as whoever laid them out names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseTarget {
    /// A pane, where it has nothing to select.
    Pane(Pane),
    /// A row of what a pane lists, or a line of the plan as text.
    Row {
        /// The pane.
        pane: Pane,
        /// The number of the row, from 0.
        row: usize,
        /// The column in the pane, or in the text.
        column: usize,
    },
    /// A pane's name among the tabs.
    Tab(Pane),
    /// Something that stands for a key: an arrow, a word of the bottom line, the wheel over a list.
    Key(KeyPress),
    /// A row of what lies on top, by its place among those that can be chosen.
    Choice(usize),
    /// The wheel over a pane: rows down, or up where below zero.
    Scroll {
        /// The pane.
        pane: Pane,
        /// Rows.
        rows: isize,
    },
}

/// What the mouse chose is focused; in the plan its field or place in the text is gone to.
pub fn click(state: &mut State, target: MouseTarget) -> Vec<Effect> {
    let covered = state.dialogs.picker.is_some() || state.dialogs.overlay.is_some();
    match target {
        MouseTarget::Key(key) => return on_key(state, key),
        MouseTarget::Choice(place) => return choose(state, place),
        _ if covered => {}
        MouseTarget::Tab(pane) | MouseTarget::Pane(pane) => focus(state, pane),
        MouseTarget::Scroll { pane, rows } => {
            focus(state, pane);
            let key = if rows < 0 { KeyPress::Up } else { KeyPress::Down };
            return (0..rows.unsigned_abs()).flat_map(|_| on_key(state, key)).collect();
        }
        MouseTarget::Row { pane, row, column } => {
            focus(state, pane);
            match (&mut state.plans.text, pane) {
                (Some(view), Pane::Plan) => view.go_to(row, column),
                _ => select(state, |_, last| row.min(last)),
            }
        }
    }
    Vec::new()
}

/// Selects a row of what lies on top; the selected one is taken.
fn choose(state: &mut State, place: usize) -> Vec<Effect> {
    if let Some(picker) = &mut state.dialogs.picker {
        if picker.selected == place {
            return on_key(state, KeyPress::Enter);
        }
        picker.selected = place.min(picker.shown.len().saturating_sub(1));
        picking::look(state);
        return Vec::new();
    }
    let dialogs = &mut state.dialogs;
    let selected = match &mut dialogs.overlay {
        Some(Overlay::Fixes) => dialogs.fixes.as_mut().map(|view| &mut view.selected),
        Some(Overlay::Search) => dialogs.search.as_mut().map(|view| &mut view.selected),
        Some(Overlay::Sweep) => dialogs.sweep.as_mut().map(|view| &mut view.selected),
        Some(Overlay::Plans(selected)) => Some(selected),
        _ => None,
    };
    match selected {
        Some(selected) if *selected == place => return on_key(state, KeyPress::Enter),
        Some(selected) => *selected = place,
        None => {}
    }
    Vec::new()
}
