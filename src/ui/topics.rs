//! A topic of the manual, over the panes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::Look;
use super::sheet;
use super::text::fit;
use crate::app::{State, lesson_rows, topic_rows, topic_width, tutorial_rows};
use crate::manual::{TOPICS, Tone, TopicLine};

/// What topic that is, from that line on, on a screen of that size.
pub fn draw(topic: usize, first: usize, size: (u16, u16), look: &Look, area: Rect, buffer: &mut Buffer) {
    let title = TOPICS.get(topic).map_or("", |topic| topic.name);
    let title = format!("{title} · ↑↓ scroll · / topics · esc closes");
    let lines = |_| topic_rows(topic, size).iter().map(|row| line(row, look, topic_width(size))).collect();
    sheet::fitted(&title, look.theme.accent(), lines, first, area, buffer);
}

/// A step of the tutorial.
pub fn draw_tutorial(state: &State, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let width = topic_width(state.views.size);
    let lines = |_| tutorial_rows(state).iter().map(|row| line(row, look, width)).collect();
    sheet::fitted("tutorial: the memory wall", look.theme.accent(), lines, first, area, buffer);
}

/// What the selected number means.
pub fn draw_lesson(state: &State, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let width = topic_width(state.views.size);
    let lines = |_| lesson_rows(state).iter().map(|row| line(row, look, width)).collect();
    let title = "explained · ↑↓ scroll · / another term · esc closes";
    sheet::fitted(title, look.theme.accent(), lines, first, area, buffer);
}

fn line(row: &TopicLine, look: &Look, width: usize) -> Line<'static> {
    let theme = &look.theme;
    let mut room = width;
    let mut spans = vec![Span::raw(" ")];
    for span in &row.spans {
        let style = match span.tone {
            Tone::Text => theme.text(),
            Tone::Heading => theme.accent(),
            Tone::Code => theme.predicted(),
            Tone::Strong => theme.text().add_modifier(Modifier::BOLD),
            Tone::Faint => theme.dim(),
        };
        let text = fit(&span.text, room);
        room = room.saturating_sub(Span::raw(text.as_str()).width());
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}
