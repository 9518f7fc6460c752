//! Every named part of a step's time: how long, how it comes about, what of it is hidden.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::render;
use super::terms::LEAST_ROWS;
use crate::app::{Pane, State};
use crate::predict::{Prediction, TimeTerm};
use crate::ui::Look;
use crate::ui::panes::scroll;
use crate::ui::text::{fit, left, right, wrapped};

pub fn draw(state: &State, prediction: &Prediction, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let focused = state.views.focus == Pane::Vram;
    let terms = &prediction.time_terms;
    let selected = state.views.memory.selected.min(terms.len().saturating_sub(1));
    let (width, height) = (area.width as usize, area.height as usize);
    let name_width = (width * 2 / 5).clamp(18, 44);
    let words = width.saturating_sub(name_width + 18);
    let detail = terms
        .get(selected)
        .filter(|_| focused)
        .map_or_else(Vec::new, |term| detail(term, width.saturating_sub(2), height.saturating_sub(LEAST_ROWS + 1)));
    let room = height.saturating_sub(1 + detail.len());
    let head = format!(
        " {}{}{} {}",
        left("time of a step", name_width),
        right("time", 10),
        right("%", 5),
        fit("how it comes about", words)
    );
    let mut lines = vec![Line::styled(head, theme.dim())];
    let whole: f64 = terms.iter().map(|term| term.seconds.0).sum();
    for (index, term) in terms.iter().enumerate().skip(scroll(selected, terms.len(), room)).take(room) {
        look.place_row(area, lines.len(), index);
        let chosen = focused && index == selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let share = if whole > 0.0 { format!("{:.0}", 100.0 * term.seconds.0 / whole) } else { String::new() };
        lines.push(Line::from(vec![
            Span::styled(if chosen { "▸" } else { " " }, theme.accent()),
            Span::styled(left(&term.name, name_width), style),
            Span::styled(right(&term.seconds.to_string(), 10), theme.text()),
            Span::styled(right(&share, 5), theme.text()),
            Span::styled(format!(" {}", fit(&term.formula.to_string(), words)), theme.dim()),
        ]));
    }
    lines.extend(detail.into_iter().map(|line| Line::styled(format!(" {line}"), theme.dim())));
    render(lines, area, buffer);
}

/// The whole formula of a part, what of it runs beside kernels, and who says so.
fn detail(term: &TimeTerm, width: usize, most: usize) -> Vec<String> {
    let formula = format!("{} = {}", term.name, term.formula);
    let mut source = term.part.word().to_owned();
    if term.transfer.is_some() {
        source += &format!(", {} hidden behind kernels", term.hidden);
    }
    source += &format!("; source: {}", term.source);
    let mut lines = wrapped(&formula, width, most.saturating_sub(1).max(1));
    let left = most.saturating_sub(lines.len()).max(1);
    lines.extend(wrapped(&source, width, left));
    lines
}
