//! `?`: every key, from the same table that the loop looks them up in.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::text::{fit, left};
use crate::app::{Binding, HELP_NOTES, State, help_rows, help_shape};
use crate::printable::printable;

const KEYS: usize = 19;

pub fn draw(state: &State, first: usize, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let shape = help_shape(state);
    let mut lines = lines(state, look);
    let mut columns = Vec::new();
    let height = lines.len().div_ceil(shape.columns);
    while lines.len() > height {
        let rest = lines.split_off(height);
        columns.push(std::mem::replace(&mut lines, rest));
    }
    columns.push(lines);
    let first = first.min(shape.hidden);
    Clear.render(area, buffer);
    let sought = &state.dialogs.help_query;
    let title = match (sought.is_empty(), shape.hidden > 0) {
        (true, true) => " keys · type to find · ↑↓ for more · ⏎ explains · tab topics · esc closes ".to_owned(),
        (true, false) => " keys · type to find · ⏎ explains what is selected · tab topics · esc closes ".to_owned(),
        (false, _) => format!(" keys with {}▏· esc shows all ", printable(sought)),
    };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(fit(&title, area.width as usize), theme.accent()));
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

/// The keys of a row, or that the user has left it none.
fn keys<'a>(state: &State, binding: &Binding) -> std::borrow::Cow<'a, str> {
    let keys = state.keys.shown(binding);
    if keys.is_empty() { "no key".into() } else { keys }
}

fn lines(state: &State, look: &Look) -> Vec<Line<'static>> {
    let theme = &look.theme;
    let mut lines: Vec<Line<'_>> = Vec::new();
    let rows = help_rows(state);
    if rows.is_empty() {
        lines.push(Line::styled("  no key is about that: tab finds topics", theme.warning()));
    }
    for (context, bindings) in rows {
        let name = context.name();
        lines.push(Line::styled(format!(" {name}"), theme.accent()));
        for binding in bindings {
            lines.push(Line::from(vec![
                Span::styled(format!("  {}", left(&look.keys(&keys(state, binding)), KEYS)), theme.text()),
                Span::styled(binding.help, theme.dim()),
            ]));
        }
    }
    lines.push(Line::default());
    lines.extend(HELP_NOTES.map(|note| Line::styled(format!("  {note}"), theme.dim())));
    lines
}
