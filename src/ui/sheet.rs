//! Lines over the panes in a frame of their own, scrolled where they are more than there is room for.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::text::fit;

/// A frame over what lies there, with its title in the same style; what is within it.
pub fn frame(title: &str, style: Style, area: Rect, buffer: &mut Buffer) -> Rect {
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(style)
        .title(Span::styled(fit(&format!(" {title} "), area.width as usize), style));
    let inner = block.inner(area);
    block.render(area, buffer);
    inner
}

/// The lines from that one on; the last screenful stays full.
pub fn scrolled(lines: Vec<Line<'_>>, first: usize, area: Rect, buffer: &mut Buffer) {
    let first = first.min(lines.len().saturating_sub(area.height as usize));
    for (line, place) in lines.into_iter().skip(first).zip(area.rows()) {
        line.render(place, buffer);
    }
}
