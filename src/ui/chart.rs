//! A chart with axes: a line where its points are in an order, stems where they are names, marks, walls.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke};

use super::Look;
use super::text::{fit, right};

/// Cells of the labels of the upright axis.
const LABELS: u16 = 8;

/// What lies above the chart.
pub const CLIPPED: &str = "↑";

/// A point that is marked.
pub struct ChartMark {
    /// Where.
    pub at: (f64, f64),
    /// One cell.
    pub symbol: &'static str,
    /// Its colour.
    pub style: Style,
}

/// A line across the chart.
pub struct ChartWall {
    /// Where.
    pub at: f64,
    /// What it is; the first word says it where there is little room.
    pub name: String,
}

/// What is drawn.
pub struct Chart {
    /// Above it: what is shown, in which unit.
    pub title: String,
    /// The left and right end.
    pub x: (f64, f64),
    /// The lower and upper end.
    pub y: (f64, f64),
    /// How a height is written.
    pub label: fn(f64) -> String,
    /// Points along the lower axis with their names, the most important first.
    pub ticks: Vec<(f64, String)>,
    /// Points that are joined; of none that are not.
    pub line: Vec<[(f64, f64); 2]>,
    /// Marks stand on stems.
    pub stems: bool,
    /// The points; later ones over earlier ones. One above the upper end is an arrow there.
    pub marks: Vec<ChartMark>,
    /// Upright walls, named on the lower axis.
    pub walls: Vec<ChartWall>,
    /// A level one.
    pub level: Option<ChartWall>,
}

/// The next round number above, so that labels are.
pub fn round_up(top: f64) -> f64 {
    if top <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(top.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    unit * steps.into_iter().find(|step| step * unit >= top).unwrap_or(10.0)
}

impl Chart {
    /// Draws it.
    pub fn draw(&self, look: &Look, area: Rect, buffer: &mut Buffer) {
        let theme = &look.theme;
        let rows: [Rect; 4] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
            Constraint::Length(1),
        ])
        .areas(area);
        let [head, middle, axis, ticks] = rows;
        Line::styled(fit(&self.title, head.width as usize), theme.text()).render(head, buffer);
        let right_of = |row: Rect| Rect { x: row.x + LABELS, width: row.width.saturating_sub(LABELS), ..row };
        let plot = right_of(middle);
        if plot.width < 4 || plot.height < 2 || self.y.1 <= self.y.0 || self.x.1 <= self.x.0 {
            return;
        }
        self.draw_heights(look, Rect { width: LABELS, ..middle }, buffer);
        self.draw_line(look, plot, buffer);
        self.draw_walls(look, plot, buffer);
        self.draw_marks(look, plot, buffer);
        self.draw_ticks(look, plot, [right_of(axis), right_of(ticks)], buffer);
        self.draw_names(look, plot, right_of(axis), buffer);
    }

    /// The cell of a place, as the canvas rounds it.
    fn cell(&self, (x, y): (f64, f64), plot: Rect) -> (u16, u16) {
        let dot = |share: f64, cells: u16, dots: u16| {
            let last = f64::from(cells * dots - 1);
            (share.clamp(0.0, 1.0) * last).round() as u16 / dots
        };
        let right = dot((x - self.x.0) / (self.x.1 - self.x.0), plot.width, 2);
        let down = dot((self.y.1 - y) / (self.y.1 - self.y.0), plot.height, 4);
        (plot.x + right, plot.y + down)
    }

    /// Labels at the top, the middle and the bottom.
    fn draw_heights(&self, look: &Look, area: Rect, buffer: &mut Buffer) {
        let last = area.height.saturating_sub(1);
        for (row, place) in (0..).zip(area.rows()) {
            let share = match row {
                0 => Some(1.0),
                row if row == last => Some(0.0),
                row if row == last / 2 && last > 3 => Some(0.5),
                _ => None,
            };
            let width = usize::from(LABELS) - 2;
            let label = share.map_or_else(String::new, |share| (self.label)(self.y.0 + share * (self.y.1 - self.y.0)));
            let tick = if share.is_some() { '┤' } else { '│' };
            Line::styled(format!("{} {tick}", right(&label, width)), look.theme.dim()).render(place, buffer);
        }
    }

    fn draw_line(&self, look: &Look, plot: Rect, buffer: &mut Buffer) {
        let colour = look.theme.roof_colour();
        let canvas = Canvas::default().marker(Marker::Braille).x_bounds(self.x.into()).y_bounds(self.y.into());
        let strokes = |canvas: &mut ratatui::widgets::canvas::Context<'_>| {
            for [(x1, y1), (x2, y2)] in &self.line {
                canvas.draw(&Stroke { x1: *x1, y1: *y1, x2: *x2, y2: *y2, color: colour });
            }
        };
        canvas.paint(strokes).render(plot, buffer);
    }

    /// The level wall, where it lies within the chart.
    fn level(&self) -> Option<&ChartWall> {
        self.level.as_ref().filter(|level| (self.y.0..=self.y.1).contains(&level.at))
    }

    fn draw_walls(&self, look: &Look, plot: Rect, buffer: &mut Buffer) {
        let style = look.theme.warning();
        if let Some(level) = self.level() {
            let (_, row) = self.cell((self.x.0, level.at), plot);
            Line::styled("╌".repeat(plot.width as usize), style).render(Rect { y: row, height: 1, ..plot }, buffer);
        }
        for wall in &self.walls {
            let (column, _) = self.cell((wall.at, self.y.1), plot);
            for row in plot.top()..plot.bottom() {
                buffer.set_string(column, row, "┊", style);
            }
        }
    }

    /// The names of the walls: of the level one on it, of the others beside their feet, outward where there is room.
    fn draw_names(&self, look: &Look, plot: Rect, axis: Rect, buffer: &mut Buffer) {
        let style = look.theme.warning();
        if let Some(level) = self.level() {
            let (_, row) = self.cell((self.x.0, level.at), plot);
            let name = Line::styled(fit(&level.name, plot.width as usize), style).right_aligned();
            name.render(Rect { y: row, height: 1, ..plot }, buffer);
        }
        let foot = |wall: &ChartWall| self.cell((wall.at, self.y.0), plot).0;
        let feet: Vec<u16> = self.walls.iter().map(foot).collect();
        let mut taken: Vec<(u16, u16)> = feet.iter().map(|column| (*column, column + 1)).collect();
        for (wall, column) in self.walls.iter().zip(&feet) {
            buffer.set_string(*column, axis.y, "▲", style);
            let leftmost = feet.iter().all(|other| column <= other);
            let short = wall.name.split(' ').next().unwrap_or_default();
            let place = [wall.name.as_str(), short].into_iter().find_map(|name| {
                let width = name.chars().count() as u16;
                let (before, after) = (column.checked_sub(width), Some(column + 1));
                let sides = if leftmost { [before, after] } else { [after, before] };
                let free = |start: &u16| {
                    let within = *start >= axis.x && start + width <= axis.right();
                    within && taken.iter().all(|(from, to)| start + width <= *from || *to <= *start)
                };
                sides.into_iter().flatten().find(free).map(|start| (name, start, start + width))
            });
            if let Some((name, start, end)) = place {
                buffer.set_string(start, axis.y, name, style);
                taken.push((start, end));
            }
        }
    }

    fn draw_marks(&self, look: &Look, plot: Rect, buffer: &mut Buffer) {
        for mark in &self.marks {
            let (column, row) = self.cell(mark.at, plot);
            for below in (row + 1..plot.bottom()).filter(|_| self.stems) {
                buffer.set_string(column, below, "│", look.theme.dim());
            }
            let symbol = if mark.at.1 > self.y.1 { CLIPPED } else { mark.symbol };
            buffer.set_string(column, row, symbol, mark.style);
        }
    }

    /// Names under their points; one that would touch another is left out.
    fn draw_ticks(&self, look: &Look, plot: Rect, [axis, names]: [Rect; 2], buffer: &mut Buffer) {
        let theme = &look.theme;
        Line::styled("─".repeat(axis.width as usize), theme.dim()).render(axis, buffer);
        buffer.set_string(axis.x - 1, axis.y, "└", theme.dim());
        let mut taken: Vec<(u16, u16)> = Vec::new();
        for (index, (at, name)) in self.ticks.iter().enumerate() {
            let (column, _) = self.cell((*at, self.y.0), plot);
            buffer.set_string(column, axis.y, "┴", theme.dim());
            let width = name.chars().count() as u16;
            let start =
                column.saturating_sub(width / 2).clamp(names.x, names.right().saturating_sub(width).max(names.x));
            let end = start + width;
            if end > names.right() || taken.iter().any(|(from, to)| start <= *to && *from <= end) {
                continue;
            }
            taken.push((start, end));
            let style = if index == 0 { theme.text() } else { theme.dim() };
            Line::from(Span::styled(name.clone(), style)).render(Rect { x: start, width, ..names }, buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::round_up;

    #[test]
    fn the_upper_end_is_a_round_number_not_far_above() {
        for (top, round) in
            [(0.0, 1.0), (71.0, 80.0), (80.0, 80.0), (81.0, 100.0), (33_300.0, 40_000.0), (0.013, 0.016)]
        {
            assert!((round_up(top) - round).abs() < 1e-9 * round, "{top}: {}", round_up(top));
        }
    }
}
