//! The plan as another tool writes it, over the panes: what cannot be said above, the text below.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::Look;
use super::sheet;
use super::text::fit;
use crate::app::Export;
use crate::printable::printable;

/// Draws it from that line on.
pub fn draw(export: &Export, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let title = format!("{} · {}", export.target.meaning(), printable(&export.path.display().to_string()));
    let inner = sheet::frame(&title, theme.accent(), area, buffer);
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
    sheet::scrolled(lines, first, inner, buffer);
}
