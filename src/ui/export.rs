//! The plan as another tool writes it, over the panes: what cannot be said above, the text below.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::text::fit;
use crate::app::Export;
use crate::printable::printable;

/// Draws it from that line on.
pub fn draw(export: &Export, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let title = format!(" {} · {} ", export.target.meaning(), printable(&export.path.display().to_string()));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(fit(&title, area.width as usize), theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let width = inner.width as usize;
    let mut lines = Vec::new();
    if !export.exported.notes.is_empty() {
        lines.push(Line::styled(" it cannot say:", theme.warning()));
        lines.extend(
            export
                .exported
                .notes
                .iter()
                .map(|note| Line::styled(fit(&format!("  {}", printable(note)), width), theme.text())),
        );
        lines.push(Line::default());
    }
    lines.extend(export.text().lines().map(|line| {
        let style = if line.starts_with('#') { theme.dim() } else { theme.text() };
        Line::styled(fit(&format!(" {}", printable(line)), width), style)
    }));
    let first = first.min(lines.len().saturating_sub(inner.height as usize));
    for (line, place) in lines.into_iter().skip(first).zip(inner.rows()) {
        line.render(place, buffer);
    }
}
