//! A sweep: one key as chart and table, two as a heat map.

mod charts;
mod map;
mod selected;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::header::tokens;
use super::panes::scroll;
use super::text::{fit, left, right, signed_percent};
use super::{Look, sheet};
use crate::advise::throughput;
use crate::app::{Baseline, Field, SweepView};
use crate::predict::{Outline, Verdict};
use crate::printable::printable;
use charts::SweepLine;

/// Cells of the table of one key.
const TABLE: u16 = 76;

/// Cells of the two columns of what is more than in the baseline.
const SINCE: u16 = 18;

/// Cells of the column of the step's time.
const STEP: usize = 12;

/// Where the table stands beside its charts: what they need.
const CHARTS: u16 = 40;

/// Lines of the table beside which charts below it are still of use.
const ROWS: u16 = 9;

/// Draws the sweep over the panes, each point against the baseline where there is one.
pub fn draw(view: &SweepView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let names: Vec<&str> = view.fields.iter().map(|field| field.key()).collect();
    let inner = sheet::frame(&format!("sweep · {}", names.join(" × ")), look.theme.accent(), area, buffer);
    let left = left_of_charts(view, base, inner.width);
    if inner.width >= left + CHARTS {
        draw_wide(view, base, left, look, inner, buffer);
    } else {
        draw_narrow(view, base, look, inner, buffer);
    }
}

/// The point whose row or cell lies there.
pub fn row_at(view: &SweepView, base: Option<&Baseline>, look: &Look, area: Rect, at: Position) -> Option<usize> {
    let inner = area.inner(Margin::new(1, 1));
    let left = left_of_charts(view, base, inner.width);
    let points = if inner.width >= left + CHARTS {
        WidePlaces::of(view, base, left, look, inner).points
    } else if view.fields.len() > 1 {
        narrow_places(inner)[0]
    } else {
        narrow_table(view, narrow_places(inner)[0])[0]
    };
    if !points.contains(at) {
        return None;
    }
    if view.fields.len() > 1 {
        return map::cell_at(view, points, at);
    }
    let row = usize::from(at.y.checked_sub(points.y + 1)?);
    let rows = view.sweep.points.len();
    let row = scroll(view.selected, rows, usize::from(points.height).saturating_sub(1)) + row;
    (row < rows).then_some(row)
}

/// Cells of what stands to the left of the charts.
fn left_of_charts(view: &SweepView, base: Option<&Baseline>, width: u16) -> u16 {
    match view.fields.len() {
        1 if base.is_some() && width >= TABLE + SINCE + CHARTS => TABLE + SINCE,
        1 => TABLE,
        _ => map::width(view),
    }
}

/// Where the parts of a wide sweep lie, and the words that two of them are as high as.
struct WidePlaces<'a> {
    points: Rect,
    told: Rect,
    charts: Rect,
    below: Rect,
    account: Vec<Line<'a>>,
    words: Vec<Line<'a>>,
}

impl<'a> WidePlaces<'a> {
    fn of(view: &SweepView, base: Option<&Baseline>, left: u16, look: &Look, area: Rect) -> Self {
        let words = selected::walls(view, look, area.width as usize);
        let [body, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(words.len() as u16)]).areas(area);
        let [left, charts] = Layout::horizontal([Constraint::Length(left), Constraint::Fill(1)]).areas(body);
        let account = selected::account(view, base, look, left.width as usize);
        let rows = if view.fields.len() > 1 { map::height(view) } else { view.sweep.points.len() as u16 + 1 };
        let rows = rows.min(left.height.saturating_sub(account.len() as u16 + 1));
        let [points, _, told] =
            Layout::vertical([Constraint::Length(rows), Constraint::Length(1), Constraint::Fill(1)]).areas(left);
        Self { points, told, charts, below, account, words }
    }
}

/// The points and their charts, and the words below them, where there is little room.
fn narrow_places(area: Rect) -> [Rect; 2] {
    Layout::vertical([Constraint::Fill(1), Constraint::Length(4)]).areas(area)
}

/// The table of one key over its charts.
fn narrow_table(view: &SweepView, body: Rect) -> [Rect; 2] {
    let rows = (view.sweep.points.len() as u16 + 1).min(ROWS.max(body.height / 2)).min(body.height / 2);
    Layout::vertical([Constraint::Length(rows), Constraint::Fill(1)]).areas(body)
}

/// The points and the account of the selected one to the left, charts to the right, the walls in words below.
fn draw_wide(view: &SweepView, base: Option<&Baseline>, left: u16, look: &Look, area: Rect, buffer: &mut Buffer) {
    let places = WidePlaces::of(view, base, left, look, area);
    let WidePlaces { points, told, charts, below, account, words } = places;
    if view.fields.len() > 1 {
        map::draw(view, look, points, buffer);
        draw_cross(view, look, charts, buffer);
    } else {
        draw_table(view, base, look, points, buffer);
        let [upper, lower] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
        let along = SweepLine::of(view, 0);
        along.draw_rate(look, upper, buffer);
        along.draw_memory(look, lower, buffer);
    }
    for (lines, place) in [(account, told), (words, below)] {
        for (line, row) in lines.into_iter().zip(place.rows()) {
            line.render(row, buffer);
        }
    }
}

/// Charts of the row and the column through the selected cell: of both figures where there is room, else of that which
/// the map shows.
fn draw_cross(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let rows: [Rect; 2] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    for (axis, row) in rows.into_iter().enumerate() {
        let along = SweepLine::of(view, axis);
        let [one, other] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(row);
        match (area.width >= 2 * CHARTS, view.memory) {
            (true, _) => {
                along.draw_rate(look, one, buffer);
                along.draw_memory(look, other, buffer);
            }
            (false, true) => along.draw_memory(look, row, buffer),
            (false, false) => along.draw_rate(look, row, buffer),
        }
    }
}

/// The points, charts below them where there is one key, the walls and the selected point in words.
fn draw_narrow(view: &SweepView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let [body, below] = narrow_places(area);
    if view.fields.len() > 1 {
        map::draw(view, look, body, buffer);
    } else {
        let [table, charts] = narrow_table(view, body);
        draw_table(view, base, look, table, buffer);
        let [rate, memory] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(charts);
        let along = SweepLine::of(view, 0);
        along.draw_rate(look, rate, buffer);
        along.draw_memory(look, memory, buffer);
    }
    let walls = selected::walls(view, look, area.width as usize);
    let told = walls.into_iter().chain(selected::line(view, base, look, area.width as usize));
    for (line, row) in told.zip(below.rows()) {
        line.render(row, buffer);
    }
}

fn outline(view: &SweepView, index: usize) -> Option<&Outline> {
    view.sweep.points.get(index)?.outcome.as_ref().ok()
}

/// What is counted a second, and what a step is: of a server the tokens that it answers with, and the reading of the
/// prompts.
fn heads(view: &SweepView) -> (&'static str, &'static str) {
    let answers = (0..view.sweep.points.len()).filter_map(|index| outline(view, index)).any(|one| one.decode.is_some());
    if answers { ("answer/s", "prefill") } else { ("tok/s", "step") }
}

fn fits(outline: &Outline) -> bool {
    outline.capacity.verdict() != Verdict::DoesNotFit
}

fn draw_table(view: &SweepView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let name = if base.is_some() { 16 } else { 18 };
    let label = view.fields.first().map_or("", |field| Field::label(*field));
    let (rate, step) = heads(view);
    // What the step takes follows from the rate: it goes where the marks would be cut.
    let step_width = if base.is_some() && area.width < TABLE + SINCE { 0 } else { STEP };
    let step = if step_width > 0 { step } else { "" };
    let mut head =
        format!("  {}{}{}{}", left(label, name), right("memory", 11), right(rate, 10), right(step, step_width));
    if base.is_some() {
        head += &format!("{}{}", right("Δbase GiB", 11), right("speed", 7));
    }
    let mut lines = vec![Line::styled(head, theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let points = &view.sweep.points;
    for (index, point) in points.iter().enumerate().skip(scroll(view.selected, points.len(), room)).take(room) {
        let chosen = index == view.selected;
        let style = if chosen { theme.selected() } else { theme.text() };
        let mut spans = vec![
            Span::styled(if chosen { "▸ " } else { "  " }, theme.accent()),
            Span::styled(left(&printable(view.sweep.value(point, 0)), name), style),
        ];
        match &point.outcome {
            Ok(outline) => {
                let memory = if fits(outline) { theme.predicted() } else { theme.danger() };
                spans.push(Span::styled(right(&outline.capacity.needed.to_string(), 11), memory));
                spans.push(Span::styled(right(&tokens(throughput(outline)), 10), theme.text()));
                if step_width > 0 {
                    spans.push(Span::styled(right(&outline.time.step.to_string(), step_width), theme.dim()));
                }
                if let Some(base) = base {
                    spans.push(Span::styled(since(base, outline), theme.text()));
                }
                spans.push(Span::styled(format!("  {}", mark(view, index)), theme.warning()));
            }
            Err(why) => {
                let room = (area.width as usize).saturating_sub(name + 5);
                spans.push(Span::styled(format!("  {}", fit(&printable(&why.to_string()), room)), theme.dim()));
            }
        }
        lines.push(Line::from(spans));
    }
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

/// GiB and share of the speed more than in the baseline.
fn since(base: &Baseline, outline: &Outline) -> String {
    let outcome = base.outcome_of(outline);
    format!("{}{}", right(&outcome.memory.in_gib(), 11), right(&signed_percent(outcome.speed), 7))
}

/// What stands at a point: that the plan is it, and the walls.
fn mark(view: &SweepView, index: usize) -> String {
    let marks = view.marks(index);
    let said = [
        (view.now == Some(index), "now"),
        (marks.last_that_fits, "last that fits"),
        (marks.flat, "then flat"),
        (marks.falls, "then falls"),
    ];
    let said: Vec<&str> = said.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect();
    if said.is_empty() { String::new() } else { format!("◂ {}", said.join(", ")) }
}
