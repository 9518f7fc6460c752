//! From the terminal library's events to the dashboard's.

use crossterm::event::{
    Event as TerminalEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use crate::app::{Event, KeyPress};
use crate::ui::Pointer;

/// The event that it is for the dashboard; none for what the dashboard does not care about.
pub fn translate(event: TerminalEvent) -> Option<Event> {
    match event {
        TerminalEvent::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Event::Key),
        TerminalEvent::Paste(text) => Some(Event::Paste(text)),
        TerminalEvent::Resize(width, height) => Some(Event::Resized(width, height)),
        _ => None,
    }
}

fn key_of(key: KeyEvent) -> Option<KeyPress> {
    match key.code {
        KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            Some(KeyPress::Ctrl(c.to_ascii_lowercase()))
        }
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::ALT) => None,
        KeyCode::Char(c) => Some(KeyPress::Char(c)),
        KeyCode::Left if key.modifiers.contains(KeyModifiers::CONTROL) => Some(KeyPress::WordLeft),
        KeyCode::Right if key.modifiers.contains(KeyModifiers::CONTROL) => Some(KeyPress::WordRight),
        KeyCode::Up => Some(KeyPress::Up),
        KeyCode::Down => Some(KeyPress::Down),
        KeyCode::Left => Some(KeyPress::Left),
        KeyCode::Right => Some(KeyPress::Right),
        KeyCode::Enter => Some(KeyPress::Enter),
        KeyCode::Esc => Some(KeyPress::Esc),
        KeyCode::Tab => Some(KeyPress::Tab),
        KeyCode::BackTab => Some(KeyPress::BackTab),
        KeyCode::Backspace => Some(KeyPress::Backspace),
        KeyCode::Delete => Some(KeyPress::Delete),
        KeyCode::Home => Some(KeyPress::Home),
        KeyCode::End => Some(KeyPress::End),
        KeyCode::PageUp => Some(KeyPress::PageUp),
        KeyCode::PageDown => Some(KeyPress::PageDown),
        _ => None,
    }
}

/// Where the mouse was used, and rows down for the wheel; none for what the dashboard does not
/// care about.
pub fn pointed(event: MouseEvent) -> Option<Pointer> {
    let rows = match event.kind {
        MouseEventKind::Down(MouseButton::Left) => None,
        MouseEventKind::ScrollDown => Some(1),
        MouseEventKind::ScrollUp => Some(-1),
        _ => return None,
    };
    Some(Pointer { column: event.column, row: event.row, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_not_presses() {
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(translate(TerminalEvent::Key(key)), Some(Event::Key(KeyPress::Char('q'))));
        key.kind = KeyEventKind::Release;
        assert_eq!(translate(TerminalEvent::Key(key)), None);
    }

    #[test]
    fn control_is_told_from_plain() {
        let key = KeyEvent::new(KeyCode::Char('S'), KeyModifiers::CONTROL);
        assert_eq!(translate(TerminalEvent::Key(key)), Some(Event::Key(KeyPress::Ctrl('s'))));
    }
}
