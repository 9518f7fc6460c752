//! What the devices did, over a minute to a day: charts of the selected GPU, a line for each.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span as Text};
use ratatui::widgets::Widget;
use ratatui::widgets::canvas::{Canvas, Line as Stroke, Points};

use super::scroll;
use crate::app::{HistorySpan, Monitor, Pane, Plans, SelectedRow, State};
use crate::printable::printable;
use crate::reading::{DeviceMetric, DeviceSample, Reading, Spread};
use crate::ui::Look;
use crate::ui::header::terabytes;
use crate::ui::text::{fit, left, right, width_of};
use crate::units::{Bytes, BytesPerSec, Fraction, Watts};

/// The label and the axis before a chart, and the figures behind it.
const LABEL: u16 = 13;
const FIGURES: u16 = 21;
/// A chart lower than this is a smudge.
const LEAST: u16 = 2;

pub fn title(monitor: &Monitor) -> String {
    format!("history · {}", monitor.span.word())
}

pub fn draw(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let devices = state.monitor.devices();
    let charts = DeviceMetric::ALL.len() as u16;
    // Every GPU its line, as long as the charts keep three rows each.
    let room = (area.height as usize).saturating_sub(2 + 1 + usize::from(charts) * 3);
    let rows = if devices.len() > 1 && room >= devices.len().min(3) { devices.len().min(room) } else { 0 };
    let list = if rows > 0 { rows as u16 + 1 } else { 0 };
    let [head, body, axis, below] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1), Constraint::Length(list)])
            .areas(area);
    draw_head(state, look, head, buffer);
    let shown = (body.height / LEAST).clamp(1, charts);
    let places = Layout::vertical((0..shown).map(|_| Constraint::Fill(1))).split(body);
    for (figure, place) in DeviceMetric::ALL.into_iter().zip(places.iter()) {
        draw_chart(state, figure, look, *place, buffer);
    }
    draw_axis(&state.monitor, look, axis, buffer);
    if list > 0 {
        draw_list(state, devices, look, below, buffer);
    }
}

/// Which GPU, which span, and the watermark.
fn draw_head(state: &State, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let Some(device) = monitor.devices().get(monitor.shown_device()) else { return };
    let mut spans = vec![Text::styled(format!(" GPU {} ", device.index), theme.text())];
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

/// The top of a figure's axis: what the GPU can do, else the highest that was seen.
fn top(plans: &Plans, figure: DeviceMetric, device: &DeviceSample, seen: Option<Spread>) -> f64 {
    let prediction = plans.compared().prediction();
    let full = match figure {
        DeviceMetric::Memory => device.memory.value().map(|memory| memory.total.as_f64()),
        DeviceMetric::Bandwidth => {
            let planned = || prediction.map(|prediction| prediction.roofline.bandwidth.0);
            device.dram_peak.value().map(|peak| peak.0).or_else(planned)
        }
        DeviceMetric::Tensor => Some(1.0),
        DeviceMetric::Power => device.power_limit.value().map(|limit| limit.0),
    };
    let highest = seen.map_or(0.0, |seen| seen.high);
    full.unwrap_or(0.0).max(highest)
}

fn words(figure: DeviceMetric, value: f64) -> String {
    match figure {
        DeviceMetric::Memory => Bytes::from_f64(value).in_gib(),
        DeviceMetric::Bandwidth => terabytes(BytesPerSec(value)),
        DeviceMetric::Tensor => Fraction(value).to_string().replace(' ', ""),
        DeviceMetric::Power => format!("{:.0}", Watts(value).0),
    }
}

const fn unit(figure: DeviceMetric) -> &'static str {
    match figure {
        DeviceMetric::Memory => "GiB",
        DeviceMetric::Bandwidth => "TB/s",
        DeviceMetric::Tensor => "",
        DeviceMetric::Power => "W",
    }
}

fn draw_chart(state: &State, figure: DeviceMetric, look: &Look, area: Rect, buffer: &mut Buffer) {
    let theme = &look.theme;
    let monitor = &state.monitor;
    let position = monitor.shown_device();
    let Some(device) = monitor.devices().get(position) else { return };
    let [label, plot, figures] =
        Layout::horizontal([Constraint::Length(LABEL), Constraint::Fill(1), Constraint::Length(FIGURES)]).areas(area);
    let whole = monitor.spans.whole(position, monitor.span, figure);
    let top = top(&state.plans, figure, device, whole);
    for (row, place) in label.rows().enumerate() {
        let name = match row {
            0 => figure.word(),
            1 => unit(figure),
            _ => "",
        };
        let mark = if row == 0 {
            words(figure, top)
        } else if row + 1 == label.height as usize {
            "0".to_owned()
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
    let now = figure.of(device);
    if let (None, Reading::Absent(why)) = (whole, &now) {
        let why = fit(&format!(" – {}", printable(&why.to_string())), plot.width as usize);
        return Line::styled(why, theme.dim()).render(plot, buffer);
    }
    draw_plot(state, figure, top, look, plot, buffer);
    let mark = whole.map_or("", |whole| whole.kind.mark());
    let lines = [
        ("now", now.value().copied()),
        ("most", whole.map(|whole| whole.high)),
        ("mean", whole.map(Spread::mean)),
        ("least", whole.map(|whole| whole.low)),
    ];
    // The dotted line, where there is one.
    let peak = watermark(state, figure).map(|peak| ("peak ┈", Some(peak.as_f64())));
    for ((word, value), place) in lines.into_iter().chain(peak).zip(figures.rows()) {
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

/// From the lowest to the highest of each column, joined with the one before: a peak of a moment
/// is as high as it was.
fn draw_plot(state: &State, figure: DeviceMetric, top: f64, look: &Look, area: Rect, buffer: &mut Buffer) {
    let monitor = &state.monitor;
    // A braille cell is two dots wide.
    let columns = usize::from(area.width) * 2;
    let seen = monitor.spans.columns(monitor.shown_device(), monitor.span, figure, columns);
    let (colour, guide) = (look.theme.roof_colour(), look.theme.guide_colour());
    let watermark = watermark(state, figure);
    let last = columns.saturating_sub(1) as f64;
    Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([0.0, last])
        .y_bounds([0.0, top.max(f64::MIN_POSITIVE)])
        .paint(|canvas| {
            if let Some(peak) = watermark {
                // Dotted, so that nobody takes it for figures of a time that was not seen.
                let dots: Vec<(f64, f64)> = (0..columns).step_by(6).map(|x| (x as f64, peak.as_f64())).collect();
                canvas.draw(&Points { coords: &dots, color: guide });
            }
            let mut before: Option<Spread> = None;
            for (column, spread) in seen.iter().enumerate() {
                if let Some(spread) = spread {
                    let (mut low, mut high) = (spread.low, spread.high);
                    if let Some(before) = before {
                        (low, high) = (low.min(before.high), high.max(before.low));
                    }
                    let x = column as f64;
                    canvas.draw(&Stroke { x1: x, y1: low, x2: x, y2: high, color: colour });
                }
                before = *spread;
            }
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
    let figures = DeviceMetric::ALL.len();
    let width = (area.width as usize).saturating_sub(5) / figures;
    let head: String = DeviceMetric::ALL.map(|figure| left(figure.word(), width)).concat();
    let mut lines = vec![Line::styled(format!("  #  {head}"), theme.dim())];
    let room = (area.height as usize).saturating_sub(1);
    let first = scroll(monitor.shown_device(), devices.len(), room);
    for (position, device) in devices.iter().enumerate().skip(first).take(room) {
        let chosen = state.views.focus == Pane::Monitor && monitor.selected == SelectedRow::Device(position);
        let style = if chosen { theme.selected() } else { theme.text() };
        let mut spans = vec![Text::styled(format!("{}{:>2}  ", if chosen { "▸" } else { " " }, device.index), style)];
        for figure in DeviceMetric::ALL {
            let whole = monitor.spans.whole(position, monitor.span, figure);
            let top = top(&state.plans, figure, device, whole);
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
