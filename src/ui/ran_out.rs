//! What ran out of memory, over the panes, in the words of `memwall explain`.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::text::fit;
use crate::app::RanOut;

pub fn draw(known: &RanOut, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.danger())
        .title(Span::styled(" out of memory ", theme.danger()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let lines: Vec<&str> = known.explained.lines().collect();
    // The last screenful stays full.
    let first = first.min(lines.len().saturating_sub(inner.height as usize));
    for (index, (line, place)) in lines.iter().skip(first).zip(inner.rows()).enumerate() {
        let style = if first + index == 0 { theme.danger() } else { theme.text() };
        Line::styled(fit(&format!(" {line}"), place.width as usize), style).render(place, buffer);
    }
}
