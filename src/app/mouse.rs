//! What the mouse can choose: the screen's parts, as whoever laid them out names them.

use crate::app::key::KeyPress;
use crate::app::pane::Pane;

/// Something that was clicked or scrolled over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MouseTarget {
    /// A row inside a pane, from 0 below its frame.
    Row {
        /// The pane.
        pane: Pane,
        /// The row in the pane.
        row: usize,
        /// The column in the pane.
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
