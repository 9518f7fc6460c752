//! Lines over the panes in a frame of their own, scrolled where they are more than there is room for.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};
use unicode_width::UnicodeWidthStr;

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

/// Lines that are made for a width, in a frame that is no larger than they and its title are, in the middle of the top
/// of `area`; from that line on.
pub fn fitted<'a>(
    title: &str,
    style: Style,
    lines: impl FnOnce(usize) -> Vec<Line<'a>>,
    first: usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    const FRAME: u16 = 2;
    let lines = lines(usize::from(area.width.saturating_sub(FRAME)));
    let widest = lines.iter().map(Line::width).chain([title.width() + 2]).max().unwrap_or(0);
    // A blank behind the longest line too.
    let width = u16::try_from(widest + 1).unwrap_or(u16::MAX).saturating_add(FRAME).min(area.width);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(FRAME).min(area.height);
    let place = Rect { x: area.x + (area.width - width) / 2, width, height, ..area };
    let inner = frame(title, style, place, buffer);
    let below = lines.len().saturating_sub(first + usize::from(inner.height));
    scrolled(lines, first, inner, buffer);
    if below > 0 {
        // In the frame's last line, where somebody looks who has read to the end.
        let mark = format!(" ↓ {below} more ");
        let width = u16::try_from(mark.width()).unwrap_or(u16::MAX);
        let line = Rect { y: inner.bottom(), height: 1, x: inner.right().saturating_sub(width + 1), width };
        Line::styled(mark, style).render(line.intersection(area), buffer);
    }
}

/// The lines from that one on; the last screenful stays full.
pub fn scrolled(lines: Vec<Line<'_>>, first: usize, area: Rect, buffer: &mut Buffer) {
    let first = first.min(lines.len().saturating_sub(area.height as usize));
    for (line, place) in lines.into_iter().skip(first).zip(area.rows()) {
        line.render(place, buffer);
    }
}
