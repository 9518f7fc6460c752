//! A sweep: one key as chart and table, two as a heat map.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::canvas::{Canvas, Line as Stroke};
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::Look;
use super::header::tokens;
use super::panes::scroll;
use super::text::{fit, left, right, wrapped};
use crate::advise::throughput;
use crate::app::{Field, SweepMark, SweepView};
use crate::predict::{Outline, Verdict};
use crate::printable::printable;

/// Cells of the table of one key.
const TABLE: u16 = 73;

/// Cells of a value in the heat map.
const CELL: usize = 9;

/// Draws the sweep over the panes.
pub fn draw(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    Clear.render(area, buffer);
    let names: Vec<&str> = view.fields.iter().map(|field| field.key()).collect();
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(theme.accent())
        .title(Span::styled(format!(" sweep · {} ", names.join(" × ")), theme.accent()));
    let inner = block.inner(area);
    block.render(area, buffer);
    let [body, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(2)]).areas(inner);
    if view.fields.len() > 1 {
        draw_map(view, look, body, buffer);
    } else if body.width >= TABLE + 30 {
        let [table, charts] = Layout::horizontal([Constraint::Length(TABLE), Constraint::Fill(1)]).areas(body);
        draw_table(view, look, table, buffer);
        draw_charts(view, look, charts, buffer);
    } else {
        draw_table(view, look, body, buffer);
    }
    draw_selected(view, look, below, buffer);
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

fn draw_table(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let name = 18;
    let label = view.fields.first().map_or("", |field| Field::label(*field));
    let (rate, step) = heads(view);
    let head = format!("  {}{}{}{}", left(label, name), right("memory", 11), right(rate, 10), right(step, 13));
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
                spans.push(Span::styled(right(&outline.time.step.to_string(), 13), theme.dim()));
                spans.push(Span::styled(format!("  {}", mark(view, index)), theme.warning()));
            }
            Err(why) => spans.push(Span::styled(format!("  {}", fit(&printable(why), 40)), theme.dim())),
        }
        lines.push(Line::from(spans));
    }
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

fn mark(view: &SweepView, index: usize) -> &'static str {
    match view.mark(index) {
        Some(SweepMark::LastThatFits) => "◂ memory ends",
        Some(SweepMark::Flat) => "◂ flat from here",
        None => "",
    }
}

/// Throughput above, memory below under the card's size; the walls and the selected point stand
/// in both.
fn draw_charts(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let [upper, lower] = Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let values = |figure: fn(&Outline) -> f64| -> Vec<Option<f64>> {
        (0..view.sweep.points.len()).map(|index| outline(view, index).map(figure)).collect()
    };
    draw_chart(&format!("throughput, {}", heads(view).0), view, (&values(throughput), &[]), look, upper, buffer);
    // Each point's own: cards may be what varies.
    let caps = values(|outline| outline.capacity.bytes.gib());
    let memory = values(|outline| outline.capacity.needed.gib());
    draw_chart("memory, GiB, under the card's", view, (&memory, &caps), look, lower, buffer);
}

fn draw_chart(
    title: &str,
    view: &SweepView,
    (values, caps): (&[Option<f64>], &[Option<f64>]),
    look: &Look,
    area: Rect,
    buffer: &mut Buffer,
) {
    let theme = &look.theme;
    let [head, plot] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let top = values.iter().chain(caps).flatten().copied().fold(0.0, f64::max) * 1.05;
    Line::styled(format!(" {title}, up to {}", tokens(top)), theme.dim()).render(head, buffer);
    if top <= 0.0 {
        return;
    }
    let last = values.len().saturating_sub(1).max(1) as f64;
    let (line, guide) = (theme.roof_colour(), theme.guide_colour());
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, last])
        .y_bounds([0.0, top])
        .paint(|canvas| {
            for (index, cap) in caps.iter().enumerate().filter_map(|(index, cap)| Some((index as f64, (*cap)?))) {
                let (x1, x2) = ((index - 0.5).max(0.0), (index + 0.5).min(last));
                canvas.draw(&Stroke { x1, y1: cap, x2, y2: cap, color: guide });
            }
            for (index, _) in values.iter().enumerate().filter(|(index, _)| view.mark(*index).is_some()) {
                let x = index as f64;
                canvas.draw(&Stroke { x1: x, y1: 0.0, x2: x, y2: top, color: guide });
            }
            for (index, pair) in values.windows(2).enumerate() {
                if let [Some(from), Some(to)] = pair {
                    let x = index as f64;
                    canvas.draw(&Stroke { x1: x, y1: *from, x2: x + 1.0, y2: *to, color: line });
                }
            }
            if let Some(Some(value)) = values.get(view.selected) {
                canvas.print(view.selected as f64, *value, Span::styled("◆", theme.accent()));
            }
        })
        .render(plot, buffer);
}

/// Rows and columns of the two keys; each cell its throughput, the better the stronger, what
/// does not fit crossed out.
fn draw_map(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let [Some(rows), Some(columns)] = [0, 1].map(|axis| view.sweep.axes.get(axis)) else { return };
    let name = rows.values.iter().map(|value| value.chars().count()).max().unwrap_or(8).clamp(8, 24);
    let wide = columns.values.len();
    let shown = (area.width as usize).saturating_sub(name + 3) / CELL;
    let first_column = scroll(view.selected % wide, wide, shown);
    let room = (area.height as usize).saturating_sub(2);
    let first_row = scroll(view.selected / wide, rows.values.len(), room);
    let best = (0..view.sweep.points.len())
        .filter_map(|index| outline(view, index).filter(|outline| fits(outline)).map(throughput))
        .fold(0.0, f64::max);
    let heads: String = columns.values.iter().skip(first_column).take(shown).map(|value| right(value, CELL)).collect();
    let labels = view.fields.iter().map(|field| field.label()).collect::<Vec<_>>();
    let mut lines = vec![
        Line::styled(
            format!("  {} ↓  {} →   tok/s; × does not fit, underlined: flat from here", labels[0], labels[1]),
            theme.dim(),
        ),
        Line::styled(format!("  {}{heads}", left("", name)), theme.dim()),
    ];
    for (row, value) in rows.values.iter().enumerate().skip(first_row).take(room) {
        let mut spans = vec![Span::styled(format!("  {}", left(&printable(value), name)), theme.text())];
        for column in (first_column..wide).take(shown) {
            let index = row * wide + column;
            let (text, style) = cell(view, index, best, look);
            let flat = view.mark(index) == Some(SweepMark::Flat);
            let style = if flat { style.add_modifier(Modifier::UNDERLINED) } else { style };
            let style = if index == view.selected { style.add_modifier(Modifier::REVERSED) } else { style };
            spans.push(Span::styled(right(&text, CELL), style));
        }
        lines.push(Line::from(spans));
    }
    for (line, row) in lines.into_iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

fn cell(view: &SweepView, index: usize, best: f64, look: &Look) -> (String, Style) {
    let theme = &look.theme;
    match outline(view, index) {
        None => ("–".to_owned(), theme.dim()),
        Some(outline) if !fits(outline) => ("×".to_owned(), theme.danger()),
        Some(outline) => {
            let rate = throughput(outline);
            let style = match rate / best {
                share if share >= 0.95 => theme.good().add_modifier(Modifier::BOLD),
                share if share >= 0.75 => theme.good(),
                share if share >= 0.4 => theme.text(),
                _ => theme.dim(),
            };
            (tokens(rate), style)
        }
    }
}

/// The selected point in words.
fn draw_selected(view: &SweepView, look: &Look, area: Rect, buffer: &mut Buffer) {
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
            (format!("{needed} of {}, {fit}, {rate} tok/s{mfu}", outline.capacity.bytes.in_gib()), theme.text())
        }
        Err(why) => (why.clone(), theme.warning()),
    };
    let text = format!("◆ {}: {said}", values.join(", "));
    for (line, row) in wrapped(&printable(&text), area.width as usize, 2).into_iter().zip(area.rows()) {
        Line::styled(line, style).render(row, buffer);
    }
}
