//! What ran out of memory, over the panes: what was asked and held, what helps by how much.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::Look;
use super::sheet;
use super::text::{left, right, wrapped};
use crate::app::MemoryExhaustion;

/// The widest name, and a figure of three digits.
const NAME: usize = 14;
const FIGURE: usize = 6;

pub fn draw(known: &MemoryExhaustion, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    sheet::fitted("out of memory", look.theme.danger(), |width| lines(known, look, width), first, area, buffer);
}

fn lines(known: &MemoryExhaustion, look: &Look, width: usize) -> Vec<Line<'static>> {
    let theme = &look.theme;
    let shortage = &known.explained;
    let room = width.saturating_sub(3);
    let mut lines: Vec<Line<'static>> = wrapped(&shortage.headline, room, 2)
        .into_iter()
        .map(|line| Line::styled(format!(" {line}"), theme.danger()))
        .collect();
    let mismatch = shortage.mismatch.iter().flat_map(|words| wrapped(words, room, 3));
    lines.extend(mismatch.map(|line| Line::styled(format!(" {line}"), theme.warning())));
    if !shortage.held.is_empty() {
        lines.push(Line::default());
        lines.push(Line::styled(format!("  {}{}", left("", NAME), right("GiB", FIGURE)), theme.dim()));
    }
    for held in &shortage.held {
        let mut notes = wrapped(held.note, room.saturating_sub(NAME + FIGURE + 2), 2).into_iter();
        lines.push(Line::from(vec![
            Span::styled(format!("  {}", left(held.name, NAME)), theme.text()),
            Span::styled(right(&held.in_gib(), FIGURE), theme.observed()),
            Span::styled(format!("  {}", notes.next().unwrap_or_default()), theme.dim()),
        ]));
        lines.extend(notes.map(|note| Line::styled(format!("  {}  {note}", left("", NAME + FIGURE)), theme.dim())));
    }
    lines.push(Line::default());
    lines.push(Line::styled(" what helps", theme.dim()));
    for help in &shortage.helps {
        for (index, line) in wrapped(help, room.saturating_sub(2), 2).into_iter().enumerate() {
            lines.push(Line::styled(format!("  {}{line}", if index == 0 { "" } else { "  " }), theme.text()));
        }
    }
    if !shortage.foreseen.is_empty() {
        lines.push(Line::default());
    }
    let foreseen = shortage.foreseen.iter().flat_map(|line| wrapped(line, room, 3));
    lines.extend(foreseen.map(|line| Line::styled(format!(" {line}"), theme.predicted())));
    lines
}
