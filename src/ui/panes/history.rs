//! What the devices did, over a minute to a day: charts of the selected GPU, a line for each.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span as Text};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke, Points};

use super::history_axis::{full, range, unit, words};
use super::scroll;
use crate::app::{HistorySpan, Monitor, Pane, SelectedRow, State};
use crate::printable::printable;
use crate::reading::{DeviceMetric, DeviceSample, Reading, ReadingKind, Spread};
use crate::ui::Look;
use crate::ui::text::{fit, left, right, width_of};
use crate::units::Bytes;

/// The label and the axis before a chart, and the figures behind it.
const LABEL: u16 = 13;
const FIGURES: u16 = 21;
/// Metrics of the list of GPUs.
const LISTED: usize = 4;
/// A chart lower than this is a smudge.
const LEAST: u16 = 2;

pub fn title(monitor: &Monitor) -> String {
    let every = if monitor.every_device { " · all GPUs" } else { "" };
    let over = monitor.over.map_or_else(String::new, |metric| format!(" · {} over each", metric.word()));
    format!("history · {}{every}{over}", monitor.span.word())
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let devices = state.monitor.devices();
    let charts = DeviceMetric::ALL.len() as u16;
    // Every GPU its line, as long as the first charts keep three rows each.
    let room = (area.height as usize).saturating_sub(2 + 1 + LISTED * 3);
    let rows = if devices.len() > 1 && room >= devices.len().min(3) { devices.len().min(room) } else { 0 };
    let list = if rows > 0 { rows as u16 + 1 } else { 0 };
    let [head, body, axis, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1), Constraint::Length(list)])
            .areas(area);
    draw_head(state, look, head, buffer);
    // Three rows each as far as there are metrics; on a low screen two, so that four are seen.
    let rows = if body.height >= LISTED as u16 * 3 { 3 } else { LEAST };
    let shown = (body.height / rows).clamp(1, charts);
    let places = Layout::vertical((0..shown).map(|_| Constraint::Fill(1))).split(body);
    for (figure, place) in from(state.monitor.metric).zip(places.iter()) {
        draw_chart(state, figure, look, *place, buffer);
    }
    draw_axis(&state.monitor, look, axis, buffer);
    if list > 0 {
        draw_list(state, devices, look, below, buffer);
    }
}

/// Every metric, from one on and round.
fn from(first: DeviceMetric) -> impl Iterator<Item = DeviceMetric> {
    std::iter::successors(Some(first), |metric| Some(metric.next())).take(DeviceMetric::ALL.len())
}

/// Which GPU, which span, and the watermark.
fn draw_head(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let Some(device) = monitor.devices().get(monitor.shown_device()) else { return };
    let mut spans = vec![Text::styled(format!(" GPU {} ", monitor.gpu_name(device)), theme.text())];
    for span in HistorySpan::ALL {
        let (text, style) = if span == monitor.span {
            (format!("‹ {} › ", span.word()), theme.accent())
        } else {
            (format!("{} ", span.word()), theme.dim())
        };
        spans.push(Text::styled(text, style));
    }
    let peak = monitor.peaks.get(monitor.shown_device()).copied().flatten();
    let since = if monitor.attached.is_some() { " since attached" } else { " since the start" };
    let rest = [
        (peak.map(|peak| format!(" peak {peak}")), theme.observed()),
        (peak.map(|_| since.to_owned()), theme.dim()),
        (device.name.value().map(|name| format!("  {}", printable(name))), theme.dim()),
    ];
    for (text, style) in rest {
        let text = text.unwrap_or_default();
        if width_of(&spans) + text.chars().count() > area.width as usize {
            break;
        }
        spans.push(Text::styled(text, style));
    }
    Line::from(spans).render(area, buffer);
}

fn draw_chart(state: &State, figure: DeviceMetric, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let position = monitor.shown_device();
    let Some(device) = monitor.devices().get(position) else { return };
    let [label, plot, figures] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1), Constraint::Length(FIGURES)]).areas(area);
    let whole = monitor.spans.whole(position, monitor.span, figure);
    let seen = seen(monitor, position, figure);
    let (bottom, top) = range(figure, seen);
    for (row, place) in label.rows().enumerate() {
        let name = match row {
            0 => figure.word(),
            1 => unit(figure),
            2 => monitor.over.filter(|over| *over != figure).map_or("", DeviceMetric::word),
            _ => "",
        };
        let mark = if row == 0 {
            words(figure, top)
        } else if row + 1 == label.height as usize {
            words(figure, bottom)
        } else {
            String::new()
        };
        let tick = if mark.is_empty() { "│" } else { "┤" };
        Line::from(vec![
            Text::styled(format!(" {}", left(name, 6)), if row == 0 { theme.text() } else { theme.dim() }),
            Text::styled(format!("{}{tick}", right(&mark, 5)), theme.dim()),
        ])
        .render(place, buffer);
    }
    let now = figure.of_run(monitor.told.as_deref()).unwrap_or_else(|| figure.of(device));
    if let (None, Reading::Absent(why)) = (whole, &now) {
        let why = fit(&format!(" – {}", printable(&why.to_string())), plot.width as usize);
        return Line::styled(why, theme.dim()).render(plot, buffer);
    }
    draw_plot(state, figure, (bottom, top), look, plot, buffer);
    let mark = whole.map_or("", |whole| whole.kind.mark());
    let latest = now.kind().map_or("", ReadingKind::mark);
    let lines = [
        ("now", now.value().copied()),
        ("most", whole.map(|whole| whole.high)),
        ("of", full(state, position, figure)),
        ("mean", whole.map(Spread::mean)),
        ("least", whole.map(|whole| whole.low)),
    ];
    // The dotted line, where there is one.
    let peak = watermark(state, figure).map(|peak| ("peak ┈", Some(peak.as_f64())));
    let known = lines.into_iter().filter(|(word, value)| *word != "of" || value.is_some());
    for ((word, value), place) in known.chain(peak).zip(figures.rows()) {
        // What it can do is no reading.
        let mark = match word {
            "of" => "",
            "now" => latest,
            _ => mark,
        };
        let text = value.map_or_else(|| "–".to_owned(), |value| format!("{mark}{}", words(figure, value)));
        Line::from(vec![
            Text::styled(format!(" {}", left(word, 6)), theme.dim()),
            Text::styled(right(&text, 7), theme.observed()),
            Text::styled(format!(" {}", unit(figure)), theme.dim()),
        ])
        .render(place, buffer);
    }
}

/// The most memory since attached, or since the start.
fn watermark(state: &State, figure: DeviceMetric) -> Option<Bytes> {
    let monitor = &state.monitor;
    monitor.peaks.get(monitor.shown_device()).copied().flatten().filter(|_| figure == DeviceMetric::Memory)
}

/// All that was seen of a metric: of the shown device, or of every one where all are drawn.
fn seen(monitor: &Monitor, position: usize, metric: DeviceMetric) -> Option<Spread> {
    let whole = |device| monitor.spans.whole(device, monitor.span, metric);
    if monitor.every_device {
        (0..monitor.devices().len()).filter_map(whole).reduce(Spread::with)
    } else {
        whole(position)
    }
}

/// From the lowest to the highest of each column, joined with the one before: a peak of a moment is as high as it was.
/// What is drawn over it has its own axis, and ends where this one does.
fn draw_plot(
    state: &State,
    figure: DeviceMetric,
    (bottom, top): (f64, f64),
    look: &Look,
    area: Rect,
    buffer: &mut Buffer,
) {
    let monitor = &state.monitor;
    let position = monitor.shown_device();
    // A braille cell is two dots wide.
    let columns = usize::from(area.width) * 2;
    let of = |device, metric| monitor.spans.columns(device, monitor.span, metric, columns);
    let (colour, guide) = (look.theme.roof_colour(), look.theme.guide_colour());
    let watermark = watermark(state, figure).map(Bytes::as_f64).filter(|peak| (bottom..=top).contains(peak));
    let last = columns.saturating_sub(1) as f64;
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, last])
        .y_bounds([bottom, top.max(f64::MIN_POSITIVE)])
        .paint(|canvas| {
            if let Some(peak) = watermark {
                // Dotted, so that nobody takes it for figures of a time that was not seen.
                let dots: Vec<(f64, f64)> = (0..columns).step_by(6).map(|x| (x as f64, peak)).collect();
                canvas.draw(&Points { coords: &dots, color: guide });
            }
            let mut line = |columns: &[Option<Spread>], colour, place: &dyn Fn(f64) -> f64| {
                let mut before: Option<Spread> = None;
                for (column, spread) in columns.iter().enumerate() {
                    if let Some(spread) = spread {
                        let (mut low, mut high) = (spread.low, spread.high);
                        if let Some(before) = before {
                            (low, high) = (low.min(before.high), high.max(before.low));
                        }
                        let x = column as f64;
                        canvas.draw(&Stroke { x1: x, y1: place(low), x2: x, y2: place(high), color: colour });
                    }
                    before = *spread;
                }
            };
            if monitor.every_device {
                for device in (0..monitor.devices().len()).filter(|device| *device != position) {
                    line(&of(device, figure), guide, &|value| value);
                }
            }
            if let Some(over) = monitor.over.filter(|over| *over != figure) {
                let (low, high) = range(over, monitor.spans.whole(position, monitor.span, over));
                let place = |value: f64| bottom + (value - low) / (high - low) * (top - bottom);
                line(&of(position, over), look.theme.overlay_colour(), &place);
            }
            line(&of(position, figure), colour, &|value| value);
        })
        .render(area, buffer);
}

fn draw_axis(monitor: &Monitor, look: &Look, area: Rect, buffer: &mut Buffer) {
    let [_, plot, _] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1), Constraint::Length(FIGURES)]).areas(area);
    Line::styled(format!("-{}", monitor.span.word()), look.theme.dim()).render(plot, buffer);
    Line::styled("now", look.theme.dim()).right_aligned().render(plot, buffer);
}

/// Every GPU in a line: its figures over the span side by side.
fn draw_list(state: &State, devices: &[DeviceSample], look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let width = (area.width as usize).saturating_sub(7) / LISTED;
    let head: String = from(monitor.metric).take(LISTED).map(|figure| left(figure.word(), width)).collect();
    let mut lines = vec![Line::styled(format!("    #  {head}"), theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let first = scroll(monitor.shown_device(), devices.len(), room);
    for (position, device) in devices.iter().enumerate().skip(first).take(room) {
        look.place_row(area, lines.len(), position);
        let chosen = state.views.focus == Pane::Monitor && monitor.selected == SelectedRow::Device(position);
        let style = if chosen { theme.selected() } else { theme.text() };
        let mark = if chosen { "▸" } else { " " };
        let mut spans = vec![Text::styled(format!("{mark}{:>4}  ", device.label()), style)];
        for figure in from(monitor.metric).take(LISTED) {
            let whole = monitor.spans.whole(position, monitor.span, figure);
            let top = full(state, position, figure).unwrap_or(0.0).max(whole.map_or(0.0, |whole| whole.high));
            let seen = monitor.spans.columns(position, monitor.span, figure, width.saturating_sub(2));
            let highs = seen.into_iter().map(|spread| spread.map(|spread| spread.high));
            spans.push(Text::styled(format!("{}  ", super::sparks(highs, top)), theme.observed()));
        }
        lines.push(Line::from(spans));
    }
    for (line, place) in lines.into_iter().zip(area.rows()) {
        line.render(place, buffer);
    }
}
