//! A list to choose from, over the panes.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::panes::scroll;
use super::text::{fit, left, width_of};
use crate::app::{Picker, PickerPurpose, StepOutcome};
use crate::printable::printable;
use crate::ui::text::signed_percent;

/// Cells of the widest list.
const WIDTH: u16 = 110;

/// The list with what was typed above it.
pub fn draw(picker: &Picker, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let place = place(picker, area);
    Clear.render(place, buffer);
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(format!(" {} ", picker.purpose.title()), theme.accent()));
    let inner = block.inner(place);
    block.render(place, buffer);
    let mut lines = vec![typed(picker, look, inner.width as usize)];
    let room = (inner.height as usize).saturating_sub(2);
    let names = names(picker, inner.width as usize);
    let first = scroll(picker.selected, picker.shown.len(), room);
    for (index, at) in picker.shown.iter().enumerate().skip(first).take(room) {
        let Some(choice) = picker.choices.get(*at) else { continue };
        let chosen = index == picker.selected;
        let facts = fit(&printable(&choice.facts), (inner.width as usize).saturating_sub(names + 4));
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸ " } else { "  " }, theme.accent()),
            Span::styled(left(&printable(&choice.name), names), if chosen { theme.selected() } else { theme.text() }),
            Span::styled(format!("  {facts}"), theme.dim()),
        ]));
    }
    if picker.shown.is_empty() && !picker.choices.is_empty() {
        let any = picker.purpose.takes_any_text();
        let said = if any { "  none of these: press Enter to use the typed value" } else { "  none is called so" };
        lines.push(Line::styled(said, theme.dim()));
    }
    for (line, row) in lines.into_iter().zip(inner.rows()) {
        line.render(row, buffer);
    }
    if let PickerPurpose::Value(_) = picker.purpose {
        let bottom = Rect { y: inner.bottom().saturating_sub(1), height: 1, ..inner };
        would(picker.outcome, look).render(bottom, buffer);
    }
}

/// Where the list lies.
fn place(picker: &Picker, area: Rect) -> Rect {
    let width = WIDTH.min(area.width);
    let rows = picker.choices.len().min(200) as u16 + 4;
    Rect {
        x: area.x + (area.width - width) / 2,
        width,
        height: rows.clamp(5, area.height.max(5)).min(area.height),
        ..area
    }
}

/// The row that lies there, by its place among those that are shown.
pub fn row_at(picker: &Picker, area: Rect, at: Position) -> Option<usize> {
    let place = place(picker, area);
    // The frame, and the line that is typed in.
    let row = usize::from(at.y.checked_sub(place.y + 2)?);
    let room = usize::from(place.height).saturating_sub(4);
    let inside = place.contains(at) && row < room;
    let row = scroll(picker.selected, picker.shown.len(), room) + row;
    (inside && row < picker.shown.len()).then_some(row)
}

fn typed<'a>(picker: &Picker, look: &Look, width: usize) -> Line<'a> {
    let theme = &look.theme;
    let count = format!("{} of {} ", picker.shown.len(), picker.choices.len());
    let mut spans = vec![
        Span::styled("> ", theme.accent()),
        Span::styled(printable(&picker.query), theme.text()),
        Span::styled(" ", theme.text().add_modifier(Modifier::REVERSED)),
    ];
    if !picker.choices.is_empty() {
        let gap = width.saturating_sub(width_of(&spans) + count.len());
        spans.push(Span::styled(format!("{}{count}", " ".repeat(gap)), theme.dim()));
    }
    Line::from(spans)
}

/// Cells of the column of names: as wide as the widest, and half of the list at most.
fn names(picker: &Picker, width: usize) -> usize {
    let widest = picker.choices.iter().map(|choice| choice.name.chars().count()).max().unwrap_or(0);
    widest.clamp(8, (width / 2).max(8))
}

/// What taking the selected value would do.
fn would<'a>(outcome: Option<StepOutcome>, look: &Look) -> Line<'a> {
    match outcome {
        Some(outcome) => Line::from(vec![
            Span::styled("  would make ", look.theme.dim()),
            Span::styled(in_words(&outcome), if outcome.fits { look.theme.text() } else { look.theme.warning() }),
        ]),
        None => Line::styled("  makes no valid plan as things stand", look.theme.warning()),
    }
}

/// `+3.10 GiB, -8 % speed`; whether it would fit is said where it would not.
pub fn in_words(outcome: &StepOutcome) -> String {
    let tail = if outcome.fits { "" } else { ", does not fit" };
    format!("{}, {} speed{tail}", outcome.memory, signed_percent(outcome.speed))
}
