//! A sweep: one key as chart and table, two as a heat map.

mod map;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::chart::{Chart, Mark, Wall, round_up};
use super::header::tokens;
use super::panes::scroll;
use super::picker::in_words;
use super::text::{fit, left, right, signed_percent, wrapped};
use crate::advise::{Capacity, Throughput, Wall as Found, throughput};
use crate::app::{Baseline, Field, SweepView};
use crate::predict::{Outline, Verdict};
use crate::printable::printable;
use crate::units::three_figures;

/// Cells of the table of one key.
const TABLE: u16 = 73;

/// Cells of the two columns of what is more than in the baseline.
const SINCE: u16 = 18;

/// Cells of the column of the step's time.
const STEP: usize = 10;

/// Where the table stands beside its charts: what they need.
const CHARTS: u16 = 40;

/// Lines of the table beside which charts below it are still of use.
const ROWS: u16 = 9;

/// Draws the sweep over the panes, each point against the baseline where there is one.
pub fn draw(view: &SweepView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let names: Vec<&str> = view.fields.iter().map(|field| field.key()).collect();
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(format!(" sweep · {} ", names.join(" × ")), theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let [body, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(4)]).areas(inner);
    if view.fields.len() > 1 {
        map::draw(view, look, body, buffer);
    } else if body.width >= TABLE + CHARTS {
        let wide = base.is_some() && body.width >= TABLE + SINCE + CHARTS;
        let table = if wide { TABLE + SINCE } else { TABLE };
        let [table, charts] = Layout::horizontal([Constraint::Length(table), Constraint::Fill(1)]).areas(body);
        draw_table(view, base, look, table, buffer);
        let halves = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
        draw_charts(view, look, halves, buffer);
    } else {
        let rows = (view.sweep.points.len() as u16 + 1).min(ROWS.max(body.height / 2)).min(body.height / 2);
        let [table, charts] = Layout::vertical([Constraint::Length(rows), Constraint::Fill(1)]).areas(body);
        draw_table(view, base, look, table, buffer);
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
        draw_charts(view, look, halves, buffer);
    }
    draw_selected(view, base, look, below, buffer);
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
                spans.push(Span::styled(format!("  {}", fit(&printable(why), room)), theme.dim()));
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
    let said = [(view.now == Some(index), "now"), (marks.last_that_fits, "memory ends"), (marks.flat, "flat")];
    let said: Vec<&str> = said.into_iter().filter(|(holds, _)| *holds).map(|(_, word)| word).collect();
    if said.is_empty() { String::new() } else { format!("◂ {}", said.join(", ")) }
}

/// Throughput, and memory under the card's size; the walls and the selected point stand in both.
fn draw_charts(view: &SweepView, look: &Look, [upper, lower]: [Rect; 2], buffer: &mut Buffer) {
    let label = view.fields.first().map_or("", |field| Field::label(*field));
    let mut caps: Vec<f64> =
        (0..view.sweep.points.len()).filter_map(|index| Some(outline(view, index)?.capacity.bytes.gib())).collect();
    caps.dedup();
    // Where cards are what varies, each has its own, and the marks tell which fit.
    let cap = caps.first().copied().filter(|_| caps.len() == 1);
    let memory = |outline: &Outline| outline.capacity.needed.gib();
    let rate = chart(view, throughput, tokens, look);
    Chart { title: format!(" {} by {label}", heads(view).0), ..rate }.draw(look, upper, buffer);
    let bytes = chart(view, memory, three_figures, look);
    // What is many times too much need not be told apart: what fits should be.
    let most = cap.map_or(bytes.y.1, |cap| bytes.y.1.clamp(cap, 2.0 * cap));
    let top = round_up(most);
    let level = cap.map(|at| Wall { at, name: format!("card {}", three_figures(at)), left: false });
    Chart { title: format!(" GiB a GPU by {label}"), y: (0.0, top), level, ..bytes }.draw(look, lower, buffer);
}

/// A figure over the values: joined where the values are numbers.
fn chart(view: &SweepView, figure: impl Fn(&Outline) -> f64, label: fn(f64) -> String, look: &Look) -> Chart {
    let theme = &look.theme;
    let points = &view.sweep.points;
    let values: Vec<Option<f64>> = (0..points.len()).map(|index| outline(view, index).map(&figure)).collect();
    let ordered = view.sweep.axes.first().is_some_and(|axis| axis.numbers().is_some());
    let place = |index: usize, value: f64| (index as f64, value);
    let joined = values.windows(2).enumerate().filter_map(|(index, pair)| match pair {
        [Some(from), Some(to)] => Some([place(index, *from), place(index + 1, *to)]),
        _ => None,
    });
    let mut marks: Vec<(usize, Mark)> = values
        .iter()
        .enumerate()
        .filter_map(|(index, value)| {
            let chosen = index == view.selected;
            let (symbol, style) = match outline(view, index).is_some_and(fits) {
                _ if chosen => ("◆", theme.accent()),
                true => ("●", theme.good()),
                false => ("×", theme.danger()),
            };
            Some((index, Mark { at: place(index, (*value)?), symbol, style }))
        })
        .collect();
    // The selected one is over the others, and its name is under the axis before all.
    marks.sort_by_key(|(index, _)| *index == view.selected);
    let mut ticks: Vec<usize> = (0..points.len()).collect();
    ticks.sort_by_key(|index| *index != view.selected);
    let name = |index: usize| printable(view.sweep.value(&points[index], 0));
    Chart {
        title: String::new(),
        x: (-0.5, points.len() as f64 - 0.5),
        y: (0.0, round_up(values.iter().flatten().copied().fold(0.0, f64::max))),
        label,
        ticks: ticks.into_iter().map(|index| (index as f64, name(index))).collect(),
        line: if ordered { joined.collect() } else { Vec::new() },
        stems: !ordered,
        marks: marks.into_iter().map(|(_, mark)| mark).collect(),
        walls: walls(view),
        level: None,
    }
}

/// The walls of a sweep of one key: the memory's between the last that fits and the next.
fn walls(view: &SweepView) -> Vec<Wall> {
    let mut walls = Vec::new();
    for found in &view.sweep.walls {
        if let Capacity::Between { fits, too_large } = found.capacity {
            walls.push(Wall { at: (fits + too_large) as f64 / 2.0, name: "memory".to_owned(), left: true });
        }
        if let Throughput::Flat { from, .. } = found.throughput {
            walls.push(Wall { at: from as f64, name: "flat".to_owned(), left: false });
        }
    }
    walls
}

/// A wall through the selected point, in words.
fn wall_in_words(view: &SweepView, wall: &Found) -> String {
    let value = |index: usize| view.sweep.points.get(index).map_or("", |point| view.sweep.value(point, wall.axis));
    let label = view.fields.get(wall.axis).map_or("", |field| field.label());
    let memory = match wall.capacity {
        Capacity::Between { fits, too_large } => {
            let up = value(fits).parse::<f64>().ok() < value(too_large).parse::<f64>().ok();
            let way = if up { "memory ends at" } else { "memory is enough from" };
            format!("{way} {}", value(fits))
        }
        Capacity::AllFit => "all fit".to_owned(),
        Capacity::NoneFits => "none fits".to_owned(),
    };
    let speed = match wall.throughput {
        Throughput::Flat { from, gain } if gain < 0.0 => format!("throughput ends at {}: more is slower", value(from)),
        Throughput::Flat { from, gain } => {
            format!("throughput flat from {}, more brings {} at most", value(from), signed_percent(gain))
        }
        Throughput::Grows => "throughput grows to the end".to_owned(),
    };
    format!("{label}: {memory}; {speed}")
}

/// The selected point in words.
fn draw_selected(view: &SweepView, base: Option<&Baseline>, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let Some(point) = view.sweep.points.get(view.selected) else { return };
    let values: Vec<String> = view
        .fields
        .iter()
        .enumerate()
        .map(|(axis, field)| format!("{} {}", field.label(), view.sweep.value(point, axis)))
        .collect();
    let (said, style) = match &point.outcome {
        Ok(outline) => {
            let fit = if fits(outline) { "fits" } else { "does not fit" };
            let mfu = outline.time.mfu.map_or_else(String::new, |mfu| format!(", MFU {:.0} %", mfu * 100.0));
            let needed = outline.capacity.needed;
            let rate = tokens(throughput(outline));
            let (unit, of) = (heads(view).0, outline.capacity.bytes.in_gib());
            let to_base =
                base.map(|base| format!("; to base {}", in_words(&base.outcome_of(outline)))).unwrap_or_default();
            (format!("{needed} of {of}, {fit}, {rate} {unit}{mfu}{to_base}"), theme.text())
        }
        Err(why) => (why.clone(), theme.warning()),
    };
    let found: Vec<String> = view.walls_here().map(|wall| wall_in_words(view, wall)).collect();
    let found = if found.is_empty() { "names have no order, and no walls".to_owned() } else { found.join(" │ ") };
    let width = area.width as usize;
    let walls = wrapped(&printable(&found), width.saturating_sub(1), 2);
    let walls = walls.into_iter().map(|line| Line::styled(format!(" {line}"), theme.warning()));
    let text = format!("◆ {}: {said}", values.join(", "));
    let selected = wrapped(&printable(&text), width, 2).into_iter().map(|line| Line::styled(line, style));
    for (line, row) in walls.chain(selected).zip(area.rows()) {
        line.render(row, buffer);
    }
}
