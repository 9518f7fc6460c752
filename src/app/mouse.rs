//! What the mouse can choose: the screen's parts, as whoever laid them out names them.

use crate::app::key::KeyPress;
use crate::app::pane::Pane;

/// Something that was clicked or scrolled over.
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
