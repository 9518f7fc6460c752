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
    let title = format!("{} · {}", export.target.meaning(), printable(&export.path.display().to_string()));
    sheet::fitted(&title, look.theme.accent(), |width| lines(export, look, width), first, area, buffer);
}

fn lines<'a>(export: &Export, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    let mut lines = Vec::new();
    if !export.exported.notes.is_empty() {
        lines.push(Line::styled(" it cannot say:", theme.warning()));
        let said = |note: &String| Line::styled(fit(&format!("  {}", printable(note)), width), theme.text());
        lines.extend(export.exported.notes.iter().map(said));
        lines.push(Line::default());
    }
    lines.extend(export.text().lines().map(|line| {
        let style = if line.starts_with('#') { theme.dim() } else { theme.text() };
        Line::styled(fit(&format!(" {}", printable(line)), width), style)
    }));
    lines
}
