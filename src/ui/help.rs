//! `?`: every key, from the same table that the loop looks them up in.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::text::{fit, left};
use crate::app::{Context, Pane, by_context};

const KEYS: usize = 19;

pub fn draw(focus: Pane, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let columns = columns(lines(focus, look), area);
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    let visible = area.height.saturating_sub(2) as usize;
    let more = rows > visible;
    let first = first.min(rows.saturating_sub(visible));
    Clear.render(area, buffer);
    let title = if more { " keys · ↑↓ for more · any other key closes " } else { " keys · any key closes " };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(fit(title, area.width as usize), theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let width = inner.width / columns.len().max(1) as u16;
    for (index, column) in columns.into_iter().enumerate() {
        let place = Rect { x: inner.x + width * index as u16, width, ..inner };
        for (line, place) in column.into_iter().skip(first).zip(place.rows()) {
            line.render(place, buffer);
        }
    }
}

fn lines(focus: Pane, look: &Look) -> Vec<Line<'static>> {
    let theme = &look.theme;
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (context, bindings) in by_context(focus) {
        let name = match context {
            Context::Anywhere => "anywhere",
            Context::In(pane) => pane.name(),
        };
        lines.push(Line::styled(format!(" {name}"), theme.accent()));
        for binding in bindings {
            lines.push(Line::from(vec![
                Span::styled(format!("  {}", left(binding.shown, KEYS)), theme.text()),
                Span::styled(binding.help, theme.dim()),
            ]));
        }
    }
    lines.push(Line::default());
    for text in [
        "  ~ estimated   ≤ upper bound   – none (select the row for the reason)",
        "  memory in GiB (2^30 bytes), bandwidth in TB/s (1e12 bytes)",
    ] {
        lines.push(Line::styled(text, theme.dim()));
    }
    lines
}

/// Two columns where one would not fit and there is width for two.
fn columns(mut lines: Vec<Line<'_>>, area: Rect) -> Vec<Vec<Line<'_>>> {
    let height = area.height.saturating_sub(2) as usize;
    if lines.len() <= height || area.width < 120 {
        return vec![lines];
    }
    let second = lines.split_off(lines.len().div_ceil(2));
    vec![lines, second]
}
