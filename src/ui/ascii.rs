//! `--ascii`: a drawn screen in characters that every font and serial line has.

use ratatui::buffer::Buffer;

use crate::ascii::plain;

/// Replaces every character outside ASCII by the one that looks most like it.
pub fn reduce(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let symbol = cell.symbol();
        if !symbol.is_ascii() {
            let plain = symbol.chars().next().map_or(' ', plain);
            cell.set_char(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::*;

    #[test]
    fn nothing_but_ascii_is_left() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "╭█▒…⣀⠉⡇ 訓 é", ratatui::style::Style::new());
        reduce(&mut buffer);
        assert!(buffer.content.iter().all(|cell| cell.symbol().is_ascii()));
    }
}
