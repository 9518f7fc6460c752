//! Key presses, free of any terminal library.

/// Rows that PageUp and PageDown go.
pub const PAGE: usize = 10;

/// A key press.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyPress {
    /// A printable character.
    Char(char),
    /// A character with Control held.
    Ctrl(char),
    /// Cursor up.
    Up,
    /// Cursor down.
    Down,
    /// Cursor left.
    Left,
    /// Cursor right.
    Right,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// Tabulator.
    Tab,
    /// Shift and tabulator.
    BackTab,
    /// Deletes to the left.
    Backspace,
    /// Deletes to the right.
    Delete,
    /// Cursor left with Control held.
    WordLeft,
    /// Cursor right with Control held.
    WordRight,
    /// Cursor up with Control held.
    CtrlUp,
    /// Cursor down with Control held.
    CtrlDown,
    /// A character with Alt held.
    Alt(char),
    /// A function key, from 1.
    Function(u8),
    /// First.
    Home,
    /// Last.
    End,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
}
