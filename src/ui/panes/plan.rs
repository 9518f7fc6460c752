//! The plan as a form.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::scroll;
use crate::app::{Field, Form, Pane, State, Step};
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::text::{fit, left, right, width_of, wrapped};

const LABEL: usize = 11;

pub fn title(state: &State) -> String {
    if state.editor.modified() { "unsaved".to_owned() } else { String::new() }
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let fields = Form::fields(&state.editor);
    let notes = notes(state, look, area.width as usize);
    let room = (area.height as usize).saturating_sub(notes.len());
    let first = scroll(state.form.selected, fields.len(), room);
    let rows = fields.iter().enumerate().skip(first).take(room).map(|(index, field)| {
        let selected = index == state.form.selected;
        row(state, *field, selected, look, area.width as usize)
    });
    let blank = std::iter::repeat_with(Line::default).take(room.saturating_sub(fields.len() - first));
    for (line, place) in rows.chain(blank).chain(notes).zip(area.rows()) {
        line.render(place, buffer);
    }
}

fn row<'a>(state: &'a State, field: Field, selected: bool, look: &Look, width: usize) -> Line<'a> {
    let theme = &look.theme;
    let focused = state.focus == Pane::Plan;
    let editor = &state.editor;
    let label = if selected && focused { theme.accent() } else { theme.dim() };
    let mut spans = vec![Span::styled(left(field.label(), LABEL), label)];
    let room = width.saturating_sub(LABEL + 2);
    let typing = state.form.typing.as_ref().filter(|_| selected);
    if let Some(typed) = typing {
        spans.push(Span::styled("▸ ", theme.accent()));
        spans.push(Span::styled(printable(typed), theme.text()));
        spans.push(Span::styled(" ", theme.text().add_modifier(Modifier::REVERSED)));
        if typed.is_empty() {
            let was = fit(&format!(" was {}", editor.shown(field)), room.saturating_sub(1));
            spans.push(Span::styled(was, theme.dim()));
        }
        return Line::from(spans);
    }
    // What the plan file says is plain, what was assumed for it is dim.
    let style = if editor.is_written(field) { theme.text() } else { theme.dim() };
    let value = fit(&printable(&editor.shown(field)), room);
    if selected && focused {
        let lower = if state.form.lower.is_some() { "‹ " } else { "  " };
        let upper = if state.form.upper.is_some() { " ›" } else { "  " };
        spans.push(Span::styled(lower, theme.accent()));
        spans.push(Span::styled(value, theme.selected()));
        spans.push(Span::styled(upper, theme.accent()));
    } else {
        spans.push(Span::raw("  "));
        spans.push(Span::styled(value, style));
    }
    Line::from(spans)
}

/// What the neighbouring values of the selected field would do, or what is wrong with the plan.
fn notes<'a>(state: &'a State, look: &Look, width: usize) -> Vec<Line<'a>> {
    let theme = &look.theme;
    if let Some(fault) = state.editor.faults().first() {
        let words = printable(&fault.to_string());
        return wrapped(&words, width, 7).into_iter().map(|line| Line::styled(line, theme.danger())).collect();
    }
    if state.focus != Pane::Plan {
        return Vec::new();
    }
    if let Some(typed) = &state.form.typing {
        let matches = state.form.matches(&state.editor, &state.catalog, typed);
        let names = matches.iter().map(String::as_str).collect::<Vec<_>>().join("  ");
        return if names.is_empty() { Vec::new() } else { vec![Line::styled(fit(&names, width), theme.dim())] };
    }
    [("›", &state.form.upper), ("‹", &state.form.lower)]
        .into_iter()
        .filter_map(|(arrow, step)| Some(step_note(arrow, step.as_ref()?, look, width)))
        .collect()
}

fn step_note<'a>(arrow: &'a str, step: &Step, look: &Look, width: usize) -> Line<'a> {
    let theme = &look.theme;
    let effect = match step.micro_batches {
        Some(count) => format!(" {count} micro batches {}", step.memory),
        None => format!(" {}", step.memory),
    };
    let style = if step.fits { theme.dim() } else { theme.warning() };
    let tail = if step.fits { "" } else { " too big" };
    let value = fit(&step.value, width.saturating_sub(effect.len() + tail.len() + 4));
    let spans = vec![Span::styled(format!("{arrow} {value}"), theme.dim())];
    let room = width.saturating_sub(width_of(&spans));
    let mut line = Line::from(spans);
    line.push_span(Span::styled(right(&format!("{effect}{tail}"), room), style));
    line
}
