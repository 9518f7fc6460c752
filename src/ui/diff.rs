//! Two texts and what is different in them.

use diffy::{DiffOptions, Line as Change};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::text::fit;
use crate::printable::printable;

/// Lines that are the same, shown around those that are not.
const CONTEXT: usize = 2;

/// Draws what turns the first text into the second, from that line on.
pub fn draw(title: &str, (old, new): (&str, &str), first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let lines = lines(old, new, look, area.width.saturating_sub(2) as usize);
    let room = area.height.saturating_sub(2) as usize;
    let first = first.min(lines.len().saturating_sub(room));
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(fit(&format!(" {title} "), area.width as usize), theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    for (line, place) in lines.into_iter().skip(first).zip(inner.rows()) {
        line.render(place, buffer);
    }
}

fn lines<'a>(old: &str, new: &str, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    if old == new {
        return vec![Line::styled(" no line is different: a new file with this text", theme.dim())];
    }
    let patch = DiffOptions::new().set_context_len(CONTEXT).create_patch(old, new);
    let mut lines = Vec::new();
    for hunk in patch.hunks() {
        if !lines.is_empty() {
            lines.push(Line::styled(" ⋮", theme.dim()));
        }
        let (mut old_line, mut new_line) = (hunk.old_range().start(), hunk.new_range().start());
        for change in hunk.lines() {
            let (number, mark, text, style) = match change {
                Change::Context(text) => (new_line, ' ', text, theme.dim()),
                Change::Delete(text) => (old_line, '-', text, theme.danger()),
                Change::Insert(text) => (new_line, '+', text, theme.good()),
            };
            old_line += usize::from(!matches!(change, Change::Insert(_)));
            new_line += usize::from(!matches!(change, Change::Delete(_)));
            let text = printable(text.trim_end_matches(['\n', '\r']));
            lines.push(Line::from(vec![
                Span::styled(format!("{number:>4} "), theme.dim()),
                Span::styled(fit(&format!("{mark} {text}"), width.saturating_sub(5)), style),
            ]));
        }
    }
    lines
}
