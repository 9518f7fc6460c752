//! Two keys as a heat map: rows and columns of their values, each cell its throughput or memory.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use ratatui::widgets::Widget;

use super::{fits, outline};
use crate::advise::throughput;
use crate::app::SweepView;
use crate::printable::printable;
use crate::ui::Look;
use crate::ui::header::tokens;
use crate::ui::panes::scroll;
use crate::ui::text::{fit, left, right};

/// Cells of a value: its shade, its figure, its walls.
const CELL: usize = 10;

/// Shares of the best from which a shade holds, the best first. The shades differ without colour too.
const SHADES: [(f64, &str); 4] = [(0.95, "█"), (0.75, "▓"), (0.4, "▒"), (0.0, "░")];

/// What the shades and the marks stand for.
const LEGEND: [&str; 2] = [
    "█ 95 % of the best that fits  ▓ 75 %  ▒ 40 %  ░ less",
    "× too big  – no plan  ◂ last that fits  = then flat  ↓ then falls",
];

/// Lines besides the rows: two heads, a blank, the legend.
const BESIDE: usize = 3 + LEGEND.len();

/// Cells of the values of the rows.
fn names(view: &SweepView) -> usize {
    let rows = view.sweep.axes.first().map(|axis| axis.values.as_slice()).unwrap_or_default();
    rows.iter().map(|value| value.chars().count()).max().unwrap_or(8).clamp(8, 24)
}

/// Cells that the whole map takes, or its legend.
pub fn width(view: &SweepView) -> u16 {
    let legend = LEGEND.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    (names(view) + 3 + view.columns() * CELL).max(legend + 3) as u16
}

/// Lines that the whole map takes.
pub fn height(view: &SweepView) -> u16 {
    (view.sweep.points.len() / view.columns().max(1) + BESIDE) as u16
}

/// The values that are in view.
struct MapWindow {
    first_column: usize,
    shown: usize,
    first_row: usize,
    room: usize,
}

impl MapWindow {
    fn of(view: &SweepView, rows: usize, area: Rect) -> Self {
        let wide = view.columns().max(1);
        let shown = (area.width as usize).saturating_sub(names(view) + 3) / CELL;
        let room = (area.height as usize).saturating_sub(BESIDE);
        let first_column = scroll(view.selected % wide, wide, shown);
        Self { first_column, shown, first_row: scroll(view.selected / wide, rows, room), room }
    }
}

/// The point whose cell lies there: below two heads, behind the values of the rows.
pub fn cell_at(view: &SweepView, area: Rect, at: Position) -> Option<usize> {
    let wide = view.columns().max(1);
    let rows = view.sweep.points.len() / wide;
    let window = MapWindow::of(view, rows, area);
    let row = usize::from(at.y.checked_sub(area.y + 2)?);
    let column = usize::from(at.x - area.x).checked_sub(names(view) + 2)? / CELL;
    let (in_row, in_column) = (window.first_row + row, window.first_column + column);
    let inside = row < window.room && column < window.shown && in_row < rows && in_column < wide;
    inside.then_some(in_row * wide + in_column)
}

/// Draws it: the better the stronger, what does not fit crossed out.
pub fn draw(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let [Some(rows), Some(columns)] = [0, 1].map(|axis| view.sweep.axes.get(axis)) else { return };
    let name = names(view);
    let wide = columns.values.len();
    let MapWindow { first_column, shown, first_row, room } = MapWindow::of(view, rows.values.len(), area);
    let best = (0..view.sweep.points.len())
        .filter_map(|index| outline(view, index).filter(|outline| fits(outline)).map(throughput))
        .fold(0.0, f64::max);
    let labels = view.fields.iter().map(|field| field.label()).collect::<Vec<_>>();
    let figure = if view.memory { view.memory_unit() } else { super::heads(view).0 };
    let head = |value: &String| format!("{} ", right(&fit(&printable(value), CELL - 2), CELL - 1));
    let heads: String = columns.values.iter().skip(first_column).take(shown).map(head).collect();
    let mut lines = vec![
        Line::styled(format!("  {figure}: {} down, {} across", labels[0], labels[1]), theme.text()),
        Line::styled(format!("  {}{heads}", left("", name)), theme.dim()),
    ];
    for (row, value) in rows.values.iter().enumerate().skip(first_row).take(room) {
        let mut spans = vec![Span::styled(format!("  {}", left(&printable(value), name)), theme.text())];
        for column in (first_column..wide).take(shown) {
            let index = row * wide + column;
            let (text, style) = cell(view, index, best, look);
            let chosen = index == view.selected;
            let (text, style) = if chosen {
                (format!("[{}]", text.trim()), style.add_modifier(Modifier::REVERSED))
            } else {
                (text, style)
            };
            let gap = " ".repeat(CELL.saturating_sub(text.chars().count()));
            spans.extend([Span::raw(gap), Span::styled(text, style)]);
        }
        lines.push(Line::from(spans));
    }
    lines.push(Line::default());
    lines.extend(LEGEND.into_iter().map(|line| Line::styled(format!("  {line}"), theme.dim())));
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

/// `▓ 35.3 k= `: shade, figure, walls.
fn cell(view: &SweepView, index: usize, best: f64, look: &Look) -> (String, Style) {
    let theme = &look.theme;
    let Some(outline) = outline(view, index) else { return ("– ".to_owned(), theme.dim()) };
    let marks = view.marks(index);
    let wall = match (marks.last_that_fits, marks.falls, marks.flat) {
        (true, _, _) => "◂",
        (false, true, _) => "↓",
        (false, false, true) => "=",
        (false, false, false) => " ",
    };
    let memory = outline.capacity.needed.in_gib();
    if !fits(outline) {
        let text = if view.memory { format!("×{memory} ") } else { "× ".to_owned() };
        return (text, theme.danger());
    }
    let rate = throughput(outline);
    let share = rate / best;
    let shade = SHADES.iter().find(|(from, _)| share >= *from).map_or("░", |(_, shade)| *shade);
    let style = match share {
        share if share >= 0.95 => theme.good().add_modifier(Modifier::BOLD),
        share if share >= 0.75 => theme.good(),
        share if share >= 0.4 => theme.text(),
        _ => theme.dim(),
    };
    let said = if view.memory { memory } else { tokens(rate).replace(' ', "") };
    (format!("{shade}{said}{wall}"), style)
}
